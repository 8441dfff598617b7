"""A word for every worker, and how clearly the crowd settles the sign."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.numeric.distributions import normal_share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.numeric.distributions import Distribution

__all__ = [
    "Verdicts",
    "sign_margin",
    "verdicts",
]


def sign_margin(reliability: Vector, sd: Vector) -> float:
    """Mean over workers of P(β > 0) - P(β < 0): how clearly the crowd settles the sign.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.verdicts import sign_margin
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
    >>> from crowdsift.results.verdicts import verdicts
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
