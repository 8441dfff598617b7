"""From a path, a pattern or a pipe to the files that DuckDB reads, and their columns."""

from __future__ import annotations

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.parts import INTEGERS, Part, partitions_of, scan
from crowdsift.io.records import count_records, opened
from crowdsift.io.temporary import TemporaryFolder
from crowdsift.io.text import (
    copy_stream,
    explain_json,
    guess_encoding,
    kind_of,
    read_header,
    recode,
)

__all__ = ["SAMPLE", "expanded", "inspected", "refuse_copies", "settled", "without_same"]

# The columns of larger JSON files are those of their first rows.
_LARGE, SAMPLE = 256_000_000, 20_000
_MIN_COPIED_ROWS = 10  # rows of files that are not equal by chance


def expanded(source: str) -> list[str]:
    """The files that a path or a pattern names."""
    path = os.path.expanduser(source)
    if os.path.isdir(path):
        raise InputError(
            f"a directory, not a file; to read the files in it write '{source.rstrip('/')}/*.csv'",
            source=source,
        )
    if os.path.exists(path):
        return [path]
    if glob.has_magic(path):
        found = sorted(each for each in glob.glob(path, recursive=True) if os.path.isfile(each))
        if found:
            return found
        raise InputError("no file matches this pattern", source=source)
    hint = "; download it first, or let the workers of a cluster read it: --engine dask"
    raise InputError(f"no such file{hint if '://' in source else ''}", source=source)


def without_same(paths: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the paths without those that are links to an earlier one, and a note about these."""
    own = {os.path.realpath(path): path for path in reversed(paths)}
    again = [path for path in paths if own[os.path.realpath(path)] != path]
    if not again:
        return paths, ()
    note = f"{again[0]} is the same file as {own[os.path.realpath(again[0])]} and is read once"
    more = f", and so are {len(again) - 1} more files" if len(again) > 1 else ""
    return [path for path in paths if path not in again], (note + more,)


def refuse_copies(parts: Sequence[Part], run: Callable[[Part, str], Any]) -> None:
    """Refuse files with the same content, whose votes would be counted twice.

    Files of few rows may be equal by chance; folders that give other columns tell files apart.
    """
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


def settled(
    path: str, folder: TemporaryFolder, *, partitions: bool, encoding: str = "utf-8"
) -> tuple[Part, str]:
    """Return a file that can be read again, under a name of ours, and a note on its encoding.

    A pipe (standard input, a FIFO, the shell's process substitution) is copied, and text in another
    encoding than UTF-8 is written again; `encoding` "" recognises Windows-1252.
    """
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
                f"{source}: not UTF-8, so it is read as Windows-1252 (cp1252), with the letters "
                f"{' '.join(letters)}; if these are wrong, name the encoding with --encoding "
                "(encoding=)"
            )
    if partitions:
        part.constant = partitions_of(os.path.abspath(path))
    return part, note


def is_parquet_file(path: str) -> bool:
    """Say whether a file begins as Parquet does."""
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _is_other_utf8(path: str, source: str) -> bool:
    """Say whether a file is UTF-8 with more than ASCII in it."""
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
    """The file with its columns and their types."""
    if part.kind == "csv":
        part.header = read_header(part.path, part.zipped, part.source)
        return part
    size = os.path.getsize(part.path) * (5 if part.zipped else 1)
    part.sampled = part.kind == "json" and size > _LARGE
    reading = scan(part, sample=SAMPLE if part.sampled else -1)
    rows = run(part, f"DESCRIBE SELECT * FROM {reading}").fetchall()
    part.types = {name: "BIGINT" if kind in INTEGERS else kind for name, kind, *_ in rows}
    if part.kind == "json" and list(part.types) == ["json"]:  # not one object per row
        raise explain_json(part.path, part.zipped, part.source, "it holds no rows")
    return part
