"""Posteriors of workers who differ from context to context."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.grid import WorkerPoints

__all__ = ["ContextPoints"]


class ContextPoints(NamedTuple):
    """Posteriors of workers in contexts, by the codes of both; one row of points each."""

    worker: NDArray[np.int64]
    context: NDArray[np.int64]
    points: WorkerPoints

    def below(self, common: WorkerPoints) -> WorkerPoints:
        """These rows below those that workers have in contexts where they were not seen."""
        return WorkerPoints(
            *(np.concatenate(both) for both in zip(common, self.points, strict=True))
        )

    def rows(
        self, worker: NDArray[np.integer], context: NDArray[np.integer], n_workers: int
    ) -> NDArray[np.int64]:
        """Where `below` has a worker in a context: below, if it was seen there."""
        count = int(max(self.context.max(initial=0), context.max(initial=0))) + 1
        known, query = self.worker * count + self.context, worker * count + context
        order = np.argsort(known)
        place = order[np.minimum(np.searchsorted(known[order], query), len(known) - 1)]
        return np.where(known[place] == query, n_workers + place, worker)
