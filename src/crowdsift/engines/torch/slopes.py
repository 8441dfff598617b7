"""The logistic model with a slope for every worker, on a device.

All is in double precision; a program of a Triton kernel processes one worker, or one block of votes.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from crowdsift.engines.base import Profile, ScoreCurvature, SlopePrior
from crowdsift.engines.torch.links import logistic
from crowdsift.engines.torch.operators import PairLaplacian, TorchOperator
from crowdsift.engines.torch.sums import FixedPoint
from crowdsift.engines.torch.triton_pairs import laplacian_diagonal
from crowdsift.engines.torch.vectors import to_solver
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.numeric import Vector

# With more votes than this, the Hessian holds its numbers in single precision.
_MAX_DOUBLE_VOTES = 50_000_000
_BLOCK, _VOTES = 128, 1024
_MAX_STEPS = 60  # Newton steps of a slope; bisection alone would have converged by then


class TorchSlopes:
    """`crowdsift.engines.base.Slopes` on tensors, always in double precision."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        votes = self._votes
        votes.counter.passes += 1
        r, s, value = votes.numbers(scores), votes.numbers(slopes), votes.zero()
        for part in votes.parts():
            eta = s.index_select(0, part.worker) * part.differences(r)
            value = value + (part.n * logistic(eta, part.y)[0]).sum()
        return float(value)

    def profile(
        self, scores: Vector, slopes: Vector, prior: SlopePrior | None = None, *, resolution: float = 0.0
    ) -> Profile:
        votes = self._votes
        votes.counter.passes += 1
        r, s = votes.numbers(scores), votes.numbers(slopes)
        curvature = torch.full_like(s, torch.inf)
        if prior is not None:
            s, curvature = _settled(votes, r, s, prior)
        kind = torch.float64 if len(votes) <= _MAX_DOUBLE_VOTES else torch.float32
        a, b = (torch.empty(len(votes), dtype=kind, device=votes.device) for _ in range(2))
        at = _derivatives(votes, r, s, a, b)
        hessian = SlopeHessian(votes, a, b, at.a_most, at.b_most, 1.0 / curvature)
        return Profile(float(at.value), to_solver(at.gradient), to_solver(s), to_solver(curvature), hessian)

    def curvature(self, scores: Vector, slopes: Vector) -> ScoreCurvature:
        votes = self._votes
        votes.counter.passes += 1
        r, s, value = votes.numbers(scores), votes.numbers(slopes), votes.zero()
        gradient = votes.item_sums(votes.heaviest * s.abs().max())
        information = votes.worker_sums(votes.heaviest * r.abs().max() ** 2)
        weight = torch.empty(len(votes), dtype=torch.float64, device=votes.device)
        for part in votes.parts():
            d, t = part.differences(r), s.index_select(0, part.worker)
            at, first, second = logistic(t * d, part.y)
            value = value + (part.n * at).sum()
            gradient.between(part, part.n * first * t)
            information.add(part.worker, -part.n * second * d * d)
            weight[part.rows] = -part.n * second * t * t
        return ScoreCurvature(
            float(value),
            to_solver(gradient.total()),
            to_solver(information.total()),
            PairLaplacian(votes.n_items, votes.first, votes.second, weight, votes.most_of_item),
        )


class SlopeHessian(TorchOperator):
    """The Hessian with slopes eliminated, A - B D⁻¹ B', held as the numbers a and b of every vote.

    `a_most` and `b_most` are the largest |a| and |b|; `inverse` is D⁻¹ of every worker, 0 where slopes were given.
    """

    def __init__(
        self, votes: VoteTensors, a: Tensor, b: Tensor, a_most: Tensor, b_most: Tensor, inverse: Tensor
    ) -> None:
        super().__init__(votes.device)
        self._votes, self._a, self._b, self._inverse = votes, a, b, inverse
        self._a_most, self._b_most = a_most, b_most

    def product(self, v: Tensor) -> Tensor:
        self._votes.counter.passes += 1
        largest = self._a_most, self._b_most
        return _reduced_product(self._votes, self._a, self._b, largest, self._inverse, v)

    def diagonal_there(self) -> Tensor:
        """Return the diagonal of A; no entry of it is negative."""
        votes = self._votes
        scale = FixedPoint(self._a_most, votes.most_of_item)
        return laplacian_diagonal(votes.first, votes.second, self._a, votes.n_items, scale)


@triton.jit
def _difference(i, good, first, second, scores):
    a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
    return tl.load(scores + a, mask=good, other=0.0) - tl.load(scores + b, mask=good, other=0.0)


@triton.jit
def _halves(x):
    """Return σ(x), σ(-x) and log(1 + e^-|x|)."""
    small = tl.exp(-tl.abs(x))
    big = 1.0 / (1.0 + small)
    less = small * big
    return tl.where(x >= 0.0, big, less), tl.where(x >= 0.0, less, big), tl.log(1.0 + small)


@triton.jit
def _sums_of_worker(s, begin, end, first, second, y, n, scores, B: tl.constexpr):
    """Compute Σ n(y - p)d and Σ n·p(1 - p)d² over the votes of a worker, at a slope."""
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
def _settle(offsets, first, second, y, n, scores, start, prior, slopes, curvature, MOST: tl.constexpr, B: tl.constexpr):
    """Find the slope of a worker by Newton steps inside a bracket, and the curvature there."""
    # The gradient decreases in the slope, so its sign says on which side the optimum is. A step that would leave the
    # bracket, or is longer than half of the one before, is replaced by the middle.
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
    first, second, worker, y, n, scores, slopes, up, sums, a_out, b_out, values, a_most, b_most, count, B: tl.constexpr
):
    """Compute value, gradient and the Hessian's numbers a and b of a block of votes."""
    block = tl.program_id(0)
    i = block.to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    d = _difference(i, good, first, second, scores)
    t = tl.load(slopes + tl.load(worker + i, mask=good, other=0), mask=good, other=0.0)
    eta = t * d
    p, q, tail = _halves(eta)
    outcome = tl.load(y + i, mask=good, other=0.0).to(tl.float64)
    weight = tl.load(n + i, mask=good, other=0.0).to(tl.float64)
    value = outcome * (tl.minimum(eta, 0.0) - tail) + (1.0 - outcome) * (tl.minimum(-eta, 0.0) - tail)
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
    """Compute Σ b·(v[first] - v[second]) over the votes of a worker, times its inverse."""
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
    """Add a·(v[first] - v[second]) - b·u of every vote to its items."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    d = _difference(i, good, first, second, v)
    own = tl.load(u + tl.load(worker + i, mask=good, other=0), mask=good, other=0.0)
    flow = tl.load(a + i, mask=good, other=0.0).to(tl.float64) * d
    flow -= tl.load(b + i, mask=good, other=0.0).to(tl.float64) * own
    whole = tl.floor(flow * tl.load(up) + 0.5).to(tl.int64)
    tl.atomic_add(sums + tl.load(first + i, mask=good, other=0), whole, mask=good, sem="relaxed")
    tl.atomic_add(sums + tl.load(second + i, mask=good, other=0), -whole, mask=good, sem="relaxed")


class _Derivatives(NamedTuple):
    """Log-likelihood, its gradient in the scores, and the largest numbers of the Hessian."""

    value: Tensor
    gradient: Tensor
    a_most: Tensor
    b_most: Tensor


def _settled(votes: VoteTensors, scores: Tensor, start: Tensor, prior: SlopePrior) -> tuple[Tensor, Tensor]:
    """Return every slope at its optimum, and the curvature there, prior included."""
    slopes, curvature = torch.empty_like(start), torch.empty_like(start)
    exact = votes.numbers([prior.mean, prior.precision, prior.last_step])  # not rounded
    given = *votes.by_worker, scores, start, exact
    _settle[(votes.n_workers,)](*given, slopes, curvature, MOST=_MAX_STEPS, B=_BLOCK)
    return slopes, curvature


def _derivatives(votes: VoteTensors, scores: Tensor, slopes: Tensor, a: Tensor, b: Tensor) -> _Derivatives:
    count = max(triton.cdiv(len(votes), _VOTES), 1)  # a shard may have no votes
    parts = [torch.zeros(count, dtype=torch.float64, device=votes.device) for _ in range(3)]
    scale = FixedPoint(votes.heaviest * slopes.abs().max(), votes.most_of_item)
    sums = torch.zeros(votes.n_items, dtype=torch.int64, device=votes.device)
    _derive[(count,)](*votes.columns, scores, slopes, scale.up, sums, a, b, *parts, len(votes), B=_VOTES)
    return _Derivatives(parts[0].sum(), scale.values(sums), parts[1].max(), parts[2].max())


def _reduced_product(
    votes: VoteTensors, a: Tensor, b: Tensor, most: tuple[Tensor, Tensor], inverse: Tensor, v: Tensor
) -> Tensor:
    """Return (A - B·inverse·B') v; `most` are the largest |a| and |b|."""
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
