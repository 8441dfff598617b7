"""The prior by features for many items: nothing of items times items is formed.

With T = (I + sL)⁻¹Z and S = I + ZᵀLT, the weights w ~ N(0, I) of Z have the posterior precision S;
scores have the mean (I + sL)⁻¹(sb + Zw), w being that of Sw = Tᵀb, and the covariance
s(I + sL)⁻¹ + TS⁻¹Tᵀ; and |L + C⁻¹||C| = |I + sL||S|. The first part of the covariance is what there
is without features, in other units. T takes a solve a feature, so it is made anew only where sites
have moved; means are exact whatever its age, which S then only preconditions.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.fused import pair_distances, solve_rows
from crowdsift.engines.grid import PairVariances
from crowdsift.numeric.conjugate_gradient import conjugate_gradient
from crowdsift.numeric.dense import inverse_root
from crowdsift.numeric.threads import dense_algebra
from crowdsift.solvers.ep.item_features import FeaturePrior, WeightPosterior
from crowdsift.solvers.ep.variances import loopy_bp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from crowdsift.engines.grid import SiteSystem
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.item_prior import ItemsState

    Matrix = NDArray[np.floating]

__all__ = ["LowRankPrior"]

_STALE = 5e-3  # by how much sites and shares may move before S and T are made anew
_EXPENSIVE, _EXPENSIVE_STALE = (
    2e7,
    0.05,
)  # features times pairs beyond which more age is allowed, and how much
_COARSE = 1e-3  # of the solves for T, which only variances and preconditioning depend on


class LowRankPrior(FeaturePrior):
    """Many items: T, S and solves with I + sL."""

    def __init__(self, groups: Sequence[Matrix], shares: Vector | None = None) -> None:
        parts = [np.asarray(group, np.float32).T for group in groups]
        rows = np.concatenate(parts) if len(parts) > 1 else np.ascontiguousarray(parts[0])
        ends = np.cumsum([len(part) for part in parts])[:-1]
        super().__init__([each.T for each in np.split(rows, ends)], shares)
        total = len(rows)
        self._rows = rows  # one a feature; groups are views of it
        self._smoothed = np.zeros((0, 0), np.float32)  # Tᵀ
        # T S⁻¹Tᵀ: its diagonal, and what it adds to the variance of every pair.
        self._added: tuple[Vector, Vector] = np.zeros(0), np.zeros(0)
        self._root, self._log_s = np.eye(total), 0.0  # R with RᵀR = S⁻¹
        self._w = np.zeros(total)
        self._made: tuple[Vector, Vector] | None = None  # shares and degrees that T is of
        self._fresh = False

    def fresh(self) -> LowRankPrior:
        """The same groups, which are not copied; see the base."""
        other = copy(self)
        FeaturePrior.__init__(other, self.groups)
        return other

    def is_expensive(self, n_pairs: int) -> bool:
        """Whether T is expensive to make."""
        return len(self._w) * n_pairs > _EXPENSIVE

    def solve(self, system: SiteSystem, start: Vector, tolerance: float) -> Vector:
        """Means, by conjugate gradients over w, each step a solve with I + sL."""
        self._refresh(system)
        s, inner = self.own, 0.1 * tolerance
        rhs = self._transposed(self._smooth(system, system.rhs, start, inner))

        def multiply(w: Vector) -> Vector:
            image = self._times(w)
            return w + self._transposed(image - self._smooth(system, image, 0.0 * image, inner)) / s

        def precondition(v: Vector, out: Vector) -> None:
            out[:] = self._root.T @ (self._root @ v)

        residual = rhs - multiply(self._w)
        relative = float(np.linalg.norm(residual)) / max(float(np.linalg.norm(rhs)), 1e-300)
        if relative > tolerance:
            found = conjugate_gradient(
                multiply, residual, np.ones(len(rhs)), correct=precondition,
                tolerance=min(tolerance / relative, 0.5), most=50,
            )  # fmt: skip
            self._w = self._w + found.x
        return self._smooth(system, s * system.rhs + self._times(self._w), start, tolerance)

    def pair_variances(self, run: ItemsState) -> PairVariances:
        """s(I + sL)⁻¹ as without features, and the rest from T and S; see the base."""
        s, laplacian = self.own, run.system.laplacian
        found = run.factorisation.variances(run.sites, laplacian, exact=run.exact, factor=s)
        if found is None:
            found, run.messages = loopy_bp(run.sites, laplacian, run.messages, shift=1.0 / s)
            items = found.items
            log_determinant = found.log_determinant + self.n_items * float(np.log(s))
            pairs = run.sites.pair_posteriors(run.means).variance
        else:
            items, log_determinant = s * found.items, found.log_determinant
            pairs = s * run.sites.pair_posteriors(run.means).variance
        if not found.definite:
            return found
        run.sites.set_pair_variances(pairs + self._added[1])
        return PairVariances(items + self._added[0], log_determinant + self._log_s, True)

    def weights(self, run: ItemsState) -> WeightPosterior:
        """Mean and S; see the base."""
        return WeightPosterior(self._w.copy(), np.asarray(np.linalg.inv(self._root).T), True)

    def learn(self, run: ItemsState) -> None:
        """Only where T and S are of late, else shares would follow what they were."""
        if self._fresh:
            self._fresh = False
            super().learn(run)

    def _squares(self, run: ItemsState) -> tuple[Vector, Vector]:
        covariance = (self._root**2).sum(axis=0)  # the diagonal of S⁻¹
        at, squares, determined, known = 0, [], [], 0.0
        for share, size in zip(self.shares, self.sizes, strict=True):
            part = slice(at, at + size)
            count = float(size - covariance[part].sum())
            squares.append(float(self._w[part] @ self._w[part]) / share)
            determined.append(count / share)
            at, known = at + size, known + count
        own = run.means - self._times(self._w)
        squares.append(float(own @ own) / self.own**2)
        determined.append((self._explained(run) - known) / self.own)
        return np.array(squares), np.array(determined)

    def _times(self, w: Vector) -> Vector:
        """Zw."""
        result, at = np.zeros(self.n_items), 0
        for share, group in zip(self.shares, self.groups, strict=True):
            size = group.shape[1]
            result += group @ (np.sqrt(share) * w[at : at + size]).astype(np.float32)
            at += size
        return result

    def _transposed(self, v: Vector) -> Vector:
        """Zᵀv."""
        single = v.astype(np.float32)
        parts = [
            np.sqrt(share) * (single @ each).astype(np.float64)
            for share, each in zip(self.shares, self.groups, strict=True)
        ]
        return np.concatenate(parts)

    def _smooth(self, system: SiteSystem, v: Vector, start: Vector, tolerance: float) -> Vector:
        """(I + sL)⁻¹ v."""
        s = self.own
        return system.laplacian.solve(
            v / s, start, shift=1.0 / s, tolerance=tolerance, most=2_000
        ).x

    def _refresh(self, system: SiteSystem) -> None:
        """T and S, where sites or shares have moved since they were made."""
        degrees = system.laplacian.diagonal()
        if self._made is not None:
            shares, before = self._made
            stale = _EXPENSIVE_STALE if self.is_expensive(len(self._added[1])) else _STALE
            moved = float(np.linalg.norm(degrees - before)) > stale * float(np.linalg.norm(before))
            if not moved and float(np.abs(self.shares - shares).max()) <= stale:
                return
        s, factor = self.own, np.repeat(np.sqrt(self.shares), self.sizes)
        Z = self._rows * factor[:, None].astype(np.float32)
        start = self._smoothed if len(self._smoothed) else Z
        self._smoothed = solve_rows(
            system.laplacian, Z / np.float32(s), start, shift=1.0 / s, tolerance=_COARSE
        )
        with dense_algebra():
            S = ((Z - self._smoothed) @ Z.T).astype(np.float64) / s  # L(I + sL)⁻¹ = (I - ...)/s
            self._root, self._log_s = inverse_root(0.5 * (S + S.T) + np.eye(len(S)))
            spread = self._smoothed.T @ self._root.T.astype(np.float32)  # T S^-½, a row an item
        items = np.einsum("kf,kf->k", spread, spread).astype(np.float64)
        self._added = items, pair_distances(system.laplacian, spread)
        self._made, self._fresh = (self.shares.copy(), degrees), True
