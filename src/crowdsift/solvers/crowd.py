"""What a run learned of workers in general, as JSON can hold it, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdsift.engines.grid import SidePrior
from crowdsift.errors import RequestError
from crowdsift.solvers.worker_prior import WorkerPrior, habits_of

__all__ = ["crowd_from", "crowd_to"]


def crowd_to(
    prior: WorkerPrior,
    side: SidePrior,
    pair_effect: float,
    scale: float,
    by_context: bool = False,
) -> dict[str, Any]:
    """The distribution of types, the side habits and the variance of a pair effect.

    All as the run had them, in units in which the scores are `scale` times those of the fit: a
    run that goes on must find the grid as it was. `by_context` says that workers differed by
    context, from which no run can go on.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.engines.grid import SidePrior
    >>> from crowdsift.solvers.crowd import crowd_from, crowd_to
    >>> from crowdsift.solvers.worker_prior import WorkerPrior
    >>> prior = WorkerPrior.start(np.array([1.0, 2.0]), 1.0, 0.5)
    >>> crowd_from(crowd_to(prior, SidePrior(0.1, 0.2), 0.0, 1.0))[1]
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


def crowd_from(crowd: dict[str, Any]) -> tuple[WorkerPrior, SidePrior, float, float]:
    """The inverse of `crowd_to`."""
    try:
        habits = habits_of(ties=bool(crowd["ties"]), sides=bool(crowd["sides"]))
        levels, masses = (np.array(crowd[name], np.float64) for name in ("levels", "masses"))
        if len(masses) != habits.n_types(levels):
            raise ValueError(f"{len(masses)} masses for {habits.n_types(levels)} types")
        centre = None if crowd["centre"] is None else float(crowd["centre"])
        shares = np.array(crowd["shares"], np.float64)
        prior = WorkerPrior(levels, masses, centre, float(crowd["spread"]), shares, habits)
        side = SidePrior(float(crowd["side_mean"]), float(crowd["side_variance"]))
        return prior, side, float(crowd["pair_effect"]), float(crowd["scale"])
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError(f"the crowd of the earlier fit is damaged ({error})") from None
