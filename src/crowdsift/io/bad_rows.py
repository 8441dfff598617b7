"""Rows that no model can use, all of them, for `--skip-bad`.

The checks are those that otherwise refuse a table at its first bad row; what escaped here would
still be refused there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.io.answers import read_answers
from crowdsift.votes.labels import MISSING, is_empty
from crowdsift.votes.limits import LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from crowdsift.io.recognise import Plan
    from crowdsift.io.selection import Selection
    from crowdsift.votes.source import Source

__all__ = ["set_bad_aside"]

_NUMBERS = {"outcome": "outcome", "weight": "weight"}


def set_bad_aside(
    selection: Selection,
    plan: Plan,
    values: Mapping[str, str],
    *,
    labels: Sequence[tuple[str, str]],
    numbers: Sequence[tuple[str, str]],
) -> None:
    """Mark every row with a fault, and what it is.

    Parameters
    ----------
    selection
        The rows so far.
    plan, values
        What the columns are and what answers mean.
    labels
        Columns of labels and what they are, as ("left", "item label").
    numbers
        Columns of numbers and their roles.
    """
    table = selection.table
    for column, what in labels:
        selection.set_aside(_unlabelled(table, column), column, f"empty {what}")
    for column, role in numbers:
        low, high = LIMITS[role]
        given = table.numbers(column)
        bad = ~(np.isfinite(given) & (given >= low) & (given <= high))
        selection.set_aside(np.flatnonzero(bad), column, f"not a valid {role}")
    if len(selection.rows) == 0:
        return
    chosen, rows = selection.selected(), selection.rows
    one, two = (plan.roles[role] for role in plan.layout[:2])
    items, (first, second) = chosen.labels([one, two], "item label")
    selection.set_aside(rows[first == second], one, "an item compared with itself")
    if plan.layout[-1] == "winner":
        answers = read_answers(chosen, plan, values, items, first, second)
        wrong = answers.unknown | answers.clash
        selection.set_aside(rows[wrong], plan.roles["winner"], "a winner that is neither side")


def _unlabelled(table: Source, column: str) -> NDArray[np.int64]:
    """The rows without a label in a column."""
    labels, codes = table.encode(column)
    unfit = [c for c, label in enumerate(labels) if label.__hash__ is None or is_empty(label)]
    return np.flatnonzero((codes == MISSING) | np.isin(codes, unfit))
