"""Rows of votes made of nested records, and where each came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.votes.source import ArraySource

if TYPE_CHECKING:
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
    """

    columns: Mapping[str, Sequence[Any]]
    record: Sequence[int]
    row: Sequence[int]
    aside: Mapping[int, str] = field(default_factory=dict)
    empty: Sequence[int] = ()
    context: str = ""


class UnfoldedSource(ArraySource):
    """The votes of nested records; errors name the row of the source that holds the record."""

    def __init__(self, unfolded: Unfolded, origin: Source) -> None:
        super().__init__(unfolded.columns, source=origin.source)
        self.backend = origin.backend
        self._origin = origin
        self._row = np.asarray(unfolded.row, np.int64)[np.asarray(unfolded.record, np.int64)]

    def place(self, row: int) -> tuple[str, int]:
        """See `Source.place`."""
        return self._origin.place(int(self._row[row]))

    def close(self) -> None:
        """See `Source.close`."""
        self._origin.close()
