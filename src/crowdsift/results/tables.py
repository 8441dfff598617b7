"""A small immutable table: columns by name, and conversion to CSV, JSON and data frames."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.votes.source import Backend

_SHOWN, _LONGEST = 10, 32  # printed rows, and characters per cell
_QUOTED = re.compile('[,"\r\n]')  # characters that need quotes in a CSV field


class Table(Mapping[str, NDArray[Any]]):
    """Named columns of equal length."""

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        self._columns = dict(columns)
        if len({len(column) for column in self._columns.values()}) > 1:
            raise ValueError("columns of different length")
        for column in self._columns.values():
            column.setflags(write=False)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._columns:
            raise KeyError(f"no column {name!r}; the columns are {', '.join(self._columns)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        """Return the first rows as text."""
        shown = [[name, *map(_shown, _plain(column[:_SHOWN]))] for name, column in self.items()]
        widths = [max(map(len, cells)) for cells in shown]
        right = [column.dtype.kind in "fiu" for column in self.values()]
        lines = [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(row, widths, right, strict=True)
            ).rstrip()
            for row in zip(*shown, strict=True)
        ]
        if self.height > _SHOWN:
            lines.append(f"... {self.height} rows")
        return "\n".join(lines)

    @property
    def height(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, with None where a value is missing."""
        names, columns = list(self), [_plain(column) for column in self._columns.values()]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_csv(self) -> str:
        """Return the table as CSV text; missing values are empty."""
        lines = [",".join(map(_cell, self))]
        columns = map(_cells, self._columns.values())
        lines.extend(map(",".join, zip(*columns, strict=True)))
        return "\n".join(lines) + "\n"

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """Return the table as a frame of pandas, polars or pyarrow, or a Hugging Face Dataset."""
        import narwhals

        columns = {name: _alike(_plain(column)) for name, column in self._columns.items()}
        if backend == "datasets":
            from datasets import Dataset

            return Dataset.from_dict(columns)
        return narwhals.from_dict(columns, backend=backend).to_native()

    def in_backend(self, backend: Backend | None) -> Any:
        """Return the table as a frame of this library; None returns it unchanged."""
        return self if backend is None else self.to_frame(backend)

    def to_pandas(self) -> Any:
        """Return the table as a frame of pandas."""
        return self.to_frame("pandas")

    def to_polars(self) -> Any:
        """Return the table as a frame of polars."""
        return self.to_frame("polars")

    def to_arrow(self) -> Any:
        """Return the table as a table of PyArrow."""
        return self.to_frame("pyarrow")


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = "".join(c if c.isprintable() else "�" for c in " ".join(str(value).split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def whole(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as integers; other values unchanged."""
    small = np.isfinite(values).all() and (np.abs(values) < 2**53).all()
    return values.astype(np.int64) if len(values) and small and (values == np.round(values)).all() else values


def _plain(column: NDArray[Any]) -> list[Any]:
    """Return Python values, None for NaN."""
    values = column.tolist()
    if column.dtype.kind == "f":
        return [None if value != value else value for value in values]
    return values  # type: ignore[no-any-return]


def _cells(column: NDArray[Any]) -> Iterator[str]:
    """Return the fields of a CSV column; numbers need no quotes."""
    if column.dtype.kind in "iub":
        return map(str, column.tolist())
    if column.dtype.kind == "f":
        return ("" if value != value else str(value) for value in column.tolist())
    return map(_cell, column.tolist())


def _cell(value: Any) -> str:
    """Return a value as a CSV field, quoted if a reader needs it, for instance for a lone CR."""
    text = "" if value is None else str(value)
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def _alike(values: list[Any]) -> list[Any]:
    """Return values of one type unchanged, and of several types as text: a frame's column has one type."""
    kinds = {type(value) for value in values if value is not None}
    return values if len(kinds) < 2 else [None if v is None else str(v) for v in values]
