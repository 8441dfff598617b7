"""Features of items from tables of their own: columns of numbers, embeddings, texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.io.columns import lookup, open_source, refuse_empty, resolve_column
from crowdsift.io.items import match_items
from crowdsift.numeric.text_features import READABILITY, ngram_counts, readability
from crowdsift.votes.item_features import FeatureBlock, ItemFeatures, standardised_block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons

MOST_FEATURES = 4_096
MISSING_CHOICES = ("error", "mean", "drop")
_TRUTH = "score"  # the column of a truth, which must not become a feature unasked
_FEW_ITEMS, _MANY_NGRAMS, _NGRAMS = 1_200, 4_096, 1_024
_TEXTS = ("ngrams", "readability")
_LISTS = (list, tuple, np.ndarray)


class ItemsTable(NamedTuple):
    """Labels of items, and columns: numbers (1-d), embeddings (2-d) or texts (object)."""

    source: str
    labels: NDArray[np.object_]
    columns: dict[str, NDArray[Any]]


def with_item_features(
    votes: Comparisons, items: Any = None, text: Any = None, missing: str = "error"
) -> Comparisons:
    """The votes with features of their items.

    Parameters
    ----------
    votes
        The votes.
    items
        A file or frame with the column item and columns of numbers, or one of lists (embeddings);
        "FILE:COLUMN,..." for some columns only; a mapping of columns, of which one may be a
        matrix; or several of these in a list.
    text
        "FILE:COLUMN", or a mapping from items to texts.
    missing
        What to do about items without features: "error", "mean" (they count as average) or "drop"
        (votes on them are left out).

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.io.item_features import with_item_features
    >>> votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
    >>> table = {"item": ["a", "b", "c"], "length": [1.0, 5.0, 3.0]}
    >>> with_item_features(votes, table).item_features.blocks[0].names
    ('length',)
    """
    if missing not in MISSING_CHOICES:
        choices = ", ".join(MISSING_CHOICES)
        raise RequestError(f"item_features_missing is one of {choices}, not {missing!r}")
    tables = [(read_table(each), False) for each in _several(items)]
    tables += [(_text_table(each), True) for each in _several(text)]
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
                "average) or drop (votes on them are left out)", source=tables[0][0].source,
            )  # fmt: skip
        notes.append(f"{what}; " + ("taken as average" if missing == "mean" else "left out"))
        if missing == "drop":
            votes = _without_items(votes, absent)
            places = [match_items(votes, table.labels) for table, _ in tables]
    blocks: list[FeatureBlock] = []
    for (table, is_text), place in zip(tables, places, strict=True):
        blocks += _blocks(table, place, is_text)
    made = ItemFeatures(tuple(blocks), (*notes, *_notes(blocks)))
    if made.size > MOST_FEATURES * 2 or any(len(g.names) > MOST_FEATURES for g in blocks):
        raise InputError(
            f"{made.size} features of items; at most {MOST_FEATURES} a block are possible",
            source=tables[0][0].source,
        )
    return replace(votes, item_features=made)


def read_table(given: Any) -> ItemsTable:
    """A table of items: all its columns but item and score, or those that are named."""
    if isinstance(given, str):
        source, colon, columns = given.rpartition(":")
        wanted = tuple(name.strip() for name in columns.split(",")) if colon and source else ()
        return _read(source if wanted else given, wanted)
    if isinstance(given, Mapping):
        wide = {name: np.asarray(column) for name, column in given.items()
                if getattr(column, "ndim", 1) == 2}  # fmt: skip
        if not wide:
            return _read(given, ())
        narrow = {name: column for name, column in given.items() if name not in wide}
        found = _read(narrow, ()) if len(narrow) > 1 else _labels_alone(narrow)
        for name, matrix in wide.items():
            if len(matrix) != len(found.labels):
                raise InputError(
                    f"{len(matrix)} rows for {len(found.labels)} items", source="items", column=name
                )
        return found._replace(columns={**found.columns, **wide})
    return _read(given, ())


def has_items(source: str) -> bool:
    """Whether a file is a table of items: it has the column item. Standard input is not looked at.

    Examples
    --------
    >>> from crowdsift.io.item_features import has_items
    >>> has_items("-")
    False
    """
    if source == "-":
        return False
    table = open_source(source)
    try:
        return lookup(table, table.names, "item") is not None
    finally:
        table.close()


def _labels_alone(given: Mapping[str, Any]) -> ItemsTable:
    if "item" not in given:
        raise InputError("no column 'item' for the labels of items", source="items")
    labels = np.empty(len(given["item"]), dtype=object)
    given_items = given["item"]
    labels[:] = given_items.tolist() if isinstance(given_items, np.ndarray) else list(given_items)
    return ItemsTable("items", labels, {})


def read_features_table(blocks: Sequence[FeatureBlock], items: Any) -> ItemsTable:
    """The table of further items, with the columns that these blocks are made of."""
    if isinstance(items, Mapping) and any(getattr(c, "ndim", 1) == 2 for c in items.values()):
        return read_table(items)
    kinds = {name: block.kind for block in blocks for name in block.columns}
    return _read(items, tuple(kinds), [n for n, k in kinds.items() if k in _TEXTS])


def _read(source: Any, wanted: Sequence[str], texts: Sequence[str] = ()) -> ItemsTable:
    """Read a table of items: labels, and columns of numbers, lists or texts."""
    table = open_source(source, called="items")
    try:
        item = resolve_column(table, "item", "the items")
        names = [resolve_column(table, name, f"the feature {name!r}") for name in wanted]
        names = names or [n for n in table.names if n not in (item, _TRUTH)]
        if not names:
            raise InputError("no columns beside item; features are columns", source=table.source)
        refuse_empty(table, table.load([item, *names]), "items")
        labels, (codes,) = table.labels([item], "item label")
        counts = np.bincount(codes, minlength=len(labels))
        if counts.max() > 1:
            twice = int(np.argmax(counts > 1))
            row = int(np.flatnonzero(codes == twice)[1])
            raise table.fault(row, item, f"the item {labels[twice]!r} is there twice; remove one")
        columns = {}
        for name in names:
            if name in texts:
                columns[name] = np.array([row[0] for row in table.rows([name])], dtype=object)
            elif (lists := _lists(table, name)) is not None:
                columns[name] = _matrix(table, name, lists)
            else:
                columns[name] = _numbers(table, name)
        return ItemsTable(table.source, labels[codes], columns)
    finally:
        table.close()


def _numbers(table: Any, name: str) -> NDArray[np.float64]:
    """A column of numbers, NaN where there is none; text is refused."""
    values = np.asarray(table.numbers(name), np.float64)
    for row in np.flatnonzero(~np.isfinite(values)).tolist():
        given = table.value(name, row)
        if given is None or (isinstance(given, float) and np.isnan(given)):
            continue
        if isinstance(given, str) and given.strip().lower() in ("", "nan", "na", "null"):
            continue
        raise table.fault(
            row, name,
            f"the feature {given!r} is not a finite number; name the columns to use "
            "(FILE:COLUMN,...), and use --item-text FILE:COLUMN for text",
        )  # fmt: skip
    return np.where(np.isfinite(values), values, np.nan)


def _lists(table: Any, name: str) -> list[Any] | None:
    """The lists of a column, which text files hold as [1, 2, ...]; None where it has none."""
    first = table.value(name, 0)
    if isinstance(first, str) and first.lstrip().startswith("["):
        rows = [row[0] for row in table.rows([name])]
        try:
            return [json.loads(row) if isinstance(row, str) else row for row in rows]
        except json.JSONDecodeError:
            return None
    return [row[0] for row in table.rows([name])] if isinstance(first, _LISTS) else None


def _matrix(table: Any, name: str, rows: list[Any]) -> NDArray[np.float64]:
    """A column of lists of numbers, all of one length; None where one is missing."""
    size = next((len(row) for row in rows if row is not None), 0)
    for number, row in enumerate(rows):
        if row is not None and len(row) != size:
            raise table.fault(
                number, name, f"a list of {len(row)} numbers where others have {size}; all lists "
                "of a column need one length",
            )  # fmt: skip
    empty = [float("nan")] * size
    try:
        return np.array([empty if row is None else row for row in rows], np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "the lists hold something else than numbers", source=table.source, column=name
        ) from None


def _text_table(given: Any) -> ItemsTable:
    if isinstance(given, Mapping):
        labels, texts = np.empty(len(given), dtype=object), np.empty(len(given), dtype=object)
        labels[:], texts[:] = list(given), list(given.values())
        return ItemsTable("texts", labels, {"text": texts})
    source, colon, column = str(given).rpartition(":")
    if not colon or not source or not column:
        raise RequestError(f"texts of items are given as FILE:COLUMN, not {given!r}")
    return _read(source, (column,), (column,))


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _unknown(table: ItemsTable, is_text: bool) -> NDArray[np.bool_]:
    """Which rows lack some feature."""
    absent = np.zeros(len(table.labels), bool)
    for column in table.columns.values():
        if is_text:
            absent |= np.array([not isinstance(text, str) or not text.strip() for text in column])
        else:
            finite = np.isfinite(np.asarray(column, np.float64))
            absent |= ~(finite if finite.ndim == 1 else finite.all(axis=1))
    return absent


def _blocks(table: ItemsTable, place: NDArray[np.int64], is_text: bool) -> list[FeatureBlock]:
    """The blocks of one table for the items at these places; -1 is missing."""
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


def _text_blocks(table: ItemsTable, place: NDArray[np.int64]) -> list[FeatureBlock]:
    """Two blocks of features of texts: weighted character n-grams, and readability."""
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
        standardised_block(f"{column}: readability", "readability", (column,), READABILITY,
                           readable),
    ]  # fmt: skip


def unit_rows(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of norm 1; zeros stay."""
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    return np.asarray(matrix / np.where(norms > 0.0, norms, 1.0))


def block_values(block: FeatureBlock, table: ItemsTable) -> NDArray[np.float64]:
    """The standardised features of a block for the items of another table."""
    missing = [name for name in block.columns if name not in table.columns]
    if missing:
        raise InputError(
            f"no column {missing[0]!r}, which the fit has as a feature", source=table.source
        )
    if block.kind in _TEXTS:
        texts = [text if isinstance(text, str) else "" for text in table.columns[block.columns[0]]]
        if block.kind == "readability" or block.rarity is None:
            return block.standardise(readability(texts))
        counts = ngram_counts(texts, len(block.names)).astype(np.float64)
        return block.standardise(unit_rows(counts * block.rarity))
    parts = [np.asarray(table.columns[name], np.float64) for name in block.columns]
    raw = parts[0] if parts[0].ndim == 2 else np.stack(parts, axis=1)
    if raw.shape[1] != len(block.names):
        raise InputError(
            f"{raw.shape[1]} features where the fit has {len(block.names)}", source=table.source
        )
    return block.standardise(raw)


def _notes(blocks: list[FeatureBlock]) -> list[str]:
    notes = []
    for block in blocks:
        constant = [n for n, scale in zip(block.names, block.scale, strict=True) if np.isinf(scale)]
        if constant and block.kind in ("columns", "list"):
            shown = ", ".join(constant[:5]) + (", ..." if len(constant) > 5 else "")
            notes.append(f"constant features say nothing and are not used: {shown}")
    return notes


def _without_items(votes: Comparisons, absent: NDArray[np.bool_]) -> Comparisons:
    """The votes on the other items alone."""
    keep = ~absent[votes.first] & ~absent[votes.second]
    left = votes.select(keep)
    kept = np.zeros(votes.n_items, bool)
    kept[left.first] = kept[left.second] = True
    code = (np.cumsum(kept) - 1).astype(np.uint32)
    return replace(left, first=code[left.first], second=code[left.second], items=left.items[kept])
