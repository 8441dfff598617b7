"""Two-dimensional Gaussians of many votes: sites on (d, η), cavities, moments.

Symmetric 2 x 2 matrices are rows (dd, dη, ηη), vectors rows (d, η).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import LEAST_DENOMINATOR

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["cavities", "positive", "sites_of_moments", "within_reach"]


def within_reach(A: Vector, V: Vector) -> Vector:
    """A, made smaller where an eigenvalue of VA exceeds 1 - `LEAST_DENOMINATOR`.

    Below that I - VA would not leave a proper Gaussian. The eigenvalues of the product of a
    covariance and a symmetric matrix are real.
    """
    trace = A[:, 0] * V[:, 0] + 2.0 * A[:, 1] * V[:, 1] + A[:, 2] * V[:, 2]
    determinant = _determinant(A) * _determinant(V)
    largest = 0.5 * (trace + np.sqrt(np.maximum(trace**2 - 4.0 * determinant, 0.0)))
    most = 1.0 - LEAST_DENOMINATOR
    return np.asarray(A * np.where(largest > most, most / np.maximum(largest, most), 1.0)[:, None])


def cavities(E: Vector, V: Vector, A: Vector, h: Vector) -> tuple[Vector, Vector]:
    """Mean and covariance without a site: (V⁻¹ - A)⁻¹ = (I - VA)⁻¹V, and (I - VA)⁻¹(E - Vh)."""
    A = within_reach(A, V)
    left = _identity_less(V, A)
    mean = _solve(left, E - _times(V, h))
    one = _solve(left, V[:, :2])
    two = _solve(left, V[:, 1:])
    return mean, np.stack([one[:, 0], 0.5 * (one[:, 1] + two[:, 0]), two[:, 1]], axis=1)


def sites_of_moments(alpha: Vector, kappa: Vector, m: Vector, V: Vector) -> tuple[Vector, Vector]:
    """Precision κ(I - Vκ)⁻¹ and precision-mean (I - κV)⁻¹(α + κm) of sites.

    α is the gradient and -κ the Hessian of log Z in the cavity's mean.
    """
    kappa = within_reach(kappa, V)
    left = _identity_less(kappa, V)  # I - κV, whose inverse times κ is κ(I - Vκ)⁻¹
    one, two = _solve(left, kappa[:, :2]), _solve(left, kappa[:, 1:])
    A = np.stack([one[:, 0], 0.5 * (one[:, 1] + two[:, 0]), two[:, 1]], axis=1)
    return A, _solve(left, alpha + _times(kappa, m))


def positive(A: Vector) -> Vector:
    """The nearest positive semi-definite matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.engines.covariates.planes import positive
    >>> positive(np.array([[1.0, 0.0, -1.0], [2.0, 1.0, 2.0]])).tolist()
    [[1.0, 0.0, 0.0], [2.0, 1.0, 2.0]]
    """
    middle, half = 0.5 * (A[:, 0] + A[:, 2]), 0.5 * (A[:, 0] - A[:, 2])
    spread = np.hypot(half, A[:, 1])
    high, low = np.maximum(middle + spread, 0.0), np.maximum(middle - spread, 0.0)
    share = np.divide(high - low, 2.0 * spread, out=np.zeros_like(spread), where=spread > 0.0)
    mean = 0.5 * (high + low)
    made = np.stack([mean + share * half, share * A[:, 1], mean - share * half], axis=1)
    return np.where((middle >= spread)[:, None], A, made)


def _determinant(A: Vector) -> Vector:
    return np.asarray(A[:, 0] * A[:, 2] - A[:, 1] ** 2)


def _times(A: Vector, x: Vector) -> Vector:
    first = A[:, 0] * x[:, 0] + A[:, 1] * x[:, 1]
    return np.stack([first, A[:, 1] * x[:, 0] + A[:, 2] * x[:, 1]], axis=1)


def _identity_less(A: Vector, B: Vector) -> Vector:
    """I - AB, rows (11, 12, 21, 22)."""
    return np.stack([
        1.0 - A[:, 0] * B[:, 0] - A[:, 1] * B[:, 1], -A[:, 0] * B[:, 1] - A[:, 1] * B[:, 2],
        -A[:, 1] * B[:, 0] - A[:, 2] * B[:, 1], 1.0 - A[:, 1] * B[:, 1] - A[:, 2] * B[:, 2],
    ], axis=1)  # fmt: skip


def _solve(M: Vector, x: Vector) -> Vector:
    """M⁻¹x for general 2 x 2 matrices."""
    bottom = M[:, 0] * M[:, 3] - M[:, 1] * M[:, 2]
    first = (M[:, 3] * x[:, 0] - M[:, 1] * x[:, 1]) / bottom
    return np.stack([first, (M[:, 0] * x[:, 1] - M[:, 2] * x[:, 0]) / bottom], axis=1)
