"""Gold and the sign of the scores: how well they agree, and how many gold pairs settle the sign."""

from __future__ import annotations

from dataclasses import fields, replace
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.engines.grid import WorkerPoints
from crowdsift.numeric.distributions import normal_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from crowdsift.io.gold import Gold
    from crowdsift.models import Estimate
    from crowdsift.numeric import Vector

__all__ = [
    "THIN",
    "Agreement",
    "count_gold",
    "gold_needed",
    "order_probability",
    "voters",
]

THIN = log(19.0)  # log odds of a sign that is right with 95 %
_PAIRS = 5_000  # drawn to see how often the order of a pair is right
_MOST_GOLD = 99


class Agreement(NamedTuple):
    """How gold pairs and scores go together; pairs across components do not count."""

    agree: int
    disagree: int
    margin: float  # the sum of the differences of scores, winner minus loser

    @property
    def opposed(self) -> bool:
        """Whether gold contradicts the scores: they are upside down."""
        return (self.agree - self.disagree, self.margin) < (0, 0.0)

    def turned(self) -> Agreement:
        """The same for scores of the other sign."""
        return Agreement(self.disagree, self.agree, -self.margin)


def count_gold(scores: Vector, component: NDArray[np.uint32], gold: Gold) -> Agreement:
    """Count the gold pairs that agree with the scores, and those that do not.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.io.gold import Gold
    >>> from crowdsift.results.sign import count_gold
    >>> gold = Gold(np.array([0, 1], np.uint32), np.array([1, 2], np.uint32))
    >>> count_gold(np.array([1.0, 2.0, 3.0]), np.zeros(3, np.uint32), gold).opposed
    True
    """
    inside = component[gold.winner] == component[gold.loser]
    difference = (scores[gold.winner] - scores[gold.loser])[inside]
    return Agreement(
        int((difference > 0).sum()), int((difference < 0).sum()), float(difference.sum())
    )


def voters(estimate: Estimate, count: int) -> Estimate:
    """The estimate without the rows of gold, which follow those of the workers that voted."""
    if len(estimate.theta) <= count:
        return estimate
    result, points = estimate.workers, estimate.points
    workers: dict[str, Any] = {
        entry.name: getattr(result, entry.name)[:count]
        for entry in fields(result)
        if isinstance(getattr(result, entry.name), np.ndarray)
    }
    extra = {name: values[:count] for name, values in result.extra.items()}
    return replace(
        estimate,
        theta=estimate.theta[:count],
        points=None if points is None else WorkerPoints(*(x[:count] for x in points)),
        workers=replace(result, extra=extra, **workers),
        covariates=None if estimate.covariates is None else estimate.covariates.of(count),
    )


def order_probability(
    scores: Vector,
    variance: Callable[[NDArray[np.intp], NDArray[np.intp]], Vector | None],
    component: NDArray[np.uint32],
    seed: int = 0,
) -> float:
    """Probability that a random pair of one component is in the right order, up to the sign.

    The mean of Φ(|difference|/sd of the difference) over pairs drawn at random; `variance` gives
    the variances of differences.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.sign import order_probability
    >>> scores, component = np.array([0.0, 9.0]), np.zeros(2, int)
    >>> order_probability(scores, lambda one, two: np.full(len(one), 2.0), component) > 0.99
    True
    """
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
    """How many gold pairs settle the sign: their majority is right with this confidence.

    Each agrees with the scores of the right sign with probability q, independently, so this is
    the smallest odd n with P(Binomial(n, q) > n/2) at least the confidence. None above 99: the
    order itself is then so uncertain that votes are needed first.

    Examples
    --------
    >>> from crowdsift.results.sign import gold_needed
    >>> gold_needed(0.99), gold_needed(0.8), gold_needed(0.7), gold_needed(0.5)
    (1, 7, 17, None)
    """
    q = min(max(order_right, 0.0), 1.0)
    # Two pairs more than 2m + 1 turn the majority only if it hung on one pair:
    # P(m + 1) = P(m) + (2q - 1) C(2m + 1, m + 1) (q(1 - q))^(m + 1)
    right, term = q, q * (1.0 - q)
    for m in range((_MOST_GOLD + 1) // 2):
        if right >= confidence:
            return 2 * m + 1
        right += (2.0 * q - 1.0) * term
        term *= 2.0 * (2 * m + 3) / (m + 2) * q * (1.0 - q)
    return None
