"""Matrices over items that live on the device, and their solves there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch

from crowdsift.engines.kinds import Solution, WeightedPairs
from crowdsift.engines.torch.device import uses_triton
from crowdsift.engines.torch.sums import ExactSum, FixedPoint
from crowdsift.engines.torch.vectors import on_device, to_device, to_host, to_solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from crowdsift.engines.torch.triton_solve import GraphSolver
    from crowdsift.numeric import Vector

__all__ = ["PairLaplacian", "TorchOperator", "conjugate_gradients"]

# Steps of conjugate gradients between two looks at the residual, which make a GPU wait.
_STEPS = 8
# Up to so many items a matrix is dense: a product then is one call.
_DENSE = 2_048
# Up to so many pairs and items steps of a solve are recorded and played again.
_SMALL, _FEW_ITEMS = 24_000_000, 1 << 18


class TorchOperator(ABC):
    """A symmetric matrix over items; products and diagonal are given by those who inherit."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @abstractmethod
    def product(self, v: Tensor) -> Tensor:
        """The product with a tensor."""

    @abstractmethod
    def diagonal_there(self) -> Tensor:
        """The diagonal as a tensor."""

    def multiply(self, v: Vector) -> Vector:
        """The product with v; see the protocol."""
        found = self.product(to_device(v, self._device))
        return to_solver(found) if on_device(v) else to_host(found)

    def diagonal(self) -> Vector:
        """The diagonal; see the protocol."""
        return to_solver(self.diagonal_there().clone())

    def pairs(self) -> WeightedPairs:
        """Of a Laplacian; see the protocol."""
        raise TypeError("the matrix is no Laplacian of pairs")

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """Conjugate gradients on the device; see the protocol."""
        size = float(np.linalg.norm(rhs))
        if size == 0.0:
            return Solution(np.zeros_like(rhs), 0, 0.0, True)
        x, steps, square = self._solved(rhs, start, shift, tolerance, tolerance * size, most)
        relative = float(np.sqrt(square)) / size
        return Solution(to_solver(x), steps, relative, relative <= tolerance)

    def _solved(
        self, rhs: Vector, start: Vector, shift: float, tolerance: float, goal: float, most: int
    ) -> tuple[Tensor, int, float]:
        b, x = (to_device(v, self._device) for v in (rhs, start))
        pivot = self.diagonal_there() + shift
        inverse = torch.where(pivot > 0.0, 1.0 / pivot, 1.0)
        return conjugate_gradients(self.product, inverse, b, x, shift, goal, most)


def conjugate_gradients(
    product: Callable[[Tensor], Tensor], inverse: Tensor, rhs: Tensor, x: Tensor, shift: float,
    goal: float, most: int,
) -> tuple[Tensor, int, float]:  # fmt: skip
    """Solve (A + shift I) x = rhs to a residual of `goal`; returns x, steps, squared residual.

    `inverse` is that of the preconditioner's diagonal. Lengths of steps stay on the device; it is
    asked only now and then whether to go on, and steps after the last one move nothing. Ends where
    A is not positive along a direction.
    """
    residual = rhs - product(x) - shift * x
    direction = inverse * residual
    gain, square = (residual * direction).sum(), (residual * residual).sum()
    steps, alive = torch.zeros_like(gain), square > goal * goal
    often, done = _STEPS if x.device.type == "cuda" and len(x) <= _FEW_ITEMS else 1, 0
    while bool(alive) and done < most:
        for _ in range(min(often, most - done)):
            image = product(direction) + shift * direction
            curvature = (direction * image).sum()
            alive = alive & (square > goal * goal) & (curvature > 0.0)
            length = torch.where(alive, gain / curvature, 0.0)
            x = x + length * direction
            residual = residual - length * image
            scaled = inverse * residual
            following = (residual * scaled).sum()
            square = (residual * residual).sum()
            direction = torch.where(alive, scaled + (following / gain) * direction, direction)
            gain = torch.where(alive, following, gain)
            steps = steps + alive
        done += often
        alive = alive & (square > goal * goal)
    return x, int(steps), float(square)


class PairLaplacian(TorchOperator):
    """Σ weight (e_low - e_high)(e_low - e_high)ᵀ; a pair may be there more than once.

    `most` is how many entries an item has at most. With few items it is held as a matrix. `solvers`
    keeps what solves with the same pairs share. `runs`: pairs of a lower item are together.
    """

    def __init__(
        self, n_items: int, low: Tensor, high: Tensor, weight: Tensor, most: int,
        solvers: dict[object, GraphSolver] | None = None, diagonal: Tensor | None = None,
        runs: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(weight.device)
        self._solvers, self._diagonal, self._runs = solvers, diagonal, runs
        self._n, self._low, self._high, self._weight, self._most = n_items, low, high, weight, most
        self._bound = weight.abs().max() if len(weight) else weight.new_zeros(())
        self._matrix: Tensor | None = None
        if n_items <= _DENSE and len(weight) > n_items and not uses_triton(weight.device):
            self._matrix = self._dense()

    def product(self, v: Tensor) -> Tensor:
        """The product with a tensor."""
        if self._matrix is not None:
            return self._matrix @ v
        scale = FixedPoint(self._bound * (2.0 * v.abs().max()), self._most)
        if uses_triton(self._device):
            from crowdsift.engines.torch.triton_pairs import laplacian_product

            return laplacian_product(self._low, self._high, self._weight, v, scale, self._runs)
        flow = v.index_select(0, self._low) - v.index_select(0, self._high)
        whole = scale.whole(flow * self._weight)
        sums = torch.zeros(self._n, dtype=torch.int64, device=self._device)
        sums.index_add_(0, self._low, whole).index_add_(0, self._high, whole, alpha=-1)
        return scale.values(sums)

    def diagonal_there(self) -> Tensor:
        """The diagonal as a tensor."""
        if self._diagonal is not None:
            return self._diagonal
        if self._matrix is not None:
            return self._matrix.diagonal()
        if uses_triton(self._device):
            from crowdsift.engines.torch.triton_pairs import laplacian_diagonal

            scale = FixedPoint(self._bound, self._most)
            return laplacian_diagonal(self._low, self._high, self._weight, self._n, scale)
        sums = ExactSum(self._n, self._most, self._bound)
        sums.add(self._low, self._weight)
        sums.add(self._high, self._weight)
        return sums.total()

    def _solved(
        self, rhs: Vector, start: Vector, shift: float, tolerance: float, goal: float, most: int
    ) -> tuple[Tensor, int, float]:
        small = len(self._weight) <= _SMALL and self._n <= _FEW_ITEMS
        if self._solvers is None or not small or not uses_triton(self._device):
            return super()._solved(rhs, start, shift, tolerance, goal, most)
        from crowdsift.engines.torch.triton_solve import GraphSolver

        key = (self._low.data_ptr(), len(self._low))
        if key not in self._solvers:
            self._solvers[key] = GraphSolver(self._n, self._low, self._high)
        return self._solvers[key].solve(self._weight, rhs, start, shift, tolerance, most)

    def pairs(self) -> WeightedPairs:
        """The entries off the diagonal; see the protocol."""
        low, high = torch.minimum(self._low, self._high), torch.maximum(self._low, self._high)
        one, two = (x.cpu().numpy().astype(np.uint32) for x in (low, high))
        return WeightedPairs(one, two, to_host(self._weight))

    def _dense(self) -> Tensor:
        n = self._n
        sums = ExactSum(n * n, self._most, self._bound)
        sums.add(self._low.to(torch.int64) * n + self._high, self._weight)
        half = sums.total().reshape(n, n)
        whole = half + half.T
        matrix: Tensor = torch.diag(whole.sum(dim=1)) - whole
        return matrix
