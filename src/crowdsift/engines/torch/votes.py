"""The votes as tensors of a device, sorted by worker, and sums over them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crowdsift.engines.base import CountedVotes
from crowdsift.engines.torch.sums import ExactSum
from crowdsift.engines.torch.vectors import to_device
from crowdsift.errors import RequestError
from crowdsift.numeric import Codes
from crowdsift.votes.comparisons import Comparisons

_STAGE = 1 << 24  # numbers copied at a time
_PART = {"cpu": 1 << 20, "cuda": 1 << 25}  # votes for which a pass holds temporary values at a time


class VotePart(NamedTuple):
    """Consecutive votes: items, worker, outcome y and weight n, in double precision."""

    rows: slice
    first: Tensor
    second: Tensor
    worker: Tensor
    y: Tensor
    n: Tensor

    def differences(self, scores: Tensor) -> Tensor:
        """Return d of every vote."""
        return scores.index_select(0, self.first) - scores.index_select(0, self.second)


class VoteTensors(CountedVotes):
    """First and second item, worker, outcome y, weight n and features x of every vote."""

    def __init__(self, comparisons: Comparisons, device: Any, counted_with: VoteTensors | None = None) -> None:
        self.device = device
        super().__init__(counted_with)
        # Caches of recorded passes for these votes; the keys belong to their modules.
        self.solvers: dict[object, Any] = {}
        self.m_step: Any = None
        self.n_items, self.n_workers = comparisons.n_items, comparisons.n_workers
        self.n_gold, self.sides_known = comparisons.n_gold, comparisons.sides_known
        self.first = self.codes(comparisons.first)
        self.second = self.codes(comparisons.second)
        self.offsets = self._plain(comparisons.offsets)
        workers = torch.arange(self.n_workers, dtype=torch.int32, device=device)
        self.worker = torch.repeat_interleave(workers, self.offsets.diff(), output_size=len(comparisons))
        self.y = self._plain(comparisons.outcome)
        self.n = self._plain(comparisons.weight)
        given = comparisons.features
        self.x = self.numbers(np.zeros((len(comparisons), 0)) if given is None else given)
        self._refuse_codes()
        held = torch.bincount(self.first, minlength=self.n_items)
        held += torch.bincount(self.second, minlength=self.n_items)
        self.most_of_item = int(held.max())
        self.most_of_worker = int(self.offsets.diff().max())
        self.heaviest = self.n.max().to(torch.float64) if len(self.n) else self.zero()

    def __len__(self) -> int:
        return len(self.first)

    @property
    def columns(self) -> tuple[Tensor, ...]:
        """The first arguments of kernels over votes: items, worker, outcome and weight of every vote."""
        return self.first, self.second, self.worker, self.y, self.n

    @property
    def by_worker(self) -> tuple[Tensor, ...]:
        """The first arguments of kernels over workers: where each worker's votes begin, and the votes."""
        return self.offsets, self.first, self.second, self.y, self.n

    def _refuse_codes(self) -> None:
        """Raise an error for codes out of range, which would read other memory and crash the process on a GPU."""
        for codes in (self.first, self.second):
            wrong = (codes < 0) | (codes >= self.n_items)
            if len(codes) and bool(wrong.any()):
                row = int(wrong.to(torch.uint8).argmax())
                raise RequestError(
                    f"comparison {row + 1} has the item code {int(codes[row])}, but "
                    f"there are {self.n_items} items, numbered from 0"
                )

    def total_weight(self) -> float:
        """Return the number of votes, counted with their weights."""
        return float(self.n.sum(dtype=torch.float64))

    def ties_are_outcomes(self) -> bool:
        """Return whether ties occur and no other outcome between 0 and 1."""
        kinds = [
            torch.stack([(y == 0.5).any(), ((y != 0.5) & (y > 0.0) & (y < 1.0)).any()])
            for y in self.y.split(_PART[self.device.type])
        ]
        ties, soft = torch.stack(kinds).any(dim=0).tolist() if kinds else (False, False)
        return bool(ties and not soft)

    def zero(self) -> Tensor:
        """Return the number 0 on the device."""
        return torch.zeros((), dtype=torch.float64, device=self.device)

    def codes(self, values: Codes) -> Tensor:
        """Return codes of items; there are fewer than 2³¹."""
        return self._plain(np.asarray(values, np.uint32).view(np.int32))

    def numbers(self, values: Any) -> Tensor:
        """Return numbers in double precision on the device."""
        return to_device(values, self.device)

    def parts(self) -> Iterator[VotePart]:
        """Yield all votes in parts."""
        size = _PART[self.device.type]
        for begin in range(0, len(self), size):
            rows = slice(begin, min(begin + size, len(self)))
            yield VotePart(
                rows,
                self.first[rows],
                self.second[rows],
                self.worker[rows],
                self.y[rows].to(torch.float64),
                self.n[rows].to(torch.float64),
            )

    def item_sums(self, bound: Tensor) -> ItemSums:
        """Return an accumulator by item for values of at most the bound."""
        return ItemSums(self.n_items, self.most_of_item, bound)

    def worker_sums(self, bound: Tensor, *shape: int) -> ExactSum:
        """Return an accumulator by worker for values of at most the bound."""
        return ExactSum((self.n_workers, *shape), self.most_of_worker, bound)

    def _plain(self, values: NDArray[Any]) -> Tensor:
        """Return an array unchanged, on the device."""
        with warnings.catch_warnings():  # the arrays are read-only, and nothing writes to them
            warnings.simplefilter("ignore", UserWarning)
            source = torch.from_numpy(np.ascontiguousarray(values))
        return _copied(source, self.device)


class ItemSums(ExactSum):
    """Sums by item over votes, for the first item and for the second."""

    def between(self, part: VotePart, values: Tensor) -> None:
        """Add values to the first item of every vote and subtract them from the second."""
        self.add(part.first, values)
        self.add(part.second, values, sign=-1)


def _copied(source: Tensor, device: Any) -> Tensor:
    """Copy a tensor to the device; a long one goes through two pinned buffers in turn."""
    if device.type == "cpu" or source.dim() != 1 or len(source) < 2 * _STAGE:
        return source.to(device, copy=True)
    result = torch.empty(len(source), dtype=source.dtype, device=device)
    buffers = [torch.empty(_STAGE, dtype=source.dtype, pin_memory=True) for _ in range(2)]
    free = [torch.cuda.Event() for _ in range(2)]
    for number, begin in enumerate(range(0, len(source), _STAGE)):
        part, at = source[begin : begin + _STAGE], number % 2
        free[at].synchronize()
        held = buffers[at][: len(part)].copy_(part)
        result[begin : begin + _STAGE].copy_(held, non_blocking=True)
        free[at].record()
    torch.cuda.synchronize(device)
    return result
