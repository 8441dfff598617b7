"""Gold: pairs of items of which it is known which one is better."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.io.columns import open_source, refuse_empty, resolve_column
from crowdsift.io.ingest import context_labels, split_items
from crowdsift.io.item_values import match_labels
from crowdsift.votes.labels import context_names, context_parts, key_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons
    from crowdsift.votes.source import Source

__all__ = ["Gold", "GoldLabels", "read_gold"]


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
    >>> from crowdsift.io.gold import read_gold
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
