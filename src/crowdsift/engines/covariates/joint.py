"""The joint Gaussian of scores and coefficients, given the sites of votes on (d, η).

η = c·γ_s with γ_s = g + T^½ u_s, u_s ~ N(0, I), g ~ N(0, I) and scores r ~ N(0, I). With
F_s = Σ n A_ηη ccᵀ, B_s = Σ n A_dη (e_w - e_l)cᵀ and f_s = Σ n h_η c of a worker's sites, and
X_s = (B_s; F_s)T^½, M_s = (I + T^½F_sT^½)⁻¹, the precision of (r, g) without the u_s is

    (L + I   ΣB_s     )
    (ΣB_sᵀ   ΣF_s + I ) - Σ X_s M_s X_sᵀ,

and γ_s = J_s (r, g) + T^½M_sT^½ f_s with J_s = (0, I) - T^½M_sX_sᵀ, of conditional covariance
T^½M_sT^½. A coordinate of g that is not free is 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.kinds import WeightedPairs
from crowdsift.engines.reference.operators import DenseOperator
from crowdsift.numeric.dense import inverse_root
from crowdsift.votes.pairs import pair_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = ["Elimination", "JointPosterior", "PairOperator", "eliminate"]


class PairOperator(DenseOperator):
    """A matrix whose rows add up to 0: a Laplacian over all pairs, of weights of any sign."""

    def pairs(self) -> WeightedPairs:
        """All pairs that have a weight."""
        low, high = np.triu_indices(len(self._matrix), 1)
        weight = -self._matrix[low, high]
        kept = weight != 0.0
        low, high = low[kept].astype(np.uint32), high[kept].astype(np.uint32)
        return WeightedPairs(low, high, weight[kept])


@dataclass(frozen=True)
class JointPosterior:
    """Covariances of (r, g) and of coefficients.

    `with_coefficients` holds Cov((r, g), γ_s), workers x (items + covariates) x covariates;
    `coefficients` Cov(γ_s) and `given` that given (r, g), workers x covariates x covariates.
    """

    covariance: Vector
    with_coefficients: Vector
    coefficients: Vector
    given: Vector


@dataclass(frozen=True)
class Elimination:
    """The joint precision with workers eliminated.

    `X` is workers x (items + covariates) x covariates, `M` workers x covariates x covariates.
    """

    precision: Vector  # of (r, g)
    rhs: Vector
    X: Vector
    M: Vector
    f: Vector  # workers x covariates
    root: Vector  # of the variances T
    free: NDArray[np.bool_]
    n_items: int
    log_workers: float
    proper: bool

    def items(self) -> tuple[PairOperator, Vector, float]:
        """What items receive once g is gone, too: L, rhs and what both add to the evidence."""
        K = self.n_items
        rr, rg, gg = self.precision[:K, :K], self.precision[:K, K:], self.precision[K:, K:]
        if not self.free.any():
            return PairOperator(rr - np.eye(K)), self.rhs[:K], self.log_workers
        try:
            root, log_determinant = inverse_root(gg)
        except np.linalg.LinAlgError:
            return PairOperator(np.full((K, K), np.nan)), self.rhs[:K], -np.inf
        part, side = root @ rg.T, root @ self.rhs[K:]
        log_pairs = self.log_workers + 0.5 * float(side @ side) - 0.5 * log_determinant
        matrix = rr - part.T @ part - np.eye(K)
        return PairOperator(matrix), self.rhs[:K] - part.T @ side, log_pairs

    def coefficients(self, means: Vector) -> tuple[Vector, Vector]:
        """Means of g and of every γ_s, given those of the scores."""
        K, P = self.n_items, self.f.shape[1]
        g = np.zeros(P)
        if self.free.any():
            found = np.linalg.solve(
                self.precision[K:, K:], self.rhs[K:] - self.precision[K:, :K] @ means
            )
            g[self.free] = found
        whole = np.concatenate([means, g])
        inner = self.root * self.f - np.einsum("skp,k->sp", self.X, whole)
        return g, g + self.root * np.einsum("spq,sq->sp", self.M, inner)

    def posterior(self) -> JointPosterior | None:
        """Covariances of everything; None where there is no proper Gaussian."""
        if not self.proper:
            return None
        try:
            root, _ = inverse_root(self.precision)
        except np.linalg.LinAlgError:
            return None
        K, P = self.n_items, self.f.shape[1]
        S = np.zeros((K + P, K + P))
        used = np.concatenate([np.ones(K, bool), self.free])
        S[np.ix_(used, used)] = root.T @ root
        J = -np.einsum("p,spq,skq->skp", self.root, self.M, self.X)  # transposed: (r, g) x γ
        J[:, K:] += np.eye(P)
        workers = len(J)
        flat = np.ascontiguousarray(J.transpose(1, 0, 2).reshape(K + P, workers * P))
        together = (S @ flat).reshape(K + P, workers, P).transpose(1, 0, 2)
        given = self.root[:, None] * self.M * self.root
        return JointPosterior(S, together, given + np.einsum("skp,skq->spq", J, together), given)

    def transformed(self, factor: float) -> Elimination:
        """For scores divided by the factor; its sign turns them."""
        K, precision, X = self.n_items, self.precision.copy(), self.X.copy()
        precision[:K, K:] *= factor
        precision[K:, :K] *= factor
        X[:, :K] *= factor
        return replace(self, precision=precision, X=X)


def eliminate(
    A: Vector, h: Vector, n: Vector, C: Vector, worker: NDArray[np.integer], n_workers: int,
    winner: NDArray[np.integer], loser: NDArray[np.integer], n_items: int,
    variance: Vector, free: NDArray[np.bool_],
) -> Elimination:  # fmt: skip
    """Workers eliminated from the joint Gaussian of these sites, votes ordered by worker."""
    K, P, root = n_items, C.shape[1], np.sqrt(variance)
    F = np.stack([
        np.stack([np.bincount(worker, n * A[:, 2] * C[:, p] * C[:, q], n_workers)
                  for q in range(P)], axis=1) for p in range(P)], axis=1)  # fmt: skip
    parts = [np.bincount(worker, n * h[:, 1] * C[:, p], n_workers) for p in range(P)]
    f: Vector = np.stack(parts, axis=1).astype(np.float64)
    X = np.zeros((n_workers, K + P, P))
    for p in range(P):
        cross = n * A[:, 1] * C[:, p]
        place = worker.astype(np.int64) * K
        found = np.bincount(place + winner, cross, n_workers * K)
        X[:, :K, p] = (found - np.bincount(place + loser, cross, n_workers * K)).reshape(-1, K)
    X[:, K:] = F
    whole = np.zeros((K + P, K + P))
    weight = n * A[:, 0]
    sums = np.bincount(pair_keys(winner, loser, K), weight, K * K).reshape(K, K)
    whole[:K, :K] = np.diag(sums.sum(axis=0) + sums.sum(axis=1) + 1.0) - sums - sums.T
    whole[:K, K:] = X[:, :K].sum(axis=0)
    whole[K:, :K] = whole[:K, K:].T
    whole[K:, K:] = F.sum(axis=0) + np.eye(P)
    linear = n * h[:, 0]
    rhs = np.concatenate(
        [np.bincount(winner, linear, K) - np.bincount(loser, linear, K), f.sum(axis=0)]
    )
    X *= root
    inner = np.eye(P) + root[:, None] * F * root
    log_determinant = np.linalg.slogdet(inner)[1]
    proper = bool((np.linalg.eigvalsh(inner)[:, 0] > 0.0).all())
    M: Vector = np.tile(np.eye(P), (n_workers, 1, 1))
    M = np.asarray(np.linalg.inv(inner), np.float64) if proper else M
    XM = np.einsum("skp,spq->skq", X, M)
    flat, other = (each.transpose(1, 0, 2).reshape(K + P, -1) for each in (XM, X))
    whole -= flat @ other.T
    own = root * f
    rhs -= np.einsum("skp,sp->k", XM, own)
    log_workers = 0.5 * float(np.einsum("sp,spq,sq->", own, M, own)) - 0.5 * float(
        log_determinant.sum()
    )
    used = np.concatenate([np.ones(K, bool), free])
    return Elimination(
        whole[np.ix_(used, used)], rhs[used], X, M, f, root, free, K,
        log_workers if proper else -np.inf, proper,
    )  # fmt: skip
