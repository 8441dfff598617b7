"""The logistic model with workers' slopes as a function of the scores alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.newton import NewtonStep, minimise

if TYPE_CHECKING:
    from crowdsift.engines import Engine, Profile, Vector

__all__ = ["CommonSlope", "OwnSlopes", "minimise_with_slopes"]

# How long the last Newton step of a slope may be, relative to the slope. The error that it leaves
# is of the order of its square, and near the optimum, where slopes hardly move, far smaller.
_LAST_STEP = 1e-3


class CommonSlope:
    """-log-likelihood + ½λ‖r‖², one slope for all: convex.

    Parameters
    ----------
    engine
        The passes over the votes.
    penalty
        λ, the precision of the Gaussian prior on scores.
    slope
        The slope.
    """

    def __init__(self, engine: Engine, penalty: float, slope: float = 1.0) -> None:
        self._engine, self._penalty, self._slope = engine, penalty, slope
        self._gradient = np.zeros(engine.n_items)
        self.at: Profile

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        """Value and gradient."""
        self.at = self._settle(x)
        self._gradient = self._penalty * x - self.at.gradient
        value = 0.5 * self._penalty * float(x @ x) + self._prior() - self.at.value
        return value, self._gradient

    def step(self, radius: float, tolerance: float) -> NewtonStep:
        """A step by conjugate gradients."""
        engine, penalty = self._engine, self._penalty
        return NewtonStep.solve(
            lambda v: engine.slope_product(v) + penalty * v,
            self._gradient,
            self.at.diagonal + penalty,
            radius,
            tolerance,
        )

    def largest_step(self, gradient: Vector) -> float:
        """How far the gradient would move a score by itself: a measure that knows no weights."""
        return float((np.abs(gradient) / (self.at.diagonal + self._penalty)).max())

    def _settle(self, x: Vector) -> Profile:
        return self._engine.common_slope(x, self._slope)

    def _prior(self) -> float:
        return 0.0


class OwnSlopes(CommonSlope):
    """The same with ½Σ(β - μ)²/σ² added and every worker's β at its minimum.

    The gradient is then the partial one in the scores, and the Hessian the Schur complement
    A - B D⁻¹ B' + λI of the blocks [A B; B' D]: workers are eliminated.

    Parameters
    ----------
    engine, penalty
        As for `CommonSlope`.
    mean, sd
        μ and σ, the mean and the standard deviation of the prior on slopes.
    """

    def __init__(self, engine: Engine, penalty: float, mean: float, sd: float) -> None:
        super().__init__(engine, penalty, mean)
        self._precision = sd**-2
        self._from = np.full(engine.n_workers, mean)  # slopes at the last point stepped from

    def step(self, radius: float, tolerance: float) -> NewtonStep:
        """A step by conjugate gradients on the Schur complement."""
        self._from = self.at.slopes
        return super().step(radius, tolerance)

    def _settle(self, x: Vector) -> Profile:
        return self._engine.own_slopes(
            x, self._from, mean=self._slope, precision=self._precision, last_step=_LAST_STEP
        )

    def _prior(self) -> float:
        return 0.5 * self._precision * float(np.sum((self.at.slopes - self._slope) ** 2))


def minimise_with_slopes(
    engine: Engine, *, penalty: float, mean: float, sd: float, rule: StoppingRule
) -> tuple[Vector, Profile, list[float]]:
    """Scores first, with all workers alike, then scores and slopes together.

    At r = 0 nothing is known of a worker, and the Schur complement is far from positive; the
    first steps, with one slope, are convex and need not go far.

    Returns
    -------
    tuple
        The scores, what the last pass said, and the value before the first and after every
        iteration of the second phase.
    """
    common = CommonSlope(engine, penalty, mean)
    roughly = StoppingRule(rule.measure, 0.0, 2)
    scores, _ = minimise(common, np.zeros(engine.n_items), roughly)
    own = OwnSlopes(engine, penalty, mean, sd)
    scores, trace = minimise(own, scores, rule, own.largest_step)
    return scores, own.at, trace
