"""Votes larger than memory: shards in files, passed one after the other.

The votes, and what passes keep for them, are mapped from files (`crowdsift/spill.hpp`). While a shard is passed the
next one is read ahead; afterwards its pages leave the process. So a fit by any method holds item vectors, workers'
parameters and about one shard.
"""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from crowdsift.engines import cpu
from crowdsift.engines.cpu.engine import evict, spill_to
from crowdsift.engines.sharded import InProcess, Plan, ShardedEngine
from crowdsift.engines.shards import of_workers, shared_pairs, worker_ranges
from crowdsift.errors import RequestError, ResourceError
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.resources import require_disk, size_of
from crowdsift.io.streamed import mapped_votes
from crowdsift.votes.comparisons import Comparisons, advise

# Most bytes per vote that passes keep, by the capability that is used.
_KEPT = {"slopes": 16, "counts": 16}
_MOST_KEPT = 64
_SHARE = 4  # a shard and its arrays take this fraction of the memory


class OnDisk(InProcess):
    """Shards in files, processed in turn; the next one is prefetched."""

    def __init__(self, parts: Sequence[Comparisons], folder: str) -> None:
        self._parts, self._folder = parts, folder

    def call(self, parts: Sequence[Any], name: str, calls: Sequence[Any]) -> list[Any]:
        """Call a method of every part; its pages are released when it is done."""
        with spilling(self._folder):
            return self._one_by_one(parts, name, calls)

    def _one_by_one(self, parts: Sequence[Any], name: str, calls: Sequence[Any]) -> list[Any]:
        """Call every part in turn; the next one is read from disk meanwhile."""
        found = []
        for at, (part, arguments) in enumerate(zip(parts, calls, strict=True)):
            if at + 1 < len(parts):
                advise(self._parts[at + 1].columns, ahead=True)
            try:
                found.append(getattr(part, name)(**arguments))
            except Exception as error:
                # DuckDB, if it is loaded, converts the core's error to its own.
                if not isinstance(error, MemoryError) and "OutOfMemory" not in type(error).__name__:
                    raise
                raise ResourceError(
                    "there is no room for what a pass keeps of votes, in memory or on the disk; "
                    "set TMPDIR to a folder on a larger disk"
                ) from None
            leave(self._parts[at])
        return found


@contextmanager
def spilling(folder: str) -> Iterator[None]:
    """Keep large arrays that this thread makes within the context in files of a folder."""
    spill_to(folder)
    try:
        yield
    finally:
        spill_to("")


def leave(votes: Comparisons) -> None:
    """Release the pages of a shard, and of everything that passes keep."""
    advise(votes.columns, ahead=False)
    evict()


class DiskEngine(ShardedEngine):
    """Shards in files; `close` removes the files of passes."""

    folder: TemporaryFolder

    def close(self) -> None:
        self._shards = ()
        gc.collect()  # objects of passes may be in reference cycles
        self.folder.close()


def engine(comparisons: Comparisons, threads: int, *, memory: str = "4GB", needs: str = "grid") -> DiskEngine:
    """Return shards in files, each of which uses a part of the memory."""
    # `comparisons` are the votes; if they are in memory they are written to files first. `needs` is the capability that
    # will be used; only "grid" needs the pairs that several shards have.
    if sys.platform != "linux":  # only there the core maps files of passes
        raise RequestError("votes in files need Linux; use a machine with more memory")
    if comparisons.features is not None:
        raise RequestError("votes with features are not kept in files; give more --memory")
    held = 16 + _KEPT.get(needs, _MOST_KEPT)
    each = size_of(memory) // _SHARE // held
    shards = max(-(-len(comparisons) // max(each, 1)), 1)
    folder = TemporaryFolder()
    try:
        require_disk(held * len(comparisons), f"fitting {len(comparisons):,} comparisons")
        votes = comparisons
        if not votes.on_disk:
            votes = mapped_votes(Path(folder.path), comparisons)
        bounds = worker_ranges(votes.offsets, shards)
        parts = [of_workers(votes, begin, end) for begin, end in pairwise(bounds)]
        lists, places, count = shared_pairs(parts) if needs == "grid" else ([], [], 0)
        engines = []
        with spilling(folder.path):
            for at, part in enumerate(parts):
                engines.append(cpu.engine(part, threads, lists[at] if lists else None))
                leave(part)
        plan = Plan(bounds, tuple(places), count, OnDisk(parts, folder.path))
        made = DiskEngine(engines, plan, ties=votes.ties_are_outcomes)
        made.folder = folder
        return made
    except BaseException:
        folder.close()
        raise
