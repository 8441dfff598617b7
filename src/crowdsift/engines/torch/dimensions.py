"""The passes over votes in several dimensions on a device: two kernels, one by worker and one by item.

See `crowdsift.engines.dimensions` for what each pass returns, and `cpp/include/crowdsift/dimensions.hpp` for the same
arithmetic vote by vote. Sums have a fixed order, so that two runs give the same bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from crowdsift.engines.dimensions import Crowd, DimensionUpdate, Part
from crowdsift.engines.kinds import WeightedPairs
from crowdsift.engines.torch.operators import TorchOperator
from crowdsift.engines.torch.sums import exact_sum
from crowdsift.engines.torch.vectors import to_host, to_solver
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import LOGISTIC_SMOOTHING
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import Comparisons

_BLOCK = 256  # votes per program
_INNER = 2  # updates of votes and worker in a pass
_BOUND, _SLOPE, _PREDICTION = 0, 1, 2  # quantity that the kernel by worker computes for a vote
_SIGNS = 0x5851F42D4C957F2D  # chooses the votes that are reversed in the test of residuals
_COLUMNS = 8  # columns of a product in the test of residuals
_NEWTON_STEPS, _SETTLED = 30, 1e-7


@triton.jit
def _bound(m, sign, offset, z, square, caution, SMOOTHING: tl.constexpr):
    """Return constant, slope and curvature of m terms log σ(sign·z + offset), given E[z] and E[z²]."""
    u, v = sign * z + offset, tl.maximum(square - z * z, 0.0)
    k = 1.0 / tl.sqrt(1.0 + SMOOTHING * v)
    small = tl.exp(-k * tl.abs(u))
    slope = tl.where(u > 0.0, small, 1.0) / (1.0 + small)
    bend = k * slope * (1.0 - slope)
    q = u * u + v
    xi = tl.maximum(tl.sqrt(q), 1e-4)
    e = tl.exp(-xi)
    cautious = tl.where(q < 1e-8, 0.25 - q / 48.0, 0.5 * (1.0 - e) / ((1.0 + e) * xi))
    bend += caution * (cautious - bend)
    linear = sign * slope + bend * z
    value = tl.minimum(u, 0.0) - tl.log(1.0 + small) / k
    return m * (value - linear * z + 0.5 * bend * square), m * linear, m * bend


@triton.jit
def _slope(m, sign, offset, z, k):
    """Return m·log σ(k(sign·z + offset)), its derivative in z, and minus its second derivative."""
    u = k * (sign * z + offset)
    small = tl.exp(-tl.abs(u))
    p = tl.where(u > 0.0, small, 1.0) / (1.0 + small)
    return m * (tl.minimum(u, 0.0) - tl.log(1.0 + small)), m * sign * k * p, m * k * k * p * (1.0 - p)


@triton.jit
def _spread(C, one, two, p, q, mask, rows, D: tl.constexpr, DENSE: tl.constexpr):
    """Return the covariance of the differences of two items, in their dimensions p and q."""
    one, two = one.to(tl.int64) * D, two.to(tl.int64) * D
    if DENSE:
        of_one, of_two = C + (one + p) * rows + q, C + (two + p) * rows + q
        found = tl.load(of_one + one, mask=mask, other=0.0) + tl.load(of_two + two, mask=mask, other=0.0)
        found -= tl.load(of_one + two, mask=mask, other=0.0) + tl.load(of_two + one, mask=mask, other=0.0)
    else:
        place = C + p * D + q
        found = tl.load(place + one * D, mask=mask, other=0.0) + tl.load(place + two * D, mask=mask, other=0.0)
    return found


@triton.jit
def _by_vote(
    first,
    second,
    worker,
    outcome,
    weight,
    marked,
    width,
    x,
    C,
    a,
    M,
    values,
    slopes,
    bends,
    n_votes,
    voters,
    rows,
    caution,
    D: tl.constexpr,
    E: tl.constexpr,
    DENSE: tl.constexpr,
    TIES: tl.constexpr,
    KIND: tl.constexpr,
    SMOOTHING: tl.constexpr,
    B: tl.constexpr,
):
    """Compute the value, slope and curvature in z of every vote of a marked worker."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    inside = i < n_votes
    s = tl.load(worker + i, mask=inside, other=0).to(tl.int64)
    there = inside & (tl.load(marked + s, mask=inside, other=0) != 0)
    one, two = tl.load(first + i, mask=there, other=0), tl.load(second + i, mask=there, other=0)
    y = tl.load(outcome + i, mask=there, other=0.0).to(tl.float64)
    n = tl.load(weight + i, mask=there, other=0.0).to(tl.float64)
    voter = there & (s < voters)
    delta = tl.load(width + s, mask=voter, other=0.0)
    z, square, spread = tl.zeros([B], tl.float64), tl.zeros([B], tl.float64), tl.zeros([B], tl.float64)
    for p in tl.static_range(E):
        d = tl.where(voter, 1.0, 0.0).to(tl.float64)
        if p < D:
            d = tl.load(x + one * D + p, mask=there, other=0.0) - tl.load(x + two * D + p, mask=there, other=0.0)
        mean = tl.load(a + s * E + p, mask=there, other=0.0)
        z += mean * d
        for q in tl.static_range(E):
            if KIND != 1:
                e = tl.where(voter, 1.0, 0.0).to(tl.float64)
                if q < D:
                    e = tl.load(x + one * D + q, mask=there, other=0.0)
                    e -= tl.load(x + two * D + q, mask=there, other=0.0)
                moment = tl.load(M + s * E * E + p * E + q, mask=there, other=0.0)
                square += moment * d * e
            else:
                moment = mean * tl.load(a + s * E + q, mask=there, other=0.0)
            if (p < D) & (q < D):
                spread += moment * _spread(C, one, two, p, q, there, rows, D, DENSE)
    square += spread
    tied = y < 0.0
    if TIES:
        tied = (y == 0.5) & (delta > 0.0)
    up, down = tl.where(tied, n, n * y), tl.where(tied, n, n * (1.0 - y))
    offset = tl.where(tied, delta, -delta)
    value = tl.where(tied, n * tl.log(1.0 - tl.exp(-2.0 * tl.where(tied, delta, 1.0))), 0.0)
    if KIND == 0:
        one_value, slope, bend = _bound(up, 1.0, offset, z, square, caution, SMOOTHING)
        more, slope2, bend2 = _bound(down, -1.0, offset, z, square, caution, SMOOTHING)
    else:
        v = spread if KIND == 1 else square - z * z
        k = 1.0 / tl.sqrt(1.0 + SMOOTHING * tl.maximum(v, 0.0))
        one_value, slope, bend = _slope(up, 1.0, offset, z, k)
        more, slope2, bend2 = _slope(down, -1.0, offset, z, k)
    value += one_value + more
    if KIND == 2:  # a tie has the probability that wins leave
        won, lost = 1.0 / (1.0 + tl.exp(k * (offset - z))), 1.0 / (1.0 + tl.exp(k * (z + offset)))
        value = tl.where(tied, n * tl.log(tl.maximum(1.0 - won - lost, 1e-300)), value)
    tl.store(values + i, tl.where(there, value, 0.0), mask=inside)
    tl.store(slopes + i, (slope + slope2).to(slopes.dtype.element_ty), mask=inside)
    tl.store(bends + i, (bend + bend2).to(bends.dtype.element_ty), mask=inside)


@triton.jit
def _by_worker(
    first,
    second,
    start,
    marked,
    values,
    slopes,
    bends,
    x,
    C,
    value,
    gradient,
    curvature,
    n_workers,
    voters,
    rows,
    D: tl.constexpr,
    E: tl.constexpr,
    DENSE: tl.constexpr,
    SPREAD: tl.constexpr,
    P: tl.constexpr,
    W: tl.constexpr,
    B: tl.constexpr,
):
    """Sum values, slopes and curvatures of votes in the weights of their worker, if it is marked."""
    s = (tl.program_id(0) * W + tl.arange(0, W)).to(tl.int64)
    real = s < n_workers
    real = real & (tl.load(marked + s, mask=real, other=0) != 0)
    begin = tl.load(start + s, mask=real, other=0)
    end = tl.load(start + s + 1, mask=real, other=0)
    voter = real & (s < voters)
    p = tl.arange(0, P)
    own, among = p < E, p < D
    total, b = tl.zeros([W, B], tl.float64), tl.zeros([W, B, P], tl.float64)
    A = tl.zeros([W, B, P, P], tl.float64)
    for step in range(0, tl.max(end - begin, axis=0), B):
        i = begin[:, None] + step + tl.arange(0, B)[None, :]
        there = i < end[:, None]
        one, two = tl.load(first + i, mask=there, other=0), tl.load(second + i, mask=there, other=0)
        total += tl.load(values + i, mask=there, other=0.0)
        known = there[:, :, None] & among[None, None, :]
        d = tl.load(x + (one * D)[:, :, None] + p[None, None, :], mask=known, other=0.0)
        d -= tl.load(x + (two * D)[:, :, None] + p[None, None, :], mask=known, other=0.0)
        if E > D:
            d += tl.where((p == D)[None, None, :] & voter[:, None, None], 1.0, 0.0)
        b += tl.load(slopes + i, mask=there, other=0.0).to(tl.float64)[:, :, None] * d
        T = d[:, :, :, None] * d[:, :, None, :]
        if SPREAD:
            mask = known[:, :, :, None] & among[None, None, None, :]
            at, beside = one[:, :, None, None], two[:, :, None, None]
            T += _spread(C, at, beside, p[None, None, :, None], p[None, None, None, :], mask, rows, D, DENSE)
        A += tl.load(bends + i, mask=there, other=0.0).to(tl.float64)[:, :, None, None] * T
    mask = real[:, None] & own[None, :]
    tl.store(value + s, tl.sum(total, axis=1), mask=real)
    tl.store(gradient + s[:, None] * E + p[None, :], tl.sum(b, axis=1), mask=mask)
    place = (s * (E * E))[:, None, None] + (p * E)[None, :, None] + p[None, None, :]
    tl.store(curvature + place, tl.sum(A, axis=1), mask=mask[:, :, None] & own[None, None, :])


@triton.jit
def _by_item(
    start,
    order,
    other,
    worker,
    slopes,
    bends,
    a,
    M,
    v,
    out,
    blocks,
    n_items,
    n_votes,
    voters,
    D: tl.constexpr,
    E: tl.constexpr,
    P: tl.constexpr,
    PRODUCT: tl.constexpr,
    W: tl.constexpr,
    B: tl.constexpr,
):
    """Sum w M_s over the votes of an item: its product with differences of v, or itself and the slopes."""
    item = (tl.program_id(0) * W + tl.arange(0, W)).to(tl.int64)
    real = item < n_items
    begin = tl.load(start + item, mask=real, other=0)
    end = tl.load(start + item + 1, mask=real, other=0)
    p = tl.arange(0, P)
    among = p < D
    square = among[:, None] & among[None, :]
    row_mask = real[:, None] & among[None, :]
    block_mask = real[:, None, None] & square[None, :, :]
    rhs = tl.zeros([W, P], tl.float64)
    whole = tl.zeros([W, P, P], tl.float64)
    if PRODUCT:
        mine = tl.load(v + item[:, None] * D + p[None, :], mask=row_mask, other=0.0)
    for step in range(0, tl.max(end - begin, axis=0), B):
        t = begin[:, None] + step + tl.arange(0, B)[None, :]
        there = t < end[:, None]
        row = tl.load(order + t, mask=there, other=0)
        s = tl.load(worker + t, mask=there, other=0).to(tl.int64)
        turned = row >= n_votes
        row = tl.where(turned, row - n_votes, row)
        bend = tl.load(bends + row, mask=there, other=0.0).to(tl.float64)
        at = (s * (E * E))[:, :, None, None] + (p[:, None] * E + p[None, :])[None, None, :, :]
        inside = there[:, :, None, None] & square[None, None, :, :]
        part = bend[:, :, None, None] * tl.load(M + at, mask=inside, other=0.0)
        known = there[:, :, None] & among[None, None, :]
        if PRODUCT:
            j = tl.load(other + t, mask=there, other=0)
            d = mine[:, None, :] - tl.load(v + (j * D)[:, :, None] + p[None, None, :], mask=known, other=0.0)
            rhs += tl.sum(tl.sum(part * d[:, :, None, :], axis=3), axis=1)
        else:
            whole += tl.sum(part, axis=1)
            slope = tl.load(slopes + row, mask=there, other=0.0).to(tl.float64)
            flow = slope[:, :, None] * tl.load(a + (s * E)[:, :, None] + p[None, None, :], mask=known, other=0.0)
            if E > D:
                side = known & (s < voters)[:, :, None]
                at_side = (s * (E * E) + D)[:, :, None] + (p * E)[None, None, :]
                flow -= bend[:, :, None] * tl.load(M + at_side, mask=side, other=0.0)
            rhs += tl.sum(tl.where(turned[:, :, None], -flow, flow), axis=1)
    tl.store(out + item[:, None] * D + p[None, :], rhs, mask=row_mask)
    if PRODUCT == 0:
        at_block = item[:, None, None] * (D * D) + (p[:, None] * D + p[None, :])[None, :, :]
        tl.store(blocks + at_block, whole, mask=block_mask)


@triton.jit
def _by_residual(
    start,
    order,
    other,
    worker,
    r,
    own,
    signs,
    v,
    total,
    out,
    n_groups,
    n_votes,
    C: tl.constexpr,
    TO_ITEMS: tl.constexpr,
    P: tl.constexpr,
    W: tl.constexpr,
    B: tl.constexpr,
):
    """Sum r (v_one - v_two) by worker, or r total_s - r²/n (v_one - v_two) by item, for every column of v."""
    g = (tl.program_id(0) * W + tl.arange(0, W)).to(tl.int64)
    real = g < n_groups
    begin = tl.load(start + g, mask=real, other=0)
    end = tl.load(start + g + 1, mask=real, other=0)
    c = tl.arange(0, P)
    whole = tl.zeros([W, B, P], tl.float64)
    mine = tl.load(v + (g * C)[:, None] + c[None, :], mask=(real & TO_ITEMS)[:, None] & (c < C)[None, :], other=0.0)
    for step in range(0, tl.max(end - begin, axis=0), B):
        t = begin[:, None] + step + tl.arange(0, B)[None, :]
        there = t < end[:, None]
        known = there[:, :, None] & (c < C)[None, None, :]
        row, turned = t, there & (n_votes < 0)
        if TO_ITEMS:
            row = tl.load(order + t, mask=there, other=0).to(tl.int64)
            turned = row >= n_votes
            row = tl.where(turned, row - n_votes, row)
        s = tl.load(worker + t, mask=there, other=0).to(tl.int64)
        at_worker = (s * C)[:, :, None] + c[None, None, :]
        at_other = (tl.load(other + t, mask=there, other=0).to(tl.int64) * C)[:, :, None] + c[None, None, :]
        by_chance = tl.load(own + row, mask=there, other=0.0)[:, :, None]
        odd = (tl.load(signs + row, mask=there, other=0)[:, :, None] >> tl.maximum(c - 1, 0)[None, None, :]) & 1
        residual = tl.where(odd == 1, -by_chance, by_chance)
        residual = tl.where((c == 0)[None, None, :], tl.load(r + row, mask=there, other=0.0)[:, :, None], residual)
        beyond = tl.load(v + at_other, mask=known, other=0.0)
        if TO_ITEMS:
            flow = residual * tl.load(total + at_worker, mask=known, other=0.0)
            flow = tl.where(turned[:, :, None], -flow, flow)
            whole += flow - by_chance * by_chance * (mine[:, None, :] - beyond)
        else:  # here `worker` has the first items
            whole += residual * (tl.load(v + at_worker, mask=known, other=0.0) - beyond)
    sums = tl.sum(whole, axis=1)
    tl.store(out + (g * C)[:, None] + c[None, :], sums, mask=real[:, None] & (c < C)[None, :])


def _sizes(device: torch.device, rows: int, groups: int, wide: int) -> tuple[int, dict[str, int]]:
    """Return the number of programs, and how many groups and rows each processes at once."""
    few = max(1024 // wide**2, 4)
    # the time of Triton's interpreter grows with the number of operations, not with their size
    if device.type == "cpu":
        W, B = triton.next_power_of_2(min(max(groups, 1), 64)), few
    else:
        W, B = 1, min(max(triton.next_power_of_2(rows // max(groups, 1)), 16), few)
    return triton.cdiv(groups, W), {"P": wide, "W": W, "B": B}


def _shape(x: Tensor, C: Tensor, E: int) -> dict[str, Any]:
    """Return what kernels are compiled for: the dimensions, the weights of a worker, and the kind of covariance."""
    return {"D": x.shape[1], "E": E, "DENSE": C.dim() == 2}


class VoteSlopes(NamedTuple):
    """The value of every vote, and its slope and curvature in z."""

    values: Tensor
    slopes: Tensor
    bends: Tensor


class Groups(NamedTuple):
    """Votes by item (each twice, as of its second item from the number of votes on) or by pair.

    The rows of a group are those of `order` from its entry in `start` on, with the other item and the worker.
    """

    start: Tensor
    order: Tensor
    other: Tensor
    worker: Tensor


class TorchDimensions:
    """`crowdsift.engines.dimensions.Dimensions` on tensors."""

    def __init__(self, votes: VoteTensors, comparisons: Comparisons) -> None:
        self.votes, self._comparisons = votes, comparisons
        self.voters = votes.n_workers - votes.n_gold
        self.everyone = torch.ones(votes.n_workers, dtype=torch.bool, device=votes.device)
        self._weights: dict[int, Tensor] = {int(Part.ALL): votes.n}
        self._items: Groups | None = None
        self._pairs: tuple[Tensor, Groups] | None = None

    def update(
        self,
        positions: Vector,
        covariance: Vector,
        crowd: Crowd,
        weights: Vector,
        second: Vector,
        width: Vector,
        ties: bool,
        part: int,
        caution: float,
    ) -> DimensionUpdate:
        """Update the weights of every worker; see the protocol."""
        number = self.votes.numbers
        x, C, a, M, delta = (number(each) for each in (positions, covariance, weights, second, width))
        there = crowd._replace(mean=number(crowd.mean), precision=number(crowd.precision))
        for _ in range(_INNER):
            at = self.votes_at(_BOUND, x, C, a, M, delta, ties, part, caution)
            value, b, A = self.by_worker(at, x, C, a.shape[1], True)
            a, M, shares, population, evidence = _moments(A, b, there, x.shape[1], self.voters)
        bound = float(value.sum() + evidence)
        system = TorchBlocks(self, x.shape[1], a, M, at)
        weights, second, shares_there = (to_solver(each, a.shape[1]) for each in (a, M, shares))
        rhs = to_solver(system.rhs, x.shape[1])
        return DimensionUpdate(weights, second, shares_there, to_host(population), bound, rhs, system)

    def residuals(
        self, positions: Vector, weights: Vector, width: Vector, taken: Vector, ties: bool, part: int
    ) -> TorchResiduals:
        """Return products of residuals; see the protocol."""
        votes, (K, D) = self.votes, positions.shape
        number = votes.numbers
        x, a, delta = (number(each) for each in (positions, weights, width))
        marked = number(taken) != 0.0
        marked[self.voters :] = False
        at = self.votes_at(_SLOPE, x, x.new_zeros(K, D, D), a, None, delta, ties, part, marked=marked)
        rows = torch.nonzero(at.slopes)[:, 0]
        return TorchResiduals(self, rows, at.slopes.index_select(0, rows))

    def log_probability(
        self,
        positions: Vector,
        covariance: Vector,
        weights: Vector,
        second: Vector,
        width: Vector,
        ties: bool,
        part: int,
    ) -> tuple[float, float]:
        """Return predictions of votes; see the protocol."""
        number = self.votes.numbers
        x, C, a, M, delta = (number(each) for each in (positions, covariance, weights, second, width))
        at, end = self.votes_at(_PREDICTION, x, C, a, M, delta, ties, part), int(self.votes.offsets[self.voters])
        return float(at.values[:end].sum()), float(self.weights(part)[:end].sum(dtype=torch.float64))

    def class_evidence(
        self, positions: Vector, covariance: Vector, crowd: Crowd, weights: Vector, width: Vector, ties: bool
    ) -> Vector:
        """Return the evidence of classes; see the protocol."""
        number, D = self.votes.numbers, positions.shape[1]
        x, C, a, delta = (number(each) for each in (positions, covariance, weights, width))
        mean, precision = number(crowd.mean), number(crowd.precision)
        E = len(mean)
        one_sided = torch.zeros_like(precision)
        one_sided[-1, -1] = crowd.one_sided
        classes = (
            (0, mean * _flip(mean, D), precision),
            (D, mean, precision),
            (0, mean, precision),
            (D, torch.zeros_like(mean), one_sided),
        )

        def at(a: Tensor, marked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            votes = self.votes_at(_SLOPE, x, C, a, None, delta, ties, Part.ALL, marked=marked)
            return self.by_worker(votes, x, C, E, False, marked)

        return to_host(torch.stack([_laplace(at, a, *each) for each in classes[: 4 if E > D else 3]], dim=1))

    def response(
        self, positions: Vector, crowd: Crowd, weights: Vector, shares: Vector, width: Vector, ties: bool, whole: bool
    ) -> Vector:
        """Return the curvature with weights eliminated, from one pass of the compiled core."""
        from crowdsift.engines.cpu import engine

        core = engine(self._comparisons, thread_count(None)).dimensions
        return core.response(positions, crowd, weights, shares, width, ties, whole)

    def votes_at(
        self,
        kind: int,
        x: Tensor,
        C: Tensor,
        a: Tensor,
        M: Tensor | None,
        width: Tensor,
        ties: bool,
        part: int,
        caution: float = 0.0,
        marked: Tensor | None = None,
    ) -> VoteSlopes:
        """Return the value, slope and curvature in z of every vote; 0 of workers who are not marked."""
        votes, count = self.votes, len(self.votes)
        votes.counter.passes += 1
        room = VoteSlopes(a.new_empty(count), *(a.new_empty(count, dtype=torch.float32) for _ in range(2)))
        block = min(triton.next_power_of_2(max(count, 1)), 1 << 20) if votes.device.type == "cpu" else _BLOCK
        of_votes = *votes.columns[:4], self.weights(part), self.everyone if marked is None else marked, width
        numbers = x, C, a, a if M is None else M, *room, count, self.voters, x.numel(), caution
        chosen = {"TIES": ties, "KIND": kind, "SMOOTHING": float(LOGISTIC_SMOOTHING), "B": block}
        _by_vote[(triton.cdiv(count, block),)](*of_votes, *numbers, **_shape(x, C, a.shape[1]), **chosen)
        return room

    def by_worker(
        self, at: VoteSlopes, x: Tensor, C: Tensor, E: int, spread: bool, marked: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return sums of values, gradients and curvatures in the weights of their worker."""
        S = self.votes.n_workers
        sums = x.new_zeros(S), x.new_zeros(S, E), x.new_zeros(S, E, E)
        programs, sizes = _sizes(self.votes.device, len(self.votes), S, triton.next_power_of_2(E))
        marked = self.everyone if marked is None else marked
        given = self.votes.first, self.votes.second, self.votes.offsets, marked, *at, x, C
        counts = S, self.voters, x.numel()
        _by_worker[(programs,)](*given, *sums, *counts, **_shape(x, C, E), SPREAD=spread, **sizes)
        return sums

    def by_item(
        self, groups: Groups, D: int, a: Tensor, M: Tensor, at: VoteSlopes, v: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return sums over the votes of every group: products with v, or the right-hand side and the blocks."""
        count = len(groups.start) - 1
        out = M.new_zeros(count, D)
        blocks = M.new_zeros(count if v is None else 0, D, D)
        programs, sizes = _sizes(self.votes.device, len(groups.order), count, triton.next_power_of_2(D))
        given = *groups, at.slopes, at.bends, a, M, out if v is None else v.contiguous()
        counts = count, len(self.votes), self.voters
        _by_item[(programs,)](*given, out, blocks, *counts, D=D, E=a.shape[1], PRODUCT=v is not None, **sizes)
        return out, blocks

    def items(self) -> Groups:
        """Return the votes of every item, computed once."""
        if self._items is None:
            votes = self.votes
            self._items = _grouped(
                torch.cat([votes.first, votes.second]),
                votes.n_items,
                torch.cat([votes.second, votes.first]),
                torch.cat([votes.worker, votes.worker]),
            )
        return self._items

    def pairs(self) -> tuple[Tensor, Groups]:
        """Return the pairs that are compared, as lower item·items + higher item, and their votes."""
        if self._pairs is None:
            votes = self.votes
            low, high = torch.minimum(votes.first, votes.second), torch.maximum(votes.first, votes.second)
            found, number = torch.unique(low.to(torch.int64) * votes.n_items + high, return_inverse=True)
            self._pairs = found, _grouped(number, len(found), votes.second, votes.worker)
        return self._pairs

    def weights(self, part: int) -> Tensor:
        """Return the weight of every vote in the part."""
        part = int(part)
        if part not in self._weights:
            votes, made = self.votes, []
            for each in votes.parts():
                lot = self.hashed(torch.arange(each.rows.start, each.rows.stop, device=votes.device))
                lot = (((lot >> 32) & 0xFFFFFFFF) % 7 * 4 + (lot & 0xFFFFFFFF)) % 7  # 2³² is 4 modulo 7
                out = torch.floor(each.n / 7.0) + (lot < torch.fmod(each.n, 7.0))
                out = torch.where(each.worker >= self.voters, 0.0, torch.minimum(out, each.n))
                made.append((out if part == Part.LEFT_OUT else each.n - out).to(torch.float32))
            self._weights[part] = torch.cat(made)
        return self._weights[part]

    def hashed(self, rows: Tensor, salt: int = 0) -> Tensor:
        """Return a hash of every row, in 64 bits."""
        votes = self.votes
        first, second, worker = (each[rows].to(torch.int64) for each in (votes.first, votes.second, votes.worker))
        h = first * (0x9E3779B97F4A7C15 - 2**64) ^ second * (0xC2B2AE3D27D4EB4F - 2**64)
        h = h ^ (rows - votes.offsets[worker]) * 0x165667B19E3779F9 ^ salt
        h = (h ^ (h >> 29 & 2**35 - 1)) * (0xBF58476D1CE4E5B9 - 2**64)
        found: Tensor = h ^ (h >> 32 & 2**32 - 1)
        return found


def _starts(keys: Tensor, count: int) -> Tensor:
    """Return the first row of each key if rows are sorted by key, and the end of the last."""
    start = torch.zeros(count + 1, dtype=torch.int64, device=keys.device)
    torch.cumsum(torch.bincount(keys, minlength=count), 0, out=start[1:])
    return start


def _grouped(keys: Tensor, count: int, other: Tensor, worker: Tensor) -> Groups:
    """Return rows grouped by key, in their original order within each group."""
    order = torch.argsort(keys, stable=True)
    return Groups(_starts(keys, count), order.to(torch.int32), other[order], worker[order])


def _flip(mean: Tensor, D: int) -> Tensor:
    """Return -1 for dimensions and 1 for a side."""
    return torch.where(torch.arange(len(mean), device=mean.device) < D, -1.0, 1.0).to(mean.dtype)


def _inverted(H: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inverses of small positive definite matrices, and their log-determinants."""
    V, log_determinant = H.clone(), torch.zeros_like(H[:, 0, 0]) if H.shape[1] else H.new_zeros(len(H))
    for k in range(H.shape[1]):
        pivot, row, column = V[:, k, k].clone(), V[:, k].clone(), V[:, :, k].clone()
        V = V - column[:, :, None] * (row / pivot[:, None])[:, None, :]
        V[:, k], V[:, :, k] = row / pivot[:, None], -column / pivot[:, None]
        V[:, k, k] = 1.0 / pivot
        log_determinant = log_determinant + torch.log(pivot)
    return V, log_determinant


def _posterior(A: Tensor, b: Tensor, free: slice, mean: Tensor, P: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log evidence, mean and second moments of weights; those outside `free` are 0."""
    m, M = torch.zeros_like(b), torch.zeros_like(A)
    P, mean = P[free, free], mean[free]
    V, log_determinant = _inverted(P + A[:, free, free])
    h = b[:, free] + P @ mean
    m[:, free] = (V * h[:, None, :]).sum(2)
    M[:, free, free] = V + m[:, free, None] * m[:, None, free]
    log_prior = _inverted(P[None])[1]
    return 0.5 * (log_prior - log_determinant + (h * m[:, free]).sum(1) - (mean * (P @ mean)).sum()), m, M


def _moments(A: Tensor, b: Tensor, crowd: Any, D: int, voters: int) -> tuple[Tensor, ...]:
    """Return weights, second moments and shares of workers, sums over the population, and the evidence."""
    (S, E), flip = b.shape, _flip(crowd.mean, D)
    one_sided = torch.zeros_like(crowd.precision)
    one_sided[-1, -1] = crowd.one_sided
    kinds = [
        (slice(E), crowd.mean, crowd.precision),
        (slice(E), crowd.mean * flip, crowd.precision),
        (slice(D, E), crowd.mean, crowd.precision),
        (slice(D, E), torch.zeros_like(crowd.mean), one_sided),
    ][: 4 if E > D else 3]
    classes = [_posterior(A[:voters], b[:voters], *kind) for kind in kinds]
    logs = torch.stack([each[0] for each in classes], 1) + A.new_tensor(np.asarray(crowd.log_shares)[: len(kinds)])
    q = torch.softmax(logs, 1)
    shares = torch.zeros((S, 4), dtype=A.dtype, device=A.device)
    shares[:voters, : len(kinds)], shares[voters:, 0] = q, 1.0
    gold = torch.eye(E, dtype=A.dtype, device=A.device) * crowd.gold
    log_gold, m, M = _posterior(A[voters:], b[voters:], slice(D), torch.zeros_like(crowd.mean), gold)
    weights = torch.cat([sum(q[:, k, None] * each[1] for k, each in enumerate(classes)), m])
    second = torch.cat([sum(q[:, k, None, None] * each[2] for k, each in enumerate(classes)), M])
    of_all, first, squares = q.new_zeros(4), q.new_zeros(E), q.new_zeros(E, E)
    of_all[: len(kinds)] = q.sum(0)
    for k, turn in ((0, torch.ones_like(flip)), (1, flip)):
        first += turn * (q[:, k, None] * classes[k][1]).sum(0)
        squares += turn[:, None] * turn * (q[:, k, None, None] * classes[k][2]).sum(0)
    evidence = torch.logsumexp(logs, 1).sum() + log_gold.sum()
    return weights, second, shares, torch.cat([of_all, first, squares.ravel()]), evidence


def _laplace(votes_at: Any, start: Tensor, begin: int, mean: Tensor, P: Tensor) -> Tensor:
    """Return log mean likelihoods over weights N(mean, P⁻¹) by Laplace; weights before `begin` are 0."""
    a = start.clone()
    a[:, :begin] = 0.0
    P, mean = P[begin:, begin:], mean[begin:]
    best, step, log_determinant = a.clone(), torch.zeros_like(a[:, begin:]), torch.zeros_like(a[:, 0])
    top = torch.full_like(log_determinant, -1e300)
    searching = torch.ones_like(top, dtype=torch.bool)
    for _ in range(_NEWTON_STEPS):
        (value, gradient, curvature), off = votes_at(a, searching), a[:, begin:] - mean
        value = value - 0.5 * (off * (off @ P)).sum(1)
        V, log_det = _inverted(curvature[:, begin:, begin:] + P)
        newton = (V * (gradient[:, begin:] - off @ P)[:, None, :]).sum(2)
        gain, better = value - top, searching & (value > top)
        top, log_determinant = torch.where(better, value, top), torch.where(better, log_det, log_determinant)
        best = torch.where(better[:, None], a, best)
        step = torch.where(better[:, None], newton, 0.5 * step)
        searching = searching & (gain.abs() >= _SETTLED)
        if not bool(searching.any()):
            break
        a = best.clone()
        a[:, begin:] += step
    return top + 0.5 * (_inverted(P[None])[1] - log_determinant)


class TorchBlocks(TorchOperator):
    """The matrix over items and dimensions that a pass returns."""

    def __init__(self, passes: TorchDimensions, D: int, a: Tensor, M: Tensor, at: VoteSlopes) -> None:
        super().__init__(passes.votes.device)
        self._passes, self._of = passes, (D, a, M, at)
        self.rhs, self._diagonal = passes.by_item(passes.items(), *self._of)

    def product(self, v: Tensor) -> Tensor:
        self._passes.votes.counter.passes += 1
        return self._passes.by_item(self._passes.items(), *self._of, v)[0]

    def diagonal_there(self) -> Tensor:
        return self._diagonal

    def diagonal(self) -> Vector:
        return to_solver(self._diagonal, self.rhs.shape[1])

    def pairs(self) -> WeightedPairs:
        """Return a D x D block per pair; see the protocol."""
        found, groups = self._passes.pairs()
        low, high = divmod(found.cpu().numpy(), self._passes.votes.n_items)
        blocks = self._passes.by_item(groups, *self._of)[1]
        return WeightedPairs(low.astype(np.uint32), high.astype(np.uint32), to_host(blocks))


class TorchResiduals(TorchOperator):
    """Products of the residuals of votes; votes without a residual are left out."""

    def __init__(self, passes: TorchDimensions, rows: Tensor, r: Tensor) -> None:
        super().__init__(passes.votes.device)
        votes = passes.votes
        first, second, worker = (each.index_select(0, rows) for each in (votes.first, votes.second, votes.worker))
        self._ends, self._count = torch.cat([first, second]), len(rows)
        self._workers = Groups(_starts(worker, votes.n_workers), rows, second, first)
        others, workers = torch.cat([second, first]), torch.cat([worker, worker])
        self._items = _grouped(self._ends, votes.n_items, others, workers)
        own = r.to(torch.float64) * votes.n.index_select(0, rows).to(torch.float64).clamp(min=1.0).rsqrt()
        self._residuals = r.to(torch.float64), own, passes.hashed(rows, _SIGNS)

    def product(self, v: Tensor) -> Tensor:
        v = v.contiguous()
        return self._sums(self._items, v, self._sums(self._workers, v, None))

    def _sums(self, groups: Groups, v: Tensor, total: Tensor | None) -> Tensor:
        """Return sums by worker of residuals times differences of v, or what the items receive from these sums."""
        out = v.new_empty(len(groups.start) - 1, v.shape[1])
        programs, sizes = _sizes(v.device, self._count, len(out), 4)
        sizes["P"] = triton.next_power_of_2(v.shape[1])
        given = v, v if total is None else total, out
        _by_residual[(programs,)](
            *groups, *self._residuals, *given, len(out), self._count, C=v.shape[1], TO_ITEMS=total is not None, **sizes
        )
        return out

    def diagonal(self) -> Vector:
        return to_solver(self.diagonal_there(), _COLUMNS)

    def diagonal_there(self) -> Tensor:
        square = self._residuals[1] ** 2
        n_items = len(self._items.start) - 1
        return exact_sum(self._ends, torch.cat([square, square]), n_items, int(self._items.start.diff().max()))
