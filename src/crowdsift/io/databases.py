"""Votes in a database: one query of PostgreSQL, SQLite or DuckDB, as a stream of Arrow batches.

The rows go into a Parquet file of a private folder and are read from there, so options for bad rows, conditions and
memory work as for any file. A query is one statement, in a transaction that only reads: it sees one snapshot even if
others write at the same time. Passwords come from the places that the database's own library uses (PGPASSWORD,
~/.pgpass, a service file). A password in the address is used, and never shown or stored.
"""

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from crowdsift.errors import InputError, RequestError, ResourceError
from crowdsift.io.duck import FileSource
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.options import ReadOptions
from crowdsift.io.parts import INTEGERS
from crowdsift.io.sql import (
    Cancels,
    Database,
    confine,
    interruptible,
    kind_of_database,
    literal,
    masked,
    quoted,
    reason_of,
    shown_address,
)

# Addresses that libpq splits as we do: in others, a part of the password could be taken for the host.
_CLEAR = re.compile(r"postgres(?:ql)?://(?:[^@:/?#\s]*(?::[^@:/?#\s]*)?@)?[^@/?#\s]*(?:[/?][^@]*)?")
_CONNECT_TIMEOUT = 10  # seconds that a server has to answer
# Types with the same meaning as labels or numbers in a Parquet file; others are read as text.
_PLAIN = (*INTEGERS, "UBIGINT", "BOOLEAN", "DATE", "FLOAT", "DOUBLE", "VARCHAR", "BLOB")
# Strings and quoted names, which may contain anything; and what may follow a statement.
_TOKENS = re.compile(
    r"""\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$"""
    r"""|(?P<ending>--[^\n]*|/\*.*?\*/|[;\s]+)|.""",
    re.DOTALL,
)
_READ_ONLY = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


def file_of(address: str) -> str:
    """Return the path of a database in a file, from sqlite:///votes.db or the path itself."""
    path = address.partition("://")[2] if "://" in address else address
    path = path[1:] if path.startswith("/") and "://" in address else path
    path = os.path.expanduser(path)
    if not os.path.isfile(path):
        raise InputError("no such file", source=path)
    return path


class DatabaseSource(FileSource):
    """The rows that a query returns.

    `address`: such as postgresql://host/database, sqlite:///file or duckdb:///file, or the path of such a file;
    `query`: one SELECT in the database's dialect; its columns are those of the votes.
    """

    def __init__(self, address: str, query: str, threads: int, *, skip_bad: bool = False) -> None:
        self._rows_in = TemporaryFolder()
        self._database = None
        self._folder = self._rows_in
        try:
            copy = _copied(address, plain_query(query), self._rows_in, threads)
            super().__init__(copy, threads, ReadOptions(skip_bad=skip_bad))
        except BaseException:
            self._rows_in.close()
            raise
        self.source = shown_address(address)
        for part in self._parts:
            part.source = self.source

    def close(self) -> None:
        super().close()
        self._rows_in.close()


def plain_query(query: str) -> str:
    """Return a query without semicolons, comments and blanks at its end."""
    end = 0
    for token in _TOKENS.finditer(query):
        if token.lastgroup != "ending":
            end = token.end()
    return query[:end]


def _copied(address: str, query: str, folder: TemporaryFolder, threads: int) -> str:
    target, copy = folder.file(".parquet"), _copy_rows
    if kind_of_database(address) == "duckdb":
        address, copy = file_of(address), _copy_duckdb
    else:
        require_driver(address)
    interruptible(partial(copy, address, query, target, folder, threads))
    return target


def _copy_rows(address: str, query: str, target: str, folder: TemporaryFolder, threads: int, cancels: Cancels) -> None:
    where = shown_address(address)
    with connected(address, read_only=True) as connection, connection.cursor() as cursor:
        cancels.append(cursor.adbc_cancel)
        try:
            # Inside another SELECT, a statement that writes files (ATTACH of SQLite, COPY TO PROGRAM of PostgreSQL,
            # which read-only transactions allow) is a syntax error.
            cursor.execute(f"SELECT * FROM (\n{query}\n) AS votes")
            stream = cursor.fetch_record_batch()
        except Exception as error:
            text = reason(error, address)
            hint = "; it must be one SELECT" if "syntax error" in text else ""
            raise InputError(f"the query fails: {text}{hint}", source=where) from None
        if not stream.schema.names:
            raise InputError("the query gives no columns; it must be a SELECT", source=where)
        _spill(stream, target, folder, threads, address, cancels)


def _spill(stream: Any, target: str, folder: TemporaryFolder, threads: int, address: str, cancels: Cancels) -> None:
    """Write Arrow batches, a few at a time, with types that a file of votes can have."""
    import duckdb

    try:
        with closing(Database(threads, [], folder)) as database:
            cancels.append(database.connection.interrupt)
            database.register("stream", _plain_stream(stream))
            kinds = database.execute("DESCRIBE SELECT * FROM stream").fetchall()
            other = [f"{quoted(name)}::VARCHAR AS {quoted(name)}" for name, kind, *_ in kinds if kind not in _PLAIN]
            replaced = f"REPLACE ({', '.join(other)})" if other else ""
            database.execute(f"COPY (SELECT * {replaced} FROM stream) TO {literal(target)} (FORMAT parquet)")
    except duckdb.Error as error:
        text = reason(error, address)
        if "no space" in text.lower() or "not enough space" in text.lower():
            raise ResourceError(
                f"the disk is full while votes are copied from {shown_address(address)}; make "
                "room, or set TMPDIR to a folder on a larger disk"
            ) from None
        several = "; a column holds values of several types: write CAST(column AS TEXT) for it"
        hint = several if "mismatch" in text else ""  # SQLite's columns may contain any type
        raise InputError(f"the rows of the query cannot be read: {text}{hint}", source=shown_address(address)) from None


def _plain_stream(stream: Any) -> Any:
    """Yield batches with extension types (numeric, json) replaced by their storage type, text."""
    import pyarrow as pa

    def is_opaque(kind: Any) -> bool:
        return isinstance(kind, pa.BaseExtensionType) and str(kind) != "extension<arrow.uuid>"

    if not any(map(is_opaque, stream.schema.types)):
        return stream
    fields = [(each.name, each.type.storage_type if is_opaque(each.type) else each.type) for each in stream.schema]
    schema = pa.schema(fields)
    columns = ([each.storage if is_opaque(each.type) else each for each in batch.columns] for batch in stream)
    return pa.RecordBatchReader.from_batches(schema, (pa.record_batch(each, schema=schema) for each in columns))


def _copy_duckdb(
    address: str, query: str, target: str, folder: TemporaryFolder, threads: int, cancels: Cancels
) -> None:
    """Copy the rows of a DuckDB query, which may write into our folder and nowhere else."""
    import duckdb

    try:
        with duckdb.connect(address, read_only=True, config={"threads": str(threads)}) as connection:
            cancels.append(connection.interrupt)
            confine(connection, folder)
            connection.execute(f"COPY (\n{query}\n) TO {literal(target)} (FORMAT parquet)")
    except duckdb.Error as error:
        raise InputError(f"the query fails: {reason_of(error)}", source=address) from None


@contextmanager
def connected(address: str, *, read_only: bool) -> Iterator[Any]:
    """Open a connection to PostgreSQL or SQLite without automatic commits; close it at the end."""
    postgres = kind_of_database(address) == "postgresql"
    if postgres and not _CLEAR.fullmatch(address):
        raise RequestError(
            "the address of the database cannot be read: in user and password the characters @ : / ? # must be written "
            "as %40 %3A %2F %3F %23; better leave the password to PGPASSWORD, ~/.pgpass or a service file"
        )
    uri = _with_timeout(address) if postgres else f"file:{quote(file_of(address), safe='/')}"
    driver = require_driver(address)
    try:
        connection = driver.connect(uri if postgres else uri + ("?mode=ro" if read_only else ""))
    except Exception as error:
        raise InputError(f"cannot connect: {reason(error, address)}", source=shown_address(address)) from None
    with connection:
        if postgres and read_only:
            with connection.cursor() as cursor:
                cursor.execute(_READ_ONLY)
            connection.commit()
        yield connection


def require_driver(address: str) -> Any:
    """Import the driver of a database, with signals left as they were."""
    # The drivers import Polars if it is installed, which replaces the handler of SIGINT for the whole process. Call
    # this in the main thread, before a query runs.
    name = "postgresql" if kind_of_database(address) == "postgresql" else "sqlite"
    try:
        driver = import_module(f"adbc_driver_{name}.dbapi")
        import_module("pyarrow")
    except ImportError:
        raise RequestError(f"votes in {name} need the driver; pip install 'crowdsift[databases]'") from None
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGINT, handler)
    return driver


def _with_timeout(address: str) -> str:
    own = ("connect_timeout=" in address, "service=" in address)
    if any(own) or {"PGCONNECT_TIMEOUT", "PGSERVICE"} & set(os.environ):
        return address
    mark = "&" if "?" in address else "?"
    return f"{address}{mark}connect_timeout={_CONNECT_TIMEOUT}"


def reason(error: Exception, address: str) -> str:
    """Return a driver's message, in one line, without secrets."""
    first = str(error).strip().split("\n", 1)[0]
    first = re.sub(r"^[A-Z_]+: (\[\w+\] )?|^\[\w+\] ", "", reason_of(Exception(first)))
    secrets = [value for key, value in parse_qsl(urlsplit(address).query) if "passw" in key]
    userinfo = urlsplit(address).netloc.rpartition("@")[0] if "://" in address else ""
    secrets.append(userinfo.partition(":")[2])
    for secret in secrets:
        for form in {secret, unquote(secret)} - {""}:
            first = first.replace(form, "***")
    return masked(first).rstrip(" .;")


_COLUMNS = {
    "postgresql": "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' "
    "AND table_schema = {schema} ORDER BY ordinal_position",
    "sqlite": "SELECT name FROM pragma_table_info('{table}')",
    "duckdb": "SELECT column_name FROM duckdb_columns() WHERE table_name = '{table}' "
    "AND schema_name = {schema} ORDER BY column_index",
}


def require_table(address: Any, name: str) -> None:
    """Raise an error, before any work, for a target to which no table can be written."""
    if kind_of_database(address) is None:
        raise RequestError(f"--to-table {name}: the votes do not come from a database; use --out DIR")
    if not name or name.count(".") > 1 or not all(name.split(".")):
        raise RequestError(f"--to-table takes NAME or SCHEMA.NAME, not {name!r}")


def write_tables(address: str, name: str, tables: Mapping[str, Any]) -> list[str]:
    """Write Arrow tables as NAME_items and so on; return their names."""
    # An existing table with these columns gets the new rows in place of the old ones; a table with other columns is an
    # error. Either all tables are written or none.
    require_table(address, name)
    schema, _, base = name.rpartition(".")
    named = {f"{base}_{kind}": table for kind, table in tables.items()}
    try:
        if kind_of_database(address) == "duckdb":
            _to_duckdb(file_of(address), schema, named)
        else:
            require_driver(address)
            interruptible(partial(_through_adbc, address, schema, named))
    except (InputError, RequestError):
        raise
    except Exception as error:
        raise InputError(
            f"--to-table {name}: nothing was written: {reason(error, address)}", source=shown_address(address)
        ) from None
    return [f"{schema}.{table}" if schema else table for table in named]


def _through_adbc(address: str, schema: str, tables: Mapping[str, Any], cancels: Cancels) -> None:
    """Write the tables to PostgreSQL or SQLite, all in one transaction."""
    kind = kind_of_database(address) or ""
    with connected(address, read_only=False) as connection, connection.cursor() as cursor:
        cancels.append(cursor.adbc_cancel)
        for name, table in tables.items():
            cursor.execute(_columns_of(kind, schema, name))
            there = [column for (column,) in cursor.fetchall()]
            if there:
                _require_ours(there, table, name, address)
                if kind == "postgresql":  # serialises two runs at the same time
                    cursor.execute(f"LOCK TABLE {_whole(schema, name)} IN EXCLUSIVE MODE")
                cursor.execute(f"DELETE FROM {_whole(schema, name)}")
            mode = "append" if there else "create"
            where = {"db_schema_name": schema} if schema and kind == "postgresql" else {}
            cursor.adbc_ingest(name, table, mode=mode, **where)
        connection.commit()


def _to_duckdb(path: str, schema: str, tables: Mapping[str, Any]) -> None:
    """Write the tables to a file of DuckDB, all in one transaction."""
    import duckdb

    try:
        with duckdb.connect(path) as connection:
            connection.execute("BEGIN")
            for name, table in tables.items():
                whole = _whole(schema, name)
                query = _columns_of("duckdb", schema, name)
                there = [column for (column,) in connection.execute(query).fetchall()]
                connection.register("given", table)
                if there:
                    _require_ours(there, table, name, path)
                    connection.execute(f"DELETE FROM {whole}")
                    connection.execute(f"INSERT INTO {whole} SELECT * FROM given")
                else:
                    connection.execute(f"CREATE TABLE {whole} AS SELECT * FROM given")
            connection.execute("COMMIT")
    except duckdb.Error as error:
        raise InputError(f"nothing was written: {reason_of(error)}", source=path) from None


def _columns_of(kind: str, schema: str, table: str) -> str:
    escaped = table.replace("'", "''")
    own = "'" + schema.replace("'", "''") + "'" if schema else "current_schema()"
    return _COLUMNS[kind].format(table=escaped, schema=own)


def _whole(schema: str, table: str) -> str:
    return f"{quoted(schema)}.{quoted(table)}" if schema else quoted(table)


def _require_ours(there: list[str], table: Any, name: str, address: str) -> None:
    """Raise an error for an existing table with other columns: no earlier fit wrote it."""
    if there != list(table.column_names):
        raise InputError(
            f"nothing was written: the table {name!r} is there and has other columns "
            f"({', '.join(there[:12])}); choose another name for --to-table, or drop it",
            source=shown_address(address),
        )
