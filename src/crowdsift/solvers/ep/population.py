"""What a run learned of the worker population, as JSON can hold it, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.engines.grid import SidePrior
from crowdsift.errors import RequestError
from crowdsift.solvers.ep.worker_prior import WorkerPrior, worker_types

if TYPE_CHECKING:
    from crowdsift.solvers.ep.state import Propagation

__all__ = ["iterate_of", "mirrored_population", "population_from", "population_to"]


def population_to(
    prior: WorkerPrior,
    side: SidePrior,
    pair_effect: float,
    scale: float,
    by_context: bool = False,
) -> dict[str, Any]:
    """The distribution of types, the side biases and the variance of a pair effect.

    All as the run had them, in units in which the scores are `scale` times those of the fit: a
    run that goes on must find the grid as it was. `by_context` says that workers differed by
    context, from which no run can go on.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.engines.grid import SidePrior
    >>> from crowdsift.solvers.ep.population import population_from, population_to
    >>> from crowdsift.solvers.ep.worker_prior import WorkerPrior
    >>> prior = WorkerPrior.start(np.array([1.0, 2.0]), 1.0, 0.5)
    >>> population_from(population_to(prior, SidePrior(0.1, 0.2), 0.0, 1.0))[1]
    SidePrior(mean=0.1, variance=0.2)
    """
    return {
        "levels": prior.levels.tolist(),
        "masses": prior.masses.tolist(),
        "centre": prior.centre,
        "spread": prior.spread,
        "shares": prior.shares.tolist(),
        "ties": prior.types.ties,
        "sides": prior.types.sides,
        "side_mean": side.mean,
        "side_variance": side.variance,
        "pair_effect": pair_effect,
        "scale": scale,
        "by_context": by_context,
    }


def iterate_of(run: Propagation, *, alone: bool) -> dict[str, Any]:
    """What a later run needs to go on from the middle of this one; its sites are made anew.

    While it is not `alone`, and another start or family may win, a later run starts over.
    """
    if not alone:
        return {"scores": run.means}
    found = population_to(run.prior, run.sides.prior, run.pair_effect, 1.0)
    return {"scores": run.means, "variances": run.variances,
            "population": {**found, "unfinished": True}}  # fmt: skip


def population_from(population: dict[str, Any]) -> tuple[WorkerPrior, SidePrior, float, float]:
    """The inverse of `population_to`."""
    try:
        types = worker_types(ties=bool(population["ties"]), sides=bool(population["sides"]))
        levels, masses = (np.array(population[name], np.float64) for name in ("levels", "masses"))
        if len(masses) != types.n_types(levels):
            raise ValueError(f"{len(masses)} masses for {types.n_types(levels)} types")
        centre = None if population["centre"] is None else float(population["centre"])
        shares = np.array(population["shares"], np.float64)
        prior = WorkerPrior(levels, masses, centre, float(population["spread"]), shares, types)
        side = SidePrior(float(population["side_mean"]), float(population["side_variance"]))
        return prior, side, float(population["pair_effect"]), float(population["scale"])
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError(f"the population of the earlier fit is damaged ({error})") from None


def mirrored_population(population: dict[str, Any]) -> dict[str, Any]:
    """The same for scores and reliabilities of the other sign."""
    prior, side, pair_effect, scale = population_from(population)
    by_context = bool(population.get("by_context"))
    return population_to(prior.flipped(), side, pair_effect, scale, by_context)
