"""Triton kernels of the grid passes: types in registers, one program some votes of one worker.

They compute what `moments.PlainPasses` does, in single precision; sums over a worker's votes are in
double precision from one block of votes to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from crowdsift.engines.grid import LEAST_DENOMINATOR
from crowdsift.engines.torch.moments import NewSites
from crowdsift.engines.torch.sums import exact_sum
from crowdsift.numeric.likelihoods import PROBIT_SMOOTHING

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.moments import SiteState
    from crowdsift.engines.torch.rows import SiteRows
    from crowdsift.engines.torch.types import TypeState

__all__ = ["TritonPasses"]

_TYPES = 64  # types that a program holds in registers at once, at most
_TILE = 2048  # numbers, one a vote and type, that it computes at once


@triton.jit
def _reliabilities(t, inside, worker, half, low, high, levels, place):
    """β of types: of the worker's own grid where it has one, else of the common grid."""
    at = tl.load(place + t, mask=inside, other=0)
    size = tl.abs(at)
    lo, hi = tl.load(low + worker), tl.load(high + worker)
    own = lo + (size - 1).to(tl.float32) * ((hi - lo) / tl.maximum(half - 1, 1))
    common = tl.load(levels + size - 1, mask=inside & (size > 0), other=0.0)
    level = tl.where(lo == lo, own, common)
    level = tl.where(size > 0, level, 0.0)
    return tl.where(at < 0, -level, level)


@triton.jit
def _halves(x):
    """σ(x), σ(-x) and log(1 + e^-|x|)."""
    small = tl.exp(-tl.abs(x))
    big = 1.0 / (1.0 + small)
    less = small * big
    return tl.where(x >= 0.0, big, less), tl.where(x >= 0.0, less, big), tl.log(1.0 + small)


@triton.jit
def _log_expm1(x):
    """log(e^x - 1) for x > 0."""
    series = x * (1.0 - x * (0.5 - x * (0.16666667 - x * (0.041666667 - x * 0.0083333333))))
    return x + tl.log(tl.where(x < 0.25, series, 1.0 - tl.exp(-x)))


@triton.jit
def _cavity(E, V, tau, nu, LEAST: tl.constexpr):
    """Mean and variance without one site, in double precision, and the site's log-normaliser."""
    rest = tl.maximum(1.0 - tau * V, LEAST)
    log_site = 0.5 * tl.log(rest) + 0.5 * (2.0 * E * nu - tau * E * E - V * nu * nu) / rest
    return (E - V * nu) / rest, V / rest, log_site


@triton.jit
def _loaded(i, good, pair, sign, mean, variance, tau, nu, LEAST: tl.constexpr):
    """Cavities of votes, winner less loser, and log-normalisers of their sites."""
    place = tl.load(pair + i, mask=good, other=0)
    E = tl.load(mean + place, mask=good, other=0.0).to(tl.float64)
    E = E * tl.load(sign + i, mask=good, other=0).to(tl.float64)
    V = tl.load(variance + place, mask=good, other=1.0).to(tl.float64)
    A = tl.load(tau + i, mask=good, other=0.0).to(tl.float64)
    return _cavity(E, V, A, tl.load(nu + i, mask=good, other=0.0).to(tl.float64), LEAST)


@triton.jit
def _side_loaded(i, good, x, worker, centre, spread, tau, nu, LEAST: tl.constexpr):
    """Cavities of γ; the mean has the sign of the side, both are 0 for gold."""
    E, V = tl.load(centre + worker), tl.load(spread + worker)
    A = tl.load(tau + i, mask=good, other=0.0).to(tl.float64)
    h = tl.load(nu + i, mask=good, other=0.0).to(tl.float64)
    m, v, _ = _cavity(E, V, A, h, LEAST)
    return x * m, tl.abs(x) * v


@triton.jit
def _moved(old, target, damping, moving):
    """A site, so much of the way to a new one, where it moves."""
    was = old.to(tl.float64)
    return tl.where(moving, was + damping * (target - was), was).to(tl.float32)


@triton.jit
def _messages(
    chunk_worker, chunk_begin, chunk_end, pair, sign, kind, n, mean, variance, tau, nu, centre,
    spread, side_tau, side_nu, marked, low, high, levels, place, width, only, regular, out, logs,
    n_types, half, crowd, C: tl.constexpr, LEAST: tl.constexpr, TIES: tl.constexpr,
    SIDES: tl.constexpr, ONLY: tl.constexpr, V: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Σ n·log Z over the votes of a chunk, for a tile of types, and Σ n·log Z̃ of their sites."""
    chunk, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    t = tile * T + tl.arange(0, T)
    inside = t < n_types
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk), tl.load(chunk_end + chunk)
    beta = _reliabilities(t, inside, worker, half, low, high, levels, place)[None, :]
    share = tl.load(regular + t, mask=inside, other=0.0)[None, :]
    bias = tl.load(only + t, mask=inside, other=0.0)[None, :]
    delta = tl.load(width + t, mask=inside, other=0.0)[None, :]
    total, log_sites = tl.zeros([T], tl.float64), tl.zeros([V], tl.float64)
    for at in range(begin, end, V):
        i = at + tl.arange(0, V)
        good = i < end
        m, v, log_site = _loaded(i, good, pair, sign, mean, variance, tau, nu, LEAST)
        vote = tl.load(kind + i, mask=good, other=1)
        weight = tl.load(n + i, mask=good, other=0.0)
        log_sites += tl.where(good, weight.to(tl.float64) * log_site, 0.0)
        vary = beta * beta * v.to(tl.float32)[:, None]
        z = beta * m.to(tl.float32)[:, None]
        x = tl.where(worker < crowd, tl.where(vote == -1, -1.0, 1.0), 0.0)
        if SIDES:
            ms, vs = _side_loaded(i, good, x, worker, centre, spread, side_tau, side_nu, LEAST)
            vary += share * vs.to(tl.float32)[:, None]
            z += share * ms.to(tl.float32)[:, None]
        if ONLY:
            z += bias * x[:, None]
        k = tl.rsqrt(1.0 + C * vary)
        up = k * (z - delta)
        _, _, tail = _halves(up)
        log_z = tl.minimum(up, 0.0) - tail
        if TIES:
            down = -k * (z + delta)
            _, _, rest = _halves(down)
            log_tie = _log_expm1(tl.maximum(2.0 * k * delta, 1e-30))
            log_tie += log_z + tl.minimum(down, 0.0) - rest
            log_z = tl.where((vote == 2)[:, None], log_tie, log_z)
        total += tl.sum(weight[:, None] * log_z, axis=0).to(tl.float64)
    tl.store(out + chunk * n_types + t, total, mask=inside)
    if tile == 0:
        tl.store(logs + chunk, tl.sum(log_sites, axis=0) * tl.load(marked + worker))


@triton.jit
def _moments(
    worker, vote, x, m, v, ms, vs, low, high, levels, place, width, only, regular, q, given,
    n_types, half, C: tl.constexpr, TIES: tl.constexpr, SIDES: tl.constexpr, ONLY: tl.constexpr,
    V: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Σ q e βk and Σ q f (βk)² of votes over all types, and the same of the side with k."""
    row = worker.to(tl.int64) * n_types
    first, second = tl.zeros([V], tl.float32), tl.zeros([V], tl.float32)
    side_first, side_second = tl.zeros([V], tl.float32), tl.zeros([V], tl.float32)
    for start in range(0, n_types, T):
        t = start + tl.arange(0, T)
        inside = t < n_types
        beta = _reliabilities(t, inside, worker, half, low, high, levels, place)[None, :]
        delta = tl.load(width + t, mask=inside, other=0.0)[None, :]
        mass = tl.load(q + row + t, mask=inside, other=0.0)[None, :]
        vary = beta * beta * v
        z = beta * m
        if SIDES:
            share = tl.load(regular + t, mask=inside, other=0.0)[None, :]
            vary += share * vs
            z += share * ms
        if ONLY:
            z += tl.load(only + t, mask=inside, other=0.0)[None, :] * x[:, None]
        k = tl.rsqrt(1.0 + C * vary)
        p1, e, _ = _halves(k * (z - delta))
        f = e * (e - p1)
        if TIES:
            p2, q2, _ = _halves(-k * (z + delta))
            e_tie = p2 - p1
            f_tie = e_tie * e_tie - p1 * e - p2 * q2
            tie = (vote == 2)[:, None]
            e, f = tl.where(tie, e_tie, e), tl.where(tie, f_tie, f)
        slope = beta * k
        first += tl.sum(mass * e * slope, axis=1)
        second += tl.sum(mass * f * slope * slope, axis=1)
        if SIDES:
            among = tl.load(given + row + t, mask=inside, other=0.0)[None, :]
            side_first += tl.sum(among * e * k, axis=1)
            side_second += tl.sum(among * f * k * k, axis=1)
    return first, second, side_first, side_second


@triton.jit
def _move(
    chunk_worker, chunk_begin, chunk_end, pair, sign, kind, mean, variance, tau, nu, centre,
    spread, side_tau, side_nu, marked, low, high, levels, place, width, only, regular, q, given,
    new_tau, new_nu, new_side_tau, new_side_nu, damping, n_types, half, crowd,
    C: tl.constexpr, LEAST: tl.constexpr, TIES: tl.constexpr, SIDES: tl.constexpr,
    ONLY: tl.constexpr, V: tl.constexpr, T: tl.constexpr, CLIP: tl.constexpr,
):  # fmt: skip
    """New sites of the votes of a chunk: moments over all types, then damped."""
    chunk = tl.program_id(0).to(tl.int64)
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk), tl.load(chunk_end + chunk)
    moving, part = tl.load(marked + worker) > 0.0, tl.load(damping)
    for at in range(begin, end, V):
        i = at + tl.arange(0, V)
        good = i < end
        m, v, _ = _loaded(i, good, pair, sign, mean, variance, tau, nu, LEAST)
        vote = tl.load(kind + i, mask=good, other=1)
        x = tl.where(worker < crowd, tl.where(vote == -1, -1.0, 1.0), 0.0)
        ms, vs = m, v
        if SIDES:
            ms, vs = _side_loaded(i, good, x, worker, centre, spread, side_tau, side_nu, LEAST)
        first, second, side_first, side_second = _moments(
            worker, vote, x, m.to(tl.float32)[:, None], v.to(tl.float32)[:, None],
            ms.to(tl.float32)[:, None], vs.to(tl.float32)[:, None], low, high, levels, place,
            width, only, regular, q, given, n_types, half, C, TIES, SIDES, ONLY, V, T,
        )  # fmt: skip
        alpha = first.to(tl.float64)
        kappa = alpha * alpha - second.to(tl.float64)
        if CLIP:
            kappa = tl.maximum(kappa, 0.0)
        bottom = tl.maximum(1.0 - kappa * v, LEAST)
        old_tau = tl.load(tau + i, mask=good, other=0.0)
        old_nu = tl.load(nu + i, mask=good, other=0.0)
        tl.store(new_tau + i, _moved(old_tau, kappa / bottom, part, moving), mask=good)
        target = (alpha + kappa * m) / bottom
        tl.store(new_nu + i, _moved(old_nu, target, part, moving), mask=good)
        if SIDES:
            alpha = x * side_first.to(tl.float64)
            kappa = tl.maximum(tl.abs(x) * (alpha * alpha - side_second.to(tl.float64)), 0.0)
            bottom = tl.maximum(1.0 - kappa * vs, LEAST)
            old_tau = tl.load(side_tau + i, mask=good, other=0.0)
            old_nu = tl.load(side_nu + i, mask=good, other=0.0)
            tl.store(new_side_tau + i, _moved(old_tau, kappa / bottom, part, moving), mask=good)
            target = (alpha + kappa * (x * ms)) / bottom
            tl.store(new_side_nu + i, _moved(old_nu, target, part, moving), mask=good)


class TritonPasses:
    """`moments.PlainPasses` by kernels."""

    def __init__(self, rows: SiteRows, types: TypeState, crowd: int) -> None:
        self._rows, self._types, self._chunks = rows, types, rows.chunks()
        points, half, device = types.points(), len(types.levels), rows.device
        single = [x.to(torch.float32) for x in (points.width, points.side_only, points.regular)]
        place = torch.arange(-half, half + 1, dtype=torch.int32, device=device)
        none = torch.zeros(len(types.shape.side_only), dtype=torch.int32, device=device)
        place = torch.cat([place.repeat(len(types.shape.widths)), none])
        ends = types.low.to(torch.float32), types.high.to(torch.float32)
        self._grid = (*ends, types.levels.to(torch.float32), place, *single)
        self._sizes = (types.n_types(), half, crowd)
        wide = min(_TYPES, triton.next_power_of_2(types.n_types()))
        self._flags: dict[str, Any] = {
            "C": float(PROBIT_SMOOTHING), "LEAST": LEAST_DENOMINATOR, "TIES": types.shape.ties,
            "SIDES": types.shape.sides, "ONLY": len(types.shape.side_only) > 0,
            "V": _TILE // wide, "T": wide,
        }  # fmt: skip

    def messages(self, state: SiteState, marked: Tensor) -> tuple[Tensor, Tensor]:
        """Σ n·log Z of every worker and type, and Σ n·log Z̃ over the votes of marked workers."""
        rows, chunks, types = self._rows, self._chunks, self._sizes[0]
        count, workers = len(chunks.worker), rows.votes.n_workers
        out = torch.zeros((count, types), dtype=torch.float64, device=rows.device)
        logs = torch.zeros(count, dtype=torch.float64, device=rows.device)
        if count:
            _messages[(count, triton.cdiv(types, self._flags["T"]))](
                *chunks[:3], rows.pair, rows.sign, rows.kind, rows.n, *_tensors(state),
                marked.to(torch.float64), *self._grid, out, logs, *self._sizes, **self._flags,
            )  # fmt: skip
        if chunks.most > 1:
            return exact_sum(chunks.worker, out, workers, chunks.most), logs.sum()
        whole = torch.zeros((workers, types), dtype=torch.float64, device=rows.device)
        return whole.index_copy_(0, chunks.worker.to(torch.int64), out), logs.sum()

    def move(
        self, state: SiteState, q: Tensor, given: Tensor | None, marked: Tensor, damping: float,
        clip: bool,
    ) -> NewSites:  # fmt: skip
        """The sites of marked workers, `damping` of the way to those of the moments."""
        rows, chunks = self._rows, self._chunks
        old = state.tau, state.nu, state.side_tau, state.side_nu
        new = NewSites(*(torch.empty_like(x) for x in old))
        mass = q.to(torch.float32)
        share = torch.full((1,), damping, dtype=torch.float64, device=rows.device)  # not rounded
        among = mass if given is None else given.to(torch.float32)
        if len(chunks.worker):
            _move[(len(chunks.worker),)](
                *chunks[:3], rows.pair, rows.sign, rows.kind, *_tensors(state),
                marked.to(torch.float64), *self._grid, mass, among, *new, share, *self._sizes,
                **self._flags, CLIP=clip,
            )  # fmt: skip
        return new


def _tensors(state: SiteState) -> tuple[Tensor, ...]:
    """What kernels take of a state; where there are no sides, anything for them."""
    centre, spread = (state.tau, state.tau) if state.sides is None else state.sides
    sites = (state.tau, state.nu, centre, spread, state.side_tau, state.side_nu)
    return (state.mean, state.variance, *sites)
