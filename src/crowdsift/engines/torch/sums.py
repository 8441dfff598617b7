"""Sums by item, worker or pair whose bytes do not depend on the order of summation.

Values are added as multiples of a power of two, in integers of 64 bits. On a device many threads add at the same time,
in no fixed order, and only sums of integers are then reproducible. The power is the smallest for which no sum can
overflow, so that the rounding of a value is at most 2⁻⁶² of the largest possible sum, less than that of a sum in double
precision.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_PART = 1 << 26  # values converted to integers at a time


@triton.jit
def _powers(bound, out, bits):
    """Store the power of two by which 2^bits sums of the bound stay below 2⁶², and its inverse."""
    exponent = (tl.load(bound).to(tl.float64).to(tl.int64, bitcast=True) >> 52) & 2047
    power = 62 - bits - tl.where(exponent == 0, 0, exponent - 1022)
    power = tl.minimum(tl.maximum(power, -1022), 1022)
    tl.store(out, ((power + 1023) << 52).to(tl.float64, bitcast=True))
    tl.store(out + 1, ((1023 - power) << 52).to(tl.float64, bitcast=True))


class FixedPoint:
    """`up`, a power of two, and its inverse, such that `most` values up to `bound` sum to less than 2⁶²."""

    def __init__(self, bound: Tensor, most: int) -> None:
        powers = torch.empty(2, dtype=torch.float64, device=bound.device)
        _powers[(1,)](bound, powers, max(int(most), 1).bit_length())
        self.up, self.down = powers[0], powers[1]

    def whole(self, values: Tensor) -> Tensor:
        """Return values as integers."""
        return (values.to(torch.float64) * self.up).round_().to(torch.int64)

    def values(self, whole: Tensor) -> Tensor:
        """Return integers as values."""
        return whole.to(torch.float64) * self.down


class ExactSum:
    """Sum values by index: at most `most` per index, none larger than `bound`.

    If the bound is not finite, neither are the sums.
    """

    def __init__(self, shape: Any, most: int, bound: Tensor) -> None:
        self._bound = bound.to(torch.float64)
        self._scale = FixedPoint(self._bound, most)
        self._sums = torch.zeros(shape, dtype=torch.int64, device=bound.device)

    def add(self, index: Tensor, values: Tensor, *, sign: int = 1) -> None:
        """Add values, or subtract them if the sign is -1."""
        for begin in range(0, len(values), _PART):
            whole = self._scale.whole(values[begin : begin + _PART])
            self._sums.index_add_(0, index[begin : begin + _PART], whole, alpha=sign)

    def total(self) -> Tensor:
        """Return the sums in double precision."""
        return self._scale.values(self._sums) + 0.0 * self._bound


def exact_sum(index: Tensor, values: Tensor, size: int, most: int) -> Tensor:
    """Return the sums of values (an entry or a row each) by index, with at most `most` values per index."""
    bound = values.abs().max() if values.numel() else values.new_zeros(())
    sums = ExactSum((size, *values.shape[1:]), most, bound)
    sums.add(index, values)
    return sums.total()
