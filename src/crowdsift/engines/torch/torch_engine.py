"""The engine on tensors."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch

from crowdsift.engines.base import ContextEngine, Facts
from crowdsift.engines.torch.components import components
from crowdsift.engines.torch.counts import TorchCounts
from crowdsift.engines.torch.device import memory_errors
from crowdsift.engines.torch.em import TorchEM
from crowdsift.engines.torch.grid import TorchGrid
from crowdsift.engines.torch.likelihood import TorchLikelihood
from crowdsift.engines.torch.slopes import TorchSlopes
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.votes.contexts import by_context

if TYPE_CHECKING:
    from crowdsift.engines.shards import SharedPairs
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["TorchEngine"]


class TorchEngine:
    """All capabilities on tensors of one device."""

    def __init__(
        self,
        comparisons: Comparisons,
        device: Any,
        shared: SharedPairs | None = None,
        counted_with: VoteTensors | None = None,
    ) -> None:
        self._comparisons, self._device, self._shared = comparisons, device, shared
        self._votes = votes = VoteTensors(comparisons, device, counted_with)
        self.facts = Facts.of(
            comparisons, components(votes), votes.total_weight(), votes.ties_are_outcomes()
        )
        self.counts, self.slopes = TorchCounts(votes), TorchSlopes(votes)
        self.em, self.likelihood = TorchEM(votes), TorchLikelihood(votes)
        self.grid = TorchGrid(votes, shared)

    @property
    def passes(self) -> float:
        """Passes over all votes so far."""
        return self._votes.passes

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        """An engine over workers in contexts; see the protocol."""
        found = by_context(self._comparisons, enough)
        if found is None:
            return None
        apart = TorchEngine(found.votes, self._device, self._shared, self._votes)
        return ContextEngine(apart, found.worker, found.context)

    def guard(self) -> AbstractContextManager[None]:
        """Within, an end of the device's memory is an error that says what to do."""
        return memory_errors(self._device, len(self._comparisons))

    def describe(self) -> str:
        """Which device the passes run on, and in what way."""
        return f"torch {torch.__version__} on {self._device}"
