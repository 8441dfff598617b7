"""Exact variances of compared pairs: by a sparse factorisation, or a dense one of few items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift import _core
from crowdsift.numeric.dense import inverse_of_root, inverse_root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.grid import Factoriser
    from crowdsift.numeric import Vector

__all__ = ["Factorisers"]

# Up to so many items a dense factorisation takes a tenth of a second; LAPACK's multiplications are
# so much faster than sparse ones that this counts for so many of those.
_DENSE_ITEMS, _DENSE_WORK = 1_200, 5e7


class Factorisers:
    """Finds factorisers; the analysis of the last pairs is kept, also where it was refused."""

    def __init__(self) -> None:
        self._pairs: tuple[NDArray[np.uint32], NDArray[np.uint32], int] | None = None
        self._most = 0.0
        self._sparse: _core.Factoriser | None = None

    def find(
        self, low: NDArray[np.uint32], high: NDArray[np.uint32], n_items: int, most: float
    ) -> Factoriser | None:
        """The cheaper way that takes at most so many multiplications; None where there is none."""
        low, high = np.ascontiguousarray(low, np.uint32), np.ascontiguousarray(high, np.uint32)
        if not self._known(low, high, n_items):
            self._pairs, self._most, self._sparse = (low, high, n_items), 0.0, None
        if self._sparse is None and most > self._most:
            found = _core.Factoriser(low, high, n_items, most)
            self._most, self._sparse = found.refused, found if found.possible else None
        if self._sparse is not None and self._sparse.work <= most:
            return self._sparse
        if n_items <= _DENSE_ITEMS and most >= _DENSE_WORK:
            return _Dense(low, high, n_items)
        return None

    def _known(self, low: NDArray[np.uint32], high: NDArray[np.uint32], n_items: int) -> bool:
        if self._pairs is None or self._pairs[2] != n_items:
            return False
        return np.array_equal(self._pairs[0], low) and np.array_equal(self._pairs[1], high)


class _Dense:
    """By LAPACK."""

    def __init__(self, low: NDArray[np.uint32], high: NDArray[np.uint32], n_items: int) -> None:
        self._low, self._high, self._n = low, high, n_items

    def __call__(self, weight: Vector) -> tuple[Vector, Vector, float, bool]:
        """Of items and pairs, the log-determinant, whether definite; see the protocol."""
        n, low, high = self._n, self._low, self._high
        # The lower triangle is all that is read.
        place = np.maximum(low, high).astype(np.int64) * n + np.minimum(low, high)
        precision = -np.bincount(place, weight, n * n).astype(np.float64).reshape(n, n)
        ends = np.bincount(low, weight, n) + np.bincount(high, weight, n)
        precision[np.diag_indices(n)] = 1.0 + ends
        try:
            root, log_determinant = inverse_root(precision)
        except np.linalg.LinAlgError:
            return np.ones(n), np.ones(len(weight)), 0.0, False
        inverse = inverse_of_root(root)
        items = np.ascontiguousarray(np.diag(inverse))
        pairs = items[low] + items[high] - 2.0 * inverse[low, high]
        return items, pairs, log_determinant, bool((pairs > 0.0).all())
