"""The graph of comparisons: which items are connected, by whatever chain of votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift import _core

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons

__all__ = ["components", "components_of"]


def components(votes: Comparisons) -> NDArray[np.uint32]:
    """The connected component of every item, numbered from 0 by its first item.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.votes.graph import components
    >>> components(Comparisons.from_arrays(["a", "c"], ["b", "d"], worker=[1, 1]))
    array([0, 0, 1, 1], dtype=uint32)
    """
    return _core.components(votes.first, votes.second, votes.n_items)


def components_of(
    first: NDArray[np.integer], second: NDArray[np.integer], n_items: int
) -> NDArray[np.uint32]:
    """The same of any pairs of codes, without the compiled core.

    Every item takes the smallest number among its neighbours, and the number of that number;
    such pointer jumping needs about as many rounds as the logarithm of the longest chain.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.votes.graph import components_of
    >>> components_of(np.array([0, 3]), np.array([2, 1]), 4)
    array([0, 1, 0, 1], dtype=uint32)
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
