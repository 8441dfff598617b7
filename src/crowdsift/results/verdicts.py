"""A word for every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.numeric.distributions import Distribution

__all__ = [
    "Verdicts",
    "shares",
    "verdicts",
    "words_of",
]

MIN_LOG_BAYES_FACTOR = 3.0  # nats by which a class must explain votes better than the next
_INFORMATIVE = 2  # the column of that class


def words_of(
    evidence: Vector, upper: Vector, typical: float, useful: Vector
) -> NDArray[np.object_]:
    """A word for every worker, from how well classes of types explain its votes.

    The class with the largest likelihood gives the word if it is 3 nats above the second; else
    the worker is undecided. `random`, the mildest of the words for votes that tell nothing, need
    only be 3 nats above informative: that a random worker might also be one-sided or adversarial
    does not make its votes useful. Informative workers are weak where the upper limit of the
    interval of their reliability is below half the typical one, and reliable otherwise.

    Nobody is accused who is more probably useful than not: among thousands of workers with a few
    votes each some votes look 20 times more like a coin's by chance, and two ties do where the
    few random workers are those who tie.

    Parameters
    ----------
    evidence
        Logarithms of averaged likelihoods, columns adversarial, random, informative and perhaps
        one-sided; see `crowdsift.solvers.ep.type_classes`.
    upper
        The upper limits of reliabilities.
    typical
        The reliability of a typical worker.
    useful
        The probability of being informative, by the learned distribution of workers.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.verdicts import words_of
    >>> evidence = np.array([[-9.0, -4, 0], [-9, -4, 0], [-9, -2, 0], [-9, 0, -4]])
    >>> upper, useful = np.array([2.0, 0.4, 2.0, 0.3]), np.array([0.9, 0.9, 0.7, 0.1])
    >>> words_of(evidence, upper, 1.0, useful).tolist()
    ['reliable', 'weak', 'undecided', 'random']
    """
    order = np.sort(evidence, axis=1)
    classes = np.array(["adversarial", "random", "reliable", "one-sided"], dtype=object)
    words = classes[evidence.argmax(axis=1)]
    ahead = order[:, -1] - order[:, -2]
    ahead = np.where(words == "random", evidence[:, 1] - evidence[:, 2], ahead)
    words[(words == "reliable") & (upper < 0.5 * typical)] = "weak"
    words[ahead < MIN_LOG_BAYES_FACTOR] = "undecided"
    words[(evidence.argmax(axis=1) != _INFORMATIVE) & (useful > 0.5)] = "undecided"
    return np.asarray(words)


def shares(below: Distribution, typical: float) -> tuple[Vector, Vector, Vector]:
    """Of every worker the probabilities of being adversarial, random and reliable.

    Random is within a quarter of the typical reliability around 0.
    """
    zone = 0.25 * typical
    adversarial, reliable = below(-zone), 1.0 - below(zone)
    return adversarial, np.clip(1.0 - adversarial - reliable, 0.0, 1.0), reliable


class Verdicts(NamedTuple):
    """A word for every worker, and the probabilities it rests on."""

    words: NDArray[np.object_]
    adversarial: Vector
    random: Vector
    reliable: Vector


def verdicts(reliability: Vector, below: Distribution, sign_known: bool = False) -> Verdicts:
    """A word for every worker, from the distribution of its reliability (0: clicks at random).

    For methods without classes of types; see `words_of` for the others.

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
    adversarial, inside, reliable = shares(below, typical)
    half = below(0.5 * typical) - below(-0.5 * typical)
    words = np.full(len(reliability), "undecided", dtype=object)
    words[above >= 0.95] = "weak"
    words[(inside >= 0.9) | ((half >= 0.95) & (above < 0.95))] = "random"
    words[(reliable >= 0.9) & (reliability >= 0.5 * typical)] = "reliable"
    words[(reliable >= 0.9) & (reliability < 0.5 * typical)] = "weak"
    words[adversarial >= 0.9] = "adversarial"
    if not len(trusted):  # nobody to measure by: nothing can be said
        words[:] = "undecided"
    return Verdicts(words, adversarial, inside, reliable)
