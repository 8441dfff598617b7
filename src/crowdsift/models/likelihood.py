"""The shared part of penalised likelihood methods with parameters of workers."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.errors import RequestError
from crowdsift.models.base import Estimate, Model, Start, WorkerEstimate
from crowdsift.models.covariance import ScorePrecision
from crowdsift.numeric import Vector
from crowdsift.solvers.convergence import Progress, StoppingRule
from crowdsift.solvers.elimination import WorkerElimination, minimise_eliminated
from crowdsift.solvers.newton import minimise
from crowdsift.votes.comparisons import Comparisons

# Largest initial parameter of a worker: beyond this, votes could not move it in double precision.
_MOST = 1e3


@dataclass(frozen=True)
class LikelihoodModel(Model):
    """Maximum of the log-likelihood minus ½λ‖r‖² + ½λ‖θ - θ₀‖², by Newton's method.

    A method defines its likelihood, θ₀, bounds, and which part of θ is the reliability.

    `penalty`: λ, the precision of the Gaussian prior on scores and on workers' parameters.
    """

    penalty: float = 0.01
    tolerance: float = 1e-6
    most_iterations: int = 500

    likelihood: ClassVar[str]
    stages: ClassVar[tuple[float, ...]] = ()  # see `minimise_eliminated`
    truthful: ClassVar[float | None] = None  # see `WorkerElimination`
    bounds: ClassVar[tuple[float, float]] = (-np.inf, np.inf)

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons without features, which this method does not use."""
        return comparisons.with_features(None)

    @abstractmethod
    def start(self, n_features: int) -> Vector:
        """Return θ₀, the parameters of every worker at the start and the centre of their prior."""

    def workers(self, theta: Vector, sd: Vector) -> WorkerEstimate:
        """Return the estimate of workers, from their parameters and standard deviations."""
        return WorkerEstimate(reliability=theta[:, 0].copy(), reliability_sd=sd[:, 0].copy())

    def estimate(self, engine: Engine, progress: Progress | None = None, start: Start | None = None) -> Estimate:
        objective = WorkerElimination(
            engine, self.likelihood, self.penalty, self.start(engine.facts.n_features), self.bounds, self.truthful
        )
        rule = StoppingRule("largest entry of the gradient", self.tolerance, self.most_iterations, progress)
        if start is None or start.workers is None:
            first = np.zeros(engine.facts.n_items)
            scores, trace = minimise_eliminated(objective, first, rule, self.stages)
        else:
            objective.start_from(start.workers)
            scores, trace = minimise(objective, start.scores, rule)
        objective.evaluate(scores)
        return Estimate(
            scores=scores - scores.mean(),
            log_likelihood=objective.log_likelihood,
            rule=rule,
            trace=[-value / engine.facts.total_weight for value in trace],
            precision=ScorePrecision.of(objective.laplacian, engine.facts, self.penalty),
            theta=objective.theta,
            workers=self.workers(objective.theta, np.sqrt(objective.worker_variances())),
        )

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        passes = required(engine.likelihood)
        return passes.derivatives(self.likelihood, estimate.scores, estimate.theta).value


@dataclass(frozen=True)
class ReliabilityModel(LikelihoodModel):
    """A likelihood method in which a worker has only a reliability β."""

    start_reliability: float = 0.8

    of_any_sign: ClassVar[tuple[str, ...]] = ("start_reliability",)

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = max(self.bounds[0], -_MOST), min(self.bounds[1], _MOST)
        if not low <= self.start_reliability <= high:
            raise RequestError(
                f"{self.name}: start_reliability must be from {low:g} to {high:g}, not {self.start_reliability}"
            )

    def start(self, n_features: int) -> Vector:
        return np.array([self.start_reliability])
