"""Loads the rows of one file into the table of votes, and makes sure that all of them came."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.database import memory_limit
from crowdsift.io.opening import SAMPLE
from crowdsift.io.parts import Part, scan, scan_rows, selected
from crowdsift.io.records import count_records
from crowdsift.io.resources import memory_is_limited, require_disk, require_memory
from crowdsift.io.temporary import TemporaryFolder
from crowdsift.io.text import repair

__all__ = ["load_part", "require_room"]

# Bytes a row: of the codes and of sorting them by worker, at the peak; of the table with codes;
# and of text in a table, for a byte of it in the file.
_SORTING, _CODED, _TEXT = 64, 24, 2.5
# Columns that would change what votes mean, and may not first appear far down in a large file.
_LATE = (
    *("winner", "loser", "left", "right", "first", "second", "outcome", "worker", "weight"),
    *("prompt", "annotator", "annotator_id", "worker_id", "judge"),
)

Run = Callable[[Part, str], Any]


def require_room(parts: Sequence[Part], run: Run) -> None:
    """Refuse votes that will not fit into memory, or whose text will not fit onto the disk.

    Where the user limits the memory, the records of CSV files are counted: a gzip file may hold
    a thousand times its size.
    """
    rows, text = 0, 0.0
    for part in parts:
        if part.kind == "parquet":
            rows += run(part, f"SELECT count(*) FROM {scan(part)}").fetchone()[0]
        else:  # gzip holds about five times its size; a vote is seldom longer than 40 bytes
            size = os.path.getsize(part.path) * (5 if part.zipped else 1)
            longest = 400 if part.sampled else 40  # a large JSON file holds long texts
            held = size // longest
            if part.kind == "csv" and memory_is_limited():
                held = count_records(part.path, part.zipped, part.source, quotes=True)
            rows, text = rows + held, text + _TEXT * size / (longest // 40)
    what = f"reading about {rows:,} votes"
    require_memory(_SORTING * rows, what)
    limit = memory_limit()
    if limit is not None:
        require_disk(max(0.0, text + _CODED * rows - limit), what)


def load_part(
    part: Part,
    names: Sequence[str],
    into: str,
    run: Run,
    folder: TemporaryFolder,
    *,
    replies: Sequence[str] = (),
    prompts: Sequence[str] = (),
    condition: str = "",
    skip_bad: bool = False,
) -> None:
    """Load the columns of a file; `into` is the head of the query that takes them.

    The records of a text file are counted apart, and what DuckDB read is compared with that.
    """
    late = [name for name in _LATE if name not in part.names] if part.sampled else []
    texts = [name for name in (*replies, *prompts) if name not in names]
    every = part.names if condition else (*names, *texts)  # a condition may name any column
    reading = scan_rows(part, dict.fromkeys(every), texts, late)
    query = selected(
        part, names, reading, replies=replies, prompts=prompts, condition=condition, late=late
    )
    if part.kind == "parquet":
        run(part, f"{into} {query}")
        return
    with ThreadPoolExecutor(1) as beside:
        counting = beside.submit(_records, part)
        if part.header is None:
            run(part, f"{into} {query}")
            counting.result()
            _refuse_late(part, late, run)
            return
        if _plainly(part, f"{into} {query}", run, counting.result):
            return
    copy = folder.file(".csv")
    expected, part.broken = repair(
        part.path, part.zipped, part.header, part.source, copy, skip_bad=skip_bad
    )
    part.path, part.zipped = copy, False
    reading = scan_rows(part, names, longest=1 << 28)
    query = selected(part, names, reading, replies=replies, prompts=prompts, condition=condition)
    rows = run(part, f"{into} {query}").fetchone()[0]
    if rows != expected:
        raise _lost(part, rows, expected)


def _plainly(part: Part, query: str, run: Run, counted: Callable[[], int]) -> bool:
    """Whether DuckDB read all records of a CSV file as it is; else nothing of it is kept."""
    assert part.header is not None
    if part.header.skip:  # DuckDB would take a blank line at the top for the header
        counted()
        return False
    try:
        rows = run(part, query).fetchone()[0]
    except InputError:
        counted()  # a broken gzip file says so itself
        return False
    if rows == counted():
        return True
    start = run(part, "SELECT count(*) FROM votes").fetchone()[0] - rows
    undo = f"DELETE FROM votes WHERE rowid >= {start}" if start else "DROP TABLE votes"
    run(part, undo)
    return False


def _records(part: Part) -> int:
    """Count the records of a CSV file; of gzipped JSON only check that it came whole."""
    if part.kind == "csv":
        return count_records(part.path, part.zipped, part.source, quotes=True) - 1
    return count_records(part.path, True, part.source, quotes=False) if part.zipped else 0


def _refuse_late(part: Part, late: Sequence[str], run: Run) -> None:
    """Refuse columns that appear only after the rows from which types were inferred."""
    if not late:
        return
    found = ", ".join(f"bool_or(l{place})" for place in range(len(late)))
    there = run(part, f"SELECT {found} FROM votes").fetchone()
    for name, is_there in zip(late, there, strict=True):
        if is_there:
            raise InputError(
                f"the column {name!r} is not in the first {SAMPLE:,} rows but further down; write "
                "it in every row (null where there is none)",
                source=part.source,
            )


def _lost(part: Part, rows: int, expected: int) -> InputError:
    return InputError(
        f"{expected:,} rows are in the file and {rows:,} could be read; look for quotes that are "
        "not closed, or write the file as Parquet",
        source=part.source,
    )
