"""Mean and variance of effects from Gaussian messages about them, by maximum evidence.

An effect γ_s ~ N(g, t²) of every unit s meets a message exp(-τ_s γ²/2 + ν_s γ): a normal random-effects model with the
observations ν/τ of precision τ. With D = 1 + t²τ, which is 1 at t² = 0 and finite for any τ ≥ 0, the logarithm of the
integral over γ is

    ℓ_s(g, t²) = -½ log D + ½ (t²ν² + 2gν - g²τ)/D,

and with e = ν - gτ, the residual of the message at g,

    ∂ℓ/∂g = e/D,    ∂ℓ/∂(t²) = ½[(e/D)² - τ/D].

The evidence is Σ ω_s ℓ_s for weights ω (the probability that a unit has the effect at all) with the priors g ~ N(0, 1)
and t half normal of scale 1, so -g²/2 - t²/2: weak, and finite at t² = 0, where the maximum may be. For every t² the
best g has a closed form,

    g(t²) = Σ ων/D / (1 + Σ ωτ/D),    of variance 1/(1 + Σ ωτ/D),

so one root remains: that of the slope in t² along g(t²), where ∂/∂g vanishes. Expectation maximisation has the same
fixed points, but its steps shrink with t².
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crowdsift.numeric import Vector
from crowdsift.numeric.roots import expand_bracket, find_root

MIN_VARIANCE = 1e-6  # smaller variances count as 0: effects do not differ
MAX_VARIANCE = 16.0
_STEP = math.log(4.0)  # step of the search for a bracket, in log t²
_TOLERANCE = 1e-6  # tolerance of log t²
_REACH = 4.0


class RandomEffects(NamedTuple):
    """Mean g and variance t² of effects, and the variance of the estimate of g."""

    mean: float = 0.0
    variance: float = 0.25
    mean_variance: float = 1.0

    @staticmethod
    def of_messages(nu: Vector, tau: Vector, weight: Vector, start: float) -> RandomEffects:
        """Return the effects at the maximum of the evidence that is reached uphill from the variance `start`."""
        # If the evidence falls all the way from there to `MIN_VARIANCE`, the variance is 0.
        used = (weight > 0.0) & (tau > 0.0)
        nu, tau, weight = nu[used], tau[used], weight[used]
        variance = best_variance(lambda x: slope_at(nu, tau, weight, x), start)
        mean, information = mean_at(nu, tau, weight, variance)
        return RandomEffects(mean, variance, 1.0 / (1.0 + information))


def best_variance(slope: Callable[[float], float], start: float) -> float:
    """Return the variance at the maximum uphill from the start; `slope` is the derivative."""
    # 0 if it is downhill all the way from there to `MIN_VARIANCE`.

    def fall(log: float) -> float:
        return -slope(math.exp(log))

    low, high = math.log(MIN_VARIANCE), math.log(MAX_VARIANCE)
    log = min(max(math.log(max(start, MIN_VARIANCE)), low), high)
    at = fall(log)
    bracket = expand_bracket(fall, log, _STEP, low, high, at)
    if bracket is None:
        return 0.0 if at > 0.0 else MAX_VARIANCE
    return math.exp(find_root(fall, bracket, _TOLERANCE))


def within_reach(found: float, before: float) -> float:
    """Return a learned variance, limited to a change by a factor of 4."""
    # From 0 it may rise at once, and below `MIN_VARIANCE` it is 0.
    if before <= MIN_VARIANCE:
        return found
    held = min(max(found, before / _REACH), before * _REACH)
    return held if held > MIN_VARIANCE else 0.0


def mean_at(nu: Vector, tau: Vector, weight: Vector, variance: float) -> tuple[float, float]:
    """Return the best mean g for the variance t², and its information Σ ωτ/D, without the prior's information of 1."""
    share = weight / (1.0 + variance * tau)
    information = float(share @ tau)
    return float(share @ nu) / (1.0 + information), information


def slope_at(nu: Vector, tau: Vector, weight: Vector, variance: float) -> float:
    """Return the derivative of the evidence in t², at the best g for this t²."""
    inverse = 1.0 / (1.0 + variance * tau)
    share = weight * inverse
    mean = float(share @ nu) / (1.0 + float(share @ tau))
    left = nu - mean * tau
    return 0.5 * (float(share @ (left**2 * inverse - tau)) - 1.0)


def evidence(nu: Vector, tau: Vector, weight: Vector, mean: float, variance: float) -> float:
    """Return the log evidence Σ ωℓ with both priors, up to constants."""
    return float(weight @ log_mean(nu, tau, mean, variance)) - 0.5 * (mean**2 + variance)


def log_mean(nu: Vector, tau: Vector, mean: Vector | float, variance: Vector | float) -> Vector:
    """Return ℓ, the log of the mean of exp(-τx²/2 + νx) over x ~ N(mean, variance)."""
    D = 1.0 + variance * tau
    top = variance * nu**2 + 2.0 * mean * nu - mean**2 * tau
    return np.asarray(0.5 * (top / D - np.log(D)), dtype=np.float64)
