"""The posterior of a fit, beyond its tables, while it is in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.grid import WorkerPoints
from crowdsift.models.covariance import ComponentCovariance, difference_variance
from crowdsift.solvers.ep.terms.contexts import ContextPoints

__all__ = ["Posterior"]


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a fit, beyond its tables; codes are those of the comparisons.

    Where covariances of scores are not known their errors are taken as independent; without
    quantiles of the reliabilities (one row per worker, of equal probability) the estimates stand
    alone.
    `points` stand for the joint posterior of reliability, tie width and side bias, where there
    is one; where workers differ by context, for a context in which they were not seen, and
    `in_context` for the others.
    """

    items: NDArray[np.object_]
    sd: NDArray[np.float64] | None = None
    covariances: ComponentCovariance | None = None
    quantiles: NDArray[np.float64] | None = None
    points: WorkerPoints | None = None
    in_context: ContextPoints | None = None

    def difference_sd(
        self, first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        """Standard deviations of differences of scores; None where none are known."""
        variance = difference_variance(self.covariances, self.sd, first, second)
        return None if variance is None else np.sqrt(variance)

    @property
    def covariance(self) -> NDArray[np.float64] | None:
        """The covariance of the scores as one matrix, of few items."""
        return None if self.covariances is None else self.covariances.dense()
