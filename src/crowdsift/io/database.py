"""A private DuckDB: no network, no extensions, no files but those named, and room to spill.

Signals come through: a query runs beside the main thread, which waits for it, so that Ctrl-C or
any exception of a signal handler reaches the caller as it was raised, and stops the query.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crowdsift.errors import ResourceError
from crowdsift.io.resources import available_memory, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crowdsift.io.temporary import TemporaryFolder

__all__ = ["Database", "interruptible", "literal", "memory_limit", "quoted", "reason_of"]

_CANCEL_PERIOD = 2.0  # seconds that a cancelled query has to end before its thread is abandoned


class Database:
    """A database in memory that reads the given files and nothing else."""

    def __init__(self, threads: int, files: Sequence[str], folder: TemporaryFolder) -> None:
        import duckdb

        self._folder = folder
        spill = os.path.join(folder.path, "spill")
        config: dict[str, Any] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": spill,
            "threads": str(threads),
        }
        if (memory := memory_limit()) is not None:
            config["memory_limit"] = f"{memory // 10**6}MB"
        try:
            self.connection = duckdb.connect(":memory:", config=config)
        except duckdb.Error as error:
            raise ResourceError(f"DuckDB cannot start: {reason_of(error)}") from None
        # Without ipywidgets DuckDB refuses in a notebook even to switch the bar off: it has none.
        with suppress(duckdb.InvalidInputException):
            self.connection.execute("SET enable_progress_bar = false")
        allowed = ", ".join(literal(path) for path in files)
        for setting in (
            f"allowed_paths = [{allowed}]",
            f"allowed_directories = [{literal(folder.path + os.sep)}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self.connection.execute(f"SET {setting}")
        self._beside: ThreadPoolExecutor | None = None

    def execute(self, query: str) -> Any:
        """Run a query; errors of DuckDB come through, but for those of a lack of room."""
        import duckdb

        try:
            if threading.current_thread() is not threading.main_thread():
                return self.connection.execute(query)
            return self._beside_main(query)
        except duckdb.OutOfMemoryException as error:
            raise exhausted(error) from None
        except UnicodeDecodeError as error:
            # A message of DuckDB that quotes bytes of the file which are no UTF-8.
            message = error.object.decode("utf-8", "replace")
            raise duckdb.InvalidInputException(message) from None

    def _beside_main(self, query: str) -> Any:
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1, thread_name_prefix="crowdsift-read")
        running = self._beside.submit(self.connection.execute, query)
        try:
            return running.result()
        except BaseException:
            if not running.done():  # a signal, not an error of the query
                self._stop(running)
            raise

    def _stop(self, running: Future[Any]) -> None:
        """End a query; again and again, for one that has not begun yet does not notice."""
        while not running.done():
            self.connection.interrupt()
            wait([running], timeout=0.05)

    def register(self, name: str, values: Any) -> None:
        """Make columns in memory known as a table."""
        self.connection.register(name, values)

    def close(self) -> None:
        """Close the connection."""
        if self._beside is not None:
            self._beside.shutdown()
        self.connection.close()


def interruptible(work: Callable[[list[Callable[[], Any]]], None]) -> None:
    """Run `work` beside the main thread, so that a signal ends it at once.

    Drivers of databases block in C, where a signal handler of Python does not run. The work runs
    in a daemon thread: one that a silent server never answers does not keep the process alive.

    Parameters
    ----------
    work
        Gets a list, to which it appends functions that cancel what it runs.

    Examples
    --------
    >>> from crowdsift.io.database import interruptible
    >>> interruptible(lambda cancels: print("copied"))
    copied
    """
    cancels: list[Callable[[], Any]] = []
    if threading.current_thread() is not threading.main_thread():
        work(cancels)
        return
    result: Future[None] = Future()

    def run() -> None:
        try:
            work(cancels)
            result.set_result(None)
        except BaseException as error:
            result.set_exception(error)

    def cancel() -> None:
        deadline = time.monotonic() + _CANCEL_PERIOD
        while not result.done() and time.monotonic() < deadline:
            for each in tuple(cancels):
                with suppress(Exception):  # nothing runs yet, or no more
                    each()
            wait([result], timeout=0.05)

    threading.Thread(target=run, name="crowdsift-query", daemon=True).start()
    try:
        result.result()
    except BaseException:
        if not result.done():  # a signal, not an error of the work
            # To cancel may block as well, where the server does not answer.
            cancelling = threading.Thread(target=cancel, daemon=True)
            cancelling.start()
            cancelling.join(_CANCEL_PERIOD)
        raise


def exhausted(error: Exception) -> ResourceError:
    """DuckDB found neither memory nor disk for what it had to put aside."""
    limit = memory_limit()
    allowed = "" if limit is None else f" ({readable(limit)} of memory were allowed)"
    return ResourceError(
        f"there is no room to read these votes{allowed}: {reason_of(error)}. Make room in "
        f"{tempfile.gettempdir()}, set TMPDIR to a folder on a larger disk, or give more memory "
        "with CROWDSIFT_MEMORY"
    )


def memory_limit() -> int | None:
    """What DuckDB may take before it spills: half of what there is, the rest is for the codes.

    Examples
    --------
    >>> from crowdsift.io.database import memory_limit
    >>> limit = memory_limit()
    >>> limit is None or limit >= 200_000_000
    True
    """
    there = available_memory()
    return None if there is None else max(there // 2, 200 * 10**6)


def literal(text: str) -> str:
    """Text in SQL.

    Examples
    --------
    >>> from crowdsift.io.database import literal
    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name in SQL.

    Examples
    --------
    >>> from crowdsift.io.database import quoted
    >>> quoted("Answer.choice")
    '"Answer.choice"'
    """
    return '"' + name.replace('"', '""') + '"'


def reason_of(error: Exception) -> str:
    r"""What DuckDB said, in one line, without its advice.

    Examples
    --------
    >>> from crowdsift.io.database import reason_of
    >>> reason_of(Exception("Binder Error: no such column\nLINE 1: ..."))
    'no such column'
    """
    first = str(error).split("\n", 1)[0]
    return first.split("Error: ", 1)[-1].rstrip(" .")
