"""Bradley and Terry (1952), penalised: every worker counts alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdsift.likelihoods import sigmoid
from crowdsift.models.base import Estimate, Model, centred_covariance
from crowdsift.solvers.convergence import Progress, StoppingRule
from crowdsift.solvers.newton import NewtonStep, minimise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.comparisons import Comparisons
    from crowdsift.engines import Engine, Vector

__all__ = ["BradleyTerry"]


@dataclass(frozen=True)
class BradleyTerry(Model):
    """P(w beats l) = σ(r_w - r_l), by maximum likelihood with the penalty ½λ‖r‖².

    The penalty makes the maximum exist where an item never lost, and where the graph of
    comparisons is not connected.

    Parameters
    ----------
    penalty
        λ, the precision of the Gaussian prior on scores.
    tolerance
        Stop when the largest entry of the gradient is at most this.
    most_iterations
        Stop unconverged after so many Newton steps.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
    >>> fit = crowdsift.fit(votes, method="bt")
    >>> fit.items["item"].tolist(), fit.items["score"].round(3).tolist()
    (['a', 'b'], [0.344, -0.344])
    """

    penalty: float = 0.01
    tolerance: float = 1e-6
    most_iterations: int = 200

    name: ClassVar[str] = "bt"
    free_sign: ClassVar[bool] = False
    uses_workers: ClassVar[bool] = False

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """One comparison a pair: counts are sufficient."""
        return comparisons.pooled()

    def estimate(self, engine: Engine, progress: Progress | None = None) -> Estimate:
        """Newton steps from 0; the objective is strictly convex."""
        objective = _PenalisedLikelihood(engine, self.penalty)
        rule = StoppingRule(
            "largest entry of the gradient", self.tolerance, self.most_iterations, progress
        )
        scores, trace = minimise(objective, np.zeros(engine.n_items), rule)
        objective.evaluate(scores)
        return Estimate(
            scores=scores - scores.mean(),
            log_likelihood=objective.log_likelihood,
            rule=rule,
            trace=[-value / engine.total_weight for value in trace],
            covariance=centred_covariance(engine, self.penalty),
        )

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        """Log-likelihood of other votes."""
        return engine.score_derivatives(estimate.scores, np.ones(engine.n_workers))[0]

    def probability(
        self, difference: NDArray[np.float64], reliability: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """σ(d), for every worker."""
        return sigmoid(difference)


class _PenalisedLikelihood:
    """-log-likelihood + ½λ‖r‖² as the Newton solver wants it."""

    def __init__(self, engine: Engine, penalty: float) -> None:
        self._engine, self._penalty = engine, penalty
        self._slopes = np.ones(engine.n_workers)
        self._gradient = np.zeros(engine.n_items)
        self.log_likelihood = 0.0

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        self.log_likelihood, gradient = self._engine.score_derivatives(x, self._slopes)
        self._gradient = self._penalty * x - gradient
        return 0.5 * self._penalty * float(x @ x) - self.log_likelihood, self._gradient

    def step(self, radius: float, tolerance: float) -> NewtonStep:
        laplacian, penalty = self._engine.laplacian, self._penalty
        return NewtonStep.solve(
            lambda v: laplacian.multiply(v, penalty),
            self._gradient,
            laplacian.diagonal() + penalty,
            radius,
            tolerance,
        )
