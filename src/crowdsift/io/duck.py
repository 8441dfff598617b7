"""Files of votes through DuckDB: CSV, TSV, JSON, JSONL and Parquet, gzip, globs, stdin.

Every column is read as it stands in the file (text stays text) into one temporary table of
DuckDB, which spills to the disk where memory is short; labels become codes there, so that no
Python object is made for a row. Text in Parquet, which can be read twice at little cost, becomes
codes on the way into the table, a tenth of its size. `self._place` is the row number: the position
in that table, or a column of it where the joins that encode keep no order.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError, ResourceError
from crowdsift.io.resources import available_memory, readable, require_disk, require_memory
from crowdsift.io.text import Header, copy_stream, explain_json, kind_of, read_header, repair
from crowdsift.votes.labels import MISSING
from crowdsift.votes.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["FileSource"]

# Bytes a row: of the codes and of sorting them by worker, at the peak; of the table with codes;
# and of text in a table, for a byte of it in the file.
_SORTING, _CODED, _TEXT = 64, 24, 2.5
_FETCH = 1 << 22  # rows fetched at a time
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BIGINT")


@dataclass
class _Part:
    """One file: its path, its name in messages, what it is, its columns and their types."""

    path: str
    source: str
    kind: str
    zipped: bool
    header: Header | None = None
    types: dict[str, str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.header.names if self.header else tuple(self.types or ())


class FileSource(Source):
    """The columns of one file, of all files of a glob, or of standard input."""

    def __init__(self, source: str, threads: int) -> None:
        self.source = "standard input" if source == "-" else source
        self._temporary: list[str] = []
        self._connection: Any = None
        self._starts = [0]
        self._place = "rowid"
        self._coded: set[str] = set()  # columns that hold codes into a table of labels
        try:
            paths = ["-"] if source == "-" else _expand(source)
            self._connection = _connect(threads)
            self._parts = [self._inspect(*self._settle(path)) for path in paths]
        except BaseException:
            self.close()
            raise
        self.names = self._parts[0].names

    def _settle(self, path: str) -> tuple[str, str]:
        """Return a path that can be read again and again, and its name in messages.

        A pipe (standard input, a FIFO, the shell's process substitution) is copied to a file.
        """
        if path != "-" and os.path.isfile(path):
            return path, path
        source = "standard input" if path == "-" else path
        handle, copy = tempfile.mkstemp(prefix="crowdsift-")
        self._temporary.append(copy)
        with os.fdopen(handle, "wb") as out:
            copy_stream(path, out, source)
        return copy, source

    def _inspect(self, path: str, source: str) -> _Part:
        part = _Part(path, source, *kind_of(path, source, source))
        if part.kind == "csv":
            part.header = read_header(path, part.zipped, source)
        else:
            rows = self._run(part, f"DESCRIBE SELECT * FROM {_scan(part)}").fetchall()
            part.types = {name: "BIGINT" if kind in _INTEGERS else kind for name, kind, *_ in rows}
            if part.kind == "json" and list(part.types) == ["json"]:  # not one object a row
                raise explain_json(path, part.zipped, source, "it holds no rows")
        return part

    def load(self, wanted: Sequence[str]) -> int:
        """See `Source.load`."""
        names = list(dict.fromkeys(wanted))
        self._column = {name: f"c{place}" for place, name in enumerate(names)}
        for part in self._parts:
            self._check_part(part, names)
        self._foresee()
        if all(part.kind == "parquet" for part in self._parts):
            types = self._parts[0].types or {}
            self._coded = {name for name in names if types[name] == "VARCHAR"}
            for name in self._coded:
                self._collect_labels(name)
        if self._coded:
            self._place = "place"
        for number, part in enumerate(self._parts):
            into = "INSERT INTO votes" if number else "CREATE TEMP TABLE votes AS"
            if self._coded:
                self._run(part, f"{into} {self._joined(part, names)}")
            else:
                self._load_part(part, names, into)
            self._starts.append(self._query("SELECT count(*) FROM votes").fetchone()[0])
        return self._starts[-1]

    def _foresee(self) -> None:
        """Say so now if the votes will not fit into memory, or their text not onto the disk."""
        rows, text = 0, 0.0
        for part in self._parts:
            if part.kind == "parquet":
                rows += self._run(part, f"SELECT count(*) FROM {_scan(part)}").fetchone()[0]
            else:  # gzip holds about five times its size; a vote is seldom longer than 40 bytes
                size = os.path.getsize(part.path) * (5 if part.zipped else 1)
                rows, text = rows + size // 40, text + _TEXT * size
        what = f"reading about {rows:,} votes"
        require_memory(_SORTING * rows, what)
        limit = _memory_limit()
        if limit is not None:
            require_disk(max(0.0, text + _CODED * rows - limit), what)

    def _collect_labels(self, name: str) -> None:
        """The distinct labels of a column of all parts, numbered."""
        column = _quoted(name)
        scans = " UNION ALL ".join(f"SELECT {column} AS label FROM {_scan(p)}" for p in self._parts)
        self._run(
            self._parts[0],
            f"CREATE TEMP TABLE labels_{self._column[name]} AS "
            "SELECT label, (row_number() OVER () - 1)::UINTEGER AS code "
            f"FROM (SELECT DISTINCT label FROM ({scans}) WHERE label IS NOT NULL)",
        )

    def _joined(self, part: _Part, names: list[str]) -> str:
        """Select the columns of a Parquet file, labels as codes, with the number of the row."""
        chosen, joins = [f"(file_row_number + {self._starts[-1]})::UINTEGER AS place"], ""
        for name in names:
            column, table = self._column[name], f"labels_{self._column[name]}"
            if name in self._coded:
                chosen.append(f"{table}.code AS {column}")
                joins += f" LEFT JOIN {table} ON part.{_quoted(name)} = {table}.label"
            else:
                chosen.append(f"part.{_field(part, name)} AS {column}")
        scan = _scan(part).replace("binary_as", "file_row_number = true, binary_as")
        return f"SELECT {', '.join(chosen)} FROM {scan} AS part{joins}"

    def _check_part(self, part: _Part, names: list[str]) -> None:
        """Every file of a glob needs the columns of the first one, of the same type."""
        first = self._parts[0]
        for name in names:
            if name not in part.names:
                raise InputError(
                    f"no column {name!r}, which {first.source} has; the columns here are "
                    f"{', '.join(part.names)}",
                    source=part.source,
                )
            types = [(each.types or {}).get(name, "text") for each in (first, part)]
            if types[0] != types[1]:
                raise InputError(
                    f"the column is {types[1]} here and {types[0]} in {first.source}; "
                    "write both files with the same types",
                    source=part.source,
                    column=name,
                )

    def _load_part(self, part: _Part, names: list[str], into: str) -> None:
        import duckdb

        query = f"{into} SELECT {_selection(part, names)} FROM "
        if part.header is None:
            self._run(part, query + _scan(part, names))
            return
        if not part.header.skip:  # DuckDB would take a blank line at the top for the header
            with contextlib.suppress(duckdb.Error):
                self._connection.execute(query + _scan(part))
                return
        part.path = repair(part.path, part.zipped, part.header, part.source)
        part.zipped = False
        self._temporary.append(part.path)
        self._run(part, query + _scan(part, longest=1 << 28))

    def _run(self, part: _Part, query: str) -> Any:
        import duckdb

        try:
            return self._connection.execute(query)
        except duckdb.OutOfMemoryException as error:
            raise _exhausted(error) from None
        except duckdb.Error as error:
            reason = _reason(error)
            if part.kind == "json":
                raise explain_json(part.path, part.zipped, part.source, reason) from None
            raise InputError(
                f"the file cannot be read as {part.kind.upper()}: {reason}", source=part.source
            ) from None

    def _query(self, query: str) -> Any:
        """Run a query on what is loaded already, which only a lack of room can stop."""
        import duckdb

        try:
            return self._connection.execute(query)
        except duckdb.OutOfMemoryException as error:
            raise _exhausted(error) from None

    def _fetch(self, expression: str, out: NDArray[Any]) -> NDArray[Any]:
        """Fill an array, in the order of the rows, with an expression of the table.

        A few million rows at a time, so that the result is never there twice.
        """
        for start in range(0, len(out), _FETCH):
            found = self._query(
                f"SELECT {self._place}::UINTEGER AS place, {expression} AS value FROM votes "
                f"WHERE rowid BETWEEN {start} AND {start + _FETCH - 1}"
            ).fetchnumpy()
            values = found["value"]
            if isinstance(values, np.ma.MaskedArray):
                values = values.filled(np.nan if out.dtype.kind == "f" else MISSING)
            out[found["place"]] = values
        return out

    def encode(self, name: str) -> tuple[list[Any], NDArray[np.uint32]]:
        """See `Source.encode`."""
        column = self._column[name]
        codes = np.full(self._starts[-1], MISSING, dtype=np.uint32)
        if name in self._coded:
            rows = self._query(f"SELECT label FROM labels_{column} ORDER BY code").fetchall()
            return [label for (label,) in rows], self._fetch(column, codes)
        self._query(
            "CREATE OR REPLACE TEMP TABLE labels AS SELECT label, "
            "(row_number() OVER () - 1)::UINTEGER AS code FROM "
            f"(SELECT DISTINCT {column} AS label FROM votes WHERE {column} IS NOT NULL)"
        )
        rows = self._query("SELECT label FROM labels ORDER BY code").fetchall()
        source = f"votes JOIN labels ON votes.{column} = labels.label"
        place = f"votes.{self._place}"
        coded = self._query(f"SELECT {place}::UINTEGER AS place, code FROM {source}").fetchnumpy()
        codes[coded["place"]] = coded["code"]  # a join keeps no order
        labels = [label for (label,) in rows]
        if self._parts[0].kind == "json":  # the text of a value: 7, "7", null
            labels = [json.loads(label) for label in labels]
        return labels, codes

    def numbers(self, name: str) -> NDArray[np.float64]:
        """See `Source.numbers`."""
        import duckdb

        column, out = self._column[name], np.full(self._starts[-1], np.nan)
        if name in self._coded:
            labels, codes = self.encode(name)
            known = np.array([_number(label) for label in labels] + [np.nan])
            return np.asarray(known[np.minimum(codes, len(labels))], dtype=np.float64)
        try:
            return self._fetch(f"TRY_CAST({column} AS DOUBLE)", out)
        except duckdb.Error:  # a type without a cast, such as a list
            return out

    def value(self, name: str, row: int) -> Any:
        """See `Source.value`."""
        column = self._column[name]
        source = "votes"
        if name in self._coded:
            source += f" LEFT JOIN labels_{column} ON votes.{column} = labels_{column}.code"
            column = "label"
        query = f"SELECT {column} FROM {source} WHERE votes.{self._place} = {row}"
        value = self._query(query).fetchone()[0]
        if value is not None and self._parts[0].kind == "json":
            return json.loads(value)
        return value

    def place(self, row: int) -> tuple[str, int]:
        """See `Source.place`."""
        part = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._parts[part].source, row - self._starts[part] + 1

    def write(
        self,
        path: str,
        kind: str,
        numbers: Mapping[str, NDArray[Any]],
        labels: Mapping[str, tuple[NDArray[np.uint32], NDArray[np.object_]]],
    ) -> None:
        """Write every loaded column and further ones, row by row in the order of the source.

        Parameters
        ----------
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
        added["row_number"] = np.arange(self._starts[-1])
        chosen = [f"{self._cell(name, kind)} AS {_quoted(name)}" for name in self._column]
        chosen += [f"n{place} AS {_quoted(name)}" for place, name in enumerate(numbers)]
        joins = ""
        for name in self._coded:
            column = self._column[name]
            joins += f" LEFT JOIN labels_{column} ON labels_{column}.code = votes.{column}"
        for place, (name, (_, texts)) in enumerate(labels.items()):
            code = np.arange(len(texts), dtype=np.uint32)
            self._connection.register(f"texts{place}", {"code": code, "entry": texts})
            joins += f" LEFT JOIN texts{place} ON texts{place}.code = l{place}"
            chosen.append(f"texts{place}.entry AS {_quoted(name)}")
        self._connection.register("added", added)
        meet = "POSITIONAL JOIN added"
        if self._coded:
            meet = f"JOIN added ON added.row_number = votes.{self._place}"
        rows = f"SELECT {', '.join(chosen)} FROM votes {meet}{joins}"
        if joins:  # a join keeps no order
            rows += f" ORDER BY votes.{self._place}"
        form = "JSON" if kind == "json" else "PARQUET, COMPRESSION ZSTD"
        try:
            self._connection.execute(f"COPY ({rows}) TO {_literal(path)} (FORMAT {form})")
        except duckdb.Error as error:
            raise OSError(_reason(error)) from None

    def _cell(self, name: str, kind: str) -> str:
        """A loaded column as it is written: JSON values in Parquet get a type of their own."""
        column = self._column[name]
        if name in self._coded:
            return f"labels_{column}.label"
        if self._parts[0].kind != "json" or kind == "json":
            return f"votes.{column}"
        query = f"SELECT DISTINCT json_type({column}) FROM votes WHERE {column} IS NOT NULL"
        types = {name for (name,) in self._connection.execute(query).fetchall()} - {"NULL"}
        if types == {"VARCHAR"}:
            return f"votes.{column} ->> '$'"
        if types and types <= {"UBIGINT", "BIGINT"}:
            return f"TRY_CAST(votes.{column} AS BIGINT)"
        if types and types <= {"UBIGINT", "BIGINT", "DOUBLE"}:
            return f"TRY_CAST(votes.{column} AS DOUBLE)"
        return f"TRY_CAST(votes.{column} AS BOOLEAN)" if types == {"BOOLEAN"} else f"votes.{column}"

    def close(self) -> None:
        """Close the connection and remove what was spilled."""
        if self._connection is not None:
            self._connection.close()
        for path in self._temporary:
            os.unlink(path)
        self._temporary.clear()


def _expand(source: str) -> list[str]:
    path = os.path.expanduser(source)
    if os.path.isdir(path):
        raise InputError(
            f"a directory, not a file; to read the files in it write '{source.rstrip('/')}/*.csv'",
            source=source,
        )
    if os.path.exists(path):
        return [path]
    if glob.has_magic(path):
        found = sorted(each for each in glob.glob(path, recursive=True) if os.path.isfile(each))
        if found:
            return found
        raise InputError("no file matches this pattern", source=source)
    raise InputError("no such file", source=source)


def _connect(threads: int) -> Any:
    """Open a private database in memory that never reaches for the network."""
    import duckdb

    folder = os.path.join(tempfile.gettempdir(), f"crowdsift-{os.getpid()}")
    offline = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    limits = {"temp_directory": folder, "threads": str(threads)}
    if (memory := _memory_limit()) is not None:
        limits["memory_limit"] = f"{memory // 10**6}MB"
    connection = duckdb.connect(":memory:", config={**offline, **limits})
    connection.execute("SET enable_progress_bar = false")
    return connection


def _scan(part: _Part, names: Sequence[str] = (), longest: int = 2_000_000) -> str:
    """Write the table function of DuckDB that reads a file."""
    # DuckDB would take an existing file named v[1].csv for a pattern.
    path = "".join(f"[{char}]" if char in "[*?" else char for char in part.path)
    options = [_literal(path)]
    if part.kind == "parquet":
        return f"read_parquet({options[0]}, binary_as_string = true)"
    if part.zipped:
        options.append("compression = 'gzip'")
    if part.header is None:
        if names:
            listed = ", ".join(f"{_literal(name)}: 'JSON'" for name in names)
            options.append(f"columns = {{{listed}}}")
        else:  # names only; every value as the JSON it is
            options += ["maximum_depth = 1", "sample_size = -1", "map_inference_threshold = -1"]
        return f"read_json({', '.join(options)})"
    listed = ", ".join(f"'f{place}': 'VARCHAR'" for place in range(len(part.names)))
    options += [
        f"columns = {{{listed}}}",
        f"delim = {_literal(part.header.delimiter)}, max_line_size = {longest}",
        """header = true, auto_detect = false, quote = '"', escape = '"'""",
    ]
    return f"read_csv({', '.join(options)})"


def _selection(part: _Part, names: Sequence[str]) -> str:
    """List the columns asked for, named c0, c1 and so on."""
    chosen = []
    for place, name in enumerate(names):
        field = _field(part, name) if part.header is None else f"f{part.names.index(name)}"
        chosen.append(f"{field} AS c{place}")
    return ", ".join(chosen)


def _field(part: _Part, name: str) -> str:
    """A column by its name, integers of any size as one type."""
    return _quoted(name) + ("::BIGINT" if (part.types or {}).get(name) == "BIGINT" else "")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _number(text: str) -> float:
    try:
        return float(text) if "_" not in text else float("nan")
    except ValueError:
        return float("nan")


def _memory_limit() -> int | None:
    """What DuckDB may take before it spills: half of what there is, the rest is for the codes."""
    there = available_memory()
    return None if there is None else max(there // 2, 200 * 10**6)


def _exhausted(error: Exception) -> ResourceError:
    """DuckDB found neither memory nor disk for what it had to put aside."""
    limit = _memory_limit()
    told = "" if limit is None else f" ({readable(limit)} of memory were allowed)"
    return ResourceError(
        f"there is no room to read these votes{told}: {_reason(error)}. Make room in "
        f"{tempfile.gettempdir()}, set TMPDIR to a folder on a larger disk, or give more memory "
        "with CROWDSIFT_MEMORY"
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _reason(error: Exception) -> str:
    """Say what DuckDB said, in one line, without its advice."""
    first = str(error).split("\n", 1)[0]
    return first.split("Error: ", 1)[-1].rstrip(" .")
