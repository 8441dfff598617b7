"""Matrices over items that passes return: products, diagonals, solves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from crowdsift.engines.kinds import Items, PairCodes, Pairs

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["Operator", "Solution", "WeightedPairs"]


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
