"""The side term of Pólya-Gamma EM: what `polya_gamma_em` needs of an engine, with sides inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.engines import Engine, Laplacian
    from crowdsift.numeric import Vector

__all__ = ["SideTerm"]


class SideTerm:
    """The passes of an engine for eta = slope·d + side, as `polya_gamma_em` calls them.

    The solver holds scores and slopes as ever. The sides live here: they enter every pass, and
    every regression of workers sets them anew together with the slopes, as the exact maximum of
    the expected log-likelihood in both. The scaling of the scores does not touch them.
    """

    def __init__(self, engine: Engine, side_ridge: float) -> None:
        self._passes, self._ridge = engine.side_passes(), side_ridge
        self.total_weight = engine.total_weight
        self.laplacian: Laplacian = engine.laplacian
        self.sides: Vector = np.zeros(engine.n_workers)

    def expect(self, scores: Vector, slopes: Vector) -> tuple[float, float]:
        """E-step at the sides as they stand."""
        return self._passes.expect(scores, slopes, self.sides)

    def item_system(self, slopes: Vector) -> Vector:
        """The item system at the sides as they stand."""
        return self._passes.item_system(slopes, self.sides)

    def regress_workers(self, scores: Vector, ridge: float) -> tuple[Vector, Vector]:
        """Slopes and sides of workers; the slopes and the item system go to the solver."""
        slopes, self.sides, rhs = self._passes.regress_workers(scores, ridge, self._ridge)
        return slopes, rhs
