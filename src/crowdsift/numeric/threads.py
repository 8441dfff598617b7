"""Check numbers that users give, and choose the number of threads."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from threadpoolctl import LibController


def available_threads() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(threads: int | None) -> int:
    """Return the number requested, but at most the number of cores, which is the default."""
    # More threads than cores would wait for each other, and each needs memory for all items.
    return available_threads() if threads is None else min(whole_number("threads", threads, 1), available_threads())


def thread_notes(threads: int | None) -> list[str]:
    """Return a message if more threads are requested than there are cores."""
    there = available_threads()
    if threads is None or threads <= there:
        return []
    return [f"{threads} threads were asked for; this machine has {there} cores, and {there} were used"]


@contextmanager
def blas_threads(count: int, dense: int | None = None) -> Iterator[None]:
    """Limit NumPy's linear algebra to this number of threads inside the block, without raising the limit."""
    # Idle threads of BLAS spin for a while after every long product and compete with ours for cores. So a fit allows
    # one, and `dense` of them inside `dense_algebra`. The setting belongs to the whole process; calls may overlap in
    # several threads, and the last one to end restores the original setting.
    limit = _Limit(count, count if dense is None else dense)
    with _LOCK:
        _LIMITS.append(limit)
        _apply()
    try:
        yield
    finally:
        with _LOCK:
            _LIMITS.remove(limit)
            _apply()


@contextmanager
def dense_algebra() -> Iterator[None]:
    """Allow as many threads in a dense factorisation as the call around it permits."""
    with blas_threads(_LIMITS[-1].dense if _LIMITS else available_threads()):
        yield


class _Limit:
    """The threads that one call requests; compared by identity, not by value."""

    def __init__(self, count: int, dense: int) -> None:
        self.count, self.dense = count, dense


_LOCK = Lock()
_LIMITS: list[_Limit] = []


def _apply() -> None:
    for library, before in _libraries():
        library.set_num_threads(min(before, _LIMITS[-1].count) if _LIMITS else before)


@cache
def _libraries() -> list[tuple[LibController, int]]:
    # A callback of ctypes finds the libraries, and Python only prints exceptions inside it. Signal handlers run in the
    # main thread only, so the search runs in another one.
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # a source tree with only NumPy and torch: BLAS keeps its threads
        return []
    with ThreadPoolExecutor(1) as beside:
        found = beside.submit(ThreadpoolController).result().select(user_api="blas").lib_controllers
    return [(library, library.num_threads) for library in found]


def whole_number(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """Return the value as an int; raise an error unless it is a whole number in the range."""
    try:
        found = operator.index(value) if not isinstance(value, bool | np.bool_) else None
    except TypeError:
        found = None
    wanted = None
    if found is None:
        wanted = "a whole number"
    elif found < least:
        wanted = f"at least {least}"
    elif found > most:
        wanted = f"at most {most}"
    if found is None or wanted:
        raise RequestError(f"{name} must be {wanted}, not {_shown(value)}")
    return found


def number(name: str, value: Any) -> float:
    """Return the value as a float; raise an error unless it is a finite real number."""
    real = isinstance(value, int | float | np.integer | np.floating)
    if not real or isinstance(value, bool) or not np.isfinite(float(value)):
        raise RequestError(f"{name} must be a finite number, not {_shown(value)}")
    return float(value)


def yes_or_no(name: str, value: Any) -> bool:
    """Return the value; raise an error unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise RequestError(f"{name} must be True or False, not {_shown(value)}")
    return bool(value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
