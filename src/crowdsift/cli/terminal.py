"""What goes to the terminal: results to standard output, all else to standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdsift.solvers.convergence import Progress


_LONGEST = 2000  # characters: about a screen


def say(message: str) -> None:
    """A line on standard error, without control characters, never longer than a screen."""
    if sys.stderr is None:
        return
    text = plain_text(message)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 4]} ..."
    with suppress(OSError, ValueError):  # nobody listens: that is no reason to stop
        encoding = sys.stderr.encoding or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def plain_text(text: str) -> str:
    r"""Text in which control characters, such as terminal escape sequences, are shown as \xNN.

    Examples
    --------
    >>> from crowdsift.cli.terminal import plain_text
    >>> plain_text("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(
        char if char == "\n" or not (ord(char) < 32 or 127 <= ord(char) < 160)
        else char.encode("unicode_escape").decode()
        for char in text
    )  # fmt: skip


def command_line() -> str:
    """The command as it was given, quoted for a shell, without passwords."""
    import shlex

    from crowdsift.io.databases import masked

    return shlex.join(["crowdsift", *map(masked, sys.argv[1:])])


def warn(notes: tuple[str, ...]) -> None:
    """Warnings of a result on standard error."""
    for note in notes:
        say(f"crowdsift: warning: {note}")


def to_json(value: Any) -> str:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def print_text(text: str) -> None:
    """Print in UTF-8 whatever the terminal's own encoding is."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(text)


@contextmanager
def fit_progress(title: str, model: Any, *, quiet: bool = False) -> Iterator[Progress | None]:
    """A line on standard error that says how far a fit is; only on a terminal."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from crowdsift.report import progress as console

    with console.fit_progress(title, getattr(model, "tolerance", None)) as progress:
        yield progress


@contextmanager
def log_to_stderr(quiet: bool = False) -> Iterator[None]:
    """What an engine on a cluster logs (where it runs, what was lost) on standard error."""
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


@contextmanager
def step_progress(title: str, *, quiet: bool = False) -> Iterator[Callable[[str], None] | None]:
    """A line on standard error that names what is being done; only on a terminal."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from crowdsift.report import progress as console

    with console.step_progress(title) as progress:
        yield progress
