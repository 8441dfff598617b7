"""From a path, a pattern or a pipe to the files that DuckDB reads, and their columns."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.parts import INTEGERS, Part, partitions_of, scan
from crowdsift.io.temporary import TemporaryFolder
from crowdsift.io.text import copy_stream, explain_json, kind_of, read_header

__all__ = ["SAMPLE", "expanded", "inspected", "settled"]

# The columns of larger JSON files are those of their first rows.
_LARGE, SAMPLE = 256_000_000, 20_000


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


def settled(path: str, folder: TemporaryFolder, *, partitions: bool) -> Part:
    """A file that can be read again and again, under a name of ours.

    A pipe (standard input, a FIFO, the shell's process substitution) is copied.
    """
    source = "standard input" if path == "-" else path
    source = os.fsencode(source).decode("utf-8", "backslashreplace")
    ours = folder.file()
    if path != "-" and os.path.isfile(path):
        os.symlink(os.path.abspath(path), ours)
    else:
        with open(ours, "wb") as out:
            copy_stream(path, out, source)
    part = Part(ours, source, *kind_of(ours, source, source))
    if partitions:
        part.constant = partitions_of(os.path.abspath(path))
    return part


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
