"""Which rows become votes: those left out, doubled, empty and bad are counted, and put aside."""

from __future__ import annotations

import csv
import os
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError
from crowdsift.io.columns import resolve_column
from crowdsift.io.files import replace_file
from crowdsift.votes.intake import Intake
from crowdsift.votes.labels import MISSING, LabelError, is_empty
from crowdsift.votes.source import SortedCodes, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from crowdsift.io.duck_write import Added
    from crowdsift.votes.pseudonyms import Hiding

__all__ = ["Selected", "Selection"]

_ODD = np.uint64(0x9E3779B97F4A7C15)  # by which hashes of several columns are mixed


class Selected(Source):
    """Some rows of another source, in its order; places are those of the other source."""

    def __init__(self, base: Source, rows: NDArray[np.int64]) -> None:
        self._base, self._rows = base, rows
        self.names, self.source, self.backend = base.names, base.source, base.backend
        self.notes = base.notes

    def load(
        self,
        wanted: Sequence[str],
        *,
        replies: Sequence[str] = (),
        prompts: Sequence[str] = (),
        condition: str = "",
    ) -> int:
        """See `Source.load`; the other source is loaded already."""
        return len(self._rows)

    def encode(self, name: str) -> tuple[list[Any], NDArray[np.uint32]]:
        """See `Source.encode`; labels that no row has are left away."""
        try:
            labels, codes = self._base.encode(name)
        except LabelError as fault:
            raise LabelError(int(np.searchsorted(self._rows, fault.row)), fault.message) from None
        used, (own,) = _used([codes[self._rows]], len(labels))
        return [labels[code] for code in used.tolist()], own

    def sorted_codes(self, columns: Sequence[str]) -> SortedCodes | None:
        """See `Source.sorted_codes`."""
        found = self._base.sorted_codes(columns)
        if found is None:
            return None
        used, own = _used([each[self._rows] for each in found.codes], len(found.labels))
        unclear = np.flatnonzero(np.isin(used, found.unclear)).tolist()
        return SortedCodes(found.labels[used], own, unclear)

    def numbers(self, name: str) -> NDArray[np.float64] | NDArray[np.float32]:
        """See `Source.numbers`."""
        return self._base.numbers(name)[self._rows]

    def hashes(self, names: Sequence[str]) -> NDArray[np.uint64] | None:
        """See `Source.hashes`."""
        found = self._base.hashes(names)
        return None if found is None else found[self._rows]

    def value(self, name: str, row: int) -> Any:
        """See `Source.value`."""
        return self._base.value(name, int(self._rows[row]))

    def whole(self, name: str, row: int) -> Any:
        """See `Source.whole`."""
        return self._base.whole(name, int(self._rows[row]))

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """See `Source.rows`."""
        wanted = iter(self._rows.tolist())
        following = next(wanted, None)
        for number, entries in enumerate(self._base.rows(names)):
            if number == following:
                yield entries
                following = next(wanted, None)

    def place(self, row: int) -> tuple[str, int]:
        """See `Source.place`."""
        return self._base.place(int(self._rows[row]))

    @property
    def all_rows(self) -> Source:
        """See `Source.all_rows`."""
        return self._base

    @property
    def written_names(self) -> tuple[str, ...]:
        """See `Source.written_names`."""
        return self._base.written_names

    def write(
        self,
        path: str,
        kind: str,
        added: Added,
    ) -> None:
        """Write the rows with further columns, as the source itself does."""
        rows = self._rows if added.rows is None else self._rows[added.rows]
        self._base.write(path, kind, replace(added, rows=rows))  # type: ignore[attr-defined]

    def close(self) -> None:
        """See `Source.close`."""
        self._base.close()


def _used(
    codes: list[NDArray[np.uint32]], count: int
) -> tuple[NDArray[np.int64], list[NDArray[np.uint32]]]:
    """The codes that occur, and each column with numbers among these."""
    there = np.zeros(count + 1, bool)
    for each in codes:
        there[np.minimum(each, count)] = True
    there[count] = False
    used = np.flatnonzero(there)
    number = np.full(count + 1, MISSING, np.uint32)
    number[used] = np.arange(len(used), dtype=np.uint32)
    return used, [number[np.minimum(each, count)] for each in codes]


def _number(text: str) -> int:
    """Return a hash of 64 bits that is the same in every run."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


@dataclass
class Selection:
    """What becomes of every row of a loaded table; the first reason counts.

    Where several rows are of one record (a ranking), `record` says of which: it is used or not as
    a whole, and the records are counted.
    """

    table: Source
    state: NDArray[np.uint8]
    record: NDArray[np.int64] | None = None
    reasons: dict[int, tuple[str, str]] = field(default_factory=dict)  # record: column, reason
    ids: NDArray[np.uint64] | None = None  # hashes of what names a row; 0 where nothing does
    known: int = 0  # rows that the fit which is updated has already

    USED, LEFT_OUT, DOUBLED, EMPTY, ASIDE = range(5)

    @classmethod
    def of(cls, table: Source, rows: int, record: NDArray[np.int64] | None = None) -> Selection:
        """All rows, or records, are used at first."""
        return cls(table, np.zeros(rows, np.uint8), record)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows that are used so far."""
        state = self.state if self.record is None else self.state[self.record]
        return np.flatnonzero(state == self.USED)

    def selected(self) -> Source:
        """The table with only these rows."""
        if not self.state.any():
            return self.table
        return Selected(self.table, self.rows)

    def mark(self, records: NDArray[Any], state: int) -> None:
        """Records, as numbers, that are not used."""
        self.state[records[self.state[records] == self.USED]] = state

    def set_aside(self, rows: NDArray[Any], column: str, reason: str) -> None:
        """Rows that cannot be used, and why."""
        records = rows if self.record is None else np.unique(self.record[rows])
        self.set_records_aside(records, column, reason)

    def set_records_aside(self, records: NDArray[Any], column: str, reason: str) -> None:
        """Records that cannot be used, and why."""
        for number in records[self.state[records] == self.USED].tolist():
            self.reasons[number] = (column, reason)
        self.mark(records, self.ASIDE)

    def drop_doubled(self, columns: Sequence[str], seen: NDArray[np.uint64] | None = None) -> None:
        """Use the first of the rows that are equal in the columns, and none that was seen before.

        Rows without an entry are not equal to any other.
        """
        names = [
            resolve_column(self.table, name, "what names a row (--unique)") for name in columns
        ]
        rows = self.rows
        key = np.zeros(len(rows), np.int64)
        ids = np.full(len(rows), _number("\0".join(names)), np.uint64)
        known = np.ones(len(rows), bool)
        for name in names:
            labels, codes = self.table.encode(name)
            own = codes[rows]
            blank = [code for code, label in enumerate(labels) if not str(label).strip()]
            known &= (own != MISSING) & ~np.isin(own, blank)
            hashes = np.array([*(_number(str(label)) for label in labels), 0], np.uint64)
            own = np.minimum(own, len(labels))
            key = np.unique(key * (len(labels) + 1) + own, return_inverse=True)[1].reshape(-1)
            ids = ids * _ODD + hashes[own]
        _, first = np.unique(key[known], return_index=True)
        again = np.ones(int(known.sum()), bool)
        again[first] = False
        self.mark(rows[known][again], self.DOUBLED)
        if self.record is None:
            self.ids = np.zeros(len(self.state), np.uint64)
            self.ids[rows[known]] = ids[known]
        if seen is not None and self.ids is not None:
            old = np.flatnonzero(np.isin(self.ids, seen) & (self.state == self.USED))
            self.mark(old, self.DOUBLED)
            self.known = len(old)

    def row_ids(self) -> NDArray[np.uint64] | None:
        """Return the sorted hashes of the rows used; None where nothing names a row."""
        if self.ids is None:
            return None
        used = self.ids[(self.state == self.USED) & (self.ids != 0)]
        return np.unique(used) if len(used) else None

    def drop_empty(self, blank: set[int], codes: NDArray[np.uint32]) -> None:
        """Rows whose answer is none: no entry, or one of the codes that mean nothing."""
        empty = np.flatnonzero((codes == MISSING) | np.isin(codes, list(blank)))
        self.mark(empty if self.record is None else self.record[empty], self.EMPTY)

    def intake(self, name: str, votes: int, both_bad: int, notes: tuple[str, ...]) -> Intake:
        """The count of every row."""
        count = np.bincount(self.state, minlength=5).tolist()
        reasons = Counter(reason for _, reason in self.reasons.values())
        return Intake(
            format=name,
            rows=len(self.state),
            used=count[self.USED],
            empty=count[self.EMPTY],
            doubled=count[self.DOUBLED],
            set_aside=count[self.ASIDE],
            left_out=count[self.LEFT_OUT],
            votes=votes,
            both_bad=both_bad,
            reasons=tuple(reasons.most_common()),
            notes=notes,
            known=self.known,
        )

    def refuse_nothing(self) -> None:
        """Refuse a table of which no row is left."""
        if self.state.all():
            line = str(self.intake("rows", 0, 0, ())).partition(": ")[2]
            raise InputError(f"no votes are left: {line}", source=self.table.source)

    def write_aside(
        self, path: str | os.PathLike[str], columns: Sequence[str],
        hidden: Mapping[str | None, Hiding],
    ) -> None:  # fmt: skip
        """Write the rows set aside with their places and reasons.

        The columns in `hidden` get pseudonyms. Of a row whose cells could not be separated nothing
        is then written but its place, since a label may stand in any of them.
        """
        with (
            replace_file(Path(path)) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as out,
        ):
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(["source", "row", "column", "reason", *columns])
            for record, (column, reason) in sorted(self.reasons.items()):
                own = [record] if self.record is None else np.flatnonzero(self.record == record)
                if len(own) == 0:  # a record without a single vote
                    continue
                row = int(own[0])
                values = [self.table.value(name, row) for name in columns]
                shown = ["" if value is None else value for value in values]
                for place, name in enumerate(columns):
                    if hidden and not column:
                        shown[place] = ""
                    elif name in hidden and not is_empty(shown[place]):
                        shown[place] = hidden[name].pseudonym(shown[place])
                writer.writerow([*self.table.place(row), column, reason, *shown])
