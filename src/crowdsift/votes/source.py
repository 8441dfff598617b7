"""Sources of votes: named columns, checked in the same way for every source.

A `Source` of arrays is here; frames and files are in `crowdsift.io`. All faults of labels and numbers are found here,
once for all sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError
from crowdsift.numeric import Codes, Indices, Labels, Mask, Vector
from crowdsift.votes.labels import MISSING, LabelError, as_column, factorize, is_empty, merge, plain, shown
from crowdsift.votes.replies import prompt_label, reply_label

MOST_WEIGHT = 1e9  # keeps sums of weights far from the limits of float32
LIMITS = {
    "outcome": (0.0, 1.0),
    "weight": (0.0, MOST_WEIGHT),
    "feature": (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)),
    "covariate": (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)),
    "number": (-np.inf, np.inf),
}
ADVICE = {
    "outcome": "1 says that the first item is better, 0 the second, 0.5 a tie",
    "weight": "a weight counts votes, and is 1 where the column is left out",
    "feature": "correct it or remove the row",
    "covariate": "correct it or remove the row",
    "number": "correct it or remove the row",
}


def first_outside(values: NDArray[Any], role: str) -> int | None:
    """Return the first row whose number is not finite or outside the limits of its role."""
    low, high = LIMITS[role]
    good = np.isfinite(values) & (values >= low) & (values <= high)
    return None if good.all() else int(np.argmin(good))


# Supported libraries of data frames.
Backend = Literal["pandas", "polars", "pyarrow", "datasets"]


@dataclass(frozen=True)
class Added:
    """Columns to write besides the loaded ones, one entry per row that is written.

    `numbers` are columns of numbers. `labels` are columns of text, each with a code for every row and the text of every
    code. `turned` names two new columns, the two loaded ones from which they are made, and the rows where these are
    swapped; None for none. `renamed` has new names of loaded columns, and `rows` are the rows of the source that are
    written; None for all.
    """

    numbers: Mapping[str, NDArray[Any]]
    labels: Mapping[str, tuple[Codes, Labels]] = field(default_factory=dict)
    turned: tuple[tuple[str, str], tuple[str, str], Mask] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    rows: Indices | None = None


class SortedCodes(NamedTuple):
    """Sorted text labels, the codes of every column, and the codes of labels that may be blank."""

    labels: Labels
    codes: list[Codes]
    unclear: list[int]


class Source(ABC):
    """Named columns of equal length, read one at a time, always in the order of the rows."""

    names: tuple[str, ...]
    source: str = "votes"
    backend: Backend | None = None
    worker_column: str = "worker"  # for workers that are paths or columns of answers
    later_names: frozenset[str] = frozenset()  # columns that the first of several files lacks
    has_blanks: bool = False  # whether rows without an answer are expected
    by_column: bool = False  # whether columns of answers are named by their workers
    notes: tuple[str, ...] = ()  # remarks for the user on how the source was read

    @abstractmethod
    def load(
        self, wanted: Sequence[str], *, replies: Sequence[str] = (), prompts: Sequence[str] = (), condition: str = ""
    ) -> int:
        """Prepare columns and return the number of rows.

        `replies`: columns of replies, whose labels are those of `crowdsift.votes.replies`; `condition`: a condition in
        SQL on the columns; `kept` returns which rows meet it.
        """

    @abstractmethod
    def encode(self, name: str) -> tuple[list[Any], Codes]:
        """Return distinct labels in any order, and every row's code or MISSING."""

    @abstractmethod
    def numbers(self, name: str) -> Vector | NDArray[np.float32]:
        """Return the column as numbers without rounding, NaN for entries without one."""

    @abstractmethod
    def value(self, name: str, row: int) -> Any:
        """Return one entry as it was given, for messages."""

    @property
    def all_rows(self) -> Source:
        """Return the table with every row that was read, including unused ones."""
        return self

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of the files that are read, if any."""
        return ()

    def refuse_copies(self) -> None:  # noqa: B027 -- most sources are not files
        """Raise an error for files with equal content, unless columns identify the rows."""

    @property
    def written_names(self) -> tuple[str, ...]:
        """Return the columns that an export writes."""
        return self.names

    def whole(self, name: str, row: int) -> Any:
        """Return one entry in full, even of a column of replies, which are cut otherwise."""
        return self.value(name, row)

    def kept(self) -> Mask | None:
        """Return which rows meet the condition; None if there is none."""
        return None

    def broken(self) -> dict[int, str]:
        """Return the rows that are no records, with the fault of each."""
        return {}

    def hashes(self, names: Sequence[str]) -> NDArray[np.uint64] | None:
        """Return a hash of the entries of columns in every row; None where this would be slow."""
        return None

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Return the entries of columns row by row, as Python values, for nested formats."""
        raise NotImplementedError

    def sorted_codes(self, columns: Sequence[str]) -> SortedCodes | None:
        """Return the sorted text labels of columns and the codes of each, or MISSING."""
        # None if the source has no fast way; see `labels`.
        return None

    def write(self, path: str, kind: str, added: Added) -> None:
        """Write every loaded column and further ones, in the order of the rows."""
        # `kind` is "json" (one object a line), "csv" or "parquet".
        raise NotImplementedError

    def place(self, row: int) -> tuple[str, int]:
        """Return the source and the number, from 1, of a row counted from 0."""
        return self.source, row + 1

    def hide(self, column: str, pseudonym: Callable[[Any], str]) -> None:  # noqa: B027
        """Show pseudonyms if the name of a source contains a value of the column."""

    def close(self) -> None:  # noqa: B027 -- most tables hold nothing
        """Close files and connections."""

    def fault(self, row: int, column: str | None, message: str) -> InputError:
        """Make the error for a row, counted from 0."""
        source, number = self.place(row)
        return InputError(message, source=source, row=number, column=column)

    def codes(self, column: str) -> tuple[list[Any], Codes]:
        """Return `encode`; a label that cannot be one is an error with its place."""
        try:
            return self.encode(column)
        except LabelError as fault:
            raise self.fault(fault.row, column, fault.message) from None

    def entries(self, column: str, what: str) -> tuple[list[Any], Codes]:
        """Return codes for a column whose entries must all be labels."""
        given, codes = self.codes(column)
        unfit = [code for code, label in enumerate(given) if label.__hash__ is None]
        if unfit:
            row = int(np.argmax(np.isin(codes, unfit)))
            label = shown(given[codes[row]])
            raise self.fault(row, column, f"the {what} {label} is not a text, a number or a date")
        empty = [code for code, label in enumerate(given) if is_empty(label)]
        self._refuse_empty(codes, empty, column, what)
        try:
            return plain(given), codes
        except LabelError as fault:
            raise self.fault(int(np.argmax(codes == fault.row)), column, fault.message) from None

    def _refuse_empty(self, codes: Codes, empty: list[int], column: str, what: str) -> None:
        absent = np.isin(codes, [*empty, MISSING]) if empty else codes == MISSING
        if not absent.any():
            return
        rows = np.flatnonzero(absent)
        advice = "fill it or remove the row"
        if len(rows) > 1:
            numbers = ", ".join(str(self.place(int(row))[1]) for row in rows[:8])
            more = ", ..." if len(rows) > 8 else ""
            advice = f"{len(rows):,} rows have none ({numbers}{more}): fill them or remove the rows"
        raise self.fault(
            int(rows[0]), column, f"empty {what}; {advice}, or set bad rows aside (--skip-bad, skip_bad=True)"
        )

    def labels(self, columns: Sequence[str], what: str) -> tuple[Labels, list[Codes]]:
        """Return the sorted distinct labels of the columns together, and the codes of each column."""
        quick = self.sorted_codes(columns)
        if quick is None:
            return merge([self.entries(column, what) for column in columns])
        labels, codes, unclear = quick
        empty = [code for code in unclear if not labels[code].strip()]
        for column, each in zip(columns, codes, strict=True):
            self._refuse_empty(each, empty, column, what)
        return labels, codes

    def pairs(self, first: str, second: str, what: str = "item label") -> tuple[Labels, Codes, Codes]:
        """Return codes for two columns of items, which must differ in every row."""
        items, (one, two) = self.labels([first, second], what)
        if len(items) == 1:
            raise InputError(
                f"only one item, {shown(items[0])}; a comparison needs two different ones", source=self.source
            )
        if (same := one == two).any():
            row = int(np.argmax(same))
            label = shown(items[one[row]])
            raise self.fault(row, None, f"the item {label} is compared with itself; remove the row")
        return items, one, two

    def quantities(self, column: str, role: str) -> Vector | NDArray[np.float32]:
        """Return a column of finite numbers, each within the limits of its role."""
        # The roles are outcome, weight, feature and number. The limits are checked before any rounding to float32.
        values = self.numbers(column)
        row = first_outside(values, role)
        if row is None:
            return values
        given, number, what = self.value(column, row), values[row], ""
        text = shown(given)
        if is_empty(given) and not isinstance(given, float):
            what = f"empty {role}"
        elif np.isnan(number):
            what = f"the {role} {text} is not a number"
        elif np.isinf(number):
            what = f"the {role} {text} is infinite"
        elif role == "outcome":
            what = f"the outcome {text} is outside [0, 1]"
        elif number < 0 and role == "weight":
            what = f"the weight {text} is negative"
        else:
            what = f"the {role} {text} is too large, at most {LIMITS[role][1]:.2g} is allowed"
        raise self.fault(row, column, f"{what}; {ADVICE[role]}")


class ArraySource(Source):
    """Columns given as NumPy arrays (or lists)."""

    def __init__(self, columns: Mapping[Any, Any], source: str = "votes") -> None:
        self.source = source
        self.names = distinct_names(columns)
        self._cut: dict[str, Callable[[Any], str | None]] = {}
        self._columns = dict(zip(self.names, map(as_column, columns.values()), strict=True))
        shapes = {name: column.shape for name, column in self._columns.items()}
        if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
            sizes = ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in shapes.items())
            raise InputError(f"every column needs one entry per vote; the columns have {sizes}", source=source)

    def load(
        self, wanted: Sequence[str], *, replies: Sequence[str] = (), prompts: Sequence[str] = (), condition: str = ""
    ) -> int:
        self._cut = {**dict.fromkeys(replies, reply_label), **dict.fromkeys(prompts, prompt_label)}
        return len(self._columns[[*wanted, *replies, *prompts][0]])

    def encode(self, name: str) -> tuple[list[Any], Codes]:
        column = self._columns[name]
        if name in self._cut:
            column = as_column(list(map(self._cut[name], column.tolist())))
        return factorize(column)

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        return zip(*(self._columns[name].tolist() for name in names), strict=True)

    def numbers(self, name: str) -> Vector | NDArray[np.float32]:
        return as_numbers(self._columns[name])

    def value(self, name: str, row: int) -> Any:
        return self._columns[name][row : row + 1].tolist()[0]


def distinct_names(names: Iterable[Any]) -> tuple[str, ...]:
    """Return names of columns as text; raise an error for a repeated one."""
    texts = tuple(map(str, names))
    for name, count in Counter(texts).items():
        if count > 1:
            raise InputError(f"there are {count} columns named {name!r}; rename or remove all but one", source="votes")
    return texts


def as_numbers(column: NDArray[Any]) -> Vector | NDArray[np.float32]:
    """Return a column as numbers, NaN for entries that are none."""
    if column.dtype == np.float32:
        return np.ascontiguousarray(column)
    if column.dtype.kind in "biuf":
        return np.ascontiguousarray(column, dtype=np.float64)
    return np.fromiter(map(number_of, column.tolist()), np.float64, len(column))


def number_of(value: Any) -> float:
    """Return one entry as a number, NaN if it is none; texts are treated as in a file of votes."""
    # Python also accepts 1_000 and digits of other scripts, which are refused in files.
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return float("nan")
    try:
        return float(value)
    except OverflowError:  # an integer of more than 300 digits
        return float("inf")
    except (TypeError, ValueError):
        return float("nan")
