"""From votes to a `Fit`: reads, chooses the engine, runs the model, makes the tables."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift._version import __version__
from crowdsift.comparisons import Comparisons
from crowdsift.diagnose import Z90, components, rank_limits, ranks, sign_margin, verdicts
from crowdsift.engines import choose_engine
from crowdsift.errors import ConvergenceWarning, RequestError
from crowdsift.ingest import read
from crowdsift.models import DEFAULT, Estimate, Model, model, parameters
from crowdsift.result import Fit
from crowdsift.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.solvers.convergence import Progress

__all__ = ["fit"]


def fit(
    votes: Any,
    method: str | Model = DEFAULT,
    *,
    columns: Mapping[str, str] | None = None,
    workers: bool = True,
    sides: bool | None = None,
    engine: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Fit:
    """Fit a model to votes.

    Parameters
    ----------
    votes
        A file, a data frame, arrays or `Comparisons`: whatever `crowdsift.read` takes.
    method
        The name of a method, or a model with hyper-parameters of its own.
    columns, workers, sides
        As in `crowdsift.read`.
    engine
        Where the arithmetic runs: "auto", "cpu" or "reference".
    threads
        How many threads; all cores by default.
    seed
        For methods that draw random numbers.
    progress
        Called once an iteration with its number and the measure of convergence.

    Returns
    -------
    Fit
        The record of the fit. A `ConvergenceWarning` is given where it did not converge.

    Examples
    --------
    >>> import crowdsift
    >>> votes = {"winner": ["a", "b", "a"], "loser": ["b", "c", "c"], "worker": ["x", "y", "x"]}
    >>> fit = crowdsift.fit(votes, method="bt")
    >>> fit.items["item"].tolist()
    ['a', 'b', 'c']
    """
    chosen = model(method) if isinstance(method, str) else method
    if not isinstance(votes, Comparisons):
        votes = read(votes, columns=columns, workers=workers, sides=sides)
    if chosen.uses_workers and not votes.has_workers:
        raise RequestError(
            f"{chosen.name} learns who can be trusted and needs a worker for every vote; "
            "use method 'bt' for votes without workers"
        )
    started = time.perf_counter()
    prepared = chosen.prepare(votes)
    machine = choose_engine(engine, prepared, threads)
    estimate = chosen.estimate(machine, progress)
    whole = machine if prepared is votes else choose_engine(engine, votes, threads)
    agreed, decided = whole.agreement(estimate.scores)
    seconds = time.perf_counter() - started
    agreement = np.divide(agreed, decided, out=np.full(len(agreed), np.nan), where=decided > 0)
    result = _record(votes, chosen, estimate, agreement, machine.passes, seconds, seed)
    if not result.converged:
        warnings.warn(result.warnings[-1], ConvergenceWarning, stacklevel=2)
    return result


def _record(
    votes: Comparisons,
    chosen: Model,
    estimate: Estimate,
    agreement: NDArray[np.float64],
    passes: int,
    seconds: float,
    seed: int,
) -> Fit:
    component = components(votes)
    notes = list(estimate.warnings)
    n_components = int(component.max()) + 1
    if n_components > 1:
        notes.append(
            f"the items fall into {n_components} groups without a comparison between them; "
            "scores and ranks are comparable only within a group (column component)"
        )
    rule = estimate.rule
    if not rule.converged:
        notes.append(
            f"{chosen.name} did not converge in {rule.iterations} iterations: {rule.measure} "
            f"{rule.history[-1]:.3g}, tolerance {rule.tolerance:.3g}"
        )
    margin = None
    told = estimate.workers
    if told.reliability is not None and told.reliability_sd is not None:
        margin = sign_margin(told.reliability - told.random_level, told.reliability_sd)
    summary = {
        "method": chosen.name,
        "version": __version__,
        "items": votes.n_items,
        "workers": votes.n_workers if votes.has_workers else 0,
        "comparisons": len(votes),
        "votes": votes.total_weight,
        "components": n_components,
        "sides_known": votes.sides_known,
        "converged": rule.converged,
        "measure": rule.measure,
        "iterations": rule.iterations,
        "passes": passes,
        "log_likelihood": estimate.log_likelihood,
        "mean_log_likelihood": estimate.log_likelihood / votes.total_weight,
        "evidence": estimate.evidence,
        "seconds": round(seconds, 6),
        "sign_margin": margin,
        "seed": seed,
        "warnings": notes,
    }
    return Fit(
        item_table=_items(votes, estimate, component),
        worker_table=_workers(votes, estimate, agreement),
        summary=summary,
        parameters=parameters(chosen),
        trace=tuple(estimate.trace),
        backend=votes.backend,
    )


def _items(votes: Comparisons, estimate: Estimate, component: NDArray[np.uint32]) -> Table:
    k = votes.n_items
    count = np.bincount(votes.first, votes.weight, k) + np.bincount(votes.second, votes.weight, k)
    lower, upper = _limits(estimate.scores, estimate.score_sd)
    lower[count == 0] = upper[count == 0] = np.nan
    rank = ranks(estimate.scores, component)
    best = worst = np.full(k, np.nan)
    if estimate.score_sd is not None:
        best, worst = (limit.astype(np.float64) for limit in rank_limits(lower, upper, component))
        best[count == 0] = worst[count == 0] = np.nan
    order = np.lexsort((np.arange(k), rank, component))
    columns: dict[str, NDArray[Any]] = {
        "item": votes.items,
        "score": estimate.scores,
        "lower": lower,
        "upper": upper,
        "rank": rank,
        "rank_lower": _counts(best),
        "rank_upper": _counts(worst),
        "comparisons": _counts(count),
        "component": component.astype(np.int64) + 1,
    }
    return Table({name: column[order] for name, column in columns.items()})


def _workers(votes: Comparisons, estimate: Estimate, agreement: NDArray[np.float64]) -> Table:
    m = votes.n_workers if votes.has_workers else 0
    told = estimate.workers
    nothing = np.full(m, np.nan)
    reliability = nothing if told.reliability is None else told.reliability
    lower, upper = _limits(reliability, told.reliability_sd)
    side = nothing if told.side_bias is None else told.side_bias
    side_lower, side_upper = _limits(side, told.side_sd)
    verdict = np.full(m, "", dtype=object)
    if told.reliability is not None and told.reliability_sd is not None:
        level = told.random_level
        verdict = verdicts(reliability - level, lower - level, upper - level)
    starts = votes.offsets[:-1]
    count = np.add.reduceat(np.append(votes.weight, 0.0), starts) * (np.diff(votes.offsets) > 0)
    return Table(
        {
            "worker": votes.workers[:m],
            "reliability": reliability,
            "lower": lower,
            "upper": upper,
            "side_bias": side,
            "side_lower": side_lower,
            "side_upper": side_upper,
            "comparisons": _counts(count[:m]),
            "agreement": agreement[:m],
            "verdict": verdict,
            **told.extra,
        }
    )


def _limits(
    centre: NDArray[np.float64], sd: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Limits of 90 % intervals."""
    half = np.full(len(centre), np.nan) if sd is None else Z90 * sd
    return centre - half, centre + half


def _counts(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as integers; anything else as it is."""
    if len(values) and np.isfinite(values).all() and (values == np.round(values)).all():
        return values.astype(np.int64)
    return values
