"""Columns of votes that are already in memory: data frames, arrays, DuckDB relations.

A `Table` is what `ingest` reads from; the other kind, files, is in `_duck`. Whatever a label or
a number can do wrong is found here, once for all sources.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.labels import MISSING, LabelError, as_column, factorize, is_empty, merge, plain
from crowdsift.tables import Backend

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_WEIGHT", "ArrayTable", "FrameTable", "Table", "first_outside", "table_of"]

MOST_WEIGHT = 1e9  # so that sums of weights stay far from the limits of float32
_LIMITS = {
    "outcome": (0.0, 1.0),
    "weight": (0.0, MOST_WEIGHT),
    "feature": (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max)),
    "number": (-np.inf, np.inf),
}
_ADVICE = {
    "outcome": "1 says that the first item is better, 0 the second, 0.5 a tie",
    "weight": "a weight counts votes, and is 1 where the column is left out",
    "feature": "correct it or remove the row",
    "number": "correct it or remove the row",
}


class Table(ABC):
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
            what = f"the {role} {given!r} is too large, at most {_LIMITS[role][1]:.2g} is allowed"
        raise self.fault(row, column, f"{what}; {_ADVICE[role]}")


def first_outside(values: NDArray[Any], role: str) -> int | None:
    """Return the first row whose number is not finite or outside the limits of its role."""
    low, high = _LIMITS[role]
    good = np.isfinite(values) & (values >= low) & (values <= high)
    return None if good.all() else int(np.argmin(good))


class ArrayTable(Table):
    """Columns given as NumPy arrays (or lists)."""

    def __init__(self, columns: Mapping[Any, Any], source: str = "votes") -> None:
        self.source = source
        self.names = _distinct(columns)
        self._columns = dict(zip(self.names, map(as_column, columns.values()), strict=True))
        shapes = {name: column.shape for name, column in self._columns.items()}
        if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
            raise InputError(
                f"every column needs one entry a vote; the shapes are {shapes}", source=source
            )

    def load(self, wanted: Sequence[str]) -> int:
        return len(self._columns[wanted[0]])

    def encode(self, name: str) -> tuple[list[Any], NDArray[np.uint32]]:
        return factorize(self._columns[name])

    def numbers(self, name: str) -> NDArray[np.float64] | NDArray[np.float32]:
        return _as_numbers(self._columns[name])

    def value(self, name: str, row: int) -> Any:
        return self._columns[name][row : row + 1].tolist()[0]


class FrameTable(Table):
    """A data frame of any library that narwhals knows."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = tuple(frame.collect_schema().names())
        kind = frame.implementation
        for backend in get_args(Backend):
            if getattr(kind, f"is_{backend}")():
                self.backend = backend

    def load(self, wanted: Sequence[str]) -> int:
        self._frame = self._frame.select(*dict.fromkeys(wanted))
        if hasattr(self._frame, "collect"):
            self._frame = self._frame.collect()
        return len(self._frame)

    def encode(self, name: str) -> tuple[list[Any], NDArray[np.uint32]]:
        import narwhals.stable.v1 as nw

        series = self._frame[name]
        if series.dtype in (nw.Categorical, nw.Enum, nw.Object) or series.dtype.is_nested():
            return factorize(as_column(series.to_list()))
        labels = series.drop_nulls().unique().alias("label").to_frame().with_row_index("code")
        rows = series.alias("label").to_frame().with_row_index("row")
        coded = rows.join(labels, on="label", how="inner")  # no library promises the order
        codes = np.full(len(series), MISSING, dtype=np.uint32)
        codes[coded["row"].to_numpy()] = coded["code"].to_numpy()
        return labels["label"].to_list(), codes

    def numbers(self, name: str) -> NDArray[np.float64] | NDArray[np.float32]:
        return _as_numbers(self._frame[name].to_numpy())

    def value(self, name: str, row: int) -> Any:
        value = self._frame[name][row]
        return value.item() if isinstance(value, np.generic) else value


def table_of(source: Any) -> Table:
    """Make the table for anything in memory that can hold votes."""
    if isinstance(source, Mapping):
        return ArrayTable(source)
    if isinstance(source, np.ndarray) and source.dtype.names:
        return ArrayTable({name: source[name] for name in source.dtype.names})
    if isinstance(source, np.ndarray) and source.ndim == 2:
        source = list(source.T)
    if isinstance(source, list | tuple):
        return _table_of_list(source)
    if type(source).__name__ == "DuckDBPyRelation":
        return _table_of_relation(source)
    import narwhals.stable.v1 as nw

    frame = nw.from_native(_with_text_names(source), pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise RequestError(
            f"votes cannot be read from a {type(source).__name__}; give a path, '-', a pandas, "
            "polars or pyarrow frame, a DuckDB relation, or a dict of arrays"
        )
    return FrameTable(frame)


def _table_of_list(columns: Sequence[Any]) -> Table:
    """Take two or three columns; rows would be mistaken for them, and are refused."""
    for row in columns:
        if isinstance(row, tuple | Mapping):
            raise RequestError(
                f"a list of rows ({type(row).__name__}s) is not read; give columns, as in "
                "{'winner': [...], 'loser': [...], 'worker': [...]}, or a data frame"
            )
    if len(columns) not in (2, 3) or not all(_is_array(column) for column in columns):
        raise RequestError(
            "a list of arrays is (winner, loser) or (winner, loser, worker), each an array or a "
            f"list; this one holds {len(columns)} of {_kinds(columns)}; use a dict of column "
            "names for more"
        )
    return ArrayTable(dict(zip(("winner", "loser", "worker"), columns, strict=False)))


def _is_array(column: Any) -> bool:
    return isinstance(column, list) or getattr(column, "ndim", hasattr(column, "__array__")) == 1


def _kinds(values: Iterable[Any]) -> str:
    return " and ".join(dict.fromkeys(type(value).__name__ for value in values)) or "nothing"


def _table_of_relation(relation: Any) -> Table:
    names = _distinct(relation.columns)
    columns = dict(zip(names, relation.fetchnumpy().values(), strict=True))
    for name, kind in zip(names, relation.types, strict=True):
        if str(kind) == "DATE":  # comes as a time of the day
            columns[name] = columns[name].astype("datetime64[D]")
    return ArrayTable(columns)


def _distinct(names: Iterable[Any]) -> tuple[str, ...]:
    """Make names of columns text, and refuse one that is there twice."""
    texts = tuple(map(str, names))
    for name, count in Counter(texts).items():
        if count > 1:
            raise InputError(
                f"there are {count} columns named {name!r}; rename or remove all but one",
                source="votes",
            )
    return texts


def _with_text_names(source: Any) -> Any:
    """Give a frame names that are text; pandas has columns named 0, or two of the same name."""
    import narwhals.stable.v1.dependencies as known

    if known.is_pyarrow_table(source):
        _distinct(source.column_names)
    elif known.is_pandas_like_dataframe(source):
        names = _distinct(source.columns)
        if not all(isinstance(name, str) for name in source.columns):
            return source.set_axis(list(names), axis=1)
    return source


def _as_numbers(column: NDArray[Any]) -> NDArray[np.float64] | NDArray[np.float32]:
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
