"""Covariances of scores, component by component.

Scores of a component are centred, so those of a small one are strongly dependent: of two items, one score is the
negative of the other. Small components therefore get their exact covariance, however many there are; components of one
size are handled together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.base import Facts
from crowdsift.engines.kinds import Operator
from crowdsift.numeric import Codes, Indices, Mask, Vector
from crowdsift.numeric.dense import inverse_of_root, inverse_root


@dataclass(frozen=True)
class ScorePrecision:
    """The precision L + shift·I of scores, L by pairs; scores are then divided by `size`."""

    low: Codes
    high: Codes
    weight: Vector
    component: Codes
    shift: float
    size: float = 1.0

    @staticmethod
    def of(laplacian: Callable[[], Operator], facts: Facts, shift: float, size: float = 1.0) -> ScorePrecision | None:
        """Return the precision by a Laplacian, which may take a pass; None if all components are large."""
        if not exact_items(facts.component).any():
            return None
        return ScorePrecision(*laplacian().pairs(), facts.component, shift, size)

    @cached_property
    def covariance(self) -> ComponentCovariance:
        """Return the covariances of scores about the means of their components, for small components."""
        return ComponentCovariance(self.component, self.low, self.high, self.weight, self.shift, self.size)


MOST_ITEMS = 1_000  # items of a component whose covariance is exact: an inverse takes a tenth of a second
_MOST_NUMBERS = 20_000_000  # numbers in all covariances together; the smallest components come first
_BATCHED = 48  # components of one size with at most this number of items are inverted together


class Block(NamedTuple):
    """The components of one size: their items by row, and roots R of the covariances RᵀR."""

    items: Indices
    root: Vector

    @property
    def size(self) -> int:
        """The number of items in each component of the block."""
        return int(self.items.shape[1])


class ComponentCovariance:
    """The covariance of scores about the means of their components, where it is exact.

    `low`, `high`, `weight` are the pairs in the Laplacian L. The precision is L + shift·I, of the scores before the
    division by `size`. `blocks` are the components of two or more items, by size.
    """

    def __init__(
        self,
        component: NDArray[np.integer],
        low: NDArray[np.integer],
        high: NDArray[np.integer],
        weight: Vector,
        shift: float,
        size: float = 1.0,
    ) -> None:
        self.component, self.shift, self.scale = component.astype(np.int64), shift, size
        exact, sizes = exact_items(self.component), np.bincount(self.component)
        n = len(self.component)
        self._group, self._row, self._place = (np.full(n, -1), np.zeros(n, int), np.zeros(n, int))
        kept = exact[low.astype(np.int64)]
        low, high, weight = low[kept].astype(np.int64), high[kept].astype(np.int64), weight[kept]
        self.pairs = (low, high, np.asarray(weight, np.float64))
        of_pair = sizes[self.component[low]]
        order = np.argsort(self.component, kind="stable")
        starts = np.cumsum(sizes) - sizes
        blocks: list[Block] = []
        for k in np.unique(sizes[self.component[exact]]).tolist():
            first = starts[(sizes == k) & exact[order[np.minimum(starts, n - 1)]]]
            items = order[first[:, None] + np.arange(k)]
            self._group[items] = len(blocks) if k > 1 else -2
            self._row[items], self._place[items] = np.arange(len(items))[:, None], np.arange(k)
            if k > 1:
                chosen = of_pair == k
                pairs = self._row[low[chosen]], self._place[low[chosen]], self._place[high[chosen]]
                blocks.append(self._block(items, *pairs, weight[chosen]))
        self.blocks = tuple(blocks)

    def _block(self, items: Indices, row: Indices, one: Indices, two: Indices, weight: Vector) -> Block:
        """Return the roots of components of one size; improper ones are marked as not exact."""
        # On a component of k items (L + shift·I) 1 = shift·1: its level is independent of the differences and is not
        # used. 11ᵀ/k is added, so that nothing cancels where the shift is tiny.
        n, k = items.shape
        one, two = np.maximum(one, two), np.minimum(one, two)  # only the lower triangle is read
        summed = np.bincount((row * k + one) * k + two, weight, n * k * k)
        matrix = np.asarray(summed, np.float64).reshape(n, k, k)
        np.subtract(1.0 / k, matrix, out=matrix)
        for end in (one, two):
            loads = np.bincount(row * k + end, weight, n * k).reshape(n, k)
            matrix[:, np.arange(k), np.arange(k)] += loads
        matrix[:, np.arange(k), np.arange(k)] += self.shift
        root, proper = _roots(matrix)
        if not proper.all():
            self._group[items[~proper]] = -1
            self._row[items[proper]] = np.arange(int(proper.sum()))[:, None]
            items, root = items[proper], root[proper]
        if self.scale != 1.0:
            root /= self.scale
        return Block(items, root)

    @cached_property
    def _variances(self) -> Vector:
        """Return the variance of every item in a block, as on the diagonals of `covariances`; 0 for others."""
        result = np.zeros(len(self.component))
        for block in self.blocks:
            squares = np.einsum("nij,nij->nj", block.root, block.root)
            result[block.items] = squares - self._level / block.size
        return result

    @property
    def _level(self) -> float:
        """Return the variance of a component's level in `_block`, times the component's size."""
        return 1.0 / ((self.shift + 1.0) * self.scale**2)

    @cached_property
    def covariances(self) -> tuple[Vector, ...]:
        """Return the covariances of the components of every block, k x k each."""
        # The 11ᵀ/k that was added gives the level the variance 1/(shift + 1), which is subtracted here.
        found = tuple(_inverses(block.root) for block in self.blocks)
        for block, covariance in zip(self.blocks, found, strict=True):
            covariance -= self._level / block.size
        return found

    @property
    def exact(self) -> Mask:
        """Return for which items the covariances are known."""
        return np.asarray(self._group != -1)

    def between(self, first: NDArray[np.integer], second: NDArray[np.integer]) -> Vector:
        """Return covariances of pairs of scores; 0 if they are unknown or the items are in two components."""
        first, second = first.astype(np.int64), second.astype(np.int64)
        result = np.zeros(len(first))
        group = np.where(self.component[first] == self.component[second], self._group[first], -1)
        for number, covariance in enumerate(self.covariances):
            at = group == number
            row, one, two = self._row[first[at]], self._place[first[at]], self._place[second[at]]
            result[at] = covariance[row, one, two]
        return result

    def deviations(self, otherwise: Vector | None) -> Vector | None:
        """Return exact standard deviations where available, otherwise the given ones; None if there are none."""
        if otherwise is None and not self.exact.any():
            return None
        otherwise = np.full(len(self.component), np.nan) if otherwise is None else otherwise
        exact = np.sqrt(np.maximum(self._variances, 0.0))
        return np.where(self.exact, exact, otherwise)

    def dense(self) -> Vector | None:
        """Return the covariance as one matrix; None if a part is unknown or there are many items."""
        n = len(self.component)
        if n > MOST_ITEMS or not self.exact.all():
            return None
        matrix = np.zeros((n, n))
        for block, covariance in zip(self.blocks, self.covariances, strict=True):
            matrix[block.items[:, :, None], block.items[:, None, :]] = covariance
        return matrix


def difference_variance(
    covariance: ComponentCovariance | None, sd: Vector | None, first: NDArray[np.integer], second: NDArray[np.integer]
) -> Vector | None:
    """Return variances of differences of scores; None if no variance is known."""
    # Errors without an exact covariance count as independent.
    if covariance is not None:
        sd = covariance.deviations(sd)
    if sd is None:
        return None
    variance = sd[first] ** 2 + sd[second] ** 2
    if covariance is not None:
        variance = variance - 2.0 * covariance.between(first, second)
    return np.asarray(np.maximum(variance, 0.0))


def exact_items(component: NDArray[np.integer]) -> Mask:
    """Return the items of components that are small enough for an exact covariance."""
    sizes = np.bincount(component).astype(np.int64)
    order = np.argsort(sizes, kind="stable")
    small = np.zeros(len(sizes), bool)
    small[order] = (np.cumsum(sizes[order] ** 2) <= _MOST_NUMBERS) & (sizes[order] <= MOST_ITEMS)
    return np.asarray(small[component.astype(np.int64)])


def level_variance(component: NDArray[np.integer]) -> Vector | float:
    """Return the variance of the mean of every item's component under the prior N(0, 1)."""
    sizes = np.bincount(component)
    return 1.0 / len(component) if len(sizes) == 1 else np.asarray(1.0 / sizes[component])


def _roots(matrix: Vector) -> tuple[Vector, Mask]:
    """Return roots R with RᵀR the inverse of each matrix, and which matrices are positive definite."""
    n, k = matrix.shape[:2]
    if k <= _BATCHED:
        try:
            return _inverse_factors(matrix), np.ones(n, bool)
        except np.linalg.LinAlgError:
            values = np.linalg.eigvalsh(matrix)  # their rounding errors are relative to the largest one
            proper = values[:, 0] > 10.0 * k * np.finfo(np.float64).eps * values[:, -1]
            safe = np.where(proper[:, None, None], matrix, np.eye(k))
            return _inverse_factors(safe), proper
    proper = np.ones(n, bool)
    for i, each in enumerate(matrix):
        try:
            each[...] = inverse_root(each)[0]
        except np.linalg.LinAlgError:
            proper[i] = False
    return matrix, proper


def _inverses(root: Vector) -> Vector:
    """Return RᵀR for each matrix from `_roots`."""
    if root.shape[1] <= _BATCHED:
        return np.asarray(root.transpose(0, 2, 1) @ root)
    result = np.empty_like(root)
    for each, out in zip(root, result, strict=True):
        inverse_of_root(each, out)
    return result


def _inverse_factors(matrix: Vector) -> Vector:
    return np.asarray(np.linalg.inv(np.linalg.cholesky(matrix)), np.float64)
