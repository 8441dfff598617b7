"""Triton kernels of the logistic model: slopes by Newton steps, derivatives, Hessian products.

All in double precision; one program takes a worker, or a block of votes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl

from crowdsift.engines.torch.sums import FixedPoint

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.base import SlopePrior
    from crowdsift.engines.torch.votes import VoteTensors

__all__ = ["Derivatives", "derivatives", "reduced_product", "settled"]

_BLOCK, _VOTES = 128, 1024
_MAX_STEPS = 60  # Newton steps of a slope; bisection alone would have ended


@triton.jit
def _difference(i, good, first, second, scores):
    """D of votes."""
    a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
    return tl.load(scores + a, mask=good, other=0.0) - tl.load(scores + b, mask=good, other=0.0)


@triton.jit
def _halves(x):
    """σ(x), σ(-x) and log(1 + e^-|x|)."""
    small = tl.exp(-tl.abs(x))
    big = 1.0 / (1.0 + small)
    less = small * big
    return tl.where(x >= 0.0, big, less), tl.where(x >= 0.0, less, big), tl.log(1.0 + small)


@triton.jit
def _sums_of_worker(s, begin, end, first, second, y, n, scores, B: tl.constexpr):
    """Σ n(y - p)d and Σ n·p(1 - p)d² over the votes of a worker, at a slope."""
    slope, information = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for at in range(begin, end, B):
        i = at + tl.arange(0, B)
        good = i < end
        d = _difference(i, good, first, second, scores)
        p, q, _ = _halves(s * d)
        outcome = tl.load(y + i, mask=good, other=0.0).to(tl.float64)
        weight = tl.load(n + i, mask=good, other=0.0).to(tl.float64)
        slope += weight * (outcome * q - (1.0 - outcome) * p) * d
        information += weight * p * q * d * d
    return tl.sum(slope, axis=0), tl.sum(information, axis=0)


@triton.jit
def _settle(
    offsets, first, second, y, n, scores, start, prior, slopes, curvature, MOST: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """The slope of a worker by Newton steps inside a bracket, and the curvature there.

    The gradient falls in the slope, so its sign says on which side the optimum is. A step that
    would leave the bracket, or is more than half of the one before, is replaced by the middle.
    """
    worker = tl.program_id(0)
    begin, end = tl.load(offsets + worker), tl.load(offsets + worker + 1)
    mean, precision, last = tl.load(prior), tl.load(prior + 1), tl.load(prior + 2)
    s = tl.load(start + worker)
    low, high = s - float("inf"), s + float("inf")
    before = high
    far, steps = s == s, 0
    while far:
        slope, information = _sums_of_worker(s, begin, end, first, second, y, n, scores, B)
        gradient, hessian = slope - precision * (s - mean), information + precision
        low, high = tl.where(gradient > 0.0, s, low), tl.where(gradient < 0.0, s, high)
        new, middle = s + gradient / hessian, 0.5 * (low + high)
        slow = (new < low) | (new > high) | (tl.abs(new - s) > 0.5 * before)
        new = tl.where(slow & (tl.abs(middle) < float("inf")), middle, new)
        size = tl.maximum(tl.abs(s), tl.rsqrt(hessian))
        before = tl.abs(new - s)
        steps += 1
        far = (before > last * size) & (steps < MOST)
        s = new
    _, information = _sums_of_worker(s, begin, end, first, second, y, n, scores, B)
    tl.store(slopes + worker, s)
    tl.store(curvature + worker, information + precision)


@triton.jit
def _derive(
    first, second, worker, y, n, scores, slopes, up, sums, a_out, b_out, values, a_most, b_most,
    count, B: tl.constexpr,
):  # fmt: skip
    """Value, gradient and the Hessian's numbers a and b of a block of votes."""
    block = tl.program_id(0)
    i = block.to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    d = _difference(i, good, first, second, scores)
    t = tl.load(slopes + tl.load(worker + i, mask=good, other=0), mask=good, other=0.0)
    eta = t * d
    p, q, tail = _halves(eta)
    outcome = tl.load(y + i, mask=good, other=0.0).to(tl.float64)
    weight = tl.load(n + i, mask=good, other=0.0).to(tl.float64)
    value = outcome * (tl.minimum(eta, 0.0) - tail) + (1.0 - outcome) * (
        tl.minimum(-eta, 0.0) - tail
    )
    slope, information = outcome * q - (1.0 - outcome) * p, p * q
    a, b = weight * information * t * t, weight * (information * eta - slope)
    whole = tl.floor(weight * slope * t * tl.load(up) + 0.5).to(tl.int64)
    tl.atomic_add(sums + tl.load(first + i, mask=good, other=0), whole, mask=good, sem="relaxed")
    tl.atomic_add(sums + tl.load(second + i, mask=good, other=0), -whole, mask=good, sem="relaxed")
    tl.store(a_out + i, a, mask=good)
    tl.store(b_out + i, b, mask=good)
    tl.store(values + block, tl.sum(tl.where(good, weight * value, 0.0), axis=0))
    tl.store(a_most + block, tl.max(tl.where(good, tl.abs(a), 0.0), axis=0))
    tl.store(b_most + block, tl.max(tl.where(good, tl.abs(b), 0.0), axis=0))


@triton.jit
def _couple(offsets, first, second, b, v, inverse, u, B: tl.constexpr):
    """Σ b·(v[first] - v[second]) over the votes of a worker, times its inverse."""
    worker = tl.program_id(0)
    begin, end = tl.load(offsets + worker), tl.load(offsets + worker + 1)
    total = tl.zeros([B], tl.float64)
    for at in range(begin, end, B):
        i = at + tl.arange(0, B)
        good = i < end
        d = _difference(i, good, first, second, v)
        total += tl.load(b + i, mask=good, other=0.0).to(tl.float64) * d
    tl.store(u + worker, tl.sum(total, axis=0) * tl.load(inverse + worker))


@triton.jit
def _spread(first, second, worker, a, b, v, u, up, sums, count, B: tl.constexpr):
    """a·(v[first] - v[second]) - b·u of every vote, to its items."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    d = _difference(i, good, first, second, v)
    own = tl.load(u + tl.load(worker + i, mask=good, other=0), mask=good, other=0.0)
    flow = tl.load(a + i, mask=good, other=0.0).to(tl.float64) * d
    flow -= tl.load(b + i, mask=good, other=0.0).to(tl.float64) * own
    whole = tl.floor(flow * tl.load(up) + 0.5).to(tl.int64)
    tl.atomic_add(sums + tl.load(first + i, mask=good, other=0), whole, mask=good, sem="relaxed")
    tl.atomic_add(sums + tl.load(second + i, mask=good, other=0), -whole, mask=good, sem="relaxed")


class Derivatives(NamedTuple):
    """Log-likelihood, its gradient in the scores, and the largest of the Hessian's numbers."""

    value: Tensor
    gradient: Tensor
    a_most: Tensor
    b_most: Tensor


def settled(
    votes: VoteTensors, scores: Tensor, start: Tensor, prior: SlopePrior
) -> tuple[Tensor, Tensor]:
    """Every slope at its optimum, and the curvature there, prior included."""
    slopes, curvature = torch.empty_like(start), torch.empty_like(start)
    exact = votes.numbers([prior.mean, prior.precision, prior.last_step])  # not rounded
    _settle[(votes.n_workers,)](
        votes.offsets, votes.first, votes.second, votes.y, votes.n, scores, start, exact, slopes,
        curvature, MOST=_MAX_STEPS, B=_BLOCK,
    )  # fmt: skip
    return slopes, curvature


def derivatives(
    votes: VoteTensors, scores: Tensor, slopes: Tensor, a: Tensor, b: Tensor
) -> Derivatives:
    """Return the derivatives at these slopes; fill a and b of every vote."""
    count = max(triton.cdiv(len(votes), _VOTES), 1)  # a shard may have no votes
    parts = [torch.zeros(count, dtype=torch.float64, device=votes.device) for _ in range(3)]
    scale = FixedPoint(votes.heaviest * slopes.abs().max(), votes.most_of_item)
    sums = torch.zeros(votes.n_items, dtype=torch.int64, device=votes.device)
    _derive[(count,)](
        votes.first, votes.second, votes.worker, votes.y, votes.n, scores, slopes, scale.up, sums,
        a, b, *parts, len(votes), B=_VOTES,
    )  # fmt: skip
    return Derivatives(parts[0].sum(), scale.values(sums), parts[1].max(), parts[2].max())


def reduced_product(
    votes: VoteTensors, a: Tensor, b: Tensor, most: tuple[Tensor, Tensor], inverse: Tensor,
    v: Tensor,
) -> Tensor:  # fmt: skip
    """(A - B·inverse·B') v; `most` are the largest |a| and |b|."""
    u = torch.empty(votes.n_workers, dtype=torch.float64, device=votes.device)
    where = votes.first, votes.second
    _couple[(votes.n_workers,)](votes.offsets, *where, b, v, inverse, u, B=_BLOCK)
    bound = most[0] * (2.0 * v.abs().max()) + most[1] * u.abs().max()
    scale = FixedPoint(bound, votes.most_of_item)
    sums = torch.zeros(votes.n_items, dtype=torch.int64, device=votes.device)
    _spread[(max(triton.cdiv(len(votes), _VOTES), 1),)](
        *where, votes.worker, a, b, v, u, scale.up, sums, len(votes), B=_VOTES
    )
    return scale.values(sums)
