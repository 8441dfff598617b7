"""What features of items imply for their scores: weights, shares, scores of items without votes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.solvers.ep.terms.features import WeightPosterior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.votes.item_features import ItemFeatures

__all__ = ["FeatureEstimate", "WeightPosterior"]


@dataclass(frozen=True, eq=False)
class FeatureEstimate:
    """The linear part of scores, r = Σ_b X_b w_b + u, in the units of the reported scores.

    `features`: the blocks, without their values; `shares`: ρ_b, the prior share of the variance of scores that is a
    block's; 1 - Σρ_b is an item's own; `explained`: the share of the variance of the posterior means that lies in the
    features' part; `weights`: posterior of w over its prior standard deviation √ρ_b, all blocks one after the other;
    `n_items`, `size`: the number of items that were fitted, and what scores were divided by; `gain`: how many nats of
    evidence the features added.
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
        """The variance of what features leave open, on the scale of the prior."""
        return float(1.0 - self.shares.sum())

    def score(self, values: list[NDArray[np.float64]]) -> tuple[Vector, Vector]:
        """Return means and standard deviations of scores, about the mean of the fitted items."""
        # For standardised features, a matrix per block. The level of the fitted items is independent of the weights and
        # has the variance s/K.
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

    def mirrored(self) -> FeatureEstimate:
        """For scores of the other sign."""
        return replace(self, weights=self.weights._replace(mean=0.0 - self.weights.mean))
