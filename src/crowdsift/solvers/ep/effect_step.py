"""The variance of the pair effect, learned a step a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crowdsift.engines.grid import PairPosteriors

__all__ = ["MAX_EFFECT", "MIN_EFFECT", "learned_effect"]

MIN_EFFECT, MAX_EFFECT = 1e-3, 4.0  # variances worth a trial
_REACH = 4.0  # how many times as large or small a variance may become in a pass


def learned_effect(found: PairPosteriors, variance: float) -> float:
    """The variance s after a step of Fisher scoring, within a factor of 4 and from .001 to 4.

    At a fixed point of EP the derivative of the evidence in s is that at fixed sites, so s is
    learned beside the sites, a step a pass, as the distribution of types is.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.engines.grid import PairPosteriors
    >>> none = np.zeros(0)
    >>> learned_effect(PairPosteriors(none, none, none, none, 2.0, 10.0), 0.5)
    0.7
    """
    step = found.slope / max(found.information, 1e-12)
    ahead = min(max(variance + step, variance / _REACH), variance * _REACH)
    return min(max(ahead, MIN_EFFECT), MAX_EFFECT)
