"""The functions of the compiled core that read and count votes, in NumPy.

A machine lent for its GPU has PyTorch and NumPy, but no compiled core: there the benchmarks of the torch engine use
these in its place. A test compares the two.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.votes.source import MOST_WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.uint32]
    Single = NDArray[np.float32]
    Double = NDArray[np.float64]
    Offsets = NDArray[np.int64]

__all__ = ["collapse", "components", "find_fault", "judged_by_one", "pool_pairs", "replace_core", "tally"]


def replace_core() -> None:
    """Register this module as the compiled core if there is none."""
    try:
        import crowdsift._core  # noqa: F401
    except ImportError:
        sys.modules["crowdsift._core"] = sys.modules[__name__]


def find_fault(
    first: Codes,
    second: Codes,
    worker: Codes | None,
    outcome: Single | None,
    weight: Single | None,
    n_items: int,
    n_workers: int,
) -> tuple[int, int]:
    """Return the number of the first fault and its row: 0 none, 1 item, 2 worker, 3 same item, ..."""
    found = np.zeros(len(first), np.uint8)
    if weight is not None:
        found[~((weight >= 0) & (weight <= np.float32(MOST_WEIGHT)))] = 5
    if outcome is not None:
        found[~((outcome >= 0) & (outcome <= 1))] = 4
    if worker is not None:
        found[worker >= n_workers] = 2
    found[first == second] = 3
    found[(first >= n_items) | (second >= n_items)] = 1
    row = int(np.argmax(found > 0)) if found.any() else 0
    return (int(found[row]), row) if len(found) else (0, 0)


def collapse(
    first: Codes,
    second: Codes,
    worker: Codes | None,
    outcome: Single | None,
    weight: Single | None,
    context: Codes | None,
    n_items: int,
    n_workers: int,
    oriented: bool,
    threads: int,
) -> tuple[Codes, Codes, Single, Single, Codes, Codes, Offsets]:
    """Rows in canonical order, equal ones merged; see `crowdsift._core.collapse`."""
    rows = len(first)
    who = np.zeros(rows, np.uint32) if worker is None else worker
    result = np.ones(rows, np.float32) if outcome is None else outcome + np.float32(0.0)
    amount = np.ones(rows, np.float32) if weight is None else weight
    kind = np.zeros(rows, np.uint32) if context is None else context
    turned = np.zeros(rows, bool)
    if not oriented:
        turned = (result < 0.5) | ((result == 0.5) & (first > second))
    one, two = np.where(turned, second, first), np.where(turned, first, second)
    result = np.where(turned, np.float32(1.0) - result, result)
    side = turned & (context is not None)
    kept = amount > 0
    keys: list[NDArray[Any]] = [column[kept] for column in (who, one, two, result, kind, side, amount)]
    order = np.lexsort(keys[::-1])  # weights last, so that sums are taken in one order
    keys = [column[order] for column in keys]
    new = np.zeros(len(order), bool)
    new[:1] = True
    for column in keys[:-1]:
        new[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(new)
    total = np.add.reduceat(keys[-1].astype(np.float64), starts) if len(starts) else np.empty(0)
    merged = [column[starts] for column in keys[:-1]]
    offsets = np.searchsorted(merged[0], np.arange(n_workers + 1)).astype(np.int64)
    empty = np.empty(0, np.uint32)
    return (
        merged[1].astype(np.uint32),
        merged[2].astype(np.uint32),
        merged[3].astype(np.float32),
        total.astype(np.float32),
        empty if context is None else merged[4].astype(np.uint32),
        empty if context is None else merged[5].astype(np.uint32),
        offsets,
    )


def pool_pairs(
    first: Codes, second: Codes, outcome: Single, weight: Single, n_items: int
) -> tuple[Codes, Codes, Single, Single]:
    """One row per pair, the preferred item first; see `crowdsift._core.pool_pairs`."""
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second)
    share = np.where(first < second, outcome, np.float32(1.0) - outcome).astype(np.float64)
    pairs, place = np.unique(low * n_items + high, return_inverse=True)
    wins = np.bincount(place, weight * share, len(pairs))
    total = np.bincount(place, weight.astype(np.float64), len(pairs))
    pairs, wins, total = (column[total > 0] for column in (pairs, wins, total))
    mean, other = (wins / total).astype(np.float32), ((total - wins) / total).astype(np.float32)
    turned = other > 0.5
    low, high = pairs // n_items, pairs % n_items
    one, two = np.where(turned, high, low), np.where(turned, low, high)
    result = np.where(turned, other, np.maximum(mean, np.float32(0.5)))
    order = np.lexsort((two, one))
    return (one[order].astype(np.uint32), two[order].astype(np.uint32), result[order], total[order].astype(np.float32))


def tally(
    first: Codes, second: Codes, outcome: Single, weight: Single, offsets: Offsets, rank: Codes, threads: int
) -> tuple[Double, Double, Double, NDArray[np.uint8]]:
    """Return what can be counted of votes, given ranks; see `crowdsift._core.tally`."""
    worker = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    place = rank.astype(np.int64)
    above = np.sign(place[second] - place[first])
    lean = outcome - np.float32(0.5)
    n_workers = len(offsets) - 1
    agreed = np.bincount(worker, weight * (lean * above > 0), n_workers)
    decided = np.bincount(worker, weight * (lean != 0), n_workers)
    both, twice = np.concatenate([first, second]), np.concatenate([weight, weight])
    appearances = np.bincount(both, twice, len(rank)).astype(np.float64)
    way = (outcome != 0) * np.uint8(1) | (outcome != 1) * np.uint8(2)
    ways = np.zeros(len(rank), np.uint8)
    np.bitwise_or.at(ways, first, way)
    np.bitwise_or.at(ways, second, (way & 1) << 1 | way >> 1)
    return agreed.astype(np.float64), decided.astype(np.float64), appearances, ways


def judged_by_one(first: Codes, second: Codes, offsets: Offsets, n_items: int) -> NDArray[np.uint8]:
    """Which items have votes of one worker only; see `crowdsift._core.judged_by_one`."""
    n_workers = len(offsets) - 1
    worker = np.repeat(np.arange(n_workers), np.diff(offsets))
    lowest, highest = np.full(n_items, n_workers), np.full(n_items, -1)
    for items in (first, second):
        np.minimum.at(lowest, items, worker)
        np.maximum.at(highest, items, worker)
    return np.asarray(lowest == highest, np.uint8)


def components(first: Codes, second: Codes, n_items: int) -> Codes:
    """Return the connected component of every item, numbered from 0 by its first item.

    Every item takes the smallest number among its neighbours, and the number of that number; such pointer jumping needs
    about as many rounds as the logarithm of the longest chain.
    """
    one, two = first.astype(np.int64), second.astype(np.int64)
    root = np.arange(n_items)
    while True:
        low = np.minimum(root[one], root[two])
        high = np.maximum(root[one], root[two])
        if (low == high).all():
            break
        np.minimum.at(root, high, low)
        while (root[root] != root).any():
            root = root[root]
    return np.unique(root, return_inverse=True)[1].astype(np.uint32)
