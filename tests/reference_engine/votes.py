"""The votes as the specification holds them: columns, and sums by item and by worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import CountedVotes

if TYPE_CHECKING:
    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons


class VoteColumns(CountedVotes):
    """First and second item, worker, outcome y, weight n and features x of every vote."""

    def __init__(self, comparisons: Comparisons, counted_with: VoteColumns | None = None) -> None:
        self.n_items, self.n_workers = comparisons.n_items, comparisons.n_workers
        self.n_gold = comparisons.n_gold
        self.first, self.second = comparisons.first, comparisons.second
        self.worker = comparisons.worker_codes()
        self.y = comparisons.outcome.astype(np.float64)
        self.n = comparisons.weight.astype(np.float64)
        given = comparisons.features
        self.x = np.zeros((len(self.n), 0)) if given is None else given.astype(np.float64)
        self.sides_known = comparisons.sides_known
        super().__init__(counted_with)

    def differences(self, scores: Vector) -> Vector:
        """D of every vote."""
        return np.asarray(scores[self.first] - scores[self.second])

    def to_workers(self, values: Vector) -> Vector:
        """Sums by worker."""
        sums = np.zeros((self.n_workers, *values.shape[1:]))
        np.add.at(sums, self.worker, values)
        return sums

    def to_items(self, values: Vector) -> Vector:
        """Sums by item, added to the first and taken from the second."""
        return self.to_both(values, -values)

    def to_both(self, to_first: Vector, to_second: Vector) -> Vector:
        """Sums by item, of what is for the first and of what is for the second."""
        sums = np.zeros(self.n_items)
        np.add.at(sums, self.first, to_first)
        np.add.at(sums, self.second, to_second)
        return sums
