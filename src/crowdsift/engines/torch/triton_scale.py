"""The scale of sums in fixed point, by one kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["powers_of_two"]


@triton.jit
def _powers(bound, out, bits):
    """The power of two for which so many sums of the bound stay below 2⁶², and its inverse."""
    exponent = (tl.load(bound).to(tl.float64).to(tl.int64, bitcast=True) >> 52) & 2047
    power = 62 - bits - tl.where(exponent == 0, 0, exponent - 1022)
    power = tl.minimum(tl.maximum(power, -1022), 1022)
    tl.store(out, ((power + 1023) << 52).to(tl.float64, bitcast=True))
    tl.store(out + 1, ((1023 - power) << 52).to(tl.float64, bitcast=True))


def powers_of_two(bound: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """See `sums.FixedPoint`."""
    out = torch.empty(2, dtype=torch.float64, device=bound.device)
    _powers[(1,)](bound, out, bits)
    return out[0], out[1]
