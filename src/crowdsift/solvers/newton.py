"""Newton's method in a trust region: the objective never rises, convex or not."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np

from crowdsift.numeric import Vector
from crowdsift.numeric.conjugate_gradient import conjugate_gradient
from crowdsift.solvers.convergence import StoppingRule

# relative change of the value that counts as rounding; most such steps while the measure does not halve
_LAST_DIGIT, _MAX_IDLE = 2.0**-52, 10


class NewtonStep(NamedTuple):
    """A step, the decrease that the quadratic model predicts for it, and its length."""

    x: Vector
    expected: float
    length: float
    at_boundary: bool

    @classmethod
    def solve(
        cls,
        multiply: Callable[[Vector], Vector],
        gradient: Vector,
        diagonal: Vector,
        radius: float,
        tolerance: float,
        correct: Callable[[Vector, Vector], None] | None = None,
        shift: float = 0.0,
    ) -> Self:
        """Solve for the step with that gradient and Hessian + shift·I, within the radius."""
        solved = conjugate_gradient(
            multiply, -gradient, diagonal, tolerance=tolerance, shift=shift, radius=radius, correct=correct
        )
        return cls(
            solved.x,
            expected=-float(gradient @ solved.x) - 0.5 * solved.form,
            length=float(np.sqrt(diagonal @ solved.x**2)),
            at_boundary=solved.at_boundary,
        )


class Objective(Protocol):
    """A function to be minimised; `step` refers to the point of the last `evaluate`."""

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        """Return value and gradient at x."""

    def step(self, radius: float, tolerance: float) -> NewtonStep:
        """Return a step by the quadratic model, solved to a relative tolerance."""

    def workers(self) -> Vector | None:
        """Return the parameters of workers at the last point stepped from, or None if there are none."""


def minimise(
    objective: Objective, x: Vector, rule: StoppingRule, measure: Callable[[Vector], float] | None = None
) -> tuple[Vector, list[float]]:
    """Return a minimiser near x, and the value before the first and after every iteration."""
    # The rule gets a measure of the gradient, by default its largest entry. If a step does not lower the value as the
    # model predicts, it is taken back and the region shrinks, unless the prediction is below rounding and the measure
    # still falls. If weights are so large that rounding keeps the measure above the tolerance, the run ends with steps
    # whose predicted gain is less than the last digit of the value.
    measure = measure or _largest
    rule.iterate = lambda: {
        name: each for name, each in (("scores", x), ("workers", objective.workers())) if each is not None
    }
    value, gradient = objective.evaluate(x)
    trace = [value]
    radius, moved = np.inf, True
    size = measure(gradient)
    smallest, idle = size, 0
    finished = rule.begin(size)
    while not finished:
        if not moved:
            value, gradient = objective.evaluate(x)  # restores the curvature at x
        step = objective.step(radius, _forcing(gradient, rule.tolerance / size))
        trial = x + step.x
        trial_value, trial_gradient = objective.evaluate(trial)
        gain = value - trial_value
        trial_size = measure(trial_gradient)
        within_rounding = abs(step.expected) < 1e-9 * max(abs(value), 1.0) and trial_size <= size
        moved = (gain >= 1e-4 * step.expected > 0.0) or within_rounding
        if moved:
            x, value, gradient, size = trial, trial_value, trial_gradient, trial_size
            if gain > 0.5 * step.expected and step.at_boundary:
                radius = 2.0 * max(step.length, radius if np.isfinite(radius) else 0.0)
        else:
            radius = 0.25 * step.length
        idle = idle + 1 if step.expected < _LAST_DIGIT * abs(value) and size > 0.5 * smallest else 0
        smallest = min(smallest, size)
        trace.append(value)
        finished = rule.stop(size) or radius < 1e-14 or idle >= _MAX_IDLE
    return x, trace


def _forcing(gradient: Vector, missing: float) -> float:
    """Return the tolerance for solving a step: for quadratic convergence, or smaller close to the end."""
    # `missing` is the tolerance divided by the measure.
    pace = float(np.sqrt(np.linalg.norm(gradient) / len(gradient)))
    end = 0.1 * missing
    return min(0.1, max(pace if pace > 3.0 * missing else end, 1e-8))


def _largest(gradient: Vector) -> float:
    return float(np.abs(gradient).max(initial=0.0))
