"""Ranks of items, the order of their table, and the limits of ranks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crowdsift.models.covariance import Block
from crowdsift.numeric import Codes, Indices, Vector
from crowdsift.numeric.distributions import LEVEL, half_width, normal_share
from crowdsift.numeric.likelihoods import normal_cdf

_SAMPLES = 400  # samples of ranks
_NUMBERS = 4_000_000  # numbers drawn at a time
_FEW = 8  # items up to which ranks are counted pair by pair
_SCORE_BINS, _ERROR_BINS, _PLACES = 256, 4, 512


def table_order(scores: Vector, component: Codes) -> NDArray[np.intp]:
    """Return items by component, then from best to worst; equal scores keep their order."""
    if component.any():
        return np.lexsort((-scores, component))
    return np.argsort(-scores, kind="stable")


def ranks(scores: Vector, component: Codes, order: NDArray[np.intp] | None = None) -> Indices:
    """Return ranks from 1 (the best) within every component; equal scores share the better rank."""
    # `order` is that of `table_order`, if it is known.
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
    scores: Vector, sd: Vector, blocks: Sequence[Block], component: Codes, seed: int = 0, level: float = LEVEL
) -> tuple[Indices, Indices]:
    """Return limits of the interval of every item's rank within its component."""
    # For components in `blocks` they come from the joint posterior: in closed form for two items, otherwise from the
    # ranks of samples in pairs of opposite errors. Other components are large; independent errors are a good
    # approximation there, and ranks are counted, see `_counted_limits`. An interval always contains the rank of the
    # score itself.
    low, high = np.ones(len(scores), np.int64), np.ones(len(scores), np.int64)
    rest = np.bincount(component)[component] > 1
    for block in blocks:
        rest[block.items] = False
        limits = _limits_of_two if block.size == 2 else _drawn_limits
        low[block.items], high[block.items] = limits(scores[block.items], block.root, seed, level)
    items = np.flatnonzero(rest & np.isfinite(sd))
    if len(items):
        found = _counted_limits(scores[items], sd[items], component[items], level)
        low[items], high[items] = found
    rank = ranks(scores, component)  # this rank need not be a likely one: scores may be nearly equal
    return np.minimum(low, rank), np.maximum(high, rank)


def _limits_of_two(scores: Vector, root: Vector, _: int, level: float) -> tuple[Indices, ...]:
    """Return limits for two items: one is first with probability Φ(difference/sd)."""
    error = root[:, :, 0] - root[:, :, 1]
    sd = np.maximum(np.sqrt((error**2).sum(axis=1)), 1e-300)
    p = normal_cdf((scores[:, 0] - scores[:, 1]) / sd)
    first = np.stack([p, 1.0 - p], axis=1)
    tail = 0.5 * (1.0 - level)
    return np.where(first > tail, 1, 2), np.where(first >= 1.0 - tail, 1, 2)


def _drawn_limits(scores: Vector, root: Vector, seed: int, level: float) -> tuple[Indices, ...]:
    """Return limits of ranks in components of one size, from samples; all use the same noise."""
    n, k = scores.shape
    noise = np.random.Generator(np.random.PCG64(seed)).standard_normal((_SAMPLES // 2, k), dtype=np.float32)
    places = _places(2 * len(noise), level)
    low, high = np.empty((n, k), np.int64), np.empty((n, k), np.int64)
    step = max(_NUMBERS // (len(noise) * k), 1)
    for begin in range(0, n, step):
        part = slice(begin, begin + step)
        error = noise @ root[part].astype(np.float32)
        centre = scores[part, None, :].astype(np.float32)
        rank = _ranks_of(np.concatenate([centre + error, centre - error], axis=1))
        rank.sort(axis=1)
        low[part], high[part] = (rank[:, place] for place in places)
    return low, high


def _ranks_of(drawn: NDArray[np.float32]) -> NDArray[np.int16]:
    """Return ranks from 1 along the last axis: for few items by counting, otherwise by sorting."""
    k = drawn.shape[2]
    if k <= _FEW:
        rank = np.ones(drawn.shape, np.int16)
        for j in range(k):
            rank += drawn[:, :, j, None] > drawn
        return rank
    place = _best_first(drawn)
    place += np.arange(0, drawn.size, k).reshape(*drawn.shape[:2], 1)  # indices into the flattened array
    flat = np.empty(drawn.size, np.int16)  # of at most MOST_ITEMS items
    flat[place.reshape(-1)] = np.tile(np.arange(1, k + 1, dtype=np.int16), drawn.size // k)
    return flat.reshape(drawn.shape)


def _best_first(drawn: NDArray[np.float32]) -> Indices:
    """Return the indices that sort the last axis from the largest to the smallest."""
    # Each integer combines the distance below the largest, to a millionth of the range as in the draws themselves, and
    # the item: integers are sorted six times as fast as indices.
    k = drawn.shape[2]
    bits = (k - 1).bit_length()
    depth = drawn.max(axis=2, keepdims=True) - drawn
    levels = np.float32(2 ** min(31 - bits, 22) - 1)  # leaves room to round
    depth *= levels / np.maximum(depth.max(axis=2, keepdims=True), 1e-30)
    key = depth.astype(np.int32)
    key <<= bits
    key |= np.arange(k, dtype=np.int32)
    key.sort(axis=2)
    key &= (1 << bits) - 1
    return np.asarray(key, np.int64)


def _places(count: int, level: float) -> tuple[int, int]:
    """Return the indices of the limits of this level among `count` ascending values."""
    tail = round(0.5 * (1.0 - level), 12)
    return int(tail * count), int(np.ceil((1.0 - tail) * count)) - 1


def _counted_limits(scores: Vector, sd: Vector, component: Codes, level: float) -> tuple[Indices, Indices]:
    """Return limits of ranks for independent errors, from the expected number of items above a score."""
    # With N(x) = Σ_j P(r_j > x), an item's rank at its score x is 1 + N(x), with variance s² = Σ_j P(1 - P). The error
    # of x moves it between the limits of the score; the two add up as squares. N and s² come from a table over x, with
    # items binned by score and error.
    low, high = np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
    order, z = np.argsort(component, kind="stable"), half_width(level)
    for inside in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        m, s = scores[inside], np.maximum(sd[inside], 1e-12)
        x, above, spread = _exceedance(m, s)
        expected = np.interp(m, x, above) - 0.5  # an item is not above itself
        best = expected - np.interp(m + z * s, x, above)
        worst = np.interp(m - z * s, x, above) - expected
        noise = z**2 * np.interp(m, x, spread)
        first = 1.0 + expected - np.sqrt(best**2 + noise)
        last = 1.0 + expected + np.sqrt(worst**2 + noise)
        low[inside] = np.clip(np.round(first), 1, len(inside))
        high[inside] = np.clip(np.round(last), 1, len(inside))
    return low, high


def _exceedance(mean: Vector, sd: Vector) -> tuple[Vector, Vector, Vector]:
    """Return how many items are expected above a score x, Σ_j P(r_j > x), and the variance, on a grid of x."""
    edges = np.linspace(mean.min(), mean.max() + 1e-9, _SCORE_BINS + 1)
    errors = np.quantile(sd, np.linspace(0.0, 1.0, _ERROR_BINS + 1)[1:-1])
    cell = np.searchsorted(edges[1:-1], mean) * _ERROR_BINS + np.searchsorted(errors, sd)
    held = np.bincount(cell, minlength=_SCORE_BINS * _ERROR_BINS)
    full = held > 0
    centre, width = (np.bincount(cell, v, len(held))[full] / held[full] for v in (mean, sd))
    far = 4.0 * float(sd.max())
    x = np.linspace(mean.min() - far, mean.max() + far, _PLACES)
    above, spread, count = np.zeros(_PLACES), np.zeros(_PLACES), held[full].astype(np.float64)
    # blocks of cells, with x along a row: neighbours in the table are close in memory
    for at in range(0, len(count), 64):
        here = slice(at, at + 64)
        p = normal_share((centre[here, None] - x) / width[here, None])
        above += count[here] @ p
        spread += count[here] @ (p * (1.0 - p))
    return x, above, spread
