"""What goes to the terminal: results to standard output, all else to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdsift.solvers.convergence import Progress


def say(message: str) -> None:
    """A line on standard error."""
    print(message, file=sys.stderr)


def command_line() -> str:
    """The command as it was given, quoted for a shell."""
    import shlex

    return shlex.join(["crowdsift", *sys.argv[1:]])


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
def fit_progress(title: str, model: Any) -> Iterator[Progress | None]:
    """A line on standard error that says how far a fit is; only on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from crowdsift.report import terminal as console

    with console.fit_progress(title, getattr(model, "tolerance", None)) as progress:
        yield progress


@contextmanager
def step_progress(title: str) -> Iterator[Callable[[str], None] | None]:
    """A line on standard error that names what is being done; only on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from crowdsift.report import terminal as console

    with console.step_progress(title) as progress:
        yield progress
