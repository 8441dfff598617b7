"""Output that appears whole or not at all, and temporary folders that never outlive their run.

New content is written to a draft beside its target, which takes the place of the target by one rename. Drafts and
temporary folders are locked as long as their process lives; those of a killed run are not locked, and the next run
removes them. Process numbers are not used, because containers that share a folder reuse them.
"""

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
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from crowdsift.errors import RequestError, ResourceError

if sys.platform != "win32":  # Windows has no such locks: there no run removes the files of another
    import fcntl

Named = tuple[str, str | os.PathLike[str]]  # an option and a path
_MARK = ".crowdsift-tmp"  # ending of the names of drafts
_PREFIX = "crowdsift-tmp-"  # beginning of the names of temporary folders
_RUN = secrets.token_hex(4)  # of this process and those that it forks
_MAX_NAME = 200  # most characters of a target within the name of its draft; file systems allow 255
_WAIT_FOR_READER = 10.0  # seconds that a process has to open a named pipe for reading
_drafts: deque[tuple[Path, int]] = deque(maxlen=64)  # targets with the inode of their new content
_held: set[tuple[int, int, int]] = set()  # thread, device and inode of locked folders


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` that replaces it if the block succeeds."""
    # If an error or Ctrl-C interrupts the block, the old file stays and the temporary one is removed. Temporary files
    # of a killed run are removed by the next run that writes the same file. The content is written to disk before the
    # name. A symbolic link is followed and permissions are kept. If the target is no regular file (a device, a pipe),
    # the content is written into it.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        with closing(TemporaryFolder()) as folder:
            content = Path(folder.file())
            content.touch()
            yield content
            _write_through(content, target)
        return
    try:
        begin = f".{target.name[:_MAX_NAME]}."
        for name in os.listdir(target.parent):  # DuckDB first writes to another file, tmp_...
            if name.removeprefix("tmp_").startswith(begin) and name.endswith(_MARK):
                _remove_unheld(target.parent / name)
        with _draft(target.parent, begin) as temporary:
            yield temporary
            _sync(temporary, os.O_RDWR)
            _keep_permissions(target, temporary)
            _drafts.append((target, os.stat(temporary).st_ino))
            os.replace(temporary, target)
            sync_folder(target.parent)
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror or error}") from error


@contextmanager
def _draft(folder: Path, begin: str) -> Iterator[Path]:
    """Yield a new locked file and remove it at the end; the lock ends with this process."""
    while True:
        path = folder / f"{begin}{secrets.token_hex(8)}{_MARK}"
        handle = -1
        try:  # the block begins before the file exists: a signal may arrive between any two steps
            # The mode is limited by the umask, which cannot be read without changing it for all threads
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            if _lock(handle, path):
                yield path
                return
            # otherwise another run removed it as a leftover before it was locked
        finally:
            if handle >= 0:
                os.close(handle)
            path.unlink(missing_ok=True)


def _write_through(content: Path, target: Path) -> None:
    try:
        with content.open("rb") as source, open(_opened_pipe(target), "wb") as sink:
            shutil.copyfileobj(source, sink)
    except OSError as error:
        raise RequestError(f"{target}: cannot be written: {error.strerror}") from error


def _opened_pipe(target: Path) -> int:
    """Return a device or pipe opened for writing; wait for a reader for some seconds only."""
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
            if sys.platform != "win32":
                os.set_blocking(handle, True)
            return handle


def _keep_permissions(target: Path, temporary: Path) -> None:
    """Give the new file the mode, and if permitted the owner, of the old one."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        return
    new = os.stat(temporary)
    if sys.platform != "win32" and (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with suppress(OSError):
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


def written() -> list[Path]:
    """Return the files that the last blocks of `replace_file` wrote, except hidden ones."""
    # The file system is asked each time, so that the answer stays true if a signal handler raises an exception at any
    # moment.
    found: dict[Path, None] = {}
    for target, inode in _drafts:
        with suppress(OSError):
            if os.stat(target).st_ino == inode and not target.name.startswith("."):
                found[target] = None
    return list(found)


def forget_written() -> None:
    """Clear the list of written files before other work begins."""
    _drafts.clear()


def write_folder(directory: str | os.PathLike[str], files: Mapping[str, str | Iterable[bytes]]) -> None:
    """Write files of these names and contents; all are complete before the first replaces its target."""
    folder = Path(directory)
    with new_folder(folder), ExitStack() as together:
        for name, content in reversed(list(files.items())):  # the first one is renamed last
            if (folder / name).is_dir():
                raise RequestError(f"{folder / name} is a folder; write somewhere else")
            temporary = together.enter_context(replace_file(folder / name))
            with temporary.open("wb") as draft:
                draft.writelines([content.encode()] if isinstance(content, str) else content)


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make a folder to write into; if the block fails, remove the folder again."""
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
    """Lock a folder: other runs that write into it or update its content wait."""
    # A thread that holds the folder already continues at once. `waiting` is called if another run holds it. Windows has
    # no such lock.
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    about = os.fstat(handle)
    owner = (threading.get_ident(), about.st_dev, about.st_ino)
    try:
        if owner in _held:
            yield
            return
        if not _lock(handle, folder):
            if waiting is not None:
                waiting()
            if sys.platform != "win32":
                fcntl.flock(handle, fcntl.LOCK_EX)
        _held.add(owner)
        try:
            yield
        finally:
            _held.discard(owner)
    finally:
        os.close(handle)


def _lock(handle: int, path: str | Path) -> bool:
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


def _remove_unheld(path: Path) -> None:
    """Remove a file, or a folder of this user, that no living process holds."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # gone, or owned by another user
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            about = os.fstat(handle)
            if not stat.S_ISDIR(about.st_mode):
                if _lock(handle, path):
                    os.unlink(path)
            elif about.st_uid == os.getuid() and _lock(handle, path):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(handle)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, if the system supports this."""
    with suppress(OSError):
        _sync(folder, os.O_RDONLY)


def require_file(path: str | os.PathLike[str]) -> None:
    """Raise an error early for a path that cannot become a file, before long work."""
    file, target = Path(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise RequestError(f"{file} is a folder; give the name of a file")
    if target.exists() and not target.is_file():  # content is written into a device or a pipe
        if not os.access(target, os.W_OK):
            raise RequestError(f"{file}: cannot be written: no permission")
        return
    if not target.parent.is_dir():
        raise RequestError(f"{file}: there is no folder {file.parent}; make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise RequestError(f"{file}: cannot be written: no permission in {file.parent}")


def require_folder(directory: str | os.PathLike[str]) -> None:
    """Raise an error early for a path that cannot become a folder, before long work."""
    folder = Path(directory)
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file; give a folder to write into")
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise RequestError(f"cannot write to {folder}: no permission in {nearest}")


def is_fit_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the folder of a saved fit rather than of files of votes."""
    return all(os.path.isfile(os.path.join(path, name)) for name in ("summary.json", "items.csv"))


def read_files(source: Any) -> list[str]:
    """Return the existing files from which a source of rows is read."""
    # A source is the value of an option: a path, FILE:COLUMN, a pattern, "-" for standard input, or the address of an
    # SQLite or DuckDB database. For other values the list is empty.
    if not isinstance(source, str | os.PathLike):
        return []
    text = os.fsdecode(source)
    scheme, mark, rest = text.partition("://")
    if mark and scheme.lower() in ("sqlite", "duckdb"):
        text = rest.removeprefix("/")
    for name in ("/dev/stdin",) if text == "-" else (text, text.rpartition(":")[0]):
        path = os.path.expanduser(name)
        if os.path.isfile(path):  # with the files that databases keep beside theirs
            beside = [path + ending for ending in ("-wal", "-shm", "-journal", ".wal")]
            return [path, *filter(os.path.isfile, beside)]
        if os.path.isdir(path) and not os.path.exists(os.path.join(path, "summary.json")):
            path = os.path.join(glob.escape(path), "**")
        if found := [each for each in glob.glob(path, recursive=True) if os.path.isfile(each)]:
            return found
    return []


def require_separate(inputs: Iterable[Named], outputs: Iterable[Named]) -> None:
    """Raise an error for an output that is also an input, or that two options would write."""
    # Each path has the name of its option for the message. Files are compared by resolved path and by inode, so that
    # links of both kinds count. Devices and pipes have no content to lose.
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
    """Return what two names of one file have in common: the resolved path, and the inode if it exists."""
    real = os.path.realpath(path)
    try:
        found = os.stat(real)
    except OSError:
        return (real,)
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        return ()
    return real, (found.st_dev, found.st_ino)


class TemporaryFolder:
    """A private folder of this process, of mode 0700 and random name, removed at the end."""

    def __init__(self) -> None:
        try:
            for path in _temporary_folders(_PREFIX):
                _remove_unheld(path)
            self.path, self._handle = _made()
        except OSError as error:
            raise ResourceError(
                f"no temporary folder can be made ({error.strerror or error}); make room, or set "
                "TMPDIR to a folder that can be written to"
            ) from None
        self._count = 0

    def file(self, suffix: str = "") -> str:
        """Return the path of a new file in the folder."""
        self._count += 1
        return os.path.join(self.path, f"{self._count}{suffix}")

    def close(self) -> None:
        """Remove the folder with its content."""
        shutil.rmtree(self.path, ignore_errors=True)
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _made() -> tuple[str, int]:
    """Return the path of a new locked temporary folder and its open handle, -1 for none."""
    while True:
        path = tempfile.mkdtemp(prefix=_own())
        if sys.platform == "win32":
            return path, -1
        with suppress(OSError):  # another run removed it as abandoned before it was locked
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            if _lock(handle, path):
                return path, handle
            os.close(handle)


def _own() -> str:
    """Return the beginning of the names of this process's folders, which differs from its children's."""
    return f"{_PREFIX}{_RUN}-{os.getpid()}-"


def _temporary_folders(prefix: str) -> list[Path]:
    """Return the temporary folders with this beginning; none if they cannot be listed."""
    with suppress(OSError):
        return list(Path(tempfile.gettempdir()).glob(f"{prefix}*"))
    return []


@atexit.register
def _remove_own() -> None:
    """Remove folders of this process that a signal prevented it from removing."""
    for path in _temporary_folders(_own()):
        shutil.rmtree(path, ignore_errors=True)
