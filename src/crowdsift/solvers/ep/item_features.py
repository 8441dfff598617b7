"""A prior of scores by what items are: r = Σ_g X_g w_g + u, by groups g of features.

With the rows of X_g of mean square norm 1, centred, w_g ~ N(0, ρ_g I) and u ~ N(0, s I),
s = 1 - Σρ_g, scores have the prior covariance C = sI + ZZᵀ, Z = (√ρ_g X_g), of mean diagonal 1:
the scale is held as without features. Items then have the precision L + C⁻¹ instead of L + I.
Since columns of Z add up to 0, (L + C⁻¹)1 = 1/s·1, and the level of the scores stays independent
of everything else, with the variance s/K.

Here for few items, with C⁻¹ for the shares at hand; for many see `low_rank_features`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.engines.grid import PairVariances
from crowdsift.numeric.dense import inverse_of_root, inverse_root
from crowdsift.solvers.ep.item_prior import ItemPrior, ItemsState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from crowdsift.engines.grid import SiteSystem
    from crowdsift.numeric import Vector

    Matrix = NDArray[np.floating]

__all__ = ["DENSE_ITEMS", "DensePrior", "FeaturePrior", "WeightPosterior"]

DENSE_ITEMS = 1_200  # up to which matrices over items are formed
_LEAST_OWN = 0.02  # of s: what an item has of its own
_REST = 2e-3  # a share that a step would move by less is at rest
_RELEASE = 3.0  # times that, from which on shares at rest move again
_STRIDE = 10.0  # fixed-point steps that may be taken at once while they go on in one direction
_LEAST_SHARE = 1e-6  # of ρ, below which a group is as good as not there


class WeightPosterior(NamedTuple):
    """Posterior of the weights of Z: mean, and R with I - RᵀR, or (RᵀR)⁻¹, the covariance."""

    mean: Vector
    root: Vector
    inverse: bool  # whether RᵀR is the precision

    def variances(self) -> Vector:
        """Of every weight."""
        if self.inverse:
            return np.asarray((np.linalg.inv(self.root) ** 2).sum(axis=1))
        return np.asarray(np.maximum(1.0 - (self.root**2).sum(axis=0), 0.0))

    def variance(self, rows: Matrix) -> Vector:
        """Variances of rows·w."""
        if self.inverse:
            return np.asarray((np.linalg.solve(self.root.T, rows.T) ** 2).sum(axis=0))
        inside = (rows**2).sum(axis=1) - ((rows @ self.root.T) ** 2).sum(axis=1)
        return np.asarray(np.maximum(inside, 0.0))


class FeaturePrior(ItemPrior):
    """The prior of one run; the shares are learned as it goes.

    Parameters
    ----------
    groups
        X_g, one row an item, columns centred, rows of mean square norm 1.

    Attributes
    ----------
    shares
        ρ_g.
    """

    def __init__(self, groups: Sequence[Matrix], shares: Vector | None = None) -> None:
        self.groups = tuple(groups)
        self.shares = np.full(len(groups), 0.5 / len(groups)) if shares is None else shares
        self.n_items = len(groups[0])
        self._step, self._stride = np.zeros(len(groups) + 1), np.ones(len(groups) + 1)
        self._longest = np.full(len(groups) + 1, _STRIDE)

    @property
    def own(self) -> float:
        """The variance s of what no feature explains."""
        return float(1.0 - self.shares.sum())

    @property
    def sizes(self) -> list[int]:
        """The number of features of every group."""
        return [group.shape[1] for group in self.groups]

    def design(self) -> Matrix:
        """Z."""
        parts = [
            np.sqrt(share) * each for share, each in zip(self.shares, self.groups, strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def fresh(self) -> FeaturePrior:
        """The same groups with shares still to be learned."""
        return type(self)(self.groups)

    def weights(self, run: ItemsState) -> WeightPosterior:
        """The posterior of w."""
        raise NotImplementedError

    def learn(self, run: ItemsState) -> None:
        """Shares that the evidence prefers, by a fixed-point step (MacKay 1992).

        At rest of EP the derivative of the evidence in a variance is that at fixed sites, and it
        is 0 where the variance is the squared norm of its effects over the number of them that
        votes determine: ρ_g = |w_g|²/γ_g with γ_g = F_g - tr Cov(w_g)/ρ_g, and alike for s. All
        are divided by their sum: the scale is held elsewhere.
        """
        squares, determined = self._squares(run)
        variances = np.append(self.shares, self.own)
        ratio = np.divide(squares, determined, out=np.ones_like(squares), where=determined > 1e-9)
        step = np.log(np.clip(ratio, 0.25, 4.0))
        if self.own <= _LEAST_OWN * (1.0 + 1e-9) and step[-1] < 0.0:
            # s can fall no further, and the others share what is left: only how they differ counts.
            step[-1] = 0.0
            step[:-1] -= float(self.shares @ step[:-1]) / float(self.shares.sum())
        # At rest all stay until one has far to go, else each would answer the others' last steps.
        step[np.abs(step) < (_RELEASE if self.at_rest else 1.0) * _REST] = 0.0
        self.at_rest = not step.any()
        turns = step * self._step < 0.0  # sites follow late: steps that turn were too long
        self._longest = np.where(turns, np.maximum(0.6 * self._stride, 0.3), self._longest)
        self._stride = np.where(turns, 0.6 * self._stride, 1.3 * self._stride)
        self._stride = np.clip(self._stride, 0.3, self._longest)
        self._step = step
        found = variances * np.exp(np.clip(self._stride * step, -1.4, 1.4))
        found = np.maximum(found / found.sum(), _LEAST_SHARE)
        own = max(found[-1] / found.sum(), _LEAST_OWN)
        self.shares = (1.0 - own) * found[:-1] / found[:-1].sum()

    def _squares(self, run: ItemsState) -> tuple[Vector, Vector]:
        """αᵀX_gX_gᵀα and tr QX_gX_gᵀ of every group, then αᵀα and tr Q.

        With α = C⁻¹m and Q = C⁻¹ - C⁻¹ΣC⁻¹ they are |w_g|²/ρ_g² and γ_g/ρ_g.
        """
        raise NotImplementedError


class DensePrior(FeaturePrior):
    """Few items: C, its inverse and Σ as matrices."""

    def __init__(self, groups: Sequence[Matrix], shares: Vector | None = None) -> None:
        super().__init__([np.asarray(group, np.float64) for group in groups], shares)
        self._grams = [group @ group.T for group in self.groups]
        self._at: Vector | None = None
        self._system: SiteSystem | None = None
        self._inverse = self._sigma = np.empty((0, 0))
        self._log_prior = self._log_determinant = 0.0
        self._definite = True

    def _prepare(self) -> None:
        """C⁻¹ for the shares at hand."""
        if self._at is None or not np.array_equal(self._at, self.shares):
            C = self.own * np.eye(self.n_items)
            for share, gram in zip(self.shares, self._grams, strict=True):
                C += share * gram
            root, self._log_prior = inverse_root(C)
            self._inverse, self._at, self._system = inverse_of_root(root), self.shares.copy(), None

    def _factorise(self, system: SiteSystem) -> None:
        """Σ for the sites at hand."""
        self._prepare()
        if self._system is system:
            return
        low, high, weight = system.laplacian.pairs()
        precision = self._inverse.copy()
        np.subtract.at(precision, (low, high), weight)
        np.subtract.at(precision, (high, low), weight)
        precision[np.diag_indices(self.n_items)] += system.laplacian.diagonal()
        self._system = system
        try:
            root, self._log_determinant = inverse_root(precision)
            self._sigma, self._definite = inverse_of_root(root), True
        except np.linalg.LinAlgError:
            self._definite = False

    def solve(self, system: SiteSystem, start: Vector, tolerance: float) -> Vector:
        """Means; see the base."""
        self._factorise(system)
        return np.asarray(self._sigma @ system.rhs) if self._definite else start

    def pair_variances(self, run: ItemsState) -> PairVariances:
        """Exact; see the base."""
        self._factorise(run.system)
        if not self._definite:
            return PairVariances(np.ones(self.n_items), 0.0, False)
        low, high, _ = run.system.laplacian.pairs()
        items = np.diag(self._sigma).copy()
        pairs = items[low] + items[high] - 2.0 * self._sigma[low, high]
        run.sites.set_pair_variances(pairs)
        return PairVariances(items, self.log_determinant, bool((pairs > 0.0).all()))

    @property
    def covariance(self) -> Vector:
        """Σ."""
        return self._sigma

    @property
    def precision(self) -> Vector:
        """C⁻¹ for the shares at hand."""
        self._prepare()
        return self._inverse

    @property
    def log_determinant(self) -> float:
        """log|L + C⁻¹| + log|C| of the last system."""
        return self._log_determinant + self._log_prior

    def _unexplained(self) -> Vector:
        """Q = C⁻¹ - C⁻¹ΣC⁻¹."""
        return np.asarray(self._inverse - self._inverse @ self._sigma @ self._inverse)

    def _squares(self, run: ItemsState) -> tuple[Vector, Vector]:
        alpha, Q = self._inverse @ run.means, self._unexplained()
        squares = [*(float(alpha @ each @ alpha) for each in self._grams), float(alpha @ alpha)]
        determined = [*(float((Q * each).sum()) for each in self._grams), float(np.trace(Q))]
        return np.array(squares), np.array(determined)

    def weights(self, run: ItemsState) -> WeightPosterior:
        """Cov(w) = I - ZᵀQZ; see the base."""
        self._factorise(run.system)
        Z, Q = self.design(), self._unexplained()
        values, vectors = np.linalg.eigh(0.5 * (Q + Q.T))
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * (vectors.T @ Z)
        return WeightPosterior(Z.T @ (self._inverse @ run.means), root, False)
