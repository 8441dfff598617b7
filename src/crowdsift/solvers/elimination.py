"""Penalised likelihoods as functions of the scores alone: parameters of workers are at their optimum."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from crowdsift.engines.base import Curvature, Engine, required
from crowdsift.engines.kinds import Operator
from crowdsift.numeric import Vector
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.newton import NewtonStep, minimise

_STAGE_TOLERANCE = 1e-6  # largest entry of the gradient at the end of a stage
_EM_STEPS, _EM_ENOUGH = 100, 0.01  # most steps of EM; largest entry of the gradient at which Newton takes over
# Tolerance and most products of conjugate gradients for one step. The tolerance is so small that engines which round
# differently take the same path.
_EM_SOLVE, _EM_PRODUCTS = 1e-6, 1_000


class _Point(NamedTuple):
    """A point of the search: the scores, the penalty λ of θ, whether θ is fixed, and the value F."""

    x: Vector
    theta: Vector
    worker_penalty: float
    hold_workers: bool
    value: float
    gradient: Vector
    curvature: Curvature

    def is_at(self, x: Vector, worker_penalty: float, hold_workers: bool) -> bool:
        return x is self.x and (worker_penalty, hold_workers) == self[2:4]


class WorkerElimination:
    """F(r) = min over θ of -log-likelihood + ½λ‖r‖² + ½λ‖θ - θ₀‖², θ within bounds.

    A worker's parameters θ appear only in its own votes, so the inner minimum is one small problem per worker. There
    the gradient of F is the partial gradient in r, and the Hessian is the Schur complement S = A - B D⁻¹ B' of the
    blocks [A B; B' D]; workers at a bound do not contribute to its second term.

    While `hold_workers` is set, θ stays at θ₀. The first steps need this: at r = 0 the votes determine no θ, D is the
    prior alone, and S is far from positive. `worker_penalty` is the λ of θ.

    If votes are a mixture of true and reversed ones, `truthful` is the θ of workers who never reverse: A at this θ is
    the Hessian of the complete-data likelihood, which EM steps use.
    """

    def __init__(
        self,
        engine: Engine,
        likelihood: str,
        penalty: float,
        start: Vector,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        truthful: float | None = None,
    ) -> None:
        self._passes, self._likelihood = required(engine.likelihood), likelihood
        self._penalty = self.worker_penalty = penalty
        self._centre, self._bounds, self.truthful = start, bounds, truthful
        self.hold_workers = True
        self._last: _Point | None = None  # the last point evaluated
        self._left: _Point | None = None  # the last point stepped from
        self._settled = np.tile(start, (engine.facts.n_workers, 1))  # θ at that point

    @property
    def _at(self) -> _Point:
        assert self._last is not None
        return self._last

    @property
    def theta(self) -> Vector:
        """Return the parameters of workers at the last point, or the initial ones."""
        return self._settled if self._last is None else self._last.theta

    @property
    def log_likelihood(self) -> float:
        """Return the log-likelihood at the last point."""
        return self._at.curvature.value

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        if self._left is not None and self._left.is_at(x, self.worker_penalty, self.hold_workers):
            self._last = self._left  # the last step was rejected
        else:
            self._last = self._evaluated(x)
        return self._last.value, self._last.gradient

    def _evaluated(self, x: Vector) -> _Point:
        """Return F, its gradient and curvature at x; workers are at their optimum unless they are held."""
        theta = self.theta
        if not self.hold_workers:
            steepest = 0.0 if self._last is None else float(np.abs(self._last.gradient).max())
            theta = self._passes.fit_workers(
                self._likelihood,
                x,
                self._settled,
                centre=self._centre,
                penalty=self.worker_penalty,
                bounds=self._bounds,
                # Far from the optimum a rough solution for workers suffices. Near it their remaining gradient, divided
                # by λ, is an error of the scores.
                tolerance=min(max(1e-5 * steepest, 1e-12), 1e-6),
            )
        curvature = self._passes.derivatives(self._likelihood, x, theta)
        drift = float(np.sum((theta - self._centre) ** 2))
        prior = 0.5 * (self._penalty * float(x @ x) + self.worker_penalty * drift)
        gradient = self._penalty * x - curvature.items
        return _Point(x, theta, self.worker_penalty, self.hold_workers, prior - curvature.value, gradient, curvature)

    def step(self, radius: float, tolerance: float) -> NewtonStep:
        """Return a step by conjugate gradients on S."""
        self._settled, self._left = self.theta, self._at
        hessian, penalty = self._at.curvature.hessian.reduced(self._inverse_blocks()), self._penalty
        return NewtonStep.solve(
            lambda v: hessian.multiply(v) + penalty * v,
            self._at.gradient,
            hessian.diagonal() + penalty,
            radius,
            tolerance,
        )

    def em_step(self, x: Vector) -> Vector:
        """Return an EM step from x, the last point, with the probabilities of reversed votes held fixed."""
        # Given these, votes follow a logistic model whose Hessian does not depend on them, and the gradient is that of
        # F. So the step goes downhill even where F is not convex.
        self._settled, self.hold_workers = self.theta, False
        all_true = np.full_like(self.theta, self.truthful)
        complete = self._passes.derivatives(self._likelihood, x, all_true).hessian
        return (
            complete.reduced(None)
            .solve(-self._at.gradient, np.zeros_like(x), shift=self._penalty, tolerance=_EM_SOLVE, most=_EM_PRODUCTS)
            .x
        )

    def workers(self) -> Vector:
        """Return the parameters of workers at the last point stepped from."""
        return self._settled

    def start_from(self, theta: Vector) -> None:
        """Set the initial parameters of workers."""
        self._settled = theta
        self.hold_workers = False

    def laplacian(self) -> Operator:
        """Return A, the items' block of the negative Hessian, at the last point."""
        return self._at.curvature.hessian.reduced(None)

    def worker_variances(self) -> Vector:
        """Return the diagonals of D⁻¹: variances of the parameters of workers with the scores held fixed."""
        blocks = self._at.curvature.blocks + self.worker_penalty * np.eye(self.theta.shape[1])
        return np.ascontiguousarray(np.diagonal(_inverses(blocks), axis1=1, axis2=2))

    def _inverse_blocks(self) -> Vector:
        """Return the inverses D⁻¹ of the workers' blocks; zero for workers that are held or at a bound."""
        blocks = self._at.curvature.blocks + self.worker_penalty * np.eye(self.theta.shape[1])
        if self.hold_workers:
            return np.zeros_like(blocks)
        low, high = self._bounds
        inverse = _inverses(blocks)
        inverse[((self.theta <= low) | (self.theta >= high)).any(axis=1)] = 0.0
        return inverse


def minimise_eliminated(
    objective: WorkerElimination, scores: Vector, rule: StoppingRule, stages: Sequence[float] = ()
) -> tuple[Vector, list[float]]:
    """Minimise over the scores with all workers alike, then over scores and workers together."""
    # F has many minima. Far from them Newton's steps are long and amplify rounding errors until these decide which
    # minimum is found. For a mixture of true and reversed votes, EM steps, which are stable, go there instead. For
    # other models `stages` are multiples of the λ of θ: each stage starts at the minimum of the one before, so that
    # steps stay close to it.
    objective.hold_workers = True
    if objective.truthful is not None:
        return minimise(objective, _by_em(objective, scores, rule), rule)
    roughly = StoppingRule(rule.measure, max(0.1, rule.tolerance), 20)
    scores, _ = minimise(objective, scores, roughly)
    objective.hold_workers = False
    penalty = objective.worker_penalty
    for multiple in stages:
        objective.worker_penalty = multiple * penalty
        closely = StoppingRule(rule.measure, max(_STAGE_TOLERANCE, rule.tolerance), rule.most)
        scores, _ = minimise(objective, scores, closely)
    objective.worker_penalty = penalty
    return minimise(objective, scores, rule)


def _by_em(objective: WorkerElimination, scores: Vector, rule: StoppingRule) -> Vector:
    """Return scores after steps of EM while F falls; in the first step all workers are alike."""
    best, lowest = scores, np.inf
    for number in range(min(_EM_STEPS, rule.most) + 1):
        value, gradient = objective.evaluate(scores)
        if not value < lowest:
            return best
        best, lowest = scores, value
        if np.abs(gradient).max(initial=0.0) <= max(_EM_ENOUGH, rule.tolerance) and number:
            break
        scores = scores + objective.em_step(scores)
    return best


def _inverses(blocks: Vector) -> Vector:
    if blocks.shape[1] == 1:
        return np.asarray(1.0 / np.maximum(blocks, 1e-12))
    if blocks.shape[1] == 0:
        return blocks
    return np.asarray(np.linalg.inv(blocks))
