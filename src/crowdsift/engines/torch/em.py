"""Pólya-Gamma expectation maximisation on a device: passes, their Triton kernels, whole M-steps.

If votes are few, an M-step spends its time launching kernels: its alternations are recorded as graphs, and the host
checks convergence once, at its end.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from crowdsift.engines.base import ItemSystem
from crowdsift.engines.torch.operators import PairLaplacian
from crowdsift.engines.torch.sums import FixedPoint
from crowdsift.engines.torch.triton_solve import Problem, Recorded, begin_solve, item_index, one_step
from crowdsift.engines.torch.vectors import to_host
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.numeric import Vector

# Up to these sizes an M-step spends most of its time launching kernels, so it is recorded as a graph.
_MAX_RECORDED_VOTES, _MAX_RECORDED_ITEMS = 24_000_000, 1 << 18
_BLOCK, _VOTES = 256, 1024
_EACH = 4  # steps of conjugate gradients in a graph
_SHIFT, _RIDGE = 5, 7  # indices in the state of a solve


class TorchEM:
    """`crowdsift.engines.base.EM` on tensors."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes

    def e_step(self, scores: Vector, slopes: Vector, *, resolution: float = 0.0) -> TorchEStep:
        return TorchEStep(self._votes, scores, slopes)


class TorchEStep:
    """n·E[ω] of every vote, kept on the device, and the M-step given it."""

    system: ItemSystem

    def __init__(self, votes: VoteTensors, scores: Vector, slopes: Vector) -> None:
        self._votes = votes
        votes.counter.passes += 1
        r, s = votes.numbers(scores), votes.numbers(slopes)
        self._slopes, self._held = s, slopes
        self._omega, found = _expected(votes, r, s)
        self.log_likelihood, self.precision = found.tolist()

    def __getattr__(self, name: str) -> ItemSystem:
        if name != "system":
            raise AttributeError(name)
        self.system = self._system(self._slopes)  # built on first use: whole M-steps need none
        return self.system

    def alternate(
        self, scores: Vector, alternations: int, shift: float, ridge: float, tolerance: float
    ) -> tuple[Vector, Vector, bool] | None:
        """Run a whole M-step on the device; return None if passes one by one are faster."""
        votes = self._votes
        if len(votes) > _MAX_RECORDED_VOTES or votes.n_items > _MAX_RECORDED_ITEMS:
            return None
        if votes.m_step is None:
            votes.m_step = _MStep(votes)
        step: _MStep = votes.m_step
        votes.counter.passes += alternations
        return step.alternate(self._omega, scores, self._held, alternations, shift, ridge, tolerance)

    def regress(self, scores: Vector, ridge: float) -> tuple[Vector, ItemSystem]:
        self._votes.counter.passes += 1
        slopes = _regressed(self._votes, self._omega, self._votes.numbers(scores), ridge)
        return to_host(slopes), self._system(slopes)

    def _system(self, s: Tensor) -> ItemSystem:
        votes = self._votes
        weight, rhs = _item_system(votes, self._omega, s)
        laplacian = PairLaplacian(votes.n_items, votes.first, votes.second, weight, votes.most_of_item, votes.solvers)
        return ItemSystem(laplacian, to_host(rhs))


@triton.jit
def _e_step(first, second, worker, y, n, scores, slopes, omega, values, precisions, count, B: tl.constexpr):
    block = tl.program_id(0)
    i = block.to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
    d = tl.load(scores + a, mask=good, other=0.0) - tl.load(scores + b, mask=good, other=0.0)
    eta = d * tl.load(slopes + tl.load(worker + i, mask=good, other=0), mask=good, other=0.0)
    weight = tl.load(n + i, mask=good, other=0.0).to(tl.float64)
    outcome = tl.load(y + i, mask=good, other=0.0).to(tl.float64)
    size = tl.abs(eta)
    small = tl.exp(-size)
    near = size < 1e-2
    square = eta * eta
    series = 0.25 - square * (1.0 / 48.0 - square * (1.0 / 480.0 - square * (17.0 / 80640.0)))
    far = (1.0 - small) / ((1.0 + small) * 2.0 * tl.where(near, 1.0, size))
    mean = weight * tl.where(near, series, far)
    tl.store(omega + i, mean, mask=good)
    tail = tl.log(1.0 + small)
    value = outcome * tl.minimum(eta, 0.0) + (1.0 - outcome) * tl.minimum(-eta, 0.0) - tail
    tl.store(values + block, tl.sum(tl.where(good, weight * value, 0.0), axis=0))
    tl.store(precisions + block, tl.sum(tl.where(good, mean, 0.0), axis=0))


@triton.jit
def _regress(offsets, first, second, y, n, omega, scores, slopes, ridge, B: tl.constexpr):
    """Compute Σ n(y - ½)d / (Σ n·E[ω]·d² + ridge) of a worker."""
    worker = tl.program_id(0)
    begin, end = tl.load(offsets + worker), tl.load(offsets + worker + 1)
    top, bottom = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for at in range(begin, end, B):
        i = at + tl.arange(0, B)
        good = i < end
        a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
        d = tl.load(scores + a, mask=good, other=0.0) - tl.load(scores + b, mask=good, other=0.0)
        kappa = tl.load(y + i, mask=good, other=0.5).to(tl.float64) - 0.5
        top += tl.load(n + i, mask=good, other=0.0).to(tl.float64) * kappa * d
        bottom += tl.load(omega + i, mask=good, other=0.0) * d * d
    below = tl.sum(bottom, axis=0) + tl.load(ridge)
    tl.store(slopes + worker, tl.where(below > 0.0, tl.sum(top, axis=0) / below, 0.0))


@triton.jit
def _system(first, second, worker, y, n, omega, slopes, up, weight, sums, count, B: tl.constexpr):
    """Compute slope²·n·E[ω] of every vote, and add slope·n(y - ½) to its items, in fixed point."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    t = tl.load(slopes + tl.load(worker + i, mask=good, other=0), mask=good, other=0.0)
    tl.store(weight + i, t * t * tl.load(omega + i, mask=good, other=0.0), mask=good)
    kappa = tl.load(y + i, mask=good, other=0.5).to(tl.float64) - 0.5
    term = t * tl.load(n + i, mask=good, other=0.0).to(tl.float64) * kappa
    whole = tl.floor(term * tl.load(up) + 0.5).to(tl.int64)
    a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
    tl.atomic_add(sums + a, whole, mask=good, sem="relaxed")
    tl.atomic_add(sums + b, -whole, mask=good, sem="relaxed")


@triton.jit
def _items(
    offsets,
    pair,
    other,
    sign,
    worker,
    y,
    n,
    omega,
    slopes,
    x,
    rhs,
    weight,
    diagonal,
    inverse,
    residual,
    state,
    B: tl.constexpr,
):
    """Compute an item's weights slope²·n·E[ω] by entry, right-hand side, diagonal, and residual at x."""
    item = tl.program_id(0)
    begin, end = tl.load(offsets + item), tl.load(offsets + item + 1)
    total, flow = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    terms = tl.zeros([B], tl.float64)
    for at in range(begin, end, B):
        i = at + tl.arange(0, B)
        good = i < end
        vote = tl.load(pair + i, mask=good, other=0)
        t = tl.load(slopes + tl.load(worker + vote, mask=good, other=0), mask=good, other=0.0)
        w = t * t * tl.load(omega + vote, mask=good, other=0.0)
        tl.store(weight + i, w, mask=good)
        total += w
        flow += w * tl.load(x + tl.load(other + i, mask=good, other=0), mask=good, other=0.0)
        kappa = tl.load(y + vote, mask=good, other=0.5).to(tl.float64) - 0.5
        kappa *= tl.load(n + vote, mask=good, other=0.0).to(tl.float64)
        terms += t * kappa * tl.load(sign + i, mask=good, other=0).to(tl.float64)
    whole, b = tl.sum(total, axis=0), tl.sum(terms, axis=0)
    pivot = whole + tl.load(state + 5)
    tl.store(rhs + item, b)
    tl.store(diagonal + item, whole)
    tl.store(inverse + item, tl.where(pivot > 0.0, 1.0 / tl.where(pivot > 0.0, pivot, 1.0), 1.0))
    tl.store(residual + item, b - pivot * tl.load(x + item) + tl.sum(flow, axis=0))


@triton.jit
def _centre(x, state, found, count, B: tl.constexpr):
    """Compute x minus its mean, the most steps of a solve, and whether one has not converged."""
    total = tl.zeros([B], tl.float64)
    for at in range(0, count, B):
        i = at + tl.arange(0, B)
        total += tl.load(x + i, mask=i < count, other=0.0)
    mean = tl.sum(total, axis=0) / count
    for at in range(0, count, B):
        i = at + tl.arange(0, B)
        tl.store(x + i, tl.load(x + i, mask=i < count, other=0.0) - mean, mask=i < count)
    open_ = tl.where(tl.load(state + 1) > tl.load(state + 4), 1.0, 0.0).to(tl.float64)
    tl.store(found, tl.maximum(tl.load(found), tl.load(state + 2)))
    tl.store(found + 1, tl.maximum(tl.load(found + 1), open_))


class _MStep:
    """Whole M-steps for the same votes: solves for scores and regressions of workers, in turn."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes, device = votes, votes.device
        self._at = at = Problem.over(item_index(votes.first, votes.second, votes.n_items))
        self._omega = torch.zeros(len(votes), dtype=torch.float64, device=device)
        self._slopes = torch.zeros(votes.n_workers, dtype=torch.float64, device=device)
        self._found = torch.zeros(2, dtype=torch.float64, device=device)
        self._begin = Recorded(self._start, device)
        self._steps = Recorded(lambda: one_step(at), device, _EACH)
        self._end = Recorded(self._finish, device)
        self._usual = 2  # most graphs of steps that a recent solve needed

    def alternate(
        self,
        omega: Tensor,
        scores: Vector,
        slopes: Vector,
        alternations: int,
        shift: float,
        ridge: float,
        tolerance: float,
        most: int = 10_000,
    ) -> tuple[Vector, Vector, bool]:
        """Alternate scores given slopes and slopes given scores; return whether all solves converged.

        All solves get as many steps as the longest of the last M-step needed. If that is too few, the M-step is
        repeated with more.
        """
        at, n = self._at, len(self._at.x)
        self._omega.copy_(omega)
        known = np.zeros(8)
        known[_SHIFT], known[6], known[_RIDGE] = shift, tolerance * tolerance, ridge
        given = [torch.from_numpy(np.ascontiguousarray(v)) for v in (scores, slopes, known)]
        while True:
            for held, value in zip((at.x, self._slopes, at.state), given, strict=True):
                held.copy_(value)
            self._found.zero_()
            for _ in range(alternations):
                self._begin.play()
                for _ in range(self._usual):
                    self._steps.play()
                self._end.play()
            joined = torch.cat([self._found, at.x, self._slopes]).cpu().numpy()
            steps, unsolved = joined[:2]
            enough = not unsolved or steps < _EACH * self._usual  # otherwise no direction was left
            if enough or _EACH * self._usual >= most:
                self._usual = int(1.2 * steps) // _EACH + 1
                return joined[2 : 2 + n].copy(), joined[2 + n :].copy(), not unsolved
            self._usual *= 2

    def _start(self) -> None:
        at, votes, index = self._at, self._votes, self._at.entries
        of_votes = *votes.columns[2:], self._omega, self._slopes
        _items[(len(at.x),)](*index, *of_votes, *at.system, B=index.block, num_warps=1)
        begin_solve(at)

    def _finish(self) -> None:
        at, votes = self._at, self._votes
        _centre[(1,)](at.x, at.state, self._found, len(at.x), B=4096, num_warps=16)
        ridge = at.state[_RIDGE:]
        _regress[(votes.n_workers,)](*votes.by_worker, self._omega, at.x, self._slopes, ridge, B=_BLOCK)


def _expected(votes: VoteTensors, scores: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the expected weights n·E[ω] of votes, the log-likelihood, and the sum of the weights."""
    omega = torch.empty(len(votes), dtype=torch.float64, device=votes.device)
    count = triton.cdiv(len(votes), _VOTES)
    parts = torch.zeros((2, max(count, 1)), dtype=torch.float64, device=votes.device)
    if count:
        _e_step[(count,)](*votes.columns, scores, slopes, omega, *parts, len(votes), B=_VOTES)
    return omega, parts.sum(dim=1)


def _regressed(votes: VoteTensors, omega: Tensor, scores: Tensor, ridge: float) -> Tensor:
    slopes = torch.empty(votes.n_workers, dtype=torch.float64, device=votes.device)
    exact = torch.full((1,), ridge, dtype=torch.float64, device=votes.device)  # not rounded
    _regress[(votes.n_workers,)](*votes.by_worker, omega, scores, slopes, exact, B=_BLOCK)
    return slopes


def _item_system(votes: VoteTensors, omega: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    scale = FixedPoint(votes.heaviest * 0.5 * slopes.abs().max(), votes.most_of_item)
    weight = torch.empty_like(omega)
    sums = torch.zeros(votes.n_items, dtype=torch.int64, device=votes.device)
    if len(votes):
        programs = (triton.cdiv(len(votes), _BLOCK),)
        _system[programs](*votes.columns, omega, slopes, scale.up, weight, sums, len(votes), B=_BLOCK)
    return weight, scale.values(sums)
