"""Which device to use, and what to say where it cannot be."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from crowdsift.errors import RequestError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BYTES_A_VOTE", "chosen_device", "memory_errors", "uses_triton"]

# What the engine and one run of sift hold of a vote, each pair compared once.
BYTES_A_VOTE = 100


def chosen_device(name: str | None, threads: int = 1) -> torch.device:
    """The device of that name; without one a GPU where there is one, else the CPU.

    On the CPU so many threads are used.
    """
    if name is None:
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    device = _checked(name)
    if device.type == "cpu" and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    return device


def uses_triton(device: torch.device) -> bool:
    """Whether passes run as Triton kernels: on a GPU, where Triton is installed."""
    return device.type == "cuda" and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


@contextmanager
def memory_errors(device: torch.device, votes: int) -> Iterator[None]:
    """What to do where the device's memory is too small, with figures."""
    try:
        yield
    except torch.OutOfMemoryError:
        free, total = torch.cuda.mem_get_info(device)
        raise ResourceError(
            f"{votes:,} votes need about {votes * BYTES_A_VOTE / 2**30:.0f} GiB on {device}, which "
            f"has {total / 2**30:.0f} GiB, {free / 2**30:.0f} GiB of them free: use engine 'cpu', "
            "or fit fewer votes"
        ) from None


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
