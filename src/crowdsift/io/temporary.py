"""Temporary folders of a run, which a later run removes where this one was killed."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crowdsift.errors import ResourceError

__all__ = ["TemporaryFolder", "temporary_folder"]

_PREFIX = "crowdsift-tmp-"
_RUN = secrets.token_hex(4)  # of this process and those that it forks


class TemporaryFolder:
    """A folder of this process alone, of mode 0700 and unpredictable name, removed in the end.

    It is locked as long as the process lives: a later run removes those that nobody holds. So it
    need not know processes by their number, which is another's where containers share a folder.

    Examples
    --------
    >>> import os
    >>> from crowdsift.io.temporary import TemporaryFolder
    >>> folder = TemporaryFolder()
    >>> oct(os.stat(folder.path).st_mode & 0o777)
    '0o700'
    >>> folder.close()
    >>> os.path.exists(folder.path)
    False
    """

    def __init__(self) -> None:
        try:
            _remove_abandoned()
            self.path, self._lock = _made()
        except OSError as error:
            raise ResourceError(
                f"no temporary folder can be made ({error.strerror or error}); make room, or set "
                "TMPDIR to a folder that can be written to"
            ) from None
        self._count = 0

    def file(self, suffix: str = "") -> str:
        """The path of a new file in the folder."""
        self._count += 1
        return os.path.join(self.path, f"{self._count}{suffix}")

    def close(self) -> None:
        """Remove the folder and all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder for a block.

    Examples
    --------
    >>> from crowdsift.io.temporary import temporary_folder
    >>> with temporary_folder() as folder:
    ...     folder.is_dir()
    True
    """
    made = TemporaryFolder()
    try:
        yield Path(made.path)
    finally:
        made.close()


def _made() -> tuple[str, int | None]:
    """A new folder, and what holds its lock."""
    while True:
        path = tempfile.mkdtemp(prefix=_own())
        if sys.platform == "win32":
            return path, None
        handle = _held(path)
        if handle is not None:
            return path, handle
        # another run took it for abandoned before it was locked


def _own() -> str:
    """How the names of the folders of this process begin, and not those of its children."""
    return f"{_PREFIX}{_RUN}-{os.getpid()}-"


def _held(path: str) -> int | None:
    """What holds the lock of a folder from now on; None where another does, or it is gone."""
    if sys.platform == "win32":
        return None
    import fcntl

    handle = None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.stat(path), os.fstat(handle)):
            return handle
    except OSError:
        pass
    if handle is not None:
        os.close(handle)
    return None


@atexit.register
def _remove_own() -> None:
    """Remove what a signal at an awkward moment left of this process."""
    with suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_own()}*"):
            shutil.rmtree(path, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove the folders of this user that no living process holds."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if path.is_symlink() or path.stat().st_uid != os.getuid():
                    continue
                handle = _held(str(path))
                if handle is None:
                    continue
                try:
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(handle)
