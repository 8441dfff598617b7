"""Votes beyond a device's memory: shards in the memory of the host, each sent when it is passed.

The shards are those of `engines.sharded`, one engine on tensors each. What a shard holds of its
votes lies in the memory of the host; a call brings it to the device, and lets go of it there when
it is done. The first shards, as many as there is room for, stay there. Tensors of shards are
replaced and never changed, so what has come back once need not come back again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from crowdsift.engines.sharded import InProcess, Plan, ShardedEngine
from crowdsift.engines.shards import of_workers, shared_pairs, worker_ranges
from crowdsift.engines.torch.device import bytes_a_vote, free_memory, gib, memory_errors
from crowdsift.engines.torch.grid import DenseFactoriser
from crowdsift.engines.torch.torch_engine import TorchEngine
from crowdsift.engines.torch.votes import from_device, staged
from crowdsift.errors import ResourceError
from crowdsift.io.resources import available_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from crowdsift.engines.base import ContextEngine
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["Streamed", "StreamedEngine", "leave", "streamed_engine", "tensors"]

_SHARE = 0.1  # of the free memory of a device that one shard may take
_RESIDENT = 7  # shards that stay there; one more is passed, and there is some room
_OURS = "crowdsift.engines.torch"
_SMALL = 1 << 16  # bytes of a tensor that stays


class Streamed(InProcess):
    """Shards one after the other, each on the device only while it is called."""

    def __init__(
        self, device: torch.device, votes: int = 0, each: int = 0, resident: int = 0
    ) -> None:
        self._device, self._votes, self._each, self._resident = device, votes, each, resident

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
        result = None
        with memory_errors(self._device, self._votes, self._each):
            try:
                for tensor in tensors(part):
                    _bring(tensor, self._device)
                result = getattr(part, name)
                if arguments is not None:
                    result = result(**arguments)
            finally:
                if at >= self._resident:
                    leave(part, result)
        return result


def tensors(*roots: Any) -> Iterator[Tensor]:
    """All tensors that what has passes holds, each once; a factoriser is no part of a shard."""
    seen: set[int] = set()
    left = list(roots)
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, tuple | list):
            left += value
        elif type(value).__module__.startswith(_OURS) and not isinstance(value, DenseFactoriser):
            left += getattr(value, "__dict__", {}).values()


def leave(*roots: Any) -> None:
    """Let go of what is on the device; what has no copy on the host yet gets one."""
    for tensor in tensors(*roots):
        if tensor.numel() * tensor.element_size() < _SMALL:
            continue
        if getattr(tensor, "kept", None) is None:
            tensor.kept = from_device(tensor)
        tensor.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)


def _bring(tensor: Tensor, device: torch.device) -> None:
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
    resident = _RESIDENT if shards is None else 0
    if shards is None:
        shards = -(-votes * each // max(int(_SHARE * free_memory(device)), 1))
        there = available_memory()
        if there is not None and votes * each > there:
            raise ResourceError(
                f"{votes:,} votes need about {gib(votes * each)}, more than {device} has free, "
                f"{gib(free_memory(device))}, and more than the host has to stream them from, "
                f"{gib(there)}: use engine 'disk', or fit fewer votes"
            )
    bounds = worker_ranges(comparisons.offsets, shards)
    parts = [of_workers(comparisons, begin, end) for begin, end in pairwise(bounds)]
    lists, places, count = shared_pairs(parts) if needs == "grid" else ([], [], 0)
    engines = []
    for at, part in enumerate(parts):
        made = StreamedShard(part, device, lists[at] if lists else None)
        if at >= resident:
            leave(made)
        engines.append(made)
    largest = max(len(part) for part in parts)
    plan = Plan(bounds, tuple(places), count, Streamed(device, largest, each, resident))
    found = StreamedEngine(engines, plan, ties=comparisons.ties_are_outcomes)
    found.device = device
    return found
