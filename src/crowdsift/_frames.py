"""Columns of votes that are already in memory: data frames, arrays, DuckDB relations.

A `Table` is what `ingest` reads from; the other kind, files, is in `_duck`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.tables import Backend

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MISSING", "ArrayTable", "FrameTable", "Table", "factorize", "table_of"]

MISSING = 0xFFFFFFFF  # the code of an entry without a label


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
    def numbers(self, name: str, dtype: type[np.floating[Any]]) -> NDArray[Any]:
        """Return the column as numbers, NaN where it has none."""

    @abstractmethod
    def value(self, name: str, row: int) -> Any:
        """Return one entry as it was given, for messages."""

    def place(self, row: int) -> tuple[str, int]:
        """Return the source and the number, from 1, of a row counted from 0."""
        return self.source, row + 1

    def close(self) -> None:  # noqa: B027 -- most tables hold nothing
        """Let go of files and connections."""


class ArrayTable(Table):
    """Columns given as NumPy arrays (or lists)."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = {str(name): _array(values) for name, values in columns.items()}
        self.names = tuple(self._columns)
        shapes = {name: column.shape for name, column in self._columns.items()}
        if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
            raise InputError(f"every column needs one entry a vote; the shapes are {shapes}")

    def load(self, wanted: Sequence[str]) -> int:
        return len(self._columns[wanted[0]])

    def encode(self, name: str) -> tuple[list[Any], NDArray[np.uint32]]:
        return factorize(self._columns[name])

    def numbers(self, name: str, dtype: type[np.floating[Any]]) -> NDArray[Any]:
        return _as_numbers(self._columns[name], dtype)

    def value(self, name: str, row: int) -> Any:
        return self._columns[name][row : row + 1].tolist()[0]


class FrameTable(Table):
    """A data frame of any library that narwhals knows."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names = tuple(str(name) for name in frame.collect_schema().names())
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
            return factorize(series.to_numpy())
        labels = series.drop_nulls().unique().alias("label").to_frame().with_row_index("code")
        rows = series.alias("label").to_frame().with_row_index("row")
        coded = rows.join(labels, on="label", how="inner")  # no library promises the order
        codes = np.full(len(series), MISSING, dtype=np.uint32)
        codes[coded["row"].to_numpy()] = coded["code"].to_numpy()
        return labels["label"].to_list(), codes

    def numbers(self, name: str, dtype: type[np.floating[Any]]) -> NDArray[Any]:
        return _as_numbers(self._frame[name].to_numpy(), dtype)

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
        if len(source) not in (2, 3):
            raise RequestError(
                "a list of arrays is (winner, loser) or (winner, loser, worker), not "
                f"{len(source)} arrays; use a dict of column names for more"
            )
        return ArrayTable(dict(zip(("winner", "loser", "worker"), source, strict=False)))
    if type(source).__name__ == "DuckDBPyRelation":
        return ArrayTable(source.fetchnumpy())
    import narwhals.stable.v1 as nw

    frame = nw.from_native(source, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise RequestError(
            f"votes cannot be read from a {type(source).__name__}; give a path, '-', a pandas, "
            "polars or pyarrow frame, a DuckDB relation, or a dict of arrays"
        )
    return FrameTable(frame)


def factorize(column: NDArray[Any]) -> tuple[list[Any], NDArray[np.uint32]]:
    """Find the distinct labels and the codes of an array; 7, "7" and "007" are three labels."""
    if column.dtype.kind in "iuU":
        labels, codes = np.unique(column, return_inverse=True)
        return labels.tolist(), codes.reshape(-1).astype(np.uint32)
    found: dict[tuple[type, Any], int] = {}
    places = np.full(len(column), MISSING, dtype=np.uint32)
    for row, value in enumerate(column.tolist()):
        if isinstance(value, list | dict | set | np.ndarray):
            raise InputError(f"the label {value!r} is not a text or a number", row=row + 1)
        if value is not None and not _is_missing(value):
            places[row] = found.setdefault((type(value), value), len(found))
    return [label for _, label in found], places


def _is_missing(value: Any) -> bool:
    """Recognise NaN, NaT and pandas' NA, none of which is equal to itself."""
    try:
        return not value == value  # noqa: SIM201
    except TypeError:  # NA has no truth value
        return True


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        return np.asarray(np.ma.filled(values.astype(object), None))
    array: NDArray[Any] = np.asarray(values)
    if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
        entries = list(values)  # NumPy alone makes text of [7, "7"]
        if not all(isinstance(value, str) for value in entries):
            array = np.empty(len(entries), dtype=object)
            array[:] = entries
    return array


def _as_numbers(column: NDArray[Any], dtype: type[np.floating[Any]]) -> NDArray[Any]:
    with np.errstate(over="ignore"):  # too large for the type is infinite, and refused later
        try:
            return np.ascontiguousarray(column, dtype=dtype)
        except (TypeError, ValueError):
            entries = map(_number, column.tolist())
            return np.fromiter(entries, np.float64, len(column)).astype(dtype)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan
