"""The fields of a fit, made of an estimate and its votes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.engines.grid import WorkerPoints
from crowdsift.results.coefficients import coefficient_table
from crowdsift.results.item_table import item_table
from crowdsift.results.posterior import Posterior
from crowdsift.results.statistics import separation_of
from crowdsift.results.summary import diagnose, summary
from crowdsift.results.worker_table import worker_table
from crowdsift.solvers.ep.warm import recoded

if TYPE_CHECKING:
    from crowdsift.numeric import Vector
    from crowdsift.results.fitted import Fitted
    from crowdsift.solvers.ep.state import SavedSites

__all__ = ["fields_of"]


def fields_of(fitted: Fitted, passes: float, started: float) -> dict[str, Any]:
    """Tables, summary and posterior of an estimate, by the names of `FitData`.

    Parameters
    ----------
    fitted
        The estimate and its votes.
    passes
        How often the votes were passed over.
    started
        When the fit began, by `time.perf_counter`.
    """
    votes, estimate = fitted.votes, fitted.estimate
    items, workers = item_table(fitted), worker_table(fitted)
    found, needed = diagnose(fitted)
    result = summary(fitted, found, needed, passes, time.perf_counter() - started)
    apart = separation_of(items, fitted.model.name, fitted.level)
    result["separation_reliability"] = None if apart is None else apart.reliability
    quantiles, points, leaves = estimate.workers.quantiles, estimate.points, estimate.in_context
    return {
        "item_table": items,
        "worker_table": workers,
        "summary": result,
        "parameters": fitted.model.parameters(),
        "trace": tuple(estimate.trace),
        "diagnostics": tuple(found),
        "backend": votes.backend,
        "population": estimate.population,
        "features": estimate.features,
        "coefficients": coefficient_table(fitted),
        "sites": _sites(fitted),
        "votes": votes if votes.elsewhere is None else None,
        "gold": None if fitted.known is None else fitted.known.labels(votes.items),
        "posterior": Posterior(
            votes.items,
            fitted.score_sd,
            estimate.covariance,
            None if quantiles is None else _single(quantiles),
            None if points is None else _rounded(points),
            None if leaves is None else leaves._replace(points=_rounded(leaves.points)),
        ),
    }


def _single(values: Vector) -> Vector:
    """Round to single precision, as a saved fit has it, so that a loaded fit gives the same."""
    return values.astype(np.float32).astype(np.float64)


def _rounded(points: WorkerPoints) -> WorkerPoints:
    return WorkerPoints(*map(_single, points))


def _sites(fitted: Fitted) -> SavedSites | None:
    """The sites with rows of the table for codes of items; gold is one more worker."""
    sites, count = fitted.estimate.sites, fitted.votes.n_workers + 1
    if sites is None:
        return None
    return recoded(sites, np.argsort(fitted.order), np.arange(count), count)
