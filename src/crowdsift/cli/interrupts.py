"""Signals: Ctrl-C and a request to end stop the command, clean up, and say so in the status."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

_ALWAYS = (signal.SIGINT, signal.SIGTERM)  # also where they were ignored before
_HANDLED = (*_ALWAYS, *(getattr(signal, name) for name in ("SIGHUP",) if hasattr(signal, name)))
_GRACE_PERIOD = 2.0  # seconds in which cleaning up is not disturbed by a second signal
_seen: list[tuple[int, float]] = []  # signals, and when they came
_deferred: list[None] = []  # not empty: they wait


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
def handle_signals(last: bool = False) -> Iterator[None]:
    """Raise `Interrupted` at Ctrl-C, SIGTERM and SIGHUP meanwhile, so that drafts are removed."""
    # SIGHUP stays ignored where it was, as under nohup. `last`: the process ends with the block: a signal that comes
    # later changes nothing, where the handlers from before would end it with a status that says that the work was not
    # done.
    _seen.clear()
    before = {
        number: signal.signal(number, _raise)
        for number in _HANDLED
        if number in _ALWAYS or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if last else handler)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Raise what comes meanwhile at the end only: for what cannot be interrupted."""
    _deferred.append(None)
    try:
        yield
    finally:
        _deferred.clear()
    raise_if_seen()


def ignore_signals() -> None:
    """From here on the command only says how it ends."""
    for number in _HANDLED:
        signal.signal(number, signal.SIG_IGN)


def signal_seen() -> int | None:
    """Return the last signal, for errors that libraries raise in its place."""
    return _seen[-1][0] if _seen else None


def raise_if_seen() -> None:
    """Raise what a callback of the interpreter swallowed: it may print an exception and go on."""
    if _seen:
        raise Interrupted(_seen[-1][0])


def _raise(number: int, _frame: object) -> None:
    now = time.monotonic()
    if _seen and now - _seen[-1][1] < _GRACE_PERIOD:
        return
    _seen.append((number, now))
    if not _deferred:
        raise Interrupted(number)
