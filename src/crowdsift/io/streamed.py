"""Votes that do not fit into memory: from Parquet into mapped files, sorted by worker.

DuckDB gives labels their codes, in sorted order, and spills what it cannot hold. The coded rows
are dealt into one file a range of workers; each of these fits, and is sorted and collapsed by the
same kernel as votes in memory. So the arrays are those that `crowdsift.read` makes, to the byte.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError, ResourceError
from crowdsift.io.database import quoted
from crowdsift.io.databases import kind_of_database
from crowdsift.io.duck import FileSource
from crowdsift.io.layouts import WINNER
from crowdsift.io.opening import expanded
from crowdsift.io.options import ReadOptions
from crowdsift.io.parts import scan
from crowdsift.io.recognise import PLAIN, plan_reading
from crowdsift.io.resources import size_of
from crowdsift.io.temporary import TemporaryFolder
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.intake import Intake
from crowdsift.votes.kernels import collapse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["mapped_votes", "streamed_votes"]

_NEEDED = 80  # bytes a row that reading into memory takes, at its peak
_CHUNK = 1 << 21  # rows at a time
_COLUMNS = {"first": np.uint32, "second": np.uint32, "outcome": np.float32, "weight": np.float32}


def streamed_votes(votes: Any, options: ReadOptions) -> Comparisons | None:
    """Votes in mapped files; None where they fit into memory, or need what only memory allows.

    That is all but Parquet files with the columns winner, loser and worker.
    """
    plain = not {*options.asked()} - {"columns", "format"}
    if not plain or not isinstance(votes, str | os.PathLike) or not _is_parquet(votes):
        return None
    memory, threads = size_of(options.memory), thread_count(options.threads)
    with _limited(options.memory):
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


def _is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether all files are Parquet; a pipe is not looked into."""
    text = os.fsdecode(path)
    if text == "-" or kind_of_database(path):
        return False
    return all(os.path.isfile(each) and _begins(each) == b"PAR1" for each in expanded(text))


def _begins(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(4)


class _Streamed(FileSource):
    """Parquet files of votes, coded by DuckDB and fetched a chunk at a time."""

    def suits(self, options: ReadOptions) -> bool:
        plan = plan_reading(self, options)
        roles = [plan.roles.get(role, "") for role in ("winner", "loser", "worker")]
        self._names = roles
        types = {
            part.type_of(name) for part in self._parts if part.kind == "parquet" for name in roles
        }
        return (
            plan.format is PLAIN
            and plan.layout is WINNER
            and "weight" not in plan.roles
            and all(part.kind == "parquet" for part in self._parts)
            and all(name in part.names for part in self._parts for name in roles)
            and types in ({"VARCHAR"}, {"BIGINT"})
        )

    def count(self) -> int:
        counts = [
            self._run(part, f"SELECT count(*) FROM {scan(part)}").fetchone()[0]
            for part in self._parts
        ]
        return int(sum(counts))

    def comparisons(self, memory: int, threads: int) -> Comparisons:
        items, workers, loads = self._labels()
        each = max(memory // 4 // _NEEDED, 1)
        bounds = _bounds(loads, each)
        rows = int(loads.sum())
        folder = TemporaryFolder()
        try:
            work = Path(folder.path)
            self._deal(work, bounds)
            offsets = _sorted(work, bounds, loads, len(items), threads)
            votes = _opened(work, offsets, items, workers)
        except BaseException:
            folder.close()
            raise
        held: Any = votes.first
        weakref.finalize(held._mmap, folder.close)  # with the last of its slices
        intake = Intake(format=PLAIN.name, rows=rows, used=rows, empty=0, doubled=0, set_aside=0,
                        left_out=0, votes=rows, both_bad=0, reasons=(), notes=())  # fmt: skip
        return replace(votes, rows=rows, intake=intake, source=self.source)

    def _labels(self) -> tuple[NDArray[np.object_], NDArray[np.object_], NDArray[np.int64]]:
        """Sorted labels of items and of workers, as tables with their codes, too; votes of each."""
        for table, names in (("items", self._names[:2]), ("workers", self._names[2:])):
            scans = " UNION ALL ".join(
                f"SELECT {quoted(name)} AS label, count(*) AS votes FROM {scan(part)} GROUP BY ALL"
                for part in self._parts
                for name in names
            )
            self._run(
                self._parts[0],
                f"CREATE TEMP TABLE {table} AS SELECT label, sum(votes)::BIGINT AS votes, "
                f"(row_number() OVER (ORDER BY label) - 1)::UINTEGER AS code FROM ({scans}) "
                "GROUP BY label",
            )
            empty = "label IS NULL OR trim(label::VARCHAR) = ''"
            if found := self._query(f"SELECT sum(votes) FROM {table} WHERE {empty}").fetchone()[0]:
                raise InputError(
                    f"{int(found):,} rows have an empty label in {' or '.join(map(repr, names))}; "
                    "fill them or remove the rows",
                    source=self.source,
                )
        labels = [self._in_order(table) for table in ("items", "workers")]
        loads = self._query("SELECT votes FROM workers ORDER BY code").fetchnumpy()["votes"]
        return labels[0], labels[1], np.ma.getdata(loads).astype(np.int64)

    def _in_order(self, table: str) -> NDArray[np.object_]:
        found = self._query(f"SELECT label FROM {table} ORDER BY code").fetchnumpy()["label"]
        out = np.empty(len(found), object)
        out[:] = np.ma.getdata(found).tolist()
        return out

    def _deal(self, work: Path, bounds: NDArray[np.int64]) -> None:
        """Rows as codes into a file of their range of workers."""
        winner, loser, worker = map(quoted, self._names)
        files = [(work / f"range-{at}").open("wb") for at in range(len(bounds) - 1)]
        try:
            for part in self._parts:
                self._run(
                    part,
                    "CREATE OR REPLACE TEMP TABLE coded AS SELECT a.code AS a, b.code AS b, "
                    f"w.code AS w FROM {scan(part)} AS part JOIN items AS a ON part.{winner} = "
                    f"a.label JOIN items AS b ON part.{loser} = b.label "
                    f"JOIN workers AS w ON part.{worker} = w.label",
                )
                if same := self._query("SELECT count(*) FROM coded WHERE a = b").fetchone()[0]:
                    raise InputError(
                        f"{same:,} rows compare an item with itself; remove them",
                        source=part.source,
                    )
                for rows in self._chunks():
                    place = np.searchsorted(bounds, rows[:, 2], side="right") - 1
                    order = np.argsort(place, kind="stable")
                    ends = np.cumsum(np.bincount(place, minlength=len(files)))
                    sorted_rows = rows[order]
                    for at, end in enumerate(ends.tolist()):
                        sorted_rows[ends[at - 1] if at else 0 : end].tofile(files[at])
                self._query("DROP TABLE coded")
        finally:
            for file in files:
                file.close()

    def _chunks(self) -> Iterator[NDArray[np.uint32]]:
        count = self._query("SELECT count(*) FROM coded").fetchone()[0]
        for start in range(0, count, _CHUNK):
            found = self._query(
                f"SELECT a, b, w FROM coded WHERE rowid BETWEEN {start} AND {start + _CHUNK - 1}"
            ).fetchnumpy()
            yield np.column_stack([np.ma.getdata(found[name]) for name in "abw"])


def _bounds(loads: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Ranges of workers of about so many votes at most; one worker's votes stay together."""
    ends = np.cumsum(loads)
    inner, reached = [0], 0
    for at in np.flatnonzero(np.diff(ends // most, prepend=0)).tolist():
        if at > inner[-1] and ends[at - 1] > reached:
            inner.append(at)
            reached = int(ends[at - 1])
    return np.array([*inner, len(loads)], np.int64)


def _sorted(
    work: Path, bounds: NDArray[np.int64], loads: NDArray[np.int64], n_items: int, threads: int
) -> NDArray[np.int64]:
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


@contextmanager
def _limited(memory: str) -> Iterator[None]:
    """DuckDB takes half of what it is told there is."""
    before = os.environ.get("CROWDSIFT_MEMORY")
    os.environ["CROWDSIFT_MEMORY"] = memory
    try:
        yield
    finally:
        del os.environ["CROWDSIFT_MEMORY"]
        if before is not None:
            os.environ["CROWDSIFT_MEMORY"] = before
