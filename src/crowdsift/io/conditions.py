"""Conditions in SQL (`--where`), checked before they run, on frames and arrays too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.io.database import Database, quoted, reason_of
from crowdsift.io.temporary import TemporaryFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["meets", "numeric_columns", "require_condition", "wrong_condition"]


def require_condition(condition: str) -> None:
    """Refuse what is not one condition.

    Examples
    --------
    >>> from crowdsift.io.conditions import require_condition
    >>> require_condition("turn = 1 AND language <> 'unknown'")
    >>> require_condition("1) FROM x; DROP TABLE votes; --")
    Traceback (most recent call last):
    ...
    crowdsift.errors.RequestError: --where (where=): "1) FROM x; DROP TABLE votes; --" is not ...
    """
    import duckdb

    try:
        statements = duckdb.extract_statements(f"SELECT 1 WHERE (\n{condition}\n)")
        alone = duckdb.extract_statements(f"SELECT ({condition}\n)")
    except duckdb.Error as error:
        raise wrong_condition(condition, reason_of(error)) from None
    if len(statements) != 1 or len(alone) != 1:
        raise wrong_condition(condition, "it holds several statements")


def wrong_condition(condition: str, reason: str) -> RequestError:
    """The error for a condition that SQL does not take."""
    shown = condition if len(condition) <= 100 else f"{condition[:97]}..."
    return RequestError(
        f'--where (where=): "{shown}" is not a condition on the columns ({reason}); write it as '
        "in SQL, for example AssignmentStatus != 'Rejected', a name with dots or blanks in double "
        "quotes: \"Answer.choice\" <> ''"
    )


def numeric_columns(
    execute: Callable[[str], Any], rows: str, columns: Mapping[str, str], condition: str
) -> set[str]:
    """The columns of text that a condition compares with numbers, and that hold numbers.

    Parameters
    ----------
    execute
        Runs a query.
    rows
        The rows in SQL.
    columns
        Names of columns of text, and each in SQL.
    condition
        The condition. Where SQL takes it with text, no column is a number.
    """
    import duckdb

    given = [f"{column} AS {quoted(name)}" for name, column in columns.items()]
    try:
        execute(
            f"SELECT ({condition}\n)::BOOLEAN FROM (SELECT {', '.join(given)} FROM {rows}) LIMIT 0"
        )
        return set()
    except duckdb.BinderException as error:
        if "ompare" not in str(error) and "No function matches" not in str(error):
            return set()
    except duckdb.Error:
        return set()
    named = [name for name in columns if name.casefold() in condition.casefold()]
    if not named:
        return set()
    checks = ", ".join(
        f"coalesce(bool_and(TRY_CAST({columns[name]} AS DOUBLE) IS NOT NULL OR "
        f"trim(coalesce({columns[name]}, '')) = ''), false)"
        for name in named
    )
    found = execute(f"SELECT {checks} FROM (SELECT * FROM {rows} LIMIT 20000)").fetchone()
    return {name for name, is_number in zip(named, found, strict=True) if is_number}


def meets(frame: Any, condition: str) -> NDArray[np.bool_]:
    """Which rows of a frame or of columns in memory meet a condition."""
    import duckdb

    require_condition(condition)
    folder = TemporaryFolder()
    try:
        database = Database(1, (), folder)
        try:
            database.register("given", frame)
            kinds = database.execute("DESCRIBE SELECT * FROM given").fetchall()
            text = {name: quoted(name) for name, kind, *_ in kinds if kind == "VARCHAR"}
            numbers = numeric_columns(database.execute, "given", text, condition)
            shown = ", ".join(
                f"TRY_CAST({quoted(name)} AS DOUBLE) AS {quoted(name)}" for name in numbers
            )
            rows = f"(SELECT * REPLACE ({shown}) FROM given)" if numbers else "given"
            query = f"SELECT coalesce(({condition}\n)::BOOLEAN, false) AS kept FROM {rows}"
            return np.asarray(database.execute(query).fetchnumpy()["kept"], bool)
        except duckdb.Error as error:
            raise wrong_condition(condition, reason_of(error)) from None
        finally:
            database.close()
    finally:
        folder.close()
