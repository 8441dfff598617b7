"""Matrices over items that live on the device, and their solves there."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor

from crowdsift.engines.kinds import Solution, WeightedPairs
from crowdsift.engines.torch.sums import FixedPoint
from crowdsift.engines.torch.triton_pairs import laplacian_diagonal, laplacian_product
from crowdsift.engines.torch.triton_solve import GraphSolver
from crowdsift.engines.torch.vectors import DeviceVector, on_device, to_device, to_host, to_solver
from crowdsift.numeric import Vector

# Steps of conjugate gradients between two checks of the residual, for which a GPU must wait.
_STEPS = 8
# Up to these sizes the steps of a solve are recorded once and replayed.
_MAX_RECORDED_PAIRS, _MAX_RECORDED_ITEMS = 24_000_000, 1 << 18


class TorchOperator(ABC):
    """A symmetric matrix over items; subclasses define its products and diagonal."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @abstractmethod
    def product(self, v: Tensor) -> Tensor:
        """Return the product with a tensor, as a tensor."""

    @abstractmethod
    def diagonal_there(self) -> Tensor:
        """Return the diagonal as a tensor."""

    def multiply(self, v: Vector) -> Vector:
        found = self.product(to_device(v, self._device))
        return cast("Vector", DeviceVector(found)) if on_device(v) else to_host(found)

    def diagonal(self) -> Vector:
        return to_solver(self.diagonal_there().clone())

    def pairs(self) -> WeightedPairs:
        raise TypeError("the matrix is not a Laplacian of pairs")

    def solve(self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000) -> Solution:
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
    product: Callable[[Tensor], Tensor], inverse: Tensor, rhs: Tensor, x: Tensor, shift: float, goal: float, most: int
) -> tuple[Tensor, int, float]:
    """Solve (A + shift I) x = rhs to a residual of `goal`; return x, steps, squared residual."""
    # `inverse` is the inverse of the preconditioner's diagonal. Step lengths stay on the device; the host checks only
    # every few steps whether to go on, and steps after convergence change nothing. Stops if A is not positive along a
    # direction.
    residual = rhs - product(x) - shift * x
    direction = inverse * residual
    gain, square = (residual * direction).sum(), (residual * residual).sum()
    steps, alive = torch.zeros_like(gain), square > goal * goal
    often, done = _STEPS if x.device.type == "cuda" and len(x) <= _MAX_RECORDED_ITEMS else 1, 0
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
    """The Laplacian Σ weight (e_low - e_high)(e_low - e_high)ᵀ of pairs; a pair may occur more than once.

    `most` is the largest number of entries of an item. `solvers` caches what solves with the same pairs share. `runs`
    says that the pairs of a lower item are contiguous.
    """

    def __init__(
        self,
        n_items: int,
        low: Tensor,
        high: Tensor,
        weight: Tensor,
        most: int,
        solvers: dict[object, GraphSolver] | None = None,
        diagonal: Tensor | None = None,
        runs: bool = False,
    ) -> None:
        super().__init__(weight.device)
        self._solvers, self._diagonal, self._runs = solvers, diagonal, runs
        self._n, self._low, self._high, self._weight, self._most = n_items, low, high, weight, most
        self._bound = weight.abs().max() if len(weight) else weight.new_zeros(())

    def product(self, v: Tensor) -> Tensor:
        scale = FixedPoint(self._bound * (2.0 * v.abs().max()), self._most)
        return laplacian_product(self._low, self._high, self._weight, v, scale, self._runs)

    def diagonal_there(self) -> Tensor:
        if self._diagonal is not None:
            return self._diagonal
        scale = FixedPoint(self._bound, self._most)
        return laplacian_diagonal(self._low, self._high, self._weight, self._n, scale)

    def _solved(
        self, rhs: Vector, start: Vector, shift: float, tolerance: float, goal: float, most: int
    ) -> tuple[Tensor, int, float]:
        small = len(self._weight) <= _MAX_RECORDED_PAIRS and self._n <= _MAX_RECORDED_ITEMS
        if self._solvers is None or not small:
            return super()._solved(rhs, start, shift, tolerance, goal, most)
        key = (self._low.data_ptr(), len(self._low))
        if key not in self._solvers:
            self._solvers[key] = GraphSolver(self._n, self._low, self._high)
        return self._solvers[key].solve(self._weight, rhs, start, shift, tolerance, most)

    def pairs(self) -> WeightedPairs:
        low, high = torch.minimum(self._low, self._high), torch.maximum(self._low, self._high)
        one, two = (x.cpu().numpy().astype(np.uint32) for x in (low, high))
        return WeightedPairs(one, two, to_host(self._weight))
