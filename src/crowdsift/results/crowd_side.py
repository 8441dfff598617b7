"""By how much all votes lean to the first side, beyond what the scores explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.distributions import limits
from crowdsift.numeric.likelihoods import sigmoid

if TYPE_CHECKING:
    from crowdsift.results.build import FitBuilder

_MOST_VOTES = 2_000_000  # beyond, every second vote or fewer
_STEPS = 20


def crowd_side(fitted: FitBuilder) -> dict[str, float | None]:
    """The lean γ of the crowd to the left on the logit scale, with its 90 % interval.

    From the method where it has one; else the maximum of the likelihood of the decided votes,
    P(left) = σ(βd + γ), with scores and reliabilities as estimated, under a prior N(0, 1). All
    None where sides are not known.

    Examples
    --------
    >>> import crowdsift
    >>> votes = {"left": ["a", "b"] * 50, "right": ["b", "a"] * 50, "winner": ["left"] * 100}
    >>> result = crowdsift.fit(votes, "bt", workers=False).summary
    >>> result["crowd_side_lower"] < result["crowd_side"] < result["crowd_side_upper"]
    True
    """
    names = ("crowd_side", "crowd_side_lower", "crowd_side_upper")
    found = _found(fitted)
    if found is None:
        return dict.fromkeys(names)
    mean, sd = found
    lower, upper = limits(np.array([mean]), np.array([sd]), fitted.level)
    return dict(zip(names, (mean, float(lower[0]), float(upper[0])), strict=True))


def _found(fitted: FitBuilder) -> tuple[float, float] | None:
    """Mean and standard deviation of γ."""
    votes, result = fitted.votes, fitted.estimate.workers
    if fitted.estimate.crowd_side is not None:
        return fitted.estimate.crowd_side
    if not votes.sides_known:
        return None
    step = -(-len(votes) // _MOST_VOTES)
    outcome = votes.outcome[::step].astype(np.float64)
    decided = outcome != 0.5
    first, second = (codes[::step][decided] for codes in (votes.first, votes.second))
    weight, outcome = votes.weight[::step][decided].astype(np.float64), outcome[decided]
    beta = np.ones(votes.n_workers)
    if result.reliability is not None:
        beta = result.reliability - result.random_level
    scores, worker = fitted.estimate.scores, votes.worker_codes()[::step][decided]
    advantage = beta[worker] * (scores[first] - scores[second])
    side = 0.0
    for _ in range(_STEPS):
        p = sigmoid(advantage + side)
        curvature = float(weight @ (p * (1.0 - p))) + 1.0
        move = (float(weight @ (outcome - p)) - side) / curvature
        side += float(np.clip(move, -1.0, 1.0))
        if abs(move) < 1e-9:
            break
    return side, curvature**-0.5
