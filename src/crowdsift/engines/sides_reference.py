"""The specification of the passes with a side term in plain NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.sides import SideCurvature
from crowdsift.numeric.likelihoods import logistic, polya_gamma_mean

if TYPE_CHECKING:
    from crowdsift.engines.reference import ReferenceEngine
    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["ReferenceSidePasses"]


class ReferenceSidePasses:
    """Passes of `crowdsift.engines.sides.SidePasses`, one line an equation."""

    def __init__(self, engine: ReferenceEngine, comparisons: Comparisons) -> None:
        self._engine = engine
        self._first, self._second = comparisons.first, comparisons.second
        self._worker = comparisons.worker_codes()
        self._y = comparisons.outcome.astype(np.float64)
        self._n = comparisons.weight.astype(np.float64)
        self._precision = np.zeros(len(comparisons))

    def expect(self, scores: Vector, slopes: Vector, sides: Vector) -> tuple[float, float]:
        """Pólya-Gamma E-step; see the protocol."""
        self._engine.passes += 1
        eta = self._eta(scores, slopes, sides)
        self._precision = self._n * polya_gamma_mean(eta)
        return float(self._n @ logistic(eta, self._y)[0]), float(self._precision.sum())

    def item_system(self, slopes: Vector, sides: Vector) -> Vector:
        """Refresh the Laplacian and return the right-hand side; see the protocol."""
        self._engine.passes += 1
        slope, side = slopes[self._worker], sides[self._worker]
        self._engine.laplacian.refresh(self._first, self._second, slope**2 * self._precision)
        return self._to_items(slope * (self._n * (self._y - 0.5) - self._precision * side))

    def regress_workers(
        self, scores: Vector, ridge: float, side_ridge: float
    ) -> tuple[Vector, Vector, Vector]:
        """Slopes and sides of workers and the item system; see the protocol."""
        d = scores[self._first] - scores[self._second]
        target = self._n * (self._y - 0.5)
        matrix = np.empty((self._engine.n_workers, 2, 2))
        matrix[:, 0, 0] = self._to_workers(self._precision * d**2) + ridge
        matrix[:, 0, 1] = matrix[:, 1, 0] = self._to_workers(self._precision * d)
        matrix[:, 1, 1] = self._to_workers(self._precision) + side_ridge
        right = np.stack([self._to_workers(target * d), self._to_workers(target)], axis=1)
        slopes, sides = np.linalg.solve(matrix, right[:, :, None])[:, :, 0].T.copy()
        return slopes, sides, self.item_system(slopes, sides)

    def derivatives(self, scores: Vector, slopes: Vector, sides: Vector) -> SideCurvature:
        """Derivatives in scores, slopes and sides; see the protocol."""
        self._engine.passes += 1
        d = scores[self._first] - scores[self._second]
        value, first, second = logistic(self._eta(scores, slopes, sides), self._y)
        push, information = self._n * first, -self._n * second
        slope = slopes[self._worker]
        self._engine.laplacian.refresh(self._first, self._second, slope**2 * information)
        workers = [self._to_workers(push * x) for x in (d, 1.0)]
        blocks = [self._to_workers(information * x) for x in (d**2, d, 1.0)]
        return SideCurvature(
            float(self._n @ value),
            self._to_items(slope * push),
            np.stack(workers, axis=1),
            np.stack(blocks, axis=1),
        )

    def _eta(self, scores: Vector, slopes: Vector, sides: Vector) -> Vector:
        d = scores[self._first] - scores[self._second]
        return np.asarray(slopes[self._worker] * d + sides[self._worker])

    def _to_items(self, values: Vector) -> Vector:
        k = self._engine.n_items
        total = np.zeros(k)
        np.add.at(total, self._first, values)
        np.subtract.at(total, self._second, values)
        return total

    def _to_workers(self, values: Vector) -> Vector:
        return np.bincount(self._worker, values, self._engine.n_workers).astype(np.float64)
