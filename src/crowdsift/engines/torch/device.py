"""Which device to use, and what to say where it cannot be."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from crowdsift.errors import RequestError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["GRID_BYTES", "VOTE_BYTES", "chosen_device", "foresee", "memory_errors", "uses_triton"]

# What the engine holds of a vote, and what the sites of sift add to it, each pair compared once:
# index and sort order of pairs, sites before and after a pass, weights, variances and messages.
VOTE_BYTES, GRID_BYTES = 40, 85
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # parameters of glibc's mallopt


def chosen_device(name: str | None, threads: int = 1) -> torch.device:
    """The device of that name; without one a GPU where there is one, else the CPU.

    On the CPU so many threads are used.
    """
    if name is None:
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    device = _checked(name)
    if device.type == "cuda":
        keep_freed_memory()
    if device.type == "cpu" and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    return device


@cache
def keep_freed_memory() -> None:
    """Let the host reuse memory of long vectors instead of giving it back after every use.

    Beside a GPU the host's vectors over items are a large part of the time, and most of that is
    the system filling in fresh pages. With another C library nothing happens.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, 1 << 30)


def uses_triton(device: torch.device) -> bool:
    """Whether passes run as Triton kernels: on a GPU, where Triton is installed."""
    return device.type == "cuda" and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def foresee(device: torch.device, votes: int, each: int, what: str) -> None:
    """Refuse, before any work, what does not fit into the memory of a GPU; with figures."""
    if device.type != "cuda":
        return
    free, total = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if votes * each > free:
        raise ResourceError(_too_much(device, votes, each, what, free, total))


@contextmanager
def memory_errors(device: torch.device, votes: int) -> Iterator[None]:
    """What to do where the device's memory turns out too small after all, with figures."""
    try:
        yield
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(device)
        each = VOTE_BYTES + GRID_BYTES
        raise ResourceError(_too_much(device, votes, each, "a fit", free, total)) from None


def _too_much(device: torch.device, votes: int, each: int, what: str, free: int, total: int) -> str:
    return (
        f"{what} of {votes:,} votes needs about {votes * each / 2**30:,.1f} GiB on {device}, which "
        f"has {total / 2**30:,.1f} GiB, {free / 2**30:,.1f} GiB of them free: use engine 'cpu', "
        "or fit fewer votes"
    )


def _checked(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RequestError(f"no device {name!r}: use cpu, cuda, or cuda:0, cuda:1, ...") from None
    if device.type not in ("cpu", "cuda"):
        raise RequestError(f"the engine runs on cpu and cuda, not on {name!r}")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise RequestError(
                f"device {name!r} was asked for, but PyTorch {torch.__version__} finds no CUDA "
                "device: the driver may be missing or too old, or this is a build for the CPU; "
                "use device 'cpu' or engine 'cpu'"
            )
        count = torch.cuda.device_count()
        if device.index is not None and device.index >= count:
            raise RequestError(f"device {name!r} was asked for, but there are {count}, from cuda:0")
    return device
