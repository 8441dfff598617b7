"""Which end of the scores is up, and how clearly the workers settle it.

With workers of either sign, scores r and -r explain the votes alike. The crowd settles the sign
only if most informative workers are honest; gold settles it without that assumption.
"""

from __future__ import annotations

from math import exp, lgamma
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector
    from crowdsift.numeric.distributions import Distribution

# Prior of the share of honest workers among those of a clear sign: Beta(3.5, 0.5), the
# 5·(.7, .1) pseudo-counts of the prior of `sift`.
_HONEST, _ADVERSARIAL = 3.5, 0.5
_ZONE = 0.25  # of the typical reliability: a worker closer to 0 has no say
# A worker of reliability 2 orders five of six random pairs as the scores do. Workers who agree even
# more are no reason to ignore others: adversaries who know the truth agree best of all.
_MAX_TYPICAL = 2.0


class SignSupport(NamedTuple):
    """Expected numbers of informative workers for and against the sign, among `workers`."""

    positive: float
    negative: float
    workers: int

    @property
    def log_odds(self) -> float:
        """Log odds that the sign is right."""
        return sign_log_odds(self.positive, self.negative)

    @property
    def probability(self) -> float:
        """Probability that the sign is right."""
        return 1.0 / (1.0 + exp(-max(self.log_odds, -700.0)))

    @property
    def margin(self) -> float:
        """Mean over workers of P(for the sign) - P(against it)."""
        return (self.positive - self.negative) / max(self.workers, 1)

    def mirrored(self) -> SignSupport:
        """Return the support of the other sign."""
        return SignSupport(self.negative, self.positive, self.workers)


def sign_log_odds(reliable: float, adversarial: float) -> float:
    """Return the log odds that the sign is right, from the expected counts on either side.

    The share ρ of the honest among workers of a clear sign is Beta(3.5, 0.5) before the votes. With
    R workers for the sign and A against it the evidence is B(3.5 + R, 0.5 + A) if it is right and
    B(3.5 + A, 0.5 + R) if all are mirrored; for many workers the odds go to (R/A)³.

    Examples
    --------
    >>> from crowdsift.models.sign import sign_log_odds
    >>> round(sign_log_odds(60, 40), 2), round(sign_log_odds(50, 50), 2)
    (1.18, 0.0)
    """
    a, b = _HONEST, _ADVERSARIAL
    return (
        lgamma(a + reliable)
        + lgamma(b + adversarial)
        - lgamma(a + adversarial)
        - lgamma(b + reliable)
    )


def sign_support(beta: Vector, below: Distribution, votes: Vector) -> SignSupport:
    """Count the informative workers for and against the sign.

    The typical reliability is the median of |β| over workers, weighted by information (β² times
    the number of votes), and at most 2. A worker is for the sign with P(β > typical/4) and against
    it with P(β < -typical/4), so that nearly random workers have no say, however many they are.

    Parameters
    ----------
    beta, below
        The reliability of every worker, 0 for one who clicks at random, and its distribution.
    votes
        The number of votes of every worker.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.models.sign import sign_support
    >>> from crowdsift.numeric.distributions import normal_distribution
    >>> beta = np.array([3.0, 3.0, *[-0.25] * 9])
    >>> found = sign_support(beta, normal_distribution(beta, np.full(11, 0.05)), np.full(11, 99.0))
    >>> found.positive, found.negative, round(found.probability, 2)
    (2.0, 0.0, 0.95)
    """
    zone = _ZONE * min(_weighted_median(np.abs(beta), beta**2 * votes), _MAX_TYPICAL)
    if zone == 0.0:
        return SignSupport(0.0, 0.0, len(beta))
    return SignSupport(float((1.0 - below(zone)).sum()), float(below(-zone).sum()), len(beta))


def _weighted_median(values: Vector, weights: Vector) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    if not len(values) or not reached[-1] > 0.0:
        return 0.0
    return float(values[order][np.searchsorted(reached, 0.5 * reached[-1])])
