"""The posterior from which comparisons are chosen: that of a fit, or the prior of `sift`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.active.batches import TYPES, State
from crowdsift.active.beliefs import Independent, Joint
from crowdsift.errors import RequestError
from crowdsift.numeric.distributions import normal_quantiles
from crowdsift.votes.graph import components

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.active.beliefs import Belief
    from crowdsift.fitting import Fit
    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["ALL_PAIRS", "fitted_state", "prior_state"]

ALL_PAIRS = 1_500  # items up to which every pair is a candidate


def prior_state(items: int, workers: int) -> State:
    """What is known of items and workers without votes."""
    component = np.arange(items)
    belief: Belief = Independent(np.zeros(items), np.ones(items), component.copy())
    if items <= ALL_PAIRS:
        belief = Joint.of(np.zeros(items), np.zeros((items, items)), component)
    types = np.tile(_newcomer(), (workers, 1))
    return State(belief, component, _newcomer(), types, _even(workers), np.zeros(workers))


def fitted_state(found: Fit, votes: Comparisons) -> State:
    """The posterior of a fit, in the codes of its votes."""
    component = components(votes).astype(np.int64)
    mean, posterior = found.scores_of(votes.items), found.posterior
    if posterior is None or posterior.sd is None:
        raise RequestError(f"{found.method} has no posterior to choose by; use sift or bt")
    belief: Belief
    covariance = posterior.covariance
    if covariance is not None:
        belief = Joint.of(mean, covariance, component)
    else:
        belief = Independent(mean, posterior.sd**2, component.copy())
    loads = np.bincount(votes.worker_codes(), votes.weight, votes.n_workers)
    population, types = _reliabilities(found, loads > 0)
    if not population.any():  # nobody saw anything: only somebody new can tell more
        population = _newcomer()
    return State(belief, component, population, types, _even(len(types)), loads.astype(np.float64))


def _reliabilities(found: Fit, voted: NDArray[np.bool_]) -> tuple[Vector, Vector]:
    """Types of the worker population and of every worker; who has no votes is as the population."""
    quantiles = None if found.posterior is None else found.posterior.quantiles
    if quantiles is None:  # a model without a posterior of workers, or without workers
        result = found.worker_table["reliability"].astype(np.float64)
        known = np.where(np.isfinite(result), result, 1.0) if len(result) else np.ones(1)
        quantiles = np.repeat(known[:, None], TYPES, axis=1)
    population = np.quantile(quantiles[voted], (np.arange(TYPES) + 0.5) / TYPES)
    return population, np.where(voted[:, None], quantiles, population)


def _newcomer() -> Vector:
    """Quantiles of the reliability of somebody of whom nothing is known."""
    return np.asarray(normal_quantiles(np.ones(1), np.full(1, 0.5), TYPES)[0])


def _even(workers: int) -> Vector:
    return np.full((workers, TYPES), 1.0 / TYPES)
