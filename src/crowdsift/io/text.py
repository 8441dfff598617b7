"""Text files of votes: what they are, their header, and where exactly they are broken.

DuckDB reads the rows; this module looks at the first bytes before it does, and finds the first
bad row after it refused.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from crowdsift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Header", "copy_stream", "explain_json", "kind_of", "read_header", "repair"]

_DELIMITERS = ",\t;|"
_HEAD = 1 << 20  # a header longer than this is not a header

_SIGNATURES = {  # not text, but worth a name in the message
    b"PK\x03\x04": "a zip archive or an Excel workbook; unpack it or save it as CSV",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%PDF": "a PDF document",
    b"BZh": "compressed with bzip2; decompress it, or use gzip",
    b"\xfd7zXZ": "compressed with xz; decompress it, or use gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; decompress it, or use gzip",
    b"SQLite format 3": "an SQLite database; write the votes as CSV or Parquet",
    b"\xd0\xcf\x11\xe0": "an Office document; save it as CSV",
    b"ARROW1": "an Arrow file; write it as Parquet, or pass the table from Python",
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Header:
    """The first record of a delimited file: the names, what parts them, blank lines before."""

    names: tuple[str, ...]
    delimiter: str
    skip: int


@contextmanager
def _opened(path: str, zipped: bool, source: str) -> Iterator[IO[bytes]]:
    """Open the file's bytes, unpacked; what can go wrong on the way is an `InputError`."""
    try:
        with open(path, "rb") as raw:
            yield gzip.GzipFile(fileobj=raw) if zipped else raw  # type: ignore[misc]
    except (EOFError, gzip.BadGzipFile):
        raise InputError("a broken gzip file; fetch or write it again", source=source) from None
    except PermissionError:
        raise InputError("no permission to read this file", source=source) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"the file cannot be read ({reason})", source=source) from None


def copy_stream(path: str, out: IO[bytes], source: str) -> None:
    """Copy what comes through a pipe, '-' being standard input, to a file."""
    if path == "-":
        shutil.copyfileobj(sys.stdin.buffer, out)
        return
    with _opened(path, False, source) as stream:
        shutil.copyfileobj(stream, out)


def kind_of(path: str, name: str, source: str) -> tuple[str, bool]:
    """Say what a file is, 'csv', 'json' or 'parquet', and whether it is gzipped.

    The content decides; the file's name only between CSV and JSON.
    """
    with _opened(path, False, source) as stream:
        head = stream.read(4)
    if head == b"PAR1":
        return "parquet", False
    zipped = head[:2] == b"\x1f\x8b"
    with _opened(path, zipped, source) as stream:
        head = stream.read(_HEAD)
    _refuse_binary(head, source)
    start = head.removeprefix(_BOM).lstrip()
    if not start:
        raise InputError("the file is empty; it needs a header and one row a vote", source=source)
    stem = name.lower().removesuffix(".gz")
    if stem.endswith((".csv", ".tsv")):
        return "csv", zipped
    if stem.endswith((".json", ".jsonl", ".ndjson")) or start[:1] in b"{[":
        if head.startswith(_BOM):
            raise InputError(
                "JSON with a byte order mark; save it as UTF-8 without one", source=source
            )
        if start[:1] == b"[":
            _refuse_cut(path, zipped, source)
        return "json", zipped
    return "csv", zipped


def _refuse_cut(path: str, zipped: bool, source: str) -> None:
    """Raise if a JSON list does not end, which DuckDB reads as if it did."""
    end = b""
    with _opened(path, zipped, source) as stream:
        if not zipped:
            stream.seek(max(os.path.getsize(path) - _HEAD, 0))
        while chunk := stream.read(_HEAD):
            end = (end + chunk).rstrip()[-1:]
    if end != b"]":
        raise InputError(
            "not JSON: the list does not end with ']'; the file may be cut off", source=source
        )


def _refuse_binary(head: bytes, source: str) -> None:
    if head.startswith(_UTF16):
        raise InputError("UTF-16 text; save the file as UTF-8", source=source)
    for signature, meaning in _SIGNATURES.items():
        if head.startswith(signature):
            raise InputError(f"not a text file but {meaning}", source=source)
    if head.startswith(b"PAR1"):
        raise InputError("a gzipped Parquet file; unpack it (gunzip)", source=source)
    if b"\0" in head:
        raise InputError(
            "not a text file (it has zero bytes); votes are read from CSV, TSV, JSON and Parquet",
            source=source,
        )


def _refuse_encoding(text: str, source: str, row: int | None) -> None:
    """Raise if `text`, decoded with 'surrogateescape', was not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        where = "" if row else " (in the header)"
        raise InputError(
            f"not UTF-8 text{where}; save the file as UTF-8 (it may be Latin-1 or Windows-1252)",
            source=source,
            row=row,
        ) from None


def _first_record(text: str) -> tuple[str, int]:
    """Return the first record that is not blank, and the number of lines before it."""
    skip, start, quoted = 0, 0, False
    for place, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif char in "\r\n" and not quoted:
            if text[start:place].strip():
                return text[start:place], skip
            skip += text[place : place + 2] != "\r\n"  # such a line end is counted at its \n
            start = place + 1
    return text[start:], skip


def _delimiter(record: str) -> str:
    """Take the most frequent delimiter outside quotes; the earlier of _DELIMITERS on a draw."""
    outside = "".join(record.split('"')[::2])
    return max(_DELIMITERS, key=outside.count)


def read_header(path: str, zipped: bool, source: str) -> Header:
    """Read the header of a delimited file; names without surrounding blanks, none twice."""
    with _opened(path, zipped, source) as stream:
        text = stream.read(_HEAD).decode("utf-8-sig", "surrogateescape")
    record, skip = _first_record(text)
    _refuse_encoding(record, source, None)
    delimiter = _delimiter(record)
    try:
        fields = next(csv.reader(io.StringIO(record, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"the header is not CSV ({error})", source=source) from None
    names = tuple(name.strip() for name in fields)
    for name in names:
        if name and names.count(name) > 1:
            raise InputError(
                f"the header names the column {name!r} twice; rename or remove one",
                source=source,
            )
    return Header(names, delimiter, skip)


def repair(path: str, zipped: bool, header: Header, source: str) -> str:
    """Copy a delimited file that DuckDB refused, or raise the error of its first bad row.

    What is refused without being wrong, such as lines that end now in LF and now in CRLF, is
    written again in one form. Slow, and run only after a refusal.
    """
    handle, copy = tempfile.mkstemp(prefix="crowdsift-", suffix=".csv")
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with (
            os.fdopen(handle, "w", encoding="utf-8", newline="") as out,
            _opened(path, zipped, source) as stream,
        ):
            writer = csv.writer(out, delimiter=header.delimiter, quoting=csv.QUOTE_ALL)
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
            writer.writerow(header.names)
            writer.writerows(_checked_records(text, header, source))
    except BaseException:
        os.unlink(copy)
        raise
    finally:
        csv.field_size_limit(limit)
    return copy


def _checked_records(text: IO[str], header: Header, source: str) -> Iterator[list[str]]:
    width, row = len(header.names), -1
    records = csv.reader(text, delimiter=header.delimiter, strict=True)
    try:
        for record in records:
            if not any(field.strip() for field in record) and len(record) < 2:
                continue  # a blank line
            row += 1
            _refuse_encoding("".join(record), source, row or None)
            if len(record) == width + 1 and not record[-1]:
                record.pop()  # one delimiter too many at the end of a line is harmless
            if len(record) != width:
                raise InputError(
                    f"{len(record)} field{'' if len(record) == 1 else 's'} where the header has "
                    f"{width}; a field that contains {header.delimiter!r}, quotes or a line "
                    'break must be in quotes ("...")',
                    source=source,
                    row=row,
                )
            if row:
                yield record
    except csv.Error as error:
        raise InputError(
            f'wrong quotes ({error}); a quote inside a quoted field is written twice ("")',
            source=source,
            row=max(row + 1, 1),
        ) from None


def explain_json(path: str, zipped: bool, source: str, reason: str) -> InputError:
    """Make the error for a JSON file that DuckDB refused, with its first bad row."""
    with _opened(path, zipped, source) as stream:
        text = io.TextIOWrapper(stream, "utf-8", errors="surrogateescape")
        if text.read(_HEAD).lstrip().startswith("["):
            text.seek(0)
            return _explain_array(text.read(), source, reason)
        text.seek(0)
        for row, line in enumerate((line for line in text if line.strip()), start=1):
            try:
                _refuse_encoding(line, source, row)
                fault = "" if isinstance(json.loads(line), dict) else "not an object"
            except InputError as error:
                return error
            except json.JSONDecodeError as error:
                fault = f"not JSON ({error.msg.lower()})"
            if fault:
                return InputError(
                    f"{fault}; every line needs one object such as "
                    '{"winner": "a", "loser": "b", "worker": "w"}',
                    source=source,
                    row=row,
                )
    return InputError(f"the file cannot be read as JSON: {reason}", source=source)


def _explain_array(text: str, source: str, reason: str) -> InputError:
    try:
        _refuse_encoding(text, source, None)
        records: list[Any] = json.loads(text)
    except InputError:
        return InputError("not UTF-8 text; save the file as UTF-8", source=source)
    except ValueError as error:
        return InputError(f"not JSON ({error})", source=source)
    for row, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            return InputError(
                "not an object; the list needs one object a vote", source=source, row=row
            )
    return InputError(f"the file cannot be read as JSON: {reason}", source=source)
