"""How many threads to use."""

from __future__ import annotations

import os

from crowdsift.errors import RequestError

__all__ = ["available_threads", "thread_count", "thread_notes"]


def available_threads() -> int:
    """The number of cores that this process may use.

    Examples
    --------
    >>> from crowdsift.threads import available_threads
    >>> available_threads() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(threads: int | None) -> int:
    """The number asked for, at most as many as there are cores, or else all of them.

    More threads than cores would wait for each other and each take memory for all items.

    Examples
    --------
    >>> from crowdsift.threads import available_threads, thread_count
    >>> thread_count(1), thread_count(10**6) == available_threads()
    (1, True)
    """
    if threads is not None and threads < 1:
        raise RequestError(f"threads must be at least 1, not {threads}")
    return min(threads or available_threads(), available_threads())


def thread_notes(threads: int | None) -> list[str]:
    """What to tell who asked for more threads than there are cores.

    Examples
    --------
    >>> from crowdsift.threads import thread_notes
    >>> thread_notes(1)
    []
    """
    there = available_threads()
    if threads is None or threads <= there:
        return []
    return [
        f"{threads} threads were asked for; this machine has {there} cores, and {there} were used"
    ]
