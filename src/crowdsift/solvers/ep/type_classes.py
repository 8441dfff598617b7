"""How well classes of types explain a worker's own votes: adversarial, random, informative.

With b the typical reliability, the median of the positive part of the learned distribution, a
type is adversarial for β < -b/4, random for |β| ≤ b/4 and informative for β > b/4; a type that
sees nothing but sides is one-sided. The likelihood of a worker's votes, scores from the votes of
others, is averaged over the types of a class as the learned distribution has them within it. How
common a class is among workers does not enter: a verdict is about a worker's own votes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.fused import FusedSites, SummedSites
from crowdsift.engines.grid import mirrored
from crowdsift.solvers.ep.type_summary import by_blocks

if TYPE_CHECKING:
    from crowdsift.engines.grid import GridSites
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.worker_prior import WorkerPrior

__all__ = ["SMALLEST", "class_evidence", "typical_reliability"]

_NUMBERS = 4_000_000  # of an array over workers and types at a time
SMALLEST = 1e-300  # of a posterior, whose logarithm is taken


def typical_reliability(prior: WorkerPrior) -> float:
    """The median of the positive part of a distribution, or of the negative one if that is larger.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.solvers.ep.type_classes import typical_reliability
    >>> from crowdsift.solvers.ep.worker_prior import WorkerPrior, power_grid
    >>> round(typical_reliability(WorkerPrior.start(power_grid(49), 1.25, 0.5)), 1)
    1.3
    """
    points = mirrored(prior.levels)
    masses, half = prior.by_width(prior.masses).sum(axis=0), len(prior.levels)
    up, down = masses[half + 1 :], masses[:half][::-1]
    chosen = up if up.sum() >= down.sum() else down
    reached = np.cumsum(chosen) - 0.5 * chosen
    return float(np.interp(0.5 * chosen.sum(), reached, points[half + 1 :]))


def class_evidence(sites: GridSites, prior: WorkerPrior, typical: float, n_workers: int) -> Vector:
    """Logarithms of the averaged likelihoods, up to a constant a worker: a column a class.

    Columns are adversarial, random, informative and, where the prior has types that see nothing
    but sides, one-sided. They are posteriors under a prior that gives all classes the same mass.
    """
    beta = np.tile(mirrored(prior.levels), len(prior.types.widths))
    classes = np.full(len(prior.masses), 3)
    classes[: len(beta)] = _class_of(beta, typical)
    held = np.bincount(classes, prior.masses)
    even = prior.masses / (len(held) * np.maximum(held, SMALLEST))[classes]
    side_only = len(prior.masses) - len(beta)
    if isinstance(sites, FusedSites):
        whole = sites.class_masses(even, 0.25 * typical)
        if whole is not None:
            return np.asarray(np.log(np.maximum(whole, SMALLEST)))
    if isinstance(sites, SummedSites):
        marginals = sites.marginals(even, slice(0, n_workers), 0)
        columns = (
            marginals.points,
            np.concatenate([marginals.reliability, marginals.side_only], axis=1),
        )
        masses = np.concatenate(by_blocks(sites, columns, partial(_masses, typical, side_only)))
        return np.asarray(np.log(np.maximum(masses, SMALLEST)))
    result = np.empty((n_workers, len(held)))
    chunk = max(_NUMBERS // len(prior.masses), 1)
    for begin in range(0, n_workers, chunk):
        end = min(begin + chunk, n_workers)
        found = sites.posteriors(even, slice(begin, end))
        parts = by_blocks(sites, tuple(found), partial(_masses, typical, side_only))
        result[begin:end] = np.concatenate(parts)
    return np.asarray(np.log(np.maximum(result, SMALLEST)))


def _masses(typical: float, side_only: int, points: Vector, masses: Vector) -> Vector:
    """Posterior probabilities of the classes of some workers."""
    regular = masses[:, : masses.shape[1] - side_only]
    by_reliability = regular.reshape(len(points), -1, points.shape[1]).sum(axis=1)
    own = _class_of(points, typical)
    columns = [np.sum(by_reliability * (own == number), axis=1) for number in range(3)]
    if side_only:
        columns.append(masses[:, regular.shape[1] :].sum(axis=1))
    return np.stack(columns, axis=1)


def _class_of(beta: Vector, typical: float) -> Vector:
    zone = 0.25 * typical
    return np.where(beta < -zone, 0, np.where(beta > zone, 2, 1))
