"""Dense operators; solves are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.kinds import Solution, WeightedPairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = ["DenseOperator", "laplacian"]


class DenseOperator:
    """A symmetric matrix; its diagonal for preconditioning may be given apart, and its pairs."""

    def __init__(
        self, matrix: Vector, diagonal: Vector | None = None, pairs: WeightedPairs | None = None
    ) -> None:
        self._matrix, self._pairs = matrix, pairs
        self._diagonal = np.diag(matrix).copy() if diagonal is None else diagonal

    def multiply(self, v: Vector) -> Vector:
        """The product with v."""
        return np.asarray(self._matrix @ v)

    def diagonal(self) -> Vector:
        """The diagonal."""
        return self._diagonal

    def pairs(self) -> WeightedPairs:
        """The entries off the diagonal, of opposite sign."""
        if self._pairs is None:
            raise TypeError("the matrix is no Laplacian of pairs")
        return self._pairs

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """By factorisation."""
        x = np.linalg.solve(self._matrix + shift * np.eye(len(rhs)), rhs)
        return Solution(np.asarray(x, dtype=np.float64), 1, 0.0, True)


def laplacian(
    n_items: int, first: NDArray[np.uint32], second: NDArray[np.uint32], weight: Vector
) -> DenseOperator:
    """Σ weight (e_first - e_second)(e_first - e_second)ᵀ."""
    matrix = np.zeros((n_items, n_items))
    for a, b, sign in ((first, first, 1), (second, second, 1), (first, second, -1)):
        np.add.at(matrix, (a, b), sign * weight)
    np.add.at(matrix, (second, first), -weight)
    low, high = np.minimum(first, second), np.maximum(first, second)
    return DenseOperator(matrix, pairs=WeightedPairs(low, high, weight))
