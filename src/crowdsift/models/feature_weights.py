"""Estimates from features of items: weights, shares, and scores of items without votes."""

from dataclasses import dataclass, replace
from typing import Self, cast

import numpy as np

from crowdsift.models.base import Estimate
from crowdsift.models.covariance import MOST_ITEMS, ScorePrecision
from crowdsift.numeric import Vector
from crowdsift.solvers.ep.items import ItemsState
from crowdsift.solvers.ep.state import Propagation
from crowdsift.solvers.ep.terms.features import DensePrior, FeaturePrior, WeightPosterior
from crowdsift.solvers.feature_map import FeatureMode
from crowdsift.votes.item_features import ItemFeatures

__all__ = ["FeatureEstimate", "WeightPosterior", "with_feature_estimate"]


@dataclass(frozen=True, eq=False)
class FeatureEstimate:
    """The linear part of scores, r = Σ_b X_b w_b + u, in the units of the reported scores.

    `features` are the blocks, without their values. `shares` are ρ_b, the prior share of each block in the variance of
    scores; no feature explains the rest, 1 - Σρ_b. `explained` is the features' share of the variance of the posterior
    means. `weights` is the posterior of w over its prior standard deviation √ρ_b, block after block. `n_items` is the
    number of items that were fitted, `size` the number by which scores were divided, and `gain` the nats of evidence
    that the features added.
    """

    features: ItemFeatures
    shares: Vector
    explained: float
    weights: WeightPosterior
    n_items: int
    size: float
    gain: float = 0.0

    @property
    def own(self) -> float:
        """Return the variance that features do not explain, on the scale of the prior."""
        return float(1.0 - self.shares.sum())

    def score(self, values: list[Vector]) -> tuple[Vector, Vector]:
        """Return means and standard deviations of scores, about the mean of the fitted items."""
        # `features` are standardised, one matrix per block. The level of the fitted items is independent of the weights
        # and has the variance s/K.
        parts = [np.sqrt(rho) * each for rho, each in zip(self.shares, values, strict=True)]
        rows = np.concatenate(parts, axis=1)
        variance = self.weights.variance(rows) + self.own * (1.0 + 1.0 / self.n_items)
        return rows @ self.weights.mean / self.size, np.sqrt(variance) / self.size

    def head(self) -> tuple[Vector, Vector]:
        """Return weights of standardised features before their block's factor, and their sd."""
        factor = np.concatenate(
            [
                np.full(len(block.names), np.sqrt(rho) * block.factor)
                for rho, block in zip(self.shares, self.features.blocks, strict=True)
            ]
        )
        factor = factor / self.size
        return factor * self.weights.mean, factor * np.sqrt(self.weights.variances())

    def mirrored(self) -> Self:
        """Return the estimate for scores with reversed sign."""
        return replace(self, weights=self.weights._replace(mean=0.0 - self.weights.mean))


def with_feature_estimate(
    estimate: Estimate, run: Propagation | FeatureMode, features: ItemFeatures, size: float
) -> Estimate:
    """Add the features' prior to the estimate: all items then form one component."""
    # All items become comparable. (L + C⁻¹)1 = 1/s·1, so the variance about the mean of all is Σ_jj - s/K. For few
    # items the covariance about it, PΣP, is exact. It is stored as a Laplacian of weights over all pairs, whose
    # pseudo-inverse it is.
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
    """Return the pairs of the Laplacian whose pseudo-inverse is the covariance Σ about the mean of all items."""
    n = len(covariance)
    level = 1.0 / n
    about = covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None]
    about = about + covariance.mean() + level
    inverse = np.linalg.inv(about) - level
    low, high = (each.astype(np.uint32) for each in np.triu_indices(n, 1))
    return ScorePrecision(low, high, -inverse[low, high], np.zeros(n, np.uint32), 0.0)
