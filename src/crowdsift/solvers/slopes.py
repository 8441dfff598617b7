"""The logistic model with workers' slopes as a function of the scores alone."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from crowdsift.engines.base import Engine, Profile, SlopePrior, required
from crowdsift.numeric import Vector
from crowdsift.numeric.roots import expand_bracket, find_root
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.newton import NewtonStep, minimise


class ScorePrior(Protocol):
    """A Gaussian prior of the scores, N(0, P⁻¹), where P 1 = level·1."""

    @property
    def level(self) -> float:
        """Return the prior precision of the level of all scores."""

    def times(self, v: Vector) -> Vector:
        """Return the product of P with v."""

    def diagonal(self) -> Vector | float:
        """Return the diagonal of P."""


class Ridge:
    """A prior of independent scores, P = λI."""

    def __init__(self, penalty: float) -> None:
        self.level = penalty

    def times(self, v: Vector) -> Vector:
        return self.level * v

    def diagonal(self) -> float:
        return self.level


_TOLERANCE = 1e-3  # tolerance of the logarithm of the scale
_FARTHEST = float(np.log(64.0))
_ENOUGH = 50_000  # workers from which the common scale is estimated


class SlopeScale(NamedTuple):
    """The cost of a scale of the scores, computed from the optimal slopes alone, without a pass over the votes.

    A worker's log-likelihood in θ = βt, the slope at scores t times as large, is close to -½h(θ - θ̂)² + const.
    Together with the prior of its slope, ½τ(β - μ)², at the best β it costs ½hτ(θ̂ - tμ)²/(τ + t²h). The prior of the
    scores adds ½λ‖tr‖².
    """

    slopes: Vector
    curvature: Vector
    mean: float
    precision: float

    def along_scores(self, square: float) -> float:
        """Return the objective's second derivative along the scores r; `square` is λ‖r‖²."""
        h = self._information()
        coupled = self.slopes * h - self._prior_gradient()
        return float(np.sum(self.slopes**2 * h - coupled**2 / self.curvature)) + square

    def best(self, square: float) -> float | None:
        """Return the t of least cost, to about 1e-3, or None if there is none nearby; `square` is λ‖r‖²."""
        rise = self._rise(square)
        bracket = expand_bracket(rise, 0.0, np.log(2.0), -_FARTHEST, _FARTHEST)
        return None if bracket is None else float(np.exp(find_root(rise, bracket, _TOLERANCE)))

    def is_near_best(self, square: float, t: float, within: float) -> bool:
        """Return whether the best t is within this distance of t; this takes two evaluations."""
        rise = self._rise(square)
        return t > within and rise(np.log(t - within)) <= 0.0 <= rise(np.log(t + within))

    def _rise(self, square: float) -> Callable[[float], float]:
        """Return the derivative of the cost in log t."""
        some = slice(None, None, max(1, len(self.slopes) // _ENOUGH))
        h, optimum = self._information()[some], self._optimum()[some]
        each = self.precision * len(self.slopes) / max(len(h), 1)

        def rise(log: float) -> float:
            t = float(np.exp(log))
            miss = h * (optimum - t * self.mean) / (self.precision + t**2 * h)
            saved = self.mean * float(np.sum(miss)) + t * float(miss @ miss)
            return square * t - each * saved

        return rise

    def slopes_at(self, t: float) -> Vector:
        """Return every worker's slope at scores t times as large."""
        h = self._information()
        top = t * h * self._optimum() + self.precision * self.mean
        slopes: Vector = top / (t**2 * h + self.precision)
        return slopes

    def _information(self) -> Vector:
        """Return h, the information of the votes on each slope."""
        return np.maximum(self.curvature - self.precision, 0.0)

    def _prior_gradient(self) -> Vector:
        """Return the gradient of the prior in each slope, which the gradient of the votes balances."""
        gradient: Vector = self.precision * (self.slopes - self.mean)
        return gradient

    def _optimum(self) -> Vector:
        best: Vector = self.slopes + self._prior_gradient() / np.maximum(self._information(), 1e-12)
        return best


# Longest last Newton step of a slope, relative to a well-determined slope. The remaining error is of the order of its
# square, and far smaller near the optimum, where slopes hardly move.
_LAST_STEP = 1e-3
# Scales that differ by less are left to Newton's steps, which converge fast from there.
_SAME_SCALE = 0.02
# The diagonal of the Hessian, used as preconditioner and scale, is computed again after a step longer than this.
_SAME_DIAGONAL = 0.1
_MOST_WON = 0.9  # largest share of votes won in the first scores


class CommonSlope:
    """Minimise the convex -log-likelihood + ½rᵀPr with one slope for all workers."""

    def __init__(self, engine: Engine, penalty: float | ScorePrior, slope: float = 1.0, tolerance: float = 0.0) -> None:
        self._passes, self._slope = required(engine.slopes), slope
        self._scores = Ridge(penalty) if isinstance(penalty, float | int) else penalty
        n_items, self._component = engine.facts.n_items, engine.facts.component
        self._gradient = self._x = self._diagonal = np.zeros(n_items)
        self._diagonal_at: Vector | None = None
        self._component_sizes = np.bincount(self._component)
        self._slopes = np.full(engine.facts.n_workers, slope)
        self._tolerance, self._resolution, self._largest = tolerance, np.inf, np.inf
        self._at: Profile | None = None

    @property
    def at(self) -> Profile:
        """Return the result of the last pass."""
        if self._at is None:
            raise RuntimeError("no pass yet")
        return self._at

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        """Return value and gradient; the pass is as accurate as the next step needs."""
        resolution, least = self._resolution, 0.1 * self._tolerance
        self._look(x, resolution)
        if resolution > least and self._largest <= self._tolerance:
            self._look(x, least)
        self._resolution = max(0.1 * self._largest**2, least)
        value = 0.5 * float(x @ self._scores.times(x)) + self._prior() - self.at.value
        return value, self._gradient

    def _look(self, x: Vector, resolution: float) -> None:
        self._at = None  # its Hessian holds arrays over votes, which the next pass reuses
        self._x, self._at = x, self._settle(x, resolution)
        at = self._diagonal_at
        if at is None or float(np.abs(x - at).max(initial=0.0)) > _SAME_DIAGONAL:
            self._diagonal = self.at.hessian.diagonal() + self._scores.diagonal()
            self._diagonal_at = x
        self._gradient = self._scores.times(x) - self.at.gradient
        self._largest = float((np.abs(self._gradient) / self._diagonal).max(initial=0.0))

    def step(self, radius: float, tolerance: float) -> NewtonStep:
        """Return a step by conjugate gradients."""
        return self._solve(radius, tolerance, self._levels)

    def _solve(self, radius: float, tolerance: float, correct: Callable[[Vector, Vector], None]) -> NewtonStep:
        multiply, prior, shift = self.at.hessian.multiply, self._scores, 0.0
        if isinstance(prior, Ridge):
            shift = prior.level  # avoids arrays for its products
        return NewtonStep.solve(
            multiply if shift else lambda v: multiply(v) + prior.times(v),
            self._gradient,
            self._diagonal,
            radius,
            tolerance,
            correct,
            shift,
        )

    def _levels(self, v: Vector, out: Vector) -> None:
        """Add the Hessian's inverse on the level of every component, which only the prior determines."""
        if len(self._component_sizes) == 1:
            out += float(v.sum()) / (self._scores.level * len(v))
            return
        sums = np.bincount(self._component, v) / (self._scores.level * self._component_sizes)
        out += sums[self._component]

    def first_scores(self) -> Vector:
        """Return initial scores: one step from 0, transformed to logits of the shares of votes won."""
        # At 0 a score is 4/slope times the share of votes won beyond one half, against opponents of score 0. The logit
        # of that share is more accurate far from one half.
        self.evaluate(np.zeros(len(self._x)))
        linear = self.step(np.inf, 0.1).x
        share = np.clip(0.5 + 0.25 * self._slope * linear, 1.0 - _MOST_WON, _MOST_WON)
        scores: Vector = np.log(share / (1.0 - share)) / self._slope
        return scores

    def profile(self, x: Vector) -> Profile:
        """Return the result of a pass at x; the last pass is reused unless its step was taken back."""
        if x is not self._x:
            self.evaluate(x)
        return self.at

    def largest_step(self, gradient: Vector) -> float:
        """Return the largest Newton step of a single score: a measure that does not depend on weights."""
        if gradient is self._gradient:
            return self._largest
        return float((np.abs(gradient) / self._diagonal).max(initial=0.0))

    def workers(self) -> Vector | None:
        """Return None: slopes are given."""
        return None

    def _settle(self, x: Vector, resolution: float) -> Profile:
        return self._passes.profile(x, self._slopes, resolution=resolution)

    def _prior(self) -> float:
        return 0.0


class WorkerSlopes(CommonSlope):
    """The objective of `CommonSlope` plus ½Σ(β - μ)²/σ², with every worker's β at its minimum.

    The gradient is then the partial one in the scores, and the Hessian the Schur complement A - B D⁻¹ B' + P of the
    blocks [A B; B' D]: workers are eliminated.

    `mean`, `sd`: μ and σ, the mean and the standard deviation of the prior on slopes.
    """

    def __init__(
        self, engine: Engine, penalty: float | ScorePrior, mean: float, sd: float, tolerance: float = 0.0
    ) -> None:
        super().__init__(engine, penalty, mean, tolerance)
        self._precision = sd**-2
        self._from = self._slopes  # slopes at the last point stepped from

    def step(self, radius: float, tolerance: float) -> NewtonStep:
        """Return a step by conjugate gradients on the Schur complement, followed by a step to the best scale."""
        # Along the scores themselves the Hessian is small, since slopes compensate for the scale, and far from
        # constant: Newton would need many steps. The cost of a scale is known without a pass.
        x, self._from = self._x, self.at.slopes
        square = float(x @ self._scores.times(x))
        scale = SlopeScale(self.at.slopes, self.at.curvature, self._slope, self._precision)
        along = scale.along_scores(square)

        def correct(v: Vector, out: Vector) -> None:
            self._levels(v, out)
            if along > 0.0:
                out += float(x @ v) / along * x

        step = self._solve(radius, tolerance, correct)
        return step if np.isfinite(radius) or not x.any() else self._scaled(step, scale)

    def _scaled(self, step: NewtonStep, scale: SlopeScale) -> NewtonStep:
        """Return the step with its length along the scores replaced, if that makes a difference."""
        x = self._x
        taken = 1.0 + float(x @ step.x) / float(x @ x)
        if taken <= 0.0:
            return step
        across = (x + step.x) / taken
        square = float(across @ self._scores.times(across))
        if scale.is_near_best(square, taken, _SAME_SCALE):
            return step
        best = scale.best(square)
        if best is None or abs(best - taken) <= _SAME_SCALE:
            return step
        self._from = scale.slopes_at(best)
        return step._replace(x=best * across - x)

    def workers(self) -> Vector | None:
        return self._from

    def start_from(self, slopes: Vector) -> None:
        """Set the initial slopes."""
        self._from = slopes

    def _settle(self, x: Vector, resolution: float) -> Profile:
        prior = SlopePrior(self._slope, self._precision, _LAST_STEP)
        return self._passes.profile(x, self._from, prior, resolution=resolution)

    def _prior(self) -> float:
        return 0.5 * self._precision * float(np.sum((self.at.slopes - self._slope) ** 2))


def minimise_with_slopes(
    engine: Engine,
    *,
    penalty: float | ScorePrior,
    mean: float,
    sd: float,
    rule: StoppingRule,
    start: tuple[Vector, Vector] | None = None,
) -> tuple[Vector, Profile, list[float]]:
    """Minimise over the scores with all workers alike in one step, then over scores and slopes together."""
    # At r = 0 the votes determine no slope, and the Schur complement is far from positive; the first step, with one
    # slope, is convex and need not converge. It is skipped with `start`, scores and slopes of an interrupted run.
    objective = WorkerSlopes(engine, penalty, mean, sd, rule.tolerance)
    if start is None:
        scores = CommonSlope(engine, penalty, mean).first_scores()
    else:
        scores = start[0]
        objective.start_from(start[1])
    scores, trace = minimise(objective, scores, rule, objective.largest_step)
    return scores, objective.profile(scores), trace
