"""Where a fixed-point iteration x ← G(x) is going, from its last steps.

Three members of one family. `Anderson` combines many past steps and is for iterations that run to
their end; `squarem` needs two steps and is for a few cycles of EM; `Aitken` follows one positive
number whose steps are seen one at a time, among other things that move.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["Aitken", "Anderson", "aitken_step", "squarem"]

_MIN_RATE, _MAX_RATE = 0.3, 0.95  # of steps that shrink steadily


class Anderson:
    """Proposes the next point of x = G(x) from the last few points and their images.

    With residuals f = G(x) - x the step is that combination of the last images whose residual is
    smallest if G is linear (Anderson 1965). Fixed points are those of G, since the step is G(x)
    where the residual is 0. Where the residual did not fall, the history is forgotten and the
    plain step G(x) is taken: near a saddle, or far from the end, G is not linear.

    Parameters
    ----------
    depth
        How many differences are remembered; 0 takes plain steps only.
    wait
        How many plain steps come first.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.numeric.extrapolation import Anderson
    >>> slow = lambda x: np.array([0.99, 0.9]) * x + np.array([0.01, 0.2])
    >>> x, method = np.zeros(2), Anderson(depth=3, wait=1)
    >>> for _ in range(6):
    ...     x = method.propose(x, slow(x))
    >>> x.round(6)
    array([1., 2.])
    """

    def __init__(self, depth: int = 5, wait: int = 3) -> None:
        self._depth, self._wait = depth, wait
        self._points: list[Vector] = []  # differences of successive points
        self._residuals: list[Vector] = []  # and of their residuals
        self._last: tuple[Vector, Vector] | None = None
        self._size = np.inf

    def propose(self, x: Vector, image: Vector) -> Vector:
        """The next point, given a point and its image."""
        residual = image - x
        size = float(np.linalg.norm(residual))
        if size > self._size:
            self._points.clear()
            self._residuals.clear()
        elif self._last is not None and self._depth:
            self._points.append(x - self._last[0])
            self._residuals.append(residual - self._last[1])
            del self._points[: -self._depth], self._residuals[: -self._depth]
        self._last, self._size = (x, residual), size
        self._wait -= 1
        if not self._points or self._wait >= 0:
            return image
        changes = np.stack(self._residuals, axis=1)
        share = np.linalg.lstsq(changes, residual, rcond=1e-8)[0]
        return np.asarray(image - (np.stack(self._points, axis=1) + changes) @ share)


def squarem(zero: Vector, one: Vector, two: Vector, most: float) -> Vector | None:
    """Squared extrapolation (Varadhan & Roland 2008) from three iterates of one map.

    With r = x1 - x0 and v = x2 - 2 x1 + x0 it goes to x0 + 2a r + a² v, a = |r|/|v|, at least 1
    and at most `most`; with a = 1 that is x2. None where the steps do not differ.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.numeric.extrapolation import squarem
    >>> squarem(np.zeros(1), np.array([0.5]), np.array([0.75]), 10.0)  # halves its way to 1
    array([1.])
    """
    r, v = one - zero, two - 2.0 * one + zero
    size = float(np.linalg.norm(v))
    if size < 1e-12:
        return None
    a = min(max(float(np.linalg.norm(r)) / size, 1.0), most)
    return np.asarray(zero + 2.0 * a * r + a**2 * v)


def aitken_step(now: float, before: float) -> float:
    """The sum of this step and all to come, if they shrink at the rate of the last two.

    That is Aitken's extrapolation of a geometric series; where the rate is not one of steps that
    shrink steadily it is the step itself.

    Examples
    --------
    >>> from crowdsift.numeric.extrapolation import aitken_step
    >>> aitken_step(0.5, 1.0)
    1.0
    """
    rate = now / before if before else 0.0
    return now / (1.0 - min(rate, _MAX_RATE)) if _MIN_RATE < rate < 1.0 else now


class Aitken:
    """A positive number that EM moves, extrapolated in its logarithm after every few steps.

    Parameters
    ----------
    every
        How many steps there are from one extrapolation to the next.
    farthest
        The largest move, in the logarithm.

    Examples
    --------
    >>> from crowdsift.numeric.extrapolation import Aitken
    >>> method, x = Aitken(), 2.0
    >>> for _ in range(12):
    ...     x = method.propose(x, x**0.9)  # EM that creeps to 1
    >>> 0.9 < x < 1.1
    True
    """

    def __init__(self, every: int = 4, farthest: float = 2.0) -> None:
        self._every, self._farthest = every, farthest
        self._last: float | None = None
        self._steps = 0

    def propose(self, x: float, image: float) -> float:
        """The next value, given a value and its image; both positive."""
        step = math.log(image / x)
        self._steps += 1
        if self._last is None or self._steps % self._every:
            self._last = step
            return image
        ahead = aitken_step(step, self._last)
        self._last = None
        return x * math.exp(min(max(ahead, -self._farthest), self._farthest))
