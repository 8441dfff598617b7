"""Votes that the workers of a cluster read: no row goes through the client.

Every worker finds the labels of some files; their union, sorted, gives the codes that one machine gives. Then rows are
read as codes, apart by ranges of workers, and sent from worker to worker: all votes of a worker are in one shard. A
lost shard is made again from the files that hold its rows; this module remembers which these are.
"""

import asyncio
import operator
import os
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from crowdsift._core import collapse
from crowdsift.engines.dask import map as shard_map
from crowdsift.engines.dask.cluster import Session
from crowdsift.engines.dask.map import LOST, connected_workers
from crowdsift.engines.shards import worker_ranges
from crowdsift.errors import CrowdsiftError, InputError, RequestError, ResourceError
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.options import ReadOptions
from crowdsift.io.streamed import Labels, ParquetVotes, by_range, merged_labels, plain_intake
from crowdsift.numeric import Codes, Indices
from crowdsift.votes.comparisons import Comparisons


class Range(NamedTuple):
    """A range of workers, by the codes of all labels; its votes are one shard."""

    begin: int
    end: int


def files_at(address: str) -> list[str]:
    """Return the Parquet files of a folder, of a pattern or of an fsspec address, in order."""
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(address)
        if system.isdir(path):
            found = [each for each in system.find(path) if each.endswith(".parquet")]
        else:
            found = [each for each in system.glob(path) if not system.isdir(each)]
    except (ImportError, ValueError) as error:
        raise RequestError(f"{address} cannot be opened by the workers: {error}") from None
    except OSError as error:
        raise InputError(f"it cannot be read by the workers: {error}", source=address) from None
    if not found:
        raise InputError(
            "the workers see no Parquet file there; give a folder, a pattern or an address that all of them see",
            source=address,
        )
    return [system.unstrip_protocol(each) for each in sorted(found)]


@contextmanager
def _opened(file: str, options: dict[str, Any]) -> Iterator[ParquetVotes]:
    """Return one file; it is copied to this machine unless it is on a disk that this worker sees."""
    from fsspec.core import url_to_fs

    given = ReadOptions(**options)
    folder = TemporaryFolder()
    votes = None
    try:
        system, path = url_to_fs(file)
        local = "file" in (system.protocol if isinstance(system.protocol, tuple) else ())
        shown, here = (path, path) if local else (file, os.path.join(folder.path, "part.parquet"))
        try:
            if not local:
                system.get_file(path, here)
            votes = ParquetVotes(here, 1)
            for part in votes._parts:
                part.source = shown
            votes.source = shown
            if not votes.suits(given):
                raise InputError(
                    "workers of a cluster read Parquet with the columns winner, loser and worker, "
                    "all text or all integers, and no weight; read other votes with --engine cpu",
                    source=shown,
                )
            yield votes
        except InputError as error:
            raise InputError(str(error).replace(here, shown)) from None
        except OSError as error:
            raise _of_disk(error, shown) from None
    finally:
        if votes is not None:
            votes.close()
        folder.close()


def _of_disk(error: OSError, shown: str) -> Exception:
    if error.errno == 28:
        return ResourceError(f"the disk of a worker is full while it reads {shown}; make room")
    return InputError(f"it cannot be read by a worker: {error}", source=shown)


def labels_of(files: Sequence[str], options: dict[str, Any]) -> Labels:
    """Return the distinct labels of some files."""
    found = []
    for file in files:
        with _opened(file, options) as votes:
            found.append(votes.find_labels())
    return united_labels(found)


def united_labels(parts: Sequence[Labels]) -> Labels:
    """Return the labels of all parts; they must have one type, text or integers, in all files."""
    kinds = {type(each) for part in parts for each in (*part.items[:1], *part.workers[:1])}
    if len(kinds) > 1:
        raise InputError("labels are text in some files and integers in others; write all in one type")
    return merged_labels(parts)


def coded_blocks(file: str, options: dict[str, Any], labels: Labels, ranges: Sequence[Range]) -> list[Codes]:
    """Return the rows of a file as codes, separated by ranges of workers; others are left out."""
    blocks: list[list[Codes]] = [[] for _ in ranges]
    bounds = sorted({bound for each in ranges for bound in each} | {0, len(labels.workers)})
    place = {each.begin: at for at, each in enumerate(ranges)}
    with _opened(file, options) as votes:
        votes.take_codes(labels)
        for rows in votes.chunks():
            for begin, some in zip(bounds, by_range(rows, bounds), strict=False):
                if begin in place:
                    blocks[place[begin]].append(some)
    return [np.concatenate([np.empty((0, 3), np.uint32), *each]) for each in blocks]


def hold_votes(blocks: Sequence[Codes], key: tuple[str, int], own: Range, n_items: int) -> tuple[Indices, list[int]]:
    """Sort the votes of a range of workers and keep them in this process."""
    # Returns the offsets of workers, and the number of rows of each block.
    from distributed import get_worker

    rows = np.concatenate(blocks)
    first, second, worker = (np.ascontiguousarray(rows[:, each]) for each in range(3))
    del rows
    worker -= np.uint32(own.begin)
    made = collapse(first, second, worker, None, None, None, n_items, own.end - own.begin, False, 1)
    nothing = np.full(n_items, None, dtype=object)
    votes = Comparisons(
        first=made[0],
        second=made[1],
        outcome=made[2],
        weight=made[3],
        offsets=made[6],
        items=nothing,
        workers=np.full(own.end - own.begin, None, dtype=object),
        rows=len(first),
    )
    get_worker()._crowdsift.keep(key, votes)
    return np.asarray(made[6]), [len(block) for block in blocks]


_TASKS = 4  # groups of files per worker
_TRIALS = 20  # attempts to place a shard on a worker
_FAN = 8  # lists of labels that are united at a time


@dataclass
class FileShards:
    """How shards are made from files, where they are, and which cluster holds them."""

    session: Session
    listed: list[str]
    options: dict[str, Any]
    labels: Any = None  # a future: workers take it from each other
    n_items: int = 0
    ranges: list[Range] = field(default_factory=list)
    rows: int = 0
    total_weight: float = 0.0
    loads: Any = None
    fit: str = field(default_factory=lambda: uuid4().hex)
    workers: list[str] = field(default_factory=list)
    sources: list[list[str]] = field(default_factory=list)  # the files with rows of each shard

    def find_labels(self) -> Labels:
        """Return the labels of all files, found in groups and united in a tree."""
        submit = self.session.client.submit
        count = min(len(self.listed), _TASKS * self.session.count)
        groups = [self.listed[at::count] for at in range(count)]
        found = [submit(labels_of, some, self.options, pure=False) for some in groups]
        while len(found) > 1:
            found = [submit(united_labels, found[at : at + _FAN], pure=False) for at in range(0, len(found), _FAN)]
        self.labels = found[0]
        labels: Labels = self._sync(self._result(self.labels))
        if not len(labels.loads):
            raise InputError("no votes: the files have no rows", source=self.listed[0])
        self.n_items, self.loads = len(labels.items), labels.loads.astype(np.float64)
        self.total_weight = float(labels.loads.sum())
        return labels

    def assign(self, ranges: Sequence[Range]) -> Indices:
        """Read all rows, place every range's votes on a worker, and return all offsets."""
        self.ranges = list(ranges)
        there = sorted(self._sync(connected_workers(self.session.client)))
        self.workers = [there[at % len(there)] for at in range(len(self.ranges))]
        blocks = self._blocks(range(len(self.ranges)), self.listed)

        async def every() -> list[Any]:
            jobs = (self._held(at, blocks[at]) for at in range(len(self.ranges)))
            return list(await asyncio.gather(*jobs))

        found = self._sync(every())
        runs = [np.diff(offsets) for offsets, _ in found]
        self.sources = [
            [file for file, rows in zip(self.listed, counts, strict=True) if rows] or self.listed[:1]
            for _, counts in found
        ]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(runs))]).astype(np.int64)
        self.rows = int(offsets[-1])
        return offsets

    async def supply(self, at: int, worker: str) -> None:
        """Make the votes of a lost shard again on a worker, from the files that hold them."""
        await self._hold(at, worker, self._blocks([at], self.sources[at])[0])

    def _blocks(self, shards: Sequence[int], listed: Sequence[str]) -> list[list[Any]]:
        """Return, for every shard, its blocks of the listed files that it does not hold yet."""
        submit = self.session.client.submit
        own = [self.ranges[at] for at in shards]
        read = [submit(coded_blocks, file, self.options, self.labels, own, pure=False) for file in listed]
        return [[submit(operator.getitem, each, at, pure=False) for each in read] for at in range(len(own))]

    async def _held(self, at: int, blocks: list[Any]) -> Any:
        """Return offsets and rows by file of a shard, on its worker or, if that is lost, on another."""
        for _ in range(_TRIALS):
            try:
                return await self._hold(at, self.workers[at], blocks)
            except LOST:
                there = sorted(await connected_workers(self.session.client))
                self.workers[at] = there[at % len(there)] if there else ""
        raise ResourceError("workers are lost again and again while votes are read; see their logs")

    async def _hold(self, at: int, worker: str, blocks: list[Any]) -> Any:
        where = {"workers": [worker], "allow_other_workers": False} if worker else {}
        held = self.session.client.submit(
            hold_votes, blocks, (self.fit, at), self.ranges[at], self.n_items, pure=False, **where
        )
        return await self._result(held, worker)

    async def _result(self, future: Any, worker: str = "") -> Any:
        """Return the result of a task; raise an error if its worker or the scheduler is gone."""
        waiting, empty = asyncio.ensure_future(future._result()), None
        try:
            while not (await asyncio.wait({waiting}, timeout=shard_map.HEARTBEAT))[0]:
                there = await connected_workers(self.session.client)
                if worker and worker not in there:
                    raise OSError(f"the scheduler has lost {worker}")
                empty = (empty or time.monotonic()) if not there else None
                if empty is not None and time.monotonic() - empty > shard_map.WORKER_TIMEOUT:
                    raise ResourceError("no worker of the cluster is left; start some and repeat")
            return waiting.result()
        except (*LOST, CrowdsiftError):
            raise
        except Exception as error:  # of Dask: killed too often, or cancelled
            raise ResourceError(
                f"the cluster cannot read the votes ({type(error).__name__}: {error!s:.200}); look "
                "at the logs of its workers, they may lack memory"
            ) from None
        finally:
            if not waiting.done():
                waiting.cancel()

    def _sync(self, wanted: Any) -> Any:
        async def run() -> Any:
            return await wanted

        return self.session.client.sync(run)


def cluster_votes(session: Session, address: str, options: dict[str, Any], shards: int | None) -> Comparisons:
    """Return votes in files that the workers of a cluster read and hold."""
    if "://" not in address:
        address = os.path.abspath(os.path.expanduser(address))
    made = FileShards(session, [], options)
    weakref.finalize(made, session.close, None)  # for the case that no engine closes it
    listing = session.client.submit(files_at, address, pure=False)
    made.listed = made._sync(made._result(listing))
    labels = made.find_labels()
    bounds = worker_ranges(np.concatenate([[0], np.cumsum(labels.loads)]), shards or session.count)
    offsets = made.assign([Range(*each) for each in pairwise(bounds)])
    rows, none = int(labels.loads.sum()), np.empty(0, np.uint32)
    return Comparisons(
        first=none,
        second=none,
        outcome=none.astype(np.float32),
        weight=none.astype(np.float32),
        offsets=offsets,
        items=labels.items,
        workers=labels.workers,
        rows=rows,
        source=address,
        intake=plain_intake(rows),
        elsewhere=made,
    )
