"""Votes with a site, by outcome: a soft outcome is a win and a loss; and the pairs of these votes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch

from crowdsift.engines.torch.triton_counts import CountRoom
from crowdsift.engines.torch.votes import VoteTensors

if TYPE_CHECKING:
    from torch import Tensor

_NEAR = 1 << 20  # items of which a few numbers each fit into the cache of a GPU
_CHUNK = 256  # most votes of one worker for one program of a kernel
_NUMBERS = {"cpu": 1 << 22, "cuda": 1 << 27}  # numbers that a pass over votes and types holds at once


class PairIndex(NamedTuple):
    """Compared pairs, lower item first, sorted by ranges of the higher item.

    Within a range of a million higher items, pairs are sorted by the lower item. So accesses to lower items are
    contiguous, and those to higher items are close in memory.

    `degrees` is the number of pairs of each item, `most` the largest of these. The rows on a pair are those of `order`
    from its place in `offsets` on.
    """

    low: Tensor
    high: Tensor
    most: int
    degrees: Tensor
    offsets: Tensor
    order: Tensor

    def __len__(self) -> int:
        return len(self.low)


class Chunks(NamedTuple):
    """Runs of rows of one worker each, of limited length; `most` is the largest number of runs of a worker."""

    worker: Tensor
    begin: Tensor
    end: Tensor
    most: int
    first: Tensor  # the first chunk of every worker, then the end of the last


class SiteRows:
    """Rows with a site, by worker: pair, sign, kind and weight; shared by all runs of a fit.

    `sign` is +1 where the winner is the lower item. `kind` is 1 where the first item won, -1 where the second did, 2
    for a tie. The rows of each worker begin at `offsets`.
    """

    def __init__(self, votes: VoteTensors, ties: bool) -> None:
        self.device, self.votes = votes.device, votes
        self._chunks: Chunks | None = None
        self.rooms: dict[object, CountRoom] = {}  # caches for counts of types; see `triton_counts`
        y = votes.y
        tied = (y == 0.5) & ties
        won, lost = (y > 0) & ~tied, (y < 1) & ~tied
        first, second, self.worker, n = votes.first, votes.second, votes.worker, votes.n
        if bool((won & lost).any()):
            rows = torch.cat([torch.nonzero(kind)[:, 0] for kind in (won, lost, tied)])
            counts = torch.tensor([int(kind.sum()) for kind in (won, lost, tied)])
            kinds = torch.tensor([1, -1, 2], dtype=torch.int8)
            kind = torch.repeat_interleave(kinds, counts).to(self.device)
            order = torch.argsort(votes.worker[rows], stable=True)
            rows, self.kind = rows[order], kind[order]
            back = self.kind == -1
            share = torch.where(back, 1.0 - y[rows], y[rows])
            n = n[rows] * torch.where(self.kind == 2, 1.0, share)
            first, second, self.worker = first[rows], second[rows], self.worker[rows]
        else:
            self.kind = torch.where(tied, 2, torch.where(lost, -1, 1)).to(torch.int8)
            back = lost
        self.n = n
        self.sign = torch.where((first < second) != back, 1, -1).to(torch.int8)
        held = torch.bincount(self.worker, minlength=votes.n_workers)
        self.offsets = torch.zeros(len(held) + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(held, 0, out=self.offsets[1:])
        self.everyone = torch.ones(votes.n_workers, dtype=torch.bool, device=self.device)
        self._counted: dict[int, tuple[Tensor, Tensor]] = {}
        self.held, self.most_of_worker = held, int(held.max()) if len(held) else 0
        self.ones = bool((n == 1.0).all())
        self.pairs, self.pair = _pairs(first, second, votes.n_items)

    def __len__(self) -> int:
        return len(self.kind)

    def parts(self, numbers: int = 1) -> Iterator[slice]:
        """Yield all rows in blocks; `numbers` is how many numbers each row needs."""
        size = max(_NUMBERS[self.device.type] // numbers, 1)
        for begin in range(0, len(self), size):
            yield slice(begin, min(begin + size, len(self)))

    def counted(self, before_gold: int, *, numbers: bool = False) -> Tensor:
        """Return whether each worker has votes and is not gold, as 0 and 1 if `numbers` is set."""
        if before_gold not in self._counted:
            mask = self.held > 0
            mask[before_gold:] = False
            self._counted[before_gold] = mask, mask.to(torch.float64)
        return self._counted[before_gold][int(numbers)]

    def chunks(self) -> Chunks:
        """Return runs of rows of one worker each, computed once."""
        if self._chunks is None:
            self._chunks = self._cut()
        return self._chunks

    def _cut(self) -> Chunks:
        each = torch.div(self.held + (_CHUNK - 1), _CHUNK, rounding_mode="floor")
        workers = torch.arange(len(each), dtype=torch.int32, device=self.device)
        worker = torch.repeat_interleave(workers, each)
        first = torch.cumsum(each, 0) - each
        number = torch.arange(len(worker), device=self.device) - first.index_select(0, worker)
        begin = self.offsets.index_select(0, worker) + _CHUNK * number
        end = torch.minimum(begin + _CHUNK, self.offsets.index_select(0, worker + 1))
        bounds = torch.cat([first, each.sum()[None]])
        return Chunks(worker, begin, end, int(each.max()) if len(each) else 0, bounds)

    def side(self, rows: slice, before_gold: int) -> Tensor:
        """Return +1 if the winner stood first (ties: the first item), -1 if second, 0 for gold."""
        x = torch.where(self.kind[rows] == -1, -1.0, 1.0)
        return torch.where(self.worker[rows] < before_gold, x, 0.0).to(torch.float64)


def _key(one: Tensor, two: Tensor, n_items: int, near: int) -> Tensor:
    """Return sort keys of pairs: range of the higher item, then lower item, then place in the range."""
    low, high = torch.minimum(one, two).to(torch.int64), torch.maximum(one, two)
    found: Tensor = low.add_(torch.div(high, near, rounding_mode="floor"), alpha=n_items)
    return found.mul_(near).add_(high % near)


def _pairs(first: Tensor, second: Tensor, n_items: int) -> tuple[PairIndex, Tensor]:
    """Return the compared pairs, and the pair of every row."""
    near = n_items if n_items <= 2 * _NEAR else _NEAR
    key, order = torch.sort(_key(first, second, n_items, near), stable=True)
    new = torch.ones(len(key), dtype=torch.bool, device=key.device)
    torch.ne(key[1:], key[:-1], out=new[1:])
    number = torch.cumsum(new, 0, dtype=torch.int32) - 1
    pair = torch.empty_like(number).index_copy_(0, order, number)
    del number
    begin = torch.nonzero(new)[:, 0]
    key, order = key.index_select(0, begin), order.to(torch.int32)
    del new
    offsets = torch.cat([begin, begin.new_full((1,), len(pair))]).to(torch.int32)
    upper = key // near
    low = (upper % n_items).to(torch.int32)
    high = (upper // n_items * near + key % near).to(torch.int32)
    del upper
    held = torch.bincount(low, minlength=n_items) + torch.bincount(high, minlength=n_items)
    return PairIndex(low, high, int(held.max()), held.to(torch.float64), offsets, order), pair
