"""Gold and the sign of the scores: their agreement, and how many gold pairs determine the sign."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.io.items import Gold
from crowdsift.numeric import Codes, Vector
from crowdsift.numeric.distributions import normal_share
from crowdsift.votes.comparisons import Comparisons, parts

THIN = log(19.0)  # log odds at which a sign is right with 95 %
_PAIRS = 5_000  # pairs drawn to estimate how often the order of a pair is right
_MOST_GOLD = 99


MAX_CHECKED_VOTES = 1_000_000  # most distinct votes for which fits without gold check it


class Agreement(NamedTuple):
    """Agreement of gold pairs with scores; pairs across components do not count."""

    agree: int
    disagree: int
    margin: float  # the sum of score differences, winner minus loser

    @staticmethod
    def of(difference: Vector) -> Agreement:
        """Return the agreement from differences of scores, winner minus loser; NaN does not count."""
        agree, disagree = int((difference > 0).sum()), int((difference < 0).sum())
        return Agreement(agree, disagree, float(np.nansum(difference)))

    @property
    def opposed(self) -> bool:
        """Return whether gold contradicts the scores, so that they are upside down."""
        return (self.agree - self.disagree, self.margin) < (0, 0.0)


def gold_differences(scores: Vector, component: Codes, gold: Gold) -> Vector:
    """Return the score of the winner minus that of the loser for each gold pair."""
    # NaN if the two are in different components.
    inside = component[gold.winner] == component[gold.loser]
    return np.where(inside, scores[gold.winner] - scores[gold.loser], np.nan)


def signed_without_each(difference: Vector) -> Vector:
    """Return each difference with the sign that the other gold pairs give the scores."""
    # `difference` is that of scores with the sign of all workers, which stays if no other pair determines it.
    whole, zero = Agreement.of(difference), np.nan_to_num(difference)
    balance = whole.agree - whole.disagree - np.sign(zero)
    margin = whole.margin - zero
    opposed = (balance < 0) | ((balance == 0) & (margin < 0.0))
    return np.where(opposed, -difference, difference)


def votes_on_gold(votes: Comparisons, gold: Gold) -> tuple[Vector, Vector]:
    """Return the number of every worker's votes on gold pairs, and the share that agrees."""
    # A tie counts as half; the share is NaN for a worker without such votes.
    k = np.int64(votes.n_items)
    pair = np.minimum(gold.winner, gold.loser) * k + np.maximum(gold.winner, gold.loser)
    order = np.argsort(pair)
    pair, low_wins = pair[order], (gold.winner < gold.loser)[order]
    number, agreed = np.zeros(votes.n_workers), np.zeros(votes.n_workers)
    for rows in parts(*votes.columns):
        first, second, outcome, weight = (column[rows] for column in votes.columns)
        asked = np.minimum(first, second) * k + np.maximum(first, second)
        place = np.minimum(np.searchsorted(pair, asked), len(pair) - 1)
        known = np.flatnonzero(pair[place] == asked)
        who = np.searchsorted(votes.offsets, known + rows.start, "right") - 1
        first_wins = low_wins[place[known]] == (first[known] < second[known])
        share = np.where(first_wins, outcome[known], 1.0 - outcome[known])
        number += np.bincount(who, weight[known], votes.n_workers)
        agreed += np.bincount(who, weight[known] * share, votes.n_workers)
    return number, np.divide(agreed, number, out=np.full(len(number), np.nan), where=number > 0)


def order_probability(
    scores: Vector,
    variance: Callable[[NDArray[np.intp], NDArray[np.intp]], Vector | None],
    component: Codes,
    seed: int = 0,
) -> float:
    """Return the probability that a random pair of a component is in the right order, up to the sign."""
    # The mean of Φ(|difference|/sd of the difference) over random pairs; `variance` gives the variances of differences.
    k = len(scores)
    rng = np.random.Generator(np.random.PCG64(seed))
    order = np.argsort(component, kind="stable")  # pairs within a component, uniformly
    size = np.bincount(component)
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    pairs = size.astype(np.float64) * (size - 1)
    if pairs.sum() == 0:
        return 0.5
    chosen = rng.choice(len(size), _PAIRS if k > 2 else 1, p=pairs / pairs.sum())
    one = rng.integers(0, size[chosen])
    two = (one + rng.integers(1, size[chosen])) % size[chosen]
    one, two = order[start[chosen] + one], order[start[chosen] + two]
    found = variance(one, two)
    known = np.zeros(len(one), bool) if found is None else np.isfinite(found)
    if found is None or not known.any():
        return 0.5
    one, two, spread = one[known], two[known], np.sqrt(found[known])
    size_of = np.abs(scores[one] - scores[two])
    ratio = np.divide(size_of, spread, out=np.where(size_of > 0, np.inf, 0.0), where=spread > 0)
    return float(np.mean(normal_share(ratio)))


def gold_needed(order_right: float, confidence: float = 0.95) -> int | None:
    """Return how many gold pairs determine the sign: their majority is right with this confidence."""
    # Each agrees with scores of the right sign with probability q, independently, so this is the smallest odd n with
    # P(Binomial(n, q) > n/2) at least the confidence. None above 99: the order itself is then so uncertain that votes
    # are needed first.
    q = min(max(order_right, 0.0), 1.0)
    # Two pairs more than 2m + 1 change the majority only if it depended on one pair: P(m + 1) = P(m) + (2q - 1) C(2m +
    # 1, m + 1) (q(1 - q))^(m + 1)
    right, term = q, q * (1.0 - q)
    for m in range((_MOST_GOLD + 1) // 2):
        if right >= confidence:
            return 2 * m + 1
        right += (2.0 * q - 1.0) * term
        term *= 2.0 * (2 * m + 3) / (m + 2) * q * (1.0 - q)
    return None
