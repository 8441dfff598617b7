"""Lists of items and workers, from files: what may be asked, and who."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdsift.io.columns import open_source, refuse_empty, resolve_column

__all__ = ["read_capacities", "read_labels"]


def read_labels(source: Any, column: str = "item") -> list[Any]:
    """The distinct labels of a column of a file.

    Examples
    --------
    >>> read_labels({"item": ["b", "a", "b"]})
    ['a', 'b']
    """
    table = open_source(source)
    try:
        name = resolve_column(table, column, f"the {column}s")
        refuse_empty(table, table.load([name]), f"{column}s")
        return list(table.labels([name], f"{column} label")[0])
    finally:
        table.close()


def read_capacities(source: Any) -> list[Any] | dict[Any, int]:
    """Workers, and the most questions for each where there is a column ``capacity``.

    Examples
    --------
    >>> read_capacities({"worker": ["ann", "bob"], "capacity": [3, 5]})
    {'ann': 3, 'bob': 5}
    """
    table = open_source(source)
    try:
        worker = resolve_column(table, "worker", "the workers")
        limited = any(name.strip().casefold() == "capacity" for name in table.names)
        wanted = (
            [worker, resolve_column(table, "capacity", "the capacities")] if limited else [worker]
        )
        refuse_empty(table, table.load(wanted), "workers")
        labels, (codes,) = table.labels([worker], "worker label")
        if not limited:
            return list(labels)
        given = table.quantities(wanted[1], "number")
        wrong = (given < 0) | (given != np.floor(given))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise table.fault(row, wanted[1], "a capacity must be a whole number, at least 0")
        total = np.bincount(codes, given, len(labels))
        return {label: int(count) for label, count in zip(labels, total, strict=True)}
    finally:
        table.close()
