"""A folder of files that belong together: one record names them all, and is written last.

The record, a JSON object, has the size and the SHA-256 of every file, and a SHA-256 of itself. To save, new content is
first written under hidden names. Then the record is replaced by one rename, and then the content gets its visible
names. A reader accepts content under either name if it matches the record. So a run that is killed at any moment leaves
either all old files or all new ones.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError, RequestError, ResourceError
from crowdsift.io.files import TemporaryFolder, locked, new_folder, replace_file, sync_folder
from crowdsift.io.sql import literal

FORMAT = 4  # of the folder
_READ_FORMATS = (3, 4)  # 3: fits of one dimension; folders of other formats are refused
_FORMAT, _FILES, _CHECKSUM = "format", "files", "checksum"  # keys that are added to a record
_MARK = ".crowdsift-new"  # ending of hidden names


class RecordedFolder:
    """The files of a folder that its record names; others are not read.

    `record`: the content of the record without its format, the list of files and the checksum; `format`: the number of
    the layout.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str) -> None:
        try:
            self.folder = Path(directory)
        except TypeError:
            raise RequestError(f"a saved fit is a folder, not {directory!r}") from None
        path = self.folder / name
        try:
            self._text = path.read_bytes()
            record = json.loads(self._text, parse_constant=_refuse_constant)
        except OSError:
            raise InputError(
                f"no {name} here; give a folder written by --out or Fit.save", source=str(self.folder)
            ) from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"not a saved fit: {error}", source=str(path)) from None
        if not isinstance(record, dict):
            raise InputError("not a saved fit: no JSON object", source=str(path))
        self.format = record.pop(_FORMAT, None)
        if self.format not in _READ_FORMATS or type(self.format) is not int:
            raise InputError(
                f"saved in format {self.format!r:.40}, this version reads formats "
                f"{' and '.join(map(str, _READ_FORMATS))}; fit the votes again",
                source=str(self.folder),
            )
        if record.pop(_CHECKSUM, None) != _checksum(record):
            raise InputError(
                "the saved fit is damaged: the content was changed after it was written (another "
                "checksum); take a copy of the folder, or fit the votes again",
                source=str(path),
            )
        self._path, self.record = path, record
        self._files = _listed(record.pop(_FILES, None))

    @property
    def is_current(self) -> bool:
        """Return whether the record is still the one that was read: no other process has saved here since."""
        try:
            return self._path.read_bytes() == self._text
        except OSError:
            return False

    def has(self, name: str) -> bool:
        """Return whether the record names this file and the file exists."""
        return name in self._files and any(map(os.path.lexists, self._candidates(name)))

    def read(self, name: str, advice: str = "") -> bytes:
        """Return the content of a file; raise an error with advice if it does not match the record."""
        if name not in self._files:
            raise InputError(f"the saved fit has no {name}", source=str(self.folder))
        size, digest = self._files[name]
        present = False
        visible, hidden = self._candidates(name)
        for path in (visible, hidden, visible):  # it may be renamed between two checks
            with suppress(OSError):
                present |= path.is_file()
                if path.is_file() and path.stat().st_size == size:
                    content = path.read_bytes()
                    if hashlib.sha256(content).hexdigest() == digest:
                        return content
        what = (
            f"the saved fit is damaged: this is not the file that {self._path.name} names (another size or checksum)"
            if present
            else "the saved fit is incomplete: file missing"
        )
        what = f"{what}. {advice}" if advice else what
        raise InputError(what, source=str(self.folder / name))

    def _candidates(self, name: str) -> tuple[Path, Path]:
        return self.folder / name, self.folder / _hidden(name, self._files[name][1])

    def settle(self) -> None:
        """Complete the work of a killed run: give content its visible names."""
        for name in self._files:
            visible, hidden = self._candidates(name)
            if hidden.is_file():
                _take_place(hidden, visible)


def write_recorded(
    directory: str | os.PathLike[str],
    name: str,
    record: Mapping[str, Any],
    files: Mapping[str, bytes],
    *,
    ours: Iterable[str] = (),
) -> None:
    """Write files and the record that names them, all or none."""
    # Files that only an earlier record named are removed. `name`, `record`: the name and the content of the record; the
    # list of files is added; `ours`: names of files that such a folder may contain, which are also removed: a run that
    # was killed just before it removed them, and records of old formats, do not name them.
    folder = Path(directory)
    for each in (name, *files):
        if os.path.lexists(folder / each) and not (folder / each).is_file():
            what = "is a folder" if (folder / each).is_dir() else "is no regular file"
            raise RequestError(f"{folder / each} {what}; write somewhere else")
    require_own(folder, name, files)
    digest = {each: hashlib.sha256(content).hexdigest() for each, content in files.items()}
    listed = {each: {"bytes": len(files[each]), "sha256": digest[each]} for each in files}
    whole = {**record, _FILES: listed}
    whole |= {_CHECKSUM: _checksum(whole), _FORMAT: FORMAT}
    text = json.dumps(whole, indent=2, allow_nan=False) + "\n"
    with new_folder(folder), locked(folder):
        stale = _prepare(folder, name, ours) - set(files)
        hidden = {each: folder / _hidden(each, digest[each]) for each in files}
        try:
            for each, content in files.items():
                with replace_file(hidden[each]) as draft:
                    draft.write_bytes(content)
                    if (folder / each).is_file():
                        draft.chmod((folder / each).stat().st_mode & 0o7777)
            with replace_file(folder / name) as draft:  # from here on the new files are valid
                draft.write_bytes(text.encode())
        except BaseException:
            if not _holds(folder / name, text.encode()):
                for path in hidden.values():
                    path.unlink(missing_ok=True)
            raise
        for each, path in hidden.items():
            _take_place(path, folder / each)
        for each in stale:
            (folder / each).unlink(missing_ok=True)
        sync_folder(folder)


def require_own(directory: str | os.PathLike[str], name: str, files: Iterable[str]) -> None:
    """Raise an error for a folder in which files of the user would be overwritten."""
    # Without a record, `write_recorded` wrote nothing in the folder.
    folder = Path(directory)
    if os.path.lexists(folder / name):
        return
    if found := [each for each in files if os.path.lexists(folder / each)]:
        raise RequestError(
            f"{folder / found[0]} is there and would be overwritten; this is no folder of a fit (it has no {name}); "
            "give another folder, or move the file"
        )


def _prepare(folder: Path, name: str, ours: Iterable[str]) -> set[str]:
    known: set[str] = set()
    if (folder / name).exists():
        with suppress(InputError):  # a file that is no record of ours names nothing
            found = RecordedFolder(folder, name)
            known = set(ours) | set(found._files)
            found.settle()
    for entry in os.scandir(folder):
        if entry.name.startswith(".") and entry.name.endswith(_MARK):
            with suppress(OSError):
                os.unlink(entry.path)
    return known


def _take_place(hidden: Path, visible: Path) -> None:
    """Give content its visible name; follow a symbolic link there."""
    if not visible.is_symlink():
        os.replace(hidden, visible)
        return
    with replace_file(visible) as draft:
        draft.write_bytes(hidden.read_bytes())
    hidden.unlink(missing_ok=True)


def _holds(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _hidden(name: str, digest: str) -> str:
    return f".{name}.{digest[:16]}{_MARK}"


def _checksum(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the content of a record, independent of its layout as text."""
    content = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that a fit saves")


def _listed(value: Any) -> dict[str, tuple[int, str]]:
    """Return sizes and checksums by name; raise an error for names outside the folder."""
    found = {}
    for name, entry in value.items() if isinstance(value, dict) else ():
        fits = isinstance(entry, dict) and set(entry) >= {"bytes", "sha256"}
        if fits and name not in ("", ".", "..") and "\0" not in name and Path(name).name == name:
            found[name] = (entry["bytes"], str(entry["sha256"]))
    return found


def parquet_bytes(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file with these columns: equal columns give equal bytes."""
    import duckdb

    with _private_file() as path:
        target = f"{literal(str(path))} (FORMAT parquet, USE_TMP_FILE false)"
        try:
            _query(f"COPY (SELECT * FROM columns) TO {target}", columns)
        except duckdb.Error as error:
            reason = str(error).split("\n", 1)[0]
            raise ResourceError(
                f"there is no room for a temporary file ({reason}); make room, or set TMPDIR to a "
                "folder on a larger disk"
            ) from None
        return path.read_bytes()


def parquet_columns(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of such a file; raise ValueError if it is damaged."""
    import duckdb

    try:
        with _private_file() as path:
            path.write_bytes(content)
            return _query(f"SELECT * FROM read_parquet({literal(str(path))})", {})
    except duckdb.Error as error:
        raise ValueError(str(error).split("\n", 1)[0]) from None


@contextmanager
def _private_file() -> Iterator[Path]:
    """Yield a file in memory if the system supports it, otherwise one in a temporary folder."""
    # So a full TMPDIR does not prevent saving a finished fit on another disk.
    handle = -1
    if sys.platform == "linux":
        with suppress(OSError):
            handle = os.memfd_create("columns.parquet")
    path = Path(f"/proc/self/fd/{handle}")
    try:
        if handle >= 0 and path.exists():
            yield path
        else:
            with closing(TemporaryFolder()) as folder:
                yield Path(folder.file())
    finally:
        if handle >= 0:
            os.close(handle)


def _query(query: str, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    with _database(os.getpid()).cursor() as connection:
        if columns:
            connection.register("columns", dict(columns))
        answer = connection.execute(query).fetchnumpy()
    return {
        name: np.ma.filled(values, np.nan) if np.ma.is_masked(values) else np.asarray(values)
        for name, values in answer.items()
    }


@cache
def _database(process: int) -> Any:
    """Return the database of this process, created once (20 ms) and again after a fork."""
    import duckdb

    database = duckdb.connect(":memory:", config={"threads": "1"})
    with suppress(duckdb.InvalidInputException):  # a notebook without widgets has no progress bar
        database.execute("SET enable_progress_bar = false")
    return database


_KINDS: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "I64": np.dtype("<i8")}
_METADATA, _DIGEST = "__metadata__", "sha256"
MAX_HEADER = 100_000_000  # most bytes of a header, as the format defines


def safetensors_bytes(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the content of a file with these arrays and a few texts."""
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    parts, at = [], 0
    for name, tensor in tensors.items():
        kind = next(kind for kind, dtype in _KINDS.items() if dtype == tensor.dtype)
        part = np.ascontiguousarray(tensor, _KINDS[kind]).tobytes()
        shape = list(tensor.shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    header[_METADATA][_DIGEST] = _content_checksum(header, b"".join(parts))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of eight
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def read_safetensors(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return the arrays and texts of such a file; raise ValueError if it is damaged."""
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(len(content) - 8, MAX_HEADER):
        raise ValueError("not a safetensors file")
    numbers = content[8 + length :]
    try:
        header = json.loads(content[8 : 8 + length])
        texts = header[_METADATA]
        if texts.pop(_DIGEST) != _content_checksum(header, numbers):
            raise ValueError("the content was changed after it was written: another checksum")
        del header[_METADATA]
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("the metadata are not texts")
        tensors, at = {}, 0
        for name, about in header.items():
            kind, shape = _KINDS[about["dtype"]], tuple(about["shape"])
            if not all(type(size) is int and size >= 0 for size in shape):
                raise ValueError(f"{name} has the shape {shape}")
            end = at + prod(shape) * kind.itemsize
            if about["data_offsets"] != [at, end] or end > len(numbers):
                raise ValueError(f"{name} is not where its shape puts it")
            tensors[name] = np.frombuffer(numbers[at:end], kind).reshape(shape).copy()
            at = end
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"its header cannot be used ({error!r:.80})") from None
    if at != len(numbers):
        raise ValueError("there is more in the file than its header names")
    return tensors, texts


def _content_checksum(header: Mapping[str, Any], numbers: bytes) -> str:
    """Return the SHA-256 of the header, without the checksum in its metadata, and the numbers."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(text + b"\0" + numbers).hexdigest()
