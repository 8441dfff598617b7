"""The null model: workers whose votes do not depend on the items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import required
from crowdsift.engines.grid import RELIABILITY_ONLY
from crowdsift.solvers.ep.side_prior import PopulationSide
from crowdsift.solvers.ep.variances import Factorisation, loopy_bp

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import SidePrior
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.worker_prior import WorkerPrior

__all__ = ["null_evidence"]

_PASSES = 20  # to settle tie widths and side biases, and what gold implies for the items


def null_evidence(engine: Engine, prior: WorkerPrior, side: SidePrior) -> float:
    """Evidence with all reliabilities 0: votes depend on tie widths and sides alone.

    Without ties and side biases every vote is a coin. Votes of gold still depend on the items, and
    widths and sides are learned as the prior learns them: only the reliabilities differ.
    """
    if prior.types is RELIABILITY_ONLY and not engine.facts.n_gold:
        return float(engine.facts.total_weight * np.log(0.5))
    sites = required(engine.grid).sites(prior.types, 2.0)
    exact = Factorisation(engine)
    masses, means = _without_reliability(prior, prior.masses), np.zeros(engine.facts.n_items)
    system = sites.system(sites.pair_sums())
    evidence = determinant = 0.0
    messages = None
    for step in range(_PASSES):
        linear = float(system.rhs @ means)
        update = sites.update(
            prior.levels, masses, means, damping=0.5 if step else 1.0, clip=True, side=side
        )
        evidence = update.log_messages - update.log_sites - 0.5 * determinant + 0.5 * linear
        prior, side = prior.updated(update.counts), PopulationSide(side).learned(update).prior
        masses, system = _without_reliability(prior, prior.masses), sites.system(sites.pair_sums())
        if engine.facts.n_gold:
            solution = system.laplacian.solve(
                system.rhs, means, shift=1.0, tolerance=1e-6, most=2_000
            )
            means = solution.x
            found = exact.variances(sites, system.laplacian, exact=True)
            if found is None:
                found, messages = loopy_bp(sites, system.laplacian, messages)
            determinant = found.log_determinant
    return evidence


def _without_reliability(prior: WorkerPrior, masses: Vector) -> Vector:
    """What all reliabilities hold at a tie width, moved to reliability 0."""
    table = prior.by_width(masses)
    moved = np.zeros_like(table)
    moved[:, table.shape[1] // 2] = table.sum(axis=1)
    result = np.concatenate([moved.ravel(), masses[table.size :]])
    return np.asarray(result / result.sum())
