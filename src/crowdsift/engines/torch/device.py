"""Which device to use, and what to say where it cannot be."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from crowdsift.errors import RequestError, ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crowdsift.votes.comparisons import Comparisons

__all__ = [
    "allocated",
    "bytes_a_vote",
    "chosen_device",
    "cuda_fault",
    "free_memory",
    "gib",
    "make_room",
    "memory_errors",
    "require_device_memory",
    "uses_triton",
]  # fmt: skip

# What the engine holds of a vote; and what the sites of sift add to it, each pair compared once:
# index and sort order of pairs, sites before and after a pass, weights, variances and messages.
_VOTE_BYTES, _GRID_BYTES, _SIDE_BYTES = 40, 85, 40
_OLDEST = (7, 0)  # compute capability of a GPU for which Triton compiles


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
    """Whether passes run as Triton kernels: on a GPU that is not too old, where it is installed."""
    return device.type == "cuda" and _has_triton(device.index or 0)


@cache
def _has_triton(index: int) -> bool:
    return find_spec("triton") is not None and torch.cuda.get_device_capability(index) >= _OLDEST


def bytes_a_vote(needs: str, votes: Comparisons) -> int:
    """What a fit that needs this capability holds of a vote on the device, about, at its peak."""
    if needs == "grid":
        return _VOTE_BYTES + _GRID_BYTES + (_SIDE_BYTES if votes.sides_known else 0)
    if needs == "likelihood":  # derivatives of every vote in d and p parameters of its worker
        p = 1 + (0 if votes.features is None else votes.features.shape[1])
        return _VOTE_BYTES + 8 * (12 + 4 * p + 3 * p * p)
    return _VOTE_BYTES


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that this process may still take."""
    free = torch.cuda.mem_get_info(device)[0]
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def allocated(device: torch.device) -> int:
    """Bytes of a GPU that tensors hold."""
    return int(torch.cuda.memory_allocated(device)) if device.type == "cuda" else 0


def make_room(device: torch.device, needed: int) -> None:
    """Give back what this process holds and no longer uses, where less than that is free."""
    if needed > torch.cuda.mem_get_info(device)[0]:
        gc.collect()
        torch.cuda.empty_cache()


def require_device_memory(device: torch.device, votes: int, each: int, what: str) -> None:
    """Refuse, before any work, what does not fit into the memory of a GPU; with figures."""
    if device.type == "cuda" and votes * each > free_memory(device):
        raise ResourceError(_too_much(device, votes, each, what))


@contextmanager
def memory_errors(device: torch.device, votes: int, each: int = 0) -> Iterator[None]:
    """What to do where the device's memory turns out too small after all, with figures."""
    try:
        yield
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        each = each or _VOTE_BYTES + _GRID_BYTES
        raise ResourceError(_too_much(device, votes, each, "a fit")) from None


def gib(size: float) -> str:
    """Bytes as a person writes them."""
    return f"{size / 2**30:,.1f} GiB"


def _too_much(device: torch.device, votes: int, each: int, what: str) -> str:
    total = torch.cuda.mem_get_info(device)[1]
    return (
        f"{what} of {votes:,} votes needs about {gib(votes * each)} on {device}, which "
        f"has {gib(total)}, {gib(free_memory(device))} of them free: end what else runs there, "
        "use engine 'cpu', or fit fewer votes"
    )


def cuda_fault() -> str | None:
    """Why PyTorch cannot use a GPU, and what to do; None where it can."""
    if torch.cuda.is_available():
        return None
    if torch.version.cuda is None:
        return "this build of PyTorch is one for the CPU: install one for CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        message = str(error)
        if "too old" in message:
            return (
                f"the NVIDIA driver is too old for a PyTorch built for CUDA {torch.version.cuda}: "
                "update the driver, or install a build of PyTorch for an older CUDA"
            )
        if "no NVIDIA driver" in message:
            return "there is no NVIDIA driver: install one"
        return (
            f"CUDA does not start: {message.splitlines()[0] if message else 'no reason is given'}"
        )
    return "no GPU is visible: see CUDA_VISIBLE_DEVICES"


def _checked(name: str) -> torch.device:
    """The device of that name; an error with what to do where it cannot be used."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RequestError(f"no device {name!r}: use cpu, cuda, or cuda:0, cuda:1, ...") from None
    if device.type not in ("cpu", "cuda"):
        raise RequestError(f"the engine runs on cpu and cuda, not on {name!r}")
    if device.type == "cuda":
        fault = cuda_fault()
        if fault is not None:
            raise RequestError(
                f"device {name!r} was asked for, but PyTorch {torch.__version__} finds no CUDA "
                f"device; {fault}. Or use device 'cpu' or engine 'cpu'"
            )
        count = torch.cuda.device_count()
        if device.index is not None and device.index >= count:
            raise RequestError(f"device {name!r} was asked for, but there are {count}, from cuda:0")
    return device
