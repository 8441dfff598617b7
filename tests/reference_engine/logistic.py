"""The specification of tallies and of the logistic model, one line per equation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import ItemSystem, Profile, ScoreCurvature, SlopePrior, Tally
from crowdsift.engines.dense import DenseOperator
from reference_engine.building_blocks import laplacian
from reference_engine.likelihood import ReferenceLikelihood
from reference_engine.links import logistic, polya_gamma_mean

if TYPE_CHECKING:
    from crowdsift.numeric import Vector
    from reference_engine.votes import VoteColumns


class ReferenceCounts:
    """Tallies."""

    def __init__(self, votes: VoteColumns) -> None:
        self._votes = votes

    def tally(self, rank: Vector) -> Tally:
        """Count votes; see the protocol."""
        votes = self._votes
        votes.counter.passes += 1
        lean, n = 2.0 * votes.y - 1.0, votes.n
        above = np.sign(rank[votes.second] - rank[votes.first])
        decided = n * (lean != 0.0)
        return Tally(
            agreed=votes.to_workers(n * (lean * above > 0.0)),
            ranked=votes.to_workers(decided * (above != 0.0)),
            decided=votes.to_workers(decided),
            leaning=votes.to_workers(n * lean * (lean != 0.0)),
            loads=votes.to_workers(n),
            appearances=votes.to_both(n, n),
            wins=votes.to_both(n * votes.y, n * (1.0 - votes.y)),
            losses=votes.to_both(n * (1.0 - votes.y), n * votes.y),
        )

    def margins(self, prior: float) -> DenseOperator:
        """The smoothed margins; see the protocol."""
        votes = self._votes
        c = (votes.n * votes.y + prior) / (votes.n + 2 * prior) - 0.5
        matrix = np.zeros((votes.n_items, votes.n_items))
        np.add.at(matrix, (votes.first, votes.second), c)
        np.subtract.at(matrix, (votes.second, votes.first), c)
        return DenseOperator(matrix)


class ReferenceSlopes:
    """The logistic model with a slope for every worker."""

    def __init__(self, votes: VoteColumns) -> None:
        self._votes, self._general = votes, ReferenceLikelihood(votes)

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        """Log-likelihood; see the protocol."""
        votes = self._votes
        votes.counter.passes += 1
        value, _, _ = logistic(slopes[votes.worker] * votes.differences(scores), votes.y)
        return float(votes.n @ value)

    def profile(
        self, scores: Vector, slopes: Vector, prior: SlopePrior | None = None, *, resolution: float = 0.0
    ) -> Profile:
        """Slopes at their optimum, always to the last digit; see the protocol."""
        curvature = np.full(len(slopes), np.inf)
        if prior is not None:
            slopes = self._general.fit_workers(
                "scaled-logit",
                scores,
                slopes[:, None],
                centre=np.array([prior.mean]),
                penalty=prior.precision,
                bounds=(-np.inf, np.inf),
                tolerance=1e-12,
            )[:, 0]
            curvature = self.curvature(scores, slopes).information + prior.precision
        at = self._general.derivatives("scaled-logit", scores, slopes[:, None])
        hessian = at.hessian.reduced((1.0 / curvature)[:, None, None])
        return Profile(at.value, at.items, slopes, curvature, hessian)

    def curvature(self, scores: Vector, slopes: Vector) -> ScoreCurvature:
        """Derivatives in the scores; see the protocol."""
        votes = self._votes
        votes.counter.passes += 1
        d, slope = votes.differences(scores), slopes[votes.worker]
        value, first, second = logistic(slope * d, votes.y)
        weight = -(slope**2) * votes.n * second
        return ScoreCurvature(
            float(votes.n @ value),
            votes.to_items(slope * votes.n * first),
            votes.to_workers(-votes.n * second * d**2),
            laplacian(votes.n_items, votes.first, votes.second, weight),
        )


class ReferenceEM:
    """Pólya-Gamma EM."""

    def __init__(self, votes: VoteColumns) -> None:
        self._votes = votes

    def e_step(self, scores: Vector, slopes: Vector, *, resolution: float = 0.0) -> ReferenceEStep:
        """The E-step; see the protocol."""
        return ReferenceEStep(self._votes, scores, slopes)


class ReferenceEStep:
    """n·E[ω] of every vote, and the M-step given it."""

    def __init__(self, votes: VoteColumns, scores: Vector, slopes: Vector) -> None:
        self._votes = votes
        votes.counter.passes += 1
        eta = slopes[votes.worker] * votes.differences(scores)
        self._omega = votes.n * polya_gamma_mean(eta)
        self.log_likelihood = float(votes.n @ logistic(eta, votes.y)[0])
        self.precision = float(self._omega.sum())
        self.system = self._system(slopes)

    def regress(self, scores: Vector, ridge: float) -> tuple[Vector, ItemSystem]:
        """Slopes of workers and their item system; see the protocol."""
        votes = self._votes
        votes.counter.passes += 1
        d = votes.differences(scores)
        top = votes.to_workers(votes.n * (votes.y - 0.5) * d)
        bottom = votes.to_workers(self._omega * d**2) + ridge
        slopes = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
        return slopes, self._system(slopes)

    def _system(self, slopes: Vector) -> ItemSystem:
        votes, slope = self._votes, slopes[self._votes.worker]
        weight = slope**2 * self._omega
        return ItemSystem(
            laplacian(votes.n_items, votes.first, votes.second, weight),
            votes.to_items(slope * votes.n * (votes.y - 0.5)),
        )
