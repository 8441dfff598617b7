"""The table of workers: reliabilities, side habits and verdicts."""

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
    votes, told = fitted.votes, fitted.estimate.workers
    m = votes.n_workers if votes.has_workers else 0
    nothing = np.full(m, np.nan)
    reliability = nothing if told.reliability is None else told.reliability
    lower, upper = _reliability_limits(told, reliability, fitted.level)
    side = nothing if told.side_bias is None else told.side_bias
    side_lower, side_upper = limits(side, told.side_sd, fitted.level)
    lower, upper = np.fmin(lower, reliability), np.fmax(upper, reliability)  # of skewed posteriors
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
            "agreement": agreement(fitted)[:m] if m else nothing,
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
    if told.one_sided is not None:
        columns["p_one_sided"] = told.one_sided
    if told.class_evidence is not None and told.typical is not None:
        highest = told.reliability_upper  # with 90 %, whatever the level of the tables
        upper = told.reliability if highest is None else highest
        words = words_of(told.class_evidence, upper, told.typical)
        adversarial, random, reliable = shares(below, told.typical)
    else:
        words, adversarial, random, reliable = verdicts(
            told.reliability - level, below, fitted.gold is not None
        )
    nothing = any(each.kind is Kind.INFORMATION for each in fitted.estimate.diagnostics)
    if nothing or fitted.compared_once:
        words = np.full(count, "undecided", dtype=object)
    return words, {
        **columns,
        "p_reliable": reliable,
        "p_random": random,
        "p_adversarial": adversarial,
    }
