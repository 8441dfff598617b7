"""Rows of votes made of nested records, and where each came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.io.frames import write_records
from crowdsift.votes.source import ArraySource

if TYPE_CHECKING:
    from crowdsift.io.duck import Added
    from crowdsift.votes.source import Source

__all__ = ["Unfolded", "UnfoldedSource"]


@dataclass(frozen=True)
class Unfolded:
    """Columns of votes, and for each the number of the record that it was made of.

    Attributes
    ----------
    columns
        The entries by the name of the column: names of our own layouts, and further ones.
    record
        For every vote the record (annotation, ranking) it is of, counted from 0.
    row
        For every record the row of the source that holds it.
    aside
        Records that are void, and why.
    empty
        Records without an answer.
    context
        The column of contexts, "" for none.
    texts
        The whole texts of labels that were cut, for writing.
    in_place
        Where every row of the source is one vote: the source's column of each of ours.
    """

    columns: Mapping[str, Sequence[Any]]
    record: Sequence[int]
    row: Sequence[int]
    aside: Mapping[int, str] = field(default_factory=dict)
    empty: Sequence[int] = ()
    context: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    in_place: Mapping[str, str] = field(default_factory=dict)


class UnfoldedSource(ArraySource):
    """The votes of nested records; errors name the row of the source that holds the record."""

    def __init__(self, unfolded: Unfolded, origin: Source) -> None:
        super().__init__(unfolded.columns, source=origin.source)
        self.backend, self.notes = origin.backend, origin.notes
        self._origin = origin
        self._texts, self._in_place = unfolded.texts, unfolded.in_place
        self._row = np.asarray(unfolded.row, np.int64)[np.asarray(unfolded.record, np.int64)]

    @property
    def files(self) -> tuple[str, ...]:
        """See `Source.files`."""
        return self._origin.files

    def place(self, row: int) -> tuple[str, int]:
        """See `Source.place`."""
        return self._origin.place(int(self._row[row]))

    @property
    def written_names(self) -> tuple[str, ...]:
        """The columns of the source that `write` writes, but for its own names."""
        return self._origin.names if self._in_place else self.names

    def write(self, path: str, kind: str, added: Added) -> None:
        """Write the votes and further columns: the source's rows where these are votes."""
        if self._in_place:
            if added.turned is not None:
                names, pair, turned = added.turned
                one, two = (self._in_place[name] for name in pair)
                added = replace(added, turned=(names, (one, two), turned))
            self._origin.write(path, kind, added)  # type: ignore[attr-defined]
            return
        columns = {name: self._written(name) for name in self.names}
        write_records(columns, path, kind, added)

    def _written(self, name: str) -> list[Any]:
        """A column with its whole texts."""
        entries: list[Any] = self._columns[name].tolist()
        if not self._texts:
            return entries
        return [self._texts.get(each, each) if type(each) is str else each for each in entries]

    def close(self) -> None:
        """See `Source.close`."""
        self._origin.close()
