"""Votes that the workers of a cluster read: no row passes the client.

Every worker finds the labels of some files; their union, sorted, gives the codes that one machine
gives. Then rows are read as codes, apart by ranges of workers, and sent from worker to worker: all
votes of a worker are in one shard. Which files have rows of which shard is kept: a shard that is
lost is made of its own files again.
"""

from __future__ import annotations

import asyncio
import operator
import os
import time
import weakref
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from crowdsift.engines.dask import files, watch
from crowdsift.engines.dask.files import Range
from crowdsift.engines.dask.watch import LOST, connected_workers
from crowdsift.engines.shards import worker_ranges
from crowdsift.errors import CrowdsiftError, InputError, ResourceError
from crowdsift.io.parquet_votes import Labels, plain_intake
from crowdsift.votes.comparisons import Comparisons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from crowdsift.engines.dask.cluster import Session

__all__ = ["FileShards", "cluster_votes"]

_TASKS = 4  # groups of files a worker
_TRIALS = 20  # of putting a shard on a worker
_FAN = 8  # lists of labels that are united at a time


@dataclass
class FileShards:
    """How shards are made of files, where they are, and the cluster that holds them."""

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
    sources: list[list[str]] = field(default_factory=list)  # of every shard the files with its rows

    def find_labels(self) -> Labels:
        """The labels of all files, found in groups and united in a tree."""
        submit = self.session.client.submit
        count = min(len(self.listed), _TASKS * self.session.count)
        groups = [self.listed[at::count] for at in range(count)]
        found = [submit(files.labels_of, some, self.options, pure=False) for some in groups]
        while len(found) > 1:
            found = [
                submit(files.united_labels, found[at : at + _FAN], pure=False)
                for at in range(0, len(found), _FAN)
            ]
        self.labels = found[0]
        labels: Labels = self._sync(self._result(self.labels))
        if not len(labels.loads):
            raise InputError("no votes: the files have no rows", source=self.listed[0])
        self.n_items, self.loads = len(labels.items), labels.loads.astype(np.float64)
        self.total_weight = float(labels.loads.sum())
        return labels

    def assign(self, ranges: Sequence[Range]) -> NDArray[np.int64]:
        """Read all rows, and hold every range's votes on a worker; offsets of all."""
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
            [file for file, rows in zip(self.listed, counts, strict=True) if rows]
            or self.listed[:1]
            for _, counts in found
        ]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(runs))]).astype(np.int64)
        self.rows = int(offsets[-1])
        return offsets

    async def supply(self, at: int, worker: str) -> None:
        """Make the votes of a lost shard anew on a worker, from the files that have some."""
        await self._hold(at, worker, self._blocks([at], self.sources[at])[0])

    def _blocks(self, shards: Sequence[int], listed: Sequence[str]) -> list[list[Any]]:
        """Of every shard its block of every one of these files, not there yet."""
        submit = self.session.client.submit
        own = [self.ranges[at] for at in shards]
        read = [
            submit(files.coded_blocks, file, self.options, self.labels, own, pure=False)
            for file in listed
        ]
        return [
            [submit(operator.getitem, each, at, pure=False) for each in read]
            for at in range(len(own))
        ]

    async def _held(self, at: int, blocks: list[Any]) -> Any:
        """Offsets of a shard and rows by file, on its worker or, where that is lost, on another."""
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
            files.hold_votes, blocks, (self.fit, at), self.ranges[at], self.n_items, pure=False,
            **where,
        )  # fmt: skip
        return await self._result(held, worker)

    async def _result(self, future: Any, worker: str = "") -> Any:
        """What a task returns; an error where its worker, all workers or the scheduler are gone."""
        waiting, empty = asyncio.ensure_future(future._result()), None
        try:
            while not (await asyncio.wait({waiting}, timeout=watch.HEARTBEAT))[0]:
                there = await connected_workers(self.session.client)
                if worker and worker not in there:
                    raise OSError(f"the scheduler has lost {worker}")
                empty = (empty or time.monotonic()) if not there else None
                if empty is not None and time.monotonic() - empty > watch.WORKER_TIMEOUT:
                    raise ResourceError("no worker of the cluster is left; start some and repeat")
            return waiting.result()
        except (*LOST, CrowdsiftError):
            raise
        except Exception as error:  # of Dask: killed too often, cancelled
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


def cluster_votes(
    session: Session, address: str, options: dict[str, Any], shards: int | None
) -> Comparisons:
    """Votes in files, read by the workers of a cluster and held by them."""
    if "://" not in address:
        address = os.path.abspath(os.path.expanduser(address))
    made = FileShards(session, [], options)
    weakref.finalize(made, session.close, None)  # where no engine does it
    listing = session.client.submit(files.files_at, address, pure=False)
    made.listed = made._sync(made._result(listing))
    labels = made.find_labels()
    bounds = worker_ranges(np.concatenate([[0], np.cumsum(labels.loads)]), shards or session.count)
    offsets = made.assign([Range(*each) for each in pairwise(bounds)])
    rows, none = int(labels.loads.sum()), np.empty(0, np.uint32)
    return Comparisons(
        first=none, second=none, outcome=none.astype(np.float32), weight=none.astype(np.float32),
        offsets=offsets, items=labels.items, workers=labels.workers, rows=rows,
        source=address, intake=plain_intake(rows), elsewhere=made,
    )  # fmt: skip
