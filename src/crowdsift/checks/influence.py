"""Effects of single votes, and of whole workers, on the difference of two scores.

Scores are taken as the maximum of Σ w log σ(β (r_f - r_s)) - ½λ‖r‖² with the slopes β of the workers held fixed: for
`bt` this is exact, for other methods close. Removing a vote moves them by a Newton step; one solve with the Hessian
gives these steps for all votes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdsift.numeric import Indices, Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.results.fit import Fit
from crowdsift.results.query import model_of
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import for_lower, pair_keys

_STEP = 1e-5  # for the slope of a probability at 0
_TOLERANCE = 1e-4
_LONG = 0.5  # longest step that is trusted
_MOST_STEPS = 50


def worker_slopes(fit: Fit, votes: Comparisons) -> Vector:
    """Return logits per unit of score for every worker of the votes: 4 dP/dd at d = 0."""
    model, table = model_of(fit), fit.worker_table
    count = votes.n_workers
    reliability = table["reliability"].astype(np.float64) if table.height else np.full(count, 0.0)
    ends = [model.probability(np.full(count, step), reliability) for step in (_STEP, -_STEP)]
    slopes = np.asarray(2.0 * (ends[0] - ends[1]) / _STEP)
    return np.where(np.isfinite(slopes), slopes, 1.0)


@dataclass(frozen=True)
class ScoreModel:
    """Votes with slopes, one row each, and the prior precision of scores.

    `first`, `second`, `outcome`, `slope`: one entry per row of votes; `n_items`: how many items there are; `prior`: λ.
    """

    first: Indices
    second: Indices
    outcome: Vector
    slope: Vector
    n_items: int
    prior: float

    @staticmethod
    def of(fit: Fit, votes: Comparisons) -> ScoreModel:
        """Return the model that approximates a fit, in the codes of the votes."""
        prior = float(fit.parameters.get("penalty", 1.0))
        if fit.population is not None:  # sift's prior has variance 1 before scores are scaled
            prior = float(fit.population.get("scale", 1.0)) ** 2
        return ScoreModel(
            votes.first.astype(np.int64),
            votes.second.astype(np.int64),
            votes.outcome.astype(np.float64),
            worker_slopes(fit, votes)[votes.worker_codes().astype(np.int64)],
            votes.n_items,
            prior,
        )

    def scores(self, weight: Vector, start: Vector) -> Vector:
        """Return the maximum for these weights, by Newton's method; long steps are halved."""
        scores = start
        for _ in range(_MOST_STEPS):
            gradient, hessian = self.derivatives(scores, weight)
            step: Vector = np.asarray(np.linalg.solve(hessian, gradient), np.float64)
            longest = float(np.abs(step).max())
            if longest > _LONG:
                step = step * self._size(scores, step, weight)
            scores = scores + step
            if longest < _TOLERANCE:  # the error of the next step would be of its square
                break
        return scores

    def without(self, scores: Vector, weight: Vector, rows: Indices, hessian: Vector) -> Vector:
        """Return the scores after one Newton step without these rows; `hessian` belongs to all rows."""
        part = ScoreModel(self.first[rows], self.second[rows], self.outcome[rows], self.slope[rows], self.n_items, 0.0)
        gradient, curvature = part.derivatives(scores, weight[rows])
        return np.asarray(scores - np.linalg.solve(hessian - curvature, gradient))

    def effects(self, scores: Vector, weight: Vector, above: int, below: int) -> tuple[Vector, Vector, Vector]:
        """Return the change of r_above - r_below without each vote, exact and linearised, and H."""
        # With x = e_first - e_second, g = β(y - p) and the leverage h = β²p(1-p) xᵀH⁻¹x the Newton step without the
        # vote is -g uᵀx/(1 - h), u = H⁻¹(e_above - e_below). The second result, without leverage, adds up over votes
        # that are removed together. The third is H.
        _, hessian = self.derivatives(scores, weight)
        inverse = np.linalg.inv(hessian)
        direction = inverse[above] - inverse[below]
        p = sigmoid(self.slope * (scores[self.first] - scores[self.second]))
        plain = -self.slope * (self.outcome - p) * (direction[self.first] - direction[self.second])
        spread = (
            inverse[self.first, self.first] + inverse[self.second, self.second] - 2.0 * inverse[self.first, self.second]
        )
        leverage = np.minimum(self.slope**2 * p * (1.0 - p) * spread, 0.95)
        return plain / (1.0 - leverage), plain, hessian

    def pooled(self, weight: Vector) -> tuple[ScoreModel, Vector, Indices]:
        """Return the votes with rows equal except for the worker joined, their weights, and each row's index."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        won = for_lower(self.first, self.second, self.outcome)
        keys = pair_keys(low, high, self.n_items)
        for values in (won, self.slope):
            distinct, codes = np.unique(values, return_inverse=True)
            keys = keys * len(distinct) + codes.reshape(-1)
        cells, at, place = np.unique(keys, return_index=True, return_inverse=True)
        merged = ScoreModel(low[at], high[at], won[at], self.slope[at], self.n_items, self.prior)
        place = place.reshape(-1)
        held = np.bincount(place, weight, len(cells)).astype(np.float64)
        return merged, held, place.astype(np.int64)

    def _size(self, scores: Vector, step: Vector, weight: Vector) -> float:
        """Return the largest of 1, ½, ¼, ... times the step that does not lower the objective."""
        value, size = self._value(scores, weight), 1.0
        while size > 1e-6 and self._value(scores + size * step, weight) < value:
            size *= 0.5
        return size

    def _value(self, scores: Vector, weight: Vector) -> float:
        z = self.slope * (scores[self.first] - scores[self.second])
        value = weight @ (self.outcome * z - np.logaddexp(0.0, z))
        return float(value - 0.5 * self.prior * scores @ scores)

    def derivatives(self, scores: Vector, weight: Vector) -> tuple[Vector, Vector]:
        """Return gradient and Hessian of the objective to minimise."""
        k, one, two = self.n_items, self.first, self.second
        p = sigmoid(self.slope * (scores[one] - scores[two]))
        residual = weight * self.slope * (self.outcome - p)
        gradient = np.bincount(one, residual, k) - np.bincount(two, residual, k) - self.prior * scores
        curvature = weight * self.slope**2 * p * (1.0 - p)
        pairs = np.bincount(one * k + two, curvature, k * k).reshape(k, k)
        hessian: Vector = -(pairs + pairs.T).astype(np.float64)
        diagonal = np.bincount(one, curvature, k) + np.bincount(two, curvature, k)
        hessian[np.diag_indices(k)] += diagonal + self.prior
        return np.asarray(gradient, np.float64), hessian
