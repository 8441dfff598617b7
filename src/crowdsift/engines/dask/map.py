"""Shards on a cluster of Dask: the map between the sharded engine and worker processes.

A pass is one call per shard, all at once. Heartbeats run beside every call. If a worker is lost, its shards are rebuilt
on others, and the calls that left objects there are repeated in their order with the same arguments. So the fit ends
with the same bytes.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from distributed.comm.core import CommClosedError
from distributed.protocol import to_serialize

from crowdsift.engines.dask.shard import ENGINE, Call, Handle, Recipe, copied, handles_in, size
from crowdsift.engines.grid import GridSites
from crowdsift.errors import ResourceError

# seconds between heartbeats, and seconds until a silent worker counts as lost
HEARTBEAT, RESPONSE_TIMEOUT = (1.0, 10.0)
WORKER_TIMEOUT = 25.0  # seconds to wait for a new worker if none is left
LOST = (OSError, CommClosedError, asyncio.TimeoutError)


class VoteFiles(Protocol):
    """Votes that workers have read: where each shard is, and how to make it again from the files."""

    workers: list[str]

    async def supply(self, at: int, worker: str) -> None:
        """Make the votes of a lost shard again on a worker."""


async def connected_workers(client: Any) -> dict[str, Any]:
    """Return the workers that the scheduler knows now; raise an error if it does not answer."""
    try:
        known = await asyncio.wait_for(client.scheduler.identity(), RESPONSE_TIMEOUT)
    except (*LOST, AttributeError):
        raise ResourceError(
            f"the scheduler {client.scheduler.address} is gone; start it and its workers again and repeat the fit"
        ) from None
    return dict(known["workers"])


_CHANGING = {
    name for protocol in GridSites.__mro__ for name, each in vars(protocol).items() if getattr(each, "changes", False)
}


@dataclass
class _Origin:
    """The origin of an object of a shard: the calls, and the object on which they were made."""

    parent: int
    calls: list[Call]
    children: int = 0
    alive: bool = True


@dataclass
class ShardRecord:
    """A shard: how it is made, where it lives, and which objects it holds."""

    at: int
    recipe: Recipe
    worker: str = ""
    next_number: int = ENGINE + 1
    unused: list[int] = field(default_factory=list)
    kept: dict[int, _Origin] = field(default_factory=lambda: {ENGINE: _Origin(-1, [])})

    def free(self) -> tuple[int, ...]:
        """Return the numbers of results that no later task depends on, and remove them from the record."""
        numbers = []
        while self.unused:
            number = self.unused.pop()
            numbers.append(number)
            if number in self.kept:
                self.kept[number].alive = False
                self._forget(number)
        return tuple(numbers)

    def _forget(self, number: int) -> None:
        record = self.kept.get(number)
        if record is None or record.alive or record.children:
            return  # another object depends on it
        del self.kept[number]
        if record.parent in self.kept:
            self.kept[record.parent].children -= 1
            self._forget(record.parent)

    def remember(self, call: Call, left: list[int]) -> None:
        """Record a call that left an object behind, or changed the object on which it was made."""
        call = replace(call, free=())
        self.next_number += len(left)
        for number in left:
            self.kept[number] = _Origin(call.number, [call])
            self.kept[call.number].children += 1
        if call.name in _CHANGING:
            self.kept[call.number].calls.append(call)

    def history(self) -> tuple[list[Call], set[int]]:
        """Return the calls to repeat on a new shard, and the numbers of results still needed."""
        calls = {call.order: call for record in self.kept.values() for call in record.calls}
        alive = {number for number, record in self.kept.items() if record.alive}
        return [calls[order] for order in sorted(calls)], alive


LOG = logging.getLogger("crowdsift.dask")
_FEW_ROWS = 200_000  # votes below which a product here takes less time than a call there
_MOST_LOSSES = 100  # losses during one call after which the fit, which kills its workers, is stopped


class Remote:
    """An object of a shard; the worker releases it when no reference is left here."""

    def __init__(self, shard: ShardRecord, number: int, laplacian: bool = False) -> None:
        self.shard, self.number, self.laplacian = shard, number, laplacian

    def __del__(self) -> None:
        if self.number != ENGINE:
            self.shard.unused.append(self.number)


@dataclass
class Traffic:
    """Network traffic: calls, bytes of arrays, and lost workers."""

    calls: int = 0
    sent: int = 0
    received: int = 0
    recovered: int = 0
    longest_recovery: float = 0.0


class DaskMap:
    """Shards of one fit on the workers of a cluster; see `crowdsift.engines.sharded.Map`."""

    def __init__(self, client: Any, fit: str, recipes: Sequence[Recipe], files: VoteFiles | None = None) -> None:
        self._client, self._fit, self._order, self._files = client, fit, 0, files
        there = files.workers if files is not None else [""] * len(recipes)
        self.shards = [
            ShardRecord(at, recipe, worker) for at, (recipe, worker) in enumerate(zip(recipes, there, strict=True))
        ]
        self.traffic = Traffic()

    def start(self) -> list[Remote]:
        """Build all shards, spread over the workers, and return their engines."""
        self._client.sync(self._start)
        return [Remote(shard, ENGINE) for shard in self.shards]

    def close(self) -> None:
        """Release all shards."""
        self._client.sync(self._close)

    def call(self, parts: Sequence[Any], name: str, calls: Sequence[dict[str, Any]]) -> list[Any]:
        """Call a method of every part, all at the same time."""
        copies: dict[int, Any] = {}  # copied because callers may change arrays later, and calls may be repeated
        given = [{key: copied(value, copies) for key, value in each.items()} for each in calls]
        self.traffic.calls += 1
        return self._sync(parts, name, given)

    def get(self, parts: Sequence[Any], name: str) -> list[Any]:
        return self._sync(parts, name, [None] * len(parts))

    def query_votes(self, what: str, given: Any = None) -> list[Any]:
        """Return the answer of every shard's process to a query about its votes."""

        async def every() -> list[Any]:
            return list(await asyncio.gather(*(self._request_or_recover(each, what, given) for each in self.shards)))

        return [found["answer"] for found in self._client.sync(every)]

    def gathers(self, parts: Sequence[Remote]) -> bool:
        """Return whether fetching all pairs of a Laplacian once is cheaper than many products there."""
        rows = sum(shard.recipe.rows for shard in self.shards)
        return rows <= _FEW_ROWS and all(part.laplacian for part in parts)

    def _sync(self, parts: Sequence[Remote], name: str, calls: Sequence[Any]) -> list[Any]:
        self._order += 1

        async def every() -> list[Any]:
            jobs = zip(parts, calls, strict=True)
            return list(await asyncio.gather(*(self._call_shard(part, name, each) for part, each in jobs)))

        answers = self._client.sync(every)
        return [self._wrapped(part.shard, each) for part, each in zip(parts, answers, strict=True)]

    async def _call_shard(self, part: Remote, name: str, arguments: dict[str, Any] | None) -> Any:
        shard = part.shard
        free = shard.free()
        call = Call(part.number, name, arguments, shard.next_number, self._order, free)
        answer = (await self._request_or_recover(shard, "call", call))["answer"]
        shard.remember(call, handles_in(answer))
        self.traffic.sent += size(arguments)
        self.traffic.received += size(answer)
        return answer

    async def _request_or_recover(self, shard: ShardRecord, what: str, given: Any) -> Any:
        """Return the answer of a shard's process, or of its replacement if it is lost."""
        for _ in range(_MOST_LOSSES):
            try:
                found = await self._request(shard.worker, what, shard.at, given)
                if "answer" in found:
                    return found
                error: BaseException = OSError("its process was restarted")
            except LOST as lost:
                error = lost
            await self._recover(shard, error)
        raise ResourceError(
            f"workers were lost {_MOST_LOSSES} times during one pass; they may "
            "lack memory: use more workers or more shards"
        )

    def _wrapped(self, shard: ShardRecord, answer: Any) -> Any:
        """Return an answer whose handles are objects that can be called."""
        if isinstance(answer, Handle):
            remote = Remote(shard, answer.number, answer.laplacian)
            return self._function(remote) if answer.function else remote
        if isinstance(answer, tuple):
            parts = [self._wrapped(shard, part) for part in answer]
            return type(answer)(*parts) if hasattr(answer, "_fields") else tuple(parts)
        if isinstance(answer, np.ndarray) and not answer.flags.writeable:
            return answer.copy()
        return answer

    def _function(self, remote: Remote) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            return self.call([remote], "__call__", [{"*": given}])[0]

        return call

    async def _request(self, worker: str, what: str, shard: int, given: Any = None) -> Any:
        """Send a call and wait as long as the worker answers heartbeats."""
        request = asyncio.ensure_future(
            self._client.rpc(worker).crowdsift(what=what, fit=self._fit, shard=shard, given=to_serialize(given))
        )
        try:
            while not (await asyncio.wait({request}, timeout=HEARTBEAT))[0]:
                await self._heartbeat(worker)
            return request.result()
        finally:
            if not request.done():
                request.cancel()

    async def _heartbeat(self, worker: str) -> None:
        if worker not in await connected_workers(self._client):
            raise OSError(f"the scheduler has lost {worker}")
        # Twice as long as the scheduler waits: a busy machine is slow to answer, and not lost.
        await asyncio.wait_for(self._client.rpc(worker).crowdsift_alive(), 2 * RESPONSE_TIMEOUT)

    async def _start(self) -> None:
        workers = sorted(await connected_workers(self._client))
        for shard in self.shards:
            shard.worker = shard.worker or workers[shard.at % len(workers)]

        async def build(shard: ShardRecord) -> None:
            try:
                if "answer" in await self._request(shard.worker, "build", shard.at, shard.recipe):
                    return
                raise OSError("its process was restarted")
            except LOST as error:
                await self._recover(shard, error)

        await asyncio.gather(*(build(shard) for shard in self.shards))

    async def _recover(self, shard: ShardRecord, error: BaseException) -> None:
        """Rebuild a shard on a living worker, and repeat the calls on which later ones depend."""
        began, lost = time.monotonic(), shard.worker
        LOG.warning("shard %d of %s is lost (%s); it is made again", shard.at, lost, error)
        while True:
            worker = await self._least_busy(began)
            try:
                if self._files is not None:
                    await self._files.supply(shard.at, worker)
                await self._request(worker, "build", shard.at, shard.recipe)
                await self._request(worker, "replay", shard.at, shard.history())
            except LOST:
                continue
            shard.worker = worker
            break
        taken = time.monotonic() - began
        self.traffic.recovered += 1
        self.traffic.longest_recovery = max(self.traffic.longest_recovery, taken)
        LOG.warning("shard %d is on %s after %.1f s", shard.at, shard.worker, taken)

    async def _least_busy(self, began: float) -> str:
        """Return the living worker with the fewest shards; wait a while for one to appear."""
        while True:
            held = [shard.worker for shard in self.shards]
            for worker in sorted(await connected_workers(self._client), key=lambda each: (held.count(each), each)):
                try:
                    await asyncio.wait_for(self._client.rpc(worker).crowdsift_alive(), RESPONSE_TIMEOUT / 2)
                except (*LOST, AttributeError, ValueError):  # the worker is gone, or not yet prepared
                    continue
                return worker
            if time.monotonic() - began > WORKER_TIMEOUT:
                raise ResourceError(
                    f"no worker of the cluster is left after {WORKER_TIMEOUT:.0f} s; start workers and repeat the fit"
                )
            await asyncio.sleep(0.2)

    async def _close(self) -> None:
        for worker in {shard.worker for shard in self.shards}:
            try:
                dropping = self._client.rpc(worker).crowdsift(what="drop", fit=self._fit, shard=0)
                await asyncio.wait_for(dropping, RESPONSE_TIMEOUT / 2)
            except (*LOST, ResourceError):
                continue
