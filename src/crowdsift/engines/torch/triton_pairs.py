"""Triton kernels over pairs and votes with sums in fixed point.

Sums are multiples of a power of two in integers of 64 bits, as in `sums`: atomic additions of integers give the
same bytes in any order.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from crowdsift.engines.torch.sums import FixedPoint

_BLOCK = 1024


@triton.jit
def _whole(x):
    """Round to the nearest integer."""
    return tl.floor(x + 0.5).to(tl.int64)


@triton.jit
def add_runs(sums, index, i, good, item, whole, count, B: tl.constexpr):
    """Add integers to the sums of their items; `index` is the item at every place i."""
    # A run adds the running sum at its end less that before it: exact, since integers wrap around. If the entries of an
    # item are not contiguous, the result is still correct, but slower to compute.
    running = tl.cumsum(tl.where(good, whole, 0), axis=0)
    more = (i + 1 < count) & (tl.arange(0, B) < B - 1)
    following = tl.load(index + i + 1, mask=more, other=0)
    ends = good & ((more == 0) | (following != item))
    tl.atomic_add(sums + item, running, mask=ends, sem="relaxed")
    tl.atomic_add(sums + following, -running, mask=ends & more, sem="relaxed")


@triton.jit
def _flow(low, high, weight, v, up, sums, count, DIAGONAL: tl.constexpr, RUNS: tl.constexpr, B: tl.constexpr):
    """Add weight·(v[low] - v[high]) to low and subtract it from high; or add the weight to both."""
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
    if RUNS:
        add_runs(sums, low, i, good, a, whole, count, B)
    else:
        tl.atomic_add(sums + a, whole, mask=good, sem="relaxed")


@triton.jit
def _pair_sums(offsets, order, sign, n, tau, nu, a_out, h_out, count, ONES: tl.constexpr, B: tl.constexpr):
    """Compute Σ n·τ and Σ ±n·ν over the votes on every pair, in their order."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    begin = tl.load(offsets + i, mask=good, other=0)
    held = tl.load(offsets + i + 1, mask=good, other=0) - begin
    a, h = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for number in range(tl.max(held, axis=0)):
        there = number < held
        row = tl.load(order + begin + number, mask=there, other=0)
        weight = tl.where(there, 1.0, 0.0).to(tl.float64)
        if not ONES:  # saves reading the weights if all are 1
            weight = tl.load(n + row, mask=there, other=0.0).to(tl.float64)
        a += weight * tl.load(tau + row, mask=there, other=0.0).to(tl.float64)
        signed = weight * tl.load(sign + row, mask=there, other=0).to(tl.float64)
        h += signed * tl.load(nu + row, mask=there, other=0.0).to(tl.float64)
    tl.store(a_out + i, a, mask=good)
    tl.store(h_out + i, h, mask=good)


@triton.jit
def _received(low, high, a, h, up_a, up_h, diagonal, rhs, count, B: tl.constexpr):
    """Add the weight of a pair to both its items, and ±h, in fixed point."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    one, two = tl.load(low + i, mask=good, other=0), tl.load(high + i, mask=good, other=0)
    weight = _whole(tl.load(a + i, mask=good, other=0.0).to(tl.float64) * tl.load(up_a))
    nu = _whole(tl.load(h + i, mask=good, other=0.0).to(tl.float64) * tl.load(up_h))
    tl.atomic_add(diagonal + two, weight, mask=good, sem="relaxed")
    tl.atomic_add(rhs + two, -nu, mask=good, sem="relaxed")
    add_runs(diagonal, low, i, good, one, weight, count, B)
    add_runs(rhs, low, i, good, one, nu, count, B)


@triton.jit
def _posteriors(
    low, high, means, variance, a, h, effect, out, count, EFFECT: tl.constexpr, LEAST: tl.constexpr, B: tl.constexpr
):
    """Compute E and V of every pair in turn, with its effect."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    one = tl.load(means + tl.load(low + i, mask=good, other=0), mask=good, other=0.0)
    E = one - tl.load(means + tl.load(high + i, mask=good, other=0), mask=good, other=0.0)
    V = tl.load(variance + i, mask=good, other=0.0).to(tl.float64)
    if EFFECT:
        s = tl.load(effect)
        D = 1.0 + s * tl.load(a + i, mask=good, other=0.0).to(tl.float64)
        D = tl.maximum(D, LEAST)
        E = (E + s * tl.load(h + i, mask=good, other=0.0).to(tl.float64)) / D
        V = V / (D * D) + s / D
    tl.store(out + 2 * i, E, mask=good)
    tl.store(out + 2 * i + 1, V, mask=good)


@triton.jit
def _sweep(
    low,
    high,
    weight,
    to_low,
    to_high,
    precision,
    settled,
    bound,
    up,
    new_low,
    new_high,
    sums,
    found,
    count,
    B: tl.constexpr,
):
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
    moved = (tl.abs(low_message - old_low) > tl.load(settled + a, mask=good, other=0.0)).to(tl.int64)
    moved += (tl.abs(high_message - old_high) > tl.load(settled + b, mask=good, other=0.0)).to(tl.int64)
    tl.store(new_low + i, low_message, mask=good)
    tl.store(new_high + i, high_message, mask=good)
    kept = good & proper
    tl.atomic_add(sums + a, _whole(low_message * scale), mask=kept, sem="relaxed")
    tl.atomic_add(sums + b, _whole(high_message * scale), mask=kept, sem="relaxed")
    tl.atomic_add(found, tl.sum(tl.where(good, moved, 0), axis=0), sem="relaxed")
    wrong = tl.sum((good & (proper == 0)).to(tl.int64), axis=0)
    tl.atomic_add(found + 1, wrong, sem="relaxed")


def laplacian_product(low: Tensor, high: Tensor, weight: Tensor, v: Tensor, scale: FixedPoint, runs: bool) -> Tensor:
    """Return the product of the Laplacian of weighted pairs with v; `runs`: pairs of a lower item are contiguous."""
    sums = torch.zeros(len(v), dtype=torch.int64, device=v.device)
    _launch(_flow, len(weight), low, high, weight, v, scale.up, sums, DIAGONAL=False, RUNS=runs)
    return scale.values(sums)


def laplacian_diagonal(low: Tensor, high: Tensor, weight: Tensor, n_items: int, scale: FixedPoint) -> Tensor:
    """Return weights added up by item."""
    sums = torch.zeros(n_items, dtype=torch.int64, device=weight.device)
    given = low, high, weight, weight, scale.up, sums
    _launch(_flow, len(weight), *given, DIAGONAL=True, RUNS=False)
    return scale.values(sums)


def pair_sums(
    offsets: Tensor, order: Tensor, sign: Tensor, n: Tensor, tau: Tensor, nu: Tensor, kind: torch.dtype, ones: bool
) -> tuple[Tensor, Tensor]:
    """Return the sums Σ n·τ and Σ ±n·ν of every pair in the given precision; `ones`: all weights are 1."""
    count = len(offsets) - 1
    a, h = (torch.empty(count, dtype=kind, device=tau.device) for _ in range(2))
    _launch(_pair_sums, count, offsets, order, sign, n, tau, nu, a, h, ONES=ones)
    return a, h


def received(low: Tensor, high: Tensor, a: Tensor, h: Tensor, n_items: int, most: int) -> tuple[Tensor, Tensor]:
    """Return the diagonal and the right-hand side of the items' system."""
    sums = torch.zeros((2, n_items), dtype=torch.int64, device=a.device)
    scales = [FixedPoint(torch.linalg.vector_norm(x, torch.inf), most) for x in (a, h)]
    _launch(_received, len(a), low, high, a, h, scales[0].up, scales[1].up, sums[0], sums[1])
    return scales[0].values(sums[0]), scales[1].values(sums[1])


def pair_posteriors(
    low: Tensor, high: Tensor, means: Tensor, variance: Tensor, a: Tensor, h: Tensor, effect: float, least: float
) -> tuple[Tensor, Tensor]:
    """Return E and V of every pair, interleaved."""
    out = torch.empty((len(low), 2), dtype=variance.dtype, device=low.device)
    exact = torch.full((1,), effect, dtype=torch.float64, device=low.device)
    _launch(_posteriors, len(low), low, high, means, variance, a, h, exact, out, EFFECT=bool(effect), LEAST=least)
    return out[:, 0], out[:, 1]


def sweep(
    low: Tensor,
    high: Tensor,
    weight: Tensor,
    to_low: Tensor,
    to_high: Tensor,
    precision: Tensor,
    settled: Tensor,
    bound: Tensor,
    most: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return new messages to both ends, their sums per item, and how many moved and failed."""
    # A message above the bound counts as failed.
    new = [torch.empty_like(to_low), torch.empty_like(to_high)]
    scale = FixedPoint(bound, most)
    sums = torch.zeros(len(precision), dtype=torch.int64, device=weight.device)
    found = torch.zeros(2, dtype=torch.int64, device=weight.device)
    _launch(
        _sweep, len(weight), low, high, weight, to_low, to_high, precision, settled, bound, scale.up, *new, sums, found
    )
    return new[0], new[1], scale.values(sums), found


def _launch(kernel, count, *given, **flags):
    if count:
        kernel[(triton.cdiv(count, _BLOCK),)](*given, count, B=_BLOCK, **flags)
