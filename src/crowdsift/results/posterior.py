"""What a fit knows beyond its tables while it is in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.grid import WorkerPoints

__all__ = ["ContextPoints", "Posterior"]


class ContextPoints(NamedTuple):
    """Posteriors of workers in contexts, by the codes of both; one row of points each."""

    worker: NDArray[np.int64]
    context: NDArray[np.int64]
    points: WorkerPoints

    def mirrored(self) -> ContextPoints:
        """The same for scores of the other sign."""
        points = self.points._replace(reliability=0.0 - self.points.reliability)
        return self._replace(points=points)

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
        known, asked = self.worker * count + self.context, worker * count + context
        order = np.argsort(known)
        place = order[np.minimum(np.searchsorted(known[order], asked), len(known) - 1)]
        return np.where(known[place] == asked, n_workers + place, worker)


@dataclass(frozen=True, eq=False)
class Posterior:
    """What a fit knows beyond its tables while it is in memory; codes as in the comparisons.

    Without a covariance of the scores their errors are taken as independent; without quantiles
    of the reliabilities (one row a worker, of equal probability) the estimates stand alone.
    `points` stand for the joint posterior of reliability, tie width and side habit, where there
    is one; where workers differ by context, for a context in which they were not seen, and
    `in_context` for the others.
    """

    items: NDArray[np.object_]
    sd: NDArray[np.float64] | None = None
    covariance: NDArray[np.float64] | None = None
    quantiles: NDArray[np.float64] | None = None
    points: WorkerPoints | None = None
    in_context: ContextPoints | None = None

    def difference_sd(
        self, first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        """Standard deviations of differences of scores; None where none are known."""
        if self.sd is None:
            return None
        variance = self.sd[first] ** 2 + self.sd[second] ** 2
        if self.covariance is not None:
            variance = variance - 2.0 * self.covariance[first, second]
        return np.sqrt(np.maximum(variance, 0.0))
