"""Expectation propagation from where an earlier run ended, with votes that are new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import required
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.ep.kept_sites import carried_over, worker_codes
from crowdsift.solvers.ep.run import complete
from crowdsift.solvers.ep.side_prior import PopulationSide
from crowdsift.solvers.ep.state import Propagation
from crowdsift.solvers.ep.variances import Factorisation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import GridSites, SidePrior, VoteSites
    from crowdsift.numeric import Vector
    from crowdsift.solvers.convergence import Progress
    from crowdsift.solvers.ep.kept_sites import SavedSites
    from crowdsift.solvers.ep.state import Settings
    from crowdsift.solvers.ep.worker_prior import WorkerPrior

__all__ = ["WarmStart", "resume"]

# A tolerance is a root mean square, and what is left to go is less than the last step: the largest
# change of a score is at most so many tolerances.
_LARGEST = 100.0
# Passes over the workers that have moved most are of this share of the votes; how many come before
# the first whole pass and between the whole ones, and after how many of those no more.
_SHARE, _FIRST, _BETWEEN, _SPREADING = 0.1, 4, 1, 4
_FEW = 0.5  # of the votes may be those of workers with new ones; else whole passes do better


@dataclass(frozen=True)
class WarmStart:
    """Where an earlier run ended: scores, their variances, and what it learned of the crowd.

    `sites` are those of its votes where they were kept, in the codes of the votes at hand.
    """

    means: Vector
    variances: Vector
    prior: WorkerPrior
    side: SidePrior
    pair_effect: float = 0.0
    sites: SavedSites | None = None
    unfinished: bool = False  # cut short, before contexts and effects of pairs were tried


def resume(
    start: WarmStart, engine: Engine, settings: Settings, progress: Progress | None = None
) -> Propagation:
    """The run that goes on from an earlier one, to its end.

    With the sites of earlier votes the cavities of all votes are right at once, and what is new
    spreads from the workers who gave new votes: they are passed over first, then those whose
    differences have moved most, then all, undamped. It stops where the largest change of a
    standardised score is at most 100 tolerances and the root mean square at most 10.

    Without those sites the first pass makes them anew from the scores, as if in stage 1.
    """
    sites = required(engine.grid).sites(start.prior.types, 2.0)
    rule = StoppingRule("change of the standardised scores", settings.tolerance,
                        settings.most_iterations, progress)  # fmt: skip
    run = Propagation("warm", engine, sites, start.prior, start.means, settings, rule,
                      system=sites.system(sites.pair_sums(), start.pair_effect),
                      variances=start.variances, factorisation=Factorisation(engine),
                      sides=PopulationSide(start.side), pair_effect=start.pair_effect)  # fmt: skip
    if start.sites is None:
        first, second = sites.pair_posteriors(start.means)[:2]
        sites.set_pair_variances(start.variances[first] + start.variances[second])
        run.iterate()
        run.clip = settings.clip  # near its end a run may be in stage 2 at once
    else:
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
    complete(run)
    return run


class _Spread:
    """Passes over those workers alone whose differences have moved most since they were seen."""

    def __init__(self, run: Propagation, sites: GridSites, votes: VoteSites) -> None:
        self._run, self._sites, self._votes = run, sites, votes
        self._counts, self._worker = votes.held, worker_codes(votes)
        self._seen = self._now()

    def from_new(self) -> None:
        """First the workers with new votes, which have no sites yet."""
        new = (self._votes.tau == 0.0) & (self._votes.nu == 0.0)
        moving = np.bincount(self._worker, new, len(self._counts)) > 0
        if 0 < self._counts[moving].sum() <= _FEW * len(new):
            self._visit(moving)
            self.further(_FIRST)

    def further(self, parts: int) -> None:
        """So many parts of a pass."""
        for _ in range(parts):
            moved = np.abs(self._now() - self._seen)
            self._visit(_most_moved(moved, self._worker, self._counts))

    def whole(self) -> None:
        """A pass over all."""
        self._seen = self._now()
        self._run.iterate()

    def _visit(self, moving: NDArray[np.bool_]) -> None:
        run = self._run
        self._seen = np.where(moving[self._worker], self._now(), self._seen)
        self._sites.update(run.prior.levels, run.prior.masses, run.means, damping=1.0,
                           clip=run.clip, side=run.sides.prior, workers=moving)  # fmt: skip
        run.receive()
        run.find_items()

    def _now(self) -> Vector:
        return self._run.means[self._votes.winner] - self._run.means[self._votes.loser]


def _most_moved(
    moved: Vector, worker: NDArray[np.uint32], counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Workers by the largest of their moves, until they hold the share of the votes."""
    largest = np.zeros(len(counts))
    np.maximum.at(largest, worker, moved)
    order = np.argsort(-largest, kind="stable")
    held = np.cumsum(counts[order])
    chosen = np.zeros(len(counts), bool)
    chosen[order[: 1 + int(np.searchsorted(held, _SHARE * len(worker)))]] = True
    return chosen
