"""How many threads to use."""

from __future__ import annotations

import os

from crowdsift.errors import RequestError

__all__ = ["available_threads", "thread_count"]


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
    """The number asked for, or all that are available.

    Examples
    --------
    >>> from crowdsift.threads import thread_count
    >>> thread_count(3)
    3
    """
    if threads is None:
        return available_threads()
    if threads < 1:
        raise RequestError(f"threads must be at least 1, not {threads}")
    return threads
