"""Votes for property tests: few items and workers, so that every corner is met often."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from crowdsift import Comparisons


def coded_votes(
    n_items: int,
    n_workers: int,
    first: np.ndarray,
    step: np.ndarray,
    worker: np.ndarray,
    outcome: np.ndarray,
    weight: np.ndarray,
    sides_known: bool,
    connected: bool = False,
) -> Comparisons:
    """Comparisons of items i0, i1, ...; a vote is on the items first and first + step."""
    second = (first + step) % np.uint32(n_items)
    if connected:  # a chain through all items
        links = n_items - 1
        first = np.append(first, np.arange(links, dtype=np.uint32))
        second = np.append(second, np.arange(1, n_items, dtype=np.uint32))
        outcome = np.append(outcome, np.ones(links, np.float32))
        weight = np.append(weight, np.ones(links, np.float32))
        worker = np.append(worker, np.zeros(links, np.uint32))
    return Comparisons.from_codes(
        first,
        second,
        worker=worker,
        outcome=outcome,
        weight=weight,
        items=np.array([f"i{j}" for j in range(n_items)], dtype=object),
        workers=np.array([f"w{s}" for s in range(n_workers)], dtype=object),
        sides_known=sides_known,
    )


# Strategies are made once: that takes longer than most draws.
@cache
def codes(length: int, low: int, high: int) -> st.SearchStrategy[np.ndarray]:
    """Arrays of codes."""
    return arrays(np.uint32, length, elements=st.integers(low, high))


@cache
def choices(length: int, values: tuple[float, ...]) -> st.SearchStrategy[np.ndarray]:
    """Arrays of some of these values."""
    return arrays(np.float32, length, elements=st.sampled_from(values))


@st.composite
def comparisons(
    draw: st.DrawFn, *, decided: bool = False, weighted: bool = True, connected: bool = False, workers: int = 4
) -> Comparisons:
    """Comparisons of 2 to 6 items by 1 to `workers`; workers and items without votes occur."""
    k = draw(st.integers(2, 6))
    m = draw(st.integers(1, workers))
    n = draw(st.integers(1, 25))
    levels = (0.0, 1.0) if decided else (0.0, 0.25, 0.5, 1.0)
    weights = (0.5, 1.0, 3.0) if weighted else (1.0,)
    # Built by a call, so that what fails is printed as that call.
    return draw(
        st.builds(
            coded_votes,
            st.just(k),
            st.just(m),
            codes(n, 0, k - 1),
            codes(n, 1, k - 1),
            codes(n, 0, m - 1),
            choices(n, levels),
            choices(n, weights),
            st.booleans(),
            st.just(connected),
        )
    )


@cache
def vectors(length: int, size: float = 3.0) -> st.SearchStrategy[np.ndarray]:
    """Vectors of moderate doubles without denormal numbers."""
    return arrays(np.float64, length, elements=st.floats(-size, size, allow_subnormal=False, width=32))
