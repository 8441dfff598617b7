"""Tables of any source, and their columns by name."""

from __future__ import annotations

import difflib
import os
from typing import TYPE_CHECKING, Any

from crowdsift.errors import InputError, RequestError
from crowdsift.io.frames import source_of
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["listed", "lookup", "open_source", "refuse_empty", "resolve_column"]


def open_source(
    source: Any,
    threads: int | None = None,
    *,
    partitions: bool = False,
    skip_bad: bool = False,
    query: str | None = None,
    encoding: str = "utf-8",
    called: str = "",
) -> Source:
    """The table behind a path, a frame or arrays; nothing is read yet.

    Errors name the file; a frame has no name, and is `called` what it holds, else votes.
    """
    if _in_database(source, query):
        from crowdsift.io.databases import DatabaseSource

        address = os.fsdecode(source)
        return DatabaseSource(address, query or "", thread_count(threads), skip_bad=skip_bad)
    if isinstance(source, str | os.PathLike):
        from crowdsift.io.duck import FileSource

        path = os.fsdecode(source)
        return FileSource(
            path, thread_count(threads), partitions=partitions, skip_bad=skip_bad, encoding=encoding
        )
    table = source_of(source)
    if called and table.source == "votes":
        table.source = called
    return table


def _in_database(source: Any, query: str | None) -> bool:
    """Return whether votes are in a database: then there is a query, and only then."""
    kind = None
    if isinstance(source, str | os.PathLike):
        from crowdsift.io.databases import kind_of_database, shown_address

        kind = kind_of_database(source)
    if kind and query is None:
        raise InputError(
            "a database, from which only votes are read; write these rows as CSV or Parquet",
            source=shown_address(os.fsdecode(source)),
        )
    if kind and not query:
        raise RequestError(
            f"{shown_address(os.fsdecode(source))} is a database; say which rows are votes with "
            "--query (query=), as 'SELECT winner, loser, worker FROM votes'"
        )
    if query and not kind:
        raise RequestError(
            "--query (query=) is for votes in a database: an address such as "
            "postgresql://host/name, or a file of SQLite or DuckDB"
        )
    return bool(kind)


def resolve_column(table: Source, name: str, what: str) -> str:
    """Find the table's column of this name, or raise an error that suggests others."""
    found = lookup(table, table.names, name)
    if found is not None:
        return found
    lower = {each.lower(): each for each in table.names}
    close = [lower[each] for each in difflib.get_close_matches(name.lower(), lower)]
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise InputError(
        f"no column {name!r} for {what}; {hint}the columns are {listed(table)}",
        source=table.source,
    )


def lookup(table: Source, names: Sequence[str], name: str) -> str | None:
    """A name of the list, letter by letter or else without regard to case; None: none or two."""
    name = name.strip()
    for fold in (str.strip, lambda text: text.strip().casefold()):
        found = [each for each in names if fold(each) == fold(name)]
        if len(found) > 1:
            raise InputError(
                f"the columns {' and '.join(map(repr, found))} could both be {name!r}; rename or "
                "remove one",
                source=table.source,
            )
        if found:
            return found[0]
    return None


def refuse_empty(table: Source, rows: int, what: str) -> None:
    """Refuse a table without rows."""
    if rows == 0:
        raise InputError(
            f"no {what}: there are columns ({listed(table)}) but no rows; was the file written to "
            "its end?",
            source=table.source,
        )


def listed(table: Source) -> str:
    """The table's columns for a message, at most twenty of them."""
    names = [name or "(no name)" for name in table.names]
    if len(names) > 20:
        names[20:] = [f"and {len(names) - 20} more"]
    return ", ".join(names) or "none"
