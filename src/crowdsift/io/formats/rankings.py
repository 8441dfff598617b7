"""Rankings: several items in an order, or the best and the worst of them, become pairs.

A ranking of n items gives n(n - 1)/2 pairs, but n - 1 of them imply the rest. Each pair has the weight 2/n, so that a
ranking counts as n - 1 votes. Equal ranks are ties; gaps have no meaning. `bt` and `sift` use the rankings themselves,
which are restored from the ranks beside the pairs.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import numpy as np

from crowdsift.errors import InputError
from crowdsift.io.formats import TIE_WORDS, Format, Unfolded
from crowdsift.io.options import ROLES
from crowdsift.votes.choices import NOT_RANKED, ranked_pairs
from crowdsift.votes.labels import is_empty
from crowdsift.votes.replies import label_of, prompt_label, reply_text
from crowdsift.votes.source import Source

_BEST, _OTHER, _WORST = 0.0, 1.0, 2.0  # ranks in a best-worst answer
_ALONE = "rankings of one item"


@dataclass
class _Pairs:
    """The pairs of rankings, added one ranking at a time."""

    names: tuple[str, ...] = ("worker",)
    max_diff: bool = False
    columns: dict[str, list[Any]] = field(default_factory=dict)
    record: list[int] = field(default_factory=list)
    ranks: list[tuple[float, float]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    aside: dict[int, str] = field(default_factory=dict)
    empty: list[int] = field(default_factory=list)

    def add(self, row: int, ranking: Sequence[tuple[Any, float]], *more: Any) -> None:
        """Add the ranking of a source row, with the entries of further columns."""
        if len(ranking) < 2:
            self.aside[len(self.rows)] = _ALONE
        for *pair, ranks in ranked_pairs(ranking, self.max_diff):
            names = ("first", "second", "outcome", "weight", *self.names)
            for name, entry in zip(names, (*pair, *more), strict=True):
                self.columns.setdefault(name, []).append(entry)
            self.record.append(len(self.rows))
            self.ranks.append(ranks)
        self.rows.append(row)

    def skip(self, row: int, reason: str = "") -> None:
        """Record a row without an answer, or a void one."""
        if reason:
            self.aside[len(self.rows)] = reason
        else:
            self.empty.append(len(self.rows))
        self.rows.append(row)

    def unfolded(self, table: Source, other: Sequence[str] = (), **more: Any) -> Unfolded:
        """Return the votes, with `other` columns of the table; raise an error if there is no ranking."""
        if not self.record:
            raise InputError("no ranking of two items or more in any record", source=table.source)
        return Unfolded(
            self.columns | _carried(table, other, [self.rows[record] for record in self.record]),
            self.record,
            self.rows,
            self.aside,
            self.empty,
            ranks=self.ranks,
            max_diff=self.max_diff,
            **more,
        )


def _others(table: Source, *known: str) -> list[str]:
    """Return the columns of a table that a ranking does not need, such as the language."""
    return [name for name in table.names if name not in (*known, *ROLES)]


def _carried(table: Source, names: Sequence[str], rows: Sequence[int]) -> dict[str, list[Any]]:
    """Return the entries of columns in rows of the table."""
    entries = list(table.rows(names)) if names else []
    return {name: [entries[row][place] for row in rows] for place, name in enumerate(names)}


def pairs_of_rows(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return pairs from rows of worker, item, rank and task; rows of one worker and task are one ranking."""
    # A row without a rank has an item that was shown and is below all ranked ones.
    names = [roles[role] for role in ("worker", "task", "item", "rank")]
    other = _others(table, *names)
    table.load([*names, *other], condition=condition)
    groups: dict[tuple[Any, Any], dict[Any, tuple[int, float]]] = {}
    for row, (worker, task, item, rank) in enumerate(table.rows(names)):
        if is_empty(item):
            raise table.fault(row, names[2], "no item; fill in the cell or remove the row")
        ranking = groups.setdefault((worker, task), {})
        if item in ranking:
            first = table.place(ranking[item][0])[1]
            fault = (
                f"the item {item!r} is in row {first}, too, by the same worker in the same task; remove one of the rows"
            )
            raise table.fault(row, names[2], fault)
        ranking[item] = (row, _rank(table, row, names[3], rank))
    pairs = _Pairs()
    for (worker, _), ranking in groups.items():
        known = [(item, rank) for item, (_, rank) in ranking.items()]
        row = next(iter(ranking.values()))[0]
        if len(known) > 1 and all(rank == NOT_RANKED for _, rank in known):
            pairs.skip(row)
        else:
            pairs.add(row, known, worker)
    return pairs.unfolded(table, other)


def _rank(table: Source, row: int, column: str, entry: Any) -> float:
    """Return a rank as a number; an empty entry is below all others."""
    if is_empty(entry) or entry != entry:
        return NOT_RANKED
    try:
        rank = float(entry)
    except (TypeError, ValueError):
        rank = float("nan")
    if not np.isfinite(rank):
        raise table.fault(row, column, f"{entry!r} is not a number; give a number, or leave the cell empty")
    return rank


def pairs_of_orders(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return pairs from rows with a whole ranking: "A>B=C>D", or a column for every place."""
    # With a column of the items shown, those that the ranking omits are below it.
    by_place = _places(table.names) if "ranking" not in roles else []
    names = by_place or [roles["ranking"]]
    more = [roles[role] for role in ("worker", "items") if role in roles]
    other = _others(table, *names, *more)
    table.load([*names, *more, *other], condition=condition)
    pairs = _Pairs(("worker",) if "worker" in roles else ())
    for row, entries in enumerate(table.rows([*names, *more])):
        found = dict(zip((*names, *more), entries, strict=True))
        if by_place:
            places = [[found[name]] for name in by_place if not is_empty(found[name])]
        else:
            places = _order(table, row, names[0], found[names[0]])
        ranking = [(item, float(place)) for place, group in enumerate(places, 1) for item in group]
        _refuse_twice(table, row, names[0], [item for item, _ in ranking])
        whole = found[names[0]]
        alone = len(ranking) == 1 and not by_place and "items" not in roles and isinstance(whole, str)
        if alone and re.search(r"[<,;|≻]", whole):
            raise table.fault(row, names[0], f"{whole!r:.80} reads as one item; write the best first, such as A>B=C>D")
        if "items" in roles:
            ranking += _not_ranked(table, row, roles["items"], found[roles["items"]], ranking)
        who = [found[roles["worker"]]] if "worker" in roles else []
        if places:
            pairs.add(row, ranking, *who)
        else:
            pairs.skip(row)
    return pairs.unfolded(table, other)


def _places(names: Iterable[str]) -> list[str]:
    found = {m[1]: name for name in names if (m := re.fullmatch(r"rank[ _]?(\d+)", name))}
    return [found[place] for place in sorted(found, key=int)]


def _order(table: Source, row: int, column: str, entry: Any) -> list[list[Any]]:
    """Return the groups of a text such as "A>B=C>D", or of a list of items or groups."""
    if is_empty(entry):
        return []
    entry = _from_json(entry)
    if not isinstance(entry, str):
        return [list(each) if isinstance(each, list | tuple) else [each] for each in entry]
    places = [[item.strip() for item in group.split("=")] for group in entry.split(">")]
    if not all(item for group in places for item in group):
        raise table.fault(row, column, f"the ranking {entry!r:.80} has an empty place; write it as A>B=C>D")
    return places


def _from_json(entry: Any) -> Any:
    """Return the list of a text in JSON; other entries as they are."""
    try:
        return json.loads(entry) if isinstance(entry, str) and entry.lstrip().startswith("[") else entry
    except ValueError:
        return entry


def _refuse_twice(table: Source, row: int, column: str, items: list[Any]) -> None:
    twice = next((item for place, item in enumerate(items) if item in items[:place]), None)
    if twice is not None:
        raise table.fault(row, column, f"the item {twice!r} is twice in the ranking; name it once")


def _shown(table: Source, row: int, column: str, entry: Any) -> list[Any]:
    """Return the items that were shown: a list, JSON, or a text with | ; or commas between."""
    entry = _from_json(entry)
    if isinstance(entry, str) and entry.lstrip().startswith("["):
        raise table.fault(row, column, "not a list in JSON; write items as A|B|C")
    if isinstance(entry, str):
        mark = next((mark for mark in "|;," if mark in entry), "|")
        entry = [item.strip() for item in entry.split(mark)]
    items = [] if is_empty(entry) else list(entry)
    _refuse_twice(table, row, column, items)
    return items


def _not_ranked(
    table: Source, row: int, column: str, entry: Any, ranking: list[tuple[Any, float]]
) -> list[tuple[Any, float]]:
    """Return the items that were shown and not ranked; raise an error if others were ranked."""
    shown, named = _shown(table, row, column, entry), [item for item, _ in ranking]
    if strange := [item for item in named if shown and item not in shown]:
        raise table.fault(row, column, f"the ranked item {strange[0]!r} is not among the items")
    return [(item, NOT_RANKED) for item in shown if item not in named]


def pairs_of_best(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return pairs from rows with the best of several items, or the best and the worst."""
    wide = _options(table.names)
    given = [roles["items"]] if "items" in roles else wide
    more = [roles[role] for role in ("best", "worst", "worker") if role in roles]
    other = _others(table, *given, *more)
    table.load([*given, *more, *other], condition=condition)
    pairs = _Pairs(("worker",) if "worker" in roles else (), "worst" in roles)
    for row, entries in enumerate(table.rows([*given, *more])):
        found = dict(zip((*given, *more), entries, strict=True))
        items = [found[name] for name in given if not is_empty(found[name])]
        if "items" in roles:
            items = _shown(table, row, given[0], found[given[0]])
        _refuse_twice(table, row, given[0], items)
        answers = [found[roles[role]] for role in ("best", "worst") if role in roles]
        who = [found[roles["worker"]]] if "worker" in roles else []
        if any(map(is_empty, answers)):
            pairs.skip(row)
            continue
        answers = [_named(answer, items, found) for answer in answers]
        for role, answer in zip(("best", "worst"), answers, strict=False):
            if answer not in items and str(answer).casefold() in (*TIE_WORDS, "both_bad", "all_bad"):
                pairs.skip(row, "answers without a best item")
                break
            if answer not in items:
                shown = ", ".join(map(str, items[:8]))
                raise table.fault(row, roles[role], f"{answer!r} is none of the items, which are {shown}")
        else:
            if len(answers) == 2 and answers[0] == answers[1]:
                raise table.fault(row, roles["worst"], f"the best and the worst item are both {answers[0]!r}")
            low = _OTHER if len(answers) == 2 else NOT_RANKED
            rank = dict(zip(answers, (_BEST, _WORST), strict=False))
            pairs.add(row, [(item, rank.get(item, low)) for item in items], *who)
    return pairs.unfolded(table, other)


def _options(names: Iterable[str]) -> list[str]:
    """Return columns of items in one row: model_a, model_b, ... or item_1, item_2, ..."""
    return [n for n in names if re.fullmatch(r"(model|item|option)[ _]?([a-z]|\d+)", n)]


def _named(answer: Any, items: list[Any], row: dict[str, Any]) -> Any:
    """Return the item that an answer means, given as the item itself or as the name of its column."""
    return row[answer] if answer not in items and answer in row else answer


_RATED = {5: ("a>>b", "a>b", "a=b", "b>a", "b>>a"), 7: ("a>>>b", "a>>b", "a>b", "a=b", "b>a", "b>>a", "b>>>a")}


def votes_of_ratings(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return votes from ratings of 1 (left much better) to 5 or 7, or of -2 or -3 to 2 or 3."""
    names = [roles[role] for role in ("left", "right", "rating", "worker") if role in roles]
    context = roles.get("context", "") if names[:2] != ["left", "right"] else ""  # of replies
    other = _others(table, *names)
    table.load([*names, *other], condition=condition)
    rows, whole = list(table.rows(names)), dict[str, str]()
    ratings = [_rank(table, row, names[2], entries[2]) for row, entries in enumerate(rows)]
    given = [rating for rating in ratings if rating != NOT_RANKED]
    centred, most = min(given, default=0) <= 0, max(map(abs, given), default=0)
    size = (5 if most <= 2 else 7) if centred else (5 if most <= 5 else 7)
    lowest = -(size // 2) if centred else 1
    note = f"ratings of {lowest} to {lowest + size - 1}: {lowest} says that {names[0]} is much better than {names[1]}"
    if given and (min(given) >= 0 if centred else max(given) < size):  # perhaps 0 to 2, 1 to 3 or 1 to 4
        note += f" and {lowest + size // 2} is a tie (given are {min(given):g} to {max(given):g}: recode another scale)"
    table.notes += (f"{note}; if it says the opposite, --columns left={names[1]},right={names[0]}",)
    words = []
    for row, rating in enumerate(ratings):
        place = size // 2 if rating == NOT_RANKED else rating - lowest
        if place not in range(size):
            raise table.fault(
                row,
                names[2],
                f"the rating {rating:g} is none of the whole numbers from {lowest} to {lowest + size - 1}, the "
                "smallest scale for all ratings (others are 1 to 5, 1 to 7, -2 to 2 and -3 to 3); correct it, leave "
                "the cell empty, or recode ratings of another scale",
            )
        words.append(_RATED[size][int(place)])
    columns = {"winner": words} | ({"worker": [entries[3] for entries in rows]} if "worker" in roles else {})
    for name, place in (("left", 0), ("right", 1)):
        columns[name] = [label_of(x[place], whole) if context and isinstance(x[place], str) else x[place] for x in rows]
    every = range(len(rows))
    columns |= _carried(table, other, every)
    if context:
        columns[context] = [prompt_label(x) for x in columns[context]]
    empty = [row for row, rating in enumerate(ratings) if rating == NOT_RANKED]
    return Unfolded(columns, every, every, empty=empty, context=context, texts=whole)


_WORKER = ("worker", "annotator", "user", "worker_id", "judge", "judge_id", "user_id")
_ITEMS = ("items", "options", "models", "shown")
_ORDERS = {"worker": _WORKER, "ranking": ("ranking", "order"), "items": _ITEMS}
_BEST_WORST = {"worker": _WORKER, "best": ("best",), "worst": ("worst",), "items": _ITEMS}
RANKINGS = (
    Format(
        name="rankings",
        title="rankings, a row for every item of each",
        columns={"worker": _WORKER[:4], "item": ("item",), "rank": ("rank",), "task": ("task", "task_id", "ranking")},
        needs=("worker", "item", "rank", "task"),
        unfold=pairs_of_rows,
    ),
    Format(
        name="rankings",
        title='rankings as "A>B=C>D"',
        columns=_ORDERS,
        needs=("ranking",),
        without=("item", "rank", "external_id"),
        unfold=pairs_of_orders,
    ),
    Format(
        name="rankings",
        title="rankings, a column for every place",
        marks=("rank_1", "rank_2"),
        columns={"worker": _WORKER, "items": _ITEMS},
        unfold=pairs_of_orders,
    ),
)
RATINGS = Format(
    name="ratings",
    title="ratings of a pair from left to right",
    needs=("left", "right", "rating"),
    columns={
        "left": ("left", "response_1"),
        "right": ("right", "response_2"),
        "rating": ("rating", "grade", "likert", "overall_preference", "preference_strength"),
        "worker": _WORKER,
        "context": ("prompt", "context", "question", "instruction"),
    },
    pooled=True,
    unfold=votes_of_ratings,
)
BEST_WORST = tuple(
    Format(
        name="best-worst",
        title="the best, or the best and the worst, of several",
        columns=_BEST_WORST,
        needs=needs,
        marks=marks,
        unfold=pairs_of_best,
    )
    for needs, marks in ((("best", "items"), ()), (("best",), ("item_1", "item_2")))
)
ARENA_N = Format(
    name="arena-n",
    title="an arena of three or more models",
    needs=("best",),
    columns={**_BEST_WORST, "best": ("best", "winner")},
    marks=("model_a", "model_b", "model_c"),
    unfold=pairs_of_best,
)


_OWN = ("id", "_server_id", "status", "external_id", "metadata", "vectors", "suggestions")


def rankings(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return every ranking of every record as pairs; the fields that are not ranked are the prompt."""
    names = [name for name in table.names if not name.startswith(("vectors", "metadata"))]
    pairs, whole = _Pairs(("worker", "prompt")), dict[str, str]()
    table.load(names, condition=condition)
    for number, entries in enumerate(table.rows(names)):
        fields, answers = _parts(dict(zip(names, entries, strict=True)))
        for worker, ranking, status in answers:
            if status in ("discarded", "draft"):
                pairs.skip(number, status)
            elif not ranking:
                pairs.skip(number)
            else:
                replies = [(_text(table, number, fields, name, whole), rank) for name, rank in ranking]
                prompt = _prompt(fields, {name for name, _ in ranking}, whole)
                pairs.add(number, replies, worker, prompt)
    return pairs.unfolded(table, context="prompt", texts=whole)


Answer = tuple[Any, list[tuple[str, float]], str]


def _parts(row: dict[str, Any]) -> tuple[dict[str, Any], list[Answer]]:
    """Return the fields of a record and its rankings, from each of the three forms of Argilla."""
    if isinstance(row.get("fields"), dict) and "responses" in row:  # records of to_json
        return row["fields"], list(_of_responses(row["responses"]))
    fields = {k: v for k, v in row.items() if "." not in k and k not in _OWN}
    answers: list[Answer] = []
    for name, value in row.items():
        if name.endswith(".responses"):  # columns of a data set
            users = chain(row.get(f"{name}.users") or (), repeat(None))
            states = chain(row.get(f"{name}.status") or (), repeat(""))
            for each, who, state in zip(value or (), users, states, strict=False):
                answers.append((who, list(_ranking(each)), str(state)))
        elif isinstance(value, list) and value and _is_answer(value[0]):  # older data sets
            fields.pop(name, None)
            answers += [
                (each.get("user_id"), list(_ranking(each.get("value"))), str(each.get("status"))) for each in value
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
    """Yield the names of fields with their ranks, which are given or implied by the order."""
    if isinstance(value, str):
        value = json.loads(value)
    for place, each in enumerate(value or []):
        if isinstance(each, dict):
            yield str(each["value"]), float(each["rank"])
        else:
            yield str(each), float(place + 1)


def _text(table: Source, number: int, fields: dict[str, Any], name: str, whole: dict[str, str]) -> str | None:
    if name not in fields:
        known = ", ".join(list(fields)[:8])
        raise table.fault(number, None, f"the ranking names the field {name!r}; the fields are {known}")
    text = reply_text(fields[name])
    return None if text is None else label_of(text, whole)


def _prompt(fields: dict[str, Any], ranked: set[str], whole: dict[str, str]) -> str:
    """Return the label of the fields that are not ranked, such as the prompt."""
    others = [value for name, value in fields.items() if name not in ranked and value is not None]
    return label_of("\n".join(v if isinstance(v, str) else json.dumps(v) for v in others), whole)


_TITLE = "rankings of Argilla"
ARGILLA = (
    Format(name="argilla", title=_TITLE, marks=("fields", "responses"), unfold=rankings),
    Format(name="argilla", title=_TITLE, marks=("*.responses.users",), unfold=rankings),
    Format(name="argilla", title=_TITLE, marks=("*-suggestion", "external_id"), unfold=rankings),
)
