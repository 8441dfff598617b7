"""The evidence of a crowd that does not see the items at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import PLAIN
from crowdsift.solvers.side_prior import learned_sides

if TYPE_CHECKING:
    from crowdsift.engines import Engine, Vector
    from crowdsift.engines.grid import SidePrior
    from crowdsift.solvers.worker_prior import WorkerPrior

__all__ = ["blind_evidence"]

_PASSES = 20  # to settle tie widths and side habits, which do not depend on each other's scores


def blind_evidence(engine: Engine, prior: WorkerPrior, side: SidePrior) -> float:
    """Evidence with all reliabilities 0: ties and sides are all that workers answer by.

    Without ties and side habits every vote is a coin.
    """
    if prior.habits is PLAIN:
        return float(engine.total_weight * np.log(0.5))
    sites = engine.grid_sites(prior.habits)
    sites.reset(1.0)
    masses, nowhere = _blind(prior, prior.masses), np.zeros(engine.n_items)
    evidence = 0.0
    for step in range(_PASSES):
        update = sites.update(
            prior.levels, masses, nowhere, damping=0.5 if step else 1.0, clip=True, side=side
        )
        evidence = update.log_messages
        masses, side = _blind(prior, update.counts + 1e-3), learned_sides(update.sides)
    return evidence


def _blind(prior: WorkerPrior, masses: Vector) -> Vector:
    """What all reliabilities hold at a tie width, moved to reliability 0."""
    table = prior.by_width(masses)
    moved = np.zeros_like(table)
    moved[:, table.shape[1] // 2] = table.sum(axis=1)
    result = np.concatenate([moved.ravel(), masses[table.size :]])
    return np.asarray(result / result.sum())
