"""Where votes are read from: named columns, checked alike whatever they come from.

A `Source` of arrays is here; frames and files are in `crowdsift.io`. Whatever a label or a number
can do wrong is found here, once for all sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from crowdsift.errors import InputError
from crowdsift.votes.labels import MISSING, LabelError, as_column, factorize, is_empty, merge, plain
from crowdsift.votes.limits import ADVICE, LIMITS, first_outside

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ArraySource", "Backend", "Source", "as_numbers", "distinct_names"]

# The libraries of data frames that come in and go out.
Backend = Literal["pandas", "polars", "pyarrow"]


class Source(ABC):
    """Named columns of equal length, read one at a time, always in the order of the rows."""

    names: tuple[str, ...]
    source: str = "votes"
    backend: Backend | None = None

    @abstractmethod
    def load(self, wanted: Sequence[str]) -> int:
        """Make the columns `wanted` ready and return the number of rows."""

    @abstractmethod
    def encode(self, name: str) -> tuple[list[Any], NDArray[np.uint32]]:
        """Return distinct labels in any order, and every row's code or MISSING."""

    @abstractmethod
    def numbers(self, name: str) -> NDArray[np.float64] | NDArray[np.float32]:
        """Return the column as numbers, rounded nowhere, NaN where it has none."""

    @abstractmethod
    def value(self, name: str, row: int) -> Any:
        """Return one entry as it was given, for messages."""

    def place(self, row: int) -> tuple[str, int]:
        """Return the source and the number, from 1, of a row counted from 0."""
        return self.source, row + 1

    def close(self) -> None:  # noqa: B027 -- most tables hold nothing
        """Let go of files and connections."""

    def fault(self, row: int, column: str | None, message: str) -> InputError:
        """Make the error for a row, counted from 0."""
        source, number = self.place(row)
        return InputError(message, source=source, row=number, column=column)

    def entries(self, column: str, what: str) -> tuple[list[Any], NDArray[np.uint32]]:
        """Encode a column, all of whose entries must be labels."""
        try:
            given, codes = self.encode(column)
        except LabelError as fault:
            raise self.fault(fault.row, column, fault.message) from None
        unfit = [code for code, label in enumerate(given) if label.__hash__ is None]
        if unfit:
            row = int(np.argmax(np.isin(codes, unfit)))
            label = given[codes[row]]
            raise self.fault(row, column, f"the {what} {label!r} is not a text, a number or a date")
        empty = [code for code, label in enumerate(given) if is_empty(label)]
        absent = np.isin(codes, [*empty, MISSING]) if empty else codes == MISSING
        if absent.any():
            row = int(np.argmax(absent))
            raise self.fault(row, column, f"empty {what}; fill it or remove the row")
        try:
            return plain(given), codes
        except LabelError as fault:
            raise self.fault(int(np.argmax(codes == fault.row)), column, fault.message) from None

    def labels(
        self, columns: Sequence[str], what: str
    ) -> tuple[NDArray[np.object_], list[NDArray[np.uint32]]]:
        """Sort the distinct labels of the columns together, and give the codes of each column."""
        return merge([self.entries(column, what) for column in columns])

    def pairs(
        self, first: str, second: str
    ) -> tuple[NDArray[np.object_], NDArray[np.uint32], NDArray[np.uint32]]:
        """Encode two columns of items, which must differ in every row."""
        items, (one, two) = self.labels([first, second], "item label")
        if len(items) == 1:
            raise InputError(
                f"only one item, {items[0]!r}; a comparison needs two different ones",
                source=self.source,
            )
        if (same := one == two).any():
            row = int(np.argmax(same))
            label = items[one[row]]
            raise self.fault(
                row, None, f"the item {label!r} is compared with itself; remove the row"
            )
        return items, one, two

    def quantities(self, column: str, role: str) -> NDArray[np.float64] | NDArray[np.float32]:
        """Read a column of finite numbers, each within the limits of its role.

        The roles are outcome, weight, feature and number. The limits are checked before any
        rounding to float32.
        """
        values = self.numbers(column)
        row = first_outside(values, role)
        if row is None:
            return values
        given, number, what = self.value(column, row), values[row], ""
        if is_empty(given) and not isinstance(given, float):
            what = f"empty {role}"
        elif np.isnan(number):
            what = f"the {role} {given!r} is not a number"
        elif np.isinf(number):
            what = f"the {role} {given!r} is infinite"
        elif role == "outcome":
            what = f"the outcome {given!r} is outside [0, 1]"
        elif number < 0 and role == "weight":
            what = f"the weight {given!r} is negative"
        else:
            what = f"the {role} {given!r} is too large, at most {LIMITS[role][1]:.2g} is allowed"
        raise self.fault(row, column, f"{what}; {ADVICE[role]}")


class ArraySource(Source):
    """Columns given as NumPy arrays (or lists)."""

    def __init__(self, columns: Mapping[Any, Any], source: str = "votes") -> None:
        self.source = source
        self.names = distinct_names(columns)
        self._columns = dict(zip(self.names, map(as_column, columns.values()), strict=True))
        shapes = {name: column.shape for name, column in self._columns.items()}
        if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
            raise InputError(
                f"every column needs one entry a vote; the shapes are {shapes}", source=source
            )

    def load(self, wanted: Sequence[str]) -> int:
        """See `Source.load`."""
        return len(self._columns[wanted[0]])

    def encode(self, name: str) -> tuple[list[Any], NDArray[np.uint32]]:
        """See `Source.encode`."""
        return factorize(self._columns[name])

    def numbers(self, name: str) -> NDArray[np.float64] | NDArray[np.float32]:
        """See `Source.numbers`."""
        return as_numbers(self._columns[name])

    def value(self, name: str, row: int) -> Any:
        """See `Source.value`."""
        return self._columns[name][row : row + 1].tolist()[0]


def distinct_names(names: Iterable[Any]) -> tuple[str, ...]:
    """Make names of columns text, and refuse one that is there twice."""
    texts = tuple(map(str, names))
    for name, count in Counter(texts).items():
        if count > 1:
            raise InputError(
                f"there are {count} columns named {name!r}; rename or remove all but one",
                source="votes",
            )
    return texts


def as_numbers(column: NDArray[Any]) -> NDArray[np.float64] | NDArray[np.float32]:
    """A column as numbers, NaN where an entry is none."""
    if column.dtype == np.float32:
        return np.ascontiguousarray(column)
    try:
        return np.ascontiguousarray(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.fromiter(map(_number, column.tolist()), np.float64, len(column))


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of more than 300 digits
        return float("inf")
    except (TypeError, ValueError):
        return float("nan")
