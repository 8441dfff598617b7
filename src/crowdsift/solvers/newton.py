"""Newton's method with conjugate gradients in a trust region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from crowdsift.solvers.conjugate_gradient import conjugate_gradient

if TYPE_CHECKING:
    from crowdsift.engines import Vector
    from crowdsift.solvers.convergence import StoppingRule

__all__ = ["Objective", "minimise"]


class Objective(Protocol):
    """A function to be minimised, with the curvature at the point of the last `evaluate`."""

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        """Value and gradient at x; curvature refers to x from now on."""

    def multiply(self, v: Vector) -> Vector:
        """Hessian (or a positive approximation of it) times v."""

    def diagonal(self) -> Vector:
        """A positive diagonal that preconditions the Hessian."""


def minimise(objective: Objective, x: Vector, rule: StoppingRule) -> tuple[Vector, list[float]]:
    """A minimiser near x, and the value before the first and after every iteration.

    The rule is told the largest entry of the gradient. A step that does not lower the value
    shrinks the region instead, so the value never rises, convex or not.
    """
    value, gradient = objective.evaluate(x)
    trace = [value]
    radius = np.inf
    current = True  # whether the objective's curvature is that of x
    finished = rule.begin(_largest(gradient))
    while not finished:
        if not current:
            objective.evaluate(x)
            current = True
        diagonal = objective.diagonal()
        forcing = min(0.1, float(np.sqrt(np.linalg.norm(gradient) / max(len(x), 1))))
        step = conjugate_gradient(
            objective.multiply, -gradient, diagonal, tolerance=max(forcing, 1e-8), radius=radius
        )
        expected = -float(gradient @ step.x) - 0.5 * float(step.x @ objective.multiply(step.x))
        trial_value, trial_gradient = objective.evaluate(x + step.x)
        gain = value - trial_value
        length = float(np.sqrt(diagonal @ step.x**2))
        if gain >= 1e-4 * expected or _negligible(expected, value, gradient, trial_gradient):
            x, value, gradient = x + step.x, trial_value, trial_gradient
            if gain > 0.75 * expected and step.at_boundary and np.isfinite(radius):
                radius *= 2.0
        else:
            current = False
            radius = 0.25 * length
        trace.append(value)
        finished = rule.stop(_largest(gradient)) or radius < 1e-14
    return x, trace


def _largest(gradient: Vector) -> float:
    return float(np.abs(gradient).max(initial=0.0))


def _negligible(expected: float, value: float, gradient: Vector, trial: Vector) -> bool:
    """Whether the gain drowns in rounding while the gradient still falls: accept such steps."""
    small = abs(expected) < 1e-9 * max(abs(value), 1.0)
    return small and _largest(trial) <= _largest(gradient)
