"""The engine over the compiled core: threads over ranges of workers, one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift import _core
from crowdsift.engines import ContextEngine, Curvature, Profile, Solution
from crowdsift.engines.grid import PLAIN, Habits
from crowdsift.engines.grid_cpu import CpuGridSites
from crowdsift.engines.sides_cpu import CpuSidePasses
from crowdsift.votes.contexts import by_context

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["CpuEngine"]


class CpuLaplacian:
    """The core's sparse Laplacian, of fixed sparsity."""

    def __init__(self, core: _core.Core, n_items: int) -> None:
        self._core, self._n = core, n_items

    def multiply(self, x: Vector, shift: float = 0.0) -> Vector:
        """Return (L + shift I) x."""
        return self._core.multiply(x, shift)

    def diagonal(self) -> Vector:
        """Return the diagonal of L."""
        return self._core.diagonal()

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """Jacobi-preconditioned conjugate gradients from `start`."""
        return Solution(*self._core.solve(rhs, start, shift, tolerance, most))

    def pairs(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], Vector]:
        """The pairs of items with a weight, and the weights."""
        low, high, weight = self._core.weighted_pairs()
        return low, high, weight.astype(np.float64)


class CpuEngine:
    """Passes of `crowdsift.engines.Engine` on the compiled core."""

    def __init__(self, comparisons: Comparisons, threads: int) -> None:
        self._core = _core.Core(
            comparisons.first,
            comparisons.second,
            comparisons.outcome,
            comparisons.weight,
            comparisons.offsets,
            comparisons.features,
            comparisons.n_items,
            threads,
        )
        self.n_items = comparisons.n_items
        self.sides_known, self.ties = comparisons.sides_known, comparisons.ties_are_outcomes
        self.n_workers = comparisons.n_workers
        self.known_workers = comparisons.n_gold
        self.total_weight = comparisons.total_weight
        self.n_features = 0 if comparisons.features is None else comparisons.features.shape[1]
        self.passes: float = 0
        self.component = _core.components(comparisons.first, comparisons.second, self.n_items)
        self.component_sizes = np.bincount(self.component)[self.component].astype(np.float64)
        self._by, self._threads = (comparisons if comparisons.by else None), threads
        self._laplacian = CpuLaplacian(self._core, self.n_items)

    @property
    def laplacian(self) -> CpuLaplacian:
        """The Laplacian that the passes refresh."""
        return self._laplacian

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        """Log-likelihood of the logistic model; see the protocol."""
        self.passes += 1
        return self._core.log_likelihood(scores, slopes)

    def expect(self, scores: Vector, slopes: Vector) -> tuple[float, float]:
        """Pólya-Gamma E-step; see the protocol."""
        self.passes += 1
        return self._core.expect(scores, slopes)

    def item_system(self, slopes: Vector) -> Vector:
        """Refresh the Laplacian and return the right-hand side; see the protocol."""
        self.passes += 1
        return self._core.item_system(slopes)

    def regress_workers(self, scores: Vector, ridge: float) -> tuple[Vector, Vector]:
        """Slopes of workers and the item system, in one pass; see the protocol."""
        self.passes += 1
        return self._core.regress_workers(scores, ridge)

    def score_derivatives(self, scores: Vector, slopes: Vector) -> tuple[float, Vector]:
        """Log-likelihood, gradient and (in the Laplacian) Hessian; see the protocol."""
        self.passes += 1
        return self._core.score_derivatives(scores, slopes)

    def slope_information(self, scores: Vector, slopes: Vector) -> Vector:
        """Information on every worker's slope; see the protocol."""
        self.passes += 1
        return self._core.slope_information(scores, slopes)

    def common_slope(self, scores: Vector, slope: float, finest: float = 0.0) -> Profile:
        """Log-likelihood with one slope for all; see the protocol."""
        self.passes += 1
        told = self._core.common_slope(scores, slope, finest)
        return Profile(*told, np.full(self.n_workers, slope), np.full(self.n_workers, np.inf))

    def own_slopes(
        self,
        scores: Vector,
        start: Vector,
        *,
        mean: float,
        precision: float,
        last_step: float,
        finest: float = 0.0,
    ) -> Profile:
        """Log-likelihood with every slope at its optimum; see the protocol."""
        self.passes += 1
        return Profile(*self._core.own_slopes(scores, start, mean, precision, last_step, finest))

    def slope_diagonal(self) -> Vector:
        """The diagonal of A; see the protocol."""
        self.passes += 1
        return self._core.slope_diagonal()

    def slope_product(self, v: Vector, shift: float = 0.0) -> Vector:
        """(A - B D⁻¹ B' + shift I) v; see the protocol."""
        self.passes += 1
        return self._core.slope_product(v, shift)

    def derivatives(self, likelihood: str, scores: Vector, theta: Vector) -> Curvature:
        """Derivatives of a likelihood with worker parameters; see the protocol."""
        self.passes += 1
        return Curvature(*self._core.derivatives(likelihood, scores, theta))

    def fit_workers(
        self,
        likelihood: str,
        scores: Vector,
        theta: Vector,
        *,
        centre: Vector,
        penalty: float,
        bounds: tuple[float, float],
        tolerance: float = 1e-9,
    ) -> Vector:
        """Every worker's parameters given the scores; see the protocol."""
        self.passes += 1
        return self._core.fit_workers(
            likelihood, scores, theta, centre, penalty, *bounds, tolerance
        )[0]

    def couple(self, v: Vector) -> Vector:
        """B' v; see the protocol."""
        self.passes += 1
        return self._core.couple(v)

    def spread(self, u: Vector) -> Vector:
        """B u; see the protocol."""
        self.passes += 1
        return self._core.spread(u)

    def reduced(self, v: Vector, inverse: Vector) -> Vector:
        """(A - B·inverse·B') v; see the protocol."""
        self.passes += 1
        return self._core.reduced(v, inverse)

    def item_curvature(self) -> None:
        """Refresh the Laplacian with A; see the protocol."""
        self.passes += 1
        self._core.item_curvature()

    def margin_flow(self, x: Vector, prior: float) -> Vector:
        """Product with the smoothed margins; see the protocol."""
        self.passes += 1
        return self._core.margin_flow(x, prior)

    def side_totals(self) -> tuple[Vector, Vector]:
        """Answers by side; see the protocol."""
        self.passes += 1
        counts, leaning = self._core.side_totals()
        crowd = self.n_workers - self.known_workers
        return counts[:crowd], leaning[:crowd]

    def grid_sites(self, habits: Habits = PLAIN) -> CpuGridSites:
        """New sites of expectation propagation; see the protocol."""
        return CpuGridSites(self, self._core, habits)

    def by_context(self) -> ContextEngine | None:
        """An engine over workers in contexts; see the protocol."""
        found = None if self._by is None else by_context(self._by)
        if found is None:
            return None
        return ContextEngine(CpuEngine(found.votes, self._threads), found.worker, found.context)

    def side_passes(self) -> CpuSidePasses:
        """Passes with a side term; see the protocol."""
        return CpuSidePasses(self, self._core.side_passes())
