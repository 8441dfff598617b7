"""The estimate of a run with a prior by features of items."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from crowdsift.models.covariance import MOST_ITEMS, ScorePrecision
from crowdsift.models.feature_weights import FeatureEstimate
from crowdsift.solvers.ep.terms.features import DensePrior, FeaturePrior

if TYPE_CHECKING:
    from crowdsift.models.base import Estimate
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.items import ItemsState
    from crowdsift.solvers.ep.state import Propagation
    from crowdsift.solvers.feature_map import FeatureMode
    from crowdsift.votes.item_features import ItemFeatures


def with_feature_estimate(
    estimate: Estimate, run: Propagation | FeatureMode, features: ItemFeatures, size: float
) -> Estimate:
    """Add the features' prior to the estimate: all items then form one component."""
    # All items can be compared then. (L + C⁻¹)1 = 1/s·1, so the variance about the mean of all is Σ_jj - s/K. Where
    # items are few their covariance about it, PΣP, is exact: its pseudo-inverse is the Laplacian of weights over all
    # pairs, which is how covariances are kept.
    prior = run.item_prior
    if not isinstance(prior, FeaturePrior):
        return estimate
    n = prior.n_items
    variance = np.maximum(run.variances - prior.own / n, 0.0)
    weights = prior.weights(cast("ItemsState", run))
    part = prior.design() @ weights.mean
    centred = run.means - run.means.mean()
    total = float(centred @ centred)
    found = FeatureEstimate(
        features.without_values(),
        prior.shares.copy(),
        float(part @ part) / total if total > 0.0 else 0.0,
        weights,
        n,
        size,
        run.feature_gain,
    )
    precision = None
    if isinstance(prior, DensePrior) and n <= MOST_ITEMS:
        precision = _all_pairs(prior.covariance / size**2)
    return replace(
        estimate,
        score_sd=np.sqrt(variance) / size,
        precision=precision,
        component=np.zeros(n, np.uint32),
        features=found,
        sites=None,
    )


def _all_pairs(covariance: Vector) -> ScorePrecision:
    """Return PΣP as the pseudo-inverse of a Laplacian over all pairs."""
    n = len(covariance)
    level = 1.0 / n
    about = covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None]
    about = about + covariance.mean() + level
    inverse = np.linalg.inv(about) - level
    low, high = (each.astype(np.uint32) for each in np.triu_indices(n, 1))
    return ScorePrecision(low, high, -inverse[low, high], np.zeros(n, np.uint32), 0.0)
