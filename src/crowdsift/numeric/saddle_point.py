"""How unlikely a sum of independent discrete variables is: by a saddle point, for few of them too.

With K(t) the cumulant generating function of the sum, t where K'(t) = x, w = √(2(tx - K(t))) and
u = t√K''(t), the chance of at least x is that of a normal variable of at least
r* = w + log(u/w)/w (Barndorff-Nielsen 1986), with a relative error far below that of the normal
approximation in the tail.
"""

from __future__ import annotations

from math import log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["saddle_point"]

_STEPS = 60
_NEAR = 1e-3  # of t, below which x is next to the mean and the ratio u/w cancels
_FAR = 200.0  # of t


def saddle_point(value: Vector, chance: Vector, x: float) -> float:
    """r* of P(sum ≥ x) for x above the mean; 0 at or below it.

    Parameters
    ----------
    value, chance
        A row a variable: its values and their probabilities, 0 where there are fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.numeric.saddle_point import saddle_point
    >>> coins = np.tile([-1.0, 1.0], (100, 1))
    >>> round(saddle_point(coins, np.full((100, 2), 0.5), 30.0), 2)  # 65 heads of 100; normal: 3.0
    3.02
    """
    if x <= float((value * chance).sum()):
        return 0.0
    top = np.where(chance > 0.0, value, -np.inf).max(axis=1)
    if x >= float(top.sum()) - _NEAR:  # all at their largest, of a chance that is known
        likely = np.where(value >= top[:, None], chance, 0.0).sum(axis=1)
        least = max(float(np.exp(np.log(likely).sum())), 1e-300)
        return max(-NormalDist().inv_cdf(min(least, 0.5)), 0.0)
    t, low, high = 0.0, 0.0, _FAR
    total, slope, curvature = _cumulants(value, chance, t)
    for _ in range(_STEPS):
        low, high = (t, high) if slope < x else (low, t)
        ahead = t + (x - slope) / max(curvature, 1e-12)
        moved = ahead if low < ahead < high else 0.5 * (low + high)
        done = abs(moved - t) <= 1e-10 * max(1.0, moved)
        t = moved
        total, slope, curvature = _cumulants(value, chance, t)
        if done:
            break
    w = sqrt(max(2.0 * (t * x - total), 0.0))
    u = t * sqrt(max(curvature, 0.0))
    return w if t < _NEAR or min(u, w) <= 0.0 else w + log(u / w) / w


def _cumulants(value: Vector, chance: Vector, t: float) -> tuple[float, float, float]:
    """K, K' and K'' at t."""
    shift = np.where(chance > 0.0, t * value, -np.inf).max(axis=1, keepdims=True)
    tilted = chance * np.exp(np.minimum(t * value - shift, 0.0))
    mass = tilted.sum(axis=1, keepdims=True)
    tilted = tilted / mass
    mean = (tilted * value).sum(axis=1)
    square = (tilted * value**2).sum(axis=1)
    total = float((np.log(mass) + shift).sum())
    return total, float(mean.sum()), float((square - mean**2).sum())
