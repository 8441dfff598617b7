"""Vectors over items and workers that stay on the device, and that NumPy's functions accept.

Solvers are written in NumPy. With a GPU, their operations on vectors of a million items would take longer on the host
than the passes over a hundred million votes, and so would copying the vectors. NumPy lets its arguments define an
operation (`__array_ufunc__`, `__array_function__`), and these vectors perform it on the device. Other operations run on
the host, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from torch import Tensor

from crowdsift.numeric import Vector

# Vectors with at least this number of entries stay on the device; with fewer, launching a kernel takes longer than the
# operation on the host.
_LONG = 1 << 15
_MANY = 1 << 14  # numbers from which on pinned memory pays, which a GPU reads and writes directly


def to_solver(values: Tensor, columns: int = 1) -> Vector:
    """Return a vector for solvers: on the GPU if its columns are long, otherwise an array on the host."""
    if stays(values.device, len(values) * columns):
        return cast("Vector", DeviceVector(values.to(torch.float64)))
    return to_host(values)


def stays(device: torch.device, length: int) -> bool:
    """Return whether vectors of that length stay on the device."""
    return device.type == "cuda" and length >= _LONG


def on_device(values: Any) -> bool:
    """Return whether a vector is on a device."""
    return isinstance(values, DeviceVector)


def to_device(values: Any, device: torch.device) -> Tensor:
    """Return numbers in double precision on a device; those already there are not copied."""
    if isinstance(values, DeviceVector):
        return values.tensor.to(torch.float64).contiguous()
    held = np.asarray(values, np.float64, order="C")
    if device.type == "cuda" and held.size >= _MANY:
        pinned = torch.empty(held.shape, dtype=torch.float64, pin_memory=True)
        np.copyto(pinned.numpy(), held)  # in one thread: waking others takes longer
        return pinned.to(device, non_blocking=True)
    source = torch.from_numpy(held if held.flags.writeable else held.copy())
    return source.to(device, copy=True)


def to_host(values: Tensor) -> Vector:
    """Return numbers in double precision as an array on the host."""
    found = values.to(torch.float64)
    if found.device.type == "cuda" and found.numel() >= _MANY:
        found = torch.empty(found.shape, dtype=torch.float64, pin_memory=True).copy_(found)
    return np.asarray(found.cpu().numpy(), dtype=np.float64)


class DeviceVector(NDArrayOperatorsMixin):
    """A tensor of one or more dimensions that behaves like an array."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __len__(self) -> int:
        return len(self.tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(self.tensor.numel())

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the vector as an array on the host, through pinned memory."""
        source = self.tensor
        if source.device.type == "cuda":
            source = torch.empty(source.shape, dtype=source.dtype, pin_memory=True).copy_(source)
            return np.asarray(source.numpy(), dtype)
        return np.array(source.numpy(), dtype)

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        slices = [each for each in keys if isinstance(each, slice)]
        plain = all(each is None or isinstance(each, slice | int) for each in keys)
        if plain and slices and all((each.step or 1) > 0 for each in slices):
            return DeviceVector(self.tensor[key])
        return np.asarray(self)[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # not a protocol of arrays that is supported
            raise AttributeError(name)
        return getattr(np.asarray(self), name)

    def sum(self, axis: int | None = None) -> Any:
        return self.tensor.sum().item() if axis is None else DeviceVector(self.tensor.sum(axis))

    def mean(self) -> Any:
        return self.tensor.mean().item()

    def max(self, initial: float = -np.inf) -> Any:
        return max(self.tensor.max().item(), initial) if len(self) else initial

    def min(self, initial: float = np.inf) -> Any:
        return min(self.tensor.min().item(), initial) if len(self) else initial

    def any(self) -> bool:
        return bool(self.tensor.any())

    def all(self) -> bool:
        return bool(self.tensor.all())

    def copy(self) -> DeviceVector:
        return DeviceVector(self.tensor.clone())

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *given: Any, out: tuple[Any, ...] = (), **named: Any
    ) -> Any:
        """Return the result of a NumPy operation on vectors of equal length and numbers."""
        # A factor of a product must be on the device, or small enough to be sent there.
        small = (isinstance(x, DeviceVector) or x.ndim == 1 or x.size < _LONG for x in given)
        here = ufunc is not np.matmul or all(small)
        work = _UFUNCS.get(ufunc) if method == "__call__" and not named and here else None
        found = None if work is None else DeviceVector(work(*(_tensor(x, self.tensor) for x in given)))
        if found is None:
            named |= {"out": _hosted(out)} if out else {}
            found = getattr(ufunc, method)(*_hosted(given), **_hosted(named))
        elif not found.ndim:
            return found.tensor.item()
        if not out:
            return found
        target = out[0]
        if isinstance(target, DeviceVector):
            target.tensor.copy_(_tensor(found, target.tensor))
        elif target is not found:
            target[...] = np.asarray(found)
        return target

    def __array_function__(self, function: Any, types: Any, given: Any, named: Any) -> Any:
        """Return the result of a NumPy function: on the device if it is supported, otherwise on the host."""
        work = _FUNCTIONS.get(function)
        if work is not None:
            found = work(*given, **named)
            if found is not None:
                return found
        return function(*_hosted(given), **_hosted(named))


def _tensor(value: Any, like: Tensor) -> Tensor:
    """Return an argument as a tensor; a number becomes double precision."""
    if isinstance(value, DeviceVector):
        return value.tensor
    if isinstance(value, np.ndarray) and value.ndim:
        return torch.from_numpy(np.ascontiguousarray(value)).to(like.device)
    number = np.asarray(value).item()
    return torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None)


def _hosted(value: Any) -> Any:
    """Return arguments with host arrays in place of vectors."""
    if isinstance(value, DeviceVector):
        return np.asarray(value)
    if isinstance(value, dict):
        return {name: _hosted(each) for name, each in value.items()}
    return type(value)(map(_hosted, value)) if type(value) in (tuple, list) else value


def _like(fill: float | None) -> Callable[..., Any]:
    def work(x: Any, dtype: Any = None) -> Any:
        if dtype is not None:
            return None
        made = torch.empty_like(x.tensor)
        return DeviceVector(made if fill is None else made.fill_(fill))

    return work


def _reduced(name: str) -> Callable[..., Any]:
    def work(x: Any, **named: Any) -> Any:
        return getattr(x, name)(**named) if set(named) <= {"initial"} else None

    return work


def _norm(x: Any, axis: int | None = None) -> Any:
    found = torch.linalg.vector_norm(x.tensor, dim=axis)
    return found.item() if axis is None else DeviceVector(found)


def _clipped(x: Any, low: float, high: float, **named: Any) -> Any:
    plain = isinstance(x, DeviceVector) and np.isscalar(low) and np.isscalar(high) and not named
    return DeviceVector(x.tensor.clamp(float(low), float(high))) if plain else None


def _together(work: Callable[..., Tensor]) -> Callable[..., Any]:
    def joined(parts: Any, axis: int = 0) -> Any:
        if not all(isinstance(part, DeviceVector) for part in parts):
            return None
        return DeviceVector(work([part.tensor for part in parts], axis))

    return joined


def _einsum(subscripts: str, *given: Any) -> Any:
    if not all(isinstance(x, DeviceVector) for x in given):
        return None
    found = torch.einsum(subscripts, *(x.tensor for x in given))
    return DeviceVector(found) if found.dim() else found.item()


def _log_determinants(x: DeviceVector) -> Any:
    sign, size = torch.linalg.slogdet(x.tensor)
    return DeviceVector(sign), DeviceVector(size)


def _power(x: Tensor, k: Tensor) -> Tensor:
    return x ** (k.item() if k.dim() == 0 else k)


_UFUNCS: dict[np.ufunc, Callable[..., Tensor]] = {
    np.add: torch.add,
    np.subtract: torch.subtract,
    np.multiply: torch.multiply,
    np.divide: torch.divide,
    np.negative: torch.negative,
    np.absolute: torch.abs,
    np.power: _power,
    np.square: torch.square,
    np.sqrt: torch.sqrt,
    np.exp: torch.exp,
    np.log: torch.log,
    np.maximum: torch.maximum,
    np.minimum: torch.minimum,
    np.isfinite: torch.isfinite,
    np.greater: torch.gt,
    np.greater_equal: torch.ge,
    np.less: torch.lt,
    np.less_equal: torch.le,
    np.equal: torch.eq,
    np.not_equal: torch.ne,
    np.logical_and: torch.logical_and,
    np.logical_not: torch.logical_not,
    np.bitwise_and: torch.bitwise_and,
    np.matmul: torch.matmul,
}
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.zeros_like: _like(0.0),
    np.ones_like: _like(1.0),
    np.empty_like: _like(None),
    np.sum: _reduced("sum"),
    np.mean: _reduced("mean"),
    np.max: _reduced("max"),
    np.min: _reduced("min"),
    np.any: _reduced("any"),
    np.all: _reduced("all"),
    np.linalg.norm: _norm,
    np.clip: _clipped,
    np.concatenate: _together(torch.cat),
    np.stack: _together(torch.stack),
    np.roll: lambda x, shift: DeviceVector(torch.roll(x.tensor, shift)),
    np.einsum: _einsum,
    np.linalg.inv: lambda x: DeviceVector(torch.linalg.inv(x.tensor)),
    np.linalg.slogdet: _log_determinants,
}
