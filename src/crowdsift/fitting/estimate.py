"""From votes to an estimate: the one function that fits, refits, checks and tuning use."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines import Choice, engine_choice, named_options, opened_engine
from crowdsift.engines.base import Engine
from crowdsift.errors import RequestError
from crowdsift.fitting.rows import VoteRows
from crowdsift.io.items import Gold
from crowdsift.io.resources import require_memory
from crowdsift.models import Estimate, Model
from crowdsift.models.base import mirror
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.numeric import Codes, Vector
from crowdsift.numeric.distributions import LEVEL, half_width
from crowdsift.numeric.likelihoods import smoothing
from crowdsift.numeric.threads import blas_threads, thread_count
from crowdsift.results.fit import Fit
from crowdsift.results.sign import Agreement, gold_differences, signed_without_each
from crowdsift.solvers.convergence import Progress
from crowdsift.solvers.grades import Cuts, Graded, fit_cuts, grade_weights
from crowdsift.votes.comparisons import Comparisons, Grades, encoded_again

MIN_GROUPS = 20  # least groups of dependent votes: with fewer, their effect cannot be estimated
_REWEIGHTINGS = 4  # fits that reweight the pairs of rankings
_SAME_WEIGHT = 1e-3  # change relative to the largest weight below which weights have converged
_LEFT_OUT = 0.2  # share of graded votes for comparing fits with and without grades
_GOLD_FOLDS = 5  # parts of gold, each left out of one fit
MAX_GROUPED_ITEMS = 1_000  # most items in groups; for more, votes in groups get sandwich intervals, or are refused


class Resources(NamedTuple):
    """The engine by name, its options, and the number of threads."""

    engine: str = "auto"
    options: Mapping[str, Any] | None = None
    threads: int | None = None

    @classmethod
    def of(cls, fit: Fit, threads: int | None = None) -> Self:
        """Return the resources of a fit, for fits that check it."""
        given = fit.resources
        return cls(given.get("engine", "auto"), given.get("engine_options"), threads)


class OpenVotes(NamedTuple):
    """Votes on an open engine, in the form that the model needs (`prepared`, with gold)."""

    model: Model
    votes: Comparisons
    prepared: Comparisons
    gold: Gold | None
    engine: Engine
    choice: Choice
    resources: Resources
    cuts: Mapping[str, float] = {}  # cut points of graded answers, for the summary
    notes: tuple[Diagnostic, ...] = ()


@contextmanager
def open_votes(model: Model, votes: Comparisons, resources: Resources, gold: Gold | None = None) -> Iterator[OpenVotes]:
    """Prepare votes for a model and open an engine on them; raise an error if memory is too small."""
    if votes.choices is not None and model.rankings == "reweighted":
        votes = _reweighted(model, votes, resources, gold)
    cuts, notes = dict[str, float](), tuple[Diagnostic, ...]()
    if votes.grades is not None and model.rankings == "reweighted":
        votes, cuts, notes = _with_grades(model, votes, resources, gold)
    prepared = votes.with_gold(gold.winner, gold.loser) if gold is not None and model.takes_gold else votes
    prepared = model.prepare(prepared)
    require_memory(
        0 if prepared.on_disk or prepared.elsewhere is not None else model.memory(prepared),
        f"fitting {model.name} to {len(prepared):,} comparisons",
    )
    name, options, threads = resources
    options = named_options(options)
    choice = engine_choice(name, prepared, options, model.needs, threads)
    with (
        blas_threads(1, dense=thread_count(threads)),
        opened_engine(name, prepared, threads, model.needs, options) as engine,
    ):
        yield OpenVotes(model, votes, prepared, gold, engine, choice, resources, cuts, notes)


def _reweighted(model: Model, votes: Comparisons, resources: Resources, gold: Gold | None) -> Comparisons:
    """Return the pairs of rankings with weights that give them the information of the rankings."""
    assert votes.choices is not None
    scores, slopes = np.zeros(votes.n_items), np.zeros(votes.n_workers)
    plain = replace(votes, choices=None)
    weight = np.zeros(len(votes))
    for left in reversed(range(_REWEIGHTINGS)):
        before, weight = weight, votes.choices.pair_weights(votes, scores, slopes)
        plain = replace(plain, weight=weight.astype(np.float32))
        same = np.abs(weight - before).max() < _SAME_WEIGHT * weight.max()
        if same or not left:
            break
        found = estimate_votes(model.in_one_dimension(), plain, resources, gold)
        scores, count = found.scores, votes.n_workers
        if found.workers.reliability is not None:
            slopes = found.workers.reliability[:count] - found.workers.random_level
    return plain


def _with_grades(
    model: Model, votes: Comparisons, resources: Resources, gold: Gold | None
) -> tuple[Comparisons, dict[str, float], tuple[Diagnostic, ...]]:
    """Return votes with weights that have the gradients of their grades, learned cut points, and notes."""
    rows = Grades.of_votes(votes)
    plain, train = replace(votes, grades=None), np.random.default_rng(0).random(len(rows.level)) >= _LEFT_OUT
    out = rows.select(~train & (rows.level > 0))
    if rows.level.max() < 2 or not train[rows.level > 1].any() or not len(out.level):
        return plain, {}, ()
    part = _reweighted_grades(model, votes, rows.select(train), resources, gold)
    if part is None:
        return plain, {}, ()
    # If grades measure something other than the better item, fits without them predict better.
    found = estimate_votes(model, part.votes, resources, gold)
    lost = _losses(found, out) - _losses(part.binary, out)
    worse = float(np.average(lost, weights=out.weight))
    if worse > half_width(LEVEL) * float(np.sqrt(out.weight**2 @ (lost - worse) ** 2)) / float(out.weight.sum()):
        note = (
            "grades are not used: fits without them, which count an answer as a vote for its side, predict left-out "
            f"votes better (by {worse:.4f} nats a vote)"
        )
        return plain, {}, (Diagnostic(Kind.METHOD, note),)
    whole = _reweighted_grades(model, votes, rows, resources, gold, part._replace(binary=found))
    assert whole is not None
    cuts = whole.cuts
    shown: dict[str, float] = {"cut_point_spread": cuts.variance**0.5}
    for place, (cut, sd) in enumerate(zip(cuts.points.tolist(), cuts.sd.tolist(), strict=True), 1):
        if sd:  # without ties the first cut is 0
            limits = {"": cut, "_lower": cut - half_width(LEVEL) * sd, "_upper": cut + half_width(LEVEL) * sd}
            shown |= {f"cut_point_{place}{name}": value for name, value in limits.items()}
    return whole.votes, shown, ()


class _GradedFit(NamedTuple):
    """Votes with the weights of their grades, the cut points, and the estimate without grades (or to start from)."""

    votes: Comparisons
    cuts: Cuts
    binary: Estimate


def _reweighted_grades(
    model: Model,
    votes: Comparisons,
    rows: Grades,
    resources: Resources,
    gold: Gold | None,
    start: _GradedFit | None = None,
) -> _GradedFit | None:
    """Return the rows weighted by their grades; None if the method estimates too little."""
    # A grade below the highest is a win and, for the rest, a part of a loss.
    tie, cuts, binary = rows.level == 0, None if start is None else start.cuts, None
    level, weight, worker = rows.level, rows.weight.astype(np.float64), rows.worker.astype(np.int64)
    plain = _as_votes(votes, rows[:2], worker, rows.outcome.astype(np.float64), weight)
    for _ in range(_REWEIGHTINGS - 1):
        found = start.binary if start and not binary else estimate_votes(model, plain, resources, gold)
        binary = binary or found
        if found.dimensions is None:
            model = model.in_one_dimension()
        moments = _latent(found, rows)
        if moments is None:
            return None
        own, variance = moments
        eta, won = np.where(rows.outcome == 0.0, -own, own), np.where(tie, own > 0.0, rows.outcome == 1.0)
        cuts = fit_cuts(Graded(eta, level, weight, variance, worker), votes.n_workers, cuts)
        eta = eta * np.exp(cuts.factor[worker])
        own_cuts, width = cuts.of(worker), found.workers.extra.get("tie_width")
        half = own_cuts[:, 0] if width is None else np.nan_to_num(width)[worker]
        weights = grade_weights(eta, level, own_cuts, half, weight, worker)
        pairs = tuple(np.tile(x, 3) for x in rows[:2])
        outcome = np.concatenate([won, ~won, np.full(len(won), 0.5)])
        plain = _as_votes(votes, pairs, np.tile(worker, 3), outcome, weights.ravel())
    assert cuts is not None
    assert binary is not None
    return _GradedFit(plain, cuts, binary)


def _latent(found: Estimate, rows: Grades) -> tuple[Vector, Vector] | None:
    """Return mean and variance of the first item's log odds; None if the method estimates too little."""
    slope, spread = found.workers.reliability, found.workers.reliability_sd
    variance = found.difference_variance(rows.first, rows.second)
    if slope is None or spread is None or variance is None:
        return None
    gap, lean = found.scores[rows.first] - found.scores[rows.second], found.workers.side_bias
    beta, error = slope[rows.worker] - found.workers.random_level, spread[rows.worker] ** 2
    variance = beta**2 * variance + gap**2 * error + variance * error
    own = beta * gap + (0.0 if lean is None else np.nan_to_num(lean)[rows.worker])
    if found.dimensions is not None:
        offset, more = found.dimensions.offsets(rows.worker, rows.first, rows.second)
        own, variance = own + offset, variance + more
    return own, variance


def _losses(found: Estimate, rows: Grades) -> Vector:
    """Return the log loss of the winning side among decided votes."""
    moments = _latent(found, rows)
    assert moments is not None
    eta = np.where(rows.outcome == 1.0, 1.0, -1.0) * moments[0] * smoothing(moments[1])
    width = found.workers.extra.get("tie_width")
    half = 0.0 if width is None else np.nan_to_num(width)[rows.worker]
    return np.asarray(np.log1p(np.exp(np.logaddexp(0.0, half - eta) - np.logaddexp(0.0, half + eta))))


def _as_votes(
    votes: Comparisons, pairs: tuple[NDArray[Any], ...], worker: NDArray[Any], outcome: Vector, weight: Vector
) -> Comparisons:
    """Return other votes on the same items by the same workers."""
    kept = weight > 1e-9
    one, two, who = (column[kept].astype(np.uint32) for column in (*pairs, worker))
    changed = {"first": one, "second": two, "worker": who, "outcome": outcome[kept], "weight": weight[kept]}
    rows = encoded_again(votes.with_features(None), **changed)
    columns = {name: getattr(rows, name) for name in ("first", "second", "outcome", "weight", "offsets", "rows")}
    return replace(votes, **columns, grades=None)


def estimate_model(opened: OpenVotes, start: Any = None, progress: Progress | None = None) -> Estimate:
    """Return the estimate of a model from open votes, from a `Fit`, a checkpoint or a `Start` if given."""
    model, engine = opened.model, opened.engine
    votes = opened.votes if opened.votes.features is None else opened.prepared
    if votes.panels is not None:  # from the beginning: nothing is stored to start from
        from crowdsift.votes.panels import in_panels

        model.refuse_votes(votes)
        name, options, threads = opened.resources

        def by_judge(votes: Comparisons) -> AbstractContextManager[Engine]:
            return opened_engine(name, votes, threads, model.needs, options)

        return model.estimate_trusted(engine, in_panels(opened.prepared), by_judge, progress)
    if start is None:
        return model.estimate_votes(engine, votes, progress)
    if votes.features is not None and model.takes_covariates:
        raise RequestError("a fit with covariates cannot start from an earlier one; omit --start (start=)")
    ranked = votes.choices is not None and model.rankings == "likelihood"
    if votes.item_features is not None or ranked:  # fits with features or rankings start from the beginning
        return model.estimate_votes(engine, votes, progress)
    from crowdsift.fitting.start import starting_point

    return model.resume(engine, starting_point(start, votes, model, opened.gold), progress)


def estimate_votes(model: Model, votes: Comparisons, resources: Resources, gold: Gold | None = None) -> Estimate:
    """Open an engine, estimate a model from votes, and close the engine."""
    with open_votes(model, votes, resources, gold) as opened:
        return estimate_model(opened)


def settled(opened: OpenVotes, found: Estimate) -> tuple[Estimate, Agreement | None]:
    """Centre the scores, set a free sign by gold, and drop gold's rows."""
    # Returns the estimate and, if gold only determines the sign, how gold agrees with the scores.
    model, gold = opened.model, opened.gold
    component = opened.engine.facts.component if found.component is None else found.component
    found = without_gold(found, opened.votes.n_workers)
    found = replace(found, scores=centre(found.scores, component), component=component)
    if found.common is not None and found.common.component is not None:
        common = without_gold(found.common, opened.votes.n_workers)
        about = centre(common.scores, found.common.component)
        found = replace(found, common=replace(common, scores=about))
    if gold is None or model.takes_gold:
        return found, None
    difference = gold_differences(found.scores, component, gold)
    if not model.free_sign:
        return found, Agreement.of(difference)
    if Agreement.of(difference).opposed:
        found = mirror(model, found)
    return found, Agreement.of(signed_without_each(difference))


def gold_left_out(opened: OpenVotes, resources: Resources) -> Agreement | None:
    """Compare gold pairs with scores fitted without them, in at most five folds."""
    gold, model, votes = opened.gold, opened.model, opened.votes
    assert gold is not None
    fold = np.arange(len(gold)) % _GOLD_FOLDS
    difference = np.full(len(gold), np.nan)
    for number in range(min(len(gold), _GOLD_FOLDS)):
        out = fold == number
        rest = None if out.all() else Gold(gold.winner[~out], gold.loser[~out])
        with open_votes(model, votes, resources, rest) as part:
            found = settled(part, estimate_model(part))[0]
        assert found.component is not None
        left_out = Gold(gold.winner[out], gold.loser[out])
        difference[out] = gold_differences(found.scores, found.component, left_out)
    return Agreement.of(difference)


def with_groups(
    opened: OpenVotes, found: Estimate, rows: VoteRows | None, resources: Resources, progress: Progress | None = None
) -> Estimate:
    """Return the estimate with an effect of groups of votes, if the method finds one."""
    model, votes = opened.model, opened.votes
    if rows is None or rows.group is None or not model.takes_groups or opened.gold is not None:
        return found
    model.refuse_votes(votes, dependent=True)
    if votes.item_features is not None or votes.n_items > MAX_GROUPED_ITEMS:
        return found
    if len(np.unique(rows.group)) < MIN_GROUPS:
        return found
    from crowdsift.votes.groups import in_groups

    split = in_groups(
        votes, rows.first, rows.second, rows.worker, rows.outcome, rows.weight, rows.group, resources.threads
    )
    name, options, threads = resources
    with opened_engine(name, split.votes, threads, model.needs, options) as engine:
        grouped = model.estimate_in_groups(engine, split, opened.engine, found, progress)
    return found if grouped is None else settled(opened, grouped)[0]


def centre(scores: Vector, component: Codes) -> Vector:
    """Return scores about the means of their components, if there are several."""
    # A single component is already centred by its method, and keeps its exact bits.
    size = np.bincount(component)
    return scores if len(size) == 1 else np.asarray(scores - (np.bincount(component, scores) / size)[component])


def without_gold(found: Estimate, count: int) -> Estimate:
    """Return the estimate without the rows of gold, which come after the `count` workers."""
    if len(found.theta) <= count:
        return found
    result, points = found.workers, found.points
    workers: dict[str, Any] = {
        entry.name: getattr(result, entry.name)[:count]
        for entry in fields(result)
        if isinstance(getattr(result, entry.name), np.ndarray)
    }
    extra = {name: values[:count] for name, values in result.extra.items()}
    return replace(
        found,
        theta=found.theta[:count],
        points=None if points is None else type(points)(*(x[:count] for x in points)),
        workers=replace(result, extra=extra, **workers),
        covariates=None if found.covariates is None else found.covariates.of(count),
        dimensions=None if found.dimensions is None else found.dimensions.of(count),
    )
