"""Triton kernels over pairs and votes that add up in fixed point: one sweep each.

Sums are whole multiples of a power of two in integers of 64 bits, as in `sums`: atomic additions of
integers give the same bytes in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from crowdsift.engines.torch.sums import FixedPoint

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["laplacian_diagonal", "laplacian_product", "launch_flow", "pair_sums", "sweep"]

_BLOCK = 1024


@triton.jit
def _whole(x):
    """The nearest integer."""
    return tl.floor(x + 0.5).to(tl.int64)


@triton.jit
def _flow(low, high, weight, v, up, sums, count, DIAGONAL: tl.constexpr, B: tl.constexpr):
    """Weight·(v[low] - v[high]) to low and, of opposite sign, to high; or the weight to both."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    a, b = tl.load(low + i, mask=good, other=0), tl.load(high + i, mask=good, other=0)
    flow = tl.load(weight + i, mask=good, other=0.0).to(tl.float64) * tl.load(up)
    if DIAGONAL:
        whole = _whole(flow)
        tl.atomic_add(sums + b, whole, mask=good, sem="relaxed")
    else:
        one = tl.load(v + a, mask=good, other=0.0)
        whole = _whole(flow * (one - tl.load(v + b, mask=good, other=0.0)))
        tl.atomic_add(sums + b, -whole, mask=good, sem="relaxed")
    tl.atomic_add(sums + a, whole, mask=good, sem="relaxed")


@triton.jit
def _pair_sums(pair, sign, n, tau, nu, up_tau, up_nu, sum_tau, sum_nu, count, B: tl.constexpr):
    """n·τ and ±n·ν of every vote, to its pair."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    place = tl.load(pair + i, mask=good, other=0)
    weight = tl.load(n + i, mask=good, other=0.0).to(tl.float64)
    a = weight * tl.load(tau + i, mask=good, other=0.0).to(tl.float64)
    tl.atomic_add(sum_tau + place, _whole(a * tl.load(up_tau)), mask=good, sem="relaxed")
    h = weight * tl.load(nu + i, mask=good, other=0.0).to(tl.float64)
    h = h * tl.load(sign + i, mask=good, other=0).to(tl.float64)
    tl.atomic_add(sum_nu + place, _whole(h * tl.load(up_nu)), mask=good, sem="relaxed")


@triton.jit
def _sweep(
    low, high, weight, to_low, to_high, precision, settled, bound, up, new_low, new_high, sums,
    found, count, B: tl.constexpr,
):  # fmt: skip
    """New messages of belief propagation, their sums per item, and how many moved or failed."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    a, b = tl.load(low + i, mask=good, other=0), tl.load(high + i, mask=good, other=0)
    W = tl.load(weight + i, mask=good, other=0.0).to(tl.float64)
    old_low = tl.load(to_low + i, mask=good, other=0.0).to(tl.float64)
    old_high = tl.load(to_high + i, mask=good, other=0.0).to(tl.float64)
    la = tl.load(precision + a, mask=good, other=1.0) + old_low
    lb = tl.load(precision + b, mask=good, other=1.0) + old_high
    low_message, high_message = W * W / lb, W * W / la
    most, scale = tl.load(bound), tl.load(up)
    proper = (la > 0.0) & (lb > 0.0) & (low_message <= most) & (high_message <= most)
    moved = (tl.abs(low_message - old_low) > tl.load(settled + a, mask=good, other=0.0)).to(
        tl.int64
    )
    moved += (tl.abs(high_message - old_high) > tl.load(settled + b, mask=good, other=0.0)).to(
        tl.int64
    )
    tl.store(new_low + i, low_message, mask=good)
    tl.store(new_high + i, high_message, mask=good)
    kept = good & proper
    tl.atomic_add(sums + a, _whole(low_message * scale), mask=kept, sem="relaxed")
    tl.atomic_add(sums + b, _whole(high_message * scale), mask=kept, sem="relaxed")
    tl.atomic_add(found, tl.sum(tl.where(good, moved, 0), axis=0), sem="relaxed")
    wrong = tl.sum((good & (proper == 0)).to(tl.int64), axis=0)
    tl.atomic_add(found + 1, wrong, sem="relaxed")


def launch_flow(
    low: Tensor, high: Tensor, weight: Tensor, v: Tensor, up: Tensor, sums: Tensor
) -> None:
    """Add the product of a Laplacian with v to the sums, in fixed point."""
    _launch(_flow, len(weight), low, high, weight, v, up, sums, DIAGONAL=False)


def laplacian_product(
    low: Tensor, high: Tensor, weight: Tensor, v: Tensor, scale: FixedPoint
) -> Tensor:
    """Σ weight (e_low - e_high)(e_low - e_high)ᵀ v."""
    sums = torch.zeros(len(v), dtype=torch.int64, device=v.device)
    launch_flow(low, high, weight, v, scale.up, sums)
    return scale.values(sums)


def laplacian_diagonal(
    low: Tensor, high: Tensor, weight: Tensor, n_items: int, scale: FixedPoint
) -> Tensor:
    """Weights added up by item."""
    sums = torch.zeros(n_items, dtype=torch.int64, device=weight.device)
    _launch(_flow, len(weight), low, high, weight, weight, scale.up, sums, DIAGONAL=True)
    return scale.values(sums)


def pair_sums(
    pair: Tensor, sign: Tensor, n: Tensor, tau: Tensor, nu: Tensor, count: int,
    scales: tuple[FixedPoint, FixedPoint], kind: torch.dtype,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Σ n·τ and Σ ±n·ν of every pair, in the precision of that kind."""
    sums = [torch.zeros(count, dtype=torch.int64, device=tau.device) for _ in range(2)]
    ups = [scale.up for scale in scales]
    _launch(_pair_sums, len(pair), pair, sign, n, tau, nu, *ups, *sums)
    first = scales[0].values(sums.pop(0)).to(kind)  # memory of one is free for the other
    return first, scales[1].values(sums.pop(0)).to(kind)


def sweep(
    low: Tensor, high: Tensor, weight: Tensor, to_low: Tensor, to_high: Tensor, precision: Tensor,
    settled: Tensor, bound: Tensor, most: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """New messages to both ends, their sums per item, and how many moved and how many failed.

    A message above the bound counts as failed.
    """
    new = [torch.empty_like(to_low), torch.empty_like(to_high)]
    scale = FixedPoint(bound, most)
    sums = torch.zeros(len(precision), dtype=torch.int64, device=weight.device)
    found = torch.zeros(2, dtype=torch.int64, device=weight.device)
    _launch(
        _sweep, len(weight), low, high, weight, to_low, to_high, precision, settled, bound,
        scale.up, *new, sums, found,
    )  # fmt: skip
    return new[0], new[1], scale.values(sums), found


def _launch(kernel, count, *given, **flags):
    """A kernel over so many entries."""
    if count:
        kernel[(triton.cdiv(count, _BLOCK),)](*given, count, B=_BLOCK, **flags)
