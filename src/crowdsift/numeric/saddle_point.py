"""Tail probability of a sum of independent discrete variables, by a saddle-point approximation.

Let K(t) be the cumulant generating function of the sum, t the solution of K'(t) = x, w = √(2(tx - K(t))) and u =
t√K''(t). The probability of at least x is that of a normal variable of at least r* = w + log(u/w)/w (Barndorff-Nielsen
1986), with a relative error far below that of the normal approximation in the tail.
"""

from statistics import NormalDist

import numpy as np

from crowdsift.numeric import Indices, Vector

_STEPS = 60
_NEAR = 1e-3  # t below which x is so close to the mean that the ratio u/w cancels
_FAR = 200.0  # largest t


def saddle_point(value: Vector, chance: Vector, x: float) -> float:
    """Return r* of P(sum ≥ x) for x above the mean; 0 at or below it."""
    # `value` and `chance` have one row per variable: its values and their probabilities, padded with 0.
    return float(saddle_points(value, chance, np.array([x]), np.zeros(len(value), np.int64))[0])


def saddle_points(value: Vector, chance: Vector, x: Vector, member: Indices) -> Vector:
    """Return r* of several sums at once; row i of the tables belongs to the sum `member[i]`."""
    result = np.zeros(len(x))
    mean = np.bincount(member, (value * chance).sum(axis=1), len(x))
    top = np.where(chance > 0.0, value, -np.inf).max(axis=1)
    largest = np.bincount(member, top, len(x))
    above = x > mean
    for at in np.flatnonzero(above & (x >= largest - _NEAR)).tolist():
        rows = member == at  # all at their largest values: this probability is exact
        likely = np.where(value[rows] >= top[rows, None], chance[rows], 0.0).sum(axis=1)
        least = max(float(np.exp(np.log(likely).sum())), 1e-300)
        result[at] = max(-NormalDist().inv_cdf(min(least, 0.5)), 0.0)
    rest = np.flatnonzero(above & (x < largest - _NEAR))
    if len(rest):
        place = np.full(len(x), -1)
        place[rest] = np.arange(len(rest))
        rows = np.flatnonzero(place[member] >= 0)
        result[rest] = _between_ends(value[rows], chance[rows], x[rest], place[member[rows]])
    return result


def _between_ends(value: Vector, chance: Vector, x: Vector, member: Indices) -> Vector:
    """Return r* of sums at x between their mean and their largest value, by Newton's method."""
    t, low, high = np.zeros(len(x)), np.zeros(len(x)), np.full(len(x), _FAR)
    total, slope, curvature = cumulants = _cumulants(value, chance, t, member)
    active, rows = np.arange(len(x)), np.arange(len(value))
    for _ in range(_STEPS):
        now, below = t[active], slope[active] < x[active]
        low[active], high[active] = (np.where(below, now, low[active]), np.where(below, high[active], now))
        ahead = now + (x - slope)[active] / np.maximum(curvature[active], 1e-12)
        inside = (low[active] < ahead) & (ahead < high[active])
        moved = np.where(inside, ahead, 0.5 * (low + high)[active])
        t[active] = moved
        found = _cumulants(value[rows], chance[rows], t, member[rows])
        for each, new in zip(cumulants, found, strict=True):
            each[active] = new[active]
        active = active[np.abs(moved - now) > 1e-10 * np.maximum(1.0, moved)]
        if not len(active):
            break
        rows = np.flatnonzero(np.isin(member, active))
    w = np.sqrt(np.maximum(2.0 * (t * x - total), 0.0))
    u = t * np.sqrt(np.maximum(curvature, 0.0))
    plain = (t < _NEAR) | (np.minimum(u, w) <= 0.0)
    ratio = np.where(plain, 1.0, u) / np.where(plain, 1.0, w)
    return np.where(plain, w, w + np.log(ratio) / np.where(plain, 1.0, w))


def _cumulants(value: Vector, chance: Vector, t: Vector, member: Indices) -> tuple[Vector, Vector, Vector]:
    """Return K, K' and K'' of every sum at its t."""
    scaled = t[member][:, None] * value
    shift = np.where(chance > 0.0, scaled, -np.inf).max(axis=1, keepdims=True)
    tilted = chance * np.exp(np.minimum(scaled - shift, 0.0))
    mass = tilted.sum(axis=1, keepdims=True)
    tilted /= mass
    mean = (tilted * value).sum(axis=1)
    square = (tilted * value**2).sum(axis=1)
    parts = (np.log(mass) + shift)[:, 0], mean, square - mean**2
    total, slope, curvature = (np.bincount(member, each, len(t)).astype(np.float64) for each in parts)
    return total, slope, curvature
