"""How many threads to use."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from crowdsift.errors import RequestError

__all__ = ["available_threads", "blas_threads", "thread_count", "thread_notes"]


def available_threads() -> int:
    """The number of cores that this process may use.

    Examples
    --------
    >>> from crowdsift.numeric.threads import available_threads
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
    >>> from crowdsift.numeric.threads import available_threads, thread_count
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
    >>> from crowdsift.numeric.threads import thread_notes
    >>> thread_notes(1)
    []
    """
    there = available_threads()
    if threads is None or threads <= there:
        return []
    return [
        f"{threads} threads were asked for; this machine has {there} cores, and {there} were used"
    ]


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """At most so many threads in NumPy's linear algebra meanwhile, where that is OpenBLAS.

    Examples
    --------
    >>> from crowdsift.numeric.threads import blas_threads
    >>> with blas_threads(1):
    ...     pass
    """
    found = _openblas()
    if found is None:
        yield
        return
    get, put = found
    before = get()
    put(min(before, count))
    try:
        yield
    finally:
        put(before)


@cache
def _openblas() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """The functions of the library that NumPy has loaded that get and set its threads."""
    with suppress(OSError):
        maps = Path("/proc/self/maps").read_text().splitlines()
        for path in sorted({line.split()[-1] for line in maps if "openblas" in line}):
            library = ctypes.CDLL(path)
            for form in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_",
                         "scipy_openblas_{}_num_threads", "openblas_{}_num_threads"):  # fmt: skip
                with suppress(AttributeError):
                    return getattr(library, form.format("get")), getattr(
                        library, form.format("set")
                    )
    return None
