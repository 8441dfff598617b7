"""Scores that are not quite the same in every group of votes: on another prompt, task or session.

In group g item j has the score u_jg = r_j + e_jg with r ~ N(0, I) and e ~ N(0, s I). Where votes of
a group are on one pair, this is an effect of pair and group of variance 2s; where they are on
several, what the group makes of an item is in all of its votes. An item in a group ("leaf") is an
item to the engine, and its votes connect leaves of one group only. So the Laplacian L falls apart
into blocks, and the leaves of a group are integrated out one block at a time: with
B = (I + sL_g)⁻¹

    items receive    Σ_g Z_gᵀ L_g B Z_g  and  Σ_g Z_gᵀ B b_g,
    leaves have      the mean B (r + s b_g)  and the covariance  sB + B Σ_r B,
    log|I + LC|      = Σ_g log|I + sL_g| + log|P|,

with Z_g saying which item a leaf is, and P = I + Σ Z_gᵀ L_g B Z_g the precision of r. Of one pair a
group it is the algebra of the pair effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.engines.grid import PairVariances
from crowdsift.numeric.dense import inverse_of_root, inverse_root
from crowdsift.solvers.ep.effect_step import scoring_step
from crowdsift.solvers.ep.item_prior import ItemPrior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.grid import SiteSystem
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.item_prior import ItemsState

__all__ = ["GroupPrior"]

_START = 0.1  # of s


class _Batch(NamedTuple):
    """Groups of one size: their leaves and these leaves' items, a row a group."""

    leaves: NDArray[np.int64]
    items: NDArray[np.int64]


class _Blocks(NamedTuple):
    """L, B and the covariance of leaves, a matrix a group."""

    laplacian: Vector
    inverse: Vector
    covariance: Vector


class GroupPrior(ItemPrior):
    """The prior of leaves; s is learned as the run goes.

    Parameters
    ----------
    item, group
        The item and the group of every leaf.
    count
        The number of items.

    Attributes
    ----------
    variance
        s.
    item_means, precision, covariance
        Of r, after a solve: its posterior mean, P and P⁻¹.
    slope
        The derivative of the evidence in s, sites held fixed.
    """

    def __init__(
        self,
        item: NDArray[np.int64],
        group: NDArray[np.int64],
        count: int,
        variance: float = _START,
    ) -> None:
        self.item, self.n_items, self.count, self.variance = item, len(item), count, variance
        self._at: tuple[SiteSystem | None, float] = (None, 0.0)
        self._definite, self._log_determinant = True, 0.0
        self.item_means, self._means = np.zeros(count), np.zeros(len(item))
        self.precision, self.covariance = np.eye(count), np.eye(count)
        self.slope = self._information = 0.0
        sizes = np.bincount(group)
        order = np.argsort(group, kind="stable")
        starts = np.cumsum(sizes) - sizes
        self._batches: list[_Batch] = []
        self._blocks: list[_Blocks] = []
        self._batch, self._row, self._place = np.zeros((3, len(item)), np.int64)
        for size in np.unique(sizes[sizes > 0]).tolist():
            leaves = order[starts[sizes == size][:, None] + np.arange(size)]
            self._batch[leaves] = len(self._batches)
            self._row[leaves], self._place[leaves] = (
                np.arange(len(leaves))[:, None],
                np.arange(size),
            )
            self._batches.append(_Batch(leaves, item[leaves]))

    def solve(self, system: SiteSystem, start: Vector, tolerance: float) -> Vector:
        """Means of the leaves; see the base."""
        self._factorise(system)
        return self._means if self._definite else start

    def pair_variances(self, run: ItemsState) -> PairVariances:
        """Exact; see the base."""
        self._factorise(run.system)
        if not self._definite:
            return PairVariances(np.ones(self.n_items), 0.0, False)
        items, (low, high, _) = np.zeros(self.n_items), run.system.laplacian.pairs()
        pairs, batch = np.zeros(len(low)), self._batch[low]
        for number, (each, blocks) in enumerate(zip(self._batches, self._blocks, strict=True)):
            items[each.leaves] = np.einsum("gii->gi", blocks.covariance)
            at = batch == number
            row, one, two = self._row[low[at]], self._place[low[at]], self._place[high[at]]
            shared = blocks.covariance[row, one, two]
            pairs[at] = items[low[at]] + items[high[at]] - 2.0 * shared
        run.sites.set_pair_variances(pairs)
        return PairVariances(items, self._log_determinant, bool((pairs > 0.0).all()))

    def learn(self, run: ItemsState) -> None:
        """A step of Fisher scoring of s; what groups tell each other is left out of its size."""
        self.variance = scoring_step(self.slope, self._information, self.variance)

    def drift(self, run: ItemsState) -> float:
        """The scale of r, as without groups."""
        return self.scale

    def rescale(self, scale: float) -> None:
        """The variance s follows the scale; one that did not would creep."""
        self.variance = self.variance / scale**2

    @property
    def scale(self) -> float:
        """Root mean square of the posterior of r."""
        total = float(self.item_means @ self.item_means) + float(np.trace(self.covariance))
        return float(np.sqrt(total / self.count))

    def _factorise(self, system: SiteSystem) -> None:
        """Everything for the sites and the s at hand."""
        if self._at[0] is system and self._at[1] == self.variance:
            return
        self._at, s = (system, self.variance), self.variance
        try:
            blocks = self._laplacians(system)
            inverses, log_blocks = self._inverses(blocks)
            self._reduce(system, blocks, inverses)
            root, log_items = inverse_root(self.precision.copy())
        except np.linalg.LinAlgError:
            self._definite = False
            return
        self._definite, self._log_determinant = True, log_blocks + log_items
        self.covariance = inverse_of_root(root)
        self.item_means = self.covariance @ self._rhs
        self._blocks, self.slope, self._information = [], 0.0, 0.0
        for batch, L, B in zip(self._batches, blocks, inverses, strict=True):
            at = self.item_means[batch.items] + s * system.rhs[batch.leaves]
            means = np.einsum("gij,gj->gi", B, at)
            inner = self.covariance[batch.items[:, :, None], batch.items[:, None, :]]
            covariance = s * B + B @ inner @ B
            self._means[batch.leaves] = means
            self._blocks.append(_Blocks(L, B, covariance))
            left = system.rhs[batch.leaves] - np.einsum("gij,gj->gi", L, means)
            unexplained = L - L @ covariance @ L
            trace = float(np.einsum("gii->", unexplained))
            self.slope += 0.5 * (float((left**2).sum()) - trace)
            self._information += 0.5 * float((unexplained**2).sum())
        self._means = self._means.copy()

    def _laplacians(self, system: SiteSystem) -> list[Vector]:
        """L_g of every group."""
        low, high, weight = system.laplacian.pairs()
        batch, found = self._batch[low], []
        for number, each in enumerate(self._batches):
            groups, n = each.leaves.shape
            at = batch == number
            row, one, two = self._row[low[at]], self._place[low[at]], self._place[high[at]]
            sums = np.bincount((row * n + one) * n + two, weight[at], groups * n * n)
            half = sums.reshape(groups, n, n).astype(np.float64)
            W = half + half.transpose(0, 2, 1)
            L = np.eye(n) * W.sum(axis=2)[:, :, None] - W
            found.append(np.asarray(L, np.float64))
        return found

    def _inverses(self, blocks: list[Vector]) -> tuple[list[Vector], float]:
        """B of every group, and Σ log|I + sL_g|; an error where one is not positive definite."""
        found, log_determinant = [], 0.0
        for L in blocks:
            matrix = np.eye(L.shape[1]) + self.variance * L
            factor = np.linalg.cholesky(matrix)
            log_determinant += 2.0 * float(np.log(np.einsum("gii->gi", factor)).sum())
            found.append(np.asarray(np.linalg.inv(matrix), np.float64))
        return found, log_determinant

    def _reduce(self, system: SiteSystem, blocks: list[Vector], inverses: list[Vector]) -> None:
        """P, and the right-hand side of r."""
        k = self.count
        precision, self._rhs = np.zeros(k * k), np.zeros(k)
        for batch, L, B in zip(self._batches, blocks, inverses, strict=True):
            place = batch.items[:, :, None] * k + batch.items[:, None, :]
            precision += np.bincount(place.reshape(-1), (L @ B).reshape(-1), k * k)
            inner = np.einsum("gij,gj->gi", B, system.rhs[batch.leaves])
            self._rhs += np.bincount(batch.items.reshape(-1), inner.reshape(-1), k)
        matrix = precision.reshape(k, k)
        self.precision = 0.5 * (matrix + matrix.T) + np.eye(k)
