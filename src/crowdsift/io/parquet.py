"""Columns of numbers as the content of a Parquet file, and back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import ResourceError
from crowdsift.io.temporary import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["parquet_bytes", "parquet_columns"]

_NAME = "columns.parquet"


def parquet_bytes(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file with these columns: the same bytes for the same columns.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.io.parquet import parquet_bytes, parquet_columns
    >>> parquet_columns(parquet_bytes({"a": np.arange(3)}))["a"]
    array([0, 1, 2])
    """
    import duckdb

    with _private_file() as path:
        target = f"{_literal(path)} (FORMAT parquet, USE_TMP_FILE false)"
        try:
            _query(f"COPY (SELECT * FROM columns) TO {target}", columns)
        except duckdb.Error as error:
            reason = str(error).split("\n", 1)[0]
            raise ResourceError(
                f"there is no room for a temporary file ({reason}); make room, or set TMPDIR to a "
                "folder on a larger disk"
            ) from None
        return path.read_bytes()


def parquet_columns(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of such a file; raise ValueError where it is damaged."""
    import duckdb

    try:
        with _private_file() as path:
            path.write_bytes(content)
            return _query(f"SELECT * FROM read_parquet({_literal(path)})", {})
    except duckdb.Error as error:
        raise ValueError(str(error).split("\n", 1)[0]) from None


@contextmanager
def _private_file() -> Iterator[Path]:
    """Yield a file in memory where the system has these, else one in a temporary folder.

    So a full TMPDIR does not keep a finished fit from being saved on another disk.
    """
    handle = -1
    if sys.platform == "linux":
        with suppress(OSError):
            handle = os.memfd_create(_NAME)
    path = Path(f"/proc/self/fd/{handle}")
    try:
        if handle >= 0 and path.exists():
            yield path
        else:
            with temporary_folder() as folder:
                yield folder / _NAME
    finally:
        if handle >= 0:
            os.close(handle)


def _query(query: str, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What DuckDB answers, by column; `columns` is a table that the query may name."""
    with _database(os.getpid()).cursor() as connection:
        if columns:
            connection.register("columns", dict(columns))
        answer = connection.execute(query).fetchnumpy()
    return {name: np.ma.filled(values, np.nan) if np.ma.is_masked(values) else np.asarray(values)
            for name, values in answer.items()}  # fmt: skip


@cache
def _database(process: int) -> Any:
    """The database of a process, one made before a fork not: starting one is 20 ms of work."""
    import duckdb

    database = duckdb.connect(":memory:", config={"threads": "1"})
    with suppress(duckdb.InvalidInputException):  # a notebook without widgets has no bar
        database.execute("SET enable_progress_bar = false")
    return database


def _literal(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
