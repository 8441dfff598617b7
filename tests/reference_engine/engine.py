"""The engine of the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import ContextEngine, Facts
from crowdsift.votes.contexts import by_context
from reference_engine.dimensions import ReferenceDimensions
from reference_engine.grid import ReferenceGrid
from reference_engine.likelihood import ReferenceLikelihood
from reference_engine.logistic import ReferenceCounts, ReferenceEM, ReferenceSlopes
from reference_engine.votes import VoteColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.shards import SharedPairs
    from crowdsift.votes.comparisons import Comparisons


class ReferenceEngine:
    """All capabilities in NumPy, one line per equation."""

    def __init__(
        self, comparisons: Comparisons, shared: SharedPairs | None = None, counted_with: VoteColumns | None = None
    ) -> None:
        self._comparisons, self._shared = comparisons, shared
        self._votes = votes = VoteColumns(comparisons, counted_with)
        self.facts = Facts.of(comparisons, _components(votes))
        self.counts, self.slopes = ReferenceCounts(votes), ReferenceSlopes(votes)
        self.em, self.likelihood = ReferenceEM(votes), ReferenceLikelihood(votes)
        self.grid = ReferenceGrid(votes, shared)
        self.dimensions = ReferenceDimensions(comparisons)

    @property
    def passes(self) -> float:
        """Passes over all votes so far."""
        return self._votes.counter.passes

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        """An engine over workers in contexts; see the protocol."""
        found = by_context(self._comparisons, enough)
        if found is None:
            return None
        apart = ReferenceEngine(found.votes, self._shared, self._votes)  # the same pairs
        return ContextEngine(apart, found.worker, found.context)


def engine(comparisons: Comparisons, threads: int, shared: SharedPairs | None = None) -> ReferenceEngine:
    """The specification over these votes; it knows no threads."""
    return ReferenceEngine(comparisons, shared)


def _components(votes: VoteColumns) -> NDArray[np.uint32]:
    """Lowest label wins along every comparison until nothing moves; then numbered anew."""
    label, before = np.arange(votes.n_items), np.full(votes.n_items, -1)
    while (label != before).any():
        before = label.copy()
        np.minimum.at(label, votes.first, before[votes.second])
        np.minimum.at(label, votes.second, before[votes.first])
    return np.unique(label, return_inverse=True)[1].astype(np.uint32)
