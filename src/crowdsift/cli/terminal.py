"""Output of commands: results to standard output, everything else to standard error."""

from __future__ import annotations

import io
import json
import logging
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdsift.results import CONTROLS, plain_text

if TYPE_CHECKING:
    from crowdsift.fitting import Progress


_LONGEST = 2000  # characters, about a screen


def say(message: str) -> None:
    """Write a line to standard error, without control characters and no longer than a screen."""
    if sys.stderr is None:
        return
    text = plain_text(message)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 4]} ..."
    with suppress(OSError, ValueError):  # no process reads the output, which is no reason to stop
        encoding = sys.stderr.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def command_line() -> str:
    """Return the command as typed, quoted for a shell, without passwords."""
    import shlex

    from crowdsift.io import masked

    return shlex.join(["crowdsift", *map(masked, sys.argv[1:])])


def warn(notes: tuple[str, ...]) -> None:
    """Print warnings of a result on standard error."""
    for note in notes:
        say(f"crowdsift: warning: {note}")


def to_json(value: Any) -> str:
    r"""Return one line of JSON, with control characters escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return CONTROLS.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n"


def print_text(text: str) -> None:
    """Print in UTF-8 in any locale; on a terminal, control characters are shown as escapes."""
    if sys.stdout.isatty():
        text = plain_text(text)
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(text)


@contextmanager
def whole_writes() -> Iterator[None]:
    """Make standard output write everything, or raise an error."""
    # Without a buffer (python -u, PYTHONUNBUFFERED) Python drops the part that a single system call does not accept:
    # the end of a long text on a full disk, or in a non-blocking pipe.
    before = sys.stdout
    try:
        raw = _WholeWrites(before.fileno())
    except (AttributeError, OSError, ValueError):  # closed, or not a file
        yield
        return
    before.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=before.encoding, errors="backslashreplace", line_buffering=before.isatty()
    )
    ours = sys.stdout
    try:
        try:
            yield
        except SystemExit:
            ours.flush()
            raise
        ours.flush()
    finally:
        sys.stdout = before
        with suppress(OSError):  # an error of the output was raised above
            ours.close()


class _WholeWrites(io.RawIOBase):
    """A file descriptor whose write accepts everything, even for a non-blocking pipe."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._handle

    def isatty(self) -> bool:
        return os.isatty(self._handle)

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        while rest:
            try:
                rest = rest[os.write(self._handle, rest) :]
            except BlockingIOError:
                select.select([], [self._handle], [])
        return len(data)


def show_table(table: Any, out: Path | None, *, as_json: bool, quiet: bool = False) -> None:
    """Write a table as CSV into a file if there is one; print it as JSON, or as CSV without a file."""
    if out is not None:
        write_csv(table, out)
        if not quiet:
            say(f"Written: {out} ({table.height:,} rows)")
    if as_json:
        print_text(to_json(table.records()))
    elif out is None:
        print_text(table.to_csv())


def write_csv(table: Any, out: Path) -> None:
    """Write a table into a CSV file."""
    from crowdsift.io import replace_file

    with replace_file(out) as temporary:
        temporary.write_text(table.to_csv(), encoding="utf-8", newline="")


@contextmanager
def on_terminal(bar: Callable[[], AbstractContextManager[Any]], quiet: bool = False) -> Iterator[Any]:
    """Yield the function of a progress bar on standard error; None if that is no terminal."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with bar() as progress:
        yield progress


def fit_progress(title: str, model: Any, *, quiet: bool = False) -> AbstractContextManager[Progress | None]:
    """Return a context with a function that shows the progress of a fit."""

    def bar() -> AbstractContextManager[Progress]:
        from crowdsift.report.progress import fit_progress

        return fit_progress(title, getattr(model, "tolerance", None))

    return on_terminal(bar, quiet)


@contextmanager
def log_to_stderr(quiet: bool = False) -> Iterator[None]:
    """Print the log of an engine on a cluster (where it runs, what was lost) on standard error."""
    log, handler = logging.getLogger("crowdsift"), _StderrHandler()
    before = log.level, log.propagate
    log.propagate = False
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before


class _StderrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def step_progress(
    title: str, stages: Sequence[str] = (), *, quiet: bool = False
) -> AbstractContextManager[Callable[[str], None] | None]:
    """Return a context with a function that shows the name of the current step."""

    def bar() -> AbstractContextManager[Callable[[str], None]]:
        from crowdsift.report.progress import step_progress

        return step_progress(title, stages)

    return on_terminal(bar, quiet)
