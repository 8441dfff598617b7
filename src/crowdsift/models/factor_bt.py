"""FactorBT: a vote follows the scores, or else known nuisance features such as the side."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.models.base import Model, WorkerEstimate
from crowdsift.models.likelihood import LikelihoodModel
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.votes.comparisons import Comparisons

SIDE = "side"


@dataclass(frozen=True)
class FactorBT(LikelihoodModel):
    """P(w beats l | s) = σ(γ_s) σ(d) + σ(-γ_s) σ(⟨b_s, x⟩) (Bugakova et al., 2019).

    x are the nuisance features of a comparison in favour of its first item: 1 for the side if sides are known, then
    further features. The reliability is the share σ(γ_s) of votes that follow the scores.

    Parameters
    ----------
    penalty, tolerance, most_iterations
        As in every likelihood method: λ of the prior, and when to stop.
    start_skill
        γ of every worker at the start and the centre of its prior; b starts at 0.
    reduced
        Allow votes with neither sides nor features: the second part is then one half.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(20, 10, 2000, model="factor-bt", seed=1).comparisons()
    >>> crowdsift.fit(votes, "factor-bt").converged
    True
    """

    start_skill: float = 0.7
    reduced: bool = False

    name: ClassVar[str] = "factor-bt"
    free_sign: ClassVar[bool] = False
    likelihood: ClassVar[str] = "led-logit"
    of_any_sign: ClassVar[tuple[str, ...]] = ("start_skill",)

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons with the side as their first feature."""
        features, names = comparisons.features, comparisons.feature_names
        if comparisons.sides_known:
            left = np.ones((len(comparisons), 1), np.float32)
            features = left if features is None else np.hstack([left, features])
            names = (SIDE, *names)
        if features is None and not self.reduced:
            raise RequestError(
                "factor-bt needs the side of every item (columns left,right,winner) or other features of the "
                "comparisons (--covariates NAME,...); these votes have neither"
            )
        return comparisons.with_features(features, names)

    def relax(self, comparisons: Comparisons) -> tuple[Model, str]:
        """Return the model for votes without sides and features: the second part is one half."""
        if comparisons.sides_known or comparisons.features is not None:
            return self, ""
        return replace(self, reduced=True), "reduced: no sides or features, side term one half"

    def start(self, n_features: int) -> Vector:
        return np.concatenate([[self.start_skill], np.zeros(n_features)])

    def workers(self, theta: Vector, sd: Vector) -> WorkerEstimate:
        """Return σ(γ) with its standard deviation by the delta method, and b."""
        skill = sigmoid(theta[:, 0])
        known = theta.shape[1] > 1
        return WorkerEstimate(
            reliability=skill,
            reliability_sd=skill * (1.0 - skill) * sd[:, 0],
            side_bias=theta[:, 1].copy() if known else None,
            side_sd=sd[:, 1].copy() if known else None,
        )

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        """Return the mean over both sides: σ(γ) σ(d) + σ(-γ)/2."""
        return reliability * sigmoid(difference) + 0.5 * (1.0 - reliability)
