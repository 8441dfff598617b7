"""Continue an earlier run with more votes, and keep sites for a later run.

Whether workers have side biases, and pairs an effect, was decided for the earlier votes. Near the threshold new votes
may change the decision, and the result must equal that of a run from the beginning. So decisions by evidence are made
again.
"""

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.engines.grid import GridSites, SitePass, VoteSites, WorkerTypes
from crowdsift.numeric import Codes, Indices, Mask, Vector
from crowdsift.solvers.convergence import Progress
from crowdsift.solvers.ep.items import Factorisation
from crowdsift.solvers.ep.search import with_terms
from crowdsift.solvers.ep.state import Propagation, SavedSites, Settings, WarmStart
from crowdsift.solvers.ep.terms.base import clearly_better, simpler_unless_worse
from crowdsift.solvers.ep.terms.pair_effect import PairEffect
from crowdsift.solvers.ep.workers import PopulationSide, WorkerPrior

# A tolerance is a root mean square, and the remaining distance is less than the last step: the largest change of a
# score is at most this many tolerances.
_LARGEST = 100.0
# Share of votes in a pass over the workers that have moved most; number of such passes before the first whole pass and
# between whole passes; number of whole passes after which there are none.
_SHARE, _FIRST, _BETWEEN, _SPREADING = 0.1, 4, 1, 4
_FEW = 0.5  # above this share of votes by workers with new votes, whole passes are faster
# Most votes of a fit that keeps its sites: with more, a later run starts from the scores alone.
KEPT_SITES = 2_000_000  # far below the limit of `SavedSites.recoded`, 2³¹ codes


def resume(start: WarmStart, engine: Engine, settings: Settings, progress: Progress | None = None) -> Propagation:
    """Continue an earlier run to its end."""
    # With the sites of earlier votes the cavities of all votes are right at once. Changes spread from the workers with
    # new votes: the first passes take these, the next ones the workers whose differences moved most, the last ones all
    # workers, undamped. The run stops when the largest change of a standardised score is at most 100 tolerances and the
    # root mean square at most 10. Without those sites the first pass computes them from the scores, as in stage 1.
    sites = required(engine.grid).sites(start.prior.types, 2.0)
    run = Propagation.of(
        "warm",
        engine,
        sites,
        start.prior,
        start.means,
        settings,
        progress,
        Factorisation(engine),
        variances=start.variances,
        sides=PopulationSide(start.side),
        pair_effect=start.pair_effect,
    )
    if start.sites is None:
        first, second = sites.pair_posteriors(start.means)[:2]
        sites.set_pair_variances(start.variances[first] + start.variances[second])
        run.iterate()
        run.clip = settings.clip  # a run near its end may begin in stage 2
    else:
        rule = run.rule
        rule.measure = "largest change of a standardised score, or 10 times its root mean square"
        rule.tolerance = _LARGEST * settings.tolerance
        known = carried_over(start.sites, sites.vote_sites(), start.prior.types)
        sites.set_vote_sites(known, len(start.prior.levels))
        run.warm, run.clip = True, settings.clip
        run.receive()
        run.find_items()
        spread = _Spread(run, sites, known)
        spread.from_new()
        spread.whole()
        while not run.done and run.rule.iterations < _SPREADING:
            spread.further(_BETWEEN)
            spread.whole()
    run.complete()
    return run


class _Spread:
    """Passes over only those workers whose differences have moved most since their last pass."""

    def __init__(self, run: Propagation, sites: GridSites, votes: VoteSites) -> None:
        self._run, self._sites, self._votes = run, sites, votes
        self._counts, self._worker = votes.held, worker_codes(votes)
        self._seen = self._now()

    def from_new(self) -> None:
        """Pass over the workers with new votes, which have no sites yet."""
        new = (self._votes.tau == 0.0) & (self._votes.nu == 0.0)
        moving = np.bincount(self._worker, new, len(self._counts)) > 0
        if 0 < self._counts[moving].sum() <= _FEW * len(new):
            self._visit(moving)
            self.further(_FIRST)

    def further(self, parts: int) -> None:
        """Run this number of partial passes over the workers that moved most."""
        for _ in range(parts):
            moved = np.abs(self._now() - self._seen)
            self._visit(_most_moved(moved, self._worker, self._counts))

    def whole(self) -> None:
        """Pass over all workers."""
        self._seen = self._now()
        self._run.iterate()

    def _visit(self, moving: Mask) -> None:
        run = self._run
        self._seen = np.where(moving[self._worker], self._now(), self._seen)
        side = run.sides.prior
        self._sites.update(SitePass(run.prior.levels, run.prior.masses, run.means, side, 1.0, run.clip, None, moving))
        run.receive()
        run.find_items()

    def _now(self) -> Vector:
        return self._run.means[self._votes.winner] - self._run.means[self._votes.loser]


def _most_moved(moved: Vector, worker: Codes, counts: Indices) -> Mask:
    largest = np.zeros(len(counts))
    np.maximum.at(largest, worker, moved)
    order = np.argsort(-largest, kind="stable")
    held = np.cumsum(counts[order])
    chosen = np.zeros(len(counts), bool)
    chosen[order[: 1 + int(np.searchsorted(held, _SHARE * len(worker)))]] = True
    return chosen


def resumed(start: WarmStart, engine: Engine, settings: Settings, progress: Progress | None = None) -> Propagation:
    """Continue an earlier run, with the worker types and the pair effect that the evidence supports."""
    # A term with clear evidence is found to have it within a pass or two.
    run = resume(start, engine, settings, progress)
    if run.prior.types.sides:
        run = _unless_simpler(run, settings)
    elif settings.families[-1].sides:
        run = _unless_richer(run, settings, progress)
    if run.pair_effect:
        return _unless_without_effect(run)
    if start.unfinished:
        return with_terms(run)
    return PairEffect().attempt(run)


def _unless_simpler(run: Propagation, settings: Settings) -> Propagation:
    """Return a run without side biases if it has hardly less evidence or nothing suggests biases."""
    types = settings.families[0]
    if not settings.families[-1].sides:
        simpler = run.simplified(types)
        simpler.complete()
        return simpler
    return simpler_unless_worse(run, run.simplified(types))


def _unless_richer(run: Propagation, settings: Settings, progress: Progress | None) -> Propagation:
    """Return a run with side biases if it has clearly more evidence, otherwise this run."""
    prior = run.prior
    centre = 1.0 if prior.centre is None else prior.centre
    spread = 0.5 if prior.spread is None else prior.spread
    richer = WorkerPrior.start(prior.levels, centre, spread, settings.families[-1])
    side = PopulationSide().prior
    start = WarmStart(run.means, run.variances, richer, side, run.pair_effect)
    found = resume(start, run.engine, settings, progress)
    return found if clearly_better(found, run.evidence[-1]) else run


def _unless_without_effect(run: Propagation) -> Propagation:
    """Return a run without a pair effect if it has hardly less evidence, otherwise this run."""
    trial = run.branch()
    trial.pair_effect = 0.0
    trial.restart()
    found = simpler_unless_worse(run, trial)
    return found if found.settled else run


def worker_codes(votes: VoteSites) -> Codes:
    """Return the worker of every vote."""
    return np.repeat(np.arange(len(votes.held), dtype=np.uint32), votes.held)


def kept_sites(sites: GridSites) -> SavedSites | None:
    """Return the sites of a run; None if there are too many to keep."""
    if sites.n_votes > KEPT_SITES:
        return None
    votes = sites.vote_sites()
    return SavedSites(worker_codes(votes), *votes[1:])


def carried_over(earlier: SavedSites, votes: VoteSites, types: WorkerTypes) -> VoteSites:
    """Return sites for these votes: copied from equal earlier votes, and 0 for new votes."""
    # Votes are equal if worker, winner, loser and tie are the same, and the side of the winner if side biases are
    # fitted. Equal votes have equal sites, so any of them will do.
    n = len(earlier.worker)
    kind = np.concatenate([earlier.kind, votes.kind])
    if not types.sides:
        kind = np.abs(kind)
    now = worker_codes(votes), votes.winner, votes.loser
    worker, winner, loser = (np.concatenate([old, new]) for old, new in zip(earlier[:3], now, strict=True))
    pair = (winner.astype(np.int64) << 32) | loser
    order = np.lexsort((kind, pair, worker))  # stable: earlier votes come before equal new ones
    same = np.ones(len(order), bool)
    for key in (worker, pair, kind):
        same[1:] &= key[order[1:]] == key[order[:-1]]
    same[:1] = False
    leader = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    source = np.empty(len(order), np.int64)
    source[order] = order[leader]
    source = source[n:]
    found = source < n
    values = [
        np.where(found, old[np.minimum(source, n - 1)], np.float32(0.0)) if n else new
        for old, new in zip(earlier[4:8], votes[4:8], strict=True)
    ]
    here = len(votes.held)  # the earlier arrays have extra rows for gold
    return VoteSites._make([*votes[:4], *values, earlier.low[:here], earlier.high[:here]])
