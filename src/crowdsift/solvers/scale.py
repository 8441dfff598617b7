"""The scale that scores and slopes share: votes know only the products β(r_w - r_l)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["SlopeScale"]

_PRECISELY = 1e-3
_FARTHEST = 64.0
_ENOUGH = 50_000  # workers that tell the scale of all


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
        coupled = self.slopes * h - self._pull()
        return float(np.sum(self.slopes**2 * h - coupled**2 / self.curvature)) + square

    def best(self, square: float) -> float | None:
        """The t that costs least, to about 1e-3, where λ‖r‖² is `square`; None: none is near."""
        some = slice(None, None, max(1, len(self.slopes) // _ENOUGH))
        h, optimum = self._information()[some], self._optimum()[some]
        each = self.precision * len(self.slopes) / max(len(h), 1)

        def rise(t: float) -> float:
            miss = (optimum - t * self.mean) / (self.precision + t**2 * h)
            saved = h * miss * (self.mean + t * h * miss)
            return square * t - each * float(np.sum(saved))

        low = high = 1.0
        at_low = at_high = rise(1.0)
        while at_low > 0.0 and low * _FARTHEST > 1.0:
            low, high, at_high = 0.5 * low, low, at_low
            at_low = rise(low)
        while at_high < 0.0 and high < _FARTHEST:
            low, high, at_low = high, 2.0 * high, at_high
            at_high = rise(high)
        found = at_low <= 0.0 <= at_high
        return _root(rise, low, high, at_low, at_high) if found else None

    def slopes_at(self, t: float) -> Vector:
        """Every worker's slope where the scores are t times as large."""
        h = self._information()
        top = t * h * self._optimum() + self.precision * self.mean
        return np.asarray(top / (t**2 * h + self.precision))

    def _information(self) -> Vector:
        """h, what the votes say of a slope."""
        return np.maximum(self.curvature - self.precision, 0.0)

    def _pull(self) -> Vector:
        """What the prior takes from a slope, which the votes hold."""
        return np.asarray(self.precision * (self.slopes - self.mean))

    def _optimum(self) -> Vector:
        """θ̂, at which the votes alone are best met."""
        return np.asarray(self.slopes + self._pull() / np.maximum(self._information(), 1e-12))


def _root(
    rise: Callable[[float], float], low: float, high: float, at_low: float, at_high: float
) -> float:
    """Where a rising function is 0 between two places: false position, Illinois variant."""
    before, middle, held = np.inf, 0.5 * (low + high), 0
    while at_high > at_low and abs(middle - before) > _PRECISELY * high:
        before, middle = middle, (low * at_high - high * at_low) / (at_high - at_low)
        at = rise(middle)
        if at < 0.0:
            low, at_low = middle, at
            at_high *= 0.5 if held < 0 else 1.0
        else:
            high, at_high = middle, at
            at_low *= 0.5 if held > 0 else 1.0
        held = -1 if at < 0.0 else 1
    return middle
