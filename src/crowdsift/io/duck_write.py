"""Writes loaded columns and further ones, row by row in the order of the source."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.io.database import Database, TemporaryFolder, literal, quoted, reason_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Loaded", "write_rows"]


@dataclass(frozen=True)
class Loaded:
    """The table of votes: names of its columns, those that hold codes, its row number, its rows."""

    column: Mapping[str, str]
    coded: set[str]
    place: str
    rows: int
    is_json: bool


def write_rows(
    database: Database,
    loaded: Loaded,
    folder: TemporaryFolder,
    path: str,
    kind: str,
    numbers: Mapping[str, NDArray[Any]],
    labels: Mapping[str, tuple[NDArray[np.uint32], NDArray[np.object_]]],
) -> None:
    """Write every loaded column and further ones.

    Parameters
    ----------
    database, loaded, folder
        Where the rows are, and a folder that the database may write to.
    path, kind
        Where to, and "json" (one object a line) or "parquet".
    numbers
        Further columns, one entry a row.
    labels
        Further columns of text: a code for every row, and the text of every code.
    """
    import duckdb

    added = {f"n{place}": values for place, values in enumerate(numbers.values())}
    added |= {f"l{place}": codes for place, (codes, _) in enumerate(labels.values())}
    added["row_number"] = np.arange(loaded.rows)
    chosen = [f"{_cell(database, loaded, name, kind)} AS {quoted(name)}" for name in loaded.column]
    chosen += [f"n{place} AS {quoted(name)}" for place, name in enumerate(numbers)]
    joins = ""
    for name in loaded.coded:
        column = loaded.column[name]
        joins += f" LEFT JOIN labels_{column} ON labels_{column}.code = votes.{column}"
    for place, (name, (_, texts)) in enumerate(labels.items()):
        code = np.arange(len(texts), dtype=np.uint32)
        database.register(f"texts{place}", {"code": code, "entry": texts})
        joins += f" LEFT JOIN texts{place} ON texts{place}.code = l{place}"
        chosen.append(f"texts{place}.entry AS {quoted(name)}")
    database.register("added", added)
    meet = "POSITIONAL JOIN added"
    if loaded.coded:
        meet = f"JOIN added ON added.row_number = votes.{loaded.place}"
    rows = f"SELECT {', '.join(chosen)} FROM votes {meet}{joins}"
    if joins:  # a join keeps no order
        rows += f" ORDER BY votes.{loaded.place}"
    form = "JSON" if kind == "json" else "PARQUET, COMPRESSION ZSTD"
    draft = folder.file()  # the database may write nowhere else
    try:
        database.execute(f"COPY ({rows}) TO {literal(draft)} (FORMAT {form})")
    except duckdb.Error as error:
        raise OSError(reason_of(error)) from None
    try:
        os.replace(draft, path)
    except OSError:  # another file system
        shutil.copyfile(draft, path)


def _cell(database: Database, loaded: Loaded, name: str, kind: str) -> str:
    """A loaded column as it is written: JSON values in Parquet get a type of their own."""
    column = loaded.column[name]
    if name in loaded.coded:
        return f"labels_{column}.label"
    if not loaded.is_json or kind == "json":
        return f"votes.{column}"
    query = f"SELECT DISTINCT json_type({column}) FROM votes WHERE {column} IS NOT NULL"
    types = {name for (name,) in database.execute(query).fetchall()} - {"NULL"}
    if types == {"VARCHAR"}:
        return f"votes.{column} ->> '$'"
    if types and types <= {"UBIGINT", "BIGINT"}:
        return f"TRY_CAST(votes.{column} AS BIGINT)"
    if types and types <= {"UBIGINT", "BIGINT", "DOUBLE"}:
        return f"TRY_CAST(votes.{column} AS DOUBLE)"
    return f"TRY_CAST(votes.{column} AS BOOLEAN)" if types == {"BOOLEAN"} else f"votes.{column}"
