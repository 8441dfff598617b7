"""Triton kernels of the M-step: slopes of workers, then what items receive, one sweep each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from crowdsift.engines.torch.sums import FixedPoint

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.votes import VoteTensors

__all__ = ["item_system", "regressed"]

_BLOCK = 256


@triton.jit
def _regress(offsets, first, second, y, n, omega, scores, slopes, ridge, B: tl.constexpr):
    """Σ n(y - ½)d / (Σ n·E[ω]·d² + ridge) of a worker."""
    worker = tl.program_id(0)
    begin, end = tl.load(offsets + worker), tl.load(offsets + worker + 1)
    top, bottom = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for at in range(begin, end, B):
        i = at + tl.arange(0, B)
        good = i < end
        a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
        d = tl.load(scores + a, mask=good, other=0.0) - tl.load(scores + b, mask=good, other=0.0)
        lean = tl.load(y + i, mask=good, other=0.5).to(tl.float64) - 0.5
        top += tl.load(n + i, mask=good, other=0.0).to(tl.float64) * lean * d
        bottom += tl.load(omega + i, mask=good, other=0.0) * d * d
    below = tl.sum(bottom, axis=0) + tl.load(ridge)
    tl.store(slopes + worker, tl.where(below > 0.0, tl.sum(top, axis=0) / below, 0.0))


@triton.jit
def _system(
    first, second, worker, y, n, omega, slopes, up, weight, sums, count, B: tl.constexpr
):  # fmt: skip
    """slope²·n·E[ω] of every vote, and slope·n(y - ½) to its items, in fixed point."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    t = tl.load(slopes + tl.load(worker + i, mask=good, other=0), mask=good, other=0.0)
    tl.store(weight + i, t * t * tl.load(omega + i, mask=good, other=0.0), mask=good)
    lean = tl.load(y + i, mask=good, other=0.5).to(tl.float64) - 0.5
    pull = t * tl.load(n + i, mask=good, other=0.0).to(tl.float64) * lean
    whole = tl.floor(pull * tl.load(up) + 0.5).to(tl.int64)
    a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
    tl.atomic_add(sums + a, whole, mask=good, sem="relaxed")
    tl.atomic_add(sums + b, -whole, mask=good, sem="relaxed")


def regressed(votes: VoteTensors, omega: Tensor, scores: Tensor, ridge: float) -> Tensor:
    """Slopes of all workers."""
    slopes = torch.empty(votes.n_workers, dtype=torch.float64, device=votes.device)
    exact = torch.full((1,), ridge, dtype=torch.float64, device=votes.device)  # not rounded
    _regress[(votes.n_workers,)](
        votes.offsets, votes.first, votes.second, votes.y, votes.n, omega, scores, slopes, exact,
        B=_BLOCK,
    )  # fmt: skip
    return slopes


def item_system(votes: VoteTensors, omega: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of votes, and the right-hand side of items."""
    scale = FixedPoint(votes.heaviest * 0.5 * slopes.abs().max(), votes.most_of_item)
    weight = torch.empty_like(omega)
    sums = torch.zeros(votes.n_items, dtype=torch.int64, device=votes.device)
    if len(votes):
        _system[(triton.cdiv(len(votes), _BLOCK),)](
            votes.first, votes.second, votes.worker, votes.y, votes.n, omega, slopes, scale.up,
            weight, sums, len(votes), B=_BLOCK,
        )  # fmt: skip
    return weight, scale.values(sums)
