"""Values of items from a file of their own, and labels of two sources matched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.io.columns import open_source, refuse_empty, resolve_column
from crowdsift.votes.labels import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from crowdsift.votes.comparisons import Comparisons

__all__ = ["match_items", "match_labels", "read_item_values"]


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
    >>> from crowdsift.io.item_values import read_item_values
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
    >>> from crowdsift.io.item_values import match_items
    >>> votes = Comparisons.from_arrays([1, 2], [2, 3])
    >>> match_items(votes, ["3", "1"])
    array([ 1, -1,  0])
    """
    wanted, labels = comparisons.items.tolist(), list(labels)
    if comparisons.by and not all(isinstance(label, tuple) for label in labels):
        wanted = [item for _, item in wanted]  # what is known of an item holds in every context
    return match_labels(wanted, labels)


def match_labels(wanted: Sequence[Any], labels: Sequence[Any]) -> NDArray[np.int64]:
    """The place of every wanted label among the labels, or -1; see `match_items`."""
    exact = {key_of(label): place for place, label in enumerate(labels)}
    found = [exact.get(key_of(label), -1) for label in wanted]
    if -1 in found:  # as text, then
        texts: dict[str, int] = {}
        for place, label in enumerate(labels):
            for text in _texts(label):
                texts[text] = -1 if text in texts else place
        for row, label in enumerate(wanted):
            if found[row] < 0:
                found[row] = next((texts[text] for text in _texts(label) if text in texts), -1)
    return np.array(found, np.int64)


def _texts(label: Any) -> tuple[str, ...]:
    """How a label may be written in a text file: 7.0 also as 7."""
    whole = isinstance(label, float) and label.is_integer()
    return (str(label), str(int(label))) if whole else (str(label),)
