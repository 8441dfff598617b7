"""Make a `Fit` from an estimate: tables of items and workers, summary, posterior."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.io.items import Gold
from crowdsift.models import Estimate, Model
from crowdsift.models.base import SavedSites, SignSupport, WorkerEstimate, WorkerPoints
from crowdsift.models.diagnostics import Kind
from crowdsift.numeric import Codes, Indices, Mask, Vector
from crowdsift.numeric.distributions import (
    LEVEL,
    half_width,
    limits,
    limits_at,
    normal_share,
    quantile_distribution,
    share_above,
)
from crowdsift.results.feature_table import coefficient_table
from crowdsift.results.fit import Fit, Posterior
from crowdsift.results.ranking import rank_limits, ranks, table_order
from crowdsift.results.sign import Agreement, votes_on_gold
from crowdsift.results.summary import diagnose, gold_to_check, separation_of, summary
from crowdsift.results.tables import Table, whole
from crowdsift.results.verdicts import (
    MIN_SIDE_INFORMATION,
    agreement,
    class_shares,
    for_models,
    shares,
    side_information,
    suggestions,
    vote_evidence,
    words_of,
)
from crowdsift.votes.comparisons import Comparisons, Tally, parts, tally, tally_of
from crowdsift.votes.labels import as_column, context_names, context_parts
from crowdsift.votes.outcomes import tie_rates


@dataclass(frozen=True, eq=False)
class FitBuilder:
    """Build a `Fit` from votes, a model and the estimate; counts and ranks are computed once.

    `gold`: the agreement of gold pairs with scores found without them; None if it was not measured; `known`: the gold
    pairs themselves.
    """

    votes: Comparisons
    model: Model
    estimate: Estimate
    gold: Agreement | None = None
    level: float = LEVEL  # of intervals
    seed: int = 0
    threads: int | None = None
    engine: tuple[str, str] = ("", "")  # the engine that ran, and why
    tally: Callable[[Vector], Any] | None = None  # counts votes whose rows are on other machines
    known: Gold | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)  # for refits

    def build(self, passes: float, started: float) -> Fit:
        """Return the fit: tables, summary and posterior."""
        votes, estimate = self.votes, self.estimate
        items, workers = item_table(self), worker_table(self)
        found, needed = diagnose(self)
        result = summary(self, found, needed, passes, time.perf_counter() - started)
        separated = separation_of(items, self.model.name, self.level)
        result["separation_reliability"] = None if separated is None else separated.reliability
        nothing = {each.kind for each in found} & {Kind.INFORMATION, Kind.DIRECTION}
        alone = self.known is None and votes.panels is None and self.model.name == "sift"
        if alone and len(workers["worker"]) > 1 and separated is not None and not nothing:
            result["gold_to_check"] = gold_to_check(separated.reliability)
        quantiles, points, apart = estimate.workers.quantiles, estimate.points, estimate.in_context
        return Fit(
            item_table=items,
            worker_table=workers,
            summary=result,
            parameters=self.model.parameters(),
            trace=tuple(estimate.trace),
            diagnostics=tuple(found),
            backend=votes.backend,
            population=estimate.population,
            features=estimate.features,
            coefficient_table=None if estimate.covariates is None else coefficient_table(self),
            sites=_sites(self),
            panel_biases=_panel_biases(self),
            votes=votes if votes.elsewhere is None else None,
            gold=None if self.known is None else self.known.labels(votes.items),
            posterior=Posterior(
                votes.items,
                self.score_sd,
                estimate.covariance,
                None if quantiles is None else _single(quantiles),
                None if points is None else _rounded(points),
                None if apart is None else apart._replace(points=_rounded(apart.points)),
                estimate.dimensions,
            ),
            resources=self.resources,
        )

    @property
    def component(self) -> Codes:
        """Return the connected component of every item, by code."""
        assert self.estimate.component is not None
        return self.estimate.component

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Return the codes of items in the order of their table."""
        return table_order(self.estimate.scores, self.component)

    @cached_property
    def rank(self) -> Indices:
        """Return the rank of every item within its component, by code."""
        return ranks(self.estimate.scores, self.component, self.order)

    @cached_property
    def counted(self) -> Tally:
        """Return the counts of the votes."""
        if self.votes.elsewhere is not None:
            assert self.tally is not None
            return tally_of(self.tally(self.rank.astype(np.float64)))
        return tally(self.votes, self.rank, self.threads)

    @cached_property
    def tie_rates(self) -> tuple[Vector, float]:
        """Return the tie rate of every worker, and the tie rate of all together."""
        return tie_rates(self.votes)

    @cached_property
    def score_sd(self) -> Vector | None:
        """Return the standard deviations of the scores, by code."""
        estimate = self.estimate
        if estimate.covariance is None:
            return estimate.score_sd
        return estimate.covariance.deviations(estimate.score_sd)

    @cached_property
    def sign(self) -> SignSupport | None:
        """Return how clearly the workers determine the sign; None if the method does not estimate this."""
        if self.estimate.sign is not None:
            return self.estimate.sign
        return self.estimate.workers.sign_support(self.votes.loads)

    @cached_property
    def stated_sign(self) -> SignSupport | None:
        """Return the workers' support of the sign if they alone determine it; else None."""
        known = self.known is not None or self.votes.panels is not None  # trusted workers determine it
        free = self.model.free_sign and not known and self.estimate.scores.any()
        return self.sign if free else None

    @cached_property
    def compared_once(self) -> bool:
        """Return whether no item is in two votes, so that votes cannot be compared with each other."""
        votes = self.votes
        if 2 * len(votes) > votes.n_items:  # a vote has two items: some item occurs twice
            return False
        if votes.elsewhere is not None:
            return bool(self.counted.appearances.max() <= 1)
        rows = sum(np.bincount(codes, minlength=1).max() for codes in (votes.first, votes.second))
        if rows > 2:
            return False
        both = np.concatenate([votes.first, votes.second])
        return bool(np.bincount(both).max() <= 1)


def _panel_biases(fitted: FitBuilder) -> Table | None:
    if fitted.estimate.panels is None:
        return None
    from crowdsift.results.panels import panel_table

    return panel_table(fitted)


def _single(values: Vector) -> Vector:
    """Return values in single precision, as saved fits have them, so that loaded fits are equal."""
    return values.astype(np.float32).astype(np.float64)


def _rounded(points: WorkerPoints) -> WorkerPoints:
    return WorkerPoints(*map(_single, points))


def _sites(fitted: FitBuilder) -> SavedSites | None:
    sites, count = fitted.estimate.sites, fitted.votes.n_workers + 1
    return None if sites is None else sites.recoded(np.argsort(fitted.order), np.arange(count), count)


def item_table(fitted: FitBuilder) -> Table:
    """Return the table of items, the best first within every component."""
    votes, estimate, counted = fitted.votes, fitted.estimate, fitted.counted
    count, sd = counted.appearances, fitted.score_sd
    lower, upper = limits(estimate.scores, sd, fitted.level)
    lower[count == 0] = upper[count == 0] = np.nan
    best = worst = np.full(votes.n_items, np.nan)
    if sd is not None:
        blocks = () if estimate.covariance is None else estimate.covariance.blocks
        found = rank_limits(estimate.scores, sd, blocks, fitted.component, fitted.seed, fitted.level)
        known = (count > 0) & np.isfinite(sd)
        best, worst = (np.where(known, limit, np.nan) for limit in found)
    columns: dict[str, NDArray[Any]] = {
        **_labels(votes),
        "score": estimate.scores,
        "lower": lower,
        "upper": upper,
        "rank": fitted.rank,
        "rank_lower": whole(best),
        "rank_upper": whole(worst),
        "comparisons": whole(count),
        "component": fitted.component.astype(np.int64) + 1,
    }
    if estimate.covariates is not None and estimate.covariates.names:
        columns["score_as_is"] = estimate.covariates.as_they_are(estimate.scores)
    if estimate.dimensions is not None:
        from crowdsift.results.dimensions import position_columns

        columns |= position_columns(estimate.dimensions, fitted.level, count == 0)
    if (counted.flags != "").any():
        columns["flag"] = counted.flags
    return Table({name: column[fitted.order] for name, column in columns.items()})


def _labels(votes: Comparisons) -> dict[str, NDArray[Any]]:
    if not votes.by:
        return {"item": votes.items}
    parts = map(as_column, context_parts(votes.items, votes.by))
    return dict(zip((*context_names(votes.by), "item"), parts, strict=True))


def worker_table(fitted: FitBuilder) -> Table:
    """Return the table of workers by label; empty if votes have no workers."""
    votes, result = fitted.votes, fitted.estimate.workers
    m = votes.n_workers if votes.has_workers else 0
    nothing = np.full(m, np.nan)
    reliability = nothing if result.reliability is None else result.reliability
    lower, upper = _reliability_limits(result, reliability, fitted.level)
    side = nothing if result.side_bias is None else result.side_bias
    side_lower, side_upper = limits(side, result.side_sd, fitted.level)
    lower, upper = np.fmin(lower, reliability), np.fmax(upper, reliability)  # for skewed posteriors
    if result.one_sided is not None:  # votes that ignore the items contain no information about reliability
        lower, upper = (np.where(result.one_sided > 0.5, np.nan, end) for end in (lower, upper))
    table = Table(
        {
            "worker": votes.workers[:m],
            "reliability": reliability,
            "lower": lower,
            "upper": upper,
            "side_bias": side,
            "side_lower": side_lower,
            "side_upper": side_upper,
            "comparisons": whole(fitted.votes.loads[:m]),
            "agreement": agreement(fitted)[:m] if m else nothing,
        }
    )
    left_share, decided = side_shares(votes, m)
    if votes.elsewhere is not None:
        decided = fitted.votes.loads[:m]
    extra = {**result.extra, **_judged(fitted, table, left_share, decided)}
    if "suggestion" in extra:
        extra["suggestion"] = for_models(extra["suggestion"], table["worker"].tolist(), votes.panels is not None)
    if fitted.estimate.dimensions is not None and m:
        from crowdsift.results.dimensions import weight_columns

        extra |= weight_columns(fitted.estimate.dimensions, fitted.level)
    if votes.has_workers and votes.sides_known and votes.elsewhere is None:
        extra["left_share"] = left_share
    if votes.has_workers and votes.ties_are_outcomes:
        extra["tie_rate"] = fitted.tie_rates[0]
    if m and votes.panels is not None:
        extra["panel"] = votes.panels.names(votes)
    if m and fitted.known is not None and votes.elsewhere is None:
        number, share = votes_on_gold(votes, fitted.known)
        extra |= {"gold_votes": whole(number), "gold_agreement": share}
    return Table({**table, "verdict": extra.pop("verdict"), **extra})


def _reliability_limits(result: WorkerEstimate, reliability: Vector, level: float) -> tuple[Vector, Vector]:
    """Return limits from the posterior if there is one; an interval of a higher level contains the 90 % interval."""
    low, high = result.reliability_lower, result.reliability_upper
    if low is None or high is None:
        return limits(reliability, result.reliability_sd, level)
    if level == LEVEL or result.quantiles is None:
        return low, high
    lower, upper = limits_at(level, result.quantiles)
    if level > LEVEL:
        return np.minimum(lower, low), np.maximum(upper, high)
    return np.maximum(lower, low), np.minimum(upper, high)


def side_shares(votes: Comparisons | None, workers: int) -> tuple[Vector, Vector]:
    """Return the share of the left item among each worker's decided votes, and their number."""
    # Shares are NaN if sides are unknown; without votes the numbers are 0.
    left, decided = np.zeros(workers), np.zeros(workers)
    share = np.full(workers, np.nan)
    if votes is None or votes.elsewhere is not None or not votes.has_workers:
        return share, decided
    for rows in parts(*votes.columns):
        ends = np.clip(votes.offsets, rows.start, rows.stop)
        worker = np.repeat(np.arange(workers), np.diff(ends))
        outcome = votes.outcome[rows]
        counted = votes.weight[rows] * (outcome != 0.5)
        decided += np.bincount(worker, counted, workers)
        left += np.bincount(worker, counted * (outcome > 0.5), workers)
    if votes.sides_known:
        np.divide(left, decided, out=share, where=decided > 0)
    return share, decided


def _judged(fitted: FitBuilder, table: Table, left_share: Vector, decided: Vector) -> dict[str, NDArray[Any]]:
    result, count = fitted.estimate.workers, table.height
    if result.reliability is None or result.reliability_sd is None or not count:
        return {"verdict": np.full(count, "", dtype=object)}
    level, evidence, typical = result.random_level, result.class_evidence, result.typical
    usual = _reliability_limits(result, result.reliability, LEVEL)
    intervals = [(low - level, high - level) for low, high in ((table["lower"], table["upper"]), usual)]
    above, sided = _above_random(result, intervals, fitted.level), np.zeros(count)
    columns: dict[str, NDArray[Any]] = {
        "verdict": np.full(count, "undecided", dtype=object),
        "suggestion": np.full(count, "pay", dtype=object),
        "p_above_random": above,
    }
    found = fitted.estimate.dimensions
    if evidence is None or typical is None:
        evidence, typical, masses = _by_votes(fitted)
        adversarial, random, reliable = masses[:, :3].T
        if masses.shape[1] > 3:
            sided = masses[:, 3]
    else:
        assert result.quantiles is not None
        if result.one_sided is not None:
            sided = columns["p_ignores_items"] = np.minimum(result.one_sided, 1.0)
        if found is None:
            adversarial, random, reliable = shares(quantile_distribution(result.quantiles - level), typical)
        else:  # in several dimensions, a reliability of 0 does not mean random votes
            if not found.has_common:  # then mirrored workers are as good as others
                evidence = np.column_stack([np.full(count, -np.inf), evidence[:, 1:]])
            adversarial, random, reliable = class_shares(evidence[:, :3]).T * (1.0 - sided)
    alone = fitted.known is None and found is None and not (table["lower"] > level).any()
    if _nothing_known(fitted) or alone:  # there is no worker to compare with
        return columns
    right = 1.0 if fitted.stated_sign is None else fitted.stated_sign.probability
    useful = right * reliable + (1.0 - right) * adversarial  # with the other sign these are the useful ones
    # Of two voters, neither differs from most.
    differs = None if found is None else found.distinct * (found.direction != "common" or (decided > 0.0).sum() > 2)
    words = words_of(
        evidence, useful, typical, intervals, decided, table["agreement"], left_share, _one_sided(fitted), differs
    )
    sure = {"random": random, "one-sided": sided, "adversarial": adversarial}
    suggestion = suggestions(words, sure, table["comparisons"].astype(np.float64), above)
    return columns | {"verdict": words, "suggestion": suggestion}


def _above_random(result: WorkerEstimate, intervals: Sequence[tuple[Vector, Vector]], level: float) -> Vector:
    """Return P(reliability above that of random clicks), consistent with the intervals shown."""
    assert result.reliability is not None
    assert result.reliability_sd is not None
    if result.quantiles is not None:
        found = share_above(result.random_level, result.quantiles)
    else:
        distance = result.reliability - result.random_level
        found = normal_share(distance / np.maximum(result.reliability_sd, 1e-300))
    for (lower, upper), share in zip(intervals, (level, LEVEL), strict=True):
        tail, above, below = 0.5 - 0.5 * share, lower > 0.0, upper < 0.0
        least = np.where(above, 1.0 - tail, np.where(below, 0.0, tail))
        found = np.clip(found, least, np.where(below, tail, np.where(above, 1.0, 1.0 - tail)))
    return np.where(np.isfinite(intervals[0][0]), found, np.nan)


def _nothing_known(fitted: FitBuilder) -> bool:
    """Return whether votes contain no information, or none that could be compared."""
    if any(each.kind is Kind.INFORMATION for each in fitted.estimate.diagnostics):
        return True
    return fitted.compared_once and fitted.estimate.features is None


def _by_votes(fitted: FitBuilder) -> tuple[Vector, float, Vector]:
    """Return evidence, typical reliability and class probabilities; the evidence is None if unknown."""
    found = vote_evidence(fitted)
    if found is not None:
        return found.evidence, found.typical, found.posterior
    none = np.zeros((fitted.votes.n_workers, 3))
    return none, np.inf, none + np.array([0.0, 1.0, 0.0])


def _one_sided(fitted: FitBuilder) -> Mask:
    """Return the workers whose side bias leaves too little information, even at its limit closest to 0."""
    result, scores = fitted.estimate.workers, fitted.estimate.scores
    assert result.reliability is not None
    if result.side_bias is None or result.side_sd is None:
        return np.zeros(len(result.reliability), bool)
    spread = 2.0 * float(np.mean((scores - scores.mean()) ** 2))
    half = half_width(max(fitted.level, LEVEL)) * result.side_sd
    least = np.maximum(np.abs(result.side_bias) - half, 0.0)
    left = side_information(result.reliability - result.random_level, least, spread)
    return np.asarray(left < MIN_SIDE_INFORMATION)
