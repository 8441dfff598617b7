"""The side bias of the worker population, learned from that of its workers.

γ of a regular worker is N(g0, t²). A worker's sites of γ add up to exp(-τγ²/2 + νγ), and where EP
is at rest the derivative of its evidence in g0 and t² is that at fixed sites, weighted with the
probability ω of being regular. So g0 and t² are those of `crowdsift.numeric.random_effects`, where
the derivation is: priors g0 ~ N(0, 1) and t half normal of scale 1, and t² may be 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crowdsift.engines.grid import SidePrior
from crowdsift.numeric.random_effects import RandomEffects, mean_at, within_reach

if TYPE_CHECKING:
    from crowdsift.engines.grid import SiteUpdate
    from crowdsift.numeric import Vector

__all__ = ["PopulationSide", "learn_sides"]

_START = SidePrior()


def learn_sides(nu: Vector, tau: Vector, regular: Vector, prior: SidePrior) -> PopulationSide:
    """Mean and variance of the side bias of regular workers, by maximum evidence.

    The maximum is the one uphill from the prior so far, and t² moves by at most a factor of 4 in
    one pass: a biased but good worker must not be taken for a side-only type because t² fell to 0
    before the scores could show that it is good.

    Parameters
    ----------
    nu, tau, regular
        Of every worker: Σ n·ν and Σ n·τ of its sites of γ, and ω.
    prior
        What the sites were made with.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.engines.grid import SidePrior
    >>> from crowdsift.solvers.ep.side_prior import learn_sides
    >>> tau = np.full(100, 9.0)
    >>> learn_sides(0.2 * tau, tau, np.ones(100), SidePrior(0.0, 0.25)).prior
    SidePrior(mean=0.19..., variance=0.0625)
    """
    if not (regular @ tau) > 0.0:  # nothing known yet
        return PopulationSide(prior)
    found = RandomEffects.of_messages(nu, tau, regular, prior.variance)
    variance = within_reach(found.variance, prior.variance)
    mean, information = mean_at(nu, tau, regular, variance)
    return PopulationSide(SidePrior(mean, variance), 1.0 / (1.0 + information))


@dataclass(frozen=True)
class PopulationSide:
    """g0 and t², and the variance of what is known of g0."""

    prior: SidePrior = _START
    mean_variance: float = 1.0

    def learned(self, update: SiteUpdate) -> PopulationSide:
        """After a pass."""
        return learn_sides(update.side_nu, update.side_tau, update.regular, self.prior)

    def posteriors(self, nu: Vector, tau: Vector) -> tuple[Vector, Vector]:
        """Mean and variance of γ of every worker.

        With D = 1 + t²τ, γ given g0 has the mean (g0 + t²ν)/D and the variance t²/D, and g0 is
        itself uncertain. Where t² is 0 the side bias of all is g0, and so is what is known of it.
        """
        mean, variance = self.prior
        D = 1.0 + variance * tau
        return (mean + variance * nu) / D, variance / D + self.mean_variance / D**2
