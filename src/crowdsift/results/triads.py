"""Intransitive triads: a over b, b over c, c over a by majority; and how many to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.numeric.distributions import normal_share
from crowdsift.votes.graph import for_lower, pair_codes

if TYPE_CHECKING:
    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["MOST_ITEMS", "Triads", "count_triads"]

MOST_ITEMS = 1_000  # whose triads are counted, by products of matrices
_DRAWS = 100  # of votes from the model, for the spread of the count
_NUMBERS = 5e9  # multiplications for them
_NORMAL_FROM = 1_000  # votes on a pair, whose number for one item is then taken as normal


class Triads(NamedTuple):
    """Triads of items whose three pairs all have a majority.

    `intransitive` of them go round in a circle; `expected` and `sd` say how many do in votes drawn
    from the model on the same pairs; `sd` is None where items are too many to draw.
    """

    triads: int
    intransitive: int
    expected: float
    sd: float | None


def count_triads(votes: Comparisons, p: Vector, seed: int = 0) -> Triads | None:
    """Count intransitive triads; None of more than `MOST_ITEMS` items, or without any triad.

    Parameters
    ----------
    votes
        Whose majorities count, weights included; a tie is half a vote for each item.
    p
        The model's probability of every vote that it goes to the first item.
    seed
        For the votes that are drawn.

    Examples
    --------
    >>> import crowdsift, numpy as np
    >>> from crowdsift.results.triads import count_triads
    >>> circle = crowdsift.Comparisons.from_arrays(["a", "b", "c"], ["b", "c", "a"])
    >>> count_triads(circle, np.full(3, 0.5))[:3]
    (1, 1, 0.25)
    """
    k = votes.n_items
    if k > MOST_ITEMS:
        return None
    weight = votes.weight.astype(np.float64)
    first, second = votes.first, votes.second
    y, q = (for_lower(first, second, x) for x in (votes.outcome.astype(np.float64), p))
    keys, unit = pair_codes(first, second, k)
    count, wins, total = (np.bincount(unit, v) for v in (weight, weight * y, weight * q))
    chance = np.asarray(total / count)
    decided = wins != 0.5 * count
    one, two = keys // k, keys % k
    joined = np.zeros((k, k))
    joined[one, two] = joined[two, one] = decided
    complete = round(float(((joined @ joined) * joined).sum()) / 6.0)
    if not complete:
        return None
    first, second = one[decided], two[decided]
    found = _circles(first, second, (wins > 0.5 * count)[decided].astype(np.float64), k)
    rng = np.random.Generator(np.random.PCG64(seed))
    size = np.maximum(np.round(count[decided]), 1.0).astype(np.int64)
    above = _majority(size, chance[decided])
    draws = None
    if _DRAWS * float(k) ** 3 <= _NUMBERS:
        drawn = rng.random((_DRAWS, len(size))) < above
        draws = [_circles(first, second, each.astype(np.float64), k) for each in drawn]
    return Triads(
        complete,
        round(found),
        _circles(first, second, above, k),
        None if draws is None else float(np.std(draws, ddof=1)),
    )


def _circles(first: Vector, second: Vector, above: Vector, k: int) -> float:
    """Σ over triads of P(circle), for independent pairs: tr(P³)/3."""
    matrix = np.zeros((k, k))
    matrix[first, second], matrix[second, first] = above, 1.0 - above
    return float(((matrix @ matrix) * matrix.T).sum() / 3.0)


def _majority(count: Vector, p: Vector) -> Vector:
    """Return P(more than half of `count` votes), given that it is not half.

    From `_NORMAL_FROM` votes on the count is normal, so that the cost does not grow with weights.
    """
    q = np.clip(p, 1e-12, 1.0 - 1e-12)
    result = normal_share((q - 0.5) * np.sqrt(count / (q * (1.0 - q))))
    for size in np.unique(count[count < _NORMAL_FROM]):
        at = count == size
        k = np.arange(size + 1)
        log_choose = np.concatenate([[0.0], np.cumsum(np.log((size - k[:-1]) / (k[:-1] + 1.0)))])
        mass = np.exp(
            log_choose + np.outer(np.log(q[at]), k) + np.outer(np.log1p(-q[at]), size - k)
        )
        up, down = mass[:, 2 * k > size].sum(axis=1), mass[:, 2 * k < size].sum(axis=1)
        result[at] = up / (up + down)
    return result
