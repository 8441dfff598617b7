"""The graph of comparisons: which items are connected by a chain of votes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift import _core
from crowdsift.errors import RequestError
from crowdsift.numeric import Codes, Indices
from crowdsift.votes.comparisons import Comparisons


def components(votes: Comparisons) -> Codes:
    """Return the connected component of every item, numbered from 0 by its first item."""
    return _core.components(votes.first, votes.second, votes.n_items)


def pair_keys(first: NDArray[np.integer], second: NDArray[np.integer], n_items: int) -> Indices:
    """Return the number low·K + high of every pair among K items, in either order."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.asarray(low.astype(np.int64) * n_items + high, np.int64)


def pair_codes(first: NDArray[np.integer], second: NDArray[np.integer], n_items: int) -> tuple[Indices, Indices]:
    """Return the distinct keys in ascending order, and the index of every pair's key."""
    keys, code = np.unique(pair_keys(first, second, n_items), return_inverse=True)
    return keys, code.reshape(-1)


def for_lower(first: NDArray[np.integer], second: NDArray[np.integer], values: NDArray[Any]) -> NDArray[Any]:
    """Convert outcomes or probabilities for the first item to ones for the item with the lower code."""
    return np.where(first > second, 1.0 - values, values)


def folds(votes: Comparisons, count: int = 5, seed: int = 0) -> Iterator[tuple[Comparisons, Comparisons]]:
    """Split votes at random: each part is left out once, and the rest is fitted."""
    # Equal votes of a worker, collapsed into one comparison, are assigned one by one (with a fractional weight as a
    # whole). Items and workers keep their codes.
    if not 2 <= count <= votes.total_weight:
        raise RequestError(f"{count} parts of {votes.total_weight:g} votes cannot be left out")
    rng = np.random.Generator(np.random.PCG64(seed))
    weight = votes.weight.astype(np.float64)
    whole = weight == np.floor(weight)
    drawn = rng.multinomial(np.where(whole, weight, 1).astype(np.int64), [1.0 / count] * count)
    shares = np.where(whole[:, None], drawn, drawn * weight[:, None])
    for part in range(count):
        yield _with_weight(votes, weight - shares[:, part]), _with_weight(votes, shares[:, part])


def _with_weight(votes: Comparisons, weight: Any) -> Comparisons:
    changed = replace(votes, weight=weight.astype(np.float32))
    return changed.select(weight > 0)
