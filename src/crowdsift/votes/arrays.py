"""Arrays of votes: checked, in single precision, frozen."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdsift.errors import InputError
from crowdsift.votes.limits import MOST_WEIGHT, first_outside

__all__ = [
    "FAULTS",
    "counted",
    "distinct_rows",
    "frozen",
    "single",
    "single_features",
    "table_of_numbers",
]

Entries = TypeVar("Entries", bound=NDArray[Any])

FAULTS = {
    1: "an item code outside the list of items",
    2: "a worker code outside the list of workers",
    3: "an item compared with itself; remove the row",
    4: "an outcome outside [0, 1] (1: the first item is better, 0: the second, 0.5: a tie)",
    5: f"a weight that is negative, not a number or above {MOST_WEIGHT:.0e}; weights count votes",
}


def frozen(array: Entries) -> Entries:
    """The array itself, read-only; for arrays that nobody else holds."""
    array.setflags(write=False)
    return array


def single(
    values: NDArray[np.floating[Any]] | None, role: str, source: str
) -> NDArray[np.float32] | None:
    """Numbers in float32, checked before they are rounded; the core checks those that are."""
    if values is None or values.dtype == np.float32:
        return values
    if (row := first_outside(values, role)) is not None:
        fault = FAULTS[{"outcome": 4, "weight": 5}[role]]
        raise InputError(fault, source=source, row=row + 1, column=role)
    return values.astype(np.float32)


def table_of_numbers(features: ArrayLike) -> NDArray[np.float64]:
    """Features as an array of numbers, one row per vote."""
    try:
        return np.array(features, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the features are not a table of numbers, one row per vote") from None


def single_features(
    features: NDArray[np.floating[Any]], rows: int, source: str
) -> NDArray[np.float32]:
    """Features in float32, a copy, checked before they are rounded."""
    if features.ndim != 2 or len(features) != rows:
        raise InputError(
            f"features need one row per vote, {rows} in all, not shape {features.shape}",
            source=source,
        )
    if (place := first_outside(features, "feature")) is not None:
        row = place // features.shape[1] + 1
        raise InputError("a feature that is not a finite number", source=source, row=row)
    return np.array(features, dtype=np.float32, order="C")


def distinct_rows(
    features: NDArray[np.float32] | None,
) -> tuple[NDArray[np.uint32] | None, NDArray[np.float32] | None]:
    """Distinct rows of features, and the number of each vote's row."""
    if features is None:
        return None, None
    table, codes = np.unique(features, axis=0, return_inverse=True)
    return codes.reshape(-1).astype(np.uint32), table


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
