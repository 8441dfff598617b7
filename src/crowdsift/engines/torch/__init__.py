"""The passes on PyTorch: a GPU, or the CPU where there is none; Triton kernels on a GPU."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift.engines.shards import SharedPairs
    from crowdsift.engines.torch.torch_engine import TorchEngine
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["engine"]


def engine(
    comparisons: Comparisons,
    threads: int,
    shared: SharedPairs | None = None,
    device: str | None = None,
) -> TorchEngine:
    """The votes on a device: the one named, else a GPU where there is one, else the CPU.

    Raises
    ------
    RequestError
        Without PyTorch, and for a device that is not there.
    ResourceError
        Where the votes do not fit into its memory.
    """
    if not _installed():
        raise RequestError(
            "engine 'torch' needs PyTorch, which is not installed: pip install 'crowdsift[gpu]', "
            "or use engine 'cpu'"
        )
    from crowdsift.engines.torch.device import (
        VOTE_BYTES,
        chosen_device,
        foresee,
        memory_errors,
    )
    from crowdsift.engines.torch.torch_engine import TorchEngine

    place = chosen_device(device, threads)
    foresee(place, len(comparisons), VOTE_BYTES, "holding the votes")
    with memory_errors(place, len(comparisons)):
        return TorchEngine(comparisons, place, shared)


def _installed() -> bool:
    """Whether there is PyTorch; this package has its name, but not its place."""
    try:
        return find_spec("torch") is not None
    except ImportError:
        return False
