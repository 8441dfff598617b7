"""Rankings: several items in an order become pairs.

A ranking of n items says n(n - 1)/2 pairs, but n - 1 of them imply the rest. Each pair has the
weight 2/n, so that a ranking counts as n - 1 votes. Equal ranks are ties; gaps mean nothing.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.io.formats.base import Format
from crowdsift.io.formats.unfolded import Unfolded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crowdsift.votes.source import Source

__all__ = ["RANKINGS", "ranked_pairs"]


def ranked_pairs(
    ranking: Iterable[tuple[Any, float]],
) -> Iterator[tuple[Any, Any, float, float]]:
    """First, second, outcome and weight of every pair of a ranking; the lowest rank is best.

    Examples
    --------
    >>> from crowdsift.io.formats.rankings import ranked_pairs
    >>> list(ranked_pairs([("a", 1), ("b", 3)]))
    [('a', 'b', 1.0, 1.0)]
    >>> [pair[2:] for pair in ranked_pairs([("a", 2), ("b", 2), ("c", 1)])]
    [(0.5, 0.6666666666666666), (0.0, 0.6666666666666666), (0.0, 0.6666666666666666)]
    """
    items = list(ranking)
    for (one, first), (two, second) in combinations(items, 2):
        yield one, two, 0.5 + 0.5 * float(np.sign(second - first)), 2.0 / len(items)


def pairs_of_rows(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Rows of worker, item, rank and task; those of one worker and task are one ranking."""
    names = [roles[role] for role in ("worker", "task", "item", "rank")]
    table.load(names, condition=condition)
    ranks = table.quantities(names[3], "number")
    groups: dict[tuple[Any, Any], dict[Any, tuple[int, float]]] = {}
    for row, (worker, task, item, _) in enumerate(table.rows(names)):
        ranking = groups.setdefault((worker, task), {})
        if item in ranking and ranking[item][1] != ranks[row]:
            first = table.place(ranking[item][0])[1]
            raise table.fault(
                row, names[3], f"the item {item!r} has another rank in row {first}, by the same "
                "worker in the same task; remove one of the rows",
            )  # fmt: skip
        ranking.setdefault(item, (row, float(ranks[row])))
    columns: dict[str, list[Any]] = {
        name: [] for name in ("first", "second", "outcome", "weight", "worker")
    }
    record: list[int] = []
    rows: list[int] = []
    alone: dict[int, str] = {}
    for (worker, _), ranking in groups.items():
        if len(ranking) < 2:
            alone[len(rows)] = "rankings of one item"
        for pair in ranked_pairs([(item, rank) for item, (_, rank) in ranking.items()]):
            for name, entry in zip(columns, (*pair, worker), strict=True):
                columns[name].append(entry)
            record.append(len(rows))
        rows.append(next(iter(ranking.values()))[0])
    return Unfolded(columns, record, rows, alone)


RANKINGS = Format(
    name="rankings",
    title="rankings, a row for every item of each",
    columns={
        "worker": ("worker", "annotator", "user", "worker_id"),
        "item": ("item",),
        "rank": ("rank",),
        "task": ("task", "task_id", "ranking"),
    },
    needs=("worker", "item", "rank", "task"),
    unfold=pairs_of_rows,
)
