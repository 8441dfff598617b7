"""Files about items, workers and pairs: values, classes, features, gold."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError, RequestError
from crowdsift.io.columns import listed, lookup, open_source, refuse_empty, resolve_column
from crowdsift.io.rows import context_labels, split_items
from crowdsift.numeric import Codes, Indices, Labels, Mask, Vector
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.item_features import FeatureBlock, ItemFeatures, standardised_block
from crowdsift.votes.labels import By, context_names, context_parts, is_empty, key_of, match_labels
from crowdsift.votes.replies import prompt_label, reply_label
from crowdsift.votes.source import Source


def read_item_values(source: Any, column: str = "score", *, numeric: bool = True) -> tuple[Labels, NDArray[Any]]:
    """Return the labels of items and the values of a column about them: truth, or class."""
    # `numeric`: whether it must hold finite numbers; otherwise it holds labels.
    with closing(open_source(source, called="items")) as table:
        item = resolve_column(table, "item", "the items")
        name = resolve_column(table, column, f"the values {column!r}")
        refuse_empty(table, table.load([item, name]), "items")
        labels = _distinct_items(table, item, "remove one row")
        if numeric:
            return labels, table.quantities(name, "number").astype(np.float64, copy=False)
        kinds, (kind_codes,) = table.labels([name], "value")
        return labels, kinds[kind_codes]


def _distinct_items(table: Source, column: str, advice: str) -> Labels:
    """Return the labels of items, row by row; raise an error for a repeated one."""
    labels, (codes,) = table.labels([column], "item label")
    counts = np.bincount(codes, minlength=len(labels))
    if counts.max() > 1:
        twice = int(np.argmax(counts > 1))
        row = int(np.flatnonzero(codes == twice)[1])
        raise table.fault(row, column, f"the item {labels[twice]!r} occurs twice; {advice}")
    return labels[codes]


def match_items(comparisons: Comparisons, labels: Iterable[Any]) -> Indices:
    """Return the index of every item of the comparisons in another list of labels."""
    # Labels match exactly, otherwise as text, since the number 7 of a Parquet file is the text "7" of a CSV file. Text
    # that stands for several labels matches none of them. `labels`: distinct labels, for example those of
    # `read_item_values`. Where the votes have contexts: pairs (value, item), or items, which then match in every
    # context.
    wanted, labels = comparisons.items.tolist(), list(labels)
    if comparisons.by and not all(isinstance(label, tuple) for label in labels):
        wanted = [item for _, item in wanted]  # values of an item hold in every context
    place = match_labels(wanted, labels)
    whole = [_cut(label) for label in labels] if (place < 0).any() else labels
    if whole != labels:  # texts of replies, whose labels are cut
        place = np.where(place < 0, match_labels(wanted, whole), place)
    return place


def with_classes(votes: Comparisons, classes: Any) -> Comparisons:
    """Return the votes with the class of every item, from a mapping or from "ITEMS.csv:COLUMN"."""
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
    """The labels of gold pairs, as a fit stores them: `winner[i]` is better than `loser[i]`."""

    winner: Labels
    loser: Labels


@dataclass(frozen=True, eq=False)
class Gold:
    """Codes of distinct, consistent pairs: `winner[i]` is better than `loser[i]`."""

    winner: Codes
    loser: Codes

    def __len__(self) -> int:
        return len(self.winner)

    def labels(self, items: Labels) -> GoldLabels:
        """Return the labels of the pairs, given the labels of the items by code."""
        return GoldLabels(items[self.winner], items[self.loser])


def read_gold(source: Any, votes: Comparisons, kept: GoldLabels | None = None) -> Gold | None:
    """Return gold pairs about the items of votes; a repeated pair counts once."""
    # `source`: a file, a frame or arrays with the columns `winner` and `loser`; `GoldLabels` of a fit; `Gold`, which is
    # returned unchanged; or None. Items are labels of the votes, or whole texts of replies.
    if isinstance(source, Gold):
        return source
    if isinstance(source, GoldLabels):
        source, kept = None, source
    if source is None:
        return None if kept is None else _kept(kept, votes)
    with closing(open_source(source, called="gold")) as table:
        names = [resolve_column(table, role, f"the {role} of the gold") for role in _ROLES]
        for name in context_names(votes.by):
            names.append(resolve_column(table, name, "the context of the gold (--by, by=)"))
        refuse_empty(table, table.load(names), "gold pairs")
        labels, *pair = table.pairs(*names[:2])
        if votes.by:
            labels, *pair = split_items(context_labels(table, names[2:]), labels, *pair)
        place = _places(labels.tolist(), votes)
        if (missing := np.flatnonzero(place < 0)).size:  # texts of replies, whose labels are cut
            place[missing] = _places([_cut(label) for label in labels[missing].tolist()], votes)
        _refuse_unknown(table, names, labels, pair, place)
        winner, loser = (place[codes] for codes in pair)
        _refuse_cycle(table, votes.items, winner, loser)
    given = _distinct(winner, loser)
    if kept is None:
        return given
    before = _kept(kept, votes)
    both = _distinct(
        *(np.concatenate(each) for each in zip((before.winner, before.loser), (given.winner, given.loser), strict=True))
    )
    if cycle := _cycle(list(zip(both.winner.tolist(), both.loser.tolist(), strict=True))):
        shown = " over ".join(repr(votes.items[code]) for code in [*cycle, cycle[0]][:6])
        raise InputError(
            f"these gold pairs contradict those that the earlier fit keeps: {shown}; correct them, "
            "or fit all votes with the right gold and without the earlier fit",
            source=table.source,
        )
    return both


def _distinct(winner: NDArray[Any], loser: NDArray[Any]) -> Gold:
    """Return the distinct pairs, sorted by the codes of their items."""
    pairs = np.unique(np.column_stack([winner, loser]), axis=0).astype(np.uint32)
    return Gold(pairs[:, 0].copy(), pairs[:, 1].copy())


def _kept(kept: GoldLabels, votes: Comparisons) -> Gold:
    known = votes.items.tolist()
    winner, loser = (match_labels(labels.tolist(), known) for labels in kept)
    if missing := [*kept.winner[winner < 0], *kept.loser[loser < 0]]:
        raise RequestError(
            f"the earlier fit has gold about the item {missing[0]!r}, which is not among the items of these votes; "
            "give all votes, or fit without the earlier fit (--start)"
        )
    return _distinct(winner, loser)


_ROLES = ("winner", "loser")


def _places(labels: list[Any], votes: Comparisons) -> Indices:
    """Return the codes of labels among the items of the votes, -1 for unknown ones."""
    known = votes.items.tolist()
    if not votes.by:
        return match_labels(labels, known)
    ours, theirs = [], []  # the codes of values and items, column by column
    parts = zip(context_parts(known, votes.by), context_parts(labels, votes.by), strict=True)
    for column, wanted in parts:
        distinct = {key_of(label): label for label in column}
        number = {key: place for place, key in enumerate(distinct)}
        ours.append([number[key_of(label)] for label in column])
        theirs.append(match_labels(wanted, list(distinct.values())).tolist())
    code = {label: place for place, label in enumerate(zip(*ours, strict=True))}
    return np.array([code.get(label, -1) for label in zip(*theirs, strict=True)])


def _refuse_unknown(table: Source, names: list[str], labels: Labels, pair: list[Codes], place: Indices) -> None:
    unknown = [place[codes] < 0 for codes in pair]
    rows = unknown[0] | unknown[1]
    if not rows.any():
        return
    row = int(np.argmax(rows))
    side = 0 if unknown[0][row] else 1
    more = f" ({int(rows.sum())} rows have such items)" if rows.sum() > 1 else ""
    raise table.fault(
        row,
        names[side],
        f"the item {labels[pair[side][row]]!r} is not among the items{more}; correct the label or remove the row",
    )


def _refuse_cycle(table: Source, items: Labels, winner: Indices, loser: Indices) -> None:
    """Raise an error for a > b > ... > a, which no order satisfies; a pair in both orders is the shortest."""
    row_of: dict[tuple[int, int], int] = {}
    for row, pair in enumerate(zip(winner.tolist(), loser.tolist(), strict=True)):
        row_of.setdefault(pair, row)
    for (better, worse), row in row_of.items():
        if (other := row_of.get((worse, better))) is not None:
            first, second = sorted((row, other))
            raise table.fault(
                second,
                None,
                f"the gold contradicts row {table.place(first)[1]}: {items[better]!r} and "
                f"{items[worse]!r} are each given as the better one; remove one of the rows",
            )
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
    """Return a cycle of the directed graph as its items in order; empty if there is none."""
    graph: TopologicalSorter[int] = TopologicalSorter()
    for better, worse in edges:
        graph.add(worse, better)
    try:
        graph.prepare()
    except CycleError as error:
        return list(error.args[1][:-1])
    return []


# Accepted names for the columns of a pair, and of its worker.
_PAIRS = (
    *(("first", "second"), ("left", "right"), ("winner", "loser"), ("chosen", "rejected")),
    *(("model_a", "model_b"), ("item_a", "item_b")),
)
_WORKERS = ("worker", "annotator", "annotator_id", "worker_id", "judge", "WorkerId")


def read_labels(source: Any, column: str = "item") -> list[Any]:
    """Return the distinct labels of a column of a file."""
    with closing(open_source(source, called=f"{column}s")) as table:
        name = resolve_column(table, column, f"the {column}s")
        refuse_empty(table, table.load([name]), f"{column}s")
        return list(table.labels([name], f"{column} label")[0])


def read_capacities(source: Any) -> list[Any] | dict[Any, int]:
    """Return workers, and their largest number of questions from a column ``capacity``."""
    with closing(open_source(source, called="workers")) as table:
        worker = resolve_column(table, "worker", "the workers")
        limited = any(name.strip().casefold() == "capacity" for name in table.names)
        wanted = [worker, resolve_column(table, "capacity", "the capacities")] if limited else [worker]
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


def read_prices(source: Any, prices: Mapping[str, float]) -> dict[Any, float]:
    """Return the price of every worker's vote, by the column ``panel`` of a file of workers."""
    with closing(open_source(source, called="workers")) as table:
        worker = resolve_column(table, "worker", "the workers")
        panel = resolve_column(table, "panel", "the panels that --price names")
        refuse_empty(table, table.load([worker, panel]), "workers")
        labels, panels = _entries(table, worker), _entries(table, panel)
        for row, each in enumerate(panels):
            if str(each) not in prices:
                raise table.fault(row, panel, f"the panel {each!r} has no price; give --price")
        return {label: prices[str(each)] for label, each in zip(labels, panels, strict=True)}


class PairQueries(NamedTuple):
    """Pairs of items with a worker or None each, as labels of the fit if it has them."""

    first: list[Any]
    second: list[Any]
    worker: list[Any]


def read_pair_queries(source: Any, items: Sequence[Any], workers: Sequence[Any], context: By = "") -> PairQueries:
    """Return the pairs of a file, one per row, in the order of the file."""
    # `source`: a file or frame with the columns first and second (or left and right, winner and loser, chosen and
    # rejected, model_a and model_b), optionally worker, and the context's; `items`, `workers`: the labels of a fit. A
    # label matches exactly or as text, and the text of a reply by its cut label; unknown labels stay unchanged.
    with closing(open_source(source, called="pairs")) as table:
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


def _pair(table: Source) -> tuple[str, str]:
    for names in _PAIRS:
        one, two = (lookup(table, table.names, name) for name in names)
        if one is not None and two is not None:
            return one, two
    raise InputError(
        f"no columns first and second (the items of each pair); the columns are {listed(table)}", source=table.source
    )


def _entries(table: Source, column: str, *, blank: bool = False) -> list[Any]:
    if not blank:
        labels, codes = table.entries(column, "label")
        return [labels[code] for code in codes.tolist()]
    labels, codes = table.encode(column)
    known = [None if is_empty(label) else label for label in labels]
    return [known[code] if code < len(known) else None for code in codes.tolist()]


def _known(wanted: list[Any], labels: Sequence[Any]) -> list[Any]:
    """Return each wanted label as the list spells it, if the list has it."""
    place = match_labels(wanted, labels)
    missing = [row for row in np.flatnonzero(place < 0).tolist() if wanted[row] is not None]
    place[missing] = match_labels([_cut(wanted[row]) for row in missing], labels)
    return [labels[at] if at >= 0 else own for at, own in zip(place.tolist(), wanted, strict=True)]


def _cut(label: Any) -> Any:
    """Return a reply, with its prompt if there is one, as its label in a fit."""
    if isinstance(label, tuple):
        prompt, reply = label
        return prompt if isinstance(prompt, tuple) else prompt_label(prompt), reply_label(reply)
    return reply_label(label) if isinstance(label, str) else label


MAX_FEATURES = 4_096
MISSING_CHOICES = ("error", "mean", "drop")
_TRUTH = "score"  # the column of a truth, which must not become a feature by accident
_FEW_ITEMS, _MANY_NGRAMS, _NGRAMS = 1_200, 4_096, 1_024
_TEXTS = ("ngrams", "readability")
_LABELS = ("item", "id", "reply", "response", "completion", "text")  # replies may be identified by their text
_LISTS = (list, tuple, np.ndarray)


class ItemsTable(NamedTuple):
    """Labels of items, and columns: numbers (1-d), embeddings (2-d) or texts (object)."""

    source: str
    labels: Labels
    columns: dict[str, NDArray[Any]]


def with_item_features(votes: Comparisons, items: Any = None, text: Any = None, missing: str = "error") -> Comparisons:
    """Return the votes with features of their items."""
    # `items`: a file or frame with the column item and columns of numbers, or one of lists (embeddings);
    # "FILE:COLUMN,..." for some columns only; a mapping of columns, of which one may be a matrix; or a list of these;
    # `missing`: what to do about items without features: "error", "mean" (they count as average) or "drop" (votes on
    # them are left out).
    if missing not in MISSING_CHOICES:
        choices = ", ".join(MISSING_CHOICES)
        raise RequestError(f"item_features_missing is one of {choices}, not {missing!r}")
    tables = [(read_table(each, votes.by), False) for each in _several(items)]
    tables += [(_text_table(each, votes.by), True) for each in _several(text)]
    if not tables:
        return votes
    places = [match_items(votes, table.labels) for table, _ in tables]
    absent = np.zeros(votes.n_items, bool)
    for (table, is_text), place in zip(tables, places, strict=True):
        absent |= (place < 0) | _unknown(table, is_text)[place]
    notes = []
    if absent.any():
        named = ", ".join(repr(label) for label in votes.items[absent][:5].tolist())
        what = f"{int(absent.sum())} of the {votes.n_items} items lack features: {named}"
        if missing == "error" or absent.all():
            raise InputError(
                f"{what}; fill them, or choose --item-features-missing mean (they count as "
                "average) or drop (votes on them are left out)",
                source=tables[0][0].source,
            )
        notes.append(f"{what}; " + ("taken as average" if missing == "mean" else "left out"))
        if missing == "drop":
            votes = _without_items(votes, absent)
            places = [match_items(votes, table.labels) for table, _ in tables]
    blocks: list[FeatureBlock] = []
    for (table, is_text), place in zip(tables, places, strict=True):
        blocks += _blocks(table, place, is_text)
    made = ItemFeatures(tuple(blocks), (*notes, *_notes(blocks)))
    if made.size > MAX_FEATURES * 2 or any(len(g.names) > MAX_FEATURES for g in blocks):
        raise InputError(
            f"{made.size} features of items; at most {MAX_FEATURES} per block are possible", source=tables[0][0].source
        )
    return replace(votes, item_features=made)


def read_table(given: Any, by: By = "") -> ItemsTable:
    """Return a table of items: the named columns, or all except item and score."""
    if isinstance(given, str):
        source, colon, columns = given.rpartition(":")
        wanted = tuple(name.strip() for name in columns.split(",")) if colon and source else ()
        return _read(source if wanted else given, wanted, by=by)
    return _read(given, (), by=by)


def has_items(source: str) -> bool:
    """Return whether a source is a table of items: a file, not standard input, with a column item."""
    if source == "-":
        return False
    with closing(open_source(source)) as table:
        return lookup(table, table.names, "item") is not None


def read_features_table(blocks: Sequence[FeatureBlock], items: Any) -> ItemsTable:
    """Return the table of further items, with the columns that these blocks need."""
    kinds = {name: block.kind for block in blocks for name in block.columns}
    return _read(items, tuple(kinds), [n for n, k in kinds.items() if k in _TEXTS])


def _read(source: Any, wanted: Sequence[str], texts: Sequence[str] = (), by: By = "") -> ItemsTable:
    # Labels are in the first of these columns; with columns of contexts they are pairs.
    if isinstance(source, Mapping):  # a matrix is a column of lists
        source = {name: list(each) if getattr(each, "ndim", 1) == 2 else each for name, each in source.items()}
    with closing(open_source(source, called="items")) as table:
        known = (lookup(table, table.names, name) for name in _LABELS if name not in wanted)
        item = next(filter(None, known), None) or resolve_column(table, "item", "the items")
        found = [lookup(table, table.names, name) for name in context_names(by)]
        contexts = [name for name in found if name is not None] if None not in found else []
        names = [resolve_column(table, name, f"the feature {name!r}") for name in wanted]
        names = names or [n for n in table.names if n not in (item, _TRUTH, *contexts)]
        if not names:
            raise InputError("no columns besides item; give every feature as a column", source=table.source)
        refuse_empty(table, table.load([item, *names, *contexts]), "items")
        labels, (codes,) = table.labels([item], "item label")
        labels = labels[codes]
        if contexts:
            values, place = context_labels(table, contexts)
            labels[:] = list(zip(values[place].tolist(), labels.tolist(), strict=True))
        columns = {}
        for name in names:
            if name in texts:
                columns[name] = np.array([row[0] for row in table.rows([name])], dtype=object)
            elif (lists := _lists(table, name)) is not None:
                columns[name] = _matrix(table, name, lists)
            else:
                columns[name] = _numbers(table, name)
        return _once(table, item, ItemsTable(table.source, labels, columns))


def _once(table: Source, item: str, read: ItemsTable) -> ItemsTable:
    """Return the first of equal rows; raise an error for an item with two different rows."""
    first: dict[Any, int] = {}
    for row, label in enumerate(read.labels.tolist()):
        at = first.setdefault(key_of(label), row)
        if at != row and not all(_equal(each[at], each[row]) for each in read.columns.values()):
            shown = repr(label) if len(repr(label)) <= 80 else f"{repr(label)[:77]}..."
            raise table.fault(row, item, f"the item {shown} occurs twice; remove one")
    if len(first) == len(read.labels):
        return read
    kept = list(first.values())
    columns = {name: each[kept] for name, each in read.columns.items()}
    return ItemsTable(read.source, read.labels[kept], columns)


def _equal(one: Any, two: Any) -> bool:
    """Return whether two features are equal; missing ones are."""
    if isinstance(one, str | None) or isinstance(two, str | None):
        return bool(one == two)
    return bool(np.array_equal(one, two, equal_nan=True))


def _numbers(table: Any, name: str) -> Vector:
    """Return a column of numbers, NaN for empty entries; raise an error for text."""
    values = np.asarray(table.numbers(name), np.float64)
    for row in np.flatnonzero(~np.isfinite(values)).tolist():
        given = table.value(name, row)
        if given is None or (isinstance(given, float) and np.isnan(given)):
            continue
        if isinstance(given, str) and given.strip().lower() in ("", "nan", "na", "null"):
            continue
        raise table.fault(
            row,
            name,
            f"the feature {given!r} is not a finite number; name the columns to use "
            "(FILE:COLUMN,...), and use --item-text FILE:COLUMN for text",
        )
    return np.where(np.isfinite(values), values, np.nan)


def _lists(table: Any, name: str) -> list[Any] | None:
    first = table.value(name, 0)
    if isinstance(first, str) and first.lstrip().startswith("["):
        rows = [row[0] for row in table.rows([name])]
        try:
            return [json.loads(row) if isinstance(row, str) else row for row in rows]
        except json.JSONDecodeError:
            return None
    return [row[0] for row in table.rows([name])] if isinstance(first, _LISTS) else None


def _matrix(table: Any, name: str, rows: list[Any]) -> Vector:
    """Return a column of lists of numbers, all of one length; None for missing lists."""
    size = next((len(row) for row in rows if row is not None), 0)
    for number, row in enumerate(rows):
        if row is not None and len(row) != size:
            raise table.fault(
                number,
                name,
                f"a list of {len(row)} numbers where others have {size}; all lists of a column need one length",
            )
    empty = [float("nan")] * size
    try:
        return np.array([empty if row is None else row for row in rows], np.float64)
    except (TypeError, ValueError):
        raise InputError("the lists have entries that are not numbers", source=table.source, column=name) from None


def _text_table(given: Any, by: By = "") -> ItemsTable:
    """Return texts, given as FILE:COLUMN, a table or mapping of columns, or a mapping from items."""
    if isinstance(given, str):
        source, _, column = given.rpartition(":")
        if not (source and column):
            raise RequestError(f"texts of items are given as FILE:COLUMN, not {given!r}")
        return _read(source, (column,), (column,), by)
    if not isinstance(given, Mapping) or not any(isinstance(each, str) for each in given.values()):
        with closing(open_source(given, called="texts")) as table:
            taken = ("item", "id", _TRUTH, *context_names(by))
            names = [name for name in table.names if name not in taken]
        if "text" not in names and len(names) != 1:
            raise RequestError(f"texts of items need a column text beside item; the columns are {listed(table)}")
        name = "text" if "text" in names else names[0]
        return _read(given, (name,), (name,), by)
    labels, texts = np.empty(len(given), dtype=object), np.empty(len(given), dtype=object)
    labels[:], texts[:] = list(given), list(given.values())
    return ItemsTable("texts", labels, {"text": texts})


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _unknown(table: ItemsTable, is_text: bool) -> Mask:
    """Return which rows lack some feature."""
    absent = np.zeros(len(table.labels), bool)
    for column in table.columns.values():
        if is_text:
            absent |= np.array([not isinstance(text, str) or not text.strip() for text in column])
        else:
            finite = np.isfinite(np.asarray(column, np.float64))
            absent |= ~(finite if finite.ndim == 1 else finite.all(axis=1))
    return absent


def _blocks(table: ItemsTable, place: Indices, is_text: bool) -> list[FeatureBlock]:
    """Return the blocks of one table for the items at these rows; -1 means missing."""
    if is_text:
        return _text_blocks(table, place)
    blocks = []
    absent = place < 0
    scalars = {name: each for name, each in table.columns.items() if each.ndim == 1}
    if scalars:
        names = tuple(scalars)
        raw = np.stack([each[place] for each in scalars.values()], axis=1)
        raw[absent] = np.nan
        blocks.append(standardised_block("columns", "columns", names, names, raw))
    for name, matrix in table.columns.items():
        if matrix.ndim == 2:
            raw = np.asarray(matrix[place], np.float64)
            raw[absent] = np.nan
            features = tuple(f"{name}[{i}]" for i in range(matrix.shape[1]))
            blocks.append(standardised_block(name, "list", (name,), features, raw))
    return blocks


def _text_blocks(table: ItemsTable, place: Indices) -> list[FeatureBlock]:
    from crowdsift.numeric.text_features import READABILITY, ngram_counts, readability

    (column, given), absent = next(iter(table.columns.items())), place < 0
    absent = absent | _unknown(table, True)[place]
    texts = ["" if gone else given[at] for at, gone in zip(place.tolist(), absent, strict=True)]
    size = _MANY_NGRAMS if len(texts) <= _FEW_ITEMS else _NGRAMS
    counts = ngram_counts(texts, size).astype(np.float64)
    rarity = np.log((1.0 + len(texts)) / (1.0 + (counts != 0.0).sum(axis=0)))
    readable = readability(texts)
    grams = unit_rows(counts * rarity)
    readable[absent] = grams[absent] = np.nan
    names = tuple(f"{column}[{i}]" for i in range(size))
    return [
        standardised_block(f"{column}: n-grams", "ngrams", (column,), names, grams, rarity),
        standardised_block(f"{column}: readability", "readability", (column,), READABILITY, readable),
    ]


def unit_rows(matrix: Vector) -> Vector:
    """Return rows scaled to norm 1; zero rows stay."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(norms > 0.0, norms, 1.0))


def block_values(block: FeatureBlock, table: ItemsTable) -> Vector:
    """Return the standardised features of a block for the items of another table."""
    missing = [name for name in block.columns if name not in table.columns]
    if missing:
        raise InputError(f"no column {missing[0]!r}, which the fit has as a feature", source=table.source)
    if block.kind in _TEXTS:
        from crowdsift.numeric.text_features import ngram_counts, readability

        texts = [text if isinstance(text, str) else "" for text in table.columns[block.columns[0]]]
        if block.kind == "readability" or block.rarity is None:
            return block.standardise(readability(texts))
        counts = ngram_counts(texts, len(block.names)).astype(np.float64)
        return block.standardise(unit_rows(counts * block.rarity))
    parts = [np.asarray(table.columns[name], np.float64) for name in block.columns]
    raw = parts[0] if parts[0].ndim == 2 else np.stack(parts, axis=1)
    if raw.shape[1] != len(block.names):
        raise InputError(f"{raw.shape[1]} features where the fit has {len(block.names)}", source=table.source)
    return block.standardise(raw)


def _notes(blocks: list[FeatureBlock]) -> list[str]:
    notes = []
    for block in blocks:
        constant = [n for n, scale in zip(block.names, block.scale, strict=True) if np.isinf(scale)]
        if constant and block.kind in ("columns", "list"):
            shown = ", ".join(constant[:5]) + (", ..." if len(constant) > 5 else "")
            notes.append(f"constant features say nothing and are not used: {shown}")
    return notes


def _without_items(votes: Comparisons, absent: Mask) -> Comparisons:
    keep = ~absent[votes.first] & ~absent[votes.second]
    left = votes.select(keep)
    kept = np.zeros(votes.n_items, bool)
    kept[left.first] = kept[left.second] = True
    code = (np.cumsum(kept) - 1).astype(np.uint32)
    return replace(left, first=code[left.first], second=code[left.second], items=left.items[kept])
