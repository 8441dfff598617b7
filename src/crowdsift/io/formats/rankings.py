"""Rankings: several items in an order become pairs.

A ranking of n items says n(n - 1)/2 pairs, but n - 1 of them imply the rest. Each pair has the
weight 2/n, so that a ranking counts as n - 1 votes. Equal ranks are ties; gaps mean nothing.
"""

from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError
from crowdsift.io.formats import Format, Unfolded
from crowdsift.votes.replies import cut, reply_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from crowdsift.votes.source import Source


def ranked_pairs(
    ranking: Iterable[tuple[Any, float]],
) -> Iterator[tuple[Any, Any, float, float]]:
    """First, second, outcome and weight of every pair of a ranking; the lowest rank is best.

    Examples
    --------
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


_OWN = ("id", "_server_id", "status", "external_id", "metadata", "vectors", "suggestions")


def rankings(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Every ranking of every record as pairs; the fields that are not ranked are the prompt."""
    names = [name for name in table.names if not name.startswith(("vectors", "metadata"))]
    columns: dict[str, list[Any]] = {
        name: [] for name in ("first", "second", "outcome", "weight", "worker", "prompt")
    }
    record: list[int] = []
    rows: list[int] = []
    aside: dict[int, str] = {}
    empty: list[int] = []
    whole: dict[str, str] = {}
    table.load(names, condition=condition)
    for number, entries in enumerate(table.rows(names)):
        fields, answers = _parts(dict(zip(names, entries, strict=True)))
        for worker, ranking, status in answers:
            if status in ("discarded", "draft"):
                aside[len(rows)] = status
            elif not ranking:
                empty.append(len(rows))
            else:
                texts = [_text(table, number, fields, name, whole) for name, _ in ranking]
                ranked = {name for name, _ in ranking}
                prompt = _prompt(fields, ranked, whole)
                ranks = [rank for _, rank in ranking]
                for pair in ranked_pairs(zip(texts, ranks, strict=True)):
                    for name, entry in zip(columns, (*pair, worker, prompt), strict=True):
                        columns[name].append(entry)
                    record.append(len(rows))
            rows.append(number)
    if not record:
        raise InputError("no ranking in any record", source=table.source)
    return Unfolded(columns, record, rows, aside, empty, context="prompt", texts=whole)


Answer = tuple[Any, list[tuple[str, float]], str]


def _parts(row: dict[str, Any]) -> tuple[dict[str, Any], list[Answer]]:
    """The fields of a record and its rankings, in any of the three forms of Argilla."""
    if isinstance(row.get("fields"), dict) and "responses" in row:  # records of to_json
        return row["fields"], list(_of_responses(row["responses"]))
    fields = {k: v for k, v in row.items() if "." not in k and k not in _OWN}
    answers: list[Answer] = []
    for name, value in row.items():
        if name.endswith(".responses"):  # columns of a data set
            users = row.get(f"{name}.users") or []
            status = row.get(f"{name}.status") or []
            for place, each in enumerate(value or []):
                who = users[place] if place < len(users) else None
                state = status[place] if place < len(status) else ""
                answers.append((who, list(_ranking(each)), str(state)))
        elif isinstance(value, list) and value and _is_answer(value[0]):  # older data sets
            fields.pop(name, None)
            answers += [
                (each.get("user_id"), list(_ranking(each.get("value"))), str(each.get("status")))
                for each in value
            ]
    return fields, answers


def _of_responses(responses: Any) -> Iterator[Answer]:
    questions = responses if isinstance(responses, dict) else {"": responses or []}
    for answers in questions.values():
        for each in answers or []:
            ranking = list(_ranking(each.get("value")))
            yield each.get("user_id"), ranking, str(each.get("status", ""))


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) and "value" in value and "user_id" in value


def _ranking(value: Any) -> Iterator[tuple[str, float]]:
    """The names of fields with their ranks: given with them, or in their order."""
    if isinstance(value, str):
        value = json.loads(value)
    for place, each in enumerate(value or []):
        if isinstance(each, dict):
            yield str(each["value"]), float(each["rank"])
        else:
            yield str(each), float(place + 1)


def _text(
    table: Source, number: int, fields: dict[str, Any], name: str, whole: dict[str, str]
) -> str | None:
    if name not in fields:
        known = ", ".join(list(fields)[:8])
        raise table.fault(
            number, None, f"the ranking names the field {name!r}; the fields are {known}"
        )
    text = reply_text(fields[name])
    return None if text is None else _label(text, whole)


def _prompt(fields: dict[str, Any], ranked: set[str], whole: dict[str, str]) -> str:
    """What was not ranked: the prompt, and whatever else was shown."""
    others = [value for name, value in fields.items() if name not in ranked and value is not None]
    return _label("\n".join(v if isinstance(v, str) else json.dumps(v) for v in others), whole)


def _label(text: str, whole: dict[str, str]) -> str:
    """The label of a text, which is kept where it is cut."""
    label = cut(text)
    if label != text:
        whole[label] = text
    return label


_TITLE = "rankings of Argilla"
ARGILLA = (
    Format(name="argilla", title=_TITLE, marks=("fields", "responses"), unfold=rankings),
    Format(name="argilla", title=_TITLE, marks=("*.responses.users",), unfold=rankings),
    Format(name="argilla", title=_TITLE, marks=("*-suggestion", "external_id"), unfold=rankings),
)
