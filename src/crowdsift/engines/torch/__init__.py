"""The passes on PyTorch: a GPU, or the CPU where there is none; Triton kernels on a GPU."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift.engines.shards import SharedPairs
    from crowdsift.engines.torch.streamed import StreamedEngine
    from crowdsift.engines.torch.torch_engine import TorchEngine
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["engine"]

_FEW = 20_000  # votes for which threads of the CPU cost more than they bring


def engine(
    comparisons: Comparisons,
    threads: int,
    shared: SharedPairs | None = None,
    device: str | None = None,
    needs: str = "slopes",
) -> TorchEngine | StreamedEngine:
    """The votes on a device: the one named, else a GPU where there is one, else the CPU.

    Where what the capability `needs` is more than a GPU has free, votes are held by the host and
    sent to it in shards.

    Raises
    ------
    RequestError
        Without PyTorch, and for a device that is not there.
    ResourceError
        Where the votes fit neither into its memory nor into that of the host.
    """
    if not _installed():
        raise RequestError(
            "engine 'torch' needs PyTorch, which is not installed: pip install 'crowdsift[gpu]', "
            "or use engine 'cpu'"
        )
    from crowdsift.engines.torch.device import (
        bytes_a_vote,
        chosen_device,
        free_memory,
        make_room,
        memory_errors,
        require_device_memory,
    )
    from crowdsift.engines.torch.torch_engine import TorchEngine

    votes = len(comparisons)
    place = chosen_device(device, threads if votes > _FEW else 1)
    each = bytes_a_vote(needs, comparisons)
    if place.type == "cuda":
        make_room(place, votes * each)
    if shared is None and place.type == "cuda" and votes * each > free_memory(place):
        from crowdsift.engines.torch.streamed import streamed_engine

        return streamed_engine(comparisons, place, needs)
    require_device_memory(place, votes, each, "a fit")
    with memory_errors(place, votes, each):
        return TorchEngine(comparisons, place, shared)


def _installed() -> bool:
    """Whether there is PyTorch; this package has its name, but not its place."""
    try:
        return find_spec("torch") is not None
    except ImportError:
        return False
