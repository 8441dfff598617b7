"""Win, tie or loss: three probabilities, for methods with and without ties.

Methods that count a tie as half a win estimate the share p of points, not of ties. For them every worker gets a tie
rate, measured from its votes and shrunk towards that of all workers: a tie has that probability, and the rest is
divided as p to 1 - p.
"""

from math import lgamma
from typing import Any, NamedTuple

import numpy as np

from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import smoothing
from crowdsift.votes.comparisons import Comparisons

# Candidate numbers of votes at the common rate that are added to a worker's own; the likeliest is used.
_STRENGTHS = 2.0 ** np.arange(-2, 11)
_FAR = 300.0  # largest size of z, far below the logarithm of the largest number


class Outcomes(NamedTuple):
    """The probabilities that the first item wins, that there is a tie, that the second wins."""

    win: Vector
    tie: Vector
    loss: Vector


def half_win(share: Vector, rate: Vector) -> Outcomes:
    """Return outcomes for a method without ties: a tie with the worker's tie rate, the rest divided by p."""
    share, rate = np.broadcast_arrays(share, rate)
    return Outcomes((1.0 - rate) * share, rate.copy(), (1.0 - rate) * (1.0 - share))


def rao_kupper(advantage: Vector, width: Vector) -> Outcomes:
    """Return outcomes of Rao and Kupper: σ(z - δ) for the first, σ(-z - δ) for the second, else a tie."""
    against, apart = np.exp(np.clip(-advantage, -_FAR, _FAR)), np.exp(width)
    win, loss = 1.0 / (1.0 + apart * against), against / (against + apart)
    return Outcomes(win, np.maximum(1.0 - win - loss, 0.0), loss)


def on_either_side(advantage: Vector, width: Vector, side: Vector, variance: Vector) -> Outcomes:
    """Return outcomes of Rao and Kupper for z ± γ, half of each, with γ ~ N(side, variance)."""
    # σ is smoothed as in the fit, by k = 1/√(1 + πv/8) inside it.
    k = smoothing(np.asarray(variance))
    there, back = (rao_kupper(k * (advantage + g), k * width) for g in (side, np.negative(side)))
    return Outcomes(*(0.5 * (one + two) for one, two in zip(there, back, strict=True)))


def tie_rates(votes: Comparisons) -> tuple[Vector, float]:
    """Return the tie rate of every worker, shrunk towards the common one, and the common one."""
    # A worker's rate is (ties + a·t)/(votes + a) with t the common rate: the posterior mean under a Beta(a·t, a·(1 -
    # t)) prior, with the a that maximises the marginal likelihood of all workers' counts. Both are 0 if the votes have
    # no ties.
    m = votes.n_workers
    if not votes.ties_are_outcomes:
        return np.zeros(m), 0.0
    worker = votes.worker_codes()
    total = np.bincount(worker, votes.weight, m).astype(np.float64)
    ties = np.bincount(worker, votes.weight * (votes.outcome == 0.5), m).astype(np.float64)
    common = float(ties.sum() / total.sum())
    if common == 1.0:
        return np.ones(m), 1.0
    # There are few distinct counts.
    counts = [np.unique(each, return_counts=True) for each in (ties, total - ties, total)]
    strength = max(_STRENGTHS, key=lambda a: _evidence(counts, a * common, a * (1.0 - common)))
    return (ties + strength * common) / (total + strength), common


def _evidence(counts: list[tuple[Any, Any]], a: float, b: float) -> float:
    """Return the log marginal likelihood of ties among the votes of all workers, under Beta(a, b)."""
    # A constant is left out. The counts are those of ties, of other votes and of all, and how often each occurs.
    tied, other, both = (
        sum(
            times * (lgamma(start + count) - lgamma(start))
            for count, times in zip(values.tolist(), often.tolist(), strict=True)
        )
        for start, (values, often) in zip((a, b, a + b), counts, strict=True)
    )
    return float(tied + other - both)
