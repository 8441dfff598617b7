"""Signals: Ctrl-C and a request to end stop the command, clean up, and set its exit status."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

_ALWAYS = (signal.SIGINT, signal.SIGTERM)  # even if they were ignored before
_HANDLED = (*_ALWAYS, *(getattr(signal, name) for name in ("SIGHUP",) if hasattr(signal, name)))
_GRACE_PERIOD = 2.0  # seconds in which a second signal does not disturb cleaning up
_seen: list[tuple[int, float]] = []  # signals, and when they arrived
_deferred: list[None] = []  # while this is not empty, signals wait


class Interrupted(BaseException):
    """A signal, under a name that libraries do not catch and convert."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number

    @property
    def status(self) -> int:
        """Return the exit status that shells use for the signal."""
        return 128 + self.number


@contextmanager
def handle_signals(last: bool = False) -> Iterator[None]:
    """Raise `Interrupted` at Ctrl-C, SIGTERM and SIGHUP inside the block, so that drafts are removed."""
    # SIGHUP stays ignored if it was, as under nohup. With `last` the process ends after the block: a later signal has
    # no effect, since the previous handlers would end the process with a status that means unfinished work.
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
    """Delay signals until the end of the block, for work that cannot be interrupted."""
    _deferred.append(None)
    try:
        yield
    finally:
        _deferred.clear()
    raise_if_seen()


def ignore_signals() -> None:
    """Ignore signals from here on: only the end of the command remains."""
    for number in _HANDLED:
        signal.signal(number, signal.SIG_IGN)


def signal_seen() -> int | None:
    """Return the last signal, for errors that libraries raise in its place."""
    return _seen[-1][0] if _seen else None


def raise_if_seen() -> None:
    """Raise a signal that a callback of the interpreter swallowed, since it may only print exceptions."""
    if _seen:
        raise Interrupted(_seen[-1][0])


def _raise(number: int, _frame: object) -> None:
    now = time.monotonic()
    if _seen and now - _seen[-1][1] < _GRACE_PERIOD:
        return
    _seen.append((number, now))
    if not _deferred:
        raise Interrupted(number)
