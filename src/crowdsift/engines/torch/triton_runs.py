"""Sums by item of values that stand together by item: one atomic addition a run of them."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["add_runs"]


@triton.jit
def add_runs(sums, index, i, good, item, whole, count, B: tl.constexpr):
    """Add whole numbers to the sums of their items; `index` has the item of every place i.

    What a run adds is the running sum at its end less that before it: exact, for integers wrap
    around. Correct, if slower, where items do not stand together.
    """
    running = tl.cumsum(tl.where(good, whole, 0), axis=0)
    more = (i + 1 < count) & (tl.arange(0, B) < B - 1)
    following = tl.load(index + i + 1, mask=more, other=0)
    ends = good & ((more == 0) | (following != item))
    tl.atomic_add(sums + item, running, mask=ends, sem="relaxed")
    tl.atomic_add(sums + following, -running, mask=ends & more, sem="relaxed")
