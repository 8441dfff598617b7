"""What the grid passes compute of single votes: cavities, outcomes, and sites from moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import LEAST_DENOMINATOR

if TYPE_CHECKING:
    from crowdsift.numeric import Vector
    from reference_engine.votes import VoteColumns


def cavity(E: Vector, V: Vector, tau: Vector, nu: Vector) -> tuple[Vector, Vector, Vector]:
    """Mean and variance without one site, and the log-normaliser of that site."""
    rest = np.maximum(1.0 - tau * V, LEAST_DENOMINATOR)
    log_site = 0.5 * np.log(rest) + 0.5 * (2.0 * E * nu - tau * E**2 - V * nu**2) / rest
    return (E - V * nu) / rest, V / rest, log_site


def moved(
    tau: Vector, nu: Vector, alpha: Vector, curvature: Vector, m: Vector, v: Vector, damping: float, clip: bool
) -> tuple[Vector, Vector]:
    """Return the sites, `damping` of the way to those of the moments."""
    curvature = np.maximum(curvature, 0.0) if clip else curvature
    bottom = np.maximum(1.0 - curvature * v, LEAST_DENOMINATOR)
    new_tau, new_nu = curvature / bottom, (alpha + curvature * m) / bottom
    return tau + damping * (new_tau - tau), nu + damping * (new_nu - nu)


def centred_votes(votes: VoteColumns) -> Vector:
    """2y - 1, less the worker's mean answer where sides are known: one-sided workers vanish."""
    signed = 2.0 * votes.y - 1.0
    if votes.sides_known:
        total = np.maximum(votes.to_workers(votes.n), 1e-300)
        signed = signed - (votes.to_workers(votes.n * signed) / total)[votes.worker]
    return np.asarray(signed, dtype=np.float64)
