"""Results into the database that the votes came from: all tables in one transaction, or none."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from crowdsift.errors import InputError, RequestError
from crowdsift.io.database import interruptible, quoted, reason_of
from crowdsift.io.databases import (
    connected,
    file_of,
    kind_of_database,
    reason,
    require_driver,
    shown_address,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["require_table", "write_tables"]

_COLUMNS = {
    "postgresql": "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' "
    "AND table_schema = {schema} ORDER BY ordinal_position",
    "sqlite": "SELECT name FROM pragma_table_info('{table}')",
    "duckdb": "SELECT column_name FROM duckdb_columns() WHERE table_name = '{table}' "
    "AND schema_name = {schema} ORDER BY column_index",
}


def require_table(address: Any, name: str) -> None:
    """Refuse early what no table can be made of."""
    if kind_of_database(address) is None:
        raise RequestError(
            f"--to-table {name}: the votes do not come from a database; use --out DIR"
        )
    if not name or name.count(".") > 1 or not all(name.split(".")):
        raise RequestError(f"--to-table wants NAME or SCHEMA.NAME, not {name!r}")


def write_tables(address: str, name: str, tables: Mapping[str, Any]) -> list[str]:
    """Write Arrow tables as NAME_items and so on; returns what was written.

    A table that is there and has these columns gets the new rows instead of the old ones; another
    one is refused. Either all tables are written or none.
    """
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
            f"--to-table {name}: nothing was written: {reason(error, address)}",
            source=shown_address(address),
        ) from None
    return [f"{schema}.{table}" if schema else table for table in named]


def _through_adbc(
    address: str, schema: str, tables: Mapping[str, Any], cancels: list[Callable[[], Any]]
) -> None:
    """Write the tables to PostgreSQL or SQLite, all in one transaction."""
    kind = kind_of_database(address) or ""
    with connected(address, read_only=False) as connection, connection.cursor() as cursor:
        cancels.append(cursor.adbc_cancel)
        for name, table in tables.items():
            cursor.execute(_columns_of(kind, schema, name))
            there = [column for (column,) in cursor.fetchall()]
            if there:
                _require_ours(there, table, name, address)
                if kind == "postgresql":  # two runs at once: one after the other
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
    """Refuse a table of other columns: it is not one that an earlier fit wrote."""
    if there != list(table.column_names):
        raise InputError(
            f"nothing was written: the table {name!r} is there and has other columns "
            f"({', '.join(there[:12])}); choose another name for --to-table, or drop it",
            source=shown_address(address),
        )
