"""Crowd platforms: batches of Amazon Mechanical Turk, assignments of Toloka, crowd-kit.

Answers of a batch are columns (Answer.choice), or JSON in one cell (Answer.taskAnswers), as forms made of crowd
elements give them.

Rejected assignments are kept: they are votes like others, and the fit judges their worth. The intake counts them, and
``--where "AssignmentStatus != 'Rejected'"`` leaves them out.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.files import replace_file
from crowdsift.io.formats import Format
from crowdsift.votes.source import Source


def task_answer(text: str) -> str:
    """Return the answer in a cell of JSON; other text, and several answers, unchanged."""
    if text[:1] not in ("[", "{"):
        return text
    try:
        found = _answers(json.loads(text))
    except (ValueError, RecursionError):
        return text
    return found[0] if len(found) == 1 else "" if not found else text


def _answers(value: Any, name: str = "") -> list[str]:
    """Return the texts and numbers in an answer, and the names of the buttons that are on."""
    if isinstance(value, bool):
        return [name] if value else []
    if isinstance(value, list):
        return [leaf for each in value for leaf in _answers(each)]
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in _answers(each, str(key))]
    return [] if value is None or not str(value).strip() else [str(value)]


MTURK = Format(
    name="mturk",
    title="results of a Mechanical Turk batch",
    columns={"worker": ("WorkerId",)},
    needs=("left", "right", "winner", "worker"),
    marks=("AssignmentId",),
    unique=("AssignmentId",),
    noted=("AssignmentStatus", "Rejected", "rejected assignments"),
    pairs="Input.",
    words=True,
    answers="Answer.",
    decode=task_answer,
)

TOLOKA = Format(
    name="toloka",
    title="assignments of Toloka",
    columns={"worker": ("ASSIGNMENT:worker_id",)},
    needs=("left", "right", "winner", "worker"),
    marks=("ASSIGNMENT:assignment_id",),
    noted=("ASSIGNMENT:status", "REJECTED", "rejected assignments"),
    pairs="INPUT:",
    words=True,
    answers="OUTPUT:",
)

CROWD_KIT = Format(
    name="crowd-kit",
    title="comparisons of crowd-kit",
    columns={"left": ("left",), "right": ("right",), "winner": ("label",), "worker": ("worker", "performer")},
    needs=("left", "right", "winner", "worker"),
)

_WORKER, _STATUS = "WorkerId", "AssignmentStatus"
_APPROVE, _REJECT = "Approve", "Reject"


@dataclass(frozen=True)
class Batch:
    """The columns and rows of a batch, without rows that are no records (`--skip-bad`)."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def read_batch(table: Source) -> Batch:
    """Return all rows of a table whose columns are all loaded; raise an error if it is no batch."""
    if _WORKER not in table.names:
        raise InputError(
            f"no column {_WORKER}: not the results of a batch, which --mturk-review needs", source=table.source
        )
    rows, broken = list(table.rows(table.names)), table.broken()
    if rows and table.place(0)[0] != table.place(len(rows) - 1)[0]:
        raise InputError("several files; --mturk-review fills in one batch", source=table.source)
    return Batch(table.names, [row for number, row in enumerate(rows) if number not in broken])


def write_review(batch: Batch, suggestions: Mapping[Any, tuple[str, str]], out: str | Path) -> dict[str, int]:
    r"""Write the batch with Approve or Reject filled in, ready to upload."""
    # Assignments of workers to block are rejected with the reason, and those of workers to pay approved. Those of
    # workers to review, and assignments that were approved or rejected before, stay unchanged. `suggestions` has the
    # suggestion (pay, review, block) and the reason for every worker.
    done = {"approved": 0, "rejected": 0, "open": 0}
    names = dict.fromkeys((*batch.names, _APPROVE, _REJECT))
    with replace_file(Path(out)) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for entries in batch.rows:
            row = dict(zip(batch.names, entries, strict=True))
            suggestion, reason = suggestions.get(row[_WORKER], ("review", ""))
            if row.get(_STATUS, "Submitted") != "Submitted" or suggestion == "review":
                done["open"] += 1
            elif suggestion == "block":
                row[_REJECT] = reason
                done["rejected"] += 1
            else:
                row[_APPROVE] = "x"
                done["approved"] += 1
            writer.writerow(row)
    return done
