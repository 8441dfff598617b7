"""Expectation propagation over worker types on a device."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from crowdsift.engines.grid import MAX_DENSE_ITEMS, MAX_FACTOR_WORK, WorkerTypes
from crowdsift.engines.torch.device import memory_errors
from crowdsift.engines.torch.operators import TorchOperator
from crowdsift.engines.torch.rows import SiteRows
from crowdsift.engines.torch.sites import TorchSites
from crowdsift.engines.torch.sums import FixedPoint
from crowdsift.engines.torch.vectors import to_host
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.numeric import Codes, Vector

# Up to this number of items a dense inverse is as cheap as the sparse one of the CPU engine. So both engines choose the
# same method.
_FEW_ITEMS = 600
_BLOCK, _VOTES = 128, 1024  # votes that a program of a kernel reads at once


class TorchGrid:
    """`crowdsift.engines.grid.Grid` on tensors."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes
        self._rows: dict[bool, SiteRows] = {}

    def sites(self, types: WorkerTypes, variance: float) -> TorchSites:
        device, count = self._votes.device, len(self._votes)
        if types.ties not in self._rows:
            with memory_errors(device, count):
                self._rows[types.ties] = SiteRows(self._votes, types.ties)
        return TorchSites(self._votes, self._rows[types.ties], types, variance)

    def correlations(self) -> TorchCorrelations:
        return TorchCorrelations(self._votes)

    def factoriser(self, low: Codes, high: Codes, n_items: int, most: float) -> DenseFactoriser | None:
        # By a dense inverse, for few items.
        few = n_items <= (MAX_DENSE_ITEMS if most >= MAX_FACTOR_WORK else _FEW_ITEMS)
        return DenseFactoriser(low, high, n_items, self._votes.device) if few else None


class DenseFactoriser:
    """Exact variances by a dense inverse on the device."""

    def __init__(self, low: Codes, high: Codes, n_items: int, device: torch.device) -> None:
        self._low, self._high = (torch.from_numpy(x.astype(np.int64)).to(device) for x in (low, high))
        self._cell = (low.astype(np.int64) * n_items + high, n_items)

    def __call__(self, weight: Vector) -> tuple[Vector, Vector, float, bool]:
        cell, n = self._cell
        half = np.bincount(cell, weight, n * n).reshape(n, n)
        whole = half + half.T
        dense = np.diag(whole.sum(axis=1) + 1.0) - whole
        matrix = torch.tensor(dense, device=self._low.device)
        root, failed = torch.linalg.cholesky_ex(matrix)
        if int(failed):
            return np.ones(n), np.ones(len(weight)), 0.0, False
        S = torch.cholesky_inverse(root)
        items = S.diagonal()
        pairs = items[self._low] + items[self._high] - 2.0 * S[self._low, self._high]
        log_determinant = 2.0 * float(torch.log(root.diagonal()).sum())
        return to_host(items), to_host(pairs), log_determinant, True


@triton.jit
def _vote(i, good, first, second, y, n, centre, v):
    """Compute n·e and e of votes, with e = 2y - 1 less the worker's mean answer, and differences of v."""
    e = 2.0 * tl.load(y + i, mask=good, other=0.5).to(tl.float64) - 1.0 - centre
    a, b = tl.load(first + i, mask=good, other=0), tl.load(second + i, mask=good, other=0)
    d = tl.load(v + a, mask=good, other=0.0) - tl.load(v + b, mask=good, other=0.0)
    return tl.load(n + i, mask=good, other=0.0).to(tl.float64) * e, e, d, a, b


@triton.jit
def _own(offsets, first, second, y, n, centre, v, own, B: tl.constexpr):
    """Compute the product of each worker's row of X with v, Σ n·e·d over the worker's votes."""
    worker = tl.program_id(0)
    begin, end = tl.load(offsets + worker), tl.load(offsets + worker + 1)
    middle, total = tl.load(centre + worker), tl.zeros([B], tl.float64)
    for at in range(begin, end, B):
        i = at + tl.arange(0, B)
        weighted, _, d, _, _ = _vote(i, i < end, first, second, y, n, middle, v)
        total += weighted * d
    tl.store(own + worker, tl.sum(total, axis=0))


@triton.jit
def _to_items(first, second, worker, y, n, centre, v, own, up, sums, count, B: tl.constexpr):
    """Add n·e·(own - e·d) of every vote to its first item and subtract it from its second."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    good = i < count
    who = tl.load(worker + i, mask=good, other=0)
    middle = tl.load(centre + who, mask=good, other=0.0)
    weighted, e, d, a, b = _vote(i, good, first, second, y, n, middle, v)
    flow = weighted * (tl.load(own + who, mask=good, other=0.0) - e * d)
    whole = tl.floor(flow * tl.load(up) + 0.5).to(tl.int64)
    tl.atomic_add(sums + a, whole, mask=good, sem="relaxed")
    tl.atomic_add(sums + b, -whole, mask=good, sem="relaxed")


class TorchCorrelations(TorchOperator):
    """XᵀX - L(n e²), the correlations of votes."""

    def __init__(self, votes: VoteTensors) -> None:
        super().__init__(votes.device)
        self._votes = votes
        self._centre = torch.zeros(votes.n_workers, dtype=torch.float64, device=votes.device)
        if votes.sides_known:
            loads, leaning = votes.worker_sums(votes.heaviest), votes.worker_sums(votes.heaviest)
            for part in votes.parts():
                loads.add(part.worker, part.n)
                leaning.add(part.worker, part.n * (2.0 * part.y - 1.0))
            self._centre = leaning.total() / loads.total().clamp(min=1e-300)

    def product(self, v: Tensor) -> Tensor:
        """Return the product with a tensor, in two sweeps over votes."""
        votes = self._votes
        own = torch.empty(votes.n_workers, dtype=torch.float64, device=votes.device)
        given = votes.y, votes.n, self._centre, v
        _own[(votes.n_workers,)](votes.offsets, votes.first, votes.second, *given, own, B=_BLOCK)
        # |e| is at most 2, and |d| at most twice the largest of v.
        bound = votes.heaviest * (2.0 * own.abs().max() + 16.0 * v.abs().max())
        scale = FixedPoint(bound, votes.most_of_item)
        sums = torch.zeros(votes.n_items, dtype=torch.int64, device=votes.device)
        if len(votes):
            _to_items[(triton.cdiv(len(votes), _VOTES),)](
                votes.first, votes.second, votes.worker, *given, own, scale.up, sums, len(votes), B=_VOTES
            )
        return scale.values(sums)

    def diagonal_there(self) -> Tensor:
        votes = self._votes
        sums = votes.item_sums(4.0 * votes.heaviest)
        for part in votes.parts():
            weight = part.n * self._signed(part.y, part.worker) ** 2
            sums.add(part.first, weight)
            sums.add(part.second, weight)
        return sums.total()

    def _signed(self, y: Tensor, worker: Tensor) -> Tensor:
        """Return 2y - 1, less the worker's mean answer if sides are known."""
        return 2.0 * y - 1.0 - self._centre.index_select(0, worker)
