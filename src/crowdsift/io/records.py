"""How many records a text file holds, counted apart from DuckDB; and whether it came whole.

What DuckDB read is compared with this count, so that no row is lost in silence. A gzip file is
unpacked on the way, which checks its length and checksum; DuckDB checks neither.
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import numpy as np

from crowdsift.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["count_records", "opened"]

_CHUNK = 1 << 24
_BLANK = b" \r\x0b\x0c"  # a tab may part fields


@contextmanager
def opened(path: str, zipped: bool, source: str) -> Iterator[IO[bytes]]:
    """Open the file's bytes, unpacked; what can go wrong on the way is an `InputError`."""
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
    r"""Count the lines that are not blank, the header among them; refuse zero bytes.

    Line breaks in quotes are not counted.

    Parameters
    ----------
    path, zipped, source
        The file, whether it is gzipped, and its name in messages.
    quotes
        Whether a line break between double quotes belongs to a field, as in CSV.

    Examples
    --------
    >>> import tempfile
    >>> from crowdsift.io.records import count_records
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b'a,b\n"x\ny",1\n\n2,3')
    ...     file.flush()
    ...     count_records(file.name, False, "votes.csv", quotes=True)
    3
    """
    counter = _Counter(quotes)
    with opened(path, zipped, source) as stream:
        while chunk := stream.read(_CHUNK):
            if b"\0" in chunk:
                counter.add(chunk.partition(b"\0")[0] + b"0")
                raise InputError(
                    "a zero byte: the file is damaged or not text; write it again, or remove the "
                    "byte",
                    source=source,
                    row=max(counter.finish() - quotes, 1),
                )
            counter.add(chunk)
    return counter.finish()


class _Counter:
    """Counts records chunk by chunk; `tail` is the line that no break has ended yet."""

    def __init__(self, quotes: bool) -> None:
        self._quotes, self._inside, self._count = quotes, False, 0
        self._content = False  # whether the unfinished line holds anything
        self._break: bytes = b"\n"
        self._first = True

    def add(self, chunk: bytes) -> None:
        if self._first:
            self._first = False
            if b"\n" not in chunk and b"\r" in chunk:
                self._break = b"\r"  # as very old programs ended lines
        if not self._quotes or (not self._inside and b'"' not in chunk):
            self._lines(chunk)
            return
        # Line breaks inside quotes become blanks, which changes no count of what is outside.
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
        """How many of the lines hold nothing; quick where few begin with a blank."""
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
