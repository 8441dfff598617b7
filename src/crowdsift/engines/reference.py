"""The specification of the passes in plain NumPy: slow, dense, and easy to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines import ContextEngine, Curvature, Profile, Solution
from crowdsift.engines.grid import PLAIN, Habits
from crowdsift.engines.grid_reference import ReferenceGridSites
from crowdsift.engines.sides_reference import ReferenceSidePasses
from crowdsift.numeric.likelihoods import LIKELIHOODS, logistic, polya_gamma_mean
from crowdsift.votes.contexts import by_context

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["ReferenceEngine"]


class ReferenceLaplacian:
    """A dense Laplacian; solves are exact."""

    def __init__(self, n_items: int) -> None:
        self.matrix = np.zeros((n_items, n_items))

    def refresh(
        self, first: NDArray[np.uint32], second: NDArray[np.uint32], weight: Vector
    ) -> None:
        """Set L = Σ weight (e_first - e_second)(e_first - e_second)ᵀ."""
        self.matrix[:] = 0.0
        for a, b, sign in ((first, first, 1), (second, second, 1), (first, second, -1)):
            np.add.at(self.matrix, (a, b), sign * weight)
        np.add.at(self.matrix, (second, first), -weight)

    def multiply(self, x: Vector, shift: float = 0.0) -> Vector:
        """Return (L + shift I) x."""
        return self.matrix @ x + shift * x

    def diagonal(self) -> Vector:
        """Return the diagonal of L."""
        return np.diag(self.matrix).copy()

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """Solve by factorisation."""
        x = np.linalg.solve(self.matrix + shift * np.eye(len(rhs)), rhs)
        return Solution(np.asarray(x, dtype=np.float64), 1, 0.0, True)

    def pairs(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], Vector]:
        """The pairs of items with a weight, and the weights."""
        low, high = np.nonzero(np.triu(self.matrix, 1))
        return low.astype(np.uint32), high.astype(np.uint32), -self.matrix[low, high]


class ReferenceEngine:
    """Passes of `crowdsift.engines.Engine` in NumPy, one line an equation."""

    def __init__(self, comparisons: Comparisons) -> None:
        self.n_items = comparisons.n_items
        self.n_workers = comparisons.n_workers
        self.known_workers = comparisons.n_gold
        self.total_weight = comparisons.total_weight
        self.n_features = 0 if comparisons.features is None else comparisons.features.shape[1]
        self.passes: float = 0
        self._comparisons = comparisons
        self._first, self._second = comparisons.first, comparisons.second
        self._worker = comparisons.worker_codes()
        self.sides_known, self.ties = comparisons.sides_known, comparisons.ties_are_outcomes
        self._y = comparisons.outcome.astype(np.float64)
        self._n = comparisons.weight.astype(np.float64)
        features = (
            np.zeros((len(comparisons), 0))
            if comparisons.features is None
            else (comparisons.features)
        )
        self._x = features.astype(np.float64)
        self._precision = np.zeros(len(comparisons))
        self._a, self._b = np.zeros(len(comparisons)), np.zeros((len(comparisons), 0))
        self._inverse = np.zeros((self.n_workers, 1, 1))
        self._laplacian = ReferenceLaplacian(self.n_items)
        self.component = self._components()
        self.component_sizes = np.bincount(self.component)[self.component].astype(np.float64)

    @property
    def laplacian(self) -> ReferenceLaplacian:
        """The Laplacian that the passes refresh."""
        return self._laplacian

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        """Log-likelihood of the logistic model; see the protocol."""
        self.passes += 1
        value, _, _ = logistic(slopes[self._worker] * self._differences(scores), self._y)
        return float(self._n @ value)

    def expect(self, scores: Vector, slopes: Vector) -> tuple[float, float]:
        """Pólya-Gamma E-step; see the protocol."""
        self.passes += 1
        eta = slopes[self._worker] * self._differences(scores)
        self._precision = self._n * polya_gamma_mean(eta)
        value, _, _ = logistic(eta, self._y)
        return float(self._n @ value), float(self._precision.sum())

    def item_system(self, slopes: Vector) -> Vector:
        """Refresh the Laplacian and return the right-hand side; see the protocol."""
        self.passes += 1
        slope = slopes[self._worker]
        self._laplacian.refresh(self._first, self._second, slope**2 * self._precision)
        return self._to_items(slope * self._n * (self._y - 0.5))

    def regress_workers(self, scores: Vector, ridge: float) -> tuple[Vector, Vector]:
        """Slopes of workers and the item system; see the protocol."""
        d = self._differences(scores)
        top = self._to_workers(self._n * (self._y - 0.5) * d)
        bottom = self._to_workers(self._precision * d**2) + ridge
        slopes = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
        return slopes, self.item_system(slopes)

    def score_derivatives(self, scores: Vector, slopes: Vector) -> tuple[float, Vector]:
        """Log-likelihood, gradient and (in the Laplacian) Hessian; see the protocol."""
        self.passes += 1
        slope = slopes[self._worker]
        value, first, second = logistic(slope * self._differences(scores), self._y)
        self._laplacian.refresh(self._first, self._second, -(slope**2) * self._n * second)
        return float(self._n @ value), self._to_items(slope * self._n * first)

    def slope_information(self, scores: Vector, slopes: Vector) -> Vector:
        """Information on every worker's slope; see the protocol."""
        self.passes += 1
        d = self._differences(scores)
        _, _, second = logistic(slopes[self._worker] * d, self._y)
        return self._to_workers(-self._n * second * d**2)

    def common_slope(self, scores: Vector, slope: float, finest: float = 0.0) -> Profile:
        """Log-likelihood with one slope for all; see the protocol."""
        slopes = np.full(self.n_workers, slope)
        return self._profile(scores, slopes, np.full(self.n_workers, np.inf))

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
        """Log-likelihood with every slope at its optimum, always to the last digit."""
        slopes = self.fit_workers(
            "scaled-logit",
            scores,
            start[:, None],
            centre=np.array([mean]),
            penalty=precision,
            bounds=(-np.inf, np.inf),
            tolerance=1e-12,
        )[:, 0]
        information = self.slope_information(scores, slopes)
        return self._profile(scores, slopes, information + precision)

    def _profile(self, scores: Vector, slopes: Vector, curvature: Vector) -> Profile:
        at = self.derivatives("scaled-logit", scores, slopes[:, None])
        self._inverse = (1.0 / curvature)[:, None, None]
        return Profile(at.value, at.items, slopes, curvature)

    def slope_diagonal(self) -> Vector:
        """The diagonal of A; see the protocol."""
        sums = np.zeros(self.n_items)
        for items in (self._first, self._second):
            np.add.at(sums, items, self._a)
        return sums

    def slope_product(self, v: Vector, shift: float = 0.0) -> Vector:
        """(A - B D⁻¹ B' + shift I) v; see the protocol."""
        return self.reduced(v, self._inverse) + shift * v

    def derivatives(self, likelihood: str, scores: Vector, theta: Vector) -> Curvature:
        """Derivatives of a likelihood with worker parameters; see the protocol."""
        self.passes += 1
        at = LIKELIHOODS[likelihood](
            self._differences(scores), theta[self._worker], self._x, self._y
        )
        p = theta.shape[1]
        self._a, self._b = -self._n * at.dd, -self._n[:, None] * at.dt
        columns = [self._to_workers(self._n * at.t[:, j]) for j in range(p)]
        blocks = np.zeros((self.n_workers, p, p))
        np.add.at(blocks, self._worker, -self._n[:, None, None] * at.tt)
        size = np.abs(self._a)
        return Curvature(
            float(self._n @ at.value),
            self._to_items(self._n * at.d),
            np.stack(columns, axis=1) if p else np.zeros((self.n_workers, 0)),
            blocks,
            self._to_both(size, size),
        )

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
        """Every worker's parameters given the scores, by damped Newton steps all at once."""
        p = theta.shape[1]
        damping = np.zeros(self.n_workers)
        value, gradient, hessian = self._worker_problems(likelihood, scores, theta, centre, penalty)
        for _ in range(200):
            held = ((theta <= bounds[0]) & (gradient > 0)) | ((theta >= bounds[1]) & (gradient < 0))
            slope = np.where(held, 0.0, gradient)
            if np.abs(slope).max(initial=0.0) <= tolerance:
                break
            eigenvalues, vectors = np.linalg.eigh(hessian)
            size = np.maximum(np.abs(eigenvalues), 1e-8) + damping[:, None]
            step = np.einsum("sij,sj,skj,sk->si", vectors, 1.0 / size, vectors, slope)
            trial = np.clip(theta - step, *bounds)
            ahead = self._worker_problems(likelihood, scores, trial, centre, penalty)
            better = ahead[0] <= value + 1e-14 * (1.0 + np.abs(value))
            theta = np.where(better[:, None], trial, theta)
            value = np.where(better, ahead[0], value)
            gradient = np.where(better[:, None], ahead[1], gradient)
            hessian = np.where(better[:, None, None], ahead[2], hessian)
            scale = np.abs(hessian).reshape(self.n_workers, -1).max(axis=1, initial=0.0)
            damping = np.where(better, 0.1 * damping, 4.0 * damping + 0.01 * scale)
        return theta.reshape(self.n_workers, p)

    def _worker_problems(
        self, likelihood: str, scores: Vector, theta: Vector, centre: Vector, penalty: float
    ) -> tuple[Vector, Vector, Vector]:
        """Value, gradient and Hessian of every worker's own problem."""
        at = LIKELIHOODS[likelihood](
            self._differences(scores), theta[self._worker], self._x, self._y
        )
        drift = theta - centre
        value = 0.5 * penalty * np.sum(drift**2, axis=1) - self._to_workers(self._n * at.value)
        gradient = penalty * drift
        np.add.at(gradient, self._worker, -self._n[:, None] * at.t)
        hessian = np.tile(penalty * np.eye(theta.shape[1]), (self.n_workers, 1, 1))
        np.add.at(hessian, self._worker, -self._n[:, None, None] * at.tt)
        return value, gradient, hessian

    def couple(self, v: Vector) -> Vector:
        """B' v; see the protocol."""
        self.passes += 1
        products = self._b * self._differences(v)[:, None]
        result = np.zeros((self.n_workers, products.shape[1]))
        np.add.at(result, self._worker, products)
        return result

    def spread(self, u: Vector) -> Vector:
        """B u; see the protocol."""
        self.passes += 1
        return self._to_items((self._b * u[self._worker]).sum(axis=1))

    def reduced(self, v: Vector, inverse: Vector) -> Vector:
        """(A - B·inverse·B') v; see the protocol."""
        u = np.einsum("sjk,sk->sj", inverse, self.couple(v))
        return self._to_items(self._a * self._differences(v)) - self.spread(u)

    def item_curvature(self) -> None:
        """Refresh the Laplacian with A; see the protocol."""
        self.passes += 1
        self._laplacian.refresh(self._first, self._second, self._a)

    def margin_flow(self, x: Vector, prior: float) -> Vector:
        """Product with the smoothed margins; see the protocol."""
        self.passes += 1
        c = (self._n * self._y + prior) / (self._n + 2 * prior) - 0.5
        return self._to_both(c * x[self._second], -c * x[self._first])

    def side_totals(self) -> tuple[Vector, Vector]:
        """Answers by side; see the protocol."""
        crowd = self.n_workers - self.known_workers
        decided = np.where(self._y == 0.5, 0.0, self._n)
        counts = np.bincount(self._worker, decided, self.n_workers)[:crowd]
        leaning = np.bincount(self._worker, decided * (2 * self._y - 1), self.n_workers)[:crowd]
        return counts.astype(np.float64), leaning.astype(np.float64)

    def grid_sites(self, habits: Habits = PLAIN) -> ReferenceGridSites:
        """New sites of expectation propagation; see the protocol."""
        return ReferenceGridSites(
            self._laplacian,
            self._first,
            self._second,
            self._worker,
            self._y,
            self._n,
            self.n_workers,
            self.sides_known,
            habits,
            self.known_workers,
        )

    def by_context(self) -> ContextEngine | None:
        """An engine over workers in contexts; see the protocol."""
        found = by_context(self._comparisons)
        if found is None:
            return None
        return ContextEngine(ReferenceEngine(found.votes), found.worker, found.context)

    def side_passes(self) -> ReferenceSidePasses:
        """Passes with a side term; see the protocol."""
        return ReferenceSidePasses(self, self._comparisons)

    def _components(self) -> NDArray[np.uint32]:
        """Lowest label wins along every comparison until nothing moves; then numbered anew."""
        label, before = np.arange(self.n_items), np.full(self.n_items, -1)
        while (label != before).any():
            before = label.copy()
            np.minimum.at(label, self._first, before[self._second])
            np.minimum.at(label, self._second, before[self._first])
        return np.unique(label, return_inverse=True)[1].astype(np.uint32)

    def _differences(self, scores: Vector) -> Vector:
        return scores[self._first] - scores[self._second]

    def _to_workers(self, values: Vector) -> Vector:
        return np.bincount(self._worker, values, self.n_workers).astype(np.float64)

    def _to_items(self, values: Vector) -> Vector:
        return self._to_both(values, -values)

    def _to_both(self, to_first: Vector, to_second: Vector) -> Vector:
        sums = np.zeros(self.n_items)
        np.add.at(sums, self._first, to_first)
        np.add.at(sums, self._second, to_second)
        return sums
