"""Sums by item, worker or pair that are the same bytes whatever the order of adding.

Values are added as whole multiples of a power of two, in integers of 64 bits: on a device many
threads add at once, in no fixed order, and only sums of integers do not depend on it. The power is
the smallest for which no sum can overflow, so that the rounding of a value is at most 2⁻⁶² of the
largest possible sum, finer than that of a sum in double precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from crowdsift.engines.torch.device import uses_triton

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ExactSum", "FixedPoint", "exact_sum"]

_BITS, _FARTHEST = 62, 1_022
_PART = 1 << 26  # values that are turned into integers at once


class FixedPoint:
    """`up`, a power of two, and its inverse: `most` values up to `bound` add up to below 2⁶²."""

    def __init__(self, bound: Tensor, most: int) -> None:
        if uses_triton(bound.device):  # one kernel in place of a dozen
            from crowdsift.engines.torch.triton_scale import powers_of_two

            self.up, self.down = powers_of_two(bound, max(int(most), 1).bit_length())
            return
        exponent = torch.frexp(bound.to(torch.float64))[1].to(torch.int64)
        shift = _BITS - max(int(most), 1).bit_length() - exponent
        shift = shift.clamp(-_FARTHEST, _FARTHEST)
        self.up, self.down = _power_of_two(shift), _power_of_two(-shift)

    def whole(self, values: Tensor) -> Tensor:
        """Values as integers."""
        found: Tensor = (values.to(torch.float64) * self.up).round_().to(torch.int64)
        return found

    def values(self, whole: Tensor) -> Tensor:
        """Integers as values."""
        return whole.to(torch.float64) * self.down


def _power_of_two(exponent: Tensor) -> Tensor:
    """2 to a whole number, by its bits: powers of devices are not exact."""
    found: Tensor = ((exponent + 1023) << 52).view(torch.float64)
    return found


class ExactSum:
    """Sums of values by index, at most `most` of them to an index, none larger than `bound`.

    Where the bound is no finite number the sums are none either.
    """

    def __init__(self, shape: Any, most: int, bound: Tensor) -> None:
        self._bound = bound.to(torch.float64)
        self._scale = FixedPoint(self._bound, most)
        self._sums = torch.zeros(shape, dtype=torch.int64, device=bound.device)

    def add(self, index: Tensor, values: Tensor, *, sign: int = 1) -> None:
        """Add values, or take them away."""
        for begin in range(0, len(values), _PART):
            whole = self._scale.whole(values[begin : begin + _PART])
            self._sums.index_add_(0, index[begin : begin + _PART], whole, alpha=sign)

    def total(self) -> Tensor:
        """The sums in double precision."""
        return self._scale.values(self._sums) + 0.0 * self._bound


def exact_sum(index: Tensor, values: Tensor, size: int, most: int) -> Tensor:
    """Sums of values (an entry or a row each) by index, at most `most` to one."""
    bound = values.abs().max() if values.numel() else values.new_zeros(())
    sums = ExactSum((size, *values.shape[1:]), most, bound)
    sums.add(index, values)
    return sums.total()
