"""Passes on a GPU: PyTorch holds the votes and Triton kernels compute.

With TRITON_INTERPRET=1 Triton's interpreter runs the kernels on the CPU: slow, and meant for tests.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np
import torch

from crowdsift.engines.base import ContextEngine, Facts
from crowdsift.engines.torch.counts import TorchCounts
from crowdsift.engines.torch.device import bytes_a_vote, chosen_device, make_room, memory_errors, require_device_memory
from crowdsift.engines.torch.dimensions import TorchDimensions
from crowdsift.engines.torch.em import TorchEM
from crowdsift.engines.torch.grid import TorchGrid
from crowdsift.engines.torch.likelihood import TorchLikelihood
from crowdsift.engines.torch.slopes import TorchSlopes
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.numeric import Codes
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.contexts import by_context

__all__ = ["TorchEngine", "engine"]

_FEW = 20_000  # votes below which one thread of the CPU is fastest
_PART = 1 << 26  # votes whose items are joined into components at a time


def engine(comparisons: Comparisons, threads: int, device: str | None = None, needs: str = "slopes") -> TorchEngine:
    """Copy the votes to a device, by default the first GPU, and return the engine over them."""
    votes = len(comparisons)
    place = chosen_device(device, threads if votes > _FEW else 1)
    each = bytes_a_vote(needs, comparisons)
    make_room(place, votes * each)
    require_device_memory(place, votes, each)
    with memory_errors(place, votes, each):
        return TorchEngine(comparisons, place)


class TorchEngine:
    """All capabilities on tensors of one device."""

    def __init__(self, comparisons: Comparisons, device: torch.device, counted_with: VoteTensors | None = None) -> None:
        self._comparisons, self._device = comparisons, device
        self._votes = votes = VoteTensors(comparisons, device, counted_with)
        self.facts = Facts.of(comparisons, _components(votes), votes.total_weight(), votes.ties_are_outcomes())
        self.counts, self.slopes = TorchCounts(votes), TorchSlopes(votes)
        self.em, self.likelihood = TorchEM(votes), TorchLikelihood(votes)
        self.grid = TorchGrid(votes)
        self.dimensions = TorchDimensions(votes, comparisons)

    @property
    def passes(self) -> float:
        return self._votes.counter.passes

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        found = by_context(self._comparisons, enough)
        if found is None:
            return None
        apart = TorchEngine(found.votes, self._device, self._votes)
        return ContextEngine(apart, found.worker, found.context)

    def guard(self) -> AbstractContextManager[None]:
        """Return a context in which lack of device memory raises an error that says what to do."""
        return memory_errors(self._device, len(self._comparisons))


def _components(votes: VoteTensors) -> Codes:
    # Both items of a comparison take the smaller label of the two, and every label takes the label of its item, until
    # none changes.
    label = torch.arange(votes.n_items, dtype=torch.int32, device=votes.device)
    while True:
        before = label
        for begin in range(0, len(votes), _PART):
            one = votes.first[begin : begin + _PART].to(torch.int64)
            two = votes.second[begin : begin + _PART].to(torch.int64)
            lower = torch.minimum(label[one], label[two])
            label = label.scatter_reduce(0, one, lower, "amin")
            label = label.scatter_reduce(0, two, lower, "amin")
        label = label[label.to(torch.int64)]
        if torch.equal(label, before):
            break
    found = torch.unique(label, return_inverse=True)[1]
    return np.asarray(found.cpu().numpy(), dtype=np.uint32)
