"""The table of workers: reliabilities, side biases and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.models.diagnostics import Kind
from crowdsift.numeric.distributions import (
    LEVEL,
    limits_at,
    normal_distribution,
    quantile_distribution,
)
from crowdsift.results.agreement import agreement
from crowdsift.results.item_table import limits
from crowdsift.results.tables import Table, whole
from crowdsift.results.verdicts import shares, verdicts, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.models.base import WorkerEstimate
    from crowdsift.numeric import Vector
    from crowdsift.results.fitted import Fitted

__all__ = ["worker_table"]


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
    verdict, judged = _judged(fitted, m)
    extra = {**result.extra, **judged}
    if votes.has_workers and votes.ties_are_outcomes:
        extra["tie_rate"] = fitted.tie_rates[0]
    return Table(
        {
            "worker": votes.workers[:m],
            "reliability": reliability,
            "lower": lower,
            "upper": upper,
            "side_bias": side,
            "side_lower": side_lower,
            "side_upper": side_upper,
            "comparisons": whole(fitted.loads[:m]),
            "agreement": agreement(fitted)[:m] if m else nothing,
            "verdict": verdict,
            **extra,
        }
    )


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


def _judged(fitted: Fitted, count: int) -> tuple[NDArray[np.object_], dict[str, Vector]]:
    """The verdicts and the probabilities behind them; empty words where a method gives none."""
    result, words = fitted.estimate.workers, np.full(count, "", dtype=object)
    if result.reliability is None or result.reliability_sd is None:
        return words, {}
    level, columns = result.random_level, {}
    if result.quantiles is None:
        below = normal_distribution(result.reliability - level, result.reliability_sd)
    else:
        below = quantile_distribution(result.quantiles - level)
    if result.one_sided is not None:
        columns["p_one_sided"] = result.one_sided
    if result.class_evidence is not None and result.typical is not None:
        highest = result.reliability_upper  # with 90 %, whatever the level of the tables
        upper = result.reliability if highest is None else highest
        adversarial, random, reliable = shares(below, result.typical)
        words = words_of(result.class_evidence, upper, result.typical, reliable)
    else:
        words, adversarial, random, reliable = verdicts(
            result.reliability - level, below, fitted.gold is not None
        )
    nothing = any(each.kind is Kind.INFORMATION for each in fitted.estimate.diagnostics)
    if nothing or (fitted.compared_once and fitted.estimate.features is None):
        words = np.full(count, "undecided", dtype=object)
    return words, {
        **columns,
        "p_reliable": reliable,
        "p_random": random,
        "p_adversarial": adversarial,
    }
