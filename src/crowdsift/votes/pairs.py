"""Unordered pairs of items: a number for each, and votes as those of its item of the lower code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]

__all__ = ["for_lower", "pair_codes", "pair_keys"]


def pair_keys(first: NDArray[np.integer], second: NDArray[np.integer], n_items: int) -> Codes:
    """The number low·K + high of every pair of K items, whichever of the two comes first.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.votes.pairs import pair_keys
    >>> pair_keys(np.array([0, 2]), np.array([2, 0]), 3)
    array([2, 2])
    """
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.asarray(low.astype(np.int64) * n_items + high, np.int64)


def pair_codes(
    first: NDArray[np.integer], second: NDArray[np.integer], n_items: int
) -> tuple[Codes, Codes]:
    """The distinct keys in rising order, and which of them every pair has.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.votes.pairs import pair_codes
    >>> keys, code = pair_codes(np.array([2, 0, 1]), np.array([1, 1, 0]), 3)
    >>> keys.tolist(), code.tolist()
    ([1, 5], [1, 0, 0])
    """
    keys, code = np.unique(pair_keys(first, second, n_items), return_inverse=True)
    return keys, code.reshape(-1)


def for_lower(
    first: NDArray[np.integer], second: NDArray[np.integer], values: NDArray[Any]
) -> NDArray[Any]:
    """Outcomes or probabilities of the first item as those of the item of the lower code.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.votes.pairs import for_lower
    >>> for_lower(np.array([0, 2]), np.array([2, 0]), np.array([1.0, 1.0]))
    array([1., 0.])
    """
    return np.where(first > second, 1.0 - values, values)
