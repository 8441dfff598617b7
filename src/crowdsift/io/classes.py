"""The class of every item, as a caller gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.io.item_values import match_items, read_item_values

if TYPE_CHECKING:
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["with_classes"]


def with_classes(votes: Comparisons, classes: Any) -> Comparisons:
    """The votes with the class of every item, from a mapping or from "ITEMS.csv:COLUMN".

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.io.classes import with_classes
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
