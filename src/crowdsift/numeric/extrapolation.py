"""Where a fixed-point iteration x ← G(x) is going, from its last steps.

`Anderson` combines many past steps and is for iterations that run to their end; `squarem` needs two
steps and is for a few cycles of EM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["Anderson", "squarem"]


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
