"""One file of votes as DuckDB reads it: what it is, its columns, and the SQL that scans it.

DuckDB is given a link in a folder of ours instead of the file's own path. So neither patterns
([, ?, *) nor names that are not UTF-8 nor folders such as weight=5/ can mean anything to it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crowdsift.io.database import literal, quoted
from crowdsift.votes.replies import BEGINNING, HASH, LONG, MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from crowdsift.io.text import Header

__all__ = [
    "INTEGERS",
    "Part",
    "condition_columns",
    "condition_scan",
    "field_of",
    "partitions_of",
    "scan",
    "scan_rows",
    "selected",
]

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BIGINT")
# A condition sees columns under their own names; ours must not be among them.
_OURS = "crowdsift {}"


@dataclass
class Part:
    """One file: the link to it, its name in messages, what it is, its columns and their types.

    `constant` are columns that the names of its folders give (worker=bob/), where these were
    asked for; `broken` the rows that are no records and why; `sampled` whether the columns are
    those of the first rows of a large file only; `numeric` the columns of text that a condition
    compares with numbers.
    """

    path: str
    source: str
    kind: str
    zipped: bool
    header: Header | None = None
    types: dict[str, str] | None = None
    constant: dict[str, str] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)
    sampled: bool = False
    numeric: set[str] = field(default_factory=set)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, those of folders last."""
        own = self.header.names if self.header else tuple(self.types or ())
        return (*own, *(name for name in self.constant if name not in own))

    def type_of(self, name: str) -> str:
        """The type of a column, for comparison with that of other files."""
        return (self.types or {}).get(name, "text")


def partitions_of(path: str) -> dict[str, str]:
    """The columns that folders named NAME=VALUE give.

    Examples
    --------
    >>> from crowdsift.io.parts import partitions_of
    >>> partitions_of("votes/worker=bob/day=2/part.csv")
    {'worker': 'bob', 'day': '2'}
    """
    folders = os.path.dirname(path).split(os.sep)
    pairs = (folder.partition("=") for folder in folders)
    return {name: value for name, equals, value in pairs if equals and name and value}


def scan(part: Part, *, numbered: bool = False, sample: int = -1) -> str:
    """The table function that reads a file with every column; of JSON, to learn its columns."""
    options = [literal(part.path), "hive_partitioning = false"]
    if part.kind == "parquet":
        options.append("binary_as_string = true")
        if numbered:
            options.append("file_row_number = true")
        return f"read_parquet({', '.join(options)})"
    if part.zipped:
        options.append("compression = 'gzip'")
    options += ["maximum_depth = 1", "map_inference_threshold = -1", f"sample_size = {sample}"]
    return f"read_json({', '.join(options)})"


def scan_rows(
    part: Part,
    names: Iterable[str],
    texts: Iterable[str] = (),
    late: Iterable[str] = (),
    longest: int = 2_000_000,
) -> str:
    """The table function that reads the rows of a file.

    JSON gives the columns named, each as the JSON it is; those of `texts` as text.
    """
    if part.kind == "parquet":
        return scan(part)
    options = [literal(part.path), "hive_partitioning = false"]
    if part.zipped:
        options.append("compression = 'gzip'")
    if part.header is None:
        plain = set(texts)
        own = [name for name in names if name in (part.types or {})]
        kinds = {name: "VARCHAR" if name in plain else "JSON" for name in (*own, *late)}
        listed = ", ".join(f"{literal(name)}: '{kind}'" for name, kind in kinds.items())
        return f"read_json({', '.join([*options, f'columns = {{{listed}}}'])})"
    listed = ", ".join(f"'f{place}': 'VARCHAR'" for place in range(len(part.header.names)))
    options += [
        f"columns = {{{listed}}}",
        f"delim = {literal(part.header.delimiter)}, max_line_size = {longest}",
        """header = true, auto_detect = false, quote = '"', escape = '"'""",
    ]
    return f"read_csv({', '.join(options)})"


def field_of(part: Part, name: str) -> str:
    """A column of a scan by its name, integers of any size as one type."""
    if part.header is not None and name in part.header.names:
        return f"f{part.header.names.index(name)}"
    if part.header is None and name in (part.types or {}):
        return quoted(name) + ("::BIGINT" if part.type_of(name) == "BIGINT" else "")
    return literal(part.constant[name])


def selected(
    part: Part,
    names: Sequence[str],
    reading: str,
    *,
    replies: Sequence[str] = (),
    prompts: Sequence[str] = (),
    condition: str = "",
    late: Sequence[str] = (),
) -> str:
    """Select the columns asked for, named c0, c1 and so on.

    Columns of `replies` and `prompts` are cut and named r0, r1 and so on; `kept` says which rows
    meet the condition, where there is one; l0, l1 and so on whether a late column has a value.
    """
    inner, outer = [], []
    for place, name in enumerate(names):
        inner.append(f"{field_of(part, name)} AS {quoted(_OURS.format(f'c{place}'))}")
        outer.append(f"{quoted(_OURS.format(f'c{place}'))} AS c{place}")
    for place, name in enumerate((*replies, *prompts)):
        given, ours = field_of(part, name), quoted(_OURS.format(f"r{place}"))
        if part.kind == "parquet" and part.type_of(name) != "VARCHAR":
            given = f"to_json({given})::VARCHAR"
        elif part.kind == "json" and name in names:  # read as JSON, to be written again
            given = f"({given} ->> '$')"
        inner.append(f"{_reply(given) if name in replies else given} AS {ours}")
        outer.append(f"{_cut(ours)} AS r{place}")
    if condition:
        inner += condition_scan(part)
        # The condition may end in a comment, so the bracket stands on a line of its own.
        outer.append(f"coalesce(({condition}\n)::BOOLEAN, false) AS kept")
    for place, name in enumerate(late):
        inner.append(f"{quoted(name)} IS NOT NULL AS {quoted(_OURS.format(f'l{place}'))}")
        outer.append(f"{quoted(_OURS.format(f'l{place}'))} AS l{place}")
    return f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM {reading})"


def condition_scan(part: Part) -> list[str]:
    """Every column under its own name, for a condition; those of text files as text."""
    columns = condition_columns(part)
    for name in part.numeric & set(columns):
        columns[name] = f"TRY_CAST({columns[name]} AS DOUBLE)"
    return [f"{given} AS {quoted(name)}" for name, given in columns.items()]


def condition_columns(part: Part) -> dict[str, str]:
    """The columns that a condition may name, in SQL.

    Names that differ only in case are one to SQL; the first counts.
    """
    columns: dict[str, str] = {}
    folded: set[str] = set()
    for name in part.names:
        if not name or name.casefold() in folded:
            continue
        folded.add(name.casefold())
        given = field_of(part, name)
        if part.kind == "json" and name in (part.types or {}):
            given = f"({given} ->> '$')"
        columns[name] = given
    return columns


def _reply(text: str) -> str:
    """The text of a reply, in SQL; `crowdsift.votes.replies` says the same in Python.

    A list of chat messages is the content of its last message, which must be the assistant's.
    """
    chat = f"starts_with({text}, '[') AND regexp_matches({text}, '^\\[\\s*(\\{{|\\]$)')"
    last = f"CASE WHEN {text} ->> '$[#-1].role' = 'assistant' THEN {text} ->> '$[#-1].content' END"
    return f"CASE WHEN {chat} AND json_valid({text}) THEN {last} ELSE {text} END"


def _cut(text: str) -> str:
    """A long text as its beginning and its hash, in SQL; blanks in it are made plain later."""
    # Bytes are known at once, characters must be counted; one has at most four bytes.
    return (
        f"CASE WHEN strlen({text}) > {4 * LONG} OR (strlen({text}) > {LONG} AND length({text}) > "
        f"{LONG}) THEN "
        f"left({text}, {BEGINNING}) || '{MARK}' || left(md5({text}), {HASH}) ELSE {text} END"
    )
