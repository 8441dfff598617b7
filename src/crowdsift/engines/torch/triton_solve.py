"""Conjugate gradients on a GPU for problems so small that starting kernels would take the time.

A step is two kernels: the product, and all that happens to vectors, in one program. Eight steps are
recorded once as a CUDA graph and played again for every solve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl

from crowdsift.engines.torch.sums import FixedPoint
from crowdsift.engines.torch.triton_pairs import launch_flow

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["GraphSolver", "Problem", "one_step"]

_EACH = 8  # steps of a graph
_BLOCK = 2048
# Places in the state: rᵀz, rᵀr, steps taken, whether to go on, the squared goal, the shift, the
# largest weight, and the power of two of the product's sums with its inverse.
_GAIN, _SQUARE, _STEPS, _ALIVE, _GOAL, _SHIFT, _WEIGHT, _UP, _DOWN = range(9)


@triton.jit
def _power_of_two(exponent):
    """2 to a whole number."""
    return ((exponent + 1023) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _image(image, sums, i, good, down, d, shift, SPARSE: tl.constexpr):
    """The product with the direction, as the kernel before left it, and the shift's part."""
    if SPARSE:
        product = tl.load(sums + i, mask=good, other=0).to(tl.float64) * down
    else:
        product = tl.load(image + i, mask=good, other=0.0)
    return product + shift * d


@triton.jit
def _vectors(
    x, residual, direction, inverse, image, sums, state, count, bits, SPARSE: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """One step from the product on: length, iterate, residual, the next direction and its scale."""
    gain, square, steps = tl.load(state), tl.load(state + 1), tl.load(state + 2)
    alive, goal, shift = tl.load(state + 3), tl.load(state + 4), tl.load(state + 5)
    down = tl.load(state + 8)
    form = tl.zeros([B], tl.float64)
    for at in range(0, count, B):
        i = at + tl.arange(0, B)
        good = i < count
        d = tl.load(direction + i, mask=good, other=0.0)
        form += d * _image(image, sums, i, good, down, d, shift, SPARSE)
    curvature = tl.sum(form, axis=0)
    go = (alive > 0.0) & (square > goal) & (curvature > 0.0)
    length = tl.where(go, gain / tl.where(go, curvature, 1.0), 0.0)
    next_gain, next_square = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for at in range(0, count, B):
        i = at + tl.arange(0, B)
        good = i < count
        d = tl.load(direction + i, mask=good, other=0.0)
        product = _image(image, sums, i, good, down, d, shift, SPARSE)
        tl.store(x + i, tl.load(x + i, mask=good, other=0.0) + length * d, mask=good)
        r = tl.load(residual + i, mask=good, other=0.0) - length * product
        tl.store(residual + i, r, mask=good)
        next_gain += r * r * tl.load(inverse + i, mask=good, other=0.0)
        next_square += r * r
        if SPARSE:
            tl.store(sums + i, tl.zeros([B], tl.int64), mask=good)
    following = tl.sum(next_gain, axis=0)
    ratio = following / tl.where(gain > 0.0, gain, 1.0)
    tl.debug_barrier()
    most = tl.zeros([B], tl.float64)
    for at in range(0, count, B):
        i = at + tl.arange(0, B)
        good = i < count
        d = tl.load(direction + i, mask=good, other=0.0)
        r = tl.load(residual + i, mask=good, other=0.0)
        new = tl.load(inverse + i, mask=good, other=0.0) * r + ratio * d
        d = tl.where(go, new, d)
        tl.store(direction + i, d, mask=good)
        most = tl.maximum(most, tl.abs(d))
    bound = tl.load(state + 6) * 2.0 * tl.max(most, axis=0)
    exponent = (bound.to(tl.int64, bitcast=True) >> 52) - 1022
    power = tl.minimum(tl.maximum(62 - bits - exponent, -1022), 1022)
    tl.store(state + 7, _power_of_two(power))
    tl.store(state + 8, _power_of_two(-power))
    tl.store(state, tl.where(go, following, gain))
    tl.store(state + 1, tl.where(go, tl.sum(next_square, axis=0), square))
    tl.store(state + 2, steps + tl.where(go, 1.0, 0.0))
    tl.store(state + 3, tl.where(go, 1.0, 0.0))


class Problem(NamedTuple):
    """Tensors of a solve that stay where they are: those of a graph never move."""

    x: Tensor
    residual: Tensor
    direction: Tensor
    inverse: Tensor
    image: Tensor
    sums: Tensor
    state: Tensor
    matrix: Tensor | None
    low: Tensor
    high: Tensor
    weight: Tensor


def one_step(problem: Problem, most: int) -> None:
    """The product with the direction, then all that happens to vectors."""
    sparse = problem.matrix is None
    if problem.matrix is None:
        launch_flow(
            problem.low, problem.high, problem.weight, problem.direction,
            problem.state[_UP : _UP + 1], problem.sums,
        )  # fmt: skip
    else:
        torch.mv(problem.matrix, problem.direction, out=problem.image)
    _vectors[(1,)](
        *problem[:7], len(problem.x), max(most, 1).bit_length(), SPARSE=sparse, B=_BLOCK,
        num_warps=8,
    )  # fmt: skip


class GraphSolver:
    """Solves of Laplacians of the same pairs, by a recorded graph."""

    def __init__(self, n_items: int, low: Tensor, high: Tensor, most: int, dense: bool) -> None:
        device, self._most = low.device, most

        def numbers(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        x, residual, direction, inverse, image = (numbers(n_items) for _ in range(5))
        sums = torch.zeros(n_items, dtype=torch.int64, device=device)
        matrix = numbers(n_items, n_items) if dense else None
        weight = numbers(0 if dense else len(low))
        self._problem = Problem(
            x, residual, direction, inverse, image, sums, numbers(9), matrix, low, high, weight
        )
        self._graph = torch.cuda.CUDAGraph()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # compiles, and lets libraries allocate what they need
            for _ in range(3):
                one_step(self._problem, most)
        torch.cuda.current_stream().wait_stream(aside)
        with torch.cuda.graph(self._graph):
            for _ in range(_EACH):
                one_step(self._problem, most)

    def solve(
        self, weight: Tensor, bound: Tensor, residual: Tensor, inverse: Tensor, x: Tensor,
        shift: float, goal: float, most: int,
    ) -> tuple[Tensor, int, float]:  # fmt: skip
        """From x and its residual on; `weight` is the matrix where that is dense."""
        at = self._problem
        (at.weight if at.matrix is None else at.matrix).copy_(weight)
        direction = inverse * residual
        for held, value in ((at.x, x), (at.residual, residual), (at.direction, direction),
                            (at.inverse, inverse)):  # fmt: skip
            held.copy_(value)
        at.sums.zero_()
        scale = FixedPoint(bound * (2.0 * direction.abs().max()), self._most)
        square = (residual * residual).sum()
        known = torch.tensor([0.0, 1.0, goal * goal, shift], dtype=torch.float64).to(x.device)
        numbers = [(residual * direction).sum(), square, *known, bound, scale.up, scale.down]
        at.state.copy_(torch.stack([number.to(torch.float64) for number in numbers]))
        done = 0
        while True:
            square, steps, alive = at.state[_SQUARE : _ALIVE + 1].tolist()
            if not alive or square <= goal * goal or done >= most:
                return at.x.clone(), int(steps), square
            self._graph.replay()
            done += _EACH
