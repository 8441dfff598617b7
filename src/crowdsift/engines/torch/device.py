"""Choose the device, predict its memory use, and say what to do if it cannot be used."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from crowdsift.errors import RequestError, ResourceError
from crowdsift.votes.comparisons import Comparisons

# Bytes that the engine holds per vote, and those that the sites of sift add if each pair is compared once: index and
# sort order of pairs, sites before and after a pass, weights, variances and messages.
_VOTE_BYTES, _GRID_BYTES, _SIDE_BYTES = 40, 85, 40
_MIN_CAPABILITY = (7, 0)  # the oldest compute capability for which Triton compiles


def chosen_device(name: str | None, threads: int = 1) -> torch.device:
    """Return the device of that name, by default the first GPU, after checking that it works."""
    # Under Triton's interpreter the default is the CPU, with that number of threads.
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    device = _parsed(name or ("cpu" if interpreted else "cuda:0"))
    if device.type == "cpu":
        if not interpreted:
            raise RequestError(
                "engine 'torch' runs on GPUs alone: use engine 'cpu', or set TRITON_INTERPRET=1 to run its kernels on "
                "the CPU in Triton's interpreter, slowly"
            )
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        return device
    fault = gpu_fault(device.index or 0)
    if fault is not None:
        raise RequestError(f"device {str(device)!r} cannot be used: {fault}; or use engine 'cpu'")
    return device


def gpu_fault(index: int = 0) -> str | None:
    """Return why Triton's kernels cannot run on that GPU, and what to do; None if they can."""
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no CUDA device; {_cuda_fault()}"
    count = torch.cuda.device_count()
    if index >= count:
        return f"there are {count} GPUs, numbered from cuda:0"
    capability = torch.cuda.get_device_capability(index)
    if capability < _MIN_CAPABILITY:
        there, needed = (".".join(map(str, each)) for each in (capability, _MIN_CAPABILITY))
        return f"its compute capability is {there}, and Triton needs {needed} or higher"
    return None


def _cuda_fault() -> str:
    """Return why PyTorch finds no GPU, and what to do."""
    if torch.version.cuda is None:
        return "this build of PyTorch is one for the CPU: install one for CUDA"
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        message = str(error)
        if "too old" in message:
            return (
                f"the NVIDIA driver is too old for a PyTorch built for CUDA {torch.version.cuda}: update the driver, "
                "or install a build of PyTorch for an older CUDA"
            )
        if "no NVIDIA driver" in message:
            return "there is no NVIDIA driver: install one"
        return f"CUDA does not start: {message.splitlines()[0] if message else 'no reason is given'}"
    return "no GPU is visible: see CUDA_VISIBLE_DEVICES"


def _parsed(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise RequestError(f"no device {name!r}: use cuda, or cuda:0, cuda:1, ...") from None
    if device.type not in ("cpu", "cuda"):
        raise RequestError(f"engine 'torch' runs on cuda devices, not on {name!r}")
    return device


def bytes_a_vote(needs: str, votes: Comparisons) -> int:
    """Return about how many bytes per vote such a fit takes on the device at its peak."""
    if needs == "grid":
        return _VOTE_BYTES + _GRID_BYTES + (_SIDE_BYTES if votes.sides_known else 0)
    if needs == "likelihood":  # derivatives of every vote in d and in its worker's p parameters
        p = 1 + (0 if votes.features is None else votes.features.shape[1])
        return _VOTE_BYTES + 8 * (12 + 4 * p + 3 * p * p)
    return _VOTE_BYTES


def make_room(device: torch.device, needed: int) -> None:
    """Release GPU memory that this process holds but no longer uses, if less than `needed` is free."""
    if device.type == "cuda" and needed > torch.cuda.mem_get_info(device)[0]:
        gc.collect()
        torch.cuda.empty_cache()


def require_device_memory(device: torch.device, votes: int, each: int) -> None:
    """Raise an error with figures, before any work, if the votes do not fit into the memory of a GPU."""
    if device.type == "cuda" and votes * each > _free_memory(device):
        raise ResourceError(_too_much(device, votes, each))


@contextmanager
def memory_errors(device: torch.device, votes: int, each: int = 0) -> Iterator[None]:
    """Replace an error for lack of device memory by one with figures and a remedy."""
    try:
        yield
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        each = each or _VOTE_BYTES + _GRID_BYTES
        raise ResourceError(_too_much(device, votes, each)) from None


def _free_memory(device: torch.device) -> int:
    free = torch.cuda.mem_get_info(device)[0]
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def _too_much(device: torch.device, votes: int, each: int) -> str:
    needed, total, free = (
        f"{size / 2**30:,.1f} GiB" for size in (votes * each, torch.cuda.mem_get_info(device)[1], _free_memory(device))
    )
    return (
        f"a fit of {votes:,} votes needs about {needed} on {device}, which has {total}, {free} "
        "of them free: use engine 'disk' or engine 'dask', which hold votes in parts, end "
        "what else runs on the device, or fit fewer votes"
    )
