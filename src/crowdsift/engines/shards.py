"""Pairs of items that votes of several shards compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SharedPairs"]


class SharedPairs(NamedTuple):
    """The pairs of a shard that other shards compare, too, and whether it is their owner.

    The owner of a pair adds up the weights of all shards, so that every pair is one edge of the
    graph of comparisons; `low` and `high` are codes of items, the lower first.
    """

    low: NDArray[np.uint32]
    high: NDArray[np.uint32]
    owner: NDArray[np.bool_]
