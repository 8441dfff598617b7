"""From votes to a `Fit`: reads, chooses the engine, runs the model, makes the record."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from crowdsift.engines import engine_choice, named_options, opened_engine
from crowdsift.io.item_features import with_item_features
from crowdsift.io.items import read_gold, with_classes
from crowdsift.io.options import ReadOptions
from crowdsift.models import DEFAULT, MODELS, Model, as_model, holdout
from crowdsift.models.unused import refuse_unused, refuse_votes
from crowdsift.numeric.arguments import whole_number, yes_or_no
from crowdsift.numeric.distributions import LEVEL
from crowdsift.numeric.threads import blas_threads, thread_count
from crowdsift.results import store
from crowdsift.results.build import fields_of
from crowdsift.results.checkpoint import checkpointed
from crowdsift.results.dependence import fields_of_rows
from crowdsift.results.estimated import estimated, prepared_votes, warn_of, with_gold_left_out
from crowdsift.results.featured import FeaturedRecord
from crowdsift.results.further import refitter, updated
from crowdsift.results.grouped import with_groups
from crowdsift.results.kept import MOST_VOTES
from crowdsift.results.overall import overall_fields
from crowdsift.results.rows import VoteRows, gathered, votes_for_fit
from crowdsift.results.scales import (
    checked_level,
    is_scaled,
    lacks_scale,
    require_anchors,
    unscaled_fields,
)
from crowdsift.results.start import opened_start
from crowdsift.votes.comparisons import Comparisons

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from crowdsift.report import Report
    from crowdsift.solvers.convergence import Progress

__all__ = ["Fit", "fit", "load"]


@dataclass(frozen=True, eq=False, repr=False)
class Fit(FeaturedRecord):
    """What was estimated from the votes, and how.

    Attributes
    ----------
    items, workers
        The tables of the result: item, score, lower, upper, rank, rank_lower, rank_upper,
        comparisons, component, before them the context where there is one, after them a flag
        (only won, only lost) where any item has one; and worker, reliability, lower, upper,
        side_bias, side_lower, side_upper, comparisons, agreement, verdict. Intervals are
        90 % unless `level` says otherwise. Data frames of the kind that the votes came in,
        otherwise a `Table`.
    overall
        The items over all contexts, in the columns of `items`; None without contexts, and where
        most items are in one of them only.
    summary
        Method, version, counts, convergence, likelihood, seconds and warnings.
    parameters
        The hyper-parameters of the method.
    population
        What was learned of workers in general, where a method learns it: a later fit can start
        from it, as `update` does.
    sites
        The site of every vote in expectation propagation, with the rows of `items` and `workers`
        for codes: with it a later fit needs few passes. None for other methods and beyond 2 million
        votes.
    trace
        The mean over votes of what the method maximises (log-likelihood, with the penalty where
        there is one), before the first and after every iteration.
    votes
        What was fitted; None for a loaded fit that did not keep its votes.
    gold
        The labels of the gold pairs that the fit was given, which updates use again; or None.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> fit = crowdsift.fit(votes, method="bora-em")
    >>> fit
    Fit(bora-em: 10 items, 8 workers, 800 votes; converged in ... iterations)
    >>> fit.items["rank"].tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """

    def update(self, votes: Any, **options: Any) -> Fit:
        """The fit of the old votes and further ones, from where this one ended.

        Parameters
        ----------
        votes
            The new votes alone: whatever `crowdsift.read` takes. New items and workers may come.
        options
            As for `crowdsift.fit`: columns, threads, gold, ... A file that was taken already, and
            one that holds most of the old votes, is refused unless `again` is True.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=300, seed=1).comparisons()
        >>> fit = crowdsift.fit(votes)
        >>> new = {"left": ["i1", "i2"], "right": ["i2", "i3"], "winner": ["left", "right"],
        ...        "worker": ["w1", "new"]}
        >>> fit.update(new).summary["votes"]
        302.0
        """
        return updated(self, votes, options, fit)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        votes: Comparisons | None = None,
        title: str | None = None,
        command: str | None = None,
        refit: bool | None = None,
        threads: int | None = None,
    ) -> Report:
        """One HTML page, complete in itself, for people who decide by this fit.

        Parameters
        ----------
        path
            Where to write it; None writes nothing. In a notebook the result shows itself.
        votes
            What was fitted; needed only where the fit was loaded.
        title
            What the votes are about; the name of their file by default.
        command
            What the page names as the way to make it again.
        refit
            Whether to fit twice more, for predictions of left-out votes and for the ranking
            without flagged workers. By default where each takes some seconds at most.
        threads
            How many threads the refits may use.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
        >>> report = crowdsift.fit(votes).report()
        >>> "Can you trust this?" in report.html
        True
        """
        from crowdsift.report import make_report

        made = make_report(self, votes, title=title, command=command, refit=refit, threads=threads)
        if path is not None:
            made.save(path)
        return made

    def _refitter(
        self, *, gold: Any, threads: int | None, warm: bool
    ) -> Callable[[Comparisons], Fit]:
        start = self if warm and self.population is not None else None
        return refitter(self, gold, threads, start, fit)

    def _repr_html_(self) -> str:
        """The display in a notebook."""
        from crowdsift.report.page import fit_html

        return fit_html(self)


def fit(
    votes: Any,
    method: str | Model = DEFAULT,
    *,
    classes: Any = None, gold: Any = None, start: Any = None,
    items: Any = None, item_text: Any = None, item_features_missing: str = "error",
    check_gold: bool = True, tune: bool = False,
    scale: str = "standard",
    anchor: Mapping[Any, float] | None = None,
    level: float = LEVEL,
    dependent_by: str | VoteRows | None = None,
    time_column: str | None = None,
    overall: bool = True,
    engine: str = "auto",
    engine_options: Mapping[str, Any] | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **reading: Any,
) -> Fit:  # fmt: skip
    """Fit a model to votes.

    Parameters
    ----------
    votes
        A file, a data frame, arrays or `Comparisons`: whatever `crowdsift.read` takes.
    method
        The name of a method, or a model with hyper-parameters of its own.
    classes
        The class of every item, for `barp`: a mapping, or "ITEMS.csv:column".
    items, item_text, item_features_missing
        Features of items, as "FILE:COLUMN,...", their texts; items without: error, mean or drop.
    start
        A `Fit` or the folder of a saved one, of the same method: go on from there, in a fraction
        of the passes. The votes are all votes, the old ones and the new. Its gold counts again.
    gold
        Pairs of items of which it is known which one is better: a file or frame with the columns
        winner and loser. They settle the sign of the scores where the method leaves it free.
    check_gold
        Whether to count how many gold pairs agree with scores found without them. Where gold is
        part of the fit (`sift`) this takes up to five more fits.
    tune
        Choose the method's penalty by left-out votes first.
    scale, anchor
        The scale of the scores, and the value that an item shall have on it; see `Fit.on_scale`.
    level
        The level of all intervals, above 0.5 and below 1.
    dependent_by
        A column of which equal values say that votes depend on each other, as those on one prompt
        do: intervals then count groups, not votes.
    time_column
        A column of times, for `drift` in the summary: whose reliability changed.
    overall
        Whether to rank items over all contexts, too, where votes have any (`by`); see `overall`.
    engine
        Where the arithmetic runs: "auto", "cpu", "torch", "dask", ... (docs/scale.md), with
        `engine_options` such as {"scheduler": "tcp://host:8786"} or {"device": "cuda:0"}.
    threads
        How many threads; all cores by default.
    seed
        For methods that draw random numbers, and for the votes left out by `tune`.
    progress
        Called once an iteration with its number and the measure of convergence.
    reading
        How to read the votes, as in `crowdsift.read`: columns, workers, sides, covariates, by, ...

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
    model, level = as_model(method), checked_level(level)
    seed, tune = whole_number("seed", seed), yes_or_no("tune", tune)
    options = ReadOptions.of(reading, threads)
    resources = {**named_options(engine_options), "memory": options.memory or None}
    checkpoint, (start, kept) = resources.pop("checkpoint", None), opened_start(start, gold)
    needs_rows = not model.by_worker or tune or any(x is not None for x in (classes, gold, kept))
    read, rows = votes_for_fit(votes, options, dependent_by, time_column, engine, resources,
                               needs_rows)  # fmt: skip
    comparisons = with_classes(read, classes)
    comparisons = with_item_features(comparisons, items, item_text, item_features_missing)
    refuse_unused(
        model, model.name in MODELS, covariates=bool(reading.get("covariates")), tune=tune,
        classes=classes is not None, items=items is not None or item_text is not None,
    )  # fmt: skip
    refuse_votes(model, comparisons, dependent=dependent_by is not None and gold is None)
    require_anchors(scale, anchor, comparisons.items.tolist(), bool(comparisons.by))
    known = read_gold(gold, comparisons, kept)
    started = time.perf_counter()
    if tune and model.tuned:
        model = holdout.tune(comparisons, model, seed=seed, engine=engine, threads=threads).model
    prepared = prepared_votes(model, comparisons, known)
    choice = engine_choice(engine, prepared, resources, model.needs, threads)
    open_engine = partial(opened_engine, engine, threads=threads, needs=model.needs,
                          options=resources)  # fmt: skip
    with blas_threads(1, dense=thread_count(threads)), open_engine(prepared) as opened:
        comparisons = gathered(comparisons, opened, MOST_VOTES)
        with checkpointed(checkpoint, choice.name, model, comparisons, known, progress) as saving:
            fitted = estimated(model, opened, comparisons, prepared, known, start, saving)
        fitted = replace(fitted, seed=seed, threads=threads, level=level, engine=choice)
        fitted = with_groups(fitted, rows, opened, open_engine, progress)
        fitted = with_gold_left_out(fitted, open_engine) if check_gold else fitted
        result = Fit(**fields_of(fitted, opened.passes, started))
    result = replace(result, **fields_of_rows(result, rows))
    if overall and comparisons.by:
        refit = partial(fit, method=model, level=level, engine=engine, threads=threads, seed=seed,
                        engine_options=engine_options, progress=progress)  # fmt: skip
        result = replace(result, **overall_fields(result, comparisons, known, refit))
    result = _scaled(result, scale, anchor) if is_scaled(scale, anchor) else result
    warn_of(result)
    return result


def _scaled(result: Fit, scale: str, anchor: Mapping[Any, float] | None) -> Fit:
    """Put a fit on a scale; where it has none, warn, since the fit itself is done."""
    whole = result.overall_ranking
    lacks = lacks_scale(result, scale) or ("" if whole is None else lacks_scale(whole, scale))
    if lacks:
        return replace(result, **unscaled_fields(result, lacks))
    return result.on_scale(scale, anchor)


def load(directory: str | os.PathLike[str]) -> Fit:
    """A fit that was saved.

    Examples
    --------
    >>> import crowdsift, tempfile
    >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crowdsift.fit(votes, method="bt").save(folder)
    ...     crowdsift.load(folder).items["item"].tolist()
    ['a', 'b']
    """
    return Fit(**vars(store.load(directory)))
