"""Lists of items, workers and pairs of items, from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import InputError
from crowdsift.io.columns import listed, lookup, open_source, refuse_empty, resolve_column
from crowdsift.io.item_values import match_labels
from crowdsift.votes.labels import context_names, is_empty
from crowdsift.votes.replies import prompt_label, reply_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crowdsift.votes.labels import By
    from crowdsift.votes.source import Source

__all__ = ["PairQueries", "read_capacities", "read_labels", "read_pair_queries"]

# Names under which the columns of a pair are looked for, and the one of its worker.
_PAIRS = (
    *(("first", "second"), ("left", "right"), ("winner", "loser"), ("chosen", "rejected")),
    *(("model_a", "model_b"), ("item_a", "item_b")),
)
_WORKERS = ("worker", "annotator", "annotator_id", "worker_id", "judge", "WorkerId")


def read_labels(source: Any, column: str = "item") -> list[Any]:
    """The distinct labels of a column of a file.

    Examples
    --------
    >>> read_labels({"item": ["b", "a", "b"]})
    ['a', 'b']
    """
    table = open_source(source, called=f"{column}s")
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
    table = open_source(source, called="workers")
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


class PairQueries(NamedTuple):
    """Pairs of items of a fit, a worker each or None, as labels of the fit where it knows them."""

    first: list[Any]
    second: list[Any]
    worker: list[Any]


def read_pair_queries(
    source: Any, items: Sequence[Any], workers: Sequence[Any], context: By = ""
) -> PairQueries:
    """The pairs of a file, one per row, in the order of the file.

    Parameters
    ----------
    source
        A file or frame with the columns first and second (or left and right, winner and loser,
        chosen and rejected, model_a and model_b), optionally worker, and the context's.
    items, workers
        The labels of a fit. A label matches exactly or as text, and the text of a reply by what
        it is cut to; others are kept as they are.
    context
        The column of contexts, several of them, or "" for none.

    Examples
    --------
    >>> read_pair_queries({"first": ["1"], "second": ["b"]}, [1, "b"], [])
    PairQueries(first=[1], second=['b'], worker=[None])
    """
    table = open_source(source, called="pairs")
    try:
        pair = _pair(table)
        who = next((name for name in _WORKERS if lookup(table, table.names, name)), "")
        columns = [*pair, *([resolve_column(table, who, "the workers")] if who else [])]
        around = [resolve_column(table, name, "the contexts") for name in context_names(context)]
        columns += around
        refuse_empty(table, table.load(columns), "pairs")
        first, second = (_entries(table, name) for name in pair)
        if around:
            values = [_entries(table, name) for name in around]
            where = values[0] if len(values) == 1 else list(zip(*values, strict=True))
            first, second = (list(zip(where, side, strict=True)) for side in (first, second))
        worker: list[Any] = [None] * len(first)
        if who:
            worker = _known(_entries(table, columns[2], blank=True), workers)
        return PairQueries(_known(first, items), _known(second, items), worker)
    finally:
        table.close()


def _pair(table: Source) -> tuple[str, str]:
    for names in _PAIRS:
        one, two = (lookup(table, table.names, name) for name in names)
        if one is not None and two is not None:
            return one, two
    raise InputError(
        f"no columns first and second (the items of each pair); the columns are {listed(table)}",
        source=table.source,
    )


def _entries(table: Source, column: str, *, blank: bool = False) -> list[Any]:
    """The entries of a column, row by row; None for those without one, if these may be."""
    if not blank:
        labels, codes = table.entries(column, "label")
        return [labels[code] for code in codes.tolist()]
    labels, codes = table.encode(column)
    known = [None if is_empty(label) else label for label in labels]
    return [known[code] if code < len(known) else None for code in codes.tolist()]


def _known(wanted: list[Any], labels: Sequence[Any]) -> list[Any]:
    """Wanted labels as those of a list, where they are there."""
    place = match_labels(wanted, labels)
    missing = [row for row in np.flatnonzero(place < 0).tolist() if wanted[row] is not None]
    place[missing] = match_labels([_cut(wanted[row]) for row in missing], labels)
    return [labels[at] if at >= 0 else own for at, own in zip(place.tolist(), wanted, strict=True)]


def _cut(label: Any) -> Any:
    """A reply, with its prompt where there is one, as the label it has in a fit."""
    if isinstance(label, tuple):
        prompt, reply = label
        return prompt if isinstance(prompt, tuple) else prompt_label(prompt), reply_label(reply)
    return reply_label(label) if isinstance(label, str) else label
