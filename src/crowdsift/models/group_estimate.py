"""The estimate of a run in which items may differ from group to group of votes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import required
from crowdsift.models.covariance import ScorePrecision
from crowdsift.solvers.ep.terms.dependent import GroupPrior

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.models.base import Estimate
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.state import Propagation

__all__ = ["MOST_NUMBERS", "with_group_estimate"]

MOST_NUMBERS = 20_000_000  # in the covariances of items within groups


def with_group_estimate(
    estimate: Estimate, run: Propagation, engine: Engine, before: Estimate, size: float
) -> Estimate:
    """The estimate of a run over items in groups, as one of the items themselves.

    Rows of P - I add up to 0: it is the Laplacian of weights over pairs of items, which is how
    covariances are kept. `design_effect` is how much the mean variance has grown over that of the
    fit without groups; a pair effect of that fit has its part in it.

    Parameters
    ----------
    engine, before
        Of the votes without groups, and the estimate of those.
    """
    prior = run.item_prior
    if not isinstance(prior, GroupPrior):
        return estimate
    component = engine.facts.component
    level = 1.0 / np.bincount(component)[component]
    sd = np.sqrt(np.maximum(np.diag(prior.covariance) - level, 0.0)) / size
    scores = (prior.item_means - prior.item_means.mean()) / size
    low, high = (each.astype(np.uint32) for each in np.triu_indices(prior.count, 1))
    within = component[low] == component[high]
    low, high = low[within], high[within]
    old = before.score_sd
    design = 1.0 if old is None else float(np.mean(sd**2)) / max(float(np.mean(old**2)), 1e-300)
    return replace(
        estimate,
        scores=scores,
        log_likelihood=_log_likelihood(estimate, engine, scores),
        score_sd=sd,
        precision=ScorePrecision(low, high, -prior.precision[low, high], component, 1.0, size),
        details={
            **estimate.details,
            "group_effect": prior.variance / size**2,
            "design_effect": design,
        },
        sites=None,
    )


def _log_likelihood(estimate: Estimate, engine: Engine, scores: Vector) -> float:
    reliability = estimate.workers.reliability
    if reliability is None:
        return estimate.log_likelihood
    return required(engine.slopes).log_likelihood(scores, reliability)
