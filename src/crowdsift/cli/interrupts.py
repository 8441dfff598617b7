"""Signals: Ctrl-C and a request to end stop the command, clean up, and say so in the status."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Interrupted", "heed_signals", "raise_if_seen", "signal_seen"]

_seen: list[int] = []


class Interrupted(BaseException):
    """A signal, under a name that no library in between catches and turns into its own."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number

    @property
    def status(self) -> int:
        """The exit status that shells give for the signal."""
        return 128 + self.number


@contextmanager
def heed_signals() -> Iterator[None]:
    """Raise `Interrupted` at Ctrl-C and at SIGTERM meanwhile, so that files are removed."""
    _seen.clear()
    before = {number: signal.signal(number, _raise) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def signal_seen() -> int | None:
    """The last signal, for errors that libraries raise in its place."""
    return _seen[-1] if _seen else None


def raise_if_seen() -> None:
    """Raise what a callback of the interpreter swallowed: it may print an exception and go on."""
    if _seen:
        raise Interrupted(_seen[-1])


def _raise(number: int, _frame: object) -> None:
    _seen.append(number)
    raise Interrupted(number)
