"""Boltzmann-rational workers by maximum a posteriori: the workhorse at scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from crowdsift.engines.base import required
from crowdsift.errors import RequestError
from crowdsift.models.base import Estimate, Start, WorkerEstimate
from crowdsift.models.boltzmann import BoltzmannModel
from crowdsift.models.covariance import exact_items
from crowdsift.models.feature_estimate import with_feature_estimate
from crowdsift.models.precision import ScorePrecision
from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR, Progress, StoppingRule
from crowdsift.solvers.ep.item_features import DENSE_ITEMS
from crowdsift.solvers.feature_map import mode_with_features, plain_evidence
from crowdsift.solvers.slopes import minimise_with_slopes

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine, Profile
    from crowdsift.numeric import Vector
    from crowdsift.votes.item_features import ItemFeatures

__all__ = ["BoraMAP"]


@dataclass(frozen=True)
class BoraMAP(BoltzmannModel):
    """P(w beats l | s) = σ(β_s (r_w - r_l)), r_j ~ N(0, 1), β_s ~ N(μ, σ²): the posterior's mode.

    The model of `bora-em` with priors that make its maximum exist, and fix scale and sign. At the
    end the scores are scaled to root mean square 1 and the reliabilities take up the scale.

    Parameters
    ----------
    reliability_mean
        μ, the reliability of a worker of whom nothing is known. It is positive: this settles the
        sign.
    reliability_sd
        σ, how far workers differ.
    tolerance
        Stop when the gradient would move no score by more than this.
    most_iterations
        Stop unconverged after so many Newton steps.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=20, workers=10, comparisons=2000, seed=1).comparisons()
    >>> fit = crowdsift.fit(votes, method="bora-map")
    >>> fit.converged, round(float((fit.items["score"] ** 2).mean()), 6)
    (True, 1.0)
    """

    reliability_mean: float = 1.25
    reliability_sd: float = 0.7
    tolerance: float = 1e-5
    most_iterations: int = 200

    name: ClassVar[str] = "bora-map"
    needs: ClassVar[str] = "slopes"
    takes_items: ClassVar[bool] = True
    tuned: ClassVar[str] = "reliability_sd"
    bytes_a_comparison: ClassVar[int] = 16

    def estimate(
        self, engine: Engine, progress: Progress | None = None, start: Start | None = None
    ) -> Estimate:
        """Newton steps from 0; standard deviations from the curvature at the end."""
        rule = self._rule(progress)
        found, at, trace = minimise_with_slopes(
            engine, penalty=1.0, mean=self.reliability_mean, sd=self.reliability_sd, rule=rule,
            start=None if start is None or start.workers is None else (start.scores, start.workers),
        )  # fmt: skip
        return self._estimate(engine, found, at, trace, rule)[0]

    def estimate_with_items(
        self, engine: Engine, features: ItemFeatures, progress: Progress | None = None
    ) -> Estimate:
        """With a prior of scores by features if Laplace's evidence clearly rises."""
        if engine.facts.n_items > DENSE_ITEMS:
            raise RequestError(
                f"bora-map takes features of at most {DENSE_ITEMS:,} items, not of "
                f"{engine.facts.n_items:,}; sift takes more"
            )
        rule, prior = self._rule(progress), (self.reliability_mean, self.reliability_sd)
        found, at, trace = minimise_with_slopes(
            engine, penalty=1.0, mean=prior[0], sd=prior[1], rule=rule
        )
        mode = mode_with_features(
            engine, [group.values for group in features.groups], mean=prior[0], sd=prior[1],
            rule=self._rule(progress), start=(found, at.slopes),
        )  # fmt: skip
        mode.feature_gain = mode.evidence - plain_evidence(engine, found, at, trace[-1])
        if mode.feature_gain <= MIN_LOG_BAYES_FACTOR:
            return self._estimate(engine, found, at, trace, rule)[0]
        estimate, size = self._estimate(engine, mode.means, mode.at, mode.trace, mode.rule)
        return with_feature_estimate(estimate, mode, features, size)

    def _rule(self, progress: Progress | None) -> StoppingRule:
        return StoppingRule(
            "largest step of a score", self.tolerance, self.most_iterations, progress
        )

    def _estimate(
        self, engine: Engine, found: Vector, at: Profile, trace: list[float], rule: StoppingRule
    ) -> tuple[Estimate, float]:
        """The estimate of unit size, and the size that the mode had."""
        scores = found - found.mean()
        size = float(np.sqrt(np.mean(scores**2)))
        if size < 1e-9:  # the votes are all ties
            scores, size = np.zeros_like(scores), 1.0
        scores, slopes = np.asarray(scores / size), np.asarray(at.slopes * size)
        return Estimate(
            scores=scores,
            log_likelihood=at.value,
            rule=rule,
            trace=[-value / engine.facts.total_weight for value in trace],
            precision=self._precision(engine, scores, slopes, size),
            theta=slopes[:, None],
            workers=WorkerEstimate(slopes, np.asarray(size / np.sqrt(at.curvature))),
        ), size

    @staticmethod
    def _precision(
        engine: Engine, scores: Vector, slopes: Vector, size: float
    ) -> ScorePrecision | None:
        """Of the scaled scores; their prior has the precision size²."""
        if not exact_items(engine.facts.component).any():
            return None
        at = required(engine.slopes).curvature(scores, slopes)
        return ScorePrecision.of(at.laplacian, engine.facts, size**2)
