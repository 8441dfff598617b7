"""The part of crowdsift in a Dask worker: it stores shards and answers calls on them.

Calls go from the client to the worker itself, not through the scheduler, and run beside the worker's event loop, which
goes on to answer heartbeats.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin
from distributed.protocol import to_serialize

from crowdsift.engines.dask.shard import Shard
from crowdsift.engines.shards import distinct_pairs
from crowdsift.votes.comparisons import Comparisons

NAME = "crowdsift-shards"
_FORGOTTEN = 6 * 3600.0  # seconds after which shards of a lost client are released


class ShardPlugin(WorkerPlugin):  # type: ignore[misc]
    """Shards of any number of fits, each identified by the fit and its place in it."""

    name = NAME

    def setup(self, worker: Any) -> None:
        """Accept calls; a second fit finds the shards of the first one unchanged."""
        there = getattr(worker, "_crowdsift", None)
        if there is None:
            there = _Shards(ThreadPoolExecutor(max(worker.state.nthreads, 1), "crowdsift"))
            worker._crowdsift = there
        worker.handlers["crowdsift"] = there.handle
        worker.handlers["crowdsift_alive"] = there.alive


class _Shards:
    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool, self._shards = pool, dict[tuple[str, int], Shard]()
        self._read: dict[tuple[str, int], Comparisons] = {}
        self._used: dict[str, float] = {}

    def keep(self, key: tuple[str, int], votes: Comparisons) -> None:
        """Keep votes of a shard that this worker has read."""
        self._used[key[0]] = time.monotonic()
        self._read[key] = votes

    async def alive(self) -> str:
        return "OK"

    async def handle(self, what: str, fit: str, shard: int, given: Any = None) -> Any:
        loop = asyncio.get_running_loop()
        self._used[fit] = time.monotonic()
        return await loop.run_in_executor(self._pool, self._do, what, (fit, shard), given)

    def _do(self, what: str, key: tuple[str, int], given: Any) -> Any:
        """Answer a request about a shard; the answer is `lost` if this process no longer has it."""
        if what == "drop":
            self._drop(key[0])
            return "OK"
        if what == "build":
            for fit, used in list(self._used.items()):
                if time.monotonic() - used > _FORGOTTEN:
                    self._drop(fit)
            if given.votes is None and key not in self._read:
                return {"lost": True}
            self._shards[key] = Shard.of(given, self._read.get(key))
            return {"answer": "OK"}
        if what in ("pairs", "votes"):
            return self._answer_from_votes(what, self._read.get(key), given)
        if key not in self._shards:  # the process was restarted under the same address
            return {"lost": True}
        if what == "replay":
            self._shards[key].replay(*given)
            return "OK"
        return {"answer": to_serialize(self._shards[key].call(given))}

    def _answer_from_votes(self, what: str, votes: Comparisons | None, given: Any) -> Any:
        """Return the pairs of a range of items as numbers, or all votes if they are few."""
        if votes is None:
            return {"lost": True}
        if what == "pairs":
            return {"answer": to_serialize(distinct_pairs(votes, *given))}
        columns = (votes.first, votes.second, votes.outcome, votes.weight)
        return {"answer": to_serialize(columns)}

    def _drop(self, fit: str) -> None:
        self._used.pop(fit, None)
        for held in (self._shards, self._read):
            for key in [key for key in held if key[0] == fit]:
                del held[key]
