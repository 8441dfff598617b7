"""Expectation propagation over worker types on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from crowdsift.engines.torch.device import memory_errors, uses_triton
from crowdsift.engines.torch.operators import TorchOperator
from crowdsift.engines.torch.rows import SiteRows
from crowdsift.engines.torch.sites import TorchSites
from crowdsift.engines.torch.vectors import to_host

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from crowdsift.engines.grid import WorkerTypes
    from crowdsift.engines.shards import SharedPairs
    from crowdsift.engines.torch.votes import VoteTensors
    from crowdsift.numeric import Vector

__all__ = ["DenseFactoriser", "TorchCorrelations", "TorchGrid"]

# Up to so many items a dense inverse takes as long as a sparse one of the CPU engine may, where
# that may be costly and where it must be cheap: there both take the same way.
_DENSE_ITEMS, _FEW_ITEMS = 1_200, 600
_COSTLY = 5e7


class TorchGrid:
    """`crowdsift.engines.grid.Grid` on tensors."""

    def __init__(self, votes: VoteTensors, shared: SharedPairs | None = None) -> None:
        self._votes, self._shared = votes, shared
        self._rows: dict[bool, SiteRows] = {}

    def sites(self, types: WorkerTypes, variance: float) -> TorchSites:
        """New sites; see the protocol."""
        device, count = self._votes.device, len(self._votes)
        if types.ties not in self._rows:
            with memory_errors(device, count):
                self._rows[types.ties] = SiteRows(self._votes, self._shared, types.ties)
        return TorchSites(self._votes, self._rows[types.ties], types, variance)

    def correlations(self) -> TorchCorrelations:
        """Correlations of votes; see the protocol."""
        return TorchCorrelations(self._votes)

    def factoriser(
        self, low: NDArray[np.uint32], high: NDArray[np.uint32], n_items: int, most: float
    ) -> DenseFactoriser | None:
        """By a dense inverse, for few items; see the protocol."""
        few = n_items <= (_DENSE_ITEMS if most >= _COSTLY else _FEW_ITEMS)
        return DenseFactoriser(low, high, n_items, self._votes.device) if few else None


class DenseFactoriser:
    """Exact variances by a dense inverse on the device."""

    def __init__(
        self, low: NDArray[np.uint32], high: NDArray[np.uint32], n_items: int, device: torch.device
    ) -> None:
        self._low, self._high = (
            torch.from_numpy(x.astype(np.int64)).to(device) for x in (low, high)
        )
        self._cell = (low.astype(np.int64) * n_items + high, n_items)

    def __call__(self, weight: Vector) -> tuple[Vector, Vector, float, bool]:
        """Variances and log-determinant; see the protocol."""
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


class TorchCorrelations(TorchOperator):
    """XᵀX - L(n e²)."""

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
        """The product with a tensor."""
        votes, x = self._votes, v
        if uses_triton(votes.device) and len(votes):
            from crowdsift.engines.torch.triton_correlations import correlated

            return correlated(votes, self._centre, v)
        most = 4.0 * x.abs().max()  # |e| is at most 2, |d| twice the largest
        product = votes.worker_sums(votes.heaviest * most)
        for part in votes.parts():
            e = self._signed(part.y, part.worker)
            product.add(part.worker, part.n * e * part.differences(x))
        own = product.total()
        result = votes.item_sums(votes.heaviest * (2.0 * own.abs().max() + 4.0 * most))
        for part in votes.parts():
            e = self._signed(part.y, part.worker)
            rest = own.index_select(0, part.worker) - e * part.differences(x)
            result.between(part, part.n * e * rest)
        return result.total()

    def diagonal_there(self) -> Tensor:
        """The diagonal of L(n e²)."""
        votes = self._votes
        sums = votes.item_sums(4.0 * votes.heaviest)
        for part in votes.parts():
            weight = part.n * self._signed(part.y, part.worker) ** 2
            sums.add(part.first, weight)
            sums.add(part.second, weight)
        return sums.total()

    def _signed(self, y: Tensor, worker: Tensor) -> Tensor:
        """2y - 1, less the worker's mean answer where sides are known."""
        return 2.0 * y - 1.0 - self._centre.index_select(0, worker)
