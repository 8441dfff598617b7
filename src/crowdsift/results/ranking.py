"""Ranks of items, the order of their table, and the limits of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.distributions import Z90, normal_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = ["rank_limits", "ranks", "table_order"]

_SAMPLES = 400  # of ranks
_COUNTED = 1_000  # items beyond which ranks are counted instead
_SCORE_BINS, _ERROR_BINS, _PLACES = 256, 4, 512


def table_order(scores: Vector, component: NDArray[np.uint32]) -> NDArray[np.intp]:
    """Items by component, then from the best to the worst; equal scores as they come.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.ranking import table_order
    >>> table_order(np.array([0.5, 2.0, 0.5]), np.zeros(3, np.uint32))
    array([1, 0, 2])
    """
    if component.any():
        return np.lexsort((-scores, component))
    return np.argsort(-scores, kind="stable")


def ranks(
    scores: Vector, component: NDArray[np.uint32], order: NDArray[np.intp] | None = None
) -> NDArray[np.int64]:
    """Ranks from 1 (the best) within every component; equal scores share the better rank.

    `order` is that of `table_order`, where it is known.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.ranking import ranks
    >>> ranks(np.array([0.5, 2.0, 0.5]), np.zeros(3, np.uint32))
    array([2, 1, 2])
    """
    if order is None:
        order = table_order(scores, component)
    position = np.arange(len(scores))
    fresh = np.ones(len(scores), bool)  # the first of its component
    fresh[1:] = np.diff(component[order]) != 0
    begins = np.maximum.accumulate(np.where(fresh, position, 0))
    fresh[1:] |= np.diff(scores[order]) != 0
    shared = np.maximum.accumulate(np.where(fresh, position, 0))
    result = np.empty(len(scores), np.int64)
    result[order] = shared - begins + 1
    return result


def rank_limits(
    scores: Vector,
    sd: Vector,
    root: Vector | None,
    component: NDArray[np.uint32],
    seed: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Limits of the 90 % interval of every item's rank within its component.

    The ranks of samples of the joint posterior, in pairs of opposite errors: with `root` R, RᵀR
    the covariance, where there is one (what it says of the levels of components is of no matter),
    else with independent errors, which is close where there are thousands of items; these are then
    not drawn but counted, see `_counted_limits`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.ranking import rank_limits
    >>> low, high = rank_limits(np.array([2.0, 0.1, 0.0]), np.full(3, 0.2), None, np.zeros(3, int))
    >>> low, high
    (array([1, 2, 2]), array([1, 3, 3]))
    """
    if root is None and len(scores) > _COUNTED:
        return _counted_limits(scores, sd, component)
    k = len(scores)
    rng = np.random.Generator(np.random.PCG64(seed))
    noise = rng.standard_normal((_SAMPLES // 2, k), dtype=np.float32)
    error = sd.astype(np.float32) * noise if root is None else noise @ root.astype(np.float32)
    centre = scores.astype(np.float32)
    drawn = np.concatenate([centre + error, centre - error])
    if component.any():
        order = np.lexsort((-drawn, np.broadcast_to(component, drawn.shape)), axis=1)
    else:
        order = np.argsort(-drawn, axis=1)
    start = np.flatnonzero(np.diff(np.sort(component), prepend=-1))
    first = np.repeat(start, np.diff(np.append(start, k)))
    rank = np.empty((k, len(drawn)), np.int16)  # of at most _COUNTED items
    rank[order, np.arange(len(drawn))[:, None]] = np.arange(k) - first + 1
    rank.sort(axis=1)
    low, high = (rank[:, place].astype(np.int64) for place in _places(len(drawn)))
    return low, high


def _places(count: int) -> tuple[int, int]:
    """Where the limits of 90 % stand among so many values that rise."""
    return int(0.05 * count), int(np.ceil(0.95 * count)) - 1


def _counted_limits(
    scores: Vector, sd: Vector, component: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Limits of ranks for independent errors, from how many items are expected above a score.

    With N(x) = Σ_j P(r_j > x), an item's rank at its own score x is 1 + N(x), give or take
    s² = Σ_j P(1 - P). Its own error moves x between the limits of its score; the two add up as
    squares. N and s² are read off a table over x, made of items binned by score and error.
    """
    low, high = np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
    order = np.argsort(component, kind="stable")
    for inside in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        m, s = scores[inside], np.maximum(sd[inside], 1e-12)
        x, above, spread = _exceedance(m, s)
        expected = np.interp(m, x, above) - 0.5  # an item is not above itself
        best = expected - np.interp(m + Z90 * s, x, above)
        worst = np.interp(m - Z90 * s, x, above) - expected
        noise = Z90**2 * np.interp(m, x, spread)
        first = 1.0 + expected - np.sqrt(best**2 + noise)
        last = 1.0 + expected + np.sqrt(worst**2 + noise)
        low[inside] = np.clip(np.round(first), 1, len(inside))
        high[inside] = np.clip(np.round(last), 1, len(inside))
    return low, high


def _exceedance(mean: Vector, sd: Vector) -> tuple[Vector, Vector, Vector]:
    """Σ_j P(r_j > x) and the variance of that count, on a grid of x."""
    edges = np.linspace(mean.min(), mean.max() + 1e-9, _SCORE_BINS + 1)
    errors = np.quantile(sd, np.linspace(0.0, 1.0, _ERROR_BINS + 1)[1:-1])
    cell = np.searchsorted(edges[1:-1], mean) * _ERROR_BINS + np.searchsorted(errors, sd)
    held = np.bincount(cell, minlength=_SCORE_BINS * _ERROR_BINS)
    full = held > 0
    centre, width = (np.bincount(cell, v, len(held))[full] / held[full] for v in (mean, sd))
    far = 4.0 * float(sd.max())
    x = np.linspace(mean.min() - far, mean.max() + far, _PLACES)
    above, spread = np.zeros(_PLACES), np.zeros(_PLACES)
    for at in range(0, _PLACES, 64):  # a part of the grid at a time
        z = (centre[None, :] - x[at : at + 64, None]) / width[None, :]
        p = normal_share(z)
        above[at : at + 64] = p @ held[full]
        spread[at : at + 64] = (p * (1.0 - p)) @ held[full]
    return x, above, spread
