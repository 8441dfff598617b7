"""A Mechanical Turk batch on its way back: times of work, and Approve or Reject filled in."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.files import replace_file

__all__ = ["Reviewed", "median_seconds", "write_review"]

_WORKER, _SECONDS, _STATUS = "WorkerId", "WorkTimeInSeconds", "AssignmentStatus"
_APPROVE, _REJECT = "Approve", "Reject"


class Reviewed(dict[str, int]):
    """How many assignments were approved, rejected and left open."""


def median_seconds(batch: str | Path) -> dict[str, float] | None:
    r"""The median time of every worker's assignments; None for a file without these columns.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from crowdsift.io.mturk_review import median_seconds
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     batch = pathlib.Path(folder, "batch.csv")
    ...     _ = batch.write_text("WorkerId,WorkTimeInSeconds\nA,4\nA,6\nB,9\n")
    ...     median_seconds(batch)
    {'A': 5.0, 'B': 9.0}
    """
    path = Path(batch)
    if path.suffix.lower() != ".csv" or not path.is_file():
        return None
    times: dict[str, list[float]] = {}
    with _rows(path) as (header, rows):
        if _WORKER not in header or _SECONDS not in header:
            return None
        for row in rows:
            try:
                times.setdefault(row[_WORKER], []).append(float(row[_SECONDS]))
            except (TypeError, ValueError):
                continue  # no time is known of this one
    return {worker: float(statistics.median(each)) for worker, each in times.items()}


def write_review(
    batch: str | Path, suggestions: Mapping[Any, tuple[str, str]], out: str | Path
) -> Reviewed:
    r"""Write the batch with Approve or Reject filled in, for upload.

    Assignments of workers to be blocked are rejected with the reason, those to be paid approved;
    those of workers to be reviewed, and assignments that were approved or rejected before, are
    left as they are.

    Parameters
    ----------
    batch
        The file as it was downloaded.
    suggestions
        Of every worker the suggestion (pay, review, block) and the reason.
    out
        The file to write.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from crowdsift.io.mturk_review import write_review
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     batch, out = (pathlib.Path(folder, name) for name in ("batch.csv", "review.csv"))
    ...     _ = batch.write_text("WorkerId,AssignmentStatus,Approve,Reject\nA,Submitted,,\n")
    ...     done = write_review(batch, {"A": ("pay", "")}, out)
    ...     out.read_text().splitlines()[1]
    'A,Submitted,x,'
    """
    done = Reviewed(approved=0, rejected=0, open=0)
    with (
        _rows(Path(batch)) as (header, rows),
        replace_file(Path(out)) as draft,
        draft.open("w", newline="", encoding="utf-8") as file,
    ):
        if _WORKER not in header:
            raise InputError(f"no column {_WORKER}: not the results of a batch", source=str(batch))
        names = [*header, *(name for name in (_APPROVE, _REJECT) if name not in header)]
        writer = csv.DictWriter(file, names, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for row in rows:
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


@contextmanager
def _rows(path: Path) -> Iterator[tuple[list[str], Iterator[dict[str, str]]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            yield list(reader.fieldnames or ()), iter(reader)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(path)) from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"not a CSV file: {error}", source=str(path)) from None
