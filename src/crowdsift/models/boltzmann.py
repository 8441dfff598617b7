"""What the Boltzmann-rational models share: a reliability for every worker that multiplies d."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import required
from crowdsift.models.base import Estimate, Model, Start
from crowdsift.numeric.likelihoods import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import Engine
    from crowdsift.solvers.convergence import Progress

__all__ = ["BoltzmannModel"]


class BoltzmannModel(Model):
    """P(first wins | s) = σ(β_s d); runs that were cut short go on from their iterate."""

    @abstractmethod
    def estimate(
        self, engine: Engine, progress: Progress | None = None, start: Start | None = None
    ) -> Estimate:
        """From the iterate `start` where there is one."""

    def resume(self, engine: Engine, start: Start, progress: Progress | None = None) -> Estimate:
        """From the iterate of a run that was cut short."""
        return self.estimate(engine, progress, start)

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        """Log-likelihood of other votes."""
        slopes = np.ascontiguousarray(estimate.theta[:, 0])
        return required(engine.slopes).log_likelihood(estimate.scores, slopes)

    def probability(
        self, difference: NDArray[np.float64], reliability: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """σ(β d)."""
        return sigmoid(reliability * difference)
