"""The table of workers: reliabilities, side habits and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.distributions import (
    LEVEL,
    limits_at,
    normal_distribution,
    quantile_distribution,
)
from crowdsift.results.item_table import limits
from crowdsift.results.tables import Table, whole
from crowdsift.results.verdicts import verdicts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.models.base import WorkerEstimate
    from crowdsift.numeric import Vector
    from crowdsift.results.fitted import Fitted

__all__ = ["worker_table"]


def worker_table(fitted: Fitted) -> Table:
    """The workers, by label; no row where votes have no workers."""
    votes, told = fitted.votes, fitted.estimate.workers
    m = votes.n_workers if votes.has_workers else 0
    nothing = np.full(m, np.nan)
    reliability = nothing if told.reliability is None else told.reliability
    lower, upper = _reliability_limits(told, reliability, fitted.level)
    side = nothing if told.side_bias is None else told.side_bias
    side_lower, side_upper = limits(side, told.side_sd, fitted.level)
    verdict, judged = _judged(fitted, m)
    extra = {**told.extra, **judged}
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
            "agreement": fitted.counted.agreement[:m],
            "verdict": verdict,
            **extra,
        }
    )


def _reliability_limits(
    told: WorkerEstimate, reliability: Vector, level: float
) -> tuple[Vector, Vector]:
    """Limits from the posterior where there is one; a wider interval holds that of 90 %."""
    low, high = told.reliability_lower, told.reliability_upper
    if low is None or high is None:
        return limits(reliability, told.reliability_sd, level)
    if level == LEVEL or told.quantiles is None:
        return low, high
    lower, upper = limits_at(level, told.quantiles)
    if level > LEVEL:
        return np.minimum(lower, low), np.maximum(upper, high)
    return np.maximum(lower, low), np.minimum(upper, high)


def _judged(fitted: Fitted, count: int) -> tuple[NDArray[np.object_], dict[str, Vector]]:
    """The verdicts and the probabilities behind them; empty words where a method gives none."""
    told, words = fitted.estimate.workers, np.full(count, "", dtype=object)
    if told.reliability is None or told.reliability_sd is None:
        return words, {}
    level, columns = told.random_level, {}
    if told.quantiles is None:
        below = normal_distribution(told.reliability - level, told.reliability_sd)
    else:
        below = quantile_distribution(told.quantiles - level)
    judged = verdicts(told.reliability - level, below, fitted.gold is not None)
    words = judged.words
    if told.one_sided is not None:
        words[told.one_sided >= 0.5] = "one-sided"
        columns["p_one_sided"] = told.one_sided
    return words, {
        **columns,
        "p_reliable": judged.reliable,
        "p_random": judged.random,
        "p_adversarial": judged.adversarial,
    }
