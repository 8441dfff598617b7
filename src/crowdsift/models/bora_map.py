"""Boltzmann-rational workers by maximum a posteriori: the fastest method for many votes."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdsift.engines.base import Engine, Profile, required
from crowdsift.engines.grid import MAX_DENSE_ITEMS
from crowdsift.errors import RequestError
from crowdsift.models.base import Estimate, Model, SignSupport, Start, WorkerEstimate, mirror
from crowdsift.models.covariance import ScorePrecision
from crowdsift.models.feature_weights import with_feature_estimate
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.solvers.convergence import Progress, StoppingRule
from crowdsift.solvers.feature_map import mode_with_features, plain_evidence
from crowdsift.solvers.slopes import minimise_with_slopes
from crowdsift.votes.item_features import ItemFeatures


class BoltzmannModel(Model):
    """P(first wins | s) = σ(β_s d); interrupted runs continue from their iterate."""

    @abstractmethod
    def estimate(self, engine: Engine, progress: Progress | None = None, start: Start | None = None) -> Estimate:
        """Fit the model, from the iterate `start` if there is one."""

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        slopes = np.ascontiguousarray(estimate.theta[:, 0])
        return required(engine.slopes).log_likelihood(estimate.scores, slopes)

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        return sigmoid(reliability * difference)


@dataclass(frozen=True)
class BoraMAP(BoltzmannModel):
    """P(w beats l | s) = σ(β_s (r_w - r_l)), r_j ~ N(0, 1), β_s ~ N(μ, σ²): the posterior's mode.

    The model of `bora-em` with priors that make its maximum exist, and fix the scale. Informative workers decide the
    sign. At the end the scores are scaled to root mean square 1 and the reliabilities take up the scale.

    Parameters
    ----------
    reliability_mean
        μ, the reliability of a worker before any vote.
    reliability_sd
        σ, the standard deviation of reliabilities between workers.
    tolerance
        Stop when the gradient would move no score by more than this.
    most_iterations
        The largest number of Newton steps; a fit that needs more ends unconverged.

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

    def estimate(self, engine: Engine, progress: Progress | None = None, start: Start | None = None) -> Estimate:
        """Take Newton steps from 0; standard deviations come from the curvature at the end."""
        begin = None if start is None or start.workers is None else (start.scores, start.workers)
        return self._upright(self._mode(engine, progress, begin)[2])

    def estimate_with_items(self, engine: Engine, features: ItemFeatures, progress: Progress | None = None) -> Estimate:
        """Use a prior of scores by features if Laplace's evidence clearly rises."""
        if engine.facts.n_items > MAX_DENSE_ITEMS:
            raise RequestError(
                f"bora-map takes features of at most {MAX_DENSE_ITEMS:,} items, not "
                f"of {engine.facts.n_items:,}; sift takes more"
            )
        found, at, plain = self._mode(engine, progress, None)
        varied = any(block.values.any() for block in features.blocks)
        if not varied or not plain.scores.any():  # nothing to explain, or no features that vary
            return self._upright(plain)
        mode = mode_with_features(
            engine,
            [block.values for block in features.blocks],
            mean=self.reliability_mean,
            sd=self.reliability_sd,
            rule=self._rule(progress),
            start=(found, at.slopes),
        )
        value = -plain.trace[-1] * engine.facts.total_weight
        mode.feature_gain = mode.evidence - plain_evidence(engine, found, at, value)
        if mode.feature_gain <= MIN_LOG_BAYES_FACTOR:
            return self._upright(plain)
        estimate, size = self._estimate(engine, mode.means, mode.at, mode.trace, mode.rule)
        return self._upright(with_feature_estimate(estimate, mode, features, size))

    def _mode(
        self, engine: Engine, progress: Progress | None, start: tuple[Vector, Vector] | None
    ) -> tuple[Vector, Profile, Estimate]:
        """Return the mode; if its workers oppose its sign, look for one with the other sign as well."""
        # The prior of reliabilities is not symmetric, so the mirror image of a mode is not a mode.
        found: list[tuple[Vector, Profile, Estimate]] = []
        while not found or (len(found) == 1 and _log_odds(found[0][2]) < 0.0):
            if found:
                start = -found[0][0], -found[0][1].slopes
            rule = self._rule(progress)
            scores, at, trace = minimise_with_slopes(
                engine, penalty=1.0, mean=self.reliability_mean, sd=self.reliability_sd, rule=rule, start=start
            )
            found.append((scores, at, self._estimate(engine, scores, at, trace, rule)[0]))
        return max(found, key=lambda each: _log_odds(each[2]))

    def _upright(self, estimate: Estimate) -> Estimate:
        """Return the estimate, reversed if its informative workers oppose its sign."""
        return mirror(self, estimate) if _log_odds(estimate) < 0.0 else estimate

    def _rule(self, progress: Progress | None) -> StoppingRule:
        return StoppingRule("largest step of a score", self.tolerance, self.most_iterations, progress)

    def _estimate(
        self, engine: Engine, found: Vector, at: Profile, trace: list[float], rule: StoppingRule
    ) -> tuple[Estimate, float]:
        """Return the estimate scaled to unit size, and the size of the mode."""
        scores = found - found.mean()
        size = float(np.sqrt(np.mean(scores**2)))
        if size < 1e-9:  # all votes are ties
            scores, size = np.zeros_like(scores), 1.0
        scores, slopes = np.asarray(scores / size), np.asarray(at.slopes * size)
        # The prior of scaled scores has the precision size².
        precision = ScorePrecision.of(
            lambda: required(engine.slopes).curvature(scores, slopes).laplacian, engine.facts, size**2
        )
        return Estimate(
            scores=scores,
            log_likelihood=at.value,
            rule=rule,
            trace=[-value / engine.facts.total_weight for value in trace],
            precision=precision,
            theta=slopes[:, None],
            workers=WorkerEstimate(slopes, np.asarray(size / np.sqrt(at.curvature))),
            sign=self._sign(engine, at, size),
        ), size

    def _sign(self, engine: Engine, at: Profile, size: float) -> SignSupport | None:
        """Return the support of workers for and against the sign."""
        # The prior N(μ, σ²) treats every worker as honest before its first vote. For this question it is replaced by
        # N(0, μ² + σ²), which has the same width and favours no sign.
        mean, precision = self.reliability_mean, self.reliability_sd**-2
        votes = np.maximum(at.curvature - precision, 0.0)
        total = votes + 1.0 / (mean**2 + self.reliability_sd**2)
        beta = (at.curvature * at.slopes - precision * mean) / total
        return WorkerEstimate(beta * size, size * total**-0.5).sign_support(engine.facts.loads)


def _log_odds(estimate: Estimate) -> float:
    return 0.0 if estimate.sign is None else estimate.sign.log_odds
