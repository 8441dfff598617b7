"""Variances of effects, learned a step a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdsift.engines.grid import PairPosteriors

__all__ = ["MAX_EFFECT", "MIN_EFFECT", "learned_effect", "scoring_step"]

MIN_EFFECT, MAX_EFFECT = 1e-3, 4.0  # variances worth a trial
_REACH = 4.0  # how many times as large or small a variance may become in a pass


def scoring_step(slope: float, information: float, variance: float) -> float:
    """The variance after a step of Fisher scoring, within a factor of 4 and from .001 to 4.

    At a fixed point of EP the derivative of the evidence in the variance is that at fixed sites, so
    it is learned beside the sites, a step a pass, as the distribution of types is.

    Examples
    --------
    >>> scoring_step(2.0, 10.0, 0.5)
    0.7
    """
    ahead = variance + slope / max(information, 1e-12)
    ahead = min(max(ahead, variance / _REACH), variance * _REACH)
    return min(max(ahead, MIN_EFFECT), MAX_EFFECT)


def learned_effect(found: PairPosteriors, variance: float) -> float:
    """The variance s of the pair effect after a step.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.engines.grid import PairPosteriors
    >>> none = np.zeros(0)
    >>> learned_effect(PairPosteriors(none, none, none, none, 2.0, 10.0), 0.5)
    0.7
    """
    return scoring_step(found.slope, found.information, variance)
