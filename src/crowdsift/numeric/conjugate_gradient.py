"""Conjugate gradients with the product as a function, limited by a trust region."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crowdsift.numeric import Vector


class Step(NamedTuple):
    """An approximate solution, xᵀA x, and the reason for stopping."""

    x: Vector
    form: float
    iterations: int
    at_boundary: bool


def conjugate_gradient(
    multiply: Callable[[Vector], Vector],
    rhs: Vector,
    diagonal: Vector,
    *,
    tolerance: float,
    shift: float = 0.0,
    radius: float = np.inf,
    correct: Callable[[Vector, Vector], None] | None = None,
    most: int = 10_000,
) -> Step:
    """Solve (A + shift I) x = rhs from 0 with the preconditioner diag, inside ‖x‖ ≤ radius."""
    # Where A has negative curvature, or the path leaves the region, the step ends at the boundary (Steihaug 1983), with
    # the norm ‖x‖² = Σ diag·x². `correct(v, out)` adds to out, which is v over diag, a correction for directions along
    # which A is much smaller than its diagonal.
    x, residual = np.zeros_like(rhs), rhs.copy()
    # Vectors are long, so buffers are reused.
    scaled, scratch, shifted = np.empty_like(rhs), np.empty_like(rhs), np.empty_like(rhs)

    def precondition() -> float:
        np.divide(residual, diagonal, out=scaled)
        if correct is not None:
            correct(residual, scaled)
        return float(residual @ scaled)

    def go(length: float, image: Vector) -> None:
        nonlocal x, residual
        x += np.multiply(direction, length, out=scratch)
        residual -= np.multiply(image, length, out=scratch)

    def step(iterations: int, at_boundary: bool) -> Step:
        return Step(x, float(x @ (rhs - residual)), iterations, at_boundary)

    product = precondition()
    direction = scaled.copy()
    goal = tolerance * np.sqrt(product)
    for iteration in range(most):
        if np.sqrt(product) <= goal:
            return step(iteration, False)
        image = multiply(direction)
        if shift:
            np.multiply(direction, shift, out=shifted)
            image = np.add(image, shifted, out=shifted)
        curvature = float(direction @ image)
        length = product / curvature if curvature > 0 else np.inf
        if not np.isfinite(length) or _leaves(x, direction, length, diagonal, radius):
            if np.isfinite(radius):
                length = _to_boundary(x, direction, diagonal, radius)
            else:  # negative curvature without a region: the present x, or the descent direction
                length = 0.0 if iteration else 1.0
            go(length, image)
            return step(iteration + 1, True)
        go(length, image)
        following = precondition()
        direction *= following / product
        direction += scaled
        product = following
    return step(most, False)


def _leaves(x: Vector, direction: Vector, length: float, diagonal: Vector, radius: float) -> bool:
    """Return whether a step ends outside the trust region."""
    return False if np.isinf(radius) else float(diagonal @ (x + length * direction) ** 2) >= radius**2


def _to_boundary(x: Vector, direction: Vector, diagonal: Vector, radius: float) -> float:
    """Return the t > 0 with x + t·direction on the boundary of the region."""
    a = float(diagonal @ direction**2)
    b = float(diagonal @ (x * direction))
    c = float(diagonal @ x**2) - radius**2
    return (-b + float(np.sqrt(max(b * b - a * c, 0.0)))) / a


def solve(
    multiply: Callable[[Vector], Vector],
    diagonal: Vector,
    rhs: Vector,
    start: Vector,
    shift: float,
    tolerance: float,
    most: int,
) -> tuple[Vector, int, float, bool]:
    """Solve (A + shift I) x = rhs from `start` to a residual of `tolerance` times the norm of rhs."""
    # Returns x, the number of steps, the relative residual, and whether it is small enough. Stops if A is not positive
    # along a direction.
    size = float(np.linalg.norm(rhs))
    if size == 0.0:
        return np.zeros_like(rhs), 0, 0.0, True
    pivot = diagonal + shift
    inverse = np.divide(1.0, pivot, out=np.ones_like(pivot), where=pivot > 0.0)
    x = start.copy()
    residual = rhs - multiply(x) - shift * x
    direction = inverse * residual
    product, square = float(residual @ direction), float(residual @ residual)
    steps = 0
    while np.sqrt(square) > tolerance * size and steps < most:
        image = multiply(direction) + shift * direction
        curvature = float(direction @ image)
        if not curvature > 0.0:
            break
        length = product / curvature
        x += length * direction
        residual -= length * image
        scaled = inverse * residual
        following, square = float(residual @ scaled), float(residual @ residual)
        direction = scaled + (following / product) * direction
        product = following
        steps += 1
    relative = float(np.sqrt(square)) / size
    return x, steps, relative, relative <= tolerance
