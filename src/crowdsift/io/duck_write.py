"""Writes loaded columns and further ones, row by row in the order of the source."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.io.database import Database, literal, quoted, reason_of
from crowdsift.io.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["Added", "Loaded", "write_rows"]


_FORMS = {"json": "JSON", "csv": "CSV, HEADER", "parquet": "PARQUET, COMPRESSION ZSTD"}


@dataclass(frozen=True)
class Loaded:
    """The table of votes: names of its columns, those that hold codes, its row number, its rows."""

    column: Mapping[str, str]
    coded: set[str]
    place: str
    rows: int
    is_json: bool


@dataclass(frozen=True)
class Added:
    """What is written beside the loaded columns, one entry per row that is written.

    Attributes
    ----------
    numbers
        Further columns of numbers.
    labels
        Further columns of text: a code for every row, and the text of every code.
    turned
        Two further columns, the two loaded ones of which they are made, and where these change
        places; None for none.
    renamed
        Other names of loaded columns.
    rows
        The rows of the source that are written; None for all.
    """

    numbers: Mapping[str, NDArray[Any]]
    labels: Mapping[str, tuple[NDArray[np.uint32], NDArray[np.object_]]] = field(
        default_factory=dict
    )
    turned: tuple[tuple[str, str], tuple[str, str], NDArray[np.bool_]] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    rows: NDArray[np.int64] | None = None


def write_rows(
    database: Database,
    loaded: Loaded,
    folder: TemporaryFolder,
    path: str,
    kind: str,
    added: Added,
) -> None:
    """Write every loaded column and further ones.

    Parameters
    ----------
    database, loaded, folder
        Where the rows are, and a folder that the database may write to.
    path, kind
        Where to, and "json" (one object a line), "csv" or "parquet".
    added
        The further columns, and which rows are written.
    """
    import duckdb

    rows = f"SELECT {', '.join(_columns(database, loaded, kind, added))} FROM votes "
    rows += f"JOIN added ON added.row_number = votes.{loaded.place}"
    for name in loaded.coded:
        column = loaded.column[name]
        rows += f" LEFT JOIN labels_{column} ON labels_{column}.code = votes.{column}"
    for place in range(len(added.labels)):
        rows += f" LEFT JOIN texts{place} ON texts{place}.code = l{place}"
    rows += f" ORDER BY votes.{loaded.place}"  # a join keeps no order
    form = _FORMS[kind]
    draft = folder.file()  # the database may write nowhere else
    try:
        database.execute(f"COPY ({rows}) TO {literal(draft)} (FORMAT {form})")
    except duckdb.Error as error:
        raise OSError(reason_of(error)) from None
    try:
        os.replace(draft, path)
    except OSError:  # another file system
        shutil.copyfile(draft, path)


def _columns(database: Database, loaded: Loaded, kind: str, added: Added) -> list[str]:
    """What is selected: loaded columns, those that change places, numbers and texts."""
    own = {name: _cell(database, loaded, name, kind) for name in loaded.column}
    table = {f"n{place}": values for place, values in enumerate(added.numbers.values())}
    table |= {f"l{place}": codes for place, (codes, _) in enumerate(added.labels.values())}
    table["row_number"] = np.arange(loaded.rows) if added.rows is None else added.rows
    chosen = [f"{cell} AS {quoted(added.renamed.get(name, name))}" for name, cell in own.items()]
    if added.turned is not None:
        names, (one, two), table["turned"] = added.turned
        for name, straight, other in ((names[0], one, two), (names[1], two, one)):
            cell = f"CASE WHEN turned THEN {own[other]} ELSE {own[straight]} END"
            chosen.append(f"{cell} AS {quoted(name)}")
    chosen += [f"n{place} AS {quoted(name)}" for place, name in enumerate(added.numbers)]
    for place, (name, (_, texts)) in enumerate(added.labels.items()):
        code = np.arange(len(texts), dtype=np.uint32)
        database.register(f"texts{place}", {"code": code, "entry": texts})
        chosen.append(f"texts{place}.entry AS {quoted(name)}")
    database.register("added", table)
    return chosen


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
