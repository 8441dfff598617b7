"""Conversion of labels to codes: which values are labels, which are equal, how they are sorted.

A label is kept as given: text, bytes, a number, a truth value, a date or any other value that can be a key of a dict.
The text "7" and the number 7 are two labels, as are True and 1; the integer 7 and the float 7.0 are one, since data
frames often turn columns of integers into floats. If there are integers among the labels, whole floats become integers.
None, NaN and blank text are not labels.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Codes, Indices, Labels

MISSING = 0xFFFFFFFF  # the code of an entry without a label

# The column of contexts, or several columns; "" for none. The context of an item is the value of the column, or a tuple
# of the values of several columns.
By = str | tuple[str, ...]

# Values of these types are equal exactly if they are one label, so they are their own keys.
_OWN_KEY = frozenset({str, bytes, int, float, date, datetime, type(None)})


class LabelError(Exception):
    """An entry that cannot be a label; the table that holds it adds its place."""

    def __init__(self, row: int, message: str) -> None:
        self.row, self.message = row, message
        super().__init__(message)


def key_of(label: Any) -> Any:
    """Return a dict key that is the same for equal labels, and only for those."""
    return label if type(label) in _OWN_KEY else (type(label), label)


def is_empty(label: Any) -> bool:
    """Return whether a value is missing: None, NaN, NaT, pandas' NA, or blank text."""
    if isinstance(label, str | bytes):
        return not label.strip()
    if label is None:
        return True
    try:
        return not label == label  # noqa: SIM201 -- NaN and NaT are not equal to themselves
    except (TypeError, ValueError):  # NA and arrays have no truth value
        return type(label).__name__ == "NAType"


def shown(label: Any) -> str:
    r"""Return a label for a message: on one line, without control characters, cut if it is long."""
    if isinstance(label, str | bytes) and len(label) > 60:
        start = repr(label[:57])
        return f"{start[:-1]}...{start[-1]}"
    text = repr(label)
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_column(values: Any) -> NDArray[Any]:
    """Return an array of exactly these entries; NumPy alone converts [7, "7"] to text and True to 1."""
    if isinstance(values, list | tuple):
        return np.fromiter(values, dtype=object, count=len(values))
    if isinstance(values, np.ma.MaskedArray):
        entries = np.fromiter(_values(values.data), dtype=object, count=values.size)
        entries[np.ma.getmaskarray(values)] = None
        return entries
    return np.asarray(values)


def factorize(column: NDArray[Any]) -> tuple[list[Any], Codes]:
    """Return the distinct entries of an array, in any order, and the code of every entry."""
    if column.dtype.kind in "iu":
        distinct, places = np.unique(column, return_inverse=True)
        return distinct.tolist(), places.reshape(-1).astype(np.uint32)
    values = _values(column)
    kinds = set(map(type, values))
    keys = values if kinds <= _OWN_KEY else list(map(key_of, values))
    try:
        found = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    except TypeError:
        raise _unhashable(values) from None
    codes = np.fromiter(map(found.__getitem__, keys), np.uint32, len(keys))
    labels = [key[1] if type(key) is tuple else key for key in found]
    if int in kinds and float in kinds:  # of 7 and 7.0, in either order, 7 is the label
        whole: dict[Any, int] = {value: value for value in values if type(value) is int}
        labels = [whole.get(label, label) if type(label) is float else label for label in labels]
    return labels, codes


def context_codes(items: Iterable[Any]) -> dict[Any, int]:
    """Return numbers of the contexts of items (context, item), in their order, by key."""
    codes: dict[Any, int] = {}
    for label in items:
        codes.setdefault(key_of(label[0]), len(codes))
    return codes


def context_names(by: Any) -> tuple[str, ...]:
    """Return the names of context columns from a text, a sequence or None."""
    if isinstance(by, str):
        return (by,) if by else ()
    return () if by is None else tuple(by)


def context_parts(labels: Iterable[Any], by: By) -> list[list[Any]]:
    """Return the values of every context column, then the items, of labels (context, item)."""
    names = context_names(by)
    flat = [(*label[0], label[1]) if len(names) > 1 else label for label in labels]
    return [list(part) for part in zip(*flat, strict=True)] or [[] for _ in range(len(names) + 1)]


def plain(labels: Iterable[Any]) -> list[Any]:
    """Return Python values for scalars of NumPy and pandas; 0.0 for -0.0, which is equal."""
    values = []
    for place, label in enumerate(labels):
        value = label
        if isinstance(label, np.generic):
            try:
                (value,) = _values(np.asarray(label).reshape(1))
            except LabelError as error:
                raise LabelError(place, error.message) from None
        elif hasattr(label, "to_pydatetime"):  # a Timestamp of pandas
            if label.nanosecond:
                raise _no_date(place, label)
            value = label.to_pydatetime()
        values.append(value + 0.0 if type(value) is float else value)
    return values


def merge(parts: Sequence[tuple[Iterable[Any], Codes]]) -> tuple[Labels, list[Codes]]:
    """Return the sorted distinct labels of several columns together, and the codes of each column."""
    given = [list(labels) for labels, _ in parts]
    if any(type(label) is int for labels in given for label in labels):
        given = [[_whole(label) for label in labels] for labels in given]
    distinct = {key_of(label): label for labels in given for label in labels}
    ordered = _sorted(list(distinct.values()))
    code_of = {key_of(label): code for code, label in enumerate(ordered)}
    codes = [
        np.fromiter((code_of[key_of(label)] for label in labels), np.uint32, len(labels))[local]
        for labels, (_, local) in zip(given, parts, strict=True)
    ]
    return np.fromiter(ordered, dtype=object, count=len(ordered)), codes


def _values(column: NDArray[Any]) -> list[Any]:
    """Return Python values; dates stay dates, which NumPy would convert to nanoseconds."""
    values: list[Any]
    if column.dtype.kind not in "mM":
        values = column.tolist()
        return values
    unit = np.datetime_data(column.dtype)[0]
    coarse = unit in ("Y", "M", "W", "D") and column.dtype.kind == "M"
    target = np.dtype(f"{column.dtype.kind}8[{'D' if coarse else 'us'}]")
    rounded = column.astype(target)
    values = rounded.tolist()
    lost = (rounded != column) & ~np.isnat(column)
    lost |= np.fromiter((type(value) is int for value in values), bool, len(values))
    if lost.any():
        row = int(np.argmax(lost))
        raise _no_date(row, column[row])
    return values


def _no_date(row: int, label: Any) -> LabelError:
    return LabelError(
        row, f"the label {label!s} is finer than microseconds or outside the years 1 to 9999; write such labels as text"
    )


def _whole(label: Any) -> Any:
    return int(label) if type(label) is float and label.is_integer() else label


def _unhashable(values: Iterable[Any]) -> LabelError:
    for row, value in enumerate(values):
        try:
            hash(value)
        except TypeError:
            return LabelError(row, f"the label {shown(value)} is not a text, a number or a date")
    raise AssertionError("every label can be a key")


def _sorted(labels: list[Any]) -> list[Any]:
    """Return labels sorted by type, numbers together, then by value (or by text if there is no order)."""

    def kind(label: Any) -> str:
        return "int" if type(label) is float else type(label).__name__

    if len({kind(label) for label in labels}) > 1:
        try:
            return sorted(labels, key=lambda label: (kind(label), label))
        except TypeError:
            return sorted(labels, key=lambda label: (kind(label), repr(label)))
    try:
        return sorted(labels)
    except TypeError:
        return sorted(labels, key=repr)


def match_labels(wanted: Sequence[Any], labels: Sequence[Any]) -> Indices:
    """Return the index of every wanted label among the labels, or -1; see `match_items`."""
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
    """Return how a label may be written in a text file: 7.0 also as 7."""
    whole = isinstance(label, float) and label.is_integer()
    return (str(label), str(int(label))) if whole else (str(label),)
