"""A word for every worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric import MIN_LOG_BAYES_FACTOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.numeric.distributions import Distribution

MIN_VOTES = 5.0  # of a worker with another verdict than undecided
MAX_USEFUL = 0.1  # probability of being informative, above which nobody is accused
LITTLE = 0.5  # of the typical reliability: a worker surely below it is weak, or random
MIN_SIDE_INFORMATION = 0.5  # share of an unbiased worker's information, below which: one-sided
MIN_LEAN = 0.25  # of the share of the left item from one half, of a one-sided worker
_LOGISTIC_VARIANCE = 8.0 / np.pi  # of the Gaussian in whose place σ stands


def words_of(
    evidence: Vector,
    useful: Vector,
    typical: float,
    intervals: Sequence[tuple[Vector, Vector]],
    votes: Vector,
    agreement: Vector,
    left_share: Vector,
    one_sided: NDArray[np.bool_],
) -> NDArray[np.object_]:
    """Return a verdict for every worker: the one rule for all methods.

    Every verdict but `undecided` takes 5 decided votes and evidence: the averaged likelihood of the
    worker's own votes under a class of types must be 3 nats above that under another class. No
    verdict contradicts what stands beside it in a table: an interval must be where the verdict
    says at the level of the table and at 90 %, and the agreement with others must not be on the
    other side of one half. Nobody is accused who is useful with a probability above 10 %.

    - `one-sided`, which is checked first: at least three of four decided votes went to one side,
      and either the side explains the votes 3 nats better than any other class, or the worker's
      side bias leaves less than half of the information (see `side_information`).
    - `adversarial`: the interval is below 0, and adversarial types explain the votes 3 nats
      better than informative ones, and better than random ones.
    - `random`: the interval holds 0 and lies within half the typical reliability on both sides,
      and random types explain the votes 3 nats better than informative ones.
    - `weak`: the interval is above 0, and either its upper limit is below half the typical
      reliability, or random types explain the votes 3 nats better than informative ones.
    - `reliable`: the interval is above 0, and informative types explain the votes 3 nats better
      than adversarial and random ones.

    Parameters
    ----------
    evidence
        Logarithms of averaged likelihoods, columns adversarial, random, informative and perhaps
        one-sided.
    useful
        The probability of being informative, by the distribution of workers and the probability
        that the sign of the scores is right.
    typical
        The reliability of a typical worker.
    intervals
        Lower and upper limits of reliability, those of the table and those of 90 %.
    votes, agreement
        The number of decided votes, and the share that agrees with others (NaN where unknown).
    left_share
        The share of decided votes for the left item (NaN where sides are unknown).
    one_sided
        Whose side bias leaves too little information.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.verdicts import words_of
    >>> evidence = np.array([[-9.0, -4, 0], [-9, -4, 0], [-9, -2, 0], [-9, 0, -4], [0, -4, -9]])
    >>> low, high = np.array([1, 0.2, 0.6, -0.2, -2]), np.array([2, 0.4, 2.0, 0.3, -1])
    >>> words_of(evidence, np.array([1, 1, 1, 0, 0]), 1.0, [(low, high)], np.full(5, 60.0),
    ...          np.full(5, np.nan), np.full(5, np.nan), np.zeros(5, bool)).tolist()
    ['reliable', 'weak', 'undecided', 'random', 'adversarial']
    """
    adversarial, random, informative = evidence[:, :3].T
    above, below, inside, little = (np.ones(len(votes), bool) for _ in range(4))
    for lower, upper in intervals:
        above &= lower > 0.0
        below &= upper < 0.0
        little &= upper < LITTLE * typical
        inside &= (lower <= 0.0) & (upper >= 0.0) & (lower > -LITTLE * typical)
    no_use, in_doubt = np.maximum(adversarial, random) - informative, useful <= MAX_USEFUL
    against = (adversarial - informative >= MIN_LOG_BAYES_FACTOR) & (adversarial >= random)
    words = np.full(len(votes), "undecided", dtype=object)
    follows = above & ~(agreement <= 0.5)
    words[follows & (no_use <= -MIN_LOG_BAYES_FACTOR)] = "reliable"
    by_random = random - informative >= MIN_LOG_BAYES_FACTOR
    words[follows & (little | by_random)] = "weak"
    words[inside & little & by_random & in_doubt] = "random"
    words[below & against & in_doubt & ~(agreement >= 0.5)] = "adversarial"
    if evidence.shape[1] > 3:
        ahead = evidence[:, 3] - evidence[:, :3].max(axis=1)
        one_sided = one_sided | ((ahead >= MIN_LOG_BAYES_FACTOR) & in_doubt)
    words[one_sided & (np.abs(left_share - 0.5) >= MIN_LEAN)] = "one-sided"
    words[votes < MIN_VOTES] = "undecided"
    return words


def side_information(reliability: Vector, side: Vector, spread: float) -> Vector:
    """Return the information about items as a share of that without a side bias.

    A vote σ(βd + γ) holds β²E[σ'(βd + γ)] about d, with d of variance `spread` among pairs. With a
    Gaussian in place of σ' the share is exp(-γ²/(2(8/π + β² spread))).

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.results.verdicts import side_information
    >>> side_information(np.array([1.0, 1.0]), np.array([0.1, 3.7]), 2.0).round(2).tolist()
    [1.0, 0.22]
    """
    return np.exp(-0.5 * side**2 / (_LOGISTIC_VARIANCE + reliability**2 * spread))


def shares(below: Distribution, typical: float) -> tuple[Vector, Vector, Vector]:
    """Return every worker's probabilities of being adversarial, random and reliable.

    Random is within a quarter of the typical reliability around 0.
    """
    zone = 0.25 * typical
    adversarial, reliable = below(-zone), 1.0 - below(zone)
    return adversarial, np.clip(1.0 - adversarial - reliable, 0.0, 1.0), reliable
