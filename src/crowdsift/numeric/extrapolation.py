"""Anderson acceleration: the limit of a fixed-point iteration x ← G(x), from its last steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector


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
    most
        How far it may go beyond the plain step, in lengths of that step.

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

    def __init__(self, depth: int = 5, wait: int = 3, most: float = np.inf) -> None:
        self._depth, self._wait, self._most = depth, wait, most
        self._images: list[Vector] = []  # differences of successive images
        self._residuals: list[Vector] = []  # and of their residuals
        self._last: tuple[Vector, Vector] | None = None
        self._size = np.inf

    def propose(self, x: Vector, image: Vector) -> Vector:
        """The next point, given a point and its image."""
        residual = image - x
        size = math.sqrt(residual @ residual)
        if size > self._size:
            self._images.clear()
            self._residuals.clear()
        elif self._last is not None and self._depth:
            self._images.append(image - self._last[0])
            self._residuals.append(residual - self._last[1])
            del self._images[: -self._depth], self._residuals[: -self._depth]
        self._last, self._size = (image, residual), size
        self._wait -= 1
        if not self._images or self._wait >= 0:
            return image
        share = np.linalg.lstsq(np.array(self._residuals).T, residual, rcond=1e-8)[0]
        ahead = share @ np.array(self._images)
        longest, length = self._most * size, math.sqrt(ahead @ ahead)
        return np.asarray(image - (ahead * (longest / length) if length > longest else ahead))
