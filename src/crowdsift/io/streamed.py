"""Votes that do not fit into memory: from Parquet into mapped files, sorted by worker.

DuckDB gives labels their codes, in sorted order, and writes to disk if memory is short. The coded rows go to one file
per range of workers; each fits into memory, and is sorted and collapsed by the same kernel as votes in memory. So the
arrays have the same bytes as those of `crowdsift.read`.
"""

import errno
import os
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift._core import collapse
from crowdsift.errors import InputError, ResourceError
from crowdsift.io.columns import WINNER, plan_reading
from crowdsift.io.duck import FileSource
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.formats import PLAIN
from crowdsift.io.options import ReadOptions
from crowdsift.io.parts import expanded, is_parquet_file, scan
from crowdsift.io.resources import limited_memory, size_of
from crowdsift.io.sql import kind_of_database, quoted
from crowdsift.numeric import Codes, Indices
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.intake import Intake
from crowdsift.votes.labels import as_column

_CHUNK = 1 << 21  # rows processed at a time
_NEEDED = 80  # bytes per row for reading into memory, at its peak
_COLUMNS = {"first": np.uint32, "second": np.uint32, "outcome": np.float32, "weight": np.float32}


def streamed_votes(votes: Any, options: ReadOptions) -> Comparisons | None:
    """Return votes in mapped files; None if they fit into memory or are not plain Parquet votes."""
    if not isinstance(votes, str | os.PathLike) or not is_plain(options) or not is_parquet(votes):
        return None
    memory, threads = size_of(options.memory), thread_count(options.threads)
    with limited_memory(options.memory):
        source = ParquetVotes(os.fsdecode(votes), threads)
        try:
            if not source.suits(options) or source.count() * _NEEDED <= memory:
                return None
            return source.comparisons(memory, threads)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise ResourceError(
                "the disk is full while votes are sorted; make room, or set TMPDIR to a folder on a larger disk"
            ) from None
        finally:
            source.close()


class Labels(NamedTuple):
    """Distinct labels in sorted order, whose positions are the codes, and workers' numbers of votes."""

    items: NDArray[np.object_]
    workers: NDArray[np.object_]
    loads: Indices


def merged_labels(parts: Sequence[Labels]) -> Labels:
    """Return the merged labels of all parts."""
    items: set[Any] = set()
    votes: dict[Any, int] = {}
    for part in parts:
        items.update(part.items.tolist())
        for worker, load in zip(part.workers.tolist(), part.loads.tolist(), strict=True):
            votes[worker] = votes.get(worker, 0) + load
    workers = sorted(votes)
    loads = np.array([votes[worker] for worker in workers], np.int64)
    return Labels(as_column(sorted(items)), as_column(workers), loads)


def by_range(rows: Codes, bounds: Indices | Sequence[int]) -> list[Codes]:
    """Return rows split by the range of their worker, the last column."""
    place = np.searchsorted(bounds, rows[:, 2], side="right") - 1
    ends = np.cumsum(np.bincount(place, minlength=len(bounds) - 1))
    return np.split(rows[np.argsort(place, kind="stable")], ends[:-1])


def is_plain(options: ReadOptions) -> bool:
    """Return whether no option needs the rows in memory."""
    return not {*options.changed()} - {"columns", "format", "encoding"}


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Return whether all files are Parquet; pipes are not read."""
    text = os.fsdecode(path)
    if text == "-" or kind_of_database(path):
        return False
    return all(os.path.isfile(each) and is_parquet_file(each) for each in expanded(text))


def plain_intake(rows: int, notes: tuple[str, ...] = ()) -> Intake:
    """Return the intake of files of which every row is a vote."""
    return Intake(format=PLAIN.name, rows=rows, used=rows, votes=rows, notes=notes)


class ParquetVotes(FileSource):
    """Parquet files of votes, coded by DuckDB and fetched a chunk at a time."""

    def suits(self, options: ReadOptions) -> bool:
        """Return whether the columns are winner, loser and worker, and other columns do not matter."""
        plan = plan_reading(self, options)
        self.refuse_copies()
        roles = [plan.roles.get(role, "") for role in ("winner", "loser", "worker")]
        self._names = roles
        types = {part.type_of(name) for part in self._parts if part.kind == "parquet" for name in roles}
        return (
            plan.format is PLAIN
            and plan.layout is WINNER
            and "weight" not in plan.roles
            and all(part.kind == "parquet" for part in self._parts)
            and all(name in part.names for part in self._parts for name in roles)
            and types in ({"VARCHAR"}, {"BIGINT"})
        )

    def count(self) -> int:
        """Return the number of rows."""
        counts = [self._run(part, f"SELECT count(*) FROM {scan(part)}").fetchone()[0] for part in self._parts]
        return int(sum(counts))

    def find_labels(self) -> Labels:
        """Return sorted labels, and store them as tables with their codes."""
        for table, names in (("items", self._names[:2]), ("workers", self._names[2:])):
            scans = " UNION ALL ".join(
                f"SELECT {quoted(name)} AS label, count(*) AS votes FROM {scan(part)} GROUP BY ALL"
                for part in self._parts
                for name in names
            )
            self._run(
                self._parts[0],
                f"CREATE TEMP TABLE {table} AS SELECT label, sum(votes)::BIGINT AS votes, (row_number() OVER (ORDER BY "
                f"label) - 1)::UINTEGER AS code FROM ({scans}) GROUP BY label",
            )
            empty = "label IS NULL OR trim(label::VARCHAR) = ''"
            if found := self._query(f"SELECT sum(votes) FROM {table} WHERE {empty}").fetchone()[0]:
                raise InputError(
                    f"{int(found):,} rows have an empty label in {' or '.join(map(repr, names))}; "
                    "fill them or remove the rows",
                    source=self.source,
                )
        loads = self._query("SELECT votes FROM workers ORDER BY code").fetchnumpy()["votes"]
        return Labels(self._in_order("items"), self._in_order("workers"), np.ma.getdata(loads).astype(np.int64))

    def take_codes(self, labels: Labels) -> None:
        """Use codes of labels that other files share."""
        assert self._database is not None
        for table, given in (("items", labels.items), ("workers", labels.workers)):
            kind = np.int64 if given.dtype == object and isinstance(given[0], int) else object
            columns = {"label": given.astype(kind), "code": np.arange(len(given), dtype=np.uint32)}
            self._database.register("given", columns)
            self._query(f"CREATE TEMP TABLE {table} AS SELECT label, code FROM given")

    def chunks(self) -> Iterator[Codes]:
        """Yield rows as codes of winner, loser and worker, in any order."""
        winner, loser, worker = map(quoted, self._names)
        for part in self._parts:
            self._run(
                part,
                f"CREATE OR REPLACE TEMP TABLE coded AS SELECT a.code AS a, b.code AS b, w.code AS w FROM {scan(part)} "
                f"AS part JOIN items AS a ON part.{winner} = a.label JOIN items AS b ON part.{loser} = b.label JOIN "
                f"workers AS w ON part.{worker} = w.label",
            )
            if same := self._query("SELECT count(*) FROM coded WHERE a = b").fetchone()[0]:
                raise InputError(f"{same:,} rows compare an item with itself; remove them", source=part.source)
            count = self._query("SELECT count(*) FROM coded").fetchone()[0]
            for start in range(0, count, _CHUNK):
                found = self._query(
                    f"SELECT a, b, w FROM coded WHERE rowid BETWEEN {start} AND {start + _CHUNK - 1}"
                ).fetchnumpy()
                yield np.column_stack([np.ma.getdata(found[name]) for name in "abw"])
            self._query("DROP TABLE coded")

    def comparisons(self, memory: int, threads: int) -> Comparisons:
        """Return the votes in mapped files, sorted by worker."""
        items, workers, loads = self.find_labels()
        each = max(memory // 4 // _NEEDED, 1)
        bounds = _bounds(loads, each)
        rows = int(loads.sum())
        folder = TemporaryFolder()
        try:
            work = Path(folder.path)
            self._write_ranges(work, bounds)
            offsets = _sorted(work, bounds, len(items), threads)
            votes = Comparisons(**_mapped(work), offsets=offsets, items=items, workers=workers)
        except BaseException:
            folder.close()
            raise
        held: Any = votes.first
        weakref.finalize(held._mmap, folder.close)  # when the last of its slices is released
        return replace(votes, rows=rows, intake=plain_intake(rows, self.notes), source=self.source)

    def _write_ranges(self, work: Path, bounds: Indices) -> None:
        files = [(work / f"range-{at}").open("wb") for at in range(len(bounds) - 1)]
        try:
            for rows in self.chunks():
                for at, some in enumerate(by_range(rows, bounds)):
                    some.tofile(files[at])
        finally:
            for file in files:
                file.close()

    def _in_order(self, table: str) -> NDArray[np.object_]:
        found = self._query(f"SELECT label FROM {table} ORDER BY code").fetchnumpy()["label"]
        return as_column(np.ma.getdata(found).tolist())


def _bounds(loads: Indices, most: int) -> Indices:
    """Return ranges of workers with at most about `most` votes; a worker's votes stay together."""
    ends = np.cumsum(loads)
    inner, reached = [0], 0
    for at in np.flatnonzero(np.diff(ends // most, prepend=0)).tolist():
        if at > inner[-1] and ends[at - 1] > reached:
            inner.append(at)
            reached = int(ends[at - 1])
    return np.array([*inner, len(loads)], np.int64)


def _sorted(work: Path, bounds: Indices, n_items: int, threads: int) -> Indices:
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
            made = collapse(first, second, worker, None, None, None, n_items, end - begin, False, threads)
            del first, second, worker
            for column, file in zip(made[:4], files.values(), strict=True):
                column.tofile(file)
            offsets.append(made[6][1:] + offsets[-1][-1])
    finally:
        for file in files.values():
            file.close()
    return np.concatenate(offsets)


def mapped_votes(work: Path, votes: Comparisons) -> Comparisons:
    """Return votes in memory as votes mapped from files of a folder."""
    for name in _COLUMNS:
        getattr(votes, name).tofile(work / name)
    return replace(votes, **_mapped(work))


def _mapped(work: Path) -> dict[str, Any]:
    return {name: np.memmap(work / name, kind, "r") for name, kind in _COLUMNS.items()}
