"""Triton kernels of the grid passes: types in registers, one program some votes of one worker.

They compute what `moments.PlainPasses` does, in single precision; sums over a worker's votes are in
double precision from one block of votes to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

from crowdsift.engines.torch.moments import PlainPasses
from crowdsift.engines.torch.sums import exact_sum
from crowdsift.numeric.likelihoods import PROBIT_SMOOTHING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from crowdsift.engines.torch.moments import Cavities, SiteState
    from crowdsift.engines.torch.rows import SiteRows
    from crowdsift.engines.torch.types import TypeState

__all__ = ["TritonPasses"]

_TYPES = 64  # types that a program holds in registers at once, at most
_ROWS = 1 << 26  # rows of which cavities are held at once


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
def _messages(
    chunk_worker, chunk_begin, chunk_end, base, n, kind, mean, variance, side, side_mean,
    side_variance, low, high, levels, place, width, only, regular, out, n_types, half,
    C: tl.constexpr, TIES: tl.constexpr, SIDES: tl.constexpr, V: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Σ n·log Z over the votes of a chunk, for a tile of types."""
    chunk = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1) * T + tl.arange(0, T)
    inside = t < n_types
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk) - base, tl.load(chunk_end + chunk) - base
    beta = _reliabilities(t, inside, worker, half, low, high, levels, place)[None, :]
    share = tl.load(regular + t, mask=inside, other=0.0)[None, :]
    bias = tl.load(only + t, mask=inside, other=0.0)[None, :]
    delta = tl.load(width + t, mask=inside, other=0.0)[None, :]
    total = tl.zeros([T], tl.float64)
    for at in range(begin, end, V):
        i = at + tl.arange(0, V)
        good = i < end
        m = tl.load(mean + i, mask=good, other=0.0)[:, None]
        v = tl.load(variance + i, mask=good, other=0.0)[:, None]
        spread, z = beta * beta * v, beta * m
        if SIDES:
            x = tl.load(side + i, mask=good, other=0.0)[:, None]
            spread += share * tl.load(side_variance + i, mask=good, other=0.0)[:, None]
            z += share * tl.load(side_mean + i, mask=good, other=0.0)[:, None] + bias * x
        k = tl.rsqrt(1.0 + C * spread)
        up = k * (z - delta)
        _, _, tail = _halves(up)
        log_z = tl.minimum(up, 0.0) - tail
        if TIES:
            tie = tl.load(kind + i, mask=good, other=0)[:, None] == 2
            down = -k * (z + delta)
            _, _, rest = _halves(down)
            log_tie = _log_expm1(tl.maximum(2.0 * k * delta, 1e-30))
            log_tie += log_z + tl.minimum(down, 0.0) - rest
            log_z = tl.where(tie, log_tie, log_z)
        weight = tl.load(n + i, mask=good, other=0.0)[:, None]
        total += tl.sum(weight * log_z, axis=0).to(tl.float64)
    tl.store(out + chunk * n_types + t, total, mask=inside)


@triton.jit
def _sums(
    chunk_worker, chunk_begin, chunk_end, base, kind, mean, variance, side, side_mean,
    side_variance, low, high, levels, place, width, only, regular, q, given, alpha, bend,
    side_alpha, side_bend, n_types, half,
    C: tl.constexpr, TIES: tl.constexpr, SIDES: tl.constexpr, V: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """α and Σ q f (βk)² of the votes of a chunk, over all types; the same of the side."""
    chunk = tl.program_id(0).to(tl.int64)
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk) - base, tl.load(chunk_end + chunk) - base
    row = worker.to(tl.int64) * n_types
    for at in range(begin, end, V):
        i = at + tl.arange(0, V)
        good = i < end
        m = tl.load(mean + i, mask=good, other=0.0)[:, None]
        v = tl.load(variance + i, mask=good, other=0.0)[:, None]
        first, second = tl.zeros([V], tl.float32), tl.zeros([V], tl.float32)
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
                x = tl.load(side + i, mask=good, other=0.0)[:, None]
                spread += share * tl.load(side_variance + i, mask=good, other=0.0)[:, None]
                z += share * tl.load(side_mean + i, mask=good, other=0.0)[:, None] + bias * x
            k = tl.rsqrt(1.0 + C * spread)
            p1, e, _ = _halves(k * (z - delta))
            f = e * (e - p1)
            if TIES:
                tie = tl.load(kind + i, mask=good, other=0)[:, None] == 2
                p2, q2, _ = _halves(-k * (z + delta))
                e_tie = p2 - p1
                f_tie = e_tie * e_tie - p1 * e - p2 * q2
                e, f = tl.where(tie, e_tie, e), tl.where(tie, f_tie, f)
            slope = beta * k
            first += tl.sum(mass * e * slope, axis=1)
            second += tl.sum(mass * f * slope * slope, axis=1)
            if SIDES:
                among = tl.load(given + row + t, mask=inside, other=0.0)[None, :]
                side_first += tl.sum(among * e * k, axis=1)
                side_second += tl.sum(among * f * k * k, axis=1)
        tl.store(alpha + i, first, mask=good)
        tl.store(bend + i, second, mask=good)
        if SIDES:
            tl.store(side_alpha + i, side_first, mask=good)
            tl.store(side_bend + i, side_second, mask=good)


class TritonPasses(PlainPasses):
    """`moments.PlainPasses` with kernels for what is computed of votes and types."""

    def __init__(self, rows: SiteRows, types: TypeState, crowd: int) -> None:
        super().__init__(rows, types, crowd)
        self._chunks = rows.chunks()
        points, half, device = self._points, len(types.levels), rows.device
        single = [x.to(torch.float32) for x in (points.width, points.side_only, points.regular)]
        place = torch.arange(-half, half + 1, dtype=torch.int32, device=device)
        none = torch.zeros(len(types.shape.side_only), dtype=torch.int32, device=device)
        place = torch.cat([place.repeat(len(types.shape.widths)), none])
        ends = types.low.to(torch.float32), types.high.to(torch.float32)
        self._grid = (*ends, types.levels.to(torch.float32), place, *single)
        self._shape, self._half = (len(self._chunks.worker), types.n_types()), half
        wide = min(_TYPES, triton.next_power_of_2(self._shape[1]))
        self._flags: dict[str, Any] = {
            "C": float(PROBIT_SMOOTHING), "TIES": types.shape.ties, "SIDES": types.shape.sides
            or len(types.shape.side_only) > 0, "T": wide, "V": 2048 // wide,
        }  # fmt: skip

    def messages(self, state: SiteState, marked: Tensor) -> tuple[Tensor, Tensor]:
        """Σ n·log Z of every worker and type, and Σ n·log Z̃ over the votes of marked workers."""
        rows, workers = self._rows, self._rows.votes.n_workers
        total = rows.votes.zero()
        out = torch.zeros(self._shape, dtype=torch.float64, device=rows.device)
        tiles = triton.cdiv(self._shape[1], self._flags["T"])
        for part in self._parts():
            at, log_site = self._cavities(part, state)
            voted = marked.index_select(0, rows.worker[part])
            total = total + (rows.n[part] * log_site * voted).sum()
            chunks, begin, count = self._of(part)
            _messages[(count, tiles)](
                *chunks, part.start, rows.n[part], rows.kind[part], *_single(at), *self._grid,
                out[begin:], self._shape[1], self._half, **self._flags,
            )  # fmt: skip
        where, most = self._chunks.worker, self._chunks.most
        if most > 1:
            return exact_sum(where, out, workers, most), total
        whole = torch.zeros((workers, self._shape[1]), dtype=torch.float64, device=rows.device)
        return whole.index_copy_(0, where.to(torch.int64), out), total

    def _parts(self) -> Iterator[slice]:
        yield from self._chunks.parts(_ROWS)

    def _moments(
        self, part: slice, at: Cavities, q: Tensor, given: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """First and second derivatives of log Z, in the difference and in the side bias."""
        chunks, _, count = self._of(part)
        sums = [torch.empty_like(at.mean, dtype=torch.float32) for _ in range(4)]
        mass = q.to(torch.float32)
        among = mass if given is None else given.to(torch.float32)
        _sums[(count,)](
            *chunks, part.start, self._rows.kind[part], *_single(at), *self._grid, mass, among,
            *sums, self._shape[1], self._half, **self._flags,
        )  # fmt: skip
        alpha, bend, side_alpha, side_bend = (x.to(torch.float64) for x in sums)
        own = at.side * side_alpha
        side = at.side.abs() * (own * own - side_bend)
        return alpha, alpha * alpha - bend, own, side

    def _of(self, part: slice) -> tuple[tuple[Tensor, Tensor, Tensor], int, int]:
        """The chunks of a part, the number of the first, and how many there are."""
        chunks = self._chunks
        begin, end = chunks.between(part)
        some = (chunks.worker[begin:end], chunks.begin[begin:end], chunks.end[begin:end])
        return some, begin, end - begin


def _single(at: Cavities) -> tuple[Tensor, ...]:
    order = (at.mean, at.variance, at.side, at.side_mean, at.side_variance)
    return tuple(x.to(torch.float32) for x in order)
