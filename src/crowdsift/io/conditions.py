"""Conditions in SQL (`--where`), checked before they run, on frames and arrays too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.io.database import Database, TemporaryFolder, reason_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["meets", "require_condition", "wrong_condition"]


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


def meets(frame: Any, condition: str) -> NDArray[np.bool_]:
    """Which rows of a frame or of columns in memory meet a condition."""
    import duckdb

    require_condition(condition)
    folder = TemporaryFolder()
    try:
        database = Database(1, (), folder)
        try:
            database.register("given", frame)
            query = f"SELECT coalesce(({condition})::BOOLEAN, false) AS kept FROM given"
            return np.asarray(database.execute(query).fetchnumpy()["kept"], bool)
        except duckdb.Error as error:
            raise wrong_condition(condition, reason_of(error)) from None
        finally:
            database.close()
    finally:
        folder.close()
