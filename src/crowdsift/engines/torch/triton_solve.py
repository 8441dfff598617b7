"""Conjugate gradients on a GPU for problems in which launching kernels would dominate the time.

Entries are held by item, so that a product adds up in a fixed order without atomics. A step is two kernels: the
product, and all updates of vectors, in one program. Steps are recorded once as a CUDA graph and replayed; after
convergence they do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from crowdsift.engines.torch.vectors import to_device
from crowdsift.numeric import Vector

_EACH = 8  # steps per graph
_BLOCK, _WARPS = 4096, 16
# Indices in the state: rᵀz, rᵀr, steps taken, whether to continue, the squared goal, the shift, the squared tolerance.
_GAIN, _SQUARE, _STEPS, _ALIVE, _GOAL, _SHIFT, _TOLERANCE = range(7)


class ItemIndex(NamedTuple):
    """Entries of a symmetric matrix by item: pair, other item, +1 if the item is the first."""

    offsets: Tensor
    pair: Tensor
    other: Tensor
    sign: Tensor

    @property
    def block(self) -> int:
        """Return the number of entries that a program reads at once."""
        usual = len(self.pair) // max(len(self.offsets) - 1, 1)
        return min(max(int(triton.next_power_of_2(max(usual, 1))), 16), 256)


def item_index(first: Tensor, second: Tensor, n_items: int) -> ItemIndex:
    """Return the entries of pairs, grouped by item."""
    count = len(first)
    ends = torch.cat([first, second])
    order = torch.sort(ends, stable=True)[1]
    held = torch.bincount(ends, minlength=n_items)
    offsets = torch.zeros(n_items + 1, dtype=torch.int64, device=first.device)
    torch.cumsum(held, 0, out=offsets[1:])
    other = torch.cat([second, first]).index_select(0, order)
    sign = torch.where(order < count, 1, -1).to(torch.int8)
    return ItemIndex(offsets, (order % max(count, 1)).to(torch.int32), other, sign)


@triton.jit
def _gather(offsets, pair, other, pair_weight, x, rhs, weight, diagonal, inverse, residual, state, B: tl.constexpr):
    """Compute an item's weights in the order of entries, its diagonal, and its residual at x."""
    item = tl.program_id(0)
    begin, end = tl.load(offsets + item), tl.load(offsets + item + 1)
    total, flow = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for at in range(begin, end, B):
        i = at + tl.arange(0, B)
        good = i < end
        w = tl.load(pair_weight + tl.load(pair + i, mask=good, other=0), mask=good, other=0.0)
        w = w.to(tl.float64)
        tl.store(weight + i, w, mask=good)
        total += w
        flow += w * tl.load(x + tl.load(other + i, mask=good, other=0), mask=good, other=0.0)
    whole = tl.sum(total, axis=0)
    pivot = whole + tl.load(state + 5)
    tl.store(diagonal + item, whole)
    tl.store(inverse + item, tl.where(pivot > 0.0, 1.0 / tl.where(pivot > 0.0, pivot, 1.0), 1.0))
    image = pivot * tl.load(x + item) - tl.sum(flow, axis=0)
    tl.store(residual + item, tl.load(rhs + item) - image)


@triton.jit
def _begin(rhs, residual, inverse, direction, state, count, B: tl.constexpr):
    """Compute the first direction, the initial residual and the residual to reach."""
    size, gain = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    square = tl.zeros([B], tl.float64)
    for at in range(0, count, B):
        i = at + tl.arange(0, B)
        good = i < count
        b = tl.load(rhs + i, mask=good, other=0.0)
        r = tl.load(residual + i, mask=good, other=0.0)
        z = r * tl.load(inverse + i, mask=good, other=0.0)
        tl.store(direction + i, z, mask=good)
        size, gain, square = size + b * b, gain + r * z, square + r * r
    goal, reached = tl.load(state + 6) * tl.sum(size, axis=0), tl.sum(square, axis=0)
    tl.store(state, tl.sum(gain, axis=0))
    tl.store(state + 1, reached)
    tl.store(state + 2, reached * 0.0)
    tl.store(state + 3, tl.where(reached > goal, 1.0, 0.0).to(tl.float64))
    tl.store(state + 4, goal)


@triton.jit
def _product(offsets, other, weight, diagonal, direction, image, state, B: tl.constexpr):
    """Compute the product with the direction, for one item."""
    item = tl.program_id(0)
    if tl.load(state + 3) > 0.0:
        begin, end = tl.load(offsets + item), tl.load(offsets + item + 1)
        flow = tl.zeros([B], tl.float64)
        for at in range(begin, end, B):
            i = at + tl.arange(0, B)
            good = i < end
            d = tl.load(direction + tl.load(other + i, mask=good, other=0), mask=good, other=0.0)
            flow += tl.load(weight + i, mask=good, other=0.0) * d
        pivot = tl.load(diagonal + item) + tl.load(state + 5)
        tl.store(image + item, pivot * tl.load(direction + item) - tl.sum(flow, axis=0))


@triton.jit
def _vectors(x, residual, direction, inverse, image, state, count, B: tl.constexpr):
    """Complete a step after the product: length, iterate, residual, next direction."""
    gain, square, steps = tl.load(state), tl.load(state + 1), tl.load(state + 2)
    alive, goal = tl.load(state + 3), tl.load(state + 4)
    if alive > 0.0:
        form = tl.zeros([B], tl.float64)
        for at in range(0, count, B):
            i = at + tl.arange(0, B)
            good = i < count
            d = tl.load(direction + i, mask=good, other=0.0)
            form += d * tl.load(image + i, mask=good, other=0.0)
        curvature = tl.sum(form, axis=0)
        go = curvature > 0.0
        length = tl.where(go, gain / tl.where(go, curvature, 1.0), 0.0)
        next_gain, next_square = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
        for at in range(0, count, B):
            i = at + tl.arange(0, B)
            good = i < count
            d = tl.load(direction + i, mask=good, other=0.0)
            tl.store(x + i, tl.load(x + i, mask=good, other=0.0) + length * d, mask=good)
            r = tl.load(residual + i, mask=good, other=0.0)
            r -= length * tl.load(image + i, mask=good, other=0.0)
            tl.store(residual + i, r, mask=good)
            next_gain += r * r * tl.load(inverse + i, mask=good, other=0.0)
            next_square += r * r
        following, reached = tl.sum(next_gain, axis=0), tl.sum(next_square, axis=0)
        ratio = following / tl.where(gain > 0.0, gain, 1.0)
        tl.debug_barrier()
        for at in range(0, count, B):
            i = at + tl.arange(0, B)
            good = i < count
            d = tl.load(direction + i, mask=good, other=0.0)
            z = tl.load(inverse + i, mask=good, other=0.0)
            z *= tl.load(residual + i, mask=good, other=0.0)
            tl.store(direction + i, tl.where(go, z + ratio * d, d), mask=good)
        tl.store(state, tl.where(go, following, gain))
        tl.store(state + 1, tl.where(go, reached, square))
        tl.store(state + 2, steps + tl.where(go, 1.0, 0.0))
        tl.store(state + 3, tl.where(go & (reached > goal), 1.0, 0.0).to(tl.float64))


class Problem(NamedTuple):
    """Tensors of a solve that stay in place, since a graph holds their addresses."""

    entries: ItemIndex
    x: Tensor
    rhs: Tensor
    residual: Tensor
    direction: Tensor
    inverse: Tensor
    image: Tensor
    diagonal: Tensor
    weight: Tensor
    state: Tensor

    @property
    def system(self) -> tuple[Tensor, ...]:
        """The buffers that kernels write when they build a system, and the state."""
        return self.x, self.rhs, self.weight, self.diagonal, self.inverse, self.residual, self.state

    @staticmethod
    def over(index: ItemIndex) -> Problem:
        """Return buffers for systems with these entries."""
        n, device = len(index.offsets) - 1, index.offsets.device
        sizes = (*[n] * 7, len(index.pair), 8)  # sizes of all fields after the entries
        return Problem(index, *(torch.zeros(size, dtype=torch.float64, device=device) for size in sizes))


def begin_solve(at: Problem) -> None:
    """Compute the first direction from the residual and the inverse."""
    _begin[(1,)](at.rhs, at.residual, at.inverse, at.direction, at.state, len(at.x), B=_BLOCK, num_warps=_WARPS)


def gather_weights(at: Problem, pair_weight: Tensor) -> None:
    """Compute entries from the weights of pairs, and the residual at x."""
    index = at.entries
    given = index.offsets, index.pair, index.other, pair_weight
    _gather[(len(at.x),)](*given, *at.system, B=index.block, num_warps=1)


def one_step(at: Problem) -> None:
    """Compute the product with the direction, then update all vectors."""
    index = at.entries
    _product[(len(at.x),)](
        index.offsets, index.other, at.weight, at.diagonal, at.direction, at.image, at.state, B=index.block, num_warps=1
    )
    _vectors[(1,)](
        at.x, at.residual, at.direction, at.inverse, at.image, at.state, len(at.x), B=_BLOCK, num_warps=_WARPS
    )


class Recorded:
    """Kernels that are replayed as a graph; on a CPU they are called."""

    def __init__(self, work: Callable[[], None], device: torch.device, times: int = 1) -> None:
        self._work, self._times = work, times
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type != "cuda":
            return
        # `torch.cuda.graph` is not used: it collects garbage and empties all caches first, and allocating host buffers
        # again takes longer than a small fit.
        graph, aside = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        torch.cuda.synchronize(device)
        with torch.cuda.stream(aside):
            work()  # compiles
            aside.synchronize()
            graph.capture_begin()
            for _ in range(times):
                work()
            graph.capture_end()
        torch.cuda.synchronize(device)
        self._graph = graph

    def play(self) -> None:
        """Run all kernels once."""
        if self._graph is not None:
            self._graph.replay()
            return
        for _ in range(self._times):
            self._work()


class GraphSolver:
    """Solve Laplacians of the same pairs, by recorded graphs."""

    def __init__(self, n_items: int, low: Tensor, high: Tensor) -> None:
        self._problem = at = Problem.over(item_index(low, high, n_items))
        self._steps = Recorded(lambda: one_step(at), low.device, _EACH)
        self._usual = 1  # graphs that the last solve needed

    def solve(
        self, weight: Tensor, rhs: Vector, start: Vector, shift: float, tolerance: float, most: int
    ) -> tuple[Tensor, int, float]:
        """Solve from `start` to a residual of `tolerance` times rhs; also return the steps and the squared residual."""
        at = self._problem
        known = np.array([0.0, 0.0, 0.0, 1.0, 0.0, shift, tolerance * tolerance, 0.0])
        for held, given in ((at.x, start), (at.rhs, rhs), (at.state, known)):
            held.copy_(to_device(given, held.device))
        gather_weights(at, weight)
        begin_solve(at)
        done = 0
        while True:
            for _ in range(self._usual if not done else 1):
                self._steps.play()
                done += _EACH
            _, square, steps, alive = at.state[: _ALIVE + 1].tolist()
            if not alive or done >= most:
                self._usual = max(-(-int(steps) // _EACH), 1)
                return at.x.clone(), int(steps), square
