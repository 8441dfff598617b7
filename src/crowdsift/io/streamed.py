"""Votes that do not fit into memory: from Parquet into mapped files, sorted by worker.

DuckDB gives labels their codes, in sorted order, and spills what it cannot hold. The coded rows
are written to one file per range of workers; each of these fits, and is sorted and collapsed by the
same kernel as votes in memory. So the arrays are those that `crowdsift.read` makes, to the byte.
"""

from __future__ import annotations

import errno
import os
import weakref
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift._core import collapse
from crowdsift.errors import ResourceError
from crowdsift.io.options import ReadOptions
from crowdsift.io.parquet_votes import ParquetVotes, by_range, is_parquet, is_plain, plain_intake
from crowdsift.io.resources import limited_memory, size_of
from crowdsift.io.temporary import TemporaryFolder
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import Comparisons

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["mapped_votes", "streamed_votes"]

_NEEDED = 80  # bytes per row that reading into memory takes, at its peak
_COLUMNS = {"first": np.uint32, "second": np.uint32, "outcome": np.float32, "weight": np.float32}


def streamed_votes(votes: Any, options: ReadOptions) -> Comparisons | None:
    """Votes in mapped files; None where they fit into memory, or need what only memory allows.

    That is all but Parquet files with the columns winner, loser and worker.
    """
    if not isinstance(votes, str | os.PathLike) or not is_plain(options) or not is_parquet(votes):
        return None
    memory, threads = size_of(options.memory), thread_count(options.threads)
    with limited_memory(options.memory):
        source = _Streamed(os.fsdecode(votes), threads)
        try:
            if not source.suits(options) or source.count() * _NEEDED <= memory:
                return None
            return source.comparisons(memory, threads)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise ResourceError(
                "the disk is full while votes are sorted; make room, or set TMPDIR to a folder on "
                "a larger disk"
            ) from None
        finally:
            source.close()


class _Streamed(ParquetVotes):
    """Parquet files of votes that go to files."""

    def comparisons(self, memory: int, threads: int) -> Comparisons:
        items, workers, loads = self.find_labels()
        each = max(memory // 4 // _NEEDED, 1)
        bounds = _bounds(loads, each)
        rows = int(loads.sum())
        folder = TemporaryFolder()
        try:
            work = Path(folder.path)
            self._write_ranges(work, bounds)
            offsets = _sorted(work, bounds, len(items), threads)
            votes = _opened(work, offsets, items, workers)
        except BaseException:
            folder.close()
            raise
        held: Any = votes.first
        weakref.finalize(held._mmap, folder.close)  # with the last of its slices
        return replace(votes, rows=rows, intake=plain_intake(rows, self.notes), source=self.source)

    def _write_ranges(self, work: Path, bounds: NDArray[np.int64]) -> None:
        """Rows as codes into a file of their range of workers."""
        files = [(work / f"range-{at}").open("wb") for at in range(len(bounds) - 1)]
        try:
            for rows in self.chunks():
                for at, some in enumerate(by_range(rows, bounds)):
                    some.tofile(files[at])
        finally:
            for file in files:
                file.close()


def _bounds(loads: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Ranges of workers of about so many votes at most; one worker's votes stay together."""
    ends = np.cumsum(loads)
    inner, reached = [0], 0
    for at in np.flatnonzero(np.diff(ends // most, prepend=0)).tolist():
        if at > inner[-1] and ends[at - 1] > reached:
            inner.append(at)
            reached = int(ends[at - 1])
    return np.array([*inner, len(loads)], np.int64)


def _sorted(work: Path, bounds: NDArray[np.int64], n_items: int, threads: int) -> NDArray[np.int64]:
    """Every range sorted and collapsed, one after the other into the files of the votes."""
    offsets = [np.zeros(1, np.int64)]
    files = {name: (work / name).open("wb") for name in _COLUMNS}
    try:
        for at, begin in enumerate(bounds[:-1].tolist()):
            path, end = work / f"range-{at}", int(bounds[at + 1])
            rows = np.fromfile(path, np.uint32).reshape(-1, 3)
            path.unlink()
            first, second, worker = (np.ascontiguousarray(rows[:, each]) for each in range(3))
            del rows
            worker -= np.uint32(begin)
            made = collapse(
                first, second, worker, None, None, None, n_items, end - begin, False, threads
            )
            del first, second, worker
            for column, file in zip(made[:4], files.values(), strict=True):
                column.tofile(file)
            offsets.append(made[6][1:] + offsets[-1][-1])
    finally:
        for file in files.values():
            file.close()
    return np.concatenate(offsets)


def _opened(
    work: Path,
    offsets: NDArray[np.int64],
    items: NDArray[np.object_],
    workers: NDArray[np.object_],
) -> Comparisons:
    """Votes in the files of a folder."""
    columns: dict[str, Any] = {
        name: np.memmap(work / name, kind, "r") for name, kind in _COLUMNS.items()
    }
    return Comparisons(**columns, offsets=offsets, items=items, workers=workers)


def mapped_votes(work: Path, votes: Comparisons) -> Comparisons:
    """Votes in memory as votes in files of a folder."""
    for name in _COLUMNS:
        getattr(votes, name).tofile(work / name)
    columns: dict[str, Any] = {
        name: np.memmap(work / name, kind, "r") for name, kind in _COLUMNS.items()
    }
    return replace(votes, **columns)
