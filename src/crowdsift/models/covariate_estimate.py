"""Estimates from votes with covariates: coefficients of workers with their uncertainty."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import WorkerPoints
from crowdsift.errors import RequestError
from crowdsift.models.coefficients import CovariateEstimate
from crowdsift.numeric.likelihoods import sigmoid, smoothing
from crowdsift.solvers.ep.summaries import chosen_types, typical_reliability
from crowdsift.solvers.ep.terms.covariates import CovariateSites
from crowdsift.votes.covariates import SIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import Engine
    from crowdsift.engines.grid import TypePosteriors
    from crowdsift.models.base import Estimate
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.state import Propagation
    from crowdsift.votes.comparisons import Comparisons
    from crowdsift.votes.covariates import Design

__all__ = [
    "MOST_ITEMS",
    "covariate_estimate",
    "refuse_large_covariates",
    "vote_log_likelihood",
    "with_covariate_estimate",
]

MOST_ITEMS = 1_200  # whose joint Gaussian with the coefficients is a matrix
_MOST_NUMBERS = 40_000_000  # workers x items x covariates
_POINTS = 64  # of a worker's posterior


def refuse_large_covariates(engine: Engine, votes: Comparisons) -> None:
    """Refuse votes whose joint Gaussian of scores and coefficients would not fit in memory."""
    if votes.on_disk:
        raise RequestError("covariates need the votes in memory; leave --memory away")
    width = 0 if votes.features is None else votes.features.shape[1] + 1
    numbers = votes.n_workers * votes.n_items * width
    if engine.facts.n_items > MOST_ITEMS or numbers > _MOST_NUMBERS:
        raise RequestError(
            f"sift takes covariates of votes on at most {MOST_ITEMS:,} items, and {_MOST_NUMBERS:,}"
            f" workers x items x covariates; here are {votes.n_items:,} items and "
            f"{votes.n_workers:,} workers. factor-bt takes more"
        )


def covariate_estimate(
    run: Propagation, engine: Engine, nothing: tuple[str, ...]
) -> tuple[CovariateEstimate, WorkerPoints | None]:
    """Return the coefficients at the end of a run, and points of the workers' posteriors.

    Parameters
    ----------
    run, engine
        The run, and the votes it is of.
    nothing
        Names of covariates that are 0 for every vote.
    """
    assert run.covariates is not None
    m, (kept, gains, by_items) = engine.facts.n_workers, run.covariates
    typical = typical_reliability(run.prior) * run.scale()
    if kept is None:
        none, empty = np.zeros((m, 0)), np.zeros(0)
        return CovariateEstimate(
            (), empty, empty, empty, none, none, np.zeros((m, 1, 0)), np.zeros((m, 0, 0)),
            np.zeros((engine.facts.n_items, 0)), typical, gains, by_items, nothing,
        ), None  # fmt: skip
    posterior = run.sites.posteriors(run.prior.masses, slice(0, m))
    chosen = chosen_types(posterior.masses, _POINTS)
    estimate = _coefficients(run, kept, posterior, chosen, engine.facts.n_items, typical)
    estimate = replace(estimate, gains=gains, by_items=by_items, nothing=nothing)
    return estimate, _points(run, posterior, chosen, estimate)


def _n_regular(run: Propagation, posterior: TypePosteriors) -> int:
    """The number of types with a reliability; side-only types follow them."""
    return len(run.prior.types.widths) * int(posterior.points.shape[1])


def _coefficients(
    run: Propagation,
    design: Design,
    posterior: TypePosteriors,
    chosen: NDArray[np.intp],
    n_items: int,
    typical: float,
) -> CovariateEstimate:
    """Posterior means and covariances of the coefficients, in the units of the covariates.

    Given the scores; what scores and the mean coefficients g leave open, and all workers share,
    comes on top. `chosen` are the types at the points of every worker's posterior.
    """
    sites, scale, n_regular = run.sites, design.scale, _n_regular(run, posterior)
    assert isinstance(sites, CovariateSites)
    assert sites.laplace is not None
    assert sites.joint is not None
    q = posterior.masses[:, :n_regular]
    q = q / np.maximum(q.sum(axis=1, keepdims=True), 1e-300)
    by_type, within = sites.laplace.mean[:, :n_regular], sites.laplace.covariance[:, :n_regular]
    mean = np.einsum("st,stp->sp", q, by_type)
    about = by_type - mean[:, None]
    shared = sites.joint.coefficients - sites.joint.given
    covariance = np.einsum("st,stpq->spq", q, within) + shared
    variance = np.einsum("st,stp->sp", q, about**2) + np.einsum("spp->sp", covariance)
    row = np.arange(len(chosen))[:, None]
    regular = chosen < n_regular
    gamma = np.where(regular[..., None], by_type[row, np.minimum(chosen, n_regular - 1)], 0.0)
    g_sd = np.sqrt(np.diag(sites.joint.covariance)[n_items:])
    return CovariateEstimate(
        names=design.names,
        crowd=sites.effects.mean * ~design.by_items / scale,
        crowd_sd=g_sd / scale,
        spread=np.sqrt(sites.effects.variance) / scale,
        mean=mean / scale,
        sd=np.sqrt(variance) / scale,
        points=gamma / scale,
        covariance=covariance / (scale[:, None] * scale),
        item_values=design.item_values,
        typical=typical,
        gains={},
    )


def _points(
    run: Propagation,
    posterior: TypePosteriors,
    chosen: NDArray[np.intp],
    estimate: CovariateEstimate,
) -> WorkerPoints:
    """Reliability, tie width and side bias of the chosen types of every worker."""
    types, n_regular = run.prior.types, _n_regular(run, posterior)
    regular, levels = chosen < n_regular, posterior.points.shape[1]
    side, side_variance = np.zeros(chosen.shape), np.zeros(chosen.shape)
    if SIDE in estimate.names:
        side_only = np.append(np.zeros(n_regular), types.side_only)[chosen]
        side = np.where(regular, estimate.points[:, :, 0], side_only)
        side_variance = np.where(regular, estimate.covariance[:, :1, 0], 0.0)
    row = np.arange(len(chosen))[:, None]
    return WorkerPoints(
        np.where(regular, posterior.points[row, chosen % levels], 0.0) * run.scale(),
        np.append(np.repeat(types.widths, levels), types.side_only_widths)[chosen],
        side,
        side_variance,
    )


def vote_log_likelihood(votes: Comparisons, estimate: Estimate, ties: bool) -> Vector:
    """Log-probability of every vote, averaged over the posteriors of its worker and its items.

    A soft outcome is a share of a win and of a loss.
    """
    points, found = estimate.points, estimate.covariates
    assert points is not None
    assert found is not None
    first, second = votes.first.astype(np.int64), votes.second.astype(np.int64)
    variance = estimate.difference_variance(first, second)
    assert variance is not None
    offset, offset_variance = found.offsets(votes)
    worker, x = votes.worker_codes(), float(votes.sides_known)
    beta, width, side, side_variance = (column[worker] for column in points)
    v = beta**2 * variance[:, None] + x * side_variance + offset_variance
    k = smoothing(v)
    z = beta * (estimate.scores[first] - estimate.scores[second])[:, None] + x * side + offset
    won, lost = (sigmoid(k * (sign * z - width)).mean(axis=1) for sign in (1.0, -1.0))
    y = votes.outcome.astype(np.float64)
    logs = [np.log(np.maximum(p, 1e-300)) for p in (won, lost, 1.0 - won - lost)]
    soft = y * logs[0] + (1.0 - y) * logs[1]
    return np.asarray(np.where((y == 0.5) & ties, logs[2], soft), dtype=np.float64)


def with_covariate_estimate(
    estimate: Estimate, found: CovariateEstimate, points: WorkerPoints | None
) -> Estimate:
    """The estimate with what covariates say; from it no later fit can start."""
    if points is None:
        return replace(estimate, covariates=found)
    side = estimate.crowd_side and (float(found.crowd[0]), float(found.crowd_sd[0]))
    return replace(estimate, covariates=found, points=points, population=None, sites=None,
                   crowd_side=side)  # fmt: skip
