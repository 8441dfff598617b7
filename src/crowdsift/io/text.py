"""Text files of votes: their kind, their header, and the exact place of a fault.

DuckDB reads the rows. This module reads the first bytes before that, and finds the first bad row after an error.
"""

import codecs
import csv
import gzip
import io
import json
import os
import re
import shutil
import sys
import threading
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from crowdsift.errors import InputError

_DELIMITERS = ",\t;|"
_HEAD = 1 << 20  # bytes that determine the kind of a file
_LONGEST_HEADER = 1 << 26
_limits = threading.Lock()  # the csv module has one limit for the whole process

_SIGNATURES = {  # not text, but named in the error
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
BOM = b"\xef\xbb\xbf"
_HIGH = re.compile(rb"[\x80-\xff]+")
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_UNDEFINED = {0x81, 0x8D, 0x8F, 0x90, 0x9D}  # codes that Windows-1252 does not have


class EmptyFileError(InputError):
    """A file without rows, which is left out where several files are read."""


@dataclass(frozen=True)
class Header:
    """The header of a delimited file: names, delimiter, and the number of blank lines before it."""

    names: tuple[str, ...]
    delimiter: str
    skip: int


def copy_stream(path: str, out: IO[bytes], source: str) -> None:
    """Copy the content of a pipe, or of standard input for '-', to a file."""
    if path == "-":
        if sys.stdin is None or getattr(sys.stdin, "closed", False):
            raise InputError("standard input is closed; give a file, or a pipe", source=source)
        shutil.copyfileobj(sys.stdin.buffer, out)
        return
    with opened(path, False, source) as stream:
        shutil.copyfileobj(stream, out)


def kind_of(path: str, name: str, source: str) -> tuple[str, bool]:
    """Return the kind of a file, 'csv', 'json' or 'parquet', and whether it is gzipped."""
    # The content decides; the file's name only distinguishes CSV from JSON.
    with opened(path, False, source) as stream:
        head = stream.read(4)
    if head == b"PAR1":
        return "parquet", False
    zipped = head[:2] == b"\x1f\x8b"
    with opened(path, zipped, source) as stream:
        head = stream.read(_HEAD)
    _refuse_binary(head, source)
    start = head.removeprefix(BOM).lstrip()
    if not start:
        raise EmptyFileError("the file is empty; it needs a header and rows", source=source)
    stem = name.lower().removesuffix(".gz")
    if stem.endswith((".csv", ".tsv")):
        return "csv", zipped
    if stem.endswith((".json", ".jsonl", ".ndjson")) or start[:1] in b"{[":
        if start[:1] == b"[":
            _refuse_cut(path, zipped, source)
        if start.rstrip() in (b"[]", b"{}"):
            raise EmptyFileError("the file cannot be read as JSON: it holds no rows", source=source)
        return "json", zipped
    return "csv", zipped


def guess_encoding(path: str, zipped: bool, source: str) -> tuple[str, str]:
    """Return the encoding of a text file, "utf-8" or "cp1252", and examples of decoded letters."""
    # Windows-1252 is assumed only if its letters are rare among ASCII, as in Western languages, and the text has no
    # valid UTF-8 beyond ASCII. Other files are read as UTF-8, which fails with the place of the first fault.
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with opened(path, zipped, source) as stream:
            while chunk := stream.read(_HEAD):
                if not chunk.isascii() or decoder.getstate()[0]:
                    decoder.decode(chunk)
            decoder.decode(b"", final=True)
        return "utf-8", ""
    except UnicodeDecodeError:
        pass
    letters, total, crowded = Counter[int](), 0, 0
    with opened(path, zipped, source) as stream:
        while chunk := stream.read(_HEAD) + stream.readline():
            if _MULTIBYTE.search(chunk):
                return "utf-8", ""
            for run in _HIGH.findall(chunk):
                letters.update(run)
                total, crowded = total + len(run), crowded + len(run) * (len(run) > 2)
    if letters.keys() & _UNDEFINED or crowded > 0.1 * total:
        return "utf-8", ""
    return "cp1252", bytes(code for code, _ in letters.most_common(8)).decode("cp1252")


def recode(path: str, source: str, encoding: str, target: str) -> None:
    """Write a text file, perhaps gzipped, as UTF-8."""
    with opened(path, False, source) as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with opened(path, zipped, source) as stream, open(target, "wb") as out:
        try:
            while chunk := stream.read(_HEAD):
                text = decoder.decode(chunk)
                out.write(text.encode())
                line += text.count("\n")
            out.write(decoder.decode(b"", final=True).encode())
        except UnicodeError as error:
            reason = getattr(error, "reason", "") or str(error)
            raise InputError(
                f"not {encoding} text ({reason}, in line {line:,} or below); name another encoding "
                "with --encoding (encoding=), or save the file as UTF-8",
                source=source,
            ) from None


def _refuse_cut(path: str, zipped: bool, source: str) -> None:
    """Raise an error if a JSON list is not closed; DuckDB would read it without an error."""
    end = b""
    with opened(path, zipped, source) as stream:
        if not zipped:
            stream.seek(max(os.path.getsize(path) - _HEAD, 0))
        while chunk := stream.read(_HEAD):
            end = (end + chunk).rstrip()[-1:]
    if end != b"]":
        raise InputError("not JSON: the list does not end with ']'; the file may be cut off", source=source)


def _refuse_binary(head: bytes, source: str) -> None:
    if head.startswith(_UTF16):
        raise InputError("UTF-16 text; save the file as UTF-8, or for votes give --encoding utf-16", source=source)
    for signature, meaning in _SIGNATURES.items():
        if head.startswith(signature):
            raise InputError(f"not a text file but {meaning}", source=source)
    if head.startswith(b"PAR1"):
        raise InputError("a gzipped Parquet file; unpack it (gunzip)", source=source)
    if b"\0" in head:
        raise InputError(
            "not a text file (it has zero bytes); votes are read from CSV, TSV, JSON and Parquet", source=source
        )


def _refuse_encoding(text: str, source: str, row: int | None) -> None:
    """Raise an error if `text`, decoded with 'surrogateescape', was not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        where = "" if row else " (in the header)"
        raise InputError(
            f"not UTF-8 text{where}; save the file as UTF-8, or for votes name the encoding with "
            "--encoding (encoding=), such as cp1252 for Windows-1252",
            source=source,
            row=row,
        ) from None


def _first_record(text: str) -> tuple[str, int, bool]:
    """Return the first record that is not blank, the lines before it, and whether it is complete."""
    skip, start, quoted = 0, 0, False
    for place, char in enumerate(text):
        if char == '"':
            quoted = not quoted
        elif char in "\r\n" and not quoted:
            if text[start:place].strip():
                return text[start:place], skip, True
            skip += text[place : place + 2] != "\r\n"  # this line end is counted at its \n
            start = place + 1
    return text[start:], skip, False


def read_header(path: str, zipped: bool, source: str) -> Header:
    """Return the header of a delimited file with stripped names; raise an error for repeated ones."""
    size, record, skip, ended = _HEAD, "", 0, False
    while not ended:
        with opened(path, zipped, source) as stream:
            head = stream.read(size)
        record, skip, ended = _first_record(head.decode("utf-8-sig", "surrogateescape"))
        if len(head) < size:
            break
        if not ended and size >= _LONGEST_HEADER:
            raise InputError(
                f"no header: the first line does not end within {_LONGEST_HEADER >> 20} MiB; "
                "look for a quote that is not closed",
                source=source,
            )
        size *= 8
    _refuse_encoding(record, source, None)
    outside = "".join(record.split('"')[::2])  # of quotes
    delimiter = max(_DELIMITERS, key=outside.count)
    try:
        with _long_fields():
            lines = _bare_quotes(io.StringIO(record, newline=""), delimiter)
            fields = next(csv.reader(lines, delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"the header is not CSV ({error})", source=source) from None
    names = tuple(name.strip() for name in fields)
    for name, count in Counter(names).items():
        if name and count > 1:
            shown = name if len(name) <= 80 else f"{name[:77]}..."
            raise InputError(f"the header names the column {shown!r} twice; rename or remove one", source=source)
    return Header(names, delimiter, skip)


def _bare_quotes(lines: Iterable[str], delimiter: str) -> Iterator[str]:
    """Yield the lines without blanks around quoted fields, which DuckDB ignores as well."""
    # The csv module treats them, and the quotes, as part of the field.
    mark = re.escape(delimiter)
    opening, first = re.compile(rf"(?<={mark}) +$"), re.compile(rf"(^|(?<={mark})) +$")
    closing = re.compile(rf"^ +(?={mark}|\r?\n?$)")
    inside = 0  # 1 if a quoted field continues from the line before
    for line in lines:
        pieces = line.split('"')
        if ' "' in line or '" ' in line:
            for place in range(inside, len(pieces), 2):  # the pieces outside quotes
                if place:
                    pieces[place] = closing.sub("", pieces[place])
                if place < len(pieces) - 1:
                    pieces[place] = (opening if place else first).sub("", pieces[place])
        inside = (inside + len(pieces) - 1) % 2
        yield '"'.join(pieces)


@contextmanager
def _long_fields() -> Iterator[None]:
    """Allow fields of any length inside the block."""
    with _limits:
        before = csv.field_size_limit(2**31 - 1)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def repair(
    path: str, zipped: bool, header: Header, source: str, target: str, *, skip_bad: bool = False
) -> tuple[int, dict[int, str]]:
    """Copy a delimited file that DuckDB refused, or raise the error for its first bad row."""
    # Correct content that DuckDB refuses, such as a mixture of LF and CRLF, is written again in one form. Slow, and run
    # only after a refusal. `skip_bad`: whether a row that is no record is written without content instead, and
    # reported.
    broken: dict[int, str] = {}
    rows = 0
    with open(target, "w", encoding="utf-8", newline="") as out, opened(path, zipped, source) as stream, _long_fields():
        writer = csv.writer(out, delimiter=header.delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
        text = io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="")
        writer.writerow(f"f{place}" for place in range(len(header.names)))
        for record in _checked_records(text, header, source, broken if skip_bad else None):
            writer.writerow(record)
            rows += 1
    return rows, broken


def _checked_records(text: IO[str], header: Header, source: str, broken: dict[int, str] | None) -> Iterator[list[str]]:
    """Yield the records after the header; raise an error for broken ones, or list them in `broken`."""
    width, row = len(header.names), -1
    lines = _bare_quotes(text, header.delimiter)
    records = csv.reader(lines, delimiter=header.delimiter, strict=broken is None)
    try:
        for record in records:
            if not any(field.strip() for field in record) and len(record) < 2:
                continue  # a blank line
            row += 1
            if len(record) == width + 1 and not record[-1]:
                record.pop()  # one delimiter too many at the end of a line is harmless
            try:
                _refuse_record(record, width, header.delimiter, source, row)
            except InputError as error:
                if broken is None or row == 0:
                    raise
                broken[row - 1] = str(error).partition(": ")[2]
                record = [""] * width
            if row:
                yield record
    except csv.Error as error:
        raise InputError(
            f'wrong quotes ({error}); a quote inside a quoted field is written twice ("")',
            source=source,
            row=max(row + 1, 1),
        ) from None


def _refuse_record(record: list[str], width: int, delimiter: str, source: str, row: int) -> None:
    _refuse_encoding("".join(record), source, row or None)
    if len(record) != width:
        raise InputError(
            f"{len(record)} field{'' if len(record) == 1 else 's'} where the header has "
            f"{width}; a field that contains {delimiter!r}, quotes or a line "
            'break must be in quotes ("...")',
            source=source,
            row=row,
        )


def explain_json(path: str, zipped: bool, source: str, reason: str) -> InputError:
    """Return the error for a JSON file that DuckDB refused, with its first bad row."""
    with opened(path, zipped, source) as stream:
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
            except (ValueError, RecursionError):
                fault = "a number too long, or too deeply nested"
            if fault:
                return InputError(
                    f'{fault}; every line needs one object such as {{"winner": "a", "loser": "b", "worker": "w"}}',
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
    except RecursionError:
        return InputError("too deeply nested for JSON of votes", source=source)
    except ValueError as error:
        return InputError(f"not JSON ({str(error)[:200]})", source=source)
    for row, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            return InputError("not an object; the list needs one object per vote", source=source, row=row)
    return InputError(f"the file cannot be read as JSON: {reason}", source=source)


_CHUNK = 1 << 24
_BLANK = b" \r\x0b\x0c"  # tabs may separate fields


@contextmanager
def opened(path: str, zipped: bool, source: str) -> Iterator[IO[bytes]]:
    """Return the unpacked bytes of a file as a stream; raise `InputError` if that fails."""
    try:
        with open(path, "rb") as raw:
            yield gzip.GzipFile(fileobj=raw) if zipped else raw  # type: ignore[misc]
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError("a broken gzip file; fetch or write it again", source=source) from None
    except PermissionError:
        raise InputError("no permission to read this file", source=source) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"the file cannot be read ({reason})", source=source) from None


def count_records(path: str, zipped: bool, source: str, *, quotes: bool) -> int:
    r"""Return the number of lines that are not blank, header included; raise an error for zero bytes."""
    # With `quotes`, a line break between double quotes belongs to a field, as in CSV, and is not counted.
    counter = _Counter(quotes)
    with opened(path, zipped, source) as stream:
        while chunk := stream.read(_CHUNK):
            if b"\0" in chunk:
                counter.add(chunk.partition(b"\0")[0] + b"0")
                raise InputError(
                    "a zero byte: the file is damaged or not text; write it again, or remove the byte",
                    source=source,
                    row=max(counter.finish() - quotes, 1),
                )
            counter.add(chunk)
    return counter.finish()


class _Counter:
    """A counter of records, chunk by chunk; `tail` is the last line without a line break yet."""

    def __init__(self, quotes: bool) -> None:
        self._quotes, self._inside, self._count = quotes, False, 0
        self._content = False  # whether the unfinished line has content
        self._break: bytes = b"\n"
        self._first = True

    def add(self, chunk: bytes) -> None:
        if self._first:
            self._first = False
            if b"\n" not in chunk and b"\r" in chunk:
                self._break = b"\r"  # line end of very old programs
        if not self._quotes or (not self._inside and b'"' not in chunk):
            self._lines(chunk)
            return
        # Line breaks inside quotes become blanks, which does not change the count outside quotes.
        codes = np.frombuffer(chunk, np.uint8).copy()
        marks = np.flatnonzero(codes == ord('"'))
        breaks = np.flatnonzero(codes == ord(self._break))
        before = np.searchsorted(marks, breaks) + self._inside
        codes[breaks[before % 2 == 1]] = ord("x")
        self._inside = bool((len(marks) + self._inside) % 2)
        self._lines(codes.tobytes())

    def _lines(self, chunk: bytes) -> None:
        count = chunk.count(self._break)
        if count == 0:
            self._content = self._content or bool(chunk.strip(_BLANK))
            return
        head, _, _ = chunk.partition(self._break)
        body, _, tail = chunk.rpartition(self._break)
        self._count += bool(self._content or head.strip(_BLANK))
        if count > 1:
            middle = chunk[len(head) + 1 : len(body)]
            self._count += count - 1 - self._blank_lines(middle)
        self._content = bool(tail.strip(_BLANK))

    def _blank_lines(self, middle: bytes) -> int:
        codes = np.frombuffer(middle, np.uint8)
        ends = np.flatnonzero(codes == ord(self._break))
        starts = np.concatenate([[0], ends + 1])
        length = np.concatenate([ends, [len(codes)]]) - starts
        blank = int((length == 0).sum())
        begins = np.isin(codes[starts[length > 0]], np.frombuffer(_BLANK, np.uint8))
        for place in np.flatnonzero(length > 0)[begins].tolist():
            start = int(starts[place])
            blank += not middle[start : start + int(length[place])].strip(_BLANK)
        return blank

    def finish(self) -> int:
        return self._count + self._content
