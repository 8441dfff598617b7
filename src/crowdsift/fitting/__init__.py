"""From votes to a `Fit`: read the votes, estimate the model, make the record."""

import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from crowdsift.engines import named_options
from crowdsift.errors import ConvergenceWarning, SignWarning
from crowdsift.fitting.estimate import Resources, estimate_model, gold_left_out, open_votes, settled, with_groups
from crowdsift.fitting.rows import (
    WITHOUT_WORKERS,
    VoteRows,
    gathered,
    read_rows,
    refuse_shared,
    refuse_unused,
    refuse_votes,
    trusted_values,
    votes_for_fit,
    with_pooling,
    with_trusted,
)
from crowdsift.io.items import Gold, GoldLabels, read_gold, with_classes, with_item_features
from crowdsift.io.options import ReadOptions
from crowdsift.models import DEFAULT, MODELS, Estimate, Model, as_model
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.numeric.distributions import LEVEL
from crowdsift.numeric.threads import whole_number, yes_or_no
from crowdsift.results.build import FitBuilder
from crowdsift.results.fit import Fit, ranking_of
from crowdsift.results.scales import (
    checked_level,
    is_scaled,
    lacks_scale,
    require_anchors,
    typical_reliability,
    unscaled_fields,
)
from crowdsift.results.sign import MAX_CHECKED_VOTES
from crowdsift.results.store import MOST_VOTES
from crowdsift.solvers.convergence import Progress
from crowdsift.votes.comparisons import Comparisons

__all__ = [
    "Fit",
    "Progress",
    "Resources",
    "VoteRows",
    "fit",
    "load",
    "read_rows",
    "refuse_shared",
    "refuse_unused",
    "votes_for_fit",
]

_NO_WORKERS = f"the votes have no workers, so the method is {WITHOUT_WORKERS}, which needs none"
# Entries of the summary about the ranking over all contexts.
_ABOUT_OVERALL = (
    *("items", "components", "converged", "iterations"),
    *("log_likelihood", "mean_log_likelihood", "evidence", "seconds"),
)


def fit(
    votes: Any,
    method: str | Model | None = None,
    *,
    classes: Any = None,
    gold: Any = None,
    start: Any = None,
    items: Any = None,
    item_text: Any = None,
    item_features_missing: str = "error",
    check_gold: bool = True,
    tune: bool = False,
    dimensions: int | str | None = None,
    scale: str = "standard",
    anchor: Mapping[Any, float] | None = None,
    level: float = LEVEL,
    dependent_by: str | VoteRows | None = None,
    time_column: str | None = None,
    overall: bool = True,
    pooling: str | None = None,
    trusted: Mapping[str, Any] | None = None,
    engine: str = "auto",
    engine_options: Mapping[str, Any] | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **reading: Any,
) -> Fit:
    """Fit a model to votes.

    Parameters
    ----------
    votes
        A file, a data frame, arrays or `Comparisons`: anything that `crowdsift.read` takes.
    method
        The name of a method, or a model with its hyper-parameters. By default sift, or bt (with a warning) if votes
        have no worker.
    classes
        The class of every item, for `barp`: a mapping, or "ITEMS.csv:column".
    items, item_text, item_features_missing
        Features of items, as "FILE:COLUMN,...", and their texts; for items without any: error, mean or drop.
    start
        A `Fit` or the folder of a saved one, with the same method, from which this fit continues in fewer passes.
        `votes` are then all votes, old and new. Its gold counts again.
    gold
        Pairs of items with a known better one: a file or frame with the columns winner and loser. They determine the
        sign of the scores if the method leaves it open.
    check_gold
        Whether to count how many gold pairs agree with scores found without them. Where gold is part of the fit
        (`sift`) this takes up to five more fits, and is left out for more than 1,000,000 votes.
    tune
        Choose the method's penalty by left-out votes first.
    dimensions
        How many dimensions `sift` has: a number, or "auto" (its default), which takes more than one only if left-out
        votes are predicted better. See docs/dimensions.md.
    scale, anchor
        The scale of the scores, and a value for an item on it; see `Fit.on_scale`.
    level
        The level of all intervals, above 0.5 and below 1.
    dependent_by
        A column whose equal values mark dependent votes, such as those on one prompt: intervals then count groups, not
        votes.
    time_column
        A column of times, for `drift` in the summary: workers whose reliability changed.
    overall
        Whether to rank items over all contexts as well, if votes have contexts (`by`); see `overall`.
    pooling
        How contexts (`by`) that share items learn from each other in sift: "auto" as much as the votes imply, "none"
        not at all, "complete" as one context.
    trusted
        The column and the value or values of the panel whose ranking is wanted, such as {"panel": "human"}; votes of
        other panels count according to their biases (sift).
    engine
        Where the arithmetic runs: "auto", "cpu", "torch", "dask", ... (docs/scale.md), with `engine_options` such as
        {"scheduler": "tcp://host:8786"} or {"device": "cuda:0"}.
    threads
        How many threads; all cores by default.
    seed
        For methods that draw random numbers, and for the votes left out by `tune`.
    progress
        Called once per iteration with its number and the measure of convergence.
    reading
        How to read the votes, as in `crowdsift.read`: columns, workers, sides, covariates, by, ...

    Returns
    -------
    Fit
        The result. It warns with `ConvergenceWarning` if it did not converge, and with `SignWarning` if neither the
        workers nor gold determine the sign of the scores.

    Examples
    --------
    >>> import crowdsift
    >>> votes = {"winner": ["a", "b", "a"], "loser": ["b", "c", "c"], "worker": ["x", "y", "x"]}
    >>> fit = crowdsift.fit(votes, method="bt")
    >>> fit.items["item"].tolist()
    ['a', 'b', 'c']
    """
    seed, tune, level = whole_number("seed", seed), yes_or_no("tune", tune), checked_level(level)
    model = as_model(DEFAULT if method is None else method, dimensions)
    options, given = ReadOptions.of(reading, threads), named_options(engine_options)
    checkpoint = given.pop("checkpoint", None)
    given |= named_options({"memory": options.memory or None})
    resources = Resources(engine, given, threads)
    start, kept = _opened_start(start, gold)
    needs_rows = not model.by_worker or tune or any(x is not None for x in (classes, gold, kept))
    groups = trusted_values(trusted)[0] or None if dependent_by is None else dependent_by
    read, rows = votes_for_fit(votes, options, groups, time_column, resources, needs_rows)
    refuse_shared(model, pooling, trusted, bool(read.by))
    read, rows = with_trusted(read, rows, trusted)
    comparisons = with_classes(read, classes)
    comparisons = with_item_features(comparisons, items, item_text, item_features_missing)
    require_anchors(scale, anchor, comparisons.items.tolist(), bool(comparisons.by))
    without_workers = method is None and not comparisons.has_workers
    if without_workers:
        model = as_model(WITHOUT_WORKERS, dimensions)
    model = with_pooling(model, pooling, comparisons)
    refuse_unused(
        model,
        model.name in MODELS,
        covariates=bool(reading.get("covariates")),
        tune=tune,
        classes=classes is not None,
        items=items is not None or item_text is not None,
    )
    dependent = rows is not None and rows.group is not None and gold is None
    refuse_votes(model, comparisons, dependent=dependent)
    known = read_gold(gold, comparisons, kept)
    started = time.perf_counter()
    if tune and model.tuned:
        from crowdsift.fitting.holdout import tuned

        model = tuned(comparisons, model, resources, seed=seed).model
    result, common = _fitted(
        model, comparisons, known, start, rows, resources, level, seed, checkpoint, progress, started, check_gold
    )
    if rows is not None:
        from crowdsift.checks.dependence import fields_of_rows

        result = replace(result, **fields_of_rows(result, rows))
    if overall and comparisons.by:
        result = _with_overall(result, comparisons, known, model, resources, common, progress)
    if without_workers:
        result = with_notes(result, [Diagnostic(Kind.METHOD, _NO_WORKERS)])
    if is_scaled(scale, anchor):
        result = _scaled(result, scale, anchor)
    _warn(result)
    return result


def _opened_start(start: Any, gold: Any) -> tuple[Any, GoldLabels | None]:
    """Return the earlier fit, or the folder of its checkpoint, with its gold."""
    if start is None:
        return None, None
    from crowdsift.fitting.start import opened_start

    return opened_start(start, gold)


def _fitted(
    model: Model,
    votes: Comparisons,
    gold: Gold | None,
    start: Any,
    rows: VoteRows | None,
    resources: Resources,
    level: float,
    seed: int,
    checkpoint: Any,
    progress: Progress | None,
    started: float,
    check_gold: bool,
) -> tuple[Fit, Estimate | None]:
    # If contexts are pooled, also return the estimate of the common scores.
    with open_votes(model, votes, resources, gold) as opened:
        opened = opened._replace(votes=gathered(votes, opened.engine, MOST_VOTES))
        saving: Any = nullcontext(progress)
        if checkpoint is not None or opened.choice.name == "dask":  # the cluster may be lost
            from crowdsift.fitting.start import checkpointed

            saving = checkpointed(checkpoint, model, opened.votes, gold, progress)
        with saving as kept:
            found, agreed = settled(opened, estimate_model(opened, start, kept))
            found = replace(
                found, details={**found.details, **opened.cuts}, diagnostics=(*found.diagnostics, *opened.notes)
            )
        check_gold = check_gold and len(opened.votes) <= MAX_CHECKED_VOTES
        if check_gold and gold is not None and model.takes_gold:
            agreed = gold_left_out(opened, resources)
        found = with_groups(opened, found, rows, resources, progress)
        builder = FitBuilder(
            opened.votes,
            model,
            found,
            agreed,
            level=level,
            seed=seed,
            threads=resources.threads,
            engine=opened.choice,
            tally=opened.engine.counts.tally,
            known=gold,
            resources={"engine": resources.engine, "engine_options": resources.options},
        )
        return builder.build(opened.engine.passes, started), found.common


def _with_overall(
    result: Fit,
    votes: Comparisons,
    gold: Gold | None,
    model: Model,
    resources: Resources,
    common: Estimate | None,
    progress: Progress | None,
) -> Fit:
    # If contexts are pooled it is that of their `common` scores, otherwise another fit. There is none if most items are
    # in only one context, or if items have features, whose weights are learned by context.
    from crowdsift.votes.contexts import without_contexts

    found = None if votes.item_features is not None else without_contexts(votes)
    if found is None:
        return result
    whole, place = found
    seed = int(result.summary["seed"])
    if common is not None:
        choice = result.summary["engine"], result.summary["engine_reason"]
        builder = FitBuilder(
            whole, model, common, level=result.level, seed=seed, threads=resources.threads, engine=choice
        )
        made = builder.build(0.0, time.perf_counter())
    else:
        with without_warnings():
            made = fit(
                whole,
                model,
                gold=None if gold is None else _merged(gold, place),
                level=result.level,
                engine=resources.engine,
                engine_options=resources.options,
                threads=resources.threads,
                seed=seed,
                progress=progress,
            )
    notes = [
        Diagnostic(each.kind, f"overall ranking: {each.message}")
        for each in made.diagnostics
        if each.kind in (Kind.CONVERGENCE, Kind.SIGN)
    ]
    about = {name: made.summary.get(name) for name in _ABOUT_OVERALL}
    known = ("method", "level", "scale", "seed", "components", "converged", "warnings")
    summary = {name: made.summary[name] for name in known}
    typical = typical_reliability(made)
    summary["typical_reliability"] = typical if np.isfinite(typical) else None
    result = replace(
        result,
        overall_ranking=ranking_of(made.item_table, summary, made.parameters),
        summary={**result.summary, "overall": about},
    )
    return with_notes(result, notes)


def with_notes(result: Fit, notes: Sequence[Diagnostic]) -> Fit:
    """Return a fit with further diagnostics among its warnings."""
    messages = [*result.summary["warnings"], *(each.message for each in notes)]
    return replace(result, summary={**result.summary, "warnings": messages}, diagnostics=(*result.diagnostics, *notes))


def _merged(gold: Gold, place: np.ndarray[Any, np.dtype[np.uint32]]) -> Gold | None:
    """Return gold without contexts; pairs on which contexts contradict each other are left out."""
    pairs = {(int(place[a]), int(place[b])) for a, b in zip(gold.winner, gold.loser, strict=True)}
    kept = sorted(pair for pair in pairs if pair[::-1] not in pairs)
    if not kept:
        return None
    winner, loser = np.array(kept, np.uint32).T
    return replace(gold, winner=winner.copy(), loser=loser.copy())


def _scaled(result: Fit, scale: str, anchor: Mapping[Any, float] | None) -> Fit:
    whole = result.overall_ranking
    lacks = lacks_scale(result, scale) or ("" if whole is None else lacks_scale(whole, scale))
    return replace(result, **unscaled_fields(result, lacks)) if lacks else result.on_scale(scale, anchor)


def _warn(result: Fit) -> None:
    whole = result.overall_ranking
    done = result.converged and (whole is None or whole.converged)
    for each in result.diagnostics:
        if each.kind is Kind.SIGN:
            warnings.warn(each.message, SignWarning, stacklevel=3)
        elif each.kind is Kind.CONVERGENCE and not done:
            warnings.warn(each.message, ConvergenceWarning, stacklevel=3)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence the warnings of fits within fits."""
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, SignWarning):
            warnings.simplefilter("ignore", kind)
        yield


def load(directory: str | os.PathLike[str]) -> Fit:
    """Return a fit that was saved.

    Examples
    --------
    >>> import crowdsift, tempfile
    >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crowdsift.fit(votes, method="bt").save(folder)
    ...     crowdsift.load(folder).items["item"].tolist()
    ['a', 'b']
    """
    from crowdsift.results import store

    return store.load(directory)
