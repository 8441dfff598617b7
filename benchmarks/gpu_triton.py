"""A kernel that does nothing but exponentials."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["repeated_exponential"]


@triton.jit
def repeated_exponential(values, out, size, B: tl.constexpr, EACH: tl.constexpr):
    """So many exponentials of every value, each of the one before."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(values + i, mask=i < size, other=0.0)
    for _ in range(EACH):
        x = tl.exp(-x)
    tl.store(out + i, x, mask=i < size)
