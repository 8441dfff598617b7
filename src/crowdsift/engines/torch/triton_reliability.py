"""Triton kernels of the grid passes where a type is a reliability and nothing else.

Grids are symmetric, and with neither ties nor sides a type -β has the probabilities of β with win
and loss exchanged: one exponential serves both, and a program goes through half of the types. What
is computed is what `triton_grid` computes for all models.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["reliability_messages", "reliability_moments"]


@triton.jit
def _levels(j, inside, worker, half, low, high, levels):
    """The positive levels of a worker: of its adaptive grid where it has one, else of all."""
    lo, hi = tl.load(low + worker), tl.load(high + worker)
    own = lo + j.to(tl.float32) * ((hi - lo) / tl.maximum(half - 1, 1))
    common = tl.load(levels + j, mask=inside, other=0.0)
    return tl.where(inside, tl.where(lo == lo, own, common), 0.0)


@triton.jit
def reliability_messages(
    chunk_worker, chunk_begin, chunk_end, n, mean, variance, low, high, levels, out, n_types, half,
    C: tl.constexpr, V: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Σ n·log Z over the votes of a chunk, for all types."""
    chunk = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, T)
    inside = j < half
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk), tl.load(chunk_end + chunk)
    beta = _levels(j, inside, worker, half, low, high, levels)[None, :]
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
def reliability_moments(
    chunk_worker, chunk_begin, chunk_end, mean, variance, low, high, levels, q, alpha, second_out,
    n_types, half, C: tl.constexpr, V: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Σ q e βk and Σ q f (βk)² of the votes of a chunk, over all types.

    With p = σ(βkm) and o = 1 - p, e is o and f is o(o - p) at β, p and p(p - o) at -β.
    """
    chunk = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, T)
    inside = j < half
    worker = tl.load(chunk_worker + chunk)
    begin, end = tl.load(chunk_begin + chunk), tl.load(chunk_end + chunk)
    beta = _levels(j, inside, worker, half, low, high, levels)[None, :]
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
