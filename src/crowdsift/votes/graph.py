"""The graph of comparisons: which items are connected, by whatever chain of votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdsift import _core

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons

__all__ = ["components"]


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
