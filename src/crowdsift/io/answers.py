"""What an answer means: a side, a tie, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import InputError, RequestError
from crowdsift.io.formats.base import SIDES, TIE
from crowdsift.io.item_values import match_labels
from crowdsift.votes.labels import is_empty, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from crowdsift.io.recognise import Plan
    from crowdsift.votes.source import Source

__all__ = [
    "Answers",
    "empty_codes",
    "meanings",
    "read_answers",
    "refuse_answers",
    "require_values",
]

_OUTCOME = {"left": 1.0, "right": 0.0, "tie": 0.5, "both bad": 0.5}
_EMPTY = ("", "empty", "none", "skip")


def require_values(values: Mapping[str, str]) -> dict[str, str]:
    """What a user says that answers mean, in our words.

    Examples
    --------
    >>> from crowdsift.io.answers import require_values
    >>> require_values({"A": "left", "?": "empty"})
    {'A': 'left', '?': ''}
    """
    known = {}
    for answer, meaning in values.items():
        word = meaning.strip().lower().replace("_", " ")
        if word not in _OUTCOME and word not in _EMPTY:
            raise RequestError(
                f"--values {answer}={meaning}: an answer means left, right, tie, both_bad or empty"
            )
        known[answer.strip()] = "" if word in _EMPTY else word
    return known


def meanings(labels: Sequence[Any], plan: Plan, values: Mapping[str, str]) -> list[str | None]:
    """The meaning of every answer: a side, "tie", "both bad", "" for none, None where unknown.

    What the user says goes before what the format says, and that before words for sides.
    """
    words = {"left": "left", "right": "right", "tie": "tie"}
    if plan.format.words:
        for one, two in SIDES[:5]:  # not 0 and 1: 1 is the second of these, the first of 1 and 2
            words |= {one: "left", two: "right"} if one not in ("1",) else {}
        words |= dict.fromkeys(TIE, "tie")
    for role in ("left", "right"):  # the name of the side's own column, or the end of it
        name = plan.roles.get(role, role)
        prefix = plan.format.pairs
        words.setdefault(name.casefold(), role)
        words.setdefault(name.removeprefix(prefix).casefold(), role)
    words |= {answer.casefold(): meaning for answer, meaning in plan.format.values.items()}
    folded = {answer.casefold(): meaning for answer, meaning in values.items()}
    known: list[str | None] = []
    for label in labels:
        text = str(label).strip()
        if plan.format.decode is not None and text not in values:
            text = plan.format.decode(text)
        fold = text.casefold()
        if is_empty(label) or not text:
            known.append("")
        else:
            known.append(values.get(text, folded.get(fold, words.get(fold))))
    return known


@dataclass(frozen=True)
class Answers:
    """The outcome for the left item of every row, NaN where the answer is neither side."""

    outcome: NDArray[np.float32]
    both_bad: int
    labels: list[Any]
    codes: NDArray[np.uint32]
    clash: NDArray[np.bool_]

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """The rows whose answer is neither side."""
        return np.isnan(self.outcome)


def read_answers(
    table: Source,
    plan: Plan,
    values: Mapping[str, str],
    items: NDArray[np.object_],
    first: NDArray[np.uint32],
    second: NDArray[np.uint32],
) -> Answers:
    """Find the outcome for the left item, from a word for a side or from a label of the row."""
    column = plan.roles["winner"]
    labels, codes = table.entries(column, "winner")
    known = meanings(labels, plan, values)
    words = np.array([_OUTCOME.get(word or "?", np.nan) for word in known], dtype=np.float32)
    named = words[codes]
    own = np.full(len(first), np.nan, dtype=np.float32)
    if not plan.format.words:
        winner = match_labels(labels, items.tolist())[codes]
        own[winner == first] = 1.0
        own[winner == second] = 0.0
    outcome = np.where(np.isnan(own), named, own)
    bad = [code for code, word in enumerate(known) if word == "both bad"]
    both_bad = int((np.isin(codes, bad) & (outcome == 0.5)).sum()) if bad else 0
    return Answers(outcome, both_bad, labels, codes, ~np.isnan(named) & (named != outcome))


def refuse_answers(
    table: Source,
    column: str,
    answers: Answers,
    items: NDArray[np.object_],
    first: NDArray[np.uint32],
    second: NDArray[np.uint32],
) -> None:
    """Refuse answers that are neither side, all of them listed; and words that are also labels."""
    if (bad := answers.unknown).any():
        raise _neither(table, column, answers, bad, items, first, second)
    if answers.clash.any():
        row = int(np.argmax(answers.clash))
        raise table.fault(
            row, column,
            f"the winner {shown(answers.labels[answers.codes[row]])} is a keyword and also the "
            "label of an item of this row, with another meaning; rename the item, or use "
            "first,second,outcome",
        )  # fmt: skip


def _neither(
    table: Source,
    column: str,
    answers: Answers,
    bad: NDArray[np.bool_],
    items: NDArray[np.object_],
    first: NDArray[np.uint32],
    second: NDArray[np.uint32],
) -> InputError:
    """The error for answers that are neither a side nor a tie, the most frequent listed."""
    row = int(np.argmax(bad))
    count = np.bincount(answers.codes[bad], minlength=len(answers.labels))
    often = np.argsort(-count, kind="stable")[: min(8, int((count > 0).sum()))].tolist()
    listed = ", ".join(
        f"{shown(answers.labels[code])} ({count[code]:,} {'row' if count[code] == 1 else 'rows'})"
        for code in often
    )
    more = f" and {int((count > 0).sum()) - len(often)} more" if (count > 0).sum() > 8 else ""
    texts = [str(answers.labels[code])[:20] for code in often[:4]]
    mapped = ",".join(f"{text}={'tie' if text.casefold() in TIE else '...'}" for text in texts)
    return table.fault(
        row, column,
        f"the winner {shown(answers.labels[answers.codes[row]])} is neither side; it must be left, "
        f"right, tie, {shown(items[first[row]])} or {shown(items[second[row]])}. Answers that are "
        f"neither: {listed}{more}; correct the cells, say what they mean with --values "
        f'"{mapped}" (left, right, tie or empty), or set such rows aside with --skip-bad',
    )  # fmt: skip


def empty_codes(labels: Sequence[Any], plan: Plan, values: Mapping[str, str]) -> set[int]:
    """The codes of answers that are none."""
    return {code for code, word in enumerate(meanings(labels, plan, values)) if word == ""}
