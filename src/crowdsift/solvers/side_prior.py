"""The side habits of a crowd, learned from those of its workers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import SidePrior
from crowdsift.numeric.extrapolation import aitken_step

if TYPE_CHECKING:
    from crowdsift.engines.grid import SiteUpdate

__all__ = ["SideLearner", "learned_sides"]

_FARTHEST, _LEAST_VARIANCE, _MOST_VARIANCE = 3.0, 1e-3, 4.0
_START = SidePrior()
_EVERY = 4  # steps, then an extrapolation


def learned_sides(update: SiteUpdate, prior: SidePrior) -> SidePrior:
    """Mean and variance of the side habit of regular workers, by empirical Bayes.

    One worker's worth of prior at mean 0 and variance .1 keeps the variance from collapsing,
    which would hand a biased but good worker to a pure type.
    """
    weight, t2 = update.regular, prior.variance
    D = 1.0 + t2 * update.side_tau
    G, V = (prior.mean + t2 * update.side_nu) / D, t2 / D
    held = float(weight.sum()) + 1.0
    mean = float(np.clip(weight @ G / held, -_FARTHEST, _FARTHEST))
    variance = (float(weight @ ((G - mean) ** 2 + V)) + 0.1) / held
    return SidePrior(mean, float(np.clip(variance, _LEAST_VARIANCE, _MOST_VARIANCE)))


@dataclass(frozen=True)
class SideLearner:
    """The prior, and how its steps shrink.

    Where habits are small next to what votes tell of them, the variance creeps: each step is
    nearly as long as the one before. Every few steps those to come are taken at once, as the sum
    of a geometric series (Aitken's extrapolation, in the logarithm of the variance).
    """

    prior: SidePrior = _START
    last: tuple[float, float] | None = None
    steps: int = 0

    def learned(self, update: SiteUpdate) -> SideLearner:
        """A step, extrapolated now and then where steps shrink steadily."""
        found = learned_sides(update, self.prior)
        step = (
            found.mean - self.prior.mean,
            float(np.log(found.variance / self.prior.variance)),
        )
        if self.last is None or (self.steps + 1) % _EVERY:
            return replace(self, prior=found, last=step, steps=self.steps + 1)
        mean, log = (aitken_step(now, before) for now, before in zip(step, self.last, strict=True))
        variance = float(np.clip(self.prior.variance * np.exp(np.clip(log, -2.0, 2.0)),
                                 _LEAST_VARIANCE, _MOST_VARIANCE))  # fmt: skip
        ahead = SidePrior(float(np.clip(self.prior.mean + mean, -_FARTHEST, _FARTHEST)), variance)
        return SideLearner(ahead, None, self.steps + 1)
