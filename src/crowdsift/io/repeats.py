"""Rows that come twice, as where a file was uploaded twice: found by chance and by order.

Many votes repeat for good reason: two models are compared over and over. A row is suspicious if it
equals an earlier one in columns that otherwise tell all rows apart; if far more rows are equal than
pairs of items repeat by chance, while hardly any worker answers a pair differently the second time;
or if a whole block of rows comes again in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]

__all__ = ["Repeats", "find_repeats"]

_FEWEST = 20  # rows that repeat, or rows of a block, below which chance explains them
_CLEARLY = 5.0  # standard deviations beyond chance
_CONFLICTS = 0.1  # second answers that differ, per equal one, where workers judge pairs again
_SAMPLE = 1 << 19  # about the number of rows that are sorted
_MAX_BLOCK_ROWS = 1 << 22  # beyond these only equal rows are counted, not their order
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Repeats:
    """How many rows repeat, the first of them, and in what they are equal."""

    count: int
    row: int
    equal_in: str


def find_repeats(
    columns: tuple[NDArray[Any], ...], further: Callable[[], Hashes | None]
) -> Repeats | None:
    """Return the rows that repeat earlier ones beyond chance, or None.

    Parameters
    ----------
    columns
        First item, second item and worker as codes, then what else makes a vote.
    further
        Returns a hash of the columns of the source that are not of the votes, or None. Called only
        if votes repeat.
    """
    first, second, worker = columns[:3]
    pair = _mixed(np.minimum(first, second), np.maximum(first, second))
    cell, vote = _mixed(worker, pair), _mixed(*columns)
    step = len(vote) // _SAMPLE + 1
    some = np.flatnonzero(cell % np.uint64(step) == 0)  # all rows of a worker on a pair, or none
    again, at = _again(vote[some])
    if not again:
        return None
    named = False
    if (other := further()) is not None:
        whole = _mixed(vote, other)
        named = 2 * _distinct(other[some]) >= _distinct(whole[some])
        again, at = _again(whole[some])
        if named and again:
            return Repeats(step * again, int(some[at]), "every column")
        vote = vote if named else whole
    chance = _expected(pair, worker, step)
    bound = chance + _CLEARLY * np.sqrt(chance) + _FEWEST
    equal, judged = step * again, step * (len(some) - _distinct(cell[some]))
    if not named and equal > bound and judged - equal <= max(_CONFLICTS * equal, bound):
        return Repeats(equal, int(some[at]), "worker, items and answer")
    return _block(vote, step) if len(vote) <= _MAX_BLOCK_ROWS else None


def _mixed(*columns: NDArray[Any]) -> Hashes:
    """Hash each row of columns, of codes, hashes or float32."""
    result = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        result ^= (column.view(np.uint32) if column.dtype == np.float32 else column).astype(
            np.uint64
        )
        result *= _ODD
        result ^= result >> np.uint64(29)
    return result


def _distinct(keys: Hashes) -> int:
    """Count distinct keys; to sort them is quicker than `numpy.unique`."""
    return int((np.diff(np.sort(keys)) != 0).sum()) + 1


def _again(keys: Hashes) -> tuple[int, int]:
    """Return how many keys equal an earlier one, and the place of the first of these."""
    first = np.unique(keys, return_index=True)[1]
    later = np.ones(len(keys), bool)
    later[first] = False
    return len(keys) - len(first), int(np.argmax(later)) if len(keys) else 0


def _expected(pair: Hashes, worker: NDArray[Any], step: int) -> float:
    """Return how often workers would judge a pair again by chance, if they drew pairs like all.

    Two draws are the same pair with probability q = sum of squared shares, so that n draws of a
    worker hold about q n (n - 1) / 2 repeated ones, and never more than n - 1.
    """
    votes = np.unique(pair[pair % np.uint64(step) == 0], return_counts=True)[1]
    equal = step * float(((votes / len(pair)) ** 2).sum())
    own = np.bincount(worker).astype(np.float64)
    own = own[own > 0]
    return float(np.minimum(own - 1.0, equal * own * (own - 1.0) / 2.0).sum())


def _block(vote: Hashes, step: int) -> Repeats | None:
    """Find blocks of rows that come again in the same order, by hashes of windows of rows.

    A window of fewer different rows may come again by chance, as where a file is sorted.
    """
    count = len(vote) - _FEWEST + 1
    if count <= _FEWEST:
        return None
    powers = np.full(len(vote), _ODD, np.uint64)
    powers[0] = 1
    sums = np.concatenate([[np.uint64(0)], np.cumsum(vote * np.cumprod(powers))])
    powers[1:] = pow(int(_ODD), -1, 1 << 64)
    window = _mixed((sums[_FEWEST:] - sums[:-_FEWEST]) * np.cumprod(powers)[:count])
    at = np.flatnonzero(window % np.uint64(step) == 0)
    _, first, code = np.unique(window[at], return_index=True, return_inverse=True)
    later = at[at - at[first[code.reshape(-1)]] >= _FEWEST]
    views = np.lib.stride_tricks.sliding_window_view(vote, _FEWEST)
    kept = [np.zeros(0, np.int64)]
    for start in range(0, len(later), 1 << 16):
        part = later[start : start + (1 << 16)]
        varied = (np.diff(np.sort(views[part], axis=1), axis=1) != 0).sum(axis=1) + 1
        kept.append(part[2 * varied >= _FEWEST])
    begins = np.concatenate(kept)
    change = np.bincount(begins, minlength=len(vote) + 1) - np.bincount(
        begins + _FEWEST, minlength=len(vote) + 1
    )
    covered = np.cumsum(change)[:-1] > 0
    if not covered.any():
        return None
    return Repeats(int(covered.sum()), int(np.argmax(covered)),
                   "worker, items and answer, in the same order")  # fmt: skip
