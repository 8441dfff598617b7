"""Triton kernels over workers and types: posteriors under a common prior, and adaptive grids.

One program per worker, in double precision and with sums in a fixed order.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def adaptive_level(size, lo, hi, half):
    """Return one level of a worker's adaptive grid; `size` is its number, counted from 1."""
    return lo + (size - 1).to(tl.float64) * ((hi - lo) / tl.maximum(half - 1, 1))


@triton.jit
def place_among(levels, level, half):
    """Return the common level below, except the last, and the fraction of the distance to the next."""
    count = (level * 0.0).to(tl.int32)
    for j in range(half):
        count += (tl.load(levels + j) <= level).to(tl.int32)
    place = tl.minimum(tl.maximum(count - 1, 0), half - 2)
    below = tl.load(levels + place)
    share = (level - below) / (tl.load(levels + place + 1) - below)
    return place, tl.minimum(tl.maximum(share, 0.0), 1.0)


@triton.jit
def _prior(t, inside, worker, before_gold, lo, hi, prior, levels, cells, place, half):
    """Return the prior masses of a worker's types, on its adaptive grid if it has one."""
    mass = tl.load(prior + t, mask=inside, other=0.0)
    if worker >= before_gold:  # gold has the largest reliability
        mass = tl.where(t == 2 * half, 1.0, 0.0).to(tl.float64)
    else:
        if lo == lo:
            at = tl.load(place + t, mask=inside, other=0)
            size = tl.abs(at)
            own = (size > 0) & inside
            level = adaptive_level(tl.maximum(size, 1), lo, hi, half)
            below, share = place_among(levels, level, half)
            step = tl.where(half > 1, (hi - lo) / tl.maximum(half - 1, 1), 1.0)
            zero = t - at  # the type at 0 of the same width
            way = tl.where(at < 0, -1, 1)
            one, two = zero + way * (below + 1), zero + way * (below + 2)
            lower = tl.load(prior + one, mask=own, other=0.0)
            lower /= tl.load(cells + below + 1, mask=own, other=1.0)
            upper = tl.load(prior + two, mask=own, other=0.0)
            upper /= tl.load(cells + below + 2, mask=own, other=1.0)
            mass = tl.where(own, ((1.0 - share) * lower + share * upper) * step, mass)
    return mass


@triton.jit
def _posterior(
    messages,
    family,
    low,
    high,
    prior,
    levels,
    cells,
    place,
    regular,
    q,
    given,
    logs,
    tops,
    shares,
    n_types,
    half,
    before_gold,
    FAMILY: tl.constexpr,
    T: tl.constexpr,
):
    """Compute q(t) of a worker, that among regular types, log Σ prior·exp(message), and the largest message."""
    worker = tl.program_id(0)
    t = tl.arange(0, T)
    inside = t < n_types
    row = worker.to(tl.int64) * n_types
    message = tl.load(messages + row + t, mask=inside, other=float("-inf"))
    lo, hi = tl.load(low + worker), tl.load(high + worker)
    mass = _prior(t, inside, worker, before_gold, lo, hi, prior, levels, cells, place, half)
    common = tl.load(regular + t, mask=inside, other=0.0).to(tl.float64)
    if FAMILY:
        message += common * tl.load(family + worker)
        tl.store(messages + row + t, message, mask=inside)
    held = (mass > 0.0) & inside
    top = tl.max(tl.where(held, message, float("-inf")), axis=0)
    joint = tl.where(held, mass * tl.exp(tl.minimum(message - top, 0.0)), 0.0)
    total = tl.sum(joint, axis=0)
    tl.store(q + row + t, (joint / total).to(tl.float32), mask=inside)
    tl.store(logs + worker, tl.log(total) + top)
    tl.store(tops + worker, tl.max(message, axis=0))
    tl.store(shares + worker, tl.sum(joint * common, axis=0) / total)
    if FAMILY:
        among = held & (common > 0.0)
        top = tl.max(tl.where(among, message, float("-inf")), axis=0)
        joint = tl.where(among, mass * tl.exp(tl.minimum(message - top, 0.0)), 0.0)
        tl.store(given + row + t, (joint / tl.sum(joint, axis=0)).to(tl.float32), mask=inside)


@triton.jit
def _cell(levels, place, half):
    """Return the distance between the two levels around a place, or between the nearest two."""
    at = 0
    for j in range(half):
        at += (tl.load(levels + j) < place).to(tl.int32)
    at = tl.minimum(tl.maximum(at, 1), half - 1)
    return tl.load(levels + at) - tl.load(levels + at - 1)


@triton.jit
def _refine(
    messages,
    tops,
    low,
    high,
    levels,
    new_low,
    new_high,
    changed,
    n_types,
    half,
    n_widths,
    NARROW: tl.constexpr,
    SPAN: tl.constexpr,
    SLACK: tl.constexpr,
    H: tl.constexpr,
):
    """Compute the ends of a grid that resolves a worker's likelihood; see `adaptive_grid`."""
    worker = tl.program_id(0)
    i = tl.arange(0, H)
    good = i < half
    lo, hi, top = tl.load(low + worker), tl.load(high + worker), tl.load(tops + worker)
    has = tl.where(lo == lo, 1, 0) == 1
    common = tl.load(levels + i, mask=good, other=0.0)
    level = tl.where(has, adaptive_level(i + 1, lo, hi, half), common)
    before = tl.load(levels + i - 1, mask=good & (i > 0), other=0.0)
    after = tl.load(levels + i + 1, mask=i < half - 1, other=0.0)
    cell = 0.5 * (tl.where(i < half - 1, after, 2.0 * common - before) - tl.where(i > 0, before, 2.0 * common - after))
    cell = tl.where(has, (hi - lo) / tl.maximum(half - 1, 1), cell)
    size = tl.zeros([H], tl.float64)
    row = worker.to(tl.int64) * n_types
    for width in range(n_widths):
        zero = row + width * (2 * half + 1) + half
        one = tl.load(messages + zero + 1 + i, mask=good, other=0.0) - top
        two = tl.load(messages + zero - 1 - i, mask=good, other=0.0) - top
        size += tl.exp(tl.maximum(one, -55.0)) + tl.exp(tl.maximum(two, -55.0))
    size = tl.where(good, size * tl.where(half > 1, cell, 1.0), 0.0)
    total = tl.sum(size, axis=0)
    mean = tl.sum(level * size, axis=0) / total
    square = tl.sum(level * level * size, axis=0) / total - mean * mean
    sd = tl.sqrt(tl.maximum(square, 0.0))
    there = _cell(levels, mean, half)
    own_cell = tl.where(has, (hi - lo) / (half - 1), there)
    reach = tl.maximum(SPAN * sd, 1.5 * own_cell)
    start, end = tl.maximum(mean - reach, 0.0), tl.minimum(mean + reach, tl.load(levels + half - 1))
    wide = ((has == 0) & (sd >= NARROW * there)) | (end - start > 2 * half * there)
    new = tl.where(start == 0.0, end / half, start)
    slack = SLACK * (end - start)
    stays = has & (tl.abs(new - lo) <= slack) & (tl.abs(end - hi) <= slack)
    none = start * float("nan")
    new = tl.where(wide, none, tl.where(stays, lo, new))
    end = tl.where(wide, none, tl.where(stays, hi, end))
    gone, was = tl.where(new == new, 0, 1), tl.where(has, 0, 1)
    same = ((new == lo) & (end == hi)) | ((gone == 1) & (was == 1))
    tl.store(new_low + worker, new)
    tl.store(new_high + worker, end)
    tl.store(changed + worker, tl.where(same, 0, 1).to(tl.int32))


class Posterior(NamedTuple):
    """Posteriors over types; `given` are those among regular types if sides are used.

    The other fields have one number per worker: the log of the normaliser, the largest message, P(regular).
    """

    q: Tensor
    given: Tensor | None
    logs: Tensor
    tops: Tensor
    regular: Tensor


def posterior(types: Any, family: Tensor | None, prior: Tensor) -> Posterior:
    """Return the posteriors of all workers; the family's messages are added to theirs."""
    workers, count = types.messages.shape
    device, levels = types.messages.device, types.levels

    def empty(*shape: int, kind: torch.dtype = torch.float64) -> Tensor:
        return torch.empty(shape, dtype=kind, device=device)

    q = empty(workers, count, kind=torch.float32)
    given = None if family is None else torch.empty_like(q)
    logs, tops, shares = (empty(workers) for _ in range(3))
    _, place, _, _, regular = types.single_points()
    messages = types.messages, logs if family is None else family
    grid = types.low, types.high, prior, levels, types.cells(), place, regular
    out = q, q if given is None else given, logs, tops, shares
    counts, wide = (count, len(levels), types.before_gold), triton.next_power_of_2(count)
    _posterior[(workers,)](*messages, *grid, *out, *counts, FAMILY=family is not None, T=wide)
    return Posterior(q, given, logs, tops, shares)


def refined(types: Any, tops: Tensor, constants: tuple[float, float, float]) -> Tensor:
    """Set the ends of adaptive grids of all workers except gold; return how many changed."""
    low, high = types.low.clone(), types.high.clone()
    changed = torch.zeros(len(low), dtype=torch.int32, device=low.device)
    half = len(types.levels)
    if types.before_gold:
        given = types.messages, tops, types.low, types.high, types.levels
        counts = types.messages.shape[1], half, len(types.shape.widths)
        chosen = {**dict(zip(("NARROW", "SPAN", "SLACK"), constants, strict=True)), "H": triton.next_power_of_2(half)}
        _refine[(types.before_gold,)](*given, low, high, changed, *counts, **chosen)
    types.set_ends(low, high)
    return changed.sum()
