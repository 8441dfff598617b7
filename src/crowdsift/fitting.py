"""From votes to a `Fit`: reads, chooses the engine, runs the model, makes the tables."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift._version import __version__
from crowdsift.engines import choose_engine
from crowdsift.errors import ConvergenceWarning, InputError, RequestError, SignWarning
from crowdsift.io.gold import read_gold
from crowdsift.io.ingest import read
from crowdsift.io.item_values import match_items, read_item_values
from crowdsift.io.resources import require_memory
from crowdsift.models import DEFAULT, Estimate, Model, holdout, model
from crowdsift.numeric.distributions import Z90, normal_distribution, quantile_distribution
from crowdsift.numeric.threads import blas_threads, thread_count, thread_notes
from crowdsift.results.diagnose import centre, sign_margin, verdicts
from crowdsift.results.fit import Fit
from crowdsift.results.notes import gold_note, island_note, one_way_notes, sign_note
from crowdsift.results.posterior import Posterior
from crowdsift.results.ranking import rank_limits, ranks, table_order
from crowdsift.results.sign import Agreement, count_gold, mirror, order_probability, voters
from crowdsift.results.start import starting_point
from crowdsift.results.tables import Table
from crowdsift.solvers.kept_sites import recoded
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.outcomes import tie_rates
from crowdsift.votes.tally import Tally, tally

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.grid import VoteSites
    from crowdsift.solvers.convergence import Progress

__all__ = ["fit", "read_votes"]


def fit(
    votes: Any,
    method: str | Model = DEFAULT,
    *,
    columns: Mapping[str, str] | None = None,
    workers: bool = True,
    sides: bool | None = None,
    features: Sequence[str] = (),
    classes: Any = None,
    by: str = "",
    gold: Any = None,
    start: Any = None,
    tune: bool = False,
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
    columns, workers, sides, features, by
        As in `crowdsift.read`.
    classes
        The class of every item, for `barp`: a mapping, or "ITEMS.csv:column".
    start
        A `Fit` or the folder of a saved one, of the same method: go on from there, in a fraction
        of the passes. The votes are all votes, the old ones and the new.
    gold
        Pairs of items of which it is known which one is better: a file or frame with the columns
        winner and loser. They settle the sign of the scores where the method leaves it free.
    tune
        Choose the method's penalty by left-out votes first.
    engine
        Where the arithmetic runs: "auto", "cpu" or "reference".
    threads
        How many threads; all cores by default.
    seed
        For methods that draw random numbers, and for the votes left out by `tune`.
    progress
        Called once an iteration with its number and the measure of convergence.

    Returns
    -------
    Fit
        The record of the fit. A `ConvergenceWarning` is given where it did not converge, a
        `SignWarning` where neither the crowd nor gold settles the sign of the scores.

    Examples
    --------
    >>> import crowdsift
    >>> votes = {"winner": ["a", "b", "a"], "loser": ["b", "c", "c"], "worker": ["x", "y", "x"]}
    >>> fit = crowdsift.fit(votes, method="bt")
    >>> fit.items["item"].tolist()
    ['a', 'b', 'c']
    """
    chosen = _model(method)
    comparisons = read_votes(
        votes,
        columns=columns,
        workers=workers,
        sides=sides,
        features=features,
        classes=classes,
        by=by,
        threads=threads,
    )
    require_workers(chosen, comparisons)
    known = None if gold is None else read_gold(gold, comparisons)
    started = time.perf_counter()
    seen = comparisons
    if known is not None and chosen.takes_gold:
        seen = comparisons.with_gold(known.winner, known.loser)
    prepared = chosen.prepare(seen)
    if tune and chosen.tuned:
        chosen = holdout.tune(comparisons, chosen, seed=seed, engine=engine, threads=threads).model
    require_memory(
        chosen.memory(prepared),
        f"fitting {chosen.name} to {len(prepared):,} comparisons",
    )
    with blas_threads(thread_count(threads)):
        machine = choose_engine(engine, prepared, threads)
        if start is None:
            estimate = chosen.estimate(machine, progress)
        else:
            estimate = chosen.resume(machine, starting_point(start, comparisons, chosen), progress)
        estimate = voters(estimate, comparisons.n_workers)
        component = machine.component
        estimate = replace(estimate, scores=centre(estimate.scores, component))
        found = None if known is None else count_gold(estimate.scores, component, known)
        if found is not None and found.opposed and chosen.free_sign and not chosen.takes_gold:
            estimate, found = mirror(chosen, estimate), found.turned()
        order = table_order(estimate.scores, component)
        rank = ranks(estimate.scores, component, order)
        counted = tally(comparisons, rank, threads)
        result = _record(
            comparisons, chosen, estimate, Places(component, order, rank), counted, found,
            machine.passes, started, seed, thread_notes(threads),
        )  # fmt: skip
    if result.summary["sign_unsettled"]:
        note = next(each for each in result.warnings if "sign margin" in each)
        warnings.warn(note, SignWarning, stacklevel=2)
    if not result.converged:
        warnings.warn(result.warnings[-1], ConvergenceWarning, stacklevel=2)
    return result


def go_on(earlier: Fit, votes: Any, options: dict[str, Any]) -> Fit:
    """`Fit.update`: the old votes and new ones, from where the earlier fit ended."""
    if earlier.votes is None:
        raise RequestError(
            "a fit that was loaded does not hold its votes; fit all votes with start=FOLDER"
        )
    reading = ("columns", "workers", "sides", "features", "classes", "by", "threads")
    given = {name: options.pop(name) for name in reading if name in options}
    given = {"columns": None, "workers": True, "sides": None, "features": (), "classes": None,
             "threads": None, "by": earlier.votes.by, **given}  # fmt: skip
    new = votes if isinstance(votes, Comparisons) else read_votes(votes, **given)
    chosen = model(earlier.method, **earlier.parameters)
    return fit(earlier.votes.extended(new), chosen, start=earlier, threads=given["threads"],
               **options)  # fmt: skip


def read_votes(
    votes: Any,
    *,
    columns: Mapping[str, str] | None,
    workers: bool,
    sides: bool | None,
    features: Sequence[str],
    classes: Any,
    threads: int | None,
    by: str = "",
) -> Comparisons:
    """Read votes unless they are read already, and give every item its class."""
    asked = columns or not workers or sides is not None or features or by
    if isinstance(votes, Comparisons) and asked:
        raise RequestError(
            "columns, workers, sides, features and by are for reading; these votes are read already"
        )
    result = read(
        votes,
        columns=columns,
        workers=workers,
        sides=sides,
        features=features,
        by=by,
        threads=threads,
    )
    return result if classes is None else result.with_classes(_classes(result, classes))


def require_workers(chosen: Model, votes: Comparisons) -> None:
    """Refuse a method of workers for votes without workers."""
    if chosen.uses_workers and not votes.has_workers:
        raise RequestError(
            f"{chosen.name} learns who can be trusted and needs a worker for every vote; "
            "use method 'bt' for votes without workers"
        )


def _model(method: str | Model) -> Model:
    if isinstance(method, str):
        return model(method)
    if isinstance(method, Model):
        return method
    raise RequestError(f"method must be a name or a model, not {method!r}")


def _classes(votes: Comparisons, classes: Any) -> list[Any]:
    """The class of every item of the votes."""
    if isinstance(classes, Mapping):
        labels = np.empty(len(classes), dtype=object)
        labels[:] = list(classes)
        values = np.array(list(classes.values()), dtype=object)
        source = "classes"
    else:
        source, colon, column = str(classes).rpartition(":")
        if not colon or not source or not column:
            raise RequestError(f"classes are given as ITEMS.csv:COLUMN, not {classes!r}")
        labels, values = read_item_values(source, column, numeric=False)
    place = match_items(votes, labels)
    if (place < 0).any():
        missing = votes.items[place < 0]
        raise InputError(
            f"{len(missing)} of the {votes.n_items} items of the votes have no class here, for "
            f"example {missing[0]!r}; every item needs one",
            source=source,
        )
    return [values[row] for row in place]


class Places(NamedTuple):
    """Of every item its component, the order of the table, and its rank."""

    component: NDArray[np.uint32]
    order: NDArray[np.intp]
    rank: NDArray[np.int64]


def _record(
    votes: Comparisons,
    chosen: Model,
    estimate: Estimate,
    places: Places,
    counted: Tally,
    gold: Agreement | None,
    passes: float,
    started: float,
    seed: int,
    notes: list[str],
) -> Fit:
    component = places.component
    items = _items(votes, estimate, places, counted, seed)
    workers = _workers(votes, estimate, counted.agreement, gold is not None)
    n_components = int(component.max()) + 1
    notes = [
        *notes,
        *estimate.warnings,
        *island_note(n_components, int(votes.item_contexts.max(initial=0)) + 1),
        *one_way_notes(votes.items, counted.flags),
    ]
    margin, told = estimate.sign_margin, estimate.workers
    if margin is None and told.reliability is not None and told.reliability_sd is not None:
        margin = sign_margin(told.reliability - told.random_level, told.reliability_sd)
    unsettled: list[str] = []
    needed = None
    if gold is not None:
        notes.extend(gold_note(chosen.name, gold, chosen.free_sign))
    elif chosen.free_sign and margin is not None and votes.n_workers > 1 and estimate.scores.any():
        unsettled, needed = sign_note(
            float(workers["p_reliable"].sum()),
            float(workers["p_adversarial"].sum()),
            margin,
            _order_right(votes, estimate, counted.agreement, component, seed),
        )
        notes = unsettled + notes
    rule = estimate.rule
    if not rule.converged:
        notes.append(
            f"{chosen.name} did not converge in {rule.iterations} iterations: {rule.measure} "
            f"{rule.history[-1]:.3g}, tolerance {rule.tolerance:.3g}"
        )
    summary = {
        "method": chosen.name,
        "version": __version__,
        "items": votes.n_items,
        "workers": votes.n_workers if votes.has_workers else 0,
        "comparisons": len(votes),
        "votes": votes.total_weight,
        "components": n_components,
        "by": votes.by or None,
        "sides_known": votes.sides_known,
        "converged": rule.converged,
        "measure": rule.measure,
        "iterations": rule.iterations,
        "passes": round(passes, 2),
        "log_likelihood": estimate.log_likelihood,
        "mean_log_likelihood": estimate.log_likelihood / votes.total_weight,
        "evidence": estimate.evidence,
        "tie_rate": tie_rates(votes)[1],
        **estimate.details,
        "seconds": round(time.perf_counter() - started, 6),
        "sign_margin": margin,
        "sign_unsettled": bool(unsettled),
        "gold_needed": needed,
        "gold_agree": None if gold is None else gold.agree,
        "gold_disagree": None if gold is None else gold.disagree,
        "seed": seed,
        "warnings": notes,
    }
    return Fit(
        item_table=items,
        worker_table=workers,
        summary=summary,
        parameters=chosen.parameters(),
        trace=tuple(estimate.trace),
        backend=votes.backend,
        crowd=estimate.crowd,
        sites=_sites(estimate, places.order, votes.n_workers),
        votes=votes,
        posterior=Posterior(
            votes.items,
            _score_sd(estimate),
            estimate.covariance,
            estimate.workers.quantiles,
            estimate.points,
            estimate.in_context,
        ),
    )


def _score_sd(estimate: Estimate) -> NDArray[np.float64] | None:
    if estimate.score_sd is not None or estimate.covariance is None:
        return estimate.score_sd
    return np.sqrt(np.maximum(np.diag(estimate.covariance), 0.0))


def _order_right(
    votes: Comparisons,
    estimate: Estimate,
    agreed: NDArray[np.float64],
    component: NDArray[np.uint32],
    seed: int,
) -> float:
    """Probability that a pair is in the right order up to the sign.

    From the posterior of the scores; without one, the share of votes that agree with them.
    """
    sd = _score_sd(estimate)
    if sd is not None:
        return order_probability(estimate.scores, sd, estimate.covariance, component, seed)
    load = _loads(votes)
    share = float(np.average(np.nan_to_num(agreed, nan=0.5), weights=load))
    return max(share, 1.0 - share)


def _items(
    votes: Comparisons,
    estimate: Estimate,
    places: Places,
    counted: Tally,
    seed: int,
) -> Table:
    k, count = votes.n_items, counted.appearances
    sd = _score_sd(estimate)
    lower, upper = _limits(estimate.scores, sd)
    lower[count == 0] = upper[count == 0] = np.nan
    best = worst = np.full(k, np.nan)
    if sd is not None:
        root = None if estimate.precision is None else estimate.precision.root
        limits = rank_limits(estimate.scores, sd, root, places.component, seed)
        best, worst = (np.where(count > 0, limit, np.nan) for limit in limits)
    columns: dict[str, NDArray[Any]] = {
        **_labels(votes),
        "score": estimate.scores,
        "lower": lower,
        "upper": upper,
        "rank": places.rank,
        "rank_lower": _counts(best),
        "rank_upper": _counts(worst),
        "comparisons": _counts(count),
        "component": places.component.astype(np.int64) + 1,
    }
    if (counted.flags != "").any():
        columns["flag"] = counted.flags
    return Table({name: column[places.order] for name, column in columns.items()})


def _sites(estimate: Estimate, order: NDArray[np.intp], n_workers: int) -> VoteSites | None:
    """The sites with rows of the table for codes of items; gold is one more worker."""
    if estimate.sites is None:
        return None
    return recoded(estimate.sites, np.argsort(order), np.arange(n_workers + 1), n_workers + 1)


def _labels(votes: Comparisons) -> dict[str, NDArray[Any]]:
    """The columns that name an item: the context where there is one, and the label."""
    if not votes.by:
        return {"item": votes.items}
    context, item = (np.empty(votes.n_items, dtype=object) for _ in range(2))
    context[:], item[:] = zip(*votes.items, strict=True)
    return {votes.by: context, "item": item}


def _workers(
    votes: Comparisons, estimate: Estimate, agreed: NDArray[np.float64], sign_known: bool
) -> Table:
    m = votes.n_workers if votes.has_workers else 0
    told = estimate.workers
    nothing = np.full(m, np.nan)
    reliability = nothing if told.reliability is None else told.reliability
    lower, upper = _limits(reliability, told.reliability_sd)
    if told.reliability_lower is not None and told.reliability_upper is not None:
        lower, upper = told.reliability_lower, told.reliability_upper
    side = nothing if told.side_bias is None else told.side_bias
    side_lower, side_upper = _limits(side, told.side_sd)
    verdict, extra = np.full(m, "", dtype=object), dict(told.extra)
    if told.reliability is not None and told.reliability_sd is not None:
        level = told.random_level
        if told.quantiles is None:
            below = normal_distribution(reliability - level, told.reliability_sd)
        else:
            below = quantile_distribution(told.quantiles - level)
        judged = verdicts(reliability - level, below, sign_known)
        verdict = judged.words
        if told.one_sided is not None:
            verdict[told.one_sided >= 0.5] = "one-sided"
            extra["p_one_sided"] = told.one_sided
        extra |= {
            "p_reliable": judged.reliable,
            "p_random": judged.random,
            "p_adversarial": judged.adversarial,
        }
    if votes.has_workers and votes.ties_are_outcomes:
        extra["tie_rate"] = tie_rates(votes)[0]
    count = _loads(votes)
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
            "agreement": agreed[:m],
            "verdict": verdict,
            **extra,
        }
    )


def _loads(votes: Comparisons) -> NDArray[np.float64]:
    """The number of every worker's votes, weights counted."""
    if (votes.weight == 1.0).all():
        return np.diff(votes.offsets).astype(np.float64)
    starts = np.minimum(votes.offsets[:-1], len(votes) - 1)
    loads = np.add.reduceat(votes.weight, starts, dtype=np.float64)
    return np.where(np.diff(votes.offsets) > 0, loads, 0.0)


def _limits(
    centre: NDArray[np.float64], sd: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Limits of 90 % intervals."""
    half = np.full(len(centre), np.nan) if sd is None else Z90 * sd
    return centre - half, centre + half


def _counts(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as integers; anything else as it is."""
    small = np.isfinite(values).all() and (np.abs(values) < 2**53).all()
    if len(values) and small and (values == np.round(values)).all():
        return values.astype(np.int64)
    return values
