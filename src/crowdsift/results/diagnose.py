"""What can be said about the votes and the workers beyond the estimate itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift import _core
from crowdsift.numeric.distributions import normal_share
from crowdsift.numeric.threads import thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.numeric.distributions import Distribution
    from crowdsift.votes.comparisons import Comparisons

__all__ = [
    "Tally",
    "Verdicts",
    "centre",
    "components",
    "sign_margin",
    "tally",
    "verdicts",
]


def components(comparisons: Comparisons) -> NDArray[np.uint32]:
    """The connected component of every item, numbered from 0 by its first item.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.results.diagnose import components
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
    >>> from crowdsift.results.diagnose import centre
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
    >>> from crowdsift.results.diagnose import tally
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


def sign_margin(reliability: Vector, sd: Vector) -> float:
    """Mean over workers of P(β > 0) - P(β < 0): how clearly the crowd settles the sign.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.diagnose import sign_margin
    >>> round(sign_margin(np.array([1.0, 1.0, -1.0]), np.array([0.1, 0.1, 0.1])), 3)
    0.333
    """
    return float(np.mean(2.0 * normal_share(reliability / sd) - 1.0))


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
    >>> from crowdsift.results.diagnose import verdicts
    >>> from crowdsift.numeric.distributions import normal_distribution
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
