"""The engine over the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift import _core
from crowdsift.engines.base import ContextEngine, Facts
from crowdsift.engines.cpu.covariates import CpuPasses
from crowdsift.engines.cpu.grid import CpuGrid
from crowdsift.engines.cpu.likelihood import CpuLikelihood
from crowdsift.engines.cpu.logistic import CpuCounts, CpuEM, CpuSlopes
from crowdsift.engines.cpu.operators import CpuVotes
from crowdsift.votes.contexts import by_context

if TYPE_CHECKING:
    from crowdsift.engines.covariates.laplace import TypeVotes
    from crowdsift.engines.shards import SharedPairs
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["CpuEngine", "engine", "evict", "spill_to"]


class CpuEngine:
    """All capabilities on threads of one machine."""

    def __init__(
        self,
        comparisons: Comparisons,
        threads: int,
        shared: SharedPairs | None = None,
        counted_with: CpuVotes | None = None,
    ) -> None:
        core = _core.Core(
            comparisons.first,
            comparisons.second,
            comparisons.outcome,
            comparisons.weight,
            comparisons.offsets,
            comparisons.features,
            comparisons.n_items,
            threads,
        )
        if shared is not None:
            core.set_shared(*shared)
        component = _core.components(comparisons.first, comparisons.second, comparisons.n_items)
        self.facts = Facts.of(comparisons, component)
        self._votes = votes = CpuVotes(core, self.facts, np.diff(comparisons.offsets), counted_with)
        self._comparisons, self._threads, self._shared = comparisons, threads, shared
        self.counts, self.slopes = CpuCounts(votes), CpuSlopes(votes)
        self.em, self.likelihood = CpuEM(votes), CpuLikelihood(votes)
        self.grid = CpuGrid(votes)

    @property
    def passes(self) -> float:
        """Passes over all votes so far."""
        return self._votes.passes

    def covariate_passes(self, votes: TypeVotes) -> CpuPasses:
        """Passes over votes with covariates, on as many threads."""
        return CpuPasses(votes, self._threads)

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        """An engine over workers in contexts; see the protocol."""
        found = by_context(self._comparisons, enough) if self._comparisons.by else None
        if found is None:
            return None
        # the same pairs, and the passes are counted together
        apart = CpuEngine(found.votes, self._threads, self._shared, self._votes)
        return ContextEngine(apart, found.worker, found.context)


def engine(comparisons: Comparisons, threads: int, shared: SharedPairs | None = None) -> CpuEngine:
    """The compiled core over these votes; `shared` are the pairs that other shards have, too."""
    return CpuEngine(comparisons, threads, shared)


def spill_to(folder: str) -> None:
    """Keep large arrays of the core in files of a folder from now on; "": in memory."""
    _core.spill_to(folder)


def evict() -> int:
    """Take what is in such files out of this process until it is used; how many bytes it is."""
    return _core.evict()
