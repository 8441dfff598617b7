"""What can be said about the votes and the workers beyond the estimate itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift import _core
from crowdsift.likelihoods import normal_cdf
from crowdsift.threads import thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.comparisons import Comparisons
    from crowdsift.engines import Vector

    Distribution = Callable[[float], Vector]  # P(x ≤ at) of many variables x

__all__ = [
    "Z90",
    "Tally",
    "Verdicts",
    "centre",
    "components",
    "normal_distribution",
    "normal_quantiles",
    "quantile_distribution",
    "rank_limits",
    "ranks",
    "sign_margin",
    "table_order",
    "tally",
    "verdicts",
]

# Half-width of a 90 % interval in standard deviations.
Z90 = 1.6448536269514722
_SAMPLES = 400  # of ranks
_COUNTED = 1_000  # items beyond which ranks are counted instead
_SCORE_BINS, _ERROR_BINS, _PLACES = 256, 4, 512
_QUANTILES = 16  # that stand for a distribution


def components(comparisons: Comparisons) -> NDArray[np.uint32]:
    """The connected component of every item, numbered from 0 by its first item.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.diagnose import components
    >>> components(Comparisons.from_arrays(["a", "c"], ["b", "d"], worker=[1, 1]))
    array([0, 0, 1, 1], dtype=uint32)
    """
    return _core.components(comparisons.first, comparisons.second, comparisons.n_items)


def centre(scores: Vector, component: NDArray[np.uint32]) -> Vector:
    """Scores about the means of their components, if there are several.

    A single component is centred by its method already, and stays as it is to the last bit.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import centre
    >>> centre(np.array([3.0, 1.0, 5.0]), np.array([0, 0, 1], np.uint32))
    array([ 1., -1.,  0.])
    """
    size = np.bincount(component)
    if len(size) == 1:
        return scores
    return np.asarray(scores - (np.bincount(component, scores) / size)[component])


class Tally(NamedTuple):
    """What can be counted of votes.

    `agreement` is the share of every worker's decided votes that agree with the order of items,
    equal ranks agreeing with nobody, NaN for none; `appearances` how often every item was compared,
    weights counted; `flags` "only won" or "only lost" where all votes of an item go one way, else
    "": nothing in the votes bounds the score of such an item on that side, only the prior does.
    """

    agreement: Vector
    appearances: Vector
    flags: NDArray[np.object_]


def tally(comparisons: Comparisons, rank: NDArray[np.int64], threads: int | None = None) -> Tally:
    """Count votes, in one pass over them; the ranks of the items give their order.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift import Comparisons
    >>> from crowdsift.diagnose import tally
    >>> votes = Comparisons.from_arrays(["a", "b", "a"], ["b", "a", "c"], worker=[1, 1, 2])
    >>> found = tally(votes, np.array([1, 2, 3]))
    >>> found.agreement, found.appearances, found.flags.tolist()
    (array([0.5, 1. ]), array([3., 2., 1.]), ['', '', 'only lost'])
    """
    agreed, decided, appearances, ways = _core.tally(
        comparisons.first,
        comparisons.second,
        comparisons.outcome,
        comparisons.weight,
        comparisons.offsets,
        rank.astype(np.uint32),
        thread_count(threads),
    )
    share = np.full(len(agreed), np.nan)
    np.divide(agreed, decided, out=share, where=decided > 0)
    words = np.array(["", "only won", "only lost", ""], dtype=object)
    return Tally(share, appearances, words[ways])


def table_order(scores: Vector, component: NDArray[np.uint32]) -> NDArray[np.intp]:
    """Items by component, then from the best to the worst; equal scores as they come.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import table_order
    >>> table_order(np.array([0.5, 2.0, 0.5]), np.zeros(3, np.uint32))
    array([1, 0, 2])
    """
    if component.any():
        return np.lexsort((-scores, component))
    return np.argsort(-scores, kind="stable")


def ranks(
    scores: Vector, component: NDArray[np.uint32], order: NDArray[np.intp] | None = None
) -> NDArray[np.int64]:
    """Ranks from 1 (the best) within every component; equal scores share the better rank.

    `order` is that of `table_order`, where it is known.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import ranks
    >>> ranks(np.array([0.5, 2.0, 0.5]), np.zeros(3, np.uint32))
    array([2, 1, 2])
    """
    if order is None:
        order = table_order(scores, component)
    position = np.arange(len(scores))
    fresh = np.ones(len(scores), bool)  # the first of its component
    fresh[1:] = np.diff(component[order]) != 0
    begins = np.maximum.accumulate(np.where(fresh, position, 0))
    fresh[1:] |= np.diff(scores[order]) != 0
    shared = np.maximum.accumulate(np.where(fresh, position, 0))
    result = np.empty(len(scores), np.int64)
    result[order] = shared - begins + 1
    return result


def rank_limits(
    scores: Vector,
    sd: Vector,
    root: Vector | None,
    component: NDArray[np.uint32],
    seed: int = 0,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Limits of the 90 % interval of every item's rank within its component.

    The ranks of samples of the joint posterior, in pairs of opposite errors: with `root` R, RᵀR
    the covariance, where there is one (what it says of the levels of components is of no matter),
    else with independent errors, which is close where there are thousands of items; these are then
    not drawn but counted, see `_counted_limits`.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import rank_limits
    >>> low, high = rank_limits(np.array([2.0, 0.1, 0.0]), np.full(3, 0.2), None, np.zeros(3, int))
    >>> low, high
    (array([1, 2, 2]), array([1, 3, 3]))
    """
    if root is None and len(scores) > _COUNTED:
        return _counted_limits(scores, sd, component)
    k = len(scores)
    rng = np.random.Generator(np.random.PCG64(seed))
    noise = rng.standard_normal((_SAMPLES // 2, k), dtype=np.float32)
    error = sd.astype(np.float32) * noise if root is None else noise @ root.astype(np.float32)
    centre = scores.astype(np.float32)
    drawn = np.concatenate([centre + error, centre - error])
    if component.any():
        order = np.lexsort((-drawn, np.broadcast_to(component, drawn.shape)), axis=1)
    else:
        order = np.argsort(-drawn, axis=1)
    start = np.flatnonzero(np.diff(np.sort(component), prepend=-1))
    first = np.repeat(start, np.diff(np.append(start, k)))
    rank = np.empty((k, len(drawn)), np.int16)  # of at most _COUNTED items
    rank[order, np.arange(len(drawn))[:, None]] = np.arange(k) - first + 1
    rank.sort(axis=1)
    low, high = (rank[:, place].astype(np.int64) for place in _places(len(drawn)))
    return low, high


def _places(count: int) -> tuple[int, int]:
    """Where the limits of 90 % stand among so many values that rise."""
    return int(0.05 * count), int(np.ceil(0.95 * count)) - 1


def _counted_limits(
    scores: Vector, sd: Vector, component: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Limits of ranks for independent errors, from how many items are expected above a score.

    With N(x) = Σ_j P(r_j > x), an item's rank at its own score x is 1 + N(x), give or take
    s² = Σ_j P(1 - P). Its own error moves x between the limits of its score; the two add up as
    squares. N and s² are read off a table over x, made of items binned by score and error.
    """
    low, high = np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
    order = np.argsort(component, kind="stable")
    for inside in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        m, s = scores[inside], np.maximum(sd[inside], 1e-12)
        x, above, spread = _exceedance(m, s)
        expected = np.interp(m, x, above) - 0.5  # an item is not above itself
        best = expected - np.interp(m + Z90 * s, x, above)
        worst = np.interp(m - Z90 * s, x, above) - expected
        noise = Z90**2 * np.interp(m, x, spread)
        first = 1.0 + expected - np.sqrt(best**2 + noise)
        last = 1.0 + expected + np.sqrt(worst**2 + noise)
        low[inside] = np.clip(np.round(first), 1, len(inside))
        high[inside] = np.clip(np.round(last), 1, len(inside))
    return low, high


def _exceedance(mean: Vector, sd: Vector) -> tuple[Vector, Vector, Vector]:
    """Σ_j P(r_j > x) and the variance of that count, on a grid of x."""
    edges = np.linspace(mean.min(), mean.max() + 1e-9, _SCORE_BINS + 1)
    errors = np.quantile(sd, np.linspace(0.0, 1.0, _ERROR_BINS + 1)[1:-1])
    cell = np.searchsorted(edges[1:-1], mean) * _ERROR_BINS + np.searchsorted(errors, sd)
    held = np.bincount(cell, minlength=_SCORE_BINS * _ERROR_BINS)
    full = held > 0
    centre, width = (np.bincount(cell, v, len(held))[full] / held[full] for v in (mean, sd))
    far = 4.0 * float(sd.max())
    x = np.linspace(mean.min() - far, mean.max() + far, _PLACES)
    above, spread = np.zeros(_PLACES), np.zeros(_PLACES)
    for at in range(0, _PLACES, 64):  # a part of the grid at a time
        z = (centre[None, :] - x[at : at + 64, None]) / width[None, :]
        p = _normal(z)
        above[at : at + 64] = p @ held[full]
        spread[at : at + 64] = (p * (1.0 - p)) @ held[full]
    return x, above, spread


def sign_margin(reliability: Vector, sd: Vector) -> float:
    """Mean over workers of P(β > 0) - P(β < 0): how clearly the crowd settles the sign.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import sign_margin
    >>> round(sign_margin(np.array([1.0, 1.0, -1.0]), np.array([0.1, 0.1, 0.1])), 3)
    0.333
    """
    return float(np.mean(2.0 * _normal(reliability / sd) - 1.0))


class Verdicts(NamedTuple):
    """A word for every worker, and the probabilities it rests on."""

    words: NDArray[np.object_]
    adversarial: Vector
    random: Vector
    reliable: Vector


def verdicts(reliability: Vector, below: Distribution, sign_known: bool = False) -> Verdicts:
    """A word for every worker, from the distribution of its reliability (0: clicks at random).

    The yardstick is the typical worker: the median reliability of those who are above 0 with 95 %.
    Within a quarter of it around 0 a vote is worth little, which counts as random. With at least
    90 % above that zone a worker is `reliable`, or `weak` if its reliability is under half the
    typical one; with at least 90 % below it `adversarial`; with at least 90 % inside it, or 95 %
    under half the typical reliability on both sides, `random`. With 95 % above 0 a worker is still
    `weak`. Anything else is `undecided`: too few votes to say.

    Parameters
    ----------
    reliability
        The estimate of every worker.
    below
        Of every worker, the probability that its reliability is at most so much.
    sign_known
        Whether the sign of all is known, by gold: where nobody is above 0 the typical worker is
        then the mirror image of those below it.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import normal_distribution, verdicts
    >>> beta, sd = np.array([1.0, 0.9, 0.4, 0.0, -0.8, 0.3]), np.array([0.1] * 5 + [2.0])
    >>> verdicts(beta, normal_distribution(beta, sd)).words.tolist()
    ['reliable', 'reliable', 'weak', 'random', 'adversarial', 'undecided']
    """
    above = 1.0 - below(0.0)
    trusted = reliability[above >= 0.95]
    if sign_known and not len(trusted):
        trusted = -reliability[above <= 0.05]
    typical = float(np.median(trusted)) if len(trusted) else np.inf
    zone = 0.25 * typical
    adversarial = below(-zone)
    reliable = 1.0 - below(zone)
    half = below(0.5 * typical) - below(-0.5 * typical)
    words = np.full(len(reliability), "undecided", dtype=object)
    words[above >= 0.95] = "weak"
    inside = 1.0 - adversarial - reliable
    words[(inside >= 0.9) | ((half >= 0.95) & (above < 0.95))] = "random"
    words[(reliable >= 0.9) & (reliability >= 0.5 * typical)] = "reliable"
    words[(reliable >= 0.9) & (reliability < 0.5 * typical)] = "weak"
    words[adversarial >= 0.9] = "adversarial"
    if not len(trusted):  # nobody to measure by: nothing can be said
        words[:] = "undecided"
    return Verdicts(words, adversarial, np.clip(inside, 0.0, 1.0), reliable)


def normal_quantiles(mean: Vector, sd: Vector, count: int = _QUANTILES) -> Vector:
    """Quantiles of equal probability of normal distributions, one row each.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import normal_quantiles
    >>> normal_quantiles(np.zeros(1), np.ones(1), 4).round(3)
    array([[-1.15 , -0.319,  0.319,  1.15 ]])
    """
    return np.asarray(mean[:, None] + sd[:, None] * _unit_quantiles(count))


def normal_distribution(mean: Vector, sd: Vector) -> Distribution:
    """P(x ≤ at) of normal distributions, as `quantile_distribution` of their quantiles has it.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import normal_distribution
    >>> normal_distribution(np.zeros(2), np.ones(2))(0.0)
    array([0.5, 0.5])
    """
    unit = _unit_quantiles(_QUANTILES)
    share = (np.arange(_QUANTILES) + 0.5) / _QUANTILES

    def below(at: float) -> Vector:
        if not np.isfinite(at):
            return np.full(len(mean), float(at > 0))
        z = (at - mean) / np.maximum(sd, 1e-300)
        inner = np.interp(z, unit, share, left=0.0)
        return np.where((z >= unit[-1]) | ((sd == 0.0) & (z >= 0.0)), 1.0, inner)

    return below


def quantile_distribution(quantiles: Vector) -> Distribution:
    """P(x ≤ at) by linear interpolation between quantiles of equal probability.

    One row of quantiles each; the result is clipped at half a step.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.diagnose import quantile_distribution
    >>> quantile_distribution(np.array([[-1.0, 0.0, 1.0, 2.0]]))(0.5)
    array([0.5])
    """
    count = quantiles.shape[1]
    rows = np.arange(len(quantiles))

    def below(at: float) -> Vector:
        if not np.isfinite(at):
            return np.full(len(quantiles), float(at > 0))
        place = np.minimum((quantiles <= at).sum(axis=1), count - 1)
        left, right = quantiles[rows, np.maximum(place - 1, 0)], quantiles[rows, place]
        width = np.maximum(right - left, 1e-300)
        inner = (place - 0.5 + np.clip((at - left) / width, 0.0, 1.0)) / count
        inner = np.where(at < quantiles[:, 0], 0.0, inner)
        return np.where(at >= quantiles[:, -1], 1.0, inner)

    return below


@cache
def _unit_quantiles(count: int) -> Vector:
    from statistics import NormalDist  # here, because it loads half of the standard library

    normal = NormalDist()
    return np.array([normal.inv_cdf((k + 0.5) / count) for k in range(count)])


@cache
def _normal_table() -> tuple[Vector, Vector]:
    z = np.linspace(-6.0, 6.0, 2401)
    return z, normal_cdf(z)


def _normal(z: Vector) -> Vector:
    """Φ(z) to 1e-6, read off a table."""
    return np.interp(z, *_normal_table())
