"""Belief propagation over pairs that stays on the device: sweeps, then variances of pairs.

A sweep changes messages in place, since a pair reads its own messages only; sums per item are in fixed point. Sweeps
after convergence detect it and do nothing, so the host checks once for several sweeps.
"""

from copy import copy
from typing import NamedTuple, Self

import torch
import triton
import triton.language as tl
from torch import Tensor

from crowdsift.engines.torch.sums import FixedPoint
from crowdsift.engines.torch.triton_pairs import add_runs

_BLOCK = 1024
FAR_ABOVE = 1024.0  # multiple of the largest weight above which no message belongs to a proper Gaussian


@triton.jit
def _ready(found, sweep):
    """Return whether another sweep is needed: the last one moved messages, and none was improper."""
    ready = sweep == 0
    if sweep > 0:
        ready = (tl.load(found + 2 * sweep - 2) > 0) & (tl.load(found + 2 * sweep - 1) == 0)
    return ready


@triton.jit
def _items(diagonal, sums, down, precision, found, sweep, count, LAST: tl.constexpr, B: tl.constexpr):
    if LAST or _ready(found, sweep):
        i = tl.program_id(0) * B + tl.arange(0, B)
        good = i < count
        total = tl.load(sums + i, mask=good, other=0).to(tl.float64) * tl.load(down)
        whole = 1.0 + tl.load(diagonal + i, mask=good, other=0.0) - total
        tl.store(precision + i, whole, mask=good)
        if not LAST:
            tl.store(sums + i, tl.zeros([B], tl.int64), mask=good)


@triton.jit
def _sweep(
    low,
    high,
    weight,
    to_low,
    to_high,
    precision,
    diagonal,
    bound,
    up,
    sums,
    found,
    sweep,
    count,
    settled,
    B: tl.constexpr,
):
    if _ready(found, sweep):
        i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
        good = i < count
        a, b = tl.load(low + i, mask=good, other=0), tl.load(high + i, mask=good, other=0)
        W = tl.load(weight + i, mask=good, other=0.0).to(tl.float64)
        old_low = tl.load(to_low + i, mask=good, other=0.0)
        old_high = tl.load(to_high + i, mask=good, other=0.0)
        la = tl.load(precision + a, mask=good, other=1.0) + old_low.to(tl.float64)
        lb = tl.load(precision + b, mask=good, other=1.0) + old_high.to(tl.float64)
        new_low, new_high = W * W / lb, W * W / la
        most, scale = tl.load(bound), tl.load(up)
        proper = (la > 0.0) & (lb > 0.0) & (new_low <= most) & (new_high <= most)
        limit = tl.load(settled)
        far_low = limit * (1.0 + tl.load(diagonal + a, mask=good, other=0.0))
        far_high = limit * (1.0 + tl.load(diagonal + b, mask=good, other=0.0))
        moved = (tl.abs(new_low - old_low) > far_low).to(tl.int64)
        moved += (tl.abs(new_high - old_high) > far_high).to(tl.int64)
        tl.store(to_low + i, new_low.to(old_low.dtype), mask=good)
        tl.store(to_high + i, new_high.to(old_high.dtype), mask=good)
        kept = good & proper
        one, two = tl.floor(new_low * scale + 0.5), tl.floor(new_high * scale + 0.5)
        tl.atomic_add(sums + b, two.to(tl.int64), mask=kept, sem="relaxed")
        one = tl.where(kept, one, 0.0).to(tl.int64)
        add_runs(sums, low, i, good, a, one, count, B)
        moving = tl.sum(tl.where(good, moved, 0), axis=0)
        wrong = tl.sum((good & (proper == 0)).to(tl.int64), axis=0)
        if moving > 0:
            tl.atomic_add(found + 2 * sweep, moving, sem="relaxed")
        if wrong > 0:
            tl.atomic_add(found + 2 * sweep + 1, wrong, sem="relaxed")


@triton.jit
def _variances(low, high, weight, to_low, to_high, precision, variance, logs, wrong, count, B: tl.constexpr):
    """Compute variances of pairs, the log-determinants of a block, and the number of improper pairs."""
    block = tl.program_id(0)
    i = block.to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    W = tl.load(weight + i, mask=good, other=0.0).to(tl.float64)
    at = tl.load(precision + tl.load(low + i, mask=good, other=0), mask=good, other=1.0)
    la = at + tl.load(to_low + i, mask=good, other=0.0).to(tl.float64)
    at = tl.load(precision + tl.load(high + i, mask=good, other=0), mask=good, other=1.0)
    lb = at + tl.load(to_high + i, mask=good, other=0.0).to(tl.float64)
    determinant, top = la * lb - W * W, la + lb - 2.0 * W
    proper = (la > 0.0) & (lb > 0.0) & (determinant > 0.0) & (top > 0.0)
    tl.store(variance + i, top / determinant, mask=good)
    log = tl.where(good & proper, tl.log(tl.where(proper, determinant, 1.0)), 0.0)
    tl.store(logs + block, tl.sum(log, axis=0))
    tl.store(wrong + block, tl.sum((good & (proper == 0)).to(tl.float64), axis=0))


class PairVariance(NamedTuple):
    """Variances of pairs, precisions of items, log|L + I|, and whether all pairs are proper."""

    pairs: Tensor
    precision: Tensor
    log_determinant: float
    definite: bool


class PairMessages:
    """Messages of one run: M to both ends of every pair, and their sums per item."""

    def __init__(self, low: Tensor, high: Tensor, n_items: int, kind: torch.dtype) -> None:
        device = low.device
        self._ends = low, high
        self._to = [torch.zeros(len(low), dtype=kind, device=device) for _ in range(2)]
        self._sums = torch.zeros(n_items, dtype=torch.int64, device=device)
        self._down = torch.ones(1, dtype=torch.float64, device=device)
        self._usual = 4  # sweeps of the last call

    def copy(self) -> Self:
        clone = copy(self)
        clone._to, clone._sums = [x.clone() for x in self._to], self._sums.clone()
        return clone

    def propagate(
        self, weight: Tensor, diagonal: Tensor, degrees: Tensor, most: int, tolerance: float, sweeps: int, fresh: bool
    ) -> PairVariance:
        """Sweep until messages settle; see `solvers.ep.items.loopy_bp`."""
        device, n, pairs = weight.device, len(diagonal), len(weight)
        if fresh:
            self._sums.zero_()
            for messages in self._to:
                messages.zero_()
        bound = FAR_ABOVE * torch.linalg.vector_norm(weight, torch.inf).to(torch.float64)
        scale, before = FixedPoint(bound, most), self._down
        found = torch.zeros(2 * sweeps, dtype=torch.int64, device=device)
        precision = torch.empty_like(diagonal)
        settled = torch.full((1,), tolerance, dtype=torch.float64, device=device)
        items, grid = (triton.cdiv(n, _BLOCK),), (max(triton.cdiv(pairs, _BLOCK), 1),)
        done, goal = 0, min(self._usual, sweeps)
        while done < goal:
            for sweep in range(done, goal):
                down = scale.down if sweep else before
                _items[items](diagonal, self._sums, down, precision, found, sweep, n, LAST=False, B=_BLOCK)
                numbers = precision, diagonal, bound, scale.up, self._sums, found, sweep, pairs, settled
                _sweep[grid](*self._ends, weight, *self._to, *numbers, B=_BLOCK)
            values = found.tolist()
            moved, wrong = values[0 : 2 * goal : 2], values[1 : 2 * goal : 2]
            done = goal
            if moved[-1] and not any(wrong):
                goal = min(goal + 4, sweeps)
        self._usual = next((k + 1 for k, count in enumerate(moved) if not count), sweeps)
        self._down = scale.down
        none = PairVariance(weight, diagonal, 0.0, False)
        if any(wrong):
            return none
        _items[items](diagonal, self._sums, scale.down, precision, found, 0, n, LAST=True, B=_BLOCK)
        variance = torch.empty_like(self._to[0])
        parts = torch.zeros((2, grid[0]), dtype=torch.float64, device=device)
        _variances[grid](*self._ends, weight, *self._to, precision, variance, parts[0], parts[1], pairs, B=_BLOCK)
        proper = precision > 0.0
        logs = (1.0 - degrees) * torch.log(torch.where(proper, precision, 1.0))
        ends = torch.stack([logs.sum(), (~proper).sum().to(torch.float64)])
        log_pairs, failed, log_items, negative = torch.cat([parts.sum(dim=1), ends]).tolist()
        if failed or negative:
            return none
        return PairVariance(variance, precision, log_pairs + log_items, True)
