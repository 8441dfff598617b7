"""Votes for property tests: few items and workers, so that every corner is met often."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from crowdsift import Comparisons


@st.composite
def comparisons(
    draw: st.DrawFn, *, decided: bool = False, weighted: bool = True, connected: bool = False
) -> Comparisons:
    """Comparisons of 2 to 6 items by 1 to 4 workers; workers and items without votes occur."""
    k = draw(st.integers(2, 6))
    m = draw(st.integers(1, 4))
    n = draw(st.integers(1, 25))
    first = draw(arrays(np.uint32, n, elements=st.integers(0, k - 1)))
    step = draw(arrays(np.uint32, n, elements=st.integers(1, k - 1)))
    second = (first + step) % np.uint32(k)
    levels = [0.0, 1.0] if decided else [0.0, 0.25, 0.5, 1.0]
    outcome = draw(arrays(np.float32, n, elements=st.sampled_from(levels)))
    weight = np.ones(n, np.float32)
    if weighted:
        weight = draw(arrays(np.float32, n, elements=st.sampled_from([0.5, 1.0, 3.0])))
    worker = draw(arrays(np.uint32, n, elements=st.integers(0, m - 1)))
    if connected:  # a chain through all items
        first = np.append(first, np.arange(k - 1, dtype=np.uint32))
        second = np.append(second, np.arange(1, k, dtype=np.uint32))
        outcome = np.append(outcome, np.ones(k - 1, np.float32))
        weight = np.append(weight, np.ones(k - 1, np.float32))
        worker = np.append(worker, np.zeros(k - 1, np.uint32))
    return Comparisons.from_codes(
        first,
        second,
        worker=worker,
        outcome=outcome,
        weight=weight,
        items=np.array([f"i{j}" for j in range(k)], dtype=object),
        workers=np.array([f"w{s}" for s in range(m)], dtype=object),
        sides_known=draw(st.booleans()),
    )


def vectors(length: int, size: float = 3.0) -> st.SearchStrategy[np.ndarray]:
    """Vectors of moderate doubles without denormal numbers."""
    return arrays(
        np.float64, length, elements=st.floats(-size, size, allow_subnormal=False, width=32)
    )
