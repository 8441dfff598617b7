"""The evidence of a crowd that does not see the items at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import PLAIN
from crowdsift.solvers.side_prior import learned_sides

if TYPE_CHECKING:
    from crowdsift.engines import Engine
    from crowdsift.engines.grid import SidePrior
    from crowdsift.numeric import Vector
    from crowdsift.solvers.worker_prior import WorkerPrior

__all__ = ["blind_evidence"]

_PASSES = 20  # to settle tie widths and side habits, and what known workers say of the items


def blind_evidence(engine: Engine, prior: WorkerPrior, side: SidePrior) -> float:
    """Evidence with the reliabilities of the crowd 0: it answers by tie widths and sides alone.

    Without ties and side habits every vote is a coin. Known workers still see the items, and widths
    and sides are learned as the prior learns them: what differs is the crowd's reliability only.
    The engine's Laplacian is left with the sites of this crowd.
    """
    if prior.habits is PLAIN and not engine.known_workers:
        return float(engine.total_weight * np.log(0.5))
    sites = engine.grid_sites(prior.habits)
    sites.reset(2.0)
    masses, means, rhs = _blind(prior, prior.masses), np.zeros(engine.n_items), None
    evidence = determinant = 0.0
    for step in range(_PASSES):
        linear = 0.0 if rhs is None else float(rhs @ means)
        update = sites.update(
            prior.levels, masses, means, damping=0.5 if step else 1.0, clip=True, side=side
        )
        evidence = update.log_messages - update.log_sites - 0.5 * determinant + 0.5 * linear
        prior, side = prior.updated(update.counts), learned_sides(update.sides)
        masses, rhs = _blind(prior, prior.masses), update.rhs
        if engine.known_workers:
            means = engine.laplacian.solve(rhs, means, shift=1.0, tolerance=1e-6, most=2_000).x
            determinant = sites.pair_variances(exact=True).log_determinant
    return evidence


def _blind(prior: WorkerPrior, masses: Vector) -> Vector:
    """What all reliabilities hold at a tie width, moved to reliability 0."""
    table = prior.by_width(masses)
    moved = np.zeros_like(table)
    moved[:, table.shape[1] // 2] = table.sum(axis=1)
    result = np.concatenate([moved.ravel(), masses[table.size :]])
    return np.asarray(result / result.sum())
