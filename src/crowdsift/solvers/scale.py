"""The scale that scores and slopes share: votes depend on the products β(r_w - r_l) only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.numeric.roots import expand_bracket, find_root

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["SlopeScale"]

_TOLERANCE = 1e-3  # of the logarithm of the scale
_FARTHEST = float(np.log(64.0))
_ENOUGH = 50_000  # workers, from whom the scale of all is estimated


class SlopeScale(NamedTuple):
    """What the scale costs, from the slopes at their optimum alone: no pass over the votes.

    A worker's log-likelihood in θ = βt, the slope that t times the scores need, is close to
    -½h(θ - θ̂)² + const. With the prior of its slope, ½τ(β - μ)², and β at its minimum it costs
    ½hτ(θ̂ - tμ)²/(τ + t²h); the prior of the scores, ½λ‖tr‖², is on the other side.

    Parameters
    ----------
    slopes
        β at t = 1.
    curvature
        h + τ, of every slope.
    mean, precision
        μ and τ, of the prior of slopes.
    """

    slopes: Vector
    curvature: Vector
    mean: float
    precision: float

    def along_scores(self, square: float) -> float:
        """The second derivative of the objective along the scores r, where λ‖r‖² is `square`."""
        h = self._information()
        coupled = self.slopes * h - self._prior_gradient()
        return float(np.sum(self.slopes**2 * h - coupled**2 / self.curvature)) + square

    def best(self, square: float) -> float | None:
        """The t that costs least, to about 1e-3, where λ‖r‖² is `square`; None: none is near."""
        rise = self._rise(square)
        bracket = expand_bracket(rise, 0.0, np.log(2.0), -_FARTHEST, _FARTHEST)
        return None if bracket is None else float(np.exp(find_root(rise, bracket, _TOLERANCE)))

    def is_near_best(self, square: float, t: float, within: float) -> bool:
        """Whether a t that costs least is so near to this one: two evaluations tell."""
        rise = self._rise(square)
        return t > within and rise(np.log(t - within)) <= 0.0 <= rise(np.log(t + within))

    def _rise(self, square: float) -> Callable[[float], float]:
        """The derivative of the cost in t, by log t."""
        some = slice(None, None, max(1, len(self.slopes) // _ENOUGH))
        h, optimum = self._information()[some], self._optimum()[some]
        each = self.precision * len(self.slopes) / max(len(h), 1)

        def rise(log: float) -> float:
            t = float(np.exp(log))
            miss = h * (optimum - t * self.mean) / (self.precision + t**2 * h)
            saved = self.mean * float(np.sum(miss)) + t * float(miss @ miss)
            return square * t - each * saved

        return rise

    def slopes_at(self, t: float) -> Vector:
        """Every worker's slope where the scores are t times as large."""
        h = self._information()
        top = t * h * self._optimum() + self.precision * self.mean
        slopes: Vector = top / (t**2 * h + self.precision)
        return slopes

    def _information(self) -> Vector:
        """h, the information of the votes on a slope."""
        return np.maximum(self.curvature - self.precision, 0.0)

    def _prior_gradient(self) -> Vector:
        """The gradient of the prior in a slope, which that of the votes balances."""
        gradient: Vector = self.precision * (self.slopes - self.mean)
        return gradient

    def _optimum(self) -> Vector:
        """θ̂, at which the votes alone are best met."""
        best: Vector = self.slopes + self._prior_gradient() / np.maximum(self._information(), 1e-12)
        return best
