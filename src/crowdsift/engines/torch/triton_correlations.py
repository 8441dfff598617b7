"""Triton kernels of products with XᵀX - L(n e²), the correlations of votes: two sweeps each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from crowdsift.engines.torch.sums import FixedPoint

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.votes import VoteTensors

__all__ = ["correlated"]

_BLOCK, _VOTES = 128, 1024


@triton.jit
def _vote(i, good, first, second, y, n, centre, v):
    """n·e and e of votes, e being 2y - 1 less the worker's mean answer; and differences of v."""
    e = 2.0 * tl.load(y + i, mask=good, other=0.5).to(tl.float64) - 1.0 - centre
    a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
    d = tl.load(v + a, mask=good, other=0.0) - tl.load(v + b, mask=good, other=0.0)
    return tl.load(n + i, mask=good, other=0.0).to(tl.float64) * e, e, d, a, b


@triton.jit
def _own(offsets, first, second, y, n, centre, v, own, B: tl.constexpr):
    """Σ n·e·d over the votes of a worker."""
    worker = tl.program_id(0)
    begin, end = tl.load(offsets + worker), tl.load(offsets + worker + 1)
    middle, total = tl.load(centre + worker), tl.zeros([B], tl.float64)
    for at in range(begin, end, B):
        i = at + tl.arange(0, B)
        weighted, _, d, _, _ = _vote(i, i < end, first, second, y, n, middle, v)
        total += weighted * d
    tl.store(own + worker, tl.sum(total, axis=0))


@triton.jit
def _to_items(
    first, second, worker, y, n, centre, v, own, up, sums, count, B: tl.constexpr
):  # fmt: skip
    """n·e·(own - e·d) of every vote to its first item and, of opposite sign, to its second."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    who = tl.load(worker + i, mask=good, other=0)
    middle = tl.load(centre + who, mask=good, other=0.0)
    weighted, e, d, a, b = _vote(i, good, first, second, y, n, middle, v)
    flow = weighted * (tl.load(own + who, mask=good, other=0.0) - e * d)
    whole = tl.floor(flow * tl.load(up) + 0.5).to(tl.int64)
    tl.atomic_add(sums + a, whole, mask=good, sem="relaxed")
    tl.atomic_add(sums + b, -whole, mask=good, sem="relaxed")


def correlated(votes: VoteTensors, centre: Tensor, v: Tensor) -> Tensor:
    """The product with v; `centre` is the mean answer of every worker."""
    own = torch.empty(votes.n_workers, dtype=torch.float64, device=votes.device)
    given = votes.y, votes.n, centre, v
    _own[(votes.n_workers,)](votes.offsets, votes.first, votes.second, *given, own, B=_BLOCK)
    # |e| is at most 2, and |d| twice the largest of v.
    bound = votes.heaviest * (2.0 * own.abs().max() + 16.0 * v.abs().max())
    scale = FixedPoint(bound, votes.most_of_item)
    sums = torch.zeros(votes.n_items, dtype=torch.int64, device=votes.device)
    _to_items[(triton.cdiv(len(votes), _VOTES),)](
        votes.first, votes.second, votes.worker, *given, own, scale.up, sums, len(votes), B=_VOTES
    )
    return scale.values(sums)
