"""Two refits that test a fit: on part of the votes, and without the flagged workers."""

from dataclasses import dataclass

import numpy as np

from crowdsift.errors import CrowdsiftError
from crowdsift.fitting.estimate import Resources, estimate_votes
from crowdsift.io.items import Gold
from crowdsift.models import Estimate, Model
from crowdsift.numeric import Codes, Indices, Mask, Vector
from crowdsift.numeric.likelihoods import sigmoid, smoothing
from crowdsift.numeric.metrics import kendall_tau
from crowdsift.results.ranking import ranks
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import components, folds

PARTS = 5  # one part in this number is left out
_EDGES = np.array([0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0])
_FEWEST = 50  # least left-out votes
_CHUNK = 20_000
_SMALL = 32  # most items of components whose taus are computed together


@dataclass(frozen=True)
class Calibration:
    """How well a fit to four fifths of the votes predicted the rest.

    Votes are grouped into bins by the predicted probability of their favourite. `predicted` is its mean in each bin,
    `observed` the share of votes that went to the favourite, and `votes` their number. A tie is half a vote for each
    item; empty bins are left out. `log_loss` is the mean of -log of the probability of the actual votes (a coin has
    0.693), `accuracy` the share of left-out votes that went to the favourite.
    """

    predicted: Vector
    observed: Vector
    votes: Vector
    log_loss: float
    accuracy: float

    @property
    def gap(self) -> float:
        """Return the mean distance between predicted and observed shares, less the distance expected by chance."""
        # A bin of n votes with probability p differs by √(2p(1-p)/(πn)) on average even if every probability is right.
        chance = np.sqrt(2.0 * self.predicted * (1.0 - self.predicted) / (np.pi * self.votes))
        beyond = np.abs(self.observed - self.predicted) - chance
        return max(float((self.votes * beyond).sum() / self.votes.sum()), 0.0)


@dataclass(frozen=True)
class Without:
    """The ranking without the flagged workers, by item code.

    `rank` counts within components of the remaining votes and is 0 for items without any; `before` are the ranks in
    the whole fit. `tau` is Kendall's tau of the two sets of scores, over items that keep votes: the mean over
    components, weighted by their pairs of items. `lost` is the number of items that lose all votes, `components` the
    number of components that the remaining items form.
    """

    rank: Indices
    before: Indices
    tau: float
    lost: int
    components: int


def calibrate(
    votes: Comparisons, model: Model, *, seed: int = 0, resources: Resources | None = None
) -> Calibration | str:
    """Fit four fifths of the votes and compare predictions with the rest; return a reason if impossible."""
    if (votes.features is not None and not model.takes_covariates) or votes.item_class is not None:
        return "The method's predictions also depend on features or classes of the votes."
    if votes.total_weight < PARTS * _FEWEST:
        return f"Fewer than {PARTS * _FEWEST} votes: too few to leave a part out."
    kept, left_out = next(folds(votes, PARTS, seed))
    try:
        estimate = estimate_votes(model, kept, resources or Resources())
    except CrowdsiftError as error:
        return f"The part that was kept could not be fitted: {error}"
    if estimate.points is None and estimate.workers.side_bias is not None:
        return "Predictions by the side biases of this method are not made here."
    p = predicted_probability(left_out, model, estimate)
    outcome, weight = left_out.outcome.astype(np.float64), left_out.weight.astype(np.float64)
    follows = np.where(p > 0.5, outcome, np.where(p < 0.5, 1.0 - outcome, 0.5))
    surer = np.maximum(p, 1.0 - p)
    place = np.clip(np.searchsorted(_EDGES, surer, side="right") - 1, 0, len(_EDGES) - 2)
    count, predicted, observed = (
        np.bincount(place, values, len(_EDGES) - 1).astype(np.float64)
        for values in (weight, weight * surer, weight * follows)
    )
    full = count > 0
    loss = outcome * np.log(np.maximum(p, 1e-12))
    loss += (1.0 - outcome) * np.log(np.maximum(1.0 - p, 1e-12))
    total = float(weight.sum())
    return Calibration(
        predicted=predicted[full] / count[full],
        observed=observed[full] / count[full],
        votes=count[full],
        log_loss=float(-(weight * loss).sum() / total),
        accuracy=float((weight * follows).sum() / total),
    )


def predicted_probability(votes: Comparisons, model: Model, estimate: Estimate) -> Vector:
    """Return the expected outcome of every vote (tie: one half), averaged over uncertainty."""
    # With points of a worker's posterior (reliability β, tie width δ, side bias γ), x = 1 where sides are known and
    # else 0, and z = βd + xγ it is ½(1 + σ(z - δ) - σ(-z - δ)), which is σ(z) without ties; covariates of the vote and
    # further dimensions add to z. The uncertainty of scores, side biases and these, with variance v, divides the
    # argument by √(1 + πv/8), which approximates the mean of the logistic function.
    first, second = votes.first.astype(np.int64), votes.second.astype(np.int64)
    difference = estimate.scores[first] - estimate.scores[second]
    worker = np.repeat(np.arange(votes.n_workers), np.diff(votes.offsets))
    found, points = estimate.workers, estimate.points
    known = None if points is None else estimate.difference_variance(first, second)
    if points is None or known is None:
        beta = np.ones(votes.n_workers) if found.reliability is None else found.reliability
        return model.probability(difference, beta[worker])
    variance = known + (estimate.details.get("pair_effect") or 0.0)
    side = 1.0 if votes.sides_known else 0.0
    if estimate.in_context is not None:
        context = votes.item_contexts[first]
        worker = estimate.in_context.rows(worker, context, votes.n_workers)
        points = estimate.in_context.below(points)
    offset = offset_variance = np.zeros((len(votes), 1))
    if estimate.covariates is not None:
        offset, offset_variance = estimate.covariates.offsets(votes)
    if estimate.dimensions is not None:
        more = estimate.dimensions.offsets(votes.worker_codes(), first, second)
        offset, offset_variance = offset + more[0][:, None], offset_variance + more[1][:, None]
    result = np.empty(len(votes))
    for begin in range(0, len(votes), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        beta, width, bias, bias_variance = (column[worker[part]] for column in points)
        unsure = beta**2 * variance[part, None] + side * bias_variance + offset_variance[part]
        size = smoothing(unsure)
        z = beta * difference[part, None] + side * bias + offset[part]
        won, lost = sigmoid(size * (z - width)), sigmoid(size * (-z - width))
        result[part] = (0.5 * (1.0 + won - lost)).mean(axis=1)
    return result


def fit_without(
    votes: Comparisons,
    model: Model,
    flagged: Mask,
    scores: Vector,
    *,
    gold: Gold | None = None,
    mirror: bool = False,
    resources: Resources | None = None,
) -> Without | str:
    """Fit again without the votes of flagged workers; return a reason if impossible."""
    # `gold` is that of the fit. With `mirror`, the sign came from more than the votes, and the refit gets the sign that
    # agrees with the fit.
    if not flagged.any():
        return "No worker is flagged, so there is nothing to leave out."
    keep = np.repeat(~flagged, np.diff(votes.offsets))
    if not keep.any():
        return "All votes come from flagged workers; without them nothing is left."
    kept = votes.select(keep)
    try:
        estimate = estimate_votes(model, kept, resources or Resources(), gold)
    except CrowdsiftError as error:
        return f"The remaining votes could not be fitted: {error}"
    k = votes.n_items
    count = np.bincount(kept.first, kept.weight, k) + np.bincount(kept.second, kept.weight, k)
    left = count > 0
    part, found = components(kept), estimate.scores
    tau = _agreement(found[left], scores[left], components(votes)[left])
    if mirror and tau < 0.0:
        found, tau = -found, -tau
    rank = np.zeros(k, np.int64)
    rank[left] = ranks(found[left], part[left])
    return Without(
        rank=rank,
        before=ranks(scores, components(votes)),
        tau=tau,
        lost=int((~left).sum()),
        components=len(np.unique(part[left])),
    )


def _agreement(one: Vector, two: Vector, component: Codes) -> float:
    """Return Kendall's tau within components, weighted by their pairs; small ones grouped by size."""
    order = np.argsort(component, kind="stable")
    _, start, size = np.unique(component[order], return_index=True, return_counts=True)
    total = pairs = 0.0
    for k in np.unique(size[size > 1]).tolist():
        rows = order[start[size == k][:, None] + np.arange(k)]
        taus = (
            _small_taus(one[rows], two[rows])
            if k <= _SMALL
            else np.array([kendall_tau(one[row], two[row]) for row in rows])
        )
        known = np.isfinite(taus)
        weight = 0.5 * k * (k - 1)
        total, pairs = total + weight * float(taus[known].sum()), pairs + weight * known.sum()
    return float(total / pairs) if pairs else 1.0


def _small_taus(one: Vector, two: Vector) -> Vector:
    """Return Kendall's tau-b of every row, pair by pair; NaN if all of one are equal."""
    first, second = np.triu_indices(one.shape[1], 1)
    x, y = (np.sign(values[:, first] - values[:, second]) for values in (one, two))
    scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    tau = np.full(len(one), np.nan)
    np.divide((x * y).sum(axis=1), scale, out=tau, where=scale > 0)
    return tau
