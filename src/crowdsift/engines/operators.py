"""Matrices over items that passes return: products, diagonals, solves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from crowdsift.engines.kinds import Items, PairCodes, Pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = ["ManySolver", "Operator", "Solution", "WeightedPairs", "solve_rows"]


class Solution(NamedTuple):
    """What a linear solve returns."""

    x: Vector
    iterations: int
    residual: float
    converged: bool


class WeightedPairs(NamedTuple):
    """Pairs of items and their weights; a pair may be there more than once, its weights add up."""

    low: PairCodes
    high: PairCodes
    weight: Pairs


class Operator(Protocol):
    """A matrix over items, symmetric as a rule, as it was when a pass returned it.

    Never an array: on a cluster no machine holds all of it. Not every one has pairs or a solve.
    """

    def multiply(self, v: Items) -> Items:
        """The product with v."""

    def diagonal(self) -> Items:
        """The diagonal."""

    def pairs(self) -> WeightedPairs:
        """The entries off the diagonal with opposite sign, of a Laplacian."""

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """Solve (A + shift I) x = rhs to a residual of `tolerance` times the norm of rhs.

        By conjugate gradients with the diagonal as preconditioner, from `start`.
        """


@runtime_checkable
class ManySolver(Protocol):
    """An operator that solves for many right-hand sides at once."""

    def solve_rows(
        self,
        rhs: NDArray[np.float32],
        start: NDArray[np.float32],
        *,
        shift: float,
        tolerance: float,
        most: int = 1_000,
    ) -> NDArray[np.float32]:
        """Solve (A + shift I) x = b for every row b, in single precision."""


def solve_rows(
    operator: Operator,
    rhs: NDArray[np.float32],
    start: NDArray[np.float32],
    *,
    shift: float,
    tolerance: float,
) -> NDArray[np.float32]:
    """Solve for every row: at once where the operator can, else one after the other."""
    if isinstance(operator, ManySolver):
        return operator.solve_rows(rhs, start, shift=shift, tolerance=tolerance)
    x = np.empty_like(rhs)
    for row, (b, before) in enumerate(zip(rhs, start, strict=True)):
        one, two = b.astype(np.float64), before.astype(np.float64)
        x[row] = operator.solve(one, two, shift=shift, tolerance=tolerance, most=1_000).x
    return x
