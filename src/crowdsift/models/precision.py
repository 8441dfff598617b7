"""The joint precision of the scores, from which their covariance is made when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.dense import inverse_root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import Facts
    from crowdsift.engines.operators import Operator
    from crowdsift.numeric import Vector

__all__ = ["MOST_ITEMS", "ScorePrecision"]

MOST_ITEMS = 1_000  # of which an inverse takes a tenth of a second


@dataclass(frozen=True)
class ScorePrecision:
    """L + shift·I of scores that are then divided by `size`.

    Left-out votes and accuracies need no covariance, and its matrix of K² numbers takes longer to
    make than the scores of a few thousand votes.
    """

    laplacian: Vector
    component: NDArray[np.uint32]
    shift: float
    size: float = 1.0

    @staticmethod
    def of(
        laplacian: Operator, facts: Facts, shift: float, size: float = 1.0
    ) -> ScorePrecision | None:
        """That of a Laplacian; None where there are too many items."""
        if facts.n_items > MOST_ITEMS:
            return None
        low, high, weight = laplacian.pairs()
        matrix = np.diag(laplacian.diagonal())
        np.subtract.at(matrix, (low, high), weight)
        np.subtract.at(matrix, (high, low), weight)
        return ScorePrecision(matrix, facts.component, shift, size)

    @cached_property
    def root(self) -> Vector | None:
        """R with RᵀR the covariance, that of the levels of components included; None if improper.

        On a component of K items (L + shift·I) 1 = shift·1: its level is independent of the
        differences and of no interest. 11ᵀ/K is added, so that nothing cancels where the shift is
        tiny. None where the curvature is not that of a maximum.
        """
        matrix = self.laplacian + self._level
        matrix[np.diag_indices_from(matrix)] += self.shift
        try:
            root, _ = inverse_root(matrix)
        except np.linalg.LinAlgError:
            return None
        root /= self.size
        return root

    @cached_property
    def covariance(self) -> Vector | None:
        """Covariance of the scores about the means of their components.

        With 11ᵀ/K added the level has variance 1/(shift + 1), which is here taken away.
        """
        if self.root is None:
            return None
        covariance: Vector = self.root.T @ self.root
        covariance -= self._level / ((self.shift + 1.0) * self.size**2)
        return covariance

    @cached_property
    def _level(self) -> Vector | float:
        """11ᵀ/K on every component."""
        sizes = np.bincount(self.component)
        if len(sizes) == 1:
            return 1.0 / len(self.component)
        together = self.component[:, None] == self.component[None, :]
        level: Vector = together / sizes[self.component].astype(np.float64)
        return level
