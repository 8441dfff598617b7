"""Output that appears whole or not at all."""

from __future__ import annotations

import atexit
import errno
import glob
import os
import secrets
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from crowdsift.errors import RequestError, ResourceError

Named = tuple[str, str | os.PathLike[str]]  # an option and a path
_MARK = ".crowdsift-tmp"  # how the names of our temporary files end
_drafts: deque[tuple[Path, int]] = deque(maxlen=64)  # targets with the inode of their new content
_WAIT_FOR_READER = 10.0  # seconds until a process must read from a named pipe
_held: set[tuple[int, int, int]] = set()  # thread, device and inode of folders that are locked
_LONGEST_NAME = 200  # of a target within the name of its temporary file; file systems allow 255


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place if the block succeeds.

    Whatever interrupts the block, an error or Ctrl-C, the old file stays and the temporary one
    is removed; what a killed run left behind is removed by the next one that writes the same
    file. Content is on the disk before the name is. A symbolic link is followed, permissions
    are kept, and into what is no regular file (a device, a pipe) the content is written.

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
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        with write_through(target) as temporary:
            yield temporary
        return
    try:
        _remove_leftovers(target)
        with _draft(target) as temporary:
            yield temporary
            _sync(temporary)
            _keep_permissions(target, temporary)
            _drafts.append((target, os.stat(temporary).st_ino))
            os.replace(temporary, target)
            sync_folder(target.parent)
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror or error}") from error


def written() -> list[Path]:
    """The files that the last blocks of `replace_file` put in place, hidden ones left out.

    Asked of the file system and not noted after the fact, so that an exception of a signal handler
    at any moment leaves it true.
    """
    found: dict[Path, None] = {}
    for target, inode in _drafts:
        with suppress(OSError):
            if os.stat(target).st_ino == inode and not target.name.startswith("."):
                found[target] = None
    return list(found)


def forget_written() -> None:
    """Begin anew: what was written so far is not of the work that follows."""
    _drafts.clear()


@contextmanager
def write_through(target: Path) -> Iterator[Path]:
    """Yield a temporary file and copy its content into `target`, a device or a pipe, at the end."""
    with temporary_folder() as folder:
        temporary = folder / "content"
        temporary.touch()
        yield temporary
        try:
            with temporary.open("rb") as source, open(_opened_pipe(target), "wb") as sink:
                shutil.copyfileobj(source, sink)
        except OSError as error:
            raise RequestError(f"{target}: cannot be written: {error.strerror}") from error


def _opened_pipe(target: Path) -> int:
    """Open a device or a pipe for writing; wait some seconds, not forever, for a reader."""
    last = time.monotonic() + _WAIT_FOR_READER
    while True:
        try:
            handle = os.open(target, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            if error.errno != errno.ENXIO or not target.is_fifo():
                raise
            if time.monotonic() > last:
                text = f"no process reads from this pipe (waited {_WAIT_FOR_READER:g} s)"
                raise OSError(error.errno, text) from None
            time.sleep(0.05)
        else:
            os.set_blocking(handle, True)
            return handle


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
    with new_folder(folder), ExitStack() as together:
        for name, content in reversed(list(files.items())):  # the first takes its place first
            if (folder / name).is_dir():
                raise RequestError(f"{folder / name} is a folder; write somewhere else")
            temporary = together.enter_context(replace_file(folder / name))
            with temporary.open("wb") as draft:
                draft.writelines([content.encode()] if isinstance(content, str) else content)


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """A folder to write into; if the block fails, what was made for it goes again."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as error:
        for place in made:
            if place.is_dir() and not any(place.iterdir()):
                place.rmdir()
        if isinstance(error, OSError):
            raise RequestError(f"cannot write to {folder}: {error.strerror}") from error
        raise


@contextmanager
def locked(folder: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a folder: other runs that write into it, or update what is in it, wait.

    A thread that holds the folder already goes on at once. `waiting` is called if another run holds
    it. Windows has no such lock.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    about = os.fstat(handle)
    owner = (threading.get_ident(), about.st_dev, about.st_ino)
    try:
        if owner in _held:
            yield
            return
        if not _lock(handle):
            if waiting is not None:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        _held.add(owner)
        try:
            yield
        finally:
            _held.discard(owner)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can tell."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # not every file system does that for folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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


def read_files(source: Any) -> list[str]:
    """Return the existing files that a source of rows is read from.

    A source is the value of an option: a path, FILE:COLUMN, a pattern, "-" for standard input, or
    the address of an SQLite or DuckDB database. Anything else gives an empty list.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from crowdsift.io.files import read_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "a.csv").touch()
    ...     names = [f"{folder}/*.csv", f"{folder}/a.csv:text", f"sqlite:///{folder}/a.csv"]
    ...     [[path.removeprefix(folder) for path in read_files(name)] for name in names]
    [['/a.csv'], ['/a.csv'], ['/a.csv']]
    """
    if not isinstance(source, str | os.PathLike):
        return []
    text = os.fsdecode(source)
    scheme, mark, rest = text.partition("://")
    if mark and scheme.lower() in ("sqlite", "duckdb"):
        text = rest.removeprefix("/")
    for name in ("/dev/stdin",) if text == "-" else (text, text.rpartition(":")[0]):
        path = os.path.expanduser(name)
        if os.path.isfile(path):  # with what databases keep beside their file
            beside = [path + ending for ending in ("-wal", "-shm", "-journal", ".wal")]
            return [path, *filter(os.path.isfile, beside)]
        if found := [each for each in glob.glob(path, recursive=True) if os.path.isfile(each)]:
            return found
    return []


def require_separate(inputs: Iterable[Named], outputs: Iterable[Named]) -> None:
    """Refuse an output that is a file which is read, or that another output writes as well.

    Files are compared by resolved path and by inode, so links of both kinds are seen through.
    Devices and pipes hold nothing that could be lost.

    Parameters
    ----------
    inputs, outputs
        Paths of files, each with the name of its option or parameter for the message.

    Examples
    --------
    >>> import tempfile
    >>> from crowdsift.io.files import require_separate
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as votes:
    ...     require_separate([("VOTES", votes.name)], [("--out", "other.csv")])
    ...     require_separate([("VOTES", votes.name)], [("--table", votes.name)])
    Traceback (most recent call last):
    ...
    crowdsift.errors.RequestError: --table ...csv: this file is read (VOTES); write somewhere else
    """
    taken: dict[object, str] = {}
    for option, path in inputs:
        reason = f"this file is read ({option}); write somewhere else"
        taken |= dict.fromkeys(_identity(path), reason)
    written = [(option, path, _identity(path)) for option, path in outputs]
    folders = {
        str(parent): option
        for option, _, identity in written
        for parent in Path(identity[0] if identity else "/").parents
    }
    for option, path, identity in written:
        other = folders.get(identity[0]) if identity else None
        for reason in [taken[key] for key in identity if key in taken]:
            raise RequestError(f"{option} {os.fspath(path)}: {reason}")
        if other is not None:
            raise RequestError(f"{option} {os.fspath(path)}: {other} needs a folder of this name")
        reason = f"{option} writes to it, too; give each its own file or folder"
        taken |= dict.fromkeys(identity, reason)


def _identity(path: str | os.PathLike[str]) -> tuple[Any, ...]:
    """Return what two names of one file share: the resolved path, and the inode if it exists."""
    real = os.path.realpath(path)
    try:
        found = os.stat(real)
    except OSError:
        return (real,)
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        return ()
    return real, (found.st_dev, found.st_ino)


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
    file, target = Path(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise RequestError(f"{file} is a folder; give the name of a file")
    if target.exists() and not target.is_file():  # a device or a pipe is written into
        if not os.access(target, os.W_OK):
            raise RequestError(f"{file}: cannot be written: no permission")
        return
    if not target.parent.is_dir():
        raise RequestError(f"{file}: there is no folder {file.parent}; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise RequestError(f"{file}: cannot be written: no permission in {file.parent}")


@contextmanager
def _draft(target: Path) -> Iterator[Path]:
    """A new file beside the target, held by a lock that dies with this process; then no more."""
    while True:
        path = target.parent / f".{target.name[:_LONGEST_NAME]}.{secrets.token_hex(8)}{_MARK}"
        handle = -1
        try:  # from before there is a file: a signal may come between that and any next step
            # The mode is cut by the umask, which cannot be read without changing it for all threads
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            if _lock(handle) and _is_still(path, handle):
                yield path
                return
            # else another run took it for a leftover before it was locked
        finally:
            if handle >= 0:
                os.close(handle)
            path.unlink(missing_ok=True)


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files for this target that no living process holds."""
    if sys.platform == "win32":
        return
    begin = f".{target.name[:_LONGEST_NAME]}."
    for entry in os.scandir(target.parent):
        name = entry.name.removeprefix("tmp_")  # DuckDB writes a file of its own first
        if not (name.startswith(begin) and name.endswith(_MARK)):
            continue
        with suppress(OSError):  # gone, or not ours to remove
            handle = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if _lock(handle):
                    os.unlink(entry.path)
            finally:
                os.close(handle)


def _lock(handle: int) -> bool:
    """Whether an open file could be locked; the lock lasts until it is closed."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _sync(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _keep_permissions(target: Path, temporary: Path) -> None:
    """Give the new file the mode, and where we may the owner, of the one that it replaces."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        return
    new = os.stat(temporary)
    if sys.platform != "win32" and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(OSError):
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


_PREFIX = "crowdsift-tmp-"
_RUN = secrets.token_hex(4)  # of this process and those that it forks


class TemporaryFolder:
    """A folder of this process alone, of mode 0700 and unpredictable name, removed in the end.

    It is locked as long as the process lives: a later run removes those that nobody holds. So it
    need not know processes by their number, which is another's where containers share a folder.

    Examples
    --------
    >>> import os
    >>> from crowdsift.io.files import TemporaryFolder
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
    >>> from crowdsift.io.files import temporary_folder
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
        handle = _lock_folder(path)
        if handle is not None:
            return path, handle
        # another run took it for abandoned before it was locked


def _own() -> str:
    """How the names of the folders of this process begin, and not those of its children."""
    return f"{_PREFIX}{_RUN}-{os.getpid()}-"


def _lock_folder(path: str) -> int | None:
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
                handle = _lock_folder(str(path))
                if handle is None:
                    continue
                try:
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    os.close(handle)
