"""What the grid passes compute of single votes: cavities, outcomes, and sites from moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import LEAST_DENOMINATOR

if TYPE_CHECKING:
    from crowdsift.engines.reference.votes import VoteColumns
    from crowdsift.numeric import Vector


def cavity(E: Vector, V: Vector, A: Vector, h: Vector) -> tuple[Vector, Vector, Vector]:
    """Mean and variance without one site, and the log-normaliser of that site."""
    rest = np.maximum(1.0 - A * V, LEAST_DENOMINATOR)
    log_site = 0.5 * np.log(rest) + 0.5 * (2.0 * E * h - A * E**2 - V * h**2) / rest
    return (E - V * h) / rest, V / rest, log_site


def moved(A: Vector, h: Vector, alpha: Vector, nu: Vector, m: Vector, v: Vector, damping: float,
           clip: bool) -> tuple[Vector, Vector]:  # fmt: skip
    """The sites, `damping` of the way to those of the moments."""
    nu = np.maximum(nu, 0.0) if clip else nu
    bottom = np.maximum(1.0 - nu * v, LEAST_DENOMINATOR)
    return A + damping * (nu / bottom - A), h + damping * ((alpha + nu * m) / bottom - h)


def centred_votes(votes: VoteColumns) -> Vector:
    """2y - 1, less the worker's mean answer where sides are known: one-sided workers vanish."""
    signed = 2.0 * votes.y - 1.0
    if votes.sides_known:
        total = np.maximum(votes.to_workers(votes.n), 1e-300)
        signed = signed - (votes.to_workers(votes.n * signed) / total)[votes.worker]
    return np.asarray(signed, dtype=np.float64)
