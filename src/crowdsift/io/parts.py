"""One file of votes read by DuckDB: find it, inspect it, scan it by SQL, load it.

DuckDB gets a link in a private folder instead of the file's path. So neither patterns ([, ?, *), nor names that are
not UTF-8, nor folders such as weight=5/ have a special meaning.
"""

import glob
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.files import TemporaryFolder, is_fit_folder
from crowdsift.io.options import ReadOptions
from crowdsift.io.resources import memory_is_limited, require_disk, require_memory
from crowdsift.io.sql import literal, memory_limit, quoted
from crowdsift.io.text import (
    BOM,
    Header,
    copy_stream,
    count_records,
    guess_encoding,
    kind_of,
    opened,
    read_header,
    recode,
    repair,
)
from crowdsift.votes.replies import BEGINNING, HASH, LONG, MARK

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "BIGINT")
# A condition sees columns under their own names, so ours must differ from these.
_OURS = "crowdsift {}"


@dataclass
class Part:
    """One file: its link, its name in messages, its kind, its columns and their types.

    `constant` are columns from names of folders (worker=bob/); `broken` the rows that are no records, with reasons;
    `sampled` says that the columns come from the first rows of a large file; `numeric` are the columns of text that a
    condition compares with numbers.
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
        """Return the columns; columns from names of folders come last."""
        own = self.header.names if self.header else tuple(self.types or ())
        return (*own, *(name for name in self.constant if name not in own))

    def type_of(self, name: str) -> str:
        """Return the type of a column, to compare it with its type in other files."""
        return (self.types or {}).get(name, "text")


_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")
# Names of files that do not identify a worker.
_NO_NAMES = ("result", "results", "annotations", "verdicts", "judgments", "outputs", "votes", "data")


def path_workers(paths: Sequence[str], pattern: bool | str) -> list[dict[str, str] | None]:
    """Return the columns that a pattern finds in paths, None for paths that do not match."""
    # A pattern is matched at the end of a path; {worker} and other names in braces are columns, * stands for any text
    # within a name. True uses the parts that differ between paths: folders or names.
    paths = [os.path.abspath(path).replace(os.sep, "/") for path in paths]
    if isinstance(pattern, str):
        parts = re.split(r"(\{\w+\}|\*)", pattern.replace(os.sep, "/").removeprefix("./"))
        groups = {"*": "[^/]*", "{worker}": "(?P<worker>.+?)"}
        found = "".join(
            groups.get(part) or (f"(?P<{part[1:-1]}>[^/]+)" if part[:1] == "{" else re.escape(part)) for part in parts
        )
        matches = [re.fullmatch(f"(?:.*/)?{found.removeprefix('/')}", path) for path in paths]
        return [match and match.groupdict() for match in matches]
    names = [path.removesuffix(".gz").rsplit(".", 1)[0].split("/") for path in paths]
    if len(names) == 1:
        return [{"worker": names[0][-2 if names[0][-1].casefold() in _NO_NAMES else -1]}]
    shortest = min(map(len, names)) - 1
    start = next((i for i in range(shortest) if len({name[i] for name in names}) > 1), shortest)
    end = next((i for i in range(shortest) if len({n[-1 - i] for n in names}) > 1), shortest)
    return [{"worker": "/".join(name[start : len(name) - end]) or name[-1]} for name in names]


def scan(part: Part, *, numbered: bool = False, sample: int = -1) -> str:
    """Return the table function that reads every column; for JSON, to find its columns."""
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
    part: Part, names: Iterable[str], texts: Iterable[str] = (), late: Iterable[str] = (), longest: int = 2_000_000
) -> str:
    """Return the table function that reads the rows of a file."""
    # For JSON it returns the named columns, each as JSON text; those in `texts` as plain text.
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
    """Return a column of a scan by its name, integers of any size as one type."""
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
    """Return the SELECT of the given columns, named c0, c1 and so on."""
    # Columns of `replies` and `prompts` are cut and named r0, r1 and so on; `kept` says which rows meet the condition,
    # if there is one; l0, l1 and so on whether a late column has a value.
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
        columns = condition_columns(part)  # those of text files as text
        for name in part.numeric & set(columns):
            columns[name] = f"TRY_CAST({columns[name]} AS DOUBLE)"
        inner += [f"{given} AS {quoted(name)}" for name, given in columns.items()]
        # The condition may end in a comment, so the bracket stands on a separate line.
        outer.append(f"coalesce(({condition}\n)::BOOLEAN, false) AS kept")
    for place, name in enumerate(late):
        inner.append(f"{quoted(name)} IS NOT NULL AS {quoted(_OURS.format(f'l{place}'))}")
        outer.append(f"{quoted(_OURS.format(f'l{place}'))} AS l{place}")
    return f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM {reading})"


def condition_columns(part: Part) -> dict[str, str]:
    """Return the columns that a condition may name, in SQL."""
    # Names that differ only in case are equal in SQL; the first counts.
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
    """Return the text of a reply, in SQL; `crowdsift.votes.replies` does the same in Python."""
    # A list of chat messages is the content of its last message, which must be the assistant's.
    chat = f"starts_with({text}, '[') AND regexp_matches({text}, '^\\[\\s*(\\{{|\\]$)')"
    last = f"CASE WHEN {text} ->> '$[#-1].role' = 'assistant' THEN {text} ->> '$[#-1].content' END"
    return f"CASE WHEN {chat} AND json_valid({text}) THEN {last} ELSE {text} END"


def _cut(text: str) -> str:
    """Return SQL that cuts a long text to its beginning and its hash; its blanks are replaced later."""
    # The number of bytes is known, characters must be counted; a character has at most four bytes.
    return (
        f"CASE WHEN strlen({text}) > {4 * LONG} OR (strlen({text}) > {LONG} AND length({text}) > {LONG}) THEN "
        f"left({text}, {BEGINNING}) || '{MARK}' || left(md5({text}), {HASH}) ELSE {text} END"
    )


# For larger JSON files the columns are those of the first rows.
_LARGE, SAMPLE = 256_000_000, 20_000
_MIN_COPIED_ROWS = 10  # rows of files that are not equal by chance


def expanded(source: str) -> list[str]:
    """Return the files that a path or a pattern names."""
    path = os.path.expanduser(source)
    if os.path.isdir(path):
        return _files_in(path, source)
    if os.path.exists(path):
        return [path]
    if glob.has_magic(path):
        found = sorted(each for each in glob.glob(path, recursive=True) if os.path.isfile(each))
        if found:
            return found
        raise InputError("no file matches this pattern", source=source)
    hint = "; download it first, or let the workers of a cluster read it: --engine dask"
    raise InputError(f"no such file{hint if '://' in source else ''}", source=source)


def _files_in(folder: str, source: str) -> list[str]:
    """Return the files of votes in a folder and those below it, hidden ones left out."""
    if is_fit_folder(folder):
        raise InputError("the folder of a fit, not of votes; name the files of votes", source=source)
    found = [
        os.path.join(where, name)
        for where, _, names in os.walk(folder, followlinks=False)
        for name in names
        if name.lower().removesuffix(".gz").endswith(_SUFFIXES)
        and not any(part.startswith(".") for part in os.path.relpath(where, folder).split(os.sep) if part != ".")
        and not name.startswith(".")
    ]
    if not found:
        raise InputError(f"a folder without files of votes ({', '.join(_SUFFIXES)}, also .gz)", source=source)
    return sorted(found)


def without_same(paths: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the paths without links to earlier ones, and a note about these."""
    own = {os.path.realpath(path): path for path in reversed(paths)}
    again = [path for path in paths if own[os.path.realpath(path)] != path]
    if not again:
        return paths, ()
    note = f"{again[0]} is the same file as {own[os.path.realpath(again[0])]} and is read once"
    more = f", and so are {len(again) - 1} more files" if len(again) > 1 else ""
    return [path for path in paths if path not in again], (note + more,)


def refuse_copies(parts: Sequence[Part], run: Callable[[Part, str], Any]) -> None:
    """Raise an error for files with equal content, whose votes would count twice."""
    # Files with few rows may be equal by chance; folders that give different columns distinguish files.
    sizes = Counter(os.path.getsize(part.path) for part in parts)
    seen: dict[tuple[bytes, str], Part] = {}
    for part in parts:
        if sizes[os.path.getsize(part.path)] == 1:
            continue
        with open(part.path, "rb") as file:
            key = (hashlib.file_digest(file, "sha256").digest(), str(part.constant))
        other = seen.setdefault(key, part)
        if other is not part and _rows(part, run) >= _MIN_COPIED_ROWS:
            raise InputError(
                f"the same content as {other.source}, so its votes would be counted twice; remove "
                "one of the files, or choose a pattern that matches only one",
                source=part.source,
            )


def _rows(part: Part, run: Callable[[Part, str], Any]) -> int:
    if part.kind == "parquet":
        return int(run(part, f"SELECT count(*) FROM {scan(part)}").fetchone()[0])
    return count_records(part.path, part.zipped, part.source, quotes=part.kind == "csv") - 1


def settled(path: str, folder: TemporaryFolder, options: ReadOptions) -> tuple[Part, str]:
    """Return a file that can be read again, under a name of ours, and a note on its encoding."""
    # A pipe (standard input, a FIFO, the shell's process substitution) is copied, and text in another encoding than
    # UTF-8 is written again; the encoding "" recognises Windows-1252.
    encoding = options.encoding
    source = "standard input" if path == "-" else path
    source = os.fsencode(source).decode("utf-8", "backslashreplace")
    ours = folder.file()
    if path != "-" and os.path.isfile(path):
        os.symlink(os.path.abspath(path), ours)
    else:
        with open(ours, "wb") as out:
            copy_stream(path, out, source)
    note = ""
    if encoding not in ("", "utf-8") and not is_parquet_file(ours):
        if _is_other_utf8(ours, source):
            note = f"{source}: valid UTF-8, but read as {encoding}, as --encoding says"
        given, ours = ours, folder.file()
        recode(given, source, encoding, ours)
    part = Part(ours, source, *kind_of(ours, source, source))
    if not encoding and part.kind != "parquet":
        found, letters = guess_encoding(part.path, part.zipped, source)
        if found != "utf-8":
            part.path, part.zipped = folder.file(), False
            recode(ours, source, found, part.path)
            note = (
                f"{source}: not UTF-8, so it is read as Windows-1252 (cp1252), with the letters {' '.join(letters)}; "
                "if these are wrong, name the encoding with --encoding (encoding=)"
            )
    with opened(part.path, part.zipped, source) as stream:
        is_marked = part.kind == "json" and stream.read(len(BOM)) == BOM
    if is_marked:  # DuckDB refuses a byte order mark in JSON
        given, part.path, part.zipped = part.path, folder.file(), False
        recode(given, source, "utf-8-sig", part.path)
    if options.partitions:
        folders = os.path.dirname(os.path.abspath(path)).split(os.sep)
        pairs = (folder.partition("=") for folder in folders)
        part.constant = {name: value for name, equals, value in pairs if equals and name and value}
    return part, note


def is_parquet_file(path: str) -> bool:
    """Return whether a file begins as Parquet does."""
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _is_other_utf8(path: str, source: str) -> bool:
    """Return whether a file is UTF-8 and not plain ASCII."""
    with opened(path, False, source) as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    with opened(path, zipped, source) as stream:
        head = stream.read(1 << 20)
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.end >= len(head) and not head[: error.start].isascii()
    return not head.isascii()


def inspected(part: Part, run: Callable[[Part, str], Any]) -> Part:
    """Return the file with its columns and their types."""
    if part.kind == "csv":
        part.header = read_header(part.path, part.zipped, part.source)
        return part
    size = os.path.getsize(part.path) * (5 if part.zipped else 1)
    part.sampled = part.kind == "json" and size > _LARGE
    reading = scan(part, sample=SAMPLE if part.sampled else -1)
    rows = run(part, f"DESCRIBE SELECT * FROM {reading}").fetchall()
    part.types = {name: "BIGINT" if kind in INTEGERS else kind for name, kind, *_ in rows}
    return part


# Bytes per row: of the codes and of sorting them by worker, at the peak; of the table with codes; and of text in a
# table, per byte in the file.
_SORTING, _CODED, _TEXT = 64, 24, 2.5
# Columns that change the meaning of votes, and must not first appear late in a large file.
_LATE = (
    *("winner", "loser", "left", "right", "first", "second", "outcome", "worker", "weight"),
    *("prompt", "annotator", "annotator_id", "worker_id", "judge"),
)

Run = Callable[[Part, str], Any]


def require_room(parts: Sequence[Part], run: Run) -> None:
    """Raise an error for votes that do not fit into memory, or whose text does not fit on disk."""
    # If the user limits the memory, the records of CSV files are counted: a gzip file may contain a thousand times its
    # size.
    rows, text = 0, 0.0
    for part in parts:
        if part.kind == "parquet":
            rows += run(part, f"SELECT count(*) FROM {scan(part)}").fetchone()[0]
        else:  # gzip expands about five times; a vote is seldom longer than 40 bytes
            size = os.path.getsize(part.path) * (5 if part.zipped else 1)
            longest = 400 if part.sampled else 40  # a large JSON file contains long texts
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
    """Load the columns of a file; `into` is the head of the query that receives them."""
    # The records of a text file are counted separately, and the count is compared with DuckDB's.
    late = [name for name in _LATE if name not in part.names] if part.sampled else []
    texts = [name for name in (*replies, *prompts) if name not in names]
    every = part.names if condition else (*names, *texts)  # a condition may name any column
    reading = scan_rows(part, dict.fromkeys(every), texts, late)
    query = selected(part, names, reading, replies=replies, prompts=prompts, condition=condition, late=late)
    if part.kind == "parquet":
        run(part, f"{into} {query}")
        return
    with ThreadPoolExecutor(1) as beside:
        counting = beside.submit(_records, part)
        if part.header is None:
            run(part, f"{into} {query}")
            counting.result()
            if late:
                _refuse_late(part, late, run)
            return
        if _plainly(part, f"{into} {query}", run, counting.result):
            return
    copy = folder.file(".csv")
    expected, part.broken = repair(part.path, part.zipped, part.header, part.source, copy, skip_bad=skip_bad)
    part.path, part.zipped = copy, False
    reading = scan_rows(part, names, longest=1 << 28)
    query = selected(part, names, reading, replies=replies, prompts=prompts, condition=condition)
    rows = run(part, f"{into} {query}").fetchone()[0]
    if rows != expected:
        raise InputError(
            f"{expected:,} rows are in the file and {rows:,} could be read; look for quotes that "
            "are not closed, or write the file as Parquet",
            source=part.source,
        )


def _plainly(part: Part, query: str, run: Run, counted: Callable[[], int]) -> bool:
    """Load a CSV file by DuckDB; return False, without keeping any rows, if it did not read all records."""
    assert part.header is not None
    if part.header.skip:  # DuckDB would take a blank line at the top for the header
        counted()
        return False
    try:
        rows = run(part, query).fetchone()[0]
    except InputError:
        counted()  # raises an error for a broken gzip file
        return False
    if rows == counted():
        return True
    start = run(part, "SELECT count(*) FROM votes").fetchone()[0] - rows
    undo = f"DELETE FROM votes WHERE rowid >= {start}" if start else "DROP TABLE votes"
    run(part, undo)
    return False


def _records(part: Part) -> int:
    if part.kind == "csv":
        return count_records(part.path, part.zipped, part.source, quotes=True) - 1
    return count_records(part.path, True, part.source, quotes=False) if part.zipped else 0


def _refuse_late(part: Part, late: Sequence[str], run: Run) -> None:
    """Raise an error for columns that appear only after the rows from which types were inferred."""
    found = ", ".join(f"bool_or(l{place})" for place in range(len(late)))
    there = run(part, f"SELECT {found} FROM votes").fetchone()
    for name, is_there in zip(late, there, strict=True):
        if is_there:
            raise InputError(
                f"the column {name!r} is not in the first {SAMPLE:,} rows but further down; write "
                "it in every row (null where there is none)",
                source=part.source,
            )
