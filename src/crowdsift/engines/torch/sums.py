"""Sums by item, worker or pair that are the same bytes whatever the order of adding.

Values are added as whole multiples of a power of two, in integers of 64 bits: on a device many
threads add at once, in no fixed order, and only sums of integers do not depend on it. The power is
the smallest for which no sum can overflow, so that the rounding of a value is at most 2⁻⁶² of the
largest possible sum, finer than that of a sum in double precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ExactSum", "exact_sum", "fixed_point"]

_BITS = 62
_PART = 1 << 26  # values that are turned into integers at once


def fixed_point(bound: Tensor, most: int) -> Tensor:
    """The exponent e for which `most` values of at most `bound`, times 2ᵉ, add up to below 2⁶²."""
    exponent = torch.frexp(bound.to(torch.float64))[1]
    found: Tensor = _BITS - max(int(most), 1).bit_length() - exponent
    return found


class ExactSum:
    """Sums of values by index, at most `most` of them to an index, none larger than `bound`.

    Where the bound is no finite number the sums are none either.
    """

    def __init__(self, shape: Any, most: int, bound: Tensor) -> None:
        self._bound = bound.to(torch.float64)
        self._shift = fixed_point(self._bound, most)
        self._sums = torch.zeros(shape, dtype=torch.int64, device=bound.device)

    def add(self, index: Tensor, values: Tensor, *, sign: int = 1) -> None:
        """Add values, or take them away."""
        for begin in range(0, len(values), _PART):
            some = values[begin : begin + _PART].to(torch.float64)
            whole = torch.ldexp(some, self._shift).round_().to(torch.int64)
            self._sums.index_add_(0, index[begin : begin + _PART], whole, alpha=sign)

    def total(self) -> Tensor:
        """The sums in double precision."""
        sums: Tensor = torch.ldexp(self._sums.to(torch.float64), -self._shift)
        return sums + 0.0 * self._bound


def exact_sum(index: Tensor, values: Tensor, size: int, most: int) -> Tensor:
    """Sums of values (an entry or a row each) by index, at most `most` to one."""
    bound = values.abs().max() if values.numel() else values.new_zeros(())
    sums = ExactSum((size, *values.shape[1:]), most, bound)
    sums.add(index, values)
    return sums.total()
