"""Output that appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from crowdsift.errors import RequestError

__all__ = ["replace_file", "require_file", "require_folder", "write_folder"]


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place if the block succeeds.

    Whatever interrupts the block, an error or Ctrl-C, the old file stays and the temporary one
    is removed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from crowdsift.io.files import replace_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replace_file(Path(folder) / "a.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    import tempfile

    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_folder(
    directory: str | os.PathLike[str], files: Mapping[str, str | Iterable[bytes]]
) -> None:
    """Write several files into a folder: all are complete before the first takes its place.

    Parameters
    ----------
    directory
        The folder, made if it does not exist. Files of these names are replaced.
    files
        The content of each file by its name, as text or as pieces of bytes.

    Examples
    --------
    >>> import tempfile
    >>> from crowdsift.io.files import write_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_folder(folder, {"a.txt": "one", "b.txt": [b"t", b"wo"]})
    """
    folder = Path(directory)
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_all(folder, list(files.items()))
    except BaseException as error:
        for place in made:
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()
        if isinstance(error, OSError):
            raise RequestError(f"cannot write to {folder}: {error.strerror}") from error
        raise


def require_folder(directory: str | os.PathLike[str]) -> None:
    """Refuse early what cannot become a folder to write into, before long work.

    Examples
    --------
    >>> import tempfile
    >>> from crowdsift.io.files import require_folder
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     require_folder(folder)
    """
    folder = Path(directory)
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file; give a folder to write into")
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise RequestError(f"cannot write to {folder}: no permission in {nearest}")


def require_file(path: str | os.PathLike[str]) -> None:
    """Refuse early what cannot become a file, before long work.

    Examples
    --------
    >>> from crowdsift.io.files import require_file
    >>> require_file("no-such-folder/report.html")
    Traceback (most recent call last):
    ...
    crowdsift.errors.RequestError: no-such-folder/report.html: there is no folder no-such-folder...
    """
    file = Path(path)
    if file.is_dir():
        raise RequestError(f"{file} is a folder; give the name of a file")
    if not file.parent.is_dir():
        raise RequestError(f"{file}: there is no folder {file.parent}; make it first")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise RequestError(f"{file}: cannot be written: no permission in {file.parent}")


def _write_all(folder: Path, files: list[tuple[str, str | Iterable[bytes]]]) -> None:
    """Write the first file, then (inside its block) the others; then each takes its place."""
    if not files:
        return
    (name, content), rest = files[0], files[1:]
    if (folder / name).is_dir():
        raise RequestError(f"{folder / name} is a folder; write somewhere else")
    with replace_file(folder / name) as temporary:
        with temporary.open("wb") as draft:
            draft.writelines([content.encode()] if isinstance(content, str) else content)
        _write_all(folder, rest)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
