"""Steps of EM that shrink at a steady rate, taken at once."""

from __future__ import annotations

import math

__all__ = ["EVERY", "Leaps", "ahead"]

EVERY = 4  # steps, then a leap
_LEAST_RATE, _MOST_RATE = 0.3, 0.95  # of steps that shrink so
_FARTHEST = 2.0  # in the logarithm


def ahead(now: float, before: float) -> float:
    """The sum of this step and all to come, if they shrink at the rate of the last two.

    Examples
    --------
    >>> ahead(0.5, 1.0)
    1.0
    """
    rate = now / before if before else 0.0
    return now / (1.0 - min(rate, _MOST_RATE)) if _LEAST_RATE < rate < 1.0 else now


class Leaps:
    """A positive number that EM moves, with a leap in its logarithm after every few steps.

    Examples
    --------
    >>> leaps, x = Leaps(), 2.0
    >>> for _ in range(12):
    ...     x = leaps.take(x, x**0.9)  # EM that creeps to 1
    >>> 0.9 < x < 1.1
    True
    """

    def __init__(self) -> None:
        self._last: float | None = None
        self._steps = 0

    def take(self, value: float, found: float) -> float:
        """From the value to what a step has found, or beyond."""
        step = math.log(found / value)
        self._steps += 1
        if self._last is None or self._steps % EVERY:
            self._last = step
            return found
        leap = ahead(step, self._last)
        self._last = None
        return value * math.exp(min(max(leap, -_FARTHEST), _FARTHEST))
