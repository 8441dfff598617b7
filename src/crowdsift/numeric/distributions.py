"""Distributions of many variables at once: quantiles, and probabilities below a value."""

from collections.abc import Callable
from functools import cache

import numpy as np

from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import normal_cdf

Distribution = Callable[[float], Vector]  # P(x ≤ at) of many variables x


def deposit(grid: Vector, points: Vector, masses: Vector) -> Vector:
    """Return masses at points as masses on the grid, each divided linearly between two neighbours."""
    # The last axis of the masses runs over points.
    place = np.clip(np.searchsorted(grid, points, side="right") - 1, 0, len(grid) - 2)
    share = np.clip((points - grid[place]) / (grid[place + 1] - grid[place]), 0.0, 1.0)
    shares, rows = np.zeros((len(points), len(grid))), np.arange(len(points))
    shares[rows, place], shares[rows, place + 1] = 1 - share, share
    return np.asarray(masses @ shares)


LEVEL = 0.9  # default level of intervals
# Half-width of a 90 % interval in standard deviations.
Z90 = 1.6448536269514722
_QUANTILES = 16  # quantiles that represent a distribution


def half_width(level: float = LEVEL) -> float:
    """Return half the width of an interval of this level, in standard deviations of a normal variable."""
    if level == LEVEL:
        return Z90
    from statistics import NormalDist  # imported here, because it loads half of the standard library

    return NormalDist().inv_cdf(0.5 + 0.5 * level)


def limits_at(level: float, quantiles: Vector) -> tuple[Vector, Vector]:
    """Return limits of intervals of this level from quantiles of equal probability, one row each."""
    # Between quantiles the distribution is interpolated over normal scores, and beyond the outermost ones extrapolated.
    unit = _unit_quantiles(quantiles.shape[1])

    def at(z: float) -> Vector:
        right = int(np.clip(np.searchsorted(unit, z), 1, len(unit) - 1))
        share = (z - unit[right - 1]) / (unit[right] - unit[right - 1])
        left, step = quantiles[:, right - 1], np.diff(quantiles[:, right - 1 : right + 1])[:, 0]
        return np.asarray(left + share * step)

    z = half_width(level)
    return at(-z), at(z)


def normal_quantiles(mean: Vector, sd: Vector, count: int = _QUANTILES) -> Vector:
    """Return quantiles of equal probability of normal distributions, one row each."""
    return np.asarray(mean[:, None] + sd[:, None] * _unit_quantiles(count))


def normal_distribution(mean: Vector, sd: Vector) -> Distribution:
    """Return P(x ≤ at) of normal distributions, as `quantile_distribution` of their quantiles returns it."""
    unit = _unit_quantiles(_QUANTILES)
    share = (np.arange(_QUANTILES) + 0.5) / _QUANTILES

    def below(at: float) -> Vector:
        if not np.isfinite(at):
            return np.full(len(mean), float(at > 0))
        z = (at - mean) / np.maximum(sd, 1e-300)
        inner = np.interp(z, unit, share, left=0.0)
        return np.where((z >= unit[-1]) | ((sd == 0.0) & (z >= 0.0)), 1.0, inner)

    return below


def quantile_distribution(quantiles: Vector) -> Distribution:
    """Return P(x ≤ at) by linear interpolation between quantiles of equal probability."""
    # One row of quantiles per distribution; the result is clipped at half a step.
    count = quantiles.shape[1]
    rows = np.arange(len(quantiles))

    def below(at: float) -> Vector:
        if not np.isfinite(at):
            return np.full(len(quantiles), float(at > 0))
        place = np.minimum((quantiles <= at).sum(axis=1), count - 1)
        left, right = quantiles[rows, np.maximum(place - 1, 0)], quantiles[rows, place]
        width = np.maximum(right - left, 1e-300)
        inner = (place - 0.5 + np.clip((at - left) / width, 0.0, 1.0)) / count
        inner = np.where(at < quantiles[:, 0], 0.0, inner)
        return np.where(at >= quantiles[:, -1], 1.0, inner)

    return below


def share_above(at: float, quantiles: Vector) -> Vector:
    """Return P(x > at) by interpolation over normal scores, extrapolated beyond the quantiles."""
    unit, rows = _unit_quantiles(quantiles.shape[1]), np.arange(len(quantiles))
    right = np.clip((quantiles < at).sum(axis=1), 1, len(unit) - 1)
    left, step = quantiles[rows, right - 1], quantiles[rows, right] - quantiles[rows, right - 1]
    share = (at - left) / np.maximum(step, 1e-300)
    return normal_share(-(unit[right - 1] + share * (unit[right] - unit[right - 1])))


@cache
def _unit_quantiles(count: int) -> Vector:
    from statistics import NormalDist  # imported here, because it loads half of the standard library

    normal = NormalDist()
    return np.array([normal.inv_cdf((k + 0.5) / count) for k in range(count)])


@cache
def _normal_table() -> tuple[Vector, Vector]:
    z = np.linspace(-6.0, 6.0, 2401)
    return z, normal_cdf(z)


def normal_share(z: Vector) -> Vector:
    """Return Φ(z) to 1e-6, from a table."""
    return np.interp(z, *_normal_table())


def limits(centre: Vector, sd: Vector | None, level: float = LEVEL) -> tuple[Vector, Vector]:
    """Return the limits of normal intervals; NaN without standard deviations."""
    half = np.full(len(centre), np.nan) if sd is None else half_width(level) * sd
    return centre - half, centre + half


SURE = 0.95  # default confidence of a study in its goal
_PRIOR = 2.0  # variance of a difference of two scores before any vote


def log_evidence(mean: Vector, variance: Vector) -> Vector:
    """Return the logarithm of the evidence that differences of scores are above 0.

    The evidence is the Bayes factor of d > 0 against d = 0, with |d| as of N(0, 2) before the votes and d ~ N(mean,
    variance) after them. If d = 0 is true, its expectation is 1 at any time, and if d < 0, it is smaller. So the
    probability that it ever exceeds 1/α is then at most α (Ville's inequality).
    """
    z = mean / np.sqrt(variance)
    chance = np.maximum(np.asarray(normal_cdf(z)), 1e-300)
    return np.asarray(np.log(2.0 * chance) + 0.5 * (z * z + np.log(variance / _PRIOR)))


def median_size(mean: Vector, sd: Vector) -> Vector:
    """Return the medians of the absolute values of normal variables."""
    low, high = np.zeros(len(mean)), np.abs(mean) + sd
    for _ in range(50):
        middle = 0.5 * (low + high)
        above = normal_cdf((middle - mean) / sd) - normal_cdf((-middle - mean) / sd) > 0.5
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


def settling_precision(mean: Vector, confidence: float = SURE) -> Vector:
    """Return the precision at which differences as large as estimated are settled.

    This is the rule of `crowdsift plan` and `ask` for one pair: the evidence of `log_evidence` reaches 1/(1 -
    confidence), which stays valid if it is checked after every vote. It takes three to five times as many votes as a
    single check of an interval. The estimate is treated as the truth. A difference of 0 needs infinitely many votes.
    """
    needed = -np.log(1.0 - confidence)
    square = np.maximum(np.abs(mean), 1e-9) ** 2
    result = np.full(len(square), 1.0 / _PRIOR)
    for _ in range(50):  # each step reduces the error tenfold
        chance = np.asarray(normal_cdf(np.sqrt(result * square)))
        result = np.maximum((2.0 * (needed - np.log(2.0 * chance)) + np.log(_PRIOR * result)) / square, 1.0 / _PRIOR)
    return result
