"""Values of items from a file of their own, and labels of two sources matched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.io.columns import listed, lookup, open_source, refuse_empty, resolve_column
from crowdsift.io.rows import context_labels, split_items
from crowdsift.votes.labels import context_names, context_parts, is_empty, key_of, match_labels
from crowdsift.votes.replies import prompt_label, reply_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons
    from crowdsift.votes.labels import By
    from crowdsift.votes.source import Source


def read_item_values(
    source: Any, column: str = "score", *, numeric: bool = True
) -> tuple[NDArray[np.object_], NDArray[Any]]:
    """Read the labels of items and a column that says something about each: truth, or a class.

    Parameters
    ----------
    source
        As for `read`, with a column ``item`` of distinct labels.
    column
        The column to read.
    numeric
        Whether it must hold finite numbers; otherwise it holds labels.

    Returns
    -------
    tuple of ndarray
        The labels of the items and the values, of type float64 or object, in the given order.

    Examples
    --------
    >>> from crowdsift.io.items import read_item_values
    >>> read_item_values({"item": ["a", "b"], "score": [1, 2.5]})
    (array(['a', 'b'], dtype=object), array([1. , 2.5]))
    """
    table = open_source(source, called="items")
    try:
        item = resolve_column(table, "item", "the items")
        name = resolve_column(table, column, f"the values {column!r}")
        refuse_empty(table, table.load([item, name]), "items")
        labels, (codes,) = table.labels([item], "item label")
        counts = np.bincount(codes, minlength=len(labels))
        if counts.max() > 1:
            twice = int(np.argmax(counts > 1))
            row = int(np.flatnonzero(codes == twice)[1])
            raise table.fault(
                row, item, f"the item {labels[twice]!r} is there twice; remove one row"
            )
        if numeric:
            return labels[codes], table.quantities(name, "number").astype(np.float64, copy=False)
        kinds, (kind_codes,) = table.labels([name], "value")
        return labels[codes], kinds[kind_codes]
    finally:
        table.close()


def match_items(comparisons: Comparisons, labels: Iterable[Any]) -> NDArray[np.int64]:
    """Find every item of the comparisons in another list of labels.

    Labels match exactly, or else as text, since the number 7 of a Parquet file is the text "7"
    of a CSV file. Text that stands for several labels matches none of them.

    Parameters
    ----------
    comparisons
        The votes.
    labels
        Distinct labels, for example those of `read_item_values`. Where the votes have contexts:
        pairs (value, item), or items, which are then meant in every context.

    Returns
    -------
    ndarray of int64
        For every item the index of its label, or -1 where there is none.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.io.items import match_items
    >>> votes = Comparisons.from_arrays([1, 2], [2, 3])
    >>> match_items(votes, ["3", "1"])
    array([ 1, -1,  0])
    """
    wanted, labels = comparisons.items.tolist(), list(labels)
    if comparisons.by and not all(isinstance(label, tuple) for label in labels):
        wanted = [item for _, item in wanted]  # what is known of an item holds in every context
    return match_labels(wanted, labels)


def with_classes(votes: Comparisons, classes: Any) -> Comparisons:
    """The votes with the class of every item, from a mapping or from "ITEMS.csv:COLUMN".

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.io.items import with_classes
    >>> votes = Comparisons.from_arrays(["a"], ["b"])
    >>> with_classes(votes, {"a": "fruit", "b": "nut"}).item_class.tolist()
    [0, 1]
    """
    if classes is None:
        return votes
    if isinstance(classes, Mapping):
        labels = np.empty(len(classes), dtype=object)
        labels[:] = list(classes)
        values = np.array(list(classes.values()), dtype=object)
        source = "classes"
    else:
        source, colon, column = str(classes).rpartition(":")
        if not colon or not source or not column:
            raise RequestError(f"classes are given as ITEMS.csv:COLUMN, not {classes!r}")
        labels, values = read_item_values(source, column, numeric=False)
    place = match_items(votes, labels)
    if (place < 0).any():
        missing = votes.items[place < 0]
        raise InputError(
            f"{len(missing)} of the {votes.n_items} items of the votes have no class here, for "
            f"example {missing[0]!r}; every item needs one",
            source=source,
        )
    return votes.with_classes([values[row] for row in place])


class GoldLabels(NamedTuple):
    """The labels of gold pairs, as a fit keeps them: `winner[i]` is better than `loser[i]`."""

    winner: NDArray[np.object_]
    loser: NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Gold:
    """Codes of items of the votes: `winner[i]` is known to be better than `loser[i]`.

    Distinct pairs without a contradiction, in the order of their codes.
    """

    winner: NDArray[np.uint32]
    loser: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.winner)

    def labels(self, items: NDArray[np.object_]) -> GoldLabels:
        """Return the labels of the pairs, given the labels of the items by code."""
        return GoldLabels(items[self.winner], items[self.loser])


def read_gold(source: Any, votes: Comparisons, kept: GoldLabels | None = None) -> Gold | None:
    """Read gold pairs about the items of votes; a pair given twice counts once.

    Parameters
    ----------
    source
        A file, a frame or arrays with the columns ``winner`` and ``loser``, as for
        `crowdsift.read`; `GoldLabels` of a fit; `Gold`, which is returned as it is; or None.
    votes
        The votes that the gold is about; every item of the gold must be among theirs.
    kept
        The gold of an earlier fit, which counts as well.

    Returns
    -------
    Gold or None
        The distinct pairs; None without any gold.

    Raises
    ------
    InputError
        For an item that the votes do not have, an item compared with itself, and pairs that
        contradict each other, directly or around a cycle. The message says which row.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.io.items import read_gold
    >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
    >>> len(read_gold({"winner": ["a", "a"], "loser": ["c", "c"]}, votes))
    1
    """
    if isinstance(source, Gold):
        return source
    if isinstance(source, GoldLabels):
        source, kept = None, source
    if source is None:
        return None if kept is None else _kept(kept, votes)
    table = open_source(source, called="gold")
    try:
        names = [resolve_column(table, role, f"the {role} of the gold") for role in _ROLES]
        for name in context_names(votes.by):
            names.append(resolve_column(table, name, "the context of the gold (--by, by=)"))
        refuse_empty(table, table.load(names), "gold pairs")
        labels, *pair = table.pairs(*names[:2])
        if votes.by:
            labels, *pair = split_items(context_labels(table, names[2:]), labels, *pair)
        place = _places(labels.tolist(), votes)
        _refuse_unknown(table, names, labels, pair, place)
        winner, loser = (place[codes] for codes in pair)
        _refuse_cycle(table, votes.items, winner, loser)
    finally:
        table.close()
    given = _distinct(winner, loser)
    if kept is None:
        return given
    before = _kept(kept, votes)
    both = _distinct(*(np.concatenate(each) for each in zip(
        (before.winner, before.loser), (given.winner, given.loser), strict=True)))  # fmt: skip
    if cycle := _cycle(list(zip(both.winner.tolist(), both.loser.tolist(), strict=True))):
        shown = " over ".join(repr(votes.items[code]) for code in [*cycle, cycle[0]][:6])
        raise InputError(
            f"these gold pairs contradict those that the earlier fit keeps: {shown}; correct them, "
            "or fit all votes with the right gold and without the earlier fit",
            source=table.source,
        )
    return both


def _distinct(winner: NDArray[Any], loser: NDArray[Any]) -> Gold:
    """Return the distinct pairs in the order of their codes."""
    pairs = np.unique(np.column_stack([winner, loser]), axis=0).astype(np.uint32)
    return Gold(pairs[:, 0].copy(), pairs[:, 1].copy())


def _kept(kept: GoldLabels, votes: Comparisons) -> Gold:
    """Return the gold of an earlier fit in the codes of these votes."""
    known = votes.items.tolist()
    winner, loser = (match_labels(labels.tolist(), known) for labels in kept)
    if missing := [*kept.winner[winner < 0], *kept.loser[loser < 0]]:
        raise RequestError(
            f"the earlier fit has gold about the item {missing[0]!r}, which is not among the items "
            "of these votes; give all votes, or fit without the earlier fit (--start)"
        )
    return _distinct(winner, loser)


_ROLES = ("winner", "loser")


def _places(labels: list[Any], votes: Comparisons) -> NDArray[np.int64]:
    """The codes of labels among the items of the votes, -1 where there is none."""
    known = votes.items.tolist()
    if not votes.by:
        return match_labels(labels, known)
    ours, theirs = [], []  # the numbers of values and items, column by column
    parts = zip(context_parts(known, votes.by), context_parts(labels, votes.by), strict=True)
    for column, wanted in parts:
        distinct = {key_of(label): label for label in column}
        number = {key: place for place, key in enumerate(distinct)}
        ours.append([number[key_of(label)] for label in column])
        theirs.append(match_labels(wanted, list(distinct.values())).tolist())
    code = {label: place for place, label in enumerate(zip(*ours, strict=True))}
    return np.array([code.get(label, -1) for label in zip(*theirs, strict=True)])


def _refuse_unknown(
    table: Source,
    names: list[str],
    labels: NDArray[np.object_],
    pair: list[NDArray[np.uint32]],
    place: NDArray[np.int64],
) -> None:
    """Refuse gold about items that are not among the votes."""
    unknown = [place[codes] < 0 for codes in pair]
    rows = unknown[0] | unknown[1]
    if not rows.any():
        return
    row = int(np.argmax(rows))
    side = 0 if unknown[0][row] else 1
    more = f" ({int(rows.sum())} rows have such items)" if rows.sum() > 1 else ""
    raise table.fault(
        row, names[side],
        f"the item {labels[pair[side][row]]!r} is not among the items of the votes{more}; "
        "correct the label or remove the row",
    )  # fmt: skip


def _refuse_cycle(
    table: Source,
    items: NDArray[np.object_],
    winner: NDArray[np.int64],
    loser: NDArray[np.int64],
) -> None:
    """Refuse a > b > ... > a, which no order satisfies; a pair in both orders is the shortest."""
    row_of: dict[tuple[int, int], int] = {}
    for row, pair in enumerate(zip(winner.tolist(), loser.tolist(), strict=True)):
        row_of.setdefault(pair, row)
    for (better, worse), row in row_of.items():
        if (other := row_of.get((worse, better))) is not None:
            first, second = sorted((row, other))
            raise table.fault(
                second, None,
                f"the gold contradicts row {table.place(first)[1]}: {items[better]!r} and "
                f"{items[worse]!r} are each given as the better one; remove one of the rows",
            )  # fmt: skip
    cycle = _cycle(list(row_of))
    if cycle:
        around = [*cycle, cycle[0]]
        rows = [row_of[step] for step in pairwise(around)]
        result = " over ".join(repr(items[code]) for code in around[:6])
        result += f" over ... ({len(cycle)} items)" if len(around) > 6 else ""
        numbers = ", ".join(str(table.place(row)[1]) for row in sorted(rows)[:6])
        raise InputError(
            f"the gold contradicts itself: {result} is a cycle (rows {numbers}"
            f"{', ...' if len(rows) > 6 else ''}); remove at least one of these rows",
            source=table.source,
        )


def _cycle(edges: list[tuple[int, int]]) -> list[int]:
    """A cycle of the directed graph as its items in order; empty where there is none."""
    below: dict[int, list[int]] = {}
    above: dict[int, list[int]] = {}
    for better, worse in edges:
        below.setdefault(better, []).append(worse)
        above.setdefault(worse, []).append(better)
    count = {item: len(above.get(item, [])) for item in {*below, *above}}
    free = [item for item in sorted(count) if count[item] == 0]
    while free:  # peel off what nothing left is better than
        item = free.pop()
        del count[item]
        for worse in below.get(item, []):
            count[worse] -= 1
            if count[worse] == 0:
                free.append(worse)
    if not count:
        return []
    path, seen = [min(count)], {min(count): 0}
    while True:  # every item that is left has a better one that is left: walk up until it repeats
        item = min(each for each in above[path[-1]] if each in count)
        if item in seen:
            return path[seen[item] :][::-1]
        seen[item] = len(path)
        path.append(item)


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
