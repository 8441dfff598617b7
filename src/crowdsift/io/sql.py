"""SQL: a private DuckDB, conditions (`--where`), and addresses of other databases.

This DuckDB has no network, no extensions, only the named files, and a folder for temporary data.

Signals are handled: a query runs in another thread while the main thread waits for it. So Ctrl-C, or any exception of a
signal handler, stops the query and reaches the caller unchanged.
"""

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np

from crowdsift.errors import RequestError, ResourceError
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.resources import available_memory, readable
from crowdsift.numeric import Mask

Cancels = list[Callable[[], Any]]  # functions that stop a query

_CANCEL_PERIOD = 2.0  # seconds that a cancelled query has before its thread is abandoned
_SCHEMES = {"postgresql": "postgresql", "postgres": "postgresql", "sqlite": "sqlite", "duckdb": "duckdb"}
STUDY_MARK = b"csft"  # application_id of the files of `crowdsift ask`
STUDY_QUERY = 'SELECT "left", "right", winner, worker, prompt, milliseconds, time FROM votes'
_SECRETS = re.compile(r"(?i)((?:password|sslpassword|passwd)=)[^&\s'\"]*")
_USERINFO = re.compile(r"(?i)(postgres(?:ql)?://)[^\s'\"]*@")


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
        # Without ipywidgets there is no bar, and DuckDB refuses even to switch it off in a notebook.
        with suppress(duckdb.InvalidInputException):
            self.connection.execute("SET enable_progress_bar = false")
        confine(self.connection, folder, files)
        self._beside: ThreadPoolExecutor | None = None

    def execute(self, query: str) -> Any:
        """Run a query; errors of DuckDB pass through, except those for lack of memory or disk."""
        import duckdb

        try:
            if threading.current_thread() is not threading.main_thread():
                return self.connection.execute(query)
            return self._beside_main(query)
        except duckdb.OutOfMemoryException as error:
            raise exhausted(error) from None
        except UnicodeDecodeError as error:
            # DuckDB's message quotes bytes of the file that are not UTF-8.
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
        """Stop a query; repeatedly, since a query that has not begun yet does not react."""
        while not running.done():
            self.connection.interrupt()
            wait([running], timeout=0.05)

    def register(self, name: str, values: Any) -> None:
        """Make columns in memory available as a table."""
        self.connection.register(name, values)

    def close(self) -> None:
        if self._beside is not None:
            self._beside.shutdown()
        self.connection.close()


def confine(connection: Any, folder: TemporaryFolder, files: Sequence[str] = ()) -> None:
    """Restrict a DuckDB connection to reading these files and writing into the folder."""
    for setting in (
        f"allowed_paths = [{', '.join(map(literal, files))}]",
        f"allowed_directories = [{literal(folder.path + os.sep)}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")


def interruptible(work: Callable[[Cancels], None]) -> None:
    """Run `work` in another thread, so that a signal ends it at once."""
    # Drivers of databases block in C, where a signal handler of Python does not run. The work runs in a daemon thread,
    # so that a server which never answers does not keep the process alive. `work` gets a list, to which it appends
    # functions that cancel it.
    cancels: Cancels = []
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
                with suppress(Exception):  # nothing runs yet, or no longer
                    each()
            wait([result], timeout=0.05)

    threading.Thread(target=run, name="crowdsift-query", daemon=True).start()
    try:
        result.result()
    except BaseException:
        if not result.done():  # a signal, not an error of the work
            # Cancelling may block as well, if the server does not answer.
            cancelling = threading.Thread(target=cancel, daemon=True)
            cancelling.start()
            cancelling.join(_CANCEL_PERIOD)
        raise


def exhausted(error: Exception) -> ResourceError:
    """Return the error for a lack of memory and of disk space for temporary data."""
    limit = memory_limit()
    allowed = "" if limit is None else f" ({readable(limit)} of memory were allowed)"
    return ResourceError(
        f"there is no room to read these votes{allowed}: {reason_of(error)}. Make room in {tempfile.gettempdir()}, set "
        "TMPDIR to a folder on a larger disk, or give more memory with CROWDSIFT_MEMORY"
    )


def memory_limit() -> int | None:
    """Return the memory that DuckDB may use before it writes to disk: half of what is available."""
    there = available_memory()
    return None if there is None else max(there // 2, 200 * 10**6)


def literal(text: str) -> str:
    """Return text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def reason_of(error: Exception) -> str:
    r"""Return DuckDB's message, in one line, without its advice."""
    first = str(error).split("\n", 1)[0]
    return first.split("Error: ", 1)[-1].rstrip(" .")


def require_condition(condition: str) -> None:
    """Raise an error for anything other than one condition."""
    import duckdb

    try:
        statements = duckdb.extract_statements(f"SELECT 1 WHERE (\n{condition}\n)")
        alone = duckdb.extract_statements(f"SELECT ({condition}\n)")
    except duckdb.Error as error:
        raise wrong_condition(condition, reason_of(error)) from None
    if len(statements) != 1 or len(alone) != 1:
        raise wrong_condition(condition, "it holds several statements")


def identifiers(condition: str) -> set[str]:
    r"""Return the names in a condition, in lower case, without quoted texts."""
    names = re.findall(r"""'(?:[^']|'')*'|"((?:[^"]|"")*)"|(\w+)""", condition)
    return {(long or short).casefold() for long, short in names if long or short}


def wrong_condition(condition: str, reason: str) -> RequestError:
    """Return the error for a condition that SQL does not accept."""
    shown = condition if len(condition) <= 100 else f"{condition[:97]}..."
    reason = re.sub(r'^Referenced column ("[^"]*") not found.*', r"there is no column \1", reason)
    return RequestError(
        f'--where (where=): "{shown}" is not a condition on the columns ({reason}); write it as '
        "in SQL, for example AssignmentStatus != 'Rejected', a name with dots or blanks in double "
        "quotes: \"Answer.choice\" <> ''"
    )


def numeric_columns(execute: Callable[[str], Any], rows: str, columns: Mapping[str, str], condition: str) -> set[str]:
    """Return the columns of text that a condition compares with numbers, and that contain numbers."""
    # If SQL accepts the condition with text, no column is a number.
    import duckdb

    given = [f"{column} AS {quoted(name)}" for name, column in columns.items()]
    try:
        execute(f"SELECT ({condition}\n)::BOOLEAN FROM (SELECT {', '.join(given)} FROM {rows}) LIMIT 0")
        return set()
    except duckdb.BinderException as error:
        if "ompare" not in str(error) and "No function matches" not in str(error):
            return set()
    except duckdb.Error:
        return set()
    named = [name for name in columns if name.casefold() in condition.casefold()]
    if not named:
        return set()
    checks = ", ".join(
        f"coalesce(bool_and(TRY_CAST({columns[name]} AS DOUBLE) IS NOT NULL OR "
        f"trim(coalesce({columns[name]}, '')) = ''), false)"
        for name in named
    )
    found = execute(f"SELECT {checks} FROM (SELECT * FROM {rows} LIMIT 20000)").fetchone()
    return {name for name, is_number in zip(named, found, strict=True) if is_number}


def meets(frame: Any, condition: str) -> Mask:
    """Return which rows of a frame, or of columns in memory, meet a condition."""
    import duckdb

    require_condition(condition)
    with closing(TemporaryFolder()) as folder, closing(Database(1, (), folder)) as database:
        try:
            database.register("given", frame)
            kinds = database.execute("DESCRIBE SELECT * FROM given").fetchall()
            text = {name: quoted(name) for name, kind, *_ in kinds if kind == "VARCHAR"}
            numbers = numeric_columns(database.execute, "given", text, condition)
            shown = ", ".join(f"TRY_CAST({quoted(name)} AS DOUBLE) AS {quoted(name)}" for name in numbers)
            rows = f"(SELECT * REPLACE ({shown}) FROM given)" if numbers else "given"
            query = f"SELECT coalesce(({condition}\n)::BOOLEAN, false) AS kept FROM {rows}"
            return np.asarray(database.execute(query).fetchnumpy()["kept"], bool)
        except duckdb.Error as error:
            raise wrong_condition(condition, reason_of(error)) from None


def kind_of_database(source: Any) -> str | None:
    """Return the kind of database of an address or a file; None for anything else."""
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fsdecode(source)
    scheme, mark, _ = text.partition("://")
    if mark:
        return _SCHEMES.get(scheme.lower())
    path = os.path.expanduser(text)
    if not os.path.isfile(path):  # reading from a pipe would consume its content
        return None
    with suppress(OSError), open(path, "rb") as file:
        start = file.read(16)
        if start == b"SQLite format 3\0":
            return "sqlite"
        if start[8:12] == b"DUCK":
            return "duckdb"
    return None


def is_study(source: Any) -> bool:
    """Return whether a file is a study of `crowdsift ask`, whose votes need no query."""
    if kind_of_database(source) != "sqlite" or "://" in os.fsdecode(source):
        return False
    with open(os.path.expanduser(os.fsdecode(source)), "rb") as file:
        return file.read(72)[68:] == STUDY_MARK


def masked(text: str) -> str:
    """Return a text in which addresses of databases have no user and no password."""
    return _SECRETS.sub(r"\1***", _USERINFO.sub(r"\1***@", text))


def shown_address(address: str) -> str:
    """Return an address that may be shown and stored: the place, without the user."""
    if kind_of_database(address) != "postgresql":
        return address
    parts = urlsplit(address)
    where = {k: v for k, v in parse_qsl(parts.query) if k in ("host", "port", "dbname", "service")}
    query = f"?{urlencode(where, safe='/')}" if where else ""
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}{query}"
