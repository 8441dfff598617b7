"""The table of workers: reliabilities, side biases and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.models.diagnostics import Kind
from crowdsift.numeric.distributions import (
    LEVEL,
    half_width,
    limits_at,
    quantile_distribution,
)
from crowdsift.results.agreement import agreement
from crowdsift.results.item_table import limits
from crowdsift.results.sign import votes_on_gold
from crowdsift.results.tables import Table, whole
from crowdsift.results.verdicts import (
    MIN_SIDE_INFORMATION,
    shares,
    side_information,
    words_of,
)
from crowdsift.results.vote_evidence import vote_evidence
from crowdsift.votes.comparisons import parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.models.base import WorkerEstimate
    from crowdsift.numeric import Vector
    from crowdsift.results.fitted import Fitted
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["side_shares", "worker_table"]


def worker_table(fitted: Fitted) -> Table:
    """The workers, by label; no row where votes have no workers."""
    votes, result = fitted.votes, fitted.estimate.workers
    m = votes.n_workers if votes.has_workers else 0
    nothing = np.full(m, np.nan)
    reliability = nothing if result.reliability is None else result.reliability
    lower, upper = _reliability_limits(result, reliability, fitted.level)
    side = nothing if result.side_bias is None else result.side_bias
    side_lower, side_upper = limits(side, result.side_sd, fitted.level)
    lower, upper = np.fmin(lower, reliability), np.fmax(upper, reliability)  # of skewed posteriors
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
    verdict, judged = _judged(fitted, table, left_share, decided)
    extra = {**result.extra, **judged}
    if votes.has_workers and votes.sides_known and votes.elsewhere is None:
        extra["left_share"] = left_share
    if votes.has_workers and votes.ties_are_outcomes:
        extra["tie_rate"] = fitted.tie_rates[0]
    if m and fitted.known is not None and votes.elsewhere is None:
        number, share = votes_on_gold(votes, fitted.known)
        extra |= {"gold_votes": whole(number), "gold_agreement": share}
    return Table({**table, "verdict": verdict, **extra})


def _reliability_limits(
    result: WorkerEstimate, reliability: Vector, level: float
) -> tuple[Vector, Vector]:
    """Limits from the posterior where there is one; a wider interval holds that of 90 %."""
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
    """Return the share of the left item among each worker's decided votes, and their number.

    Shares are NaN where sides are unknown; without votes the numbers are 0.
    """
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


def _judged(
    fitted: Fitted, table: Table, left_share: Vector, decided: Vector
) -> tuple[NDArray[np.object_], dict[str, Vector]]:
    """Return verdicts and the probabilities behind them; empty words where a method has none."""
    result, count = fitted.estimate.workers, table.height
    if result.reliability is None or result.reliability_sd is None or not count:
        return np.full(count, "", dtype=object), {}
    level, evidence, typical = result.random_level, result.class_evidence, result.typical
    columns: dict[str, Vector] = {}
    if evidence is None or typical is None:
        evidence, typical, masses = _by_votes(fitted)
        adversarial, random, reliable = masses[:, :3].T
        if masses.shape[1] > 3:
            columns["p_one_sided"] = masses[:, 3]
    else:
        assert result.quantiles is not None
        adversarial, random, reliable = shares(
            quantile_distribution(result.quantiles - level), typical
        )
        if result.one_sided is not None:
            columns["p_one_sided"] = result.one_sided
    columns |= {"p_reliable": reliable, "p_random": random, "p_adversarial": adversarial}
    if _nothing_known(fitted) or (
        fitted.known is None and not (table["lower"] > level).any()
    ):  # nobody to measure by
        return np.full(count, "undecided", dtype=object), columns
    usual = _reliability_limits(result, result.reliability, LEVEL)
    intervals = [(low - level, high - level) for low, high in
                 ((table["lower"], table["upper"]), usual)]  # fmt: skip
    right = 1.0 if fitted.stated_sign is None else fitted.stated_sign.probability
    useful = right * reliable + (1.0 - right) * adversarial  # with the other sign these are useful
    words = words_of(
        evidence, useful, typical, intervals, decided, table["agreement"], left_share,
        _one_sided(fitted),
    )  # fmt: skip
    return words, columns


def _nothing_known(fitted: Fitted) -> bool:
    """Return whether votes hold no information, or none that could be compared."""
    if any(each.kind is Kind.INFORMATION for each in fitted.estimate.diagnostics):
        return True
    return fitted.compared_once and fitted.estimate.features is None


def _by_votes(fitted: Fitted) -> tuple[Vector, float, Vector]:
    """Return evidence, typical reliability and class probabilities; no evidence where unknown."""
    found = vote_evidence(fitted)
    if found is not None:
        return found.evidence, found.typical, found.posterior
    none = np.zeros((fitted.votes.n_workers, 3))
    return none, np.inf, none + np.array([0.0, 1.0, 0.0])


def _one_sided(fitted: Fitted) -> NDArray[np.bool_]:
    """Return whose side bias leaves too little information, at its limit nearer to 0 as well."""
    result, scores = fitted.estimate.workers, fitted.estimate.scores
    assert result.reliability is not None
    if result.side_bias is None or result.side_sd is None:
        return np.zeros(len(result.reliability), bool)
    spread = 2.0 * float(np.mean((scores - scores.mean()) ** 2))
    half = half_width(max(fitted.level, LEVEL)) * result.side_sd
    least = np.maximum(np.abs(result.side_bias) - half, 0.0)
    left = side_information(result.reliability - result.random_level, least, spread)
    return np.asarray(left < MIN_SIDE_INFORMATION)
