"""Votes beyond a device's memory: shards in the memory of the host, each sent when it is passed.

The shards are those of `engines.sharded`, one engine on tensors each. What a shard holds of its
votes lies in the memory of the host, where the device reads it by itself; a call brings it to the
device, and lets go of it there when it is done. Tensors of shards are replaced and never changed,
so what has come back once need not come back again.

Most calls are products, sweeps of belief propagation and counts of types, which need a part of what
a shard holds. They bring no more than that, and it stays on the device as long as there is room;
so do the first shards, whole. Where more is held than there is room for, they leave first.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np
import torch

from crowdsift.engines.sharded import InProcess, Plan, ShardedEngine
from crowdsift.engines.shards import SharedPairs, of_workers, worker_ranges
from crowdsift.engines.torch.device import (
    allocated,
    bytes_a_vote,
    free_memory,
    gib,
    memory_errors,
)
from crowdsift.engines.torch.grid import DenseFactoriser
from crowdsift.engines.torch.torch_engine import TorchEngine
from crowdsift.engines.torch.votes import from_device, staged
from crowdsift.errors import ResourceError
from crowdsift.io.resources import available_memory

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence
    from weakref import ReferenceType

    from numpy.typing import NDArray
    from torch import Tensor

    from crowdsift.engines.base import ContextEngine
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["Streamed", "StreamedEngine", "leave", "streamed_engine", "tensors"]

_SHARE = 0.1  # of the free memory of a device that one shard may take
_ROOM = 0.4  # of it for what stays there; the rest is for the shard that is passed
_RESIDENT = 2  # shards that stay there to begin with
_OURS = "crowdsift.engines.torch"
_SMALL = 1 << 16  # bytes of a tensor that stays

# What frequent calls need of a class; of one that is not here, all.
_HOT = {
    "StreamedShard": (),
    "TorchGrid": (),
    "TorchCounts": (),
    "TorchSites": ("_types", "_pairs", "_rows"),
    "SiteRows": ("held", "everyone", "rooms", "_counted"),
    "PairState": ("_a", "_to_low", "_to_high", "_low", "_high", "_pairs"),
    "PairIndex": ("low", "high", "mine", "shared", "shared_mine"),
    "PairLaplacian": ("_low", "_high", "_weight", "_diagonal", "_matrix", "_bound"),
    "SlopeHessian": ("a", "b", "_inverse", "_a_most", "_b_most", "_votes"),
    "Reduced": ("_a", "_b", "_inverse", "_votes"),
    "VoteTensors": ("first", "second", "worker", "offsets", "heaviest"),
}
_FREQUENT = frozenset(
    (kind, name)
    for kind in ("PairLaplacian", "SlopeHessian", "Reduced")
    for name in ("multiply", "diagonal")
) | {("TorchSites", name) for name in ("type_counts", "propagate", "refine")}
_KEYS = 4_000_000  # pairs that are sorted at once
_OFTEN = 2  # shards between two looks at what is held, which take a third of a millisecond


class Streamed(InProcess):
    """Shards one after the other, each on the device only while it is called."""

    def __init__(
        self, device: torch.device, votes: int = 0, each: int = 0, resident: int = 0,
        room: float = np.inf,
    ) -> None:  # fmt: skip
        self._device, self._votes, self._each, self.resident = device, votes, each, resident
        self._most = allocated(device) + room  # bytes that may be held between calls
        self.warm = 0 if room == 0.0 else sys.maxsize  # shards of which frequent parts stay
        self._seen: dict[int, dict[int, ReferenceType[Any]]] = {}

    def call(self, parts: Sequence[Any], name: str, calls: Sequence[dict[str, Any]]) -> list[Any]:
        """Call a method of every part."""
        return [
            self._called(at, part, name, arguments)
            for at, (part, arguments) in enumerate(zip(parts, calls, strict=True))
        ]

    def get(self, parts: Sequence[Any], name: str) -> list[Any]:
        """An attribute of every part, which may be made when it is asked for."""
        return [self._called(at, part, name, None) for at, part in enumerate(parts)]

    def _called(self, at: int, part: Any, name: str, arguments: dict[str, Any] | None) -> Any:
        """Bring a shard's tensors to the device, call it or read its attribute, let them go."""
        frequent = (type(part).__name__, name) in _FREQUENT
        if arguments is not None and arguments.get("last"):  # the last sweep needs variances
            frequent = False
        self._seen.setdefault(at, {})[id(part)] = ref(part)
        result = None
        with memory_errors(self._device, self._votes, self._each):
            try:
                if at >= self.resident:
                    for tensor in tensors(part, hot=frequent):
                        _to_device(tensor, self._device)
                result = getattr(part, name)
                if arguments is not None:
                    result = result(**arguments)
            finally:
                if at >= self.warm:
                    leave(part, result)
                elif at >= self.resident and not frequent:
                    stay = {id(tensor) for tensor in tensors(part, result, hot=True)}
                    leave(part, result, stay=stay)
        if not frequent and at % _OFTEN == 0:
            self._make_room(result, at)
        return result

    def _make_room(self, result: Any, at: int) -> None:
        """Whole shards leave where too much is held, then what frequent calls need of others."""
        count = max(self._seen) + 1
        while allocated(self._device) > self._most and (self.resident or self.warm):
            if self.resident:
                self.resident -= 1
                self._evict(self.resident, result if at == self.resident else None)
            else:
                self.warm = min(self.warm, count) - 1
                self._evict(self.warm, result if at == self.warm else None)

    def _evict(self, shard: int, result: Any) -> None:
        """All that is held of a shard."""
        parts = [there() for there in self._seen.get(shard, {}).values()]
        known = [part for part in parts if part is not None]
        self._seen[shard] = {id(part): ref(part) for part in known}
        leave(*known, result)


def tensors(*roots: Any, hot: bool = False) -> Iterator[Tensor]:
    """All tensors that what has passes holds, each once, or those that frequent calls need.

    A factoriser is no part of a shard.
    """
    seen: set[int] = set()
    left = list(roots)
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield value
        elif hot and type(value).__name__ in _HOT:
            left += [getattr(value, name) for name in _HOT[type(value).__name__]]
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, tuple | list):
            left += value
        elif type(value).__module__.startswith(_OURS) and not isinstance(value, DenseFactoriser):
            left += getattr(value, "__dict__", {}).values()


def leave(*roots: Any, stay: Container[int] = ()) -> None:
    """Let go of what is on the device; what has no copy on the host yet gets one."""
    for tensor in tensors(*roots):
        if tensor.numel() * tensor.element_size() < _SMALL or id(tensor) in stay:
            continue
        if getattr(tensor, "kept", None) is None:
            tensor.kept = from_device(tensor)
        tensor.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)


def _to_device(tensor: Tensor, device: torch.device) -> None:
    kept = getattr(tensor, "kept", None)
    if kept is not None and not tensor.numel():
        tensor.data = staged(kept, device)


class StreamedShard(TorchEngine):
    """A shard; its engine by context leaves the device, too."""

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        """See the protocol."""
        found = super().by_context(enough)
        if found is not None:
            leave(found.engine)
        return found


class StreamedEngine(ShardedEngine):
    """Shards in the memory of the host, passed on one device."""

    device: torch.device

    def describe(self) -> str:
        """Which device the passes run on, and in how many parts."""
        return f"torch {torch.__version__} on {self.device}, in {len(self._shards)} shards"

    def staying(self) -> str:
        """Of how many shards all, and of how many what is needed often, stays on the device."""
        link: Streamed = self._plan.map  # type: ignore[assignment]
        return f"{link.resident} whole, {min(link.warm, len(self._shards))} in part"


def streamed_engine(
    comparisons: Comparisons, device: torch.device, needs: str, shards: int | None = None
) -> StreamedEngine:
    """The votes in so many shards, or in so many that one fits into the device's memory.

    Raises
    ------
    ResourceError
        Where the host has no room for what the shards hold, either; with figures.
    """
    each, votes = bytes_a_vote(needs, comparisons), len(comparisons)
    resident, room = (_RESIDENT, _ROOM * free_memory(device)) if shards is None else (0, 0.0)
    if shards is None:
        shards = _count(votes, int(_SHARE * free_memory(device)) // each)
        there = available_memory()
        if there is not None and votes * each > there:
            raise ResourceError(
                f"{votes:,} votes need about {gib(votes * each)}, more than {device} has free, "
                f"{gib(free_memory(device))}, and more than the host has to stream them from, "
                f"{gib(there)}: use engine 'disk', or fit fewer votes"
            )
    bounds = worker_ranges(comparisons.offsets, shards)
    parts = [of_workers(comparisons, begin, end) for begin, end in pairwise(bounds)]
    lists, places, count = _shared_pairs(parts, device) if needs == "grid" else ([], [], 0)
    largest = max(len(part) for part in parts)
    link = Streamed(device, largest, each, resident, room)
    engines = []
    for at, part in enumerate(parts):
        made = StreamedShard(part, device, lists[at] if lists else None)
        if at >= resident:
            leave(made)
        engines.append(made)
    plan = Plan(bounds, tuple(places), count, link)
    found = StreamedEngine(engines, plan, ties=comparisons.ties_are_outcomes)
    found.device = device
    return found


def _shared_pairs(
    parts: Sequence[Comparisons], device: torch.device, most: int = _KEYS
) -> tuple[list[SharedPairs], list[NDArray[np.int64]], int]:
    """As `engines.shards.shared_pairs`, by sorting on the device, some pairs at a time."""
    k, total = parts[0].n_items, 0
    lists: list[list[SharedPairs]] = [[] for _ in parts]
    places: list[list[NDArray[np.int64]]] = [[] for _ in parts]
    steps = -(-sum(map(len, parts)) // most)
    for begin, end in pairwise(np.linspace(0, k, steps + 1).astype(int).tolist()):
        keys = [_keys(part, begin, end, device) for part in parts]
        every = torch.sort(torch.cat(keys)).values
        common = torch.unique_consecutive(every[1:][every[1:] == every[:-1]])
        seen = torch.zeros(len(common), dtype=torch.bool, device=device)
        for at, key in enumerate(keys):
            place = torch.nonzero(torch.isin(common, key, assume_unique=True))[:, 0]
            there = place.cpu().numpy()
            low, high = np.divmod(common[place].cpu().numpy(), k)
            owner = (~seen[place]).cpu().numpy()
            lists[at].append(SharedPairs(low.astype(np.uint32), high.astype(np.uint32), owner))
            places[at].append(there + total)
            seen[place] = True
        total += len(common)
    joined = [SharedPairs(*map(np.concatenate, zip(*each, strict=True))) for each in lists]
    return joined, [np.concatenate(each) for each in places], total


def _keys(votes: Comparisons, begin: int, end: int, device: torch.device) -> Tensor:
    """The distinct pairs whose lower item is in a range, as low·K + high."""
    codes = (torch.from_numpy(each.astype(np.int64)) for each in (votes.first, votes.second))
    one, two = (each.to(device) for each in codes)
    low, high = torch.minimum(one, two), torch.maximum(one, two)
    found: Tensor = torch.unique((low * votes.n_items + high)[(low >= begin) & (low < end)])
    return found


def _count(votes: int, most: int) -> int:
    """How many shards of about so many votes, a little less than a power of two.

    Memory of the host which a device reads by itself is given out in powers of two.
    """
    each = 1 << max(int(1.4 * most), 1).bit_length() - 1
    return -(-votes // max(int(0.97 * each), 1))
