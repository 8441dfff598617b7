"""Shards on a cluster of Dask: the map between the sharded engine and worker processes.

A pass is one call per shard, all at once. Every call is watched by heartbeats. Where a worker is
lost, its shards are rebuilt on others and the calls that left something behind there are repeated,
in their order, with the same arguments; so the fit ends with the same bytes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed.protocol import to_serialize

from crowdsift.engines.dask import watch
from crowdsift.engines.dask.held import ENGINE, Call, Held, Recipe, copied, left_in, size
from crowdsift.engines.dask.history import Place
from crowdsift.engines.dask.watch import LOST, VoteFiles, connected_workers
from crowdsift.errors import ResourceError

__all__ = ["DaskMap", "Remote", "Traffic"]

LOG = logging.getLogger("crowdsift.dask")
_FEW_ROWS = 200_000  # of votes, up to which a product here takes less than a call there
_MOST_LOSSES = 100  # of one call, before a fit that kills its workers is given up


class Remote:
    """Something that lives with a shard; let go there when nobody needs it here."""

    def __init__(self, place: Place, number: int, laplacian: bool = False) -> None:
        self.place, self.number, self.laplacian = place, number, laplacian

    def __del__(self) -> None:
        if self.number != ENGINE:
            self.place.unused.append(self.number)


@dataclass
class Traffic:
    """What went over the network: calls, bytes of arrays, and lost workers."""

    calls: int = 0
    sent: int = 0
    received: int = 0
    recovered: int = 0
    longest_recovery: float = 0.0


class DaskMap:
    """Shards of one fit on the workers of a cluster; see `crowdsift.engines.sharded.Map`."""

    def __init__(
        self, client: Any, fit: str, recipes: Sequence[Recipe], files: VoteFiles | None = None
    ) -> None:
        self._client, self._fit, self._order, self._files = client, fit, 0, files
        there = files.workers if files is not None else [""] * len(recipes)
        self.places = [
            Place(at, recipe, worker)
            for at, (recipe, worker) in enumerate(zip(recipes, there, strict=True))
        ]
        self.traffic = Traffic()

    def start(self) -> list[Remote]:
        """Build all shards, spread over the workers; their engines."""
        self._client.sync(self._start)
        return [Remote(place, ENGINE) for place in self.places]

    def close(self) -> None:
        """Let go of all shards."""
        self._client.sync(self._close)

    def call(self, parts: Sequence[Any], name: str, calls: Sequence[dict[str, Any]]) -> list[Any]:
        """Call a method of every part, all at once."""
        copies: dict[int, Any] = {}  # callers may change arrays later, and calls be repeated
        given = [{key: copied(value, copies) for key, value in each.items()} for each in calls]
        self.traffic.calls += 1
        return self._sync(parts, name, given)

    def get(self, parts: Sequence[Any], name: str) -> list[Any]:
        """An attribute of every part."""
        return self._sync(parts, name, [None] * len(parts))

    def ask(self, what: str, given: Any = None) -> list[Any]:
        """What the process of every shard says of its votes."""

        async def every() -> list[Any]:
            return list(
                await asyncio.gather(*(self._reach(each, what, given) for each in self.places))
            )

        return [found["answer"] for found in self._client.sync(every)]

    def gathers(self, parts: Sequence[Remote]) -> bool:
        """Whether fetching all pairs of a Laplacian once is cheaper than many products there."""
        rows = sum(place.recipe.rows for place in self.places)
        return rows <= _FEW_ROWS and all(part.laplacian for part in parts)

    def _sync(self, parts: Sequence[Remote], name: str, calls: Sequence[Any]) -> list[Any]:
        self._order += 1

        async def every() -> list[Any]:
            jobs = zip(parts, calls, strict=True)
            return list(await asyncio.gather(*(self._one(part, name, each) for part, each in jobs)))

        answers = self._client.sync(every)
        return [self._here(part.place, each) for part, each in zip(parts, answers, strict=True)]

    async def _one(self, part: Remote, name: str, arguments: dict[str, Any] | None) -> Any:
        place = part.place
        free = place.free()
        call = Call(part.number, name, arguments, place.following, self._order, free)
        answer = (await self._reach(place, "call", call))["answer"]
        place.note(call, left_in(answer))
        self.traffic.sent += size(arguments)
        self.traffic.received += size(answer)
        return answer

    async def _reach(self, place: Place, what: str, given: Any) -> Any:
        """The answer of a shard's process, of another one where it is lost."""
        for _ in range(_MOST_LOSSES):
            try:
                found = await self._ask(place.worker, what, place.at, given)
                if "answer" in found:
                    return found
                error: BaseException = OSError("its process was started anew")
            except LOST as lost:
                error = lost
            await self._recover(place, error)
        raise ResourceError(
            f"workers were lost {_MOST_LOSSES} times during one pass; they may lack memory: use "
            "more workers or more shards"
        )

    def _here(self, place: Place, answer: Any) -> Any:
        """An answer in which what lives with a shard can be called."""
        if isinstance(answer, Held):
            remote = Remote(place, answer.number, answer.laplacian)
            return self._function(remote) if answer.function else remote
        if isinstance(answer, tuple):
            parts = [self._here(place, part) for part in answer]
            return type(answer)(*parts) if hasattr(answer, "_fields") else tuple(parts)
        if isinstance(answer, np.ndarray) and not answer.flags.writeable:
            return answer.copy()
        return answer

    def _function(self, remote: Remote) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            return self.call([remote], "__call__", [{"*": given}])[0]

        return call

    async def _ask(self, worker: str, what: str, shard: int, given: Any = None) -> Any:
        """Send a call and wait as long as the worker's heart beats."""
        asking = asyncio.ensure_future(
            self._client.rpc(worker).crowdsift(
                what=what, fit=self._fit, shard=shard, given=to_serialize(given)
            )
        )
        try:
            while not (await asyncio.wait({asking}, timeout=watch.HEARTBEAT))[0]:
                await self._heartbeat(worker)
            return asking.result()
        finally:
            if not asking.done():
                asking.cancel()

    async def _heartbeat(self, worker: str) -> None:
        if worker not in await connected_workers(self._client):
            raise OSError(f"the scheduler has lost {worker}")
        # Twice as long as the scheduler has: a busy machine is slow to answer, and not lost.
        await asyncio.wait_for(
            self._client.rpc(worker).crowdsift_alive(), 2 * watch.RESPONSE_TIMEOUT
        )

    async def _start(self) -> None:
        workers = sorted(await connected_workers(self._client))
        for place in self.places:
            place.worker = place.worker or workers[place.at % len(workers)]

        async def build(place: Place) -> None:
            try:
                if "answer" in await self._ask(place.worker, "build", place.at, place.recipe):
                    return
                raise OSError("its process was started anew")
            except LOST as error:
                await self._recover(place, error)

        await asyncio.gather(*(build(place) for place in self.places))

    async def _recover(self, place: Place, error: BaseException) -> None:
        """Make a shard anew on a worker that lives, and repeat what is needed of its history."""
        began, lost = time.monotonic(), place.worker
        LOG.warning("shard %d of %s is lost (%s); it is made anew", place.at, lost, error)
        while True:
            worker = await self._least_busy(began)
            try:
                if self._files is not None:
                    await self._files.supply(place.at, worker)
                await self._ask(worker, "build", place.at, place.recipe)
                await self._ask(worker, "replay", place.at, place.history())
            except LOST:
                continue
            place.worker = worker
            break
        taken = time.monotonic() - began
        self.traffic.recovered += 1
        self.traffic.longest_recovery = max(self.traffic.longest_recovery, taken)
        LOG.warning("shard %d is on %s after %.1f s", place.at, place.worker, taken)

    async def _least_busy(self, began: float) -> str:
        """A living worker with the fewest shards; waits a while for one to appear."""
        while True:
            held = [place.worker for place in self.places]
            for worker in sorted(
                await connected_workers(self._client), key=lambda each: (held.count(each), each)
            ):
                try:
                    await asyncio.wait_for(
                        self._client.rpc(worker).crowdsift_alive(), watch.RESPONSE_TIMEOUT / 2
                    )
                except (*LOST, AttributeError, ValueError):  # gone, or not yet prepared
                    continue
                return worker
            if time.monotonic() - began > watch.WORKER_TIMEOUT:
                raise ResourceError(
                    f"no worker of the cluster is left after {watch.WORKER_TIMEOUT:.0f} s; start "
                    "workers and repeat the fit"
                )
            await asyncio.sleep(0.2)

    async def _close(self) -> None:
        for worker in {place.worker for place in self.places}:
            try:
                dropping = self._client.rpc(worker).crowdsift(what="drop", fit=self._fit, shard=0)
                await asyncio.wait_for(dropping, watch.RESPONSE_TIMEOUT / 2)
            except (*LOST, ResourceError):
                continue
