"""The specification of likelihoods with parameters of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import Curvature
from crowdsift.engines.dense import DenseOperator
from reference_engine.building_blocks import laplacian
from reference_engine.links import LIKELIHOODS

if TYPE_CHECKING:
    from crowdsift.numeric import Vector
    from reference_engine.votes import VoteColumns

_ROUNDING = 2.0**-50  # of a parameter: steps that are no longer end the search


class ReferenceSchur:
    """Second derivatives a (in d) and b (in d and θ) of every vote."""

    def __init__(self, votes: VoteColumns, a: Vector, b: Vector) -> None:
        self._votes, self._a, self._b = votes, a, b

    def reduced(self, inverse: Vector | None) -> DenseOperator:
        """A - B·inverse·B'; see the protocol."""
        votes = self._votes
        matrix = laplacian(votes.n_items, votes.first, votes.second, self._a)
        if inverse is None:
            return matrix
        B = np.zeros((votes.n_items, votes.n_workers, self._b.shape[1]))
        np.add.at(B, (votes.first, votes.worker), self._b)
        np.subtract.at(B, (votes.second, votes.worker), self._b)
        full = matrix.multiply(np.eye(votes.n_items))
        size = np.abs(self._a)
        return DenseOperator(
            full - np.einsum("jsp,spq,ksq->jk", B, inverse, B, optimize=True), votes.to_both(size, size)
        )


class ReferenceLikelihood:
    """Value and derivatives, and the best parameters of every worker."""

    def __init__(self, votes: VoteColumns) -> None:
        self._votes = votes

    def derivatives(self, likelihood: str, scores: Vector, theta: Vector) -> Curvature:
        """Value and derivatives; see the protocol."""
        votes, n = self._votes, self._votes.n
        votes.counter.passes += 1
        at = LIKELIHOODS[likelihood](votes.differences(scores), theta[votes.worker], votes.x, votes.y)
        return Curvature(
            float(n @ at.value),
            votes.to_items(n * at.d),
            votes.to_workers(n[:, None] * at.t),
            votes.to_workers(-n[:, None, None] * at.tt),
            ReferenceSchur(votes, -n * at.dd, -n[:, None] * at.dt),
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
        m, p = theta.shape
        damping = np.zeros(m)
        value, gradient, hessian = self._problems(likelihood, scores, theta, centre, penalty)
        for _ in range(200):
            held = ((theta <= bounds[0]) & (gradient > 0)) | ((theta >= bounds[1]) & (gradient < 0))
            slope = np.where(held, 0.0, gradient)
            if np.abs(slope).max(initial=0.0) <= tolerance:
                break
            eigenvalues, vectors = np.linalg.eigh(hessian)
            size = np.maximum(np.abs(eigenvalues), 1e-8) + damping[:, None]
            step = np.einsum("sij,sj,skj,sk->si", vectors, 1.0 / size, vectors, slope)
            trial = np.clip(theta - step, *bounds)
            moved = np.abs(trial - theta)
            ahead = self._problems(likelihood, scores, trial, centre, penalty)
            better = ahead[0] <= value + 1e-14 * (1.0 + np.abs(value))
            theta = np.where(better[:, None], trial, theta)
            value = np.where(better, ahead[0], value)
            gradient = np.where(better[:, None], ahead[1], gradient)
            hessian = np.where(better[:, None, None], ahead[2], hessian)
            scale = np.abs(hessian).reshape(m, -1).max(axis=1, initial=0.0)
            damping = np.where(better, 0.1 * damping, 4.0 * damping + 0.01 * scale)
            if (moved <= _ROUNDING * np.maximum(np.abs(theta), 1.0)).all():
                break  # weights are so large that rounding keeps the gradient above the tolerance
        self._votes.counter.passes += 1
        return theta.reshape(m, p)

    def _problems(
        self, likelihood: str, scores: Vector, theta: Vector, centre: Vector, penalty: float
    ) -> tuple[Vector, Vector, Vector]:
        """Value, gradient and Hessian of every worker's own problem."""
        votes, n = self._votes, self._votes.n
        at = LIKELIHOODS[likelihood](votes.differences(scores), theta[votes.worker], votes.x, votes.y)
        drift = theta - centre
        value = 0.5 * penalty * np.sum(drift**2, axis=1) - votes.to_workers(n * at.value)
        gradient = penalty * drift - votes.to_workers(n[:, None] * at.t)
        hessian = votes.to_workers(-n[:, None, None] * at.tt)
        return value, gradient, hessian + penalty * np.eye(theta.shape[1])
