"""Triton kernels that count workers by type for a prior over types.

On a worker's adaptive grid the prior is interpolated, and the posterior is distributed over the types of the common
grid. Both are linear up to a factor. The contribution of prior mass at a type and its neighbours is computed once a
pass; counts are sums over it.
"""

from __future__ import annotations

from typing import Any
from weakref import ReferenceType, ref

import torch
import triton
import triton.language as tl
from torch import Tensor

from crowdsift.engines.torch.triton_solve import Recorded
from crowdsift.engines.torch.triton_types import adaptive_level, place_among
from crowdsift.numeric import Vector

_PROGRAMS = 1024  # most programs that add up counts
_NUMBERS = 2048  # numbers of workers and types that a program holds at once


@triton.jit
def _relative(messages, tops, same, above, below, low, n_types, n_regular, T: tl.constexpr):
    """Return relative likelihoods of a worker's types; 0 for regular ones if it has an adaptive grid."""
    worker = tl.program_id(0)
    t = tl.arange(0, T)
    inside = t < n_types
    row = worker.to(tl.int64) * n_types
    lo = tl.load(low + worker)
    own = tl.where(lo == lo, n_regular, 0)  # types of the worker's adaptive grid
    message = tl.load(messages + row + t, mask=inside, other=float("-inf"))
    relative = tl.exp(message - tl.load(tops + worker))
    relative = tl.where(t < own, 0.0, relative)
    nothing = tl.zeros([T], tl.float64)
    tl.store(same + row + t, relative, mask=inside)
    tl.store(above + row + t, nothing, mask=inside)
    tl.store(below + row + t, nothing, mask=inside)


@triton.jit
def _share_out(messages, tops, same, above, below, low, high, levels, cells, n_types, half, H: tl.constexpr):
    """Compute the contribution of prior mass at a type and its neighbours; see `TypeMatrices`."""
    worker, width = tl.program_id(0), tl.program_id(1)
    lo, hi = tl.load(low + worker), tl.load(high + worker)
    if lo == lo:
        zero = worker.to(tl.int64) * n_types + width * (2 * half + 1) + half
        top = tl.load(tops + worker)
        i, b = tl.arange(0, H), tl.arange(0, H)
        good, bins = i < half, b <= half
        level = adaptive_level(i + 1, lo, hi, half)
        lower, share = place_among(levels, level, half)
        first = tl.load(levels)
        within = level < first  # between 0 and the first level the density is constant
        place = tl.where(within, 0, lower + 1)
        to_upper = tl.where(within, level / first, share)
        of_lower = tl.where(within, 0.0, 1.0 - share) / tl.load(cells + place)
        of_upper = tl.where(within, 1.0, share) / tl.load(cells + place + 1)
        step = tl.where(half > 1, (hi - lo) / tl.maximum(half - 1, 1), 1.0)
        here = (place[None, :] == b[:, None]).to(tl.float64)
        next_ = (place[None, :] + 1 == b[:, None]).to(tl.float64)
        tl.store(same + zero, tl.exp(tl.load(messages + zero) - top))
        for turn in tl.static_range(2):
            way = 1 - 2 * turn
            message = tl.load(messages + zero + way * (i + 1), mask=good, other=float("-inf"))
            mass = tl.where(good, tl.exp(message - top) * step, 0.0)
            own = here * (mass * (1.0 - to_upper) * of_lower)[None, :]
            own += next_ * (mass * to_upper * of_upper)[None, :]
            out = tl.sum(here * (mass * (1.0 - to_upper) * of_upper)[None, :], axis=1)
            into = tl.sum(next_ * (mass * to_upper * of_lower)[None, :], axis=1)
            at = zero + way * b
            tl.store(same + at, tl.sum(own, axis=1), mask=bins & (b > 0))
            if turn == 0:
                tl.store(above + at, out, mask=bins)
                tl.store(below + at, into, mask=bins & (b > 0))
            else:
                tl.store(below + at, out, mask=bins)
                tl.store(above + at, into, mask=bins & (b > 0))


@triton.jit
def _counts(
    same, above, below, prior, marked, partial, count, each, n_types, n_regular, size, W: tl.constexpr, T: tl.constexpr
):
    """Compute Σ_s q_s(t) over a range of workers marked 1."""
    program = tl.program_id(0)
    t = tl.arange(0, T)
    inside, place = t < n_types, t % size
    pi = tl.load(prior + t, mask=inside, other=0.0)[None, :]
    up = tl.load(prior + t + 1, mask=(t < n_regular) & (place < size - 1), other=0.0)[None, :]
    down = tl.load(prior + t - 1, mask=(t < n_regular) & (place > 0), other=0.0)[None, :]
    total = tl.zeros([T], tl.float64)
    last = tl.minimum((program + 1) * each, count)
    for begin in range(program * each, last, W):
        w = begin + tl.arange(0, W)
        good = w < last
        at = w.to(tl.int64)[:, None] * n_types + t[None, :]
        there = good[:, None] & inside[None, :]
        joint = tl.load(same + at, mask=there, other=0.0) * pi
        joint += tl.load(above + at, mask=there, other=0.0) * up
        joint += tl.load(below + at, mask=there, other=0.0) * down
        whole = tl.sum(joint, axis=1)
        mark = tl.load(marked + w, mask=good, other=0.0)
        share = tl.where(whole > 0.0, mark / tl.where(whole > 0.0, whole, 1.0), 0.0)
        total += tl.sum(joint * share[:, None], axis=0)
    tl.store(partial + program * n_types + t, total, mask=inside)


class CountRoom:
    """Buffers for the matrices of one problem, and counts of types recorded once as a graph.

    Learning the distribution of types counts a hundred times: without a graph, launching kernels would dominate.
    """

    def __init__(self, shape: tuple[int, int], n_regular: int, size: int, workers: Tensor) -> None:
        device, n_types = workers.device, shape[1]

        def room(*sizes: int) -> Tensor:
            return torch.zeros(sizes, dtype=torch.float64, device=device)

        self.matrices = matrices = room(*shape), room(*shape), room(*shape)
        # The matrices in the buffers, by weak reference, since they hold this object.
        self._owner: ReferenceType[TypeMatrices] | None = None
        self._prior, self._total = prior, total = room(n_types), room(n_types)
        partial = room(_programs(shape[0]), n_types)
        pinned = device.type == "cuda"
        self._here = torch.zeros((2, n_types), dtype=torch.float64, pin_memory=pinned)
        self._device = device

        def work() -> None:
            _launch_counts(matrices, prior, workers, partial, shape, n_regular, size)
            torch.sum(partial, dim=0, out=total)

        self._recorded = Recorded(work, device)

    def holds(self, matrices: TypeMatrices) -> bool:
        """Return whether the buffers hold these matrices."""
        return self._owner is not None and self._owner() is matrices

    def take(self, matrices: TypeMatrices) -> None:
        """Reuse these buffers for the given matrices in later calls."""
        self._owner = ref(matrices)

    def counts(self, prior: Vector) -> Vector:
        """Return the expected number of workers of each type, Σ_s q_s(t), from the matrices in the buffers."""
        here: Vector = self._here.numpy()
        here[0] = prior
        self._prior.copy_(self._here[0], non_blocking=True)
        self._recorded.play()
        self._here[1].copy_(self._total, non_blocking=True)
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        counts: Vector = here[1].copy()
        return counts


def _programs(workers: int) -> int:
    return min(_PROGRAMS, max(workers, 1))


def _launch_counts(
    matrices: tuple[Tensor, ...],
    prior: Tensor,
    workers: Tensor,
    partial: Tensor,
    shape: tuple[int, int],
    n_regular: int,
    size: int,
) -> None:
    programs, wide = _programs(shape[0]), triton.next_power_of_2(shape[1])
    counts = shape[0], triton.cdiv(shape[0], programs), shape[1], n_regular, size
    _counts[(programs,)](*matrices, prior, workers, partial, *counts, W=max(_NUMBERS // wide, 1), T=wide)


class TypeMatrices:
    """Matrices that turn a prior into counts: for each worker and type the factors of nearby prior masses."""

    def __init__(self, types: Any, tops: Tensor, room: CountRoom | None = None) -> None:
        self._shape = types.messages.shape
        self._of = types.messages, tops, types.low, types.high, types.levels, types.cells()
        self._before_gold, self._widths = types.before_gold, len(types.shape.widths)
        self._n_regular, self._room = types.n_regular(), room
        made = tuple(torch.empty_like(types.messages) for _ in range(3)) if room is None else ()
        self._matrices = made if room is None else room.matrices
        self._fill()

    def _fill(self) -> None:
        messages, tops, low, high, levels, cells = self._of
        half, (workers, n_types) = len(levels), self._shape
        given = messages, tops, *self._matrices, low
        _relative[(workers,)](*given, n_types, self._n_regular, T=triton.next_power_of_2(n_types))
        if half > 1:
            wide = triton.next_power_of_2(half + 1)
            _share_out[(self._before_gold, self._widths)](*given, high, levels, cells, n_types, half, H=wide)
        if self._room is not None:
            self._room.take(self)

    def _restore(self) -> None:
        if self._room is not None and not self._room.holds(self):
            self._fill()

    def whole(self) -> tuple[Tensor, ...]:
        """Return the contributions of prior mass at a type, at the next one up and at the next one down."""
        self._restore()
        return self._matrices

    def counts(self, prior: Tensor, workers: Tensor) -> Tensor:
        """Return the expected number of workers of each type, Σ_s q_s(t), among those marked 1."""
        self._restore()
        shape = _programs(self._shape[0]), self._shape[1]
        partial = torch.empty(shape, dtype=torch.float64, device=prior.device)
        size = 2 * len(self._of[4]) + 1
        _launch_counts(self._matrices, prior, workers, partial, self._shape, self._n_regular, size)
        return partial.sum(dim=0)

    def recorded_counts(self, prior: Vector) -> Vector | None:
        """Return the counts over the workers of the recorded graph; None if there is no graph."""
        if self._room is None:
            return None
        self._restore()
        return self._room.counts(prior)
