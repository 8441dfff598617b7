"""What the grid passes compute of single votes: cavities, outcomes, and sites from moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import LEAST_DENOMINATOR
from crowdsift.numeric.likelihoods import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = ["cavity", "centred_votes", "moved", "outcome_terms"]


def cavity(E: Vector, V: Vector, A: Vector, h: Vector) -> tuple[Vector, Vector, Vector]:
    """Mean and variance without one site, and the log-normaliser of that site."""
    rest = np.maximum(1.0 - A * V, LEAST_DENOMINATOR)
    log_site = 0.5 * np.log(rest) + 0.5 * (2.0 * E * h - A * E**2 - V * h**2) / rest
    return (E - V * h) / rest, V / rest, log_site


def outcome_terms(
    z: Vector, width: Vector, tied: NDArray[np.bool_]
) -> tuple[Vector, Vector, Vector]:
    """Log Z and its first two derivatives in z, the second as f: e² + (log Z)''."""
    p1, p2 = sigmoid(z - width), sigmoid(-z - width)
    log_p1, log_p2 = -np.logaddexp(0.0, width - z), -np.logaddexp(0.0, width + z)
    with np.errstate(divide="ignore"):
        log_tie = np.log(np.expm1(np.minimum(2.0 * width, 700.0))) + log_p1 + log_p2
    e_tie = p2 - p1
    f_tie = e_tie**2 - p1 * (1.0 - p1) - p2 * (1.0 - p2)
    return (
        np.where(tied, log_tie, log_p1),
        np.where(tied, e_tie, 1.0 - p1),
        np.where(tied, f_tie, (1.0 - p1) * (1.0 - 2.0 * p1)),
    )


def moved(A: Vector, h: Vector, alpha: Vector, nu: Vector, m: Vector, v: Vector, damping: float,
           clip: bool) -> tuple[Vector, Vector]:  # fmt: skip
    """The sites, `damping` of the way to those of the moments."""
    nu = np.maximum(nu, 0.0) if clip else nu
    bottom = np.maximum(1.0 - nu * v, LEAST_DENOMINATOR)
    return A + damping * (nu / bottom - A), h + damping * ((alpha + nu * m) / bottom - h)


def centred_votes(
    worker: NDArray[np.uint32], outcome: Vector, weight: Vector, n_workers: int, sides_known: bool
) -> Vector:
    """2y - 1, less the worker's mean answer where sides are known: one-sided workers vanish."""
    signed = 2.0 * outcome - 1.0
    if sides_known:
        total = np.bincount(worker, weight, n_workers)
        mean = np.bincount(worker, weight * signed, n_workers) / np.maximum(total, 1e-300)
        signed = signed - mean[worker]
    return np.asarray(signed, dtype=np.float64)
