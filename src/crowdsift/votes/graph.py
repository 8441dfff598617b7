"""The graph of comparisons: which items are connected, by whatever chain of votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.votes import kernels, plain_kernels

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
    return kernels.components(votes.first, votes.second, votes.n_items)


def components_of(
    first: NDArray[np.integer], second: NDArray[np.integer], n_items: int
) -> NDArray[np.uint32]:
    """The same of any pairs of codes, without the compiled core.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.votes.graph import components_of
    >>> components_of(np.array([0, 3]), np.array([2, 1]), 4)
    array([0, 1, 0, 1], dtype=uint32)
    """
    return plain_kernels.components(first.astype(np.uint32), second.astype(np.uint32), n_items)
