"""Parquet files of votes whose rows become codes without being in memory: labels, then rows.

Only winner, loser and worker, all text or all integers: what `crowdsift.io.streamed` keeps in
files, and what the workers of a cluster read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import InputError
from crowdsift.io.database import quoted
from crowdsift.io.databases import kind_of_database
from crowdsift.io.duck import FileSource
from crowdsift.io.layouts import WINNER
from crowdsift.io.opening import expanded
from crowdsift.io.options import ReadOptions
from crowdsift.io.parts import Part, scan
from crowdsift.io.recognise import PLAIN, plan_reading
from crowdsift.votes.intake import Intake

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Labels",
    "ParquetVotes",
    "by_range",
    "is_parquet",
    "is_plain",
    "merged_labels",
    "plain_intake",
]

_CHUNK = 1 << 21  # rows at a time


class Labels(NamedTuple):
    """Distinct labels in sorted order, which are codes by their places, and workers' votes."""

    items: NDArray[np.object_]
    workers: NDArray[np.object_]
    loads: NDArray[np.int64]


def merged_labels(parts: Sequence[Labels]) -> Labels:
    """The labels of all parts.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.io.parquet_votes import Labels, merged_labels
    >>> one = Labels(np.array(["a", "b"], object), np.array(["x"], object), np.array([3]))
    >>> two = Labels(np.array(["b", "c"], object), np.array(["w", "x"], object), np.array([1, 2]))
    >>> merged = merged_labels([one, two])
    >>> merged.items.tolist(), merged.workers.tolist(), merged.loads.tolist()
    (['a', 'b', 'c'], ['w', 'x'], [1, 5])
    """
    items: set[Any] = set()
    votes: dict[Any, int] = {}
    for part in parts:
        items.update(part.items.tolist())
        for worker, load in zip(part.workers.tolist(), part.loads.tolist(), strict=True):
            votes[worker] = votes.get(worker, 0) + load
    workers = sorted(votes)
    loads = np.array([votes[worker] for worker in workers], np.int64)
    return Labels(_objects(sorted(items)), _objects(workers), loads)


def by_range(
    rows: NDArray[np.uint32], bounds: NDArray[np.int64] | Sequence[int]
) -> list[NDArray[np.uint32]]:
    """Rows apart by the range in which their worker, the last column, is.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.io.parquet_votes import by_range
    >>> rows = np.array([[0, 1, 5], [2, 1, 0]], np.uint32)
    >>> [each.tolist() for each in by_range(rows, (0, 3, 6))]
    [[[2, 1, 0]], [[0, 1, 5]]]
    """
    place = np.searchsorted(bounds, rows[:, 2], side="right") - 1
    ends = np.cumsum(np.bincount(place, minlength=len(bounds) - 1))
    return np.split(rows[np.argsort(place, kind="stable")], ends[:-1])


def is_plain(options: ReadOptions) -> bool:
    """Whether nothing is asked for that needs the rows in memory."""
    return not {*options.changed()} - {"columns", "format", "encoding"}


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Whether all files are Parquet; a pipe is not looked into."""
    text = os.fsdecode(path)
    if text == "-" or kind_of_database(path):
        return False
    return all(os.path.isfile(each) and _begins(each) == b"PAR1" for each in expanded(text))


def plain_intake(rows: int, notes: tuple[str, ...] = ()) -> Intake:
    """Return the intake of files of which every row is a vote."""
    return Intake(format=PLAIN.name, rows=rows, used=rows, empty=0, doubled=0, set_aside=0,
                  left_out=0, votes=rows, both_bad=0, reasons=(), notes=notes)  # fmt: skip


class ParquetVotes(FileSource):
    """Parquet files of votes, coded by DuckDB and fetched a chunk at a time."""

    def suits(self, options: ReadOptions) -> bool:
        """Whether the columns are winner, loser and worker and nothing else says what votes are."""
        plan = plan_reading(self, options)
        self.refuse_copies()
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
        """The number of rows."""
        counts = [
            self._run(part, f"SELECT count(*) FROM {scan(part)}").fetchone()[0]
            for part in self._parts
        ]
        return int(sum(counts))

    def find_labels(self) -> Labels:
        """Sorted labels, which are tables with their codes, too."""
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
        loads = self._query("SELECT votes FROM workers ORDER BY code").fetchnumpy()["votes"]
        return Labels(self._in_order("items"), self._in_order("workers"),
                      np.ma.getdata(loads).astype(np.int64))  # fmt: skip

    def take_codes(self, labels: Labels) -> None:
        """Codes of labels that more files have than these."""
        assert self._database is not None
        for table, given in (("items", labels.items), ("workers", labels.workers)):
            kind = np.int64 if given.dtype == object and isinstance(given[0], int) else object
            columns = {"label": given.astype(kind), "code": np.arange(len(given), dtype=np.uint32)}
            self._database.register("given", columns)
            self._query(f"CREATE TEMP TABLE {table} AS SELECT label, code FROM given")

    def chunks(self) -> Iterator[NDArray[np.uint32]]:
        """Rows as codes of winner, loser and worker, in no order."""
        for part in self._parts:
            self._run(part, f"CREATE OR REPLACE TEMP TABLE coded AS {self._coded_rows(part)}")
            self._refuse_same("coded", part)
            count = self._query("SELECT count(*) FROM coded").fetchone()[0]
            for start in range(0, count, _CHUNK):
                found = self._query(
                    "SELECT a, b, w FROM coded "
                    f"WHERE rowid BETWEEN {start} AND {start + _CHUNK - 1}"
                ).fetchnumpy()
                yield np.column_stack([np.ma.getdata(found[name]) for name in "abw"])
            self._query("DROP TABLE coded")

    def _coded_rows(self, part: Part) -> str:
        winner, loser, worker = map(quoted, self._names)
        return (
            f"SELECT a.code AS a, b.code AS b, w.code AS w FROM {scan(part)} AS part "
            f"JOIN items AS a ON part.{winner} = a.label JOIN items AS b ON part.{loser} = b.label "
            f"JOIN workers AS w ON part.{worker} = w.label"
        )

    def _refuse_same(self, table: str, part: Part) -> None:
        if same := self._query(f"SELECT count(*) FROM {table} WHERE a = b").fetchone()[0]:
            raise InputError(
                f"{same:,} rows compare an item with itself; remove them", source=part.source
            )

    def _in_order(self, table: str) -> NDArray[np.object_]:
        found = self._query(f"SELECT label FROM {table} ORDER BY code").fetchnumpy()["label"]
        return _objects(np.ma.getdata(found).tolist())


def _objects(labels: list[Any]) -> NDArray[np.object_]:
    out = np.empty(len(labels), object)
    out[:] = labels
    return out


def _begins(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(4)
