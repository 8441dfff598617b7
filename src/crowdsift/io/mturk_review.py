"""A batch of Mechanical Turk to upload: the rows as read, with Approve or Reject filled in."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.files import replace_file
from crowdsift.votes.source import Source

__all__ = ["Batch", "read_batch", "write_review"]

_WORKER, _STATUS = "WorkerId", "AssignmentStatus"
_APPROVE, _REJECT = "Approve", "Reject"


@dataclass(frozen=True)
class Batch:
    """The columns and rows of a batch; rows that are no records (`--skip-bad`) are not in it."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def read_batch(table: Source) -> Batch:
    """Take all rows from a table whose columns are all loaded; refuse one that is no batch.

    Examples
    --------
    >>> from crowdsift.io.mturk_review import read_batch
    >>> from crowdsift.votes.source import ArraySource
    >>> read_batch(ArraySource({"WorkerId": ["A"], "AssignmentStatus": ["Submitted"]})).rows
    [('A', 'Submitted')]
    """
    if _WORKER not in table.names:
        raise InputError(
            f"no column {_WORKER}: not the results of a batch, which --mturk-review needs",
            source=table.source,
        )
    rows, broken = list(table.rows(table.names)), table.broken()
    if rows and table.place(0)[0] != table.place(len(rows) - 1)[0]:
        raise InputError("several files; --mturk-review fills in one batch", source=table.source)
    return Batch(table.names, [row for number, row in enumerate(rows) if number not in broken])


def write_review(
    batch: Batch, suggestions: Mapping[Any, tuple[str, str]], out: str | Path
) -> dict[str, int]:
    r"""Write the batch with Approve or Reject filled in, for upload.

    Assignments of workers to be blocked are rejected with the reason, those to be paid approved;
    those of workers to be reviewed, and assignments that were approved or rejected before, are
    left as they are.

    Parameters
    ----------
    batch
        The rows as they were downloaded.
    suggestions
        Of every worker the suggestion (pay, review, block) and the reason.
    out
        The file to write.

    Returns
    -------
    dict
        How many assignments were approved, rejected and left open.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from crowdsift.io.mturk_review import Batch, write_review
    >>> batch = Batch(("WorkerId", "Approve", "Reject"), [("A", None, None)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = write_review(batch, {"A": ("pay", "")}, pathlib.Path(folder, "review.csv"))
    ...     pathlib.Path(folder, "review.csv").read_text().splitlines()[1], done["approved"]
    ('A,x,', 1)
    """
    done = {"approved": 0, "rejected": 0, "open": 0}
    names = dict.fromkeys((*batch.names, _APPROVE, _REJECT))
    with (
        replace_file(Path(out)) as draft,
        draft.open("w", newline="", encoding="utf-8") as file,
    ):
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
