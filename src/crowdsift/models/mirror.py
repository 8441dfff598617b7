"""The one place where an estimate changes its sign: r and -r explain votes alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crowdsift.solvers.ep.population import mirrored_population

if TYPE_CHECKING:
    from crowdsift.engines.grid import WorkerPoints
    from crowdsift.models.base import Estimate, Model, WorkerEstimate
    from crowdsift.numeric import Vector

__all__ = ["mirror"]


def mirror(model: Model, estimate: Estimate) -> Estimate:
    """Return the estimate with the sign of all scores turned, and all else to match.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.models import MODELS
    >>> from crowdsift.models.base import Estimate, WorkerEstimate
    >>> from crowdsift.models.mirror import mirror
    >>> from crowdsift.solvers.convergence import StoppingRule
    >>> workers = WorkerEstimate(reliability=np.array([0.5]))
    >>> rule = StoppingRule("change", 1e-3, 9)
    >>> estimate = Estimate(np.array([1.0, -1.0]), 0.0, rule, [], workers=workers)
    >>> turned = mirror(MODELS["hbtl"](), estimate)
    >>> turned.scores.tolist(), turned.workers.reliability.tolist()
    ([-1.0, 1.0], [-0.5])
    """
    pairs, points, apart = estimate.pairs, estimate.points, estimate.in_context
    population, sites, sign = estimate.population, estimate.sites, estimate.sign
    return replace(
        estimate,
        scores=0.0 - estimate.scores,
        theta=model.mirrored(estimate.theta, estimate.workers.random_level),
        points=None if points is None else _points(points),
        in_context=None if apart is None else apart._replace(points=_points(apart.points)),
        workers=_workers(estimate.workers),
        sign=None if sign is None else sign.mirrored(),
        pairs=None if pairs is None else pairs._replace(mean=0.0 - pairs.mean),
        population=None if population is None else mirrored_population(population),
        sites=None if sites is None else sites._replace(nu=-sites.nu),
        features=None if estimate.features is None else estimate.features.mirrored(),
    )


def _points(points: WorkerPoints) -> WorkerPoints:
    return points._replace(reliability=0.0 - points.reliability)


def _workers(workers: WorkerEstimate) -> WorkerEstimate:
    """Reliabilities about that of a worker who clicks at random; adversarial is informative."""

    def turned(values: Vector | None) -> Vector | None:
        return None if values is None else 2.0 * workers.random_level - values

    quantiles, classes = turned(workers.quantiles), workers.class_evidence
    n_classes = 0 if classes is None else classes.shape[1]
    return replace(
        workers,
        reliability=turned(workers.reliability),
        reliability_lower=turned(workers.reliability_upper),
        reliability_upper=turned(workers.reliability_lower),
        quantiles=None if quantiles is None else quantiles[:, ::-1].copy(),
        class_evidence=None if classes is None else classes[:, [2, 1, 0, *range(3, n_classes)]],
    )
