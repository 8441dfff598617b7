"""What the capabilities of the compiled core share: the votes, and operators that passes return."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import PassCount
from crowdsift.engines.operators import Solution, WeightedPairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from crowdsift import _core
    from crowdsift.engines.base import Facts
    from crowdsift.numeric import Vector

    Rows = NDArray[np.float32]

__all__ = ["CpuLaplacian", "CpuOperator", "CpuProducts", "CpuVotes", "vector"]


def vector(values: Vector) -> Vector:
    """An array as the core takes it: contiguous, in double precision."""
    return np.ascontiguousarray(values, np.float64)


class CpuVotes(PassCount):
    """The votes in the core, and how many passes went over them."""

    def __init__(
        self,
        core: _core.Core,
        facts: Facts,
        rows: NDArray[np.int64],
        counted_with: CpuVotes | None = None,
    ) -> None:
        self.core, self.facts, self._rows = core, facts, rows
        super().__init__(counted_with)

    def share(self, workers: NDArray[np.uint8]) -> float:
        """The share of the votes that these workers have."""
        return float(self._rows @ (workers != 0)) / max(float(self._rows.sum()), 1.0)


class CpuProducts:
    """A matrix over items with products, each a pass over all votes, and a diagonal."""

    def __init__(
        self,
        votes: CpuVotes,
        product: Callable[[Vector], Vector],
        diagonal: Callable[[], Vector],
    ) -> None:
        self._votes, self._product, self._diagonal = votes, product, diagonal

    def multiply(self, v: Vector) -> Vector:
        """The product with v; see the protocol."""
        self._votes.passes += 1
        return self._product(vector(v))

    def diagonal(self) -> Vector:
        """The diagonal, in a pass of its own; see the protocol."""
        self._votes.passes += 1
        return self._diagonal()

    def pairs(self) -> WeightedPairs:
        """There are none: this is no Laplacian."""
        raise TypeError("the matrix is no Laplacian of pairs")

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """There is none: the matrix is not positive definite."""
        raise TypeError("the matrix is not positive definite")


class CpuOperator(CpuProducts):
    """A symmetric matrix over items whose products are passes over all votes."""

    def __init__(self, votes: CpuVotes, inner: _core.SlopeHessian | _core.Reduced) -> None:
        super().__init__(votes, inner.multiply, inner.diagonal)
        self._inner = inner

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """Conjugate gradients with the diagonal as preconditioner; see the protocol."""
        found = Solution(*self._inner.solve(vector(rhs), vector(start), shift, tolerance, most))
        self._votes.passes += found.iterations + 2
        return found


class CpuLaplacian:
    """A Laplacian over the compared pairs, which its products go over."""

    def __init__(self, inner: _core.Laplacian) -> None:
        self._inner = inner

    def multiply(self, v: Vector) -> Vector:
        """The product with v; see the protocol."""
        return self._inner.multiply(vector(v))

    def diagonal(self) -> Vector:
        """The diagonal; see the protocol."""
        return self._inner.diagonal()

    def pairs(self) -> WeightedPairs:
        """Entries off the diagonal with opposite sign; see the protocol."""
        return WeightedPairs(*self._inner.pairs())

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """Conjugate gradients with the diagonal as preconditioner; see the protocol."""
        return Solution(*self._inner.solve(vector(rhs), vector(start), shift, tolerance, most))

    def solve_rows(
        self, rhs: Rows, start: Rows, *, shift: float, tolerance: float, most: int = 1_000
    ) -> Rows:
        """Many solves at once, in single precision; see `crowdsift.engines.operators`."""
        rhs, start = (np.ascontiguousarray(each, np.float32) for each in (rhs, start))
        return self._inner.solve_rows(rhs, start, shift, tolerance, most)

    def pair_distances(self, rows: Rows) -> Vector:
        """See `crowdsift.engines.fused`."""
        return self._inner.pair_distances(np.ascontiguousarray(rows, np.float32))
