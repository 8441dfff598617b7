"""Triton kernels of the grid passes: types in registers, one program some votes of one worker.

Values per vote are in double precision, values per vote and type in single precision; sums of the latter over the
blocks of a worker's votes are in double precision. The two have separate kernels: in one kernel every thread with types
of a vote would compute the vote's cavity again.

The `_reliability_` kernels are for models in which a type has only a reliability. Grids are symmetric, and
with neither ties nor sides a type -β has the probabilities of β with win and loss exchanged: one exponential serves
both, and a program processes half of the types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import triton
import triton.language as tl

from crowdsift.engines.grid import LEAST_DENOMINATOR
from crowdsift.engines.torch.rows import SiteRows
from crowdsift.engines.torch.types import TypeState
from crowdsift.numeric.likelihoods import LOGISTIC_SMOOTHING

if TYPE_CHECKING:
    from torch import Tensor

_TYPES = 64  # most types that a program holds in registers
_BLOCK = 512  # votes per program of kernels without types
_LEAST = float(LEAST_DENOMINATOR)


class SiteState(NamedTuple):
    """The input of a pass: E and V of every pair, the sites, and γ of every worker.

    `sides` holds mean and variance of γ. If sides are not used it is None, and their sites empty.
    """

    mean: Tensor
    variance: Tensor
    tau: Tensor
    nu: Tensor
    side_tau: Tensor
    side_nu: Tensor
    sides: tuple[Tensor, Tensor] | None


class NewSites(NamedTuple):
    """The sites after a pass."""

    tau: Tensor
    nu: Tensor
    side_tau: Tensor
    side_nu: Tensor


@triton.jit
def _reliabilities(t, inside, worker, half, low, high, levels, place):
    """Return β of types, on the worker's adaptive grid if it has one, else on the common grid."""
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
    """Return σ(x) and σ(-x)."""
    small = tl.exp(-tl.abs(x))
    big = 1.0 / (1.0 + small)
    less = small * big
    return tl.where(x >= 0.0, big, less), tl.where(x >= 0.0, less, big)


@triton.jit
def _log_sigmoid(x):
    """Return log σ(x)."""
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _log_expm1(x):
    """Return log(e^x - 1) for x > 0."""
    series = x * (1.0 - x * (0.5 - x * (0.16666667 - x * (0.041666667 - x * 0.0083333333))))
    return x + tl.log(tl.where(x < 0.25, series, 1.0 - tl.exp(-x)))


@triton.jit
def _cavity(E, V, tau, nu, LEAST: tl.constexpr):
    """Return mean and variance without one site."""
    rest = tl.maximum(1.0 - tau * V, LEAST)
    return (E - V * nu) / rest, V / rest


@triton.jit
def _log_site(E, V, tau, nu, LEAST: tl.constexpr):
    """Return the log-normaliser of a site."""
    rest = tl.maximum(1.0 - tau * V, LEAST)
    return 0.5 * tl.log(rest) + 0.5 * (2.0 * E * nu - tau * E * E - V * nu * nu) / rest


@triton.jit
def _difference(i, good, pair, sign, posterior):
    """Load E and V of the differences of votes; `posterior` has E and V of every pair in turn."""
    place = 2 * tl.load(pair + i, mask=good, other=0).to(tl.int64)
    E = tl.load(posterior + place, mask=good, other=0.0).to(tl.float64)
    E *= tl.load(sign + i, mask=good, other=1).to(tl.float64)
    return E, tl.load(posterior + place + 1, mask=good, other=0.0).to(tl.float64)


@triton.jit
def _site(i, good, tau, nu):
    """Load the site of every vote in double precision."""
    t = tl.load(tau + i, mask=good, other=0.0).to(tl.float64)
    return t, tl.load(nu + i, mask=good, other=0.0).to(tl.float64)


@triton.jit
def _sign_of_side(i, good, worker, kind, before_gold):
    """Return +1 if the winner stood first, -1 if second, 0 for gold."""
    x = tl.where(tl.load(kind + i, mask=good, other=1) == -1, -1.0, 1.0)
    return tl.where(worker < before_gold, x, 0.0).to(tl.float64)


@triton.jit
def _bias(i, good, who, side_mean, side_variance, side_tau, side_nu, LEAST: tl.constexpr):
    """Return mean and variance of the cavity of γ."""
    t, h = _site(i, good, side_tau, side_nu)
    centre = tl.load(side_mean + who, mask=good, other=0.0)
    return _cavity(centre, tl.load(side_variance + who, mask=good, other=1.0), t, h, LEAST)


@triton.jit
def _moved(old_tau, old_nu, alpha, kappa, m, v, damping, LEAST: tl.constexpr):
    """Return a site moved by the share `damping` towards the site that has the given moments."""
    bottom = tl.maximum(1.0 - kappa * v, LEAST)
    tau = old_tau + damping * (kappa / bottom - old_tau)
    return tau, old_nu + damping * ((alpha + kappa * m) / bottom - old_nu)


@triton.jit
def _cavities(
    worker,
    n,
    kind,
    pair,
    sign,
    posterior,
    tau,
    nu,
    side_mean,
    side_variance,
    side_tau,
    side_nu,
    marked,
    mean,
    variance,
    bias,
    bias_variance,
    logs,
    count,
    before_gold,
    FAMILY: tl.constexpr,
    LEAST: tl.constexpr,
    B: tl.constexpr,
):
    """Compute cavities of votes in single precision, with γ's signed by the side, and Σ n·log Z̃."""
    block = tl.program_id(0)
    i = block.to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    who = tl.load(worker + i, mask=good, other=0)
    E, V = _difference(i, good, pair, sign, posterior)
    t, h = _site(i, good, tau, nu)
    m, v = _cavity(E, V, t, h, LEAST)
    tl.store(mean + i, m.to(tl.float32), mask=good)
    tl.store(variance + i, v.to(tl.float32), mask=good)
    weight = tl.load(n + i, mask=good, other=0.0).to(tl.float64)
    weight *= tl.load(marked + who, mask=good, other=0).to(tl.float64)
    tl.store(logs + block, tl.sum(weight * _log_site(E, V, t, h, LEAST), axis=0))
    if FAMILY:
        x = _sign_of_side(i, good, who, kind, before_gold)
        g, w = _bias(i, good, who, side_mean, side_variance, side_tau, side_nu, LEAST)
        tl.store(bias + i, (x * g).to(tl.float32), mask=good)
        tl.store(bias_variance + i, (tl.abs(x) * w).to(tl.float32), mask=good)


@triton.jit
def _update(
    worker,
    kind,
    pair,
    sign,
    posterior,
    tau,
    nu,
    side_mean,
    side_variance,
    side_tau,
    side_nu,
    marked,
    damping_at,
    new_tau,
    new_nu,
    new_side_tau,
    new_side_nu,
    count,
    before_gold,
    CLIP: tl.constexpr,
    FAMILY: tl.constexpr,
    LEAST: tl.constexpr,
    B: tl.constexpr,
):
    """Compute new sites from the first and second moments of log Z."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    who = tl.load(worker + i, mask=good, other=0)
    damping = tl.load(damping_at) * tl.load(marked + who, mask=good, other=0).to(tl.float64)
    E, V = _difference(i, good, pair, sign, posterior)
    t, h = _site(i, good, tau, nu)
    m, v = _cavity(E, V, t, h, LEAST)
    alpha, second = _site(i, good, new_tau, new_nu)
    kappa = alpha * alpha - second
    if CLIP:
        kappa = tl.maximum(kappa, 0.0)
    one, two = _moved(t, h, alpha, kappa, m, v, damping, LEAST)
    tl.store(new_tau + i, one.to(tl.float32), mask=good)
    tl.store(new_nu + i, two.to(tl.float32), mask=good)
    if FAMILY:
        x = _sign_of_side(i, good, who, kind, before_gold)
        g, w = _bias(i, good, who, side_mean, side_variance, side_tau, side_nu, LEAST)
        first, second = _site(i, good, new_side_tau, new_side_nu)
        alpha = x * first
        kappa = tl.maximum(tl.abs(x) * (alpha * alpha - second), 0.0)
        t, h = _site(i, good, side_tau, side_nu)
        one, two = _moved(t, h, alpha, kappa, tl.abs(x) * g, tl.abs(x) * w, damping, LEAST)
        tl.store(new_side_tau + i, one.to(tl.float32), mask=good)
        tl.store(new_side_nu + i, two.to(tl.float32), mask=good)


@triton.jit
def _messages(
    chunk_worker,
    chunk_begin,
    chunk_end,
    n,
    kind,
    mean,
    variance,
    side_mean,
    side_variance,
    low,
    high,
    levels,
    place,
    width,
    only,
    regular,
    out,
    n_types,
    half,
    before_gold,
    C: tl.constexpr,
    TIES: tl.constexpr,
    SIDES: tl.constexpr,
    FAMILY: tl.constexpr,
    V: tl.constexpr,
    T: tl.constexpr,
):
    """Compute Σ n·log Z over the votes of a chunk, for a tile of types."""
    chunk = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1) * T + tl.arange(0, T)
    inside = t < n_types
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk), tl.load(chunk_end + chunk)
    beta = _reliabilities(t, inside, worker, half, low, high, levels, place)[None, :]
    share = tl.load(regular + t, mask=inside, other=0.0)[None, :]
    bias = tl.load(only + t, mask=inside, other=0.0)[None, :]
    delta = tl.load(width + t, mask=inside, other=0.0)[None, :]
    total = tl.zeros([T], tl.float64)
    for at in range(begin, end, V):
        i = at + tl.arange(0, V)
        good = i < end
        votes = tl.load(n + i, mask=good, other=0.0)
        m = tl.load(mean + i, mask=good, other=0.0)[:, None]
        v = tl.load(variance + i, mask=good, other=0.0)[:, None]
        spread, z = beta * beta * v, beta * m
        if SIDES:
            x = _sign_of_side(i, good, worker, kind, before_gold).to(tl.float32)[:, None]
            if FAMILY:
                spread += share * tl.load(side_variance + i, mask=good, other=0.0)[:, None]
                z += share * tl.load(side_mean + i, mask=good, other=0.0)[:, None]
            z += bias * x
        k = tl.rsqrt(1.0 + C * spread)
        log_z = _log_sigmoid(k * (z - delta))
        if TIES:
            tie = tl.load(kind + i, mask=good, other=0)[:, None] == 2
            log_tie = _log_expm1(tl.maximum(2.0 * k * delta, 1e-30))
            log_tie += log_z + _log_sigmoid(-k * (z + delta))
            log_z = tl.where(tie, log_tie, log_z)
        total += tl.sum(votes[:, None] * log_z, axis=0).to(tl.float64)
    tl.store(out + chunk * n_types + t, total, mask=inside)


@triton.jit
def _moments(
    chunk_worker,
    chunk_begin,
    chunk_end,
    kind,
    mean,
    variance,
    side_mean,
    side_variance,
    low,
    high,
    levels,
    place,
    width,
    only,
    regular,
    q,
    given,
    alpha,
    second_out,
    side_alpha,
    side_second_out,
    n_types,
    half,
    before_gold,
    C: tl.constexpr,
    TIES: tl.constexpr,
    SIDES: tl.constexpr,
    FAMILY: tl.constexpr,
    V: tl.constexpr,
    T: tl.constexpr,
):
    """Compute Σ q e βk and Σ q f (βk)² over all types for the votes of a chunk, and the same of the side."""
    chunk = tl.program_id(0).to(tl.int64)
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk), tl.load(chunk_end + chunk)
    row = worker.to(tl.int64) * n_types
    for at in range(begin, end, V):
        i = at + tl.arange(0, V)
        good = i < end
        m = tl.load(mean + i, mask=good, other=0.0)[:, None]
        v = tl.load(variance + i, mask=good, other=0.0)[:, None]
        first, second = tl.zeros([V], tl.float32), tl.zeros([V], tl.float32)
        if SIDES:
            x = _sign_of_side(i, good, worker, kind, before_gold).to(tl.float32)[:, None]
            side_first, side_second = tl.zeros([V], tl.float32), tl.zeros([V], tl.float32)
        for start in range(0, n_types, T):
            t = start + tl.arange(0, T)
            inside = t < n_types
            beta = _reliabilities(t, inside, worker, half, low, high, levels, place)[None, :]
            delta = tl.load(width + t, mask=inside, other=0.0)[None, :]
            mass = tl.load(q + row + t, mask=inside, other=0.0)[None, :]
            spread, z = beta * beta * v, beta * m
            if SIDES:
                share = tl.load(regular + t, mask=inside, other=0.0)[None, :]
                bias = tl.load(only + t, mask=inside, other=0.0)[None, :]
                if FAMILY:
                    spread += share * tl.load(side_variance + i, mask=good, other=0.0)[:, None]
                    z += share * tl.load(side_mean + i, mask=good, other=0.0)[:, None]
                z += bias * x
            k = tl.rsqrt(1.0 + C * spread)
            p1, e = _halves(k * (z - delta))
            f = e * (e - p1)
            if TIES:
                tie = tl.load(kind + i, mask=good, other=0)[:, None] == 2
                p2, q2 = _halves(-k * (z + delta))
                e_tie = p2 - p1
                f_tie = e_tie * e_tie - p1 * e - p2 * q2
                e, f = tl.where(tie, e_tie, e), tl.where(tie, f_tie, f)
            slope = beta * k
            first += tl.sum(mass * e * slope, axis=1)
            second += tl.sum(mass * f * slope * slope, axis=1)
            if FAMILY:
                among = tl.load(given + row + t, mask=inside, other=0.0)[None, :]
                side_first += tl.sum(among * e * k, axis=1)
                side_second += tl.sum(among * f * k * k, axis=1)
        tl.store(alpha + i, first, mask=good)
        tl.store(second_out + i, second, mask=good)
        if FAMILY:
            tl.store(side_alpha + i, side_first, mask=good)
            tl.store(side_second_out + i, side_second, mask=good)


@triton.jit
def _joined(values, first, out, n_types, T: tl.constexpr):
    """Return the sum of the values of a worker's chunks, in their order."""
    worker, t = tl.program_id(0), tl.program_id(1) * T + tl.arange(0, T)
    inside, total = t < n_types, tl.zeros([T], tl.float64)
    for chunk in range(tl.load(first + worker), tl.load(first + worker + 1)):
        total += tl.load(values + chunk * n_types + t, mask=inside, other=0.0)
    tl.store(out + worker.to(tl.int64) * n_types + t, total, mask=inside)


@triton.jit
def _positive_levels(j, inside, worker, half, low, high, levels):
    """Return the positive levels of a worker: those of its adaptive grid, or the common ones."""
    lo, hi = tl.load(low + worker), tl.load(high + worker)
    own = lo + j.to(tl.float32) * ((hi - lo) / tl.maximum(half - 1, 1))
    common = tl.load(levels + j, mask=inside, other=0.0)
    return tl.where(inside, tl.where(lo == lo, own, common), 0.0)


@triton.jit
def _reliability_messages(
    chunk_worker,
    chunk_begin,
    chunk_end,
    n,
    mean,
    variance,
    low,
    high,
    levels,
    out,
    n_types,
    half,
    C: tl.constexpr,
    V: tl.constexpr,
    T: tl.constexpr,
):
    """Compute Σ n·log Z over the votes of a chunk, for all types."""
    chunk = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, T)
    inside = j < half
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk), tl.load(chunk_end + chunk)
    beta = _positive_levels(j, inside, worker, half, low, high, levels)[None, :]
    square = C * beta * beta
    up, down = tl.zeros([T], tl.float64), tl.zeros([T], tl.float64)
    held = tl.zeros([V], tl.float64)
    for at in range(begin, end, V):
        i = at + tl.arange(0, V)
        good = i < end
        votes = tl.load(n + i, mask=good, other=0.0)
        m = tl.load(mean + i, mask=good, other=0.0)[:, None]
        v = tl.load(variance + i, mask=good, other=0.0)[:, None]
        x = beta * m * tl.rsqrt(1.0 + square * v)
        log_z = tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))
        up += tl.sum(votes[:, None] * log_z, axis=0).to(tl.float64)
        down += tl.sum(votes[:, None] * (log_z - x), axis=0).to(tl.float64)
        held += votes.to(tl.float64)
    zero = out + chunk * n_types + half
    tl.store(zero + 1 + j, up, mask=inside)
    tl.store(zero - 1 - j, down, mask=inside)
    tl.store(zero, -0.6931471805599453 * tl.sum(held, axis=0))


@triton.jit
def _reliability_moments(
    chunk_worker,
    chunk_begin,
    chunk_end,
    mean,
    variance,
    low,
    high,
    levels,
    q,
    alpha,
    second_out,
    n_types,
    half,
    C: tl.constexpr,
    V: tl.constexpr,
    T: tl.constexpr,
):
    """Compute Σ q e βk and Σ q f (βk)² over all types, for the votes of a chunk."""
    # With p = σ(βkm) and o = 1 - p, e and f are o and o(o - p) at β, and p and p(p - o) at -β.
    chunk = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, T)
    inside = j < half
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk), tl.load(chunk_end + chunk)
    beta = _positive_levels(j, inside, worker, half, low, high, levels)[None, :]
    square = C * beta * beta
    zero = q + worker.to(tl.int64) * n_types + half
    up = tl.load(zero + 1 + j, mask=inside, other=0.0)[None, :]
    down = tl.load(zero - 1 - j, mask=inside, other=0.0)[None, :]
    for at in range(begin, end, V):
        i = at + tl.arange(0, V)
        good = i < end
        m = tl.load(mean + i, mask=good, other=0.0)[:, None]
        v = tl.load(variance + i, mask=good, other=0.0)[:, None]
        slope = beta * tl.rsqrt(1.0 + square * v)
        x = slope * m
        small = tl.exp(-tl.abs(x))
        big = 1.0 / (1.0 + small)
        less = small * big
        p, o = tl.where(x >= 0.0, big, less), tl.where(x >= 0.0, less, big)
        alpha_terms = slope * (up * o - down * p)
        tl.store(alpha + i, tl.sum(alpha_terms, axis=1), mask=good)
        tl.store(second_out + i, tl.sum(alpha_terms * slope * (o - p), axis=1), mask=good)


class GridPasses:
    """The two steps of a pass over votes and types: messages of workers, then the sites.

    The first `before_gold` workers are not gold.
    """

    def __init__(self, rows: SiteRows, types: TypeState, before_gold: int) -> None:
        self._rows, self._types, self._before_gold = rows, types, before_gold
        self._chunks = rows.chunks()
        self._shape, self._half = (len(self._chunks.worker), types.n_types()), len(types.levels)
        ends = types.low.to(torch.float32), types.high.to(torch.float32)
        self._grid = (*ends, *types.single_points())
        self._votes: tuple[Tensor, ...] = ()
        self._cavity: tuple[Tensor, ...] = ()
        family = types.shape.sides
        wide = min(_TYPES, triton.next_power_of_2(self._shape[1]))
        self._flags: dict[str, Any] = {
            "C": float(LOGISTIC_SMOOTHING),
            "TIES": types.shape.ties,
            "FAMILY": family,
            "SIDES": family or len(types.shape.side_only) > 0,
            "T": wide,
            "V": 2048 // wide,
        }
        self._half_wide = triton.next_power_of_2(max(self._half, 1))
        several = self._flags["TIES"] or self._flags["SIDES"]
        self._reliability_only = not several and 0 < self._half <= _TYPES

    def messages(self, state: SiteState, marked: Tensor) -> tuple[Tensor, Tensor]:
        """Return Σ n·log Z of every worker and type, and Σ n·log Z̃ over marked workers' votes."""
        rows, chunks, device = self._rows, self._chunks, self._rows.device
        out = torch.empty(self._shape, dtype=torch.float64, device=device)
        workers, n_types = rows.votes.n_workers, self._shape[1]
        if not self._shape[0]:
            return out.new_zeros((workers, n_types)), rows.votes.zero()
        family = self._flags["FAMILY"]
        two = [torch.empty(len(rows), dtype=torch.float32, device=device) for _ in range(2)]
        more = [torch.empty_like(x) for x in two] if family else two
        blocks = triton.cdiv(len(rows), _BLOCK)
        logs = torch.empty(blocks, dtype=torch.float64, device=device)
        self._votes, self._cavity = self._of(state), (*two, *more)
        given = rows.worker, rows.n, *self._votes, marked.view(torch.int8)
        counts, chosen = (len(rows), self._before_gold), {"FAMILY": family, "LEAST": _LEAST, "B": _BLOCK}
        _cavities[(blocks,)](*given, *self._cavity, logs, *counts, **chosen)
        self._launch_messages(out)
        if chunks.most == 1 and len(chunks.worker) == workers:
            return out, logs.sum()
        whole = torch.empty((workers, n_types), dtype=torch.float64, device=device)
        grid = workers, triton.cdiv(n_types, self._flags["T"])
        _joined[grid](out, chunks.first, whole, n_types, T=self._flags["T"], num_warps=2)
        return whole, logs.sum()

    def move(
        self, state: SiteState, q: Tensor, given: Tensor | None, marked: Tensor, damping: float, clip: bool
    ) -> NewSites:
        """Return the sites of marked workers, moved by the share `damping` towards those that have the moments."""
        # Call `messages` first. Moments are under the types' posterior q; those of the side are under `given`, the
        # posterior of regular types.
        rows, chunks, mass = self._rows, self._chunks, q.to(torch.float32)
        among = mass if given is None else given.to(torch.float32)
        old = state.tau, state.nu, state.side_tau, state.side_nu
        new = NewSites(*(torch.empty_like(x) for x in old))
        if not self._shape[0]:
            return new
        where, counts = (chunks.worker, chunks.begin, chunks.end), (self._shape[1], self._half)
        if self._reliability_only:
            given = *where, *self._cavity[:2], *self._grid[:3], mass
            _reliability_moments[(self._shape[0],)](*given, *new[:2], *counts, **self._reliability_flags())
        else:
            given = *where, rows.kind, *self._cavity, *self._grid, mass, among
            _moments[(self._shape[0],)](*given, *new, *counts, self._before_gold, **self._flags)
        part = torch.full((1,), damping, dtype=torch.float64, device=mass.device)
        given = rows.worker, *self._votes, marked.view(torch.int8), part
        chosen = {"CLIP": clip, "FAMILY": self._flags["FAMILY"], "LEAST": _LEAST, "B": _BLOCK}
        _update[(triton.cdiv(len(rows), _BLOCK),)](*given, *new, len(rows), self._before_gold, **chosen)
        return new

    def _launch_messages(self, out: Tensor) -> None:
        rows, chunks, (count, n_types) = self._rows, self._chunks, self._shape
        where = chunks.worker, chunks.begin, chunks.end, rows.n
        if self._reliability_only:
            _reliability_messages[(count,)](
                *where, *self._cavity[:2], *self._grid[:3], out, n_types, self._half, **self._reliability_flags()
            )
            return
        _messages[(count, triton.cdiv(n_types, self._flags["T"]))](
            *where, rows.kind, *self._cavity, *self._grid, out, n_types, self._half, self._before_gold, **self._flags
        )

    def _reliability_flags(self) -> dict[str, Any]:
        wide = self._half_wide
        return {"C": self._flags["C"], "T": wide, "V": 2048 // wide}

    def _of(self, state: SiteState) -> tuple[Tensor, ...]:
        """Return the kernels' arguments: votes and their sites."""
        posterior = state.mean
        if posterior.stride(0) != 2:  # the layout has E and V of every pair in turn
            posterior = torch.stack([state.mean, state.variance], dim=1)
        rows, sides = self._rows, state.sides or (posterior, posterior)
        sites = (state.side_tau, state.side_nu) if state.sides else (state.tau, state.nu)
        return (rows.kind, rows.pair, rows.sign, posterior, state.tau, state.nu, *sides, *sites)
