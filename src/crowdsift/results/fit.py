"""The record of a fit: what was estimated from the votes, and how.

`Fit` only describes. Methods that fit again, check or draw import what they need when they are called.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.models.covariance import ComponentCovariance, difference_variance
from crowdsift.numeric import Indices, Labels, Vector
from crowdsift.numeric.distributions import LEVEL, half_width
from crowdsift.results.query import is_sequence, positions
from crowdsift.results.tables import Table
from crowdsift.votes.labels import By, context_names

if TYPE_CHECKING:
    from crowdsift.checks.copying import Copying
    from crowdsift.checks.robustness import Robustness
    from crowdsift.checks.statistics import FitStatistics
    from crowdsift.io.items import GoldLabels
    from crowdsift.models.base import ContextPoints, SavedSites, WorkerPoints
    from crowdsift.models.diagnostics import Diagnostic
    from crowdsift.models.dimensions import DimensionEstimate
    from crowdsift.models.feature_weights import FeatureEstimate
    from crowdsift.report import Report
    from crowdsift.votes.comparisons import Comparisons
    from crowdsift.votes.source import Backend

_PRINTED = 5  # items
_WHERE_NEXT = "See .items, .workers, .summary; .better(a, b), .predict(a, b), .first_place(), .report(FILE)"


class Frames(NamedTuple):
    """The tables of a fit as data frames."""

    items: Any
    workers: Any


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a fit, beyond its tables; codes are those of the comparisons.

    Errors of scores count as independent if their covariances are unknown. `quantiles` of the reliabilities have one
    row per worker, of equal probability; without them only estimates are known. `points` represent the joint posterior
    of reliability, tie width and side bias. If workers differ by context, they are for a context without the worker's
    votes, and `in_context` is for the others. `dimensions` is set if there are several.
    """

    items: Labels
    sd: Vector | None = None
    covariances: ComponentCovariance | None = None
    quantiles: Vector | None = None
    points: WorkerPoints | None = None
    in_context: ContextPoints | None = None
    dimensions: DimensionEstimate | None = None

    def difference_sd(self, first: Indices, second: Indices) -> Vector | None:
        """Return standard deviations of differences of scores; None if unknown."""
        variance = difference_variance(self.covariances, self.sd, first, second)
        return None if variance is None else np.sqrt(variance)

    @property
    def covariance(self) -> Vector | None:
        """The covariance of the scores as one matrix, of few items."""
        return None if self.covariances is None else self.covariances.dense()


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """The result of a fit: estimates from the votes, and how they were made.

    Attributes
    ----------
    items, workers
        The tables of the result. `items` has item, score, lower, upper, rank, rank_lower, rank_upper, comparisons,
        component and se (the standard error: half an interval by the normal quantile of its level). A context comes
        first if there is one, and a flag (only won, only lost) last if any item has one. `workers` has worker,
        reliability, lower, upper, side_bias, side_lower, side_upper, comparisons, agreement and verdict. Intervals are
        90 % unless `level` says otherwise. Data frames of the kind that the votes came in, otherwise a `Table`.
    overall
        The items over all contexts, in the columns of `items`; None without contexts, or if most items are in only one
        context.
    summary
        Method, version, counts, convergence, likelihood, seconds and warnings.
    parameters
        The hyper-parameters of the method.
    population
        The learned distribution of workers, if the method has one; `update` starts from it.
    sites
        The site of every vote in expectation propagation, coded by rows of `items` and `workers`; with it a later fit
        needs few passes. None for other methods and for more than 2 million votes.
    trace
        The mean over votes of the method's objective (log-likelihood, with the penalty if there is one), before the
        first and after every iteration.
    votes
        The votes; None for a loaded fit that did not keep them.
    gold
        The labels of the gold pairs, which updates use again; None without gold.
    resources
        The engine and its options as given to `fit`; checks that fit again use the same. Empty for a loaded fit, whose
        checks choose an engine.

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

    item_table: Table
    worker_table: Table
    summary: dict[str, Any]
    parameters: dict[str, Any]
    trace: tuple[float, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    backend: Backend | None = None
    posterior: Posterior | None = None
    population: dict[str, Any] | None = None
    sites: SavedSites | None = None
    votes: Comparisons | None = None
    taken: tuple[str, ...] = ()  # fingerprints of the files of votes, after an update
    shown: Table | None = None  # the items on a scale other than the standard one
    features: FeatureEstimate | None = None  # what features of items say about their scores
    overall_ranking: Fit | None = None  # of items over all contexts
    coefficient_table: Table | None = None  # of workers, for covariates of votes
    panel_biases: Table | None = None  # of items, for panels other than the trusted one
    gold: GoldLabels | None = None  # the gold pairs given to the fit
    folder: str = ""  # the folder from which the fit was loaded
    resources: Mapping[str, Any] = field(default_factory=dict)  # engine and options, for refits

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return str(self.summary["method"])

    @property
    def converged(self) -> bool:
        """Return whether the method reached its tolerance."""
        return bool(self.summary["converged"])

    @property
    def level(self) -> float:
        """Return the level of the intervals."""
        return float(self.summary.get("level") or LEVEL)

    def __str__(self) -> str:
        """Return the text that `print` shows: convergence, best items, verdicts, warnings, next steps."""
        items, verdicts = self.shown_items, self.worker_table["verdict"]
        names = [*self.context_columns, "item", "score", "lower", "upper", "rank"]
        names = names if self.summary.get("has_common", True) else names[:-1]  # no ranking
        lines = [repr(self), repr(Table({name: items[name][:_PRINTED] for name in names}))]
        if items.height > _PRINTED:
            lines.append(f"... {items.height} rows")
        counts = [(int((verdicts == word).sum()), word) for word in dict.fromkeys(verdicts) if word]
        if counts:
            words = ", ".join(f"{count} {word}" for count, word in sorted(counts, reverse=True))
            lines.append(f"workers: {words}")
        lines += [f"warning: {note}" for note in self.warnings]
        lines.append(_WHERE_NEXT)
        return "\n".join(lines)

    @property
    def shown_items(self) -> Table:
        """Return the items on the scale of the fit; `item_table` has them on the method's scale."""
        table = self.item_table if self.shown is None else self.shown
        error = (table["upper"] - table["lower"]) / (2.0 * half_width(self.level))
        head = list(table)[: list(table).index("component") + 1]
        return Table({**{name: table[name] for name in head}, "se": error, **table})

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings."""
        return tuple(self.summary["warnings"])

    @property
    def labels(self) -> list[Any]:
        """Return the labels of the items, the best first; with contexts as (value, item).

        The value is a tuple where there are several context columns.
        """
        items: list[Any] = self.item_table["item"].tolist()
        values = [self.item_table[name].tolist() for name in self.context_columns]
        if not values:
            return items
        contexts = values[0] if len(values) == 1 else list(zip(*values, strict=True))
        return list(zip(contexts, items, strict=True))

    @property
    def by(self) -> By:
        """Return the column of contexts, a tuple of several columns, or "", as in the votes."""
        names = self.context_columns
        return names if len(names) > 1 else "".join(names)

    @property
    def context_columns(self) -> tuple[str, ...]:
        """Return the names of the context columns; empty if there are none."""
        return context_names(self.summary.get("by"))

    @property
    def items(self) -> Any:
        """Return the items, the best first, on the scale of the fit."""
        return self._native(self.shown_items)

    @property
    def overall(self) -> Any:
        """Return the items over all contexts, on the same scale; None if there is no such ranking."""
        whole = self.overall_ranking
        return None if whole is None else self._native(whole.shown_items)

    @property
    def coefficients(self) -> Any:
        """Return the coefficient of every covariate for every worker; None without covariates."""
        return None if self.coefficient_table is None else self._native(self.coefficient_table)

    @property
    def panel_bias(self) -> Any:
        """Return the bias of every panel for every item, in logits; None without a trusted panel."""
        return None if self.panel_biases is None else self._native(self.panel_biases)

    @property
    def panel_sentences(self) -> list[str]:
        """Return sentences on what a trusted panel implies for the fit; empty without one."""
        from crowdsift.results.panels import panel_sentences

        return panel_sentences(self)

    @property
    def workers(self) -> Any:
        """Return the workers, by label."""
        from crowdsift.results.reasons import with_reasons

        return self._native(with_reasons(self))

    def __repr__(self) -> str:
        s = self.summary
        if "votes" not in s:
            return f"Fit({self.method}: {self.item_table.height} items over all contexts)"
        how = "converged in" if self.converged else "NOT converged after"
        return (
            f"Fit({self.method}: {s['items']} items, {s['workers']} workers, {s['votes']:g} "
            f"votes; {how} {s['iterations']} iterations)"
        )

    def predict(self, first: Any, second: Any, worker: Any = None, *, unknown: str = "error") -> float | Vector:
        """Return the probability that a worker prefers `first` to `second`.

        Parameters
        ----------
        first, second
            A label each, or sequences of labels; items of different components are refused.
        worker
            A label or a sequence; None means a random worker: the mean over all workers. If workers have a posterior
            (of reliability, tie width and side bias), the probability is averaged over it. For an ideal worker, who
            always prefers the better item, use `better`. If workers are hidden, labels are hidden in the same way; with
            a key only pseudonyms are accepted.
        unknown
            "error" refuses items and workers without votes, by name. With "prior" such an item has the prior's score,
            0, and so has the mean of every component, so components can be compared; such a worker counts as a random
            one.

        Notes
        -----
        If ties are an outcome, this is the probability given that the vote is no tie. If workers have side biases, both
        placements of the items are equally likely.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
        >>> fit = crowdsift.fit(votes, method="bt")
        >>> round(fit.predict("a", "b"), 3)
        0.666
        """
        from crowdsift.results.predict import outcomes, question

        query = question(self, first, second, worker, unknown)
        win, _, loss = outcomes(self, query, decided=True)
        result = win / (win + loss)
        return float(result[0]) if query.single else result

    def predict_outcomes(self, first: Any, second: Any, worker: Any = None, *, unknown: str = "error") -> Any:
        """Return probabilities that a worker prefers `first`, calls a tie, or prefers `second`.

        The columns are win, tie and loss, one row per pair; the parameters are those of `predict`. A method with ties
        as a separate outcome gives its own probabilities. For other methods, which count a tie as half a win, the
        probability of a tie is the worker's `tie_rate` in the workers' table, and the rest is divided as `predict`
        says.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(
        ...     ["a", "a", "b"], ["b", "b", "a"], outcome=[1, 0.5, 0], worker=["x"] * 3)
        >>> result = crowdsift.fit(votes, method="bora-em").predict_outcomes("a", "b")
        >>> list(result), round(float(sum(result[name][0] for name in result)), 12)
        (['win', 'tie', 'loss'], 1.0)
        """
        from crowdsift.results.predict import outcomes, question

        result = outcomes(self, question(self, first, second, worker, unknown))
        return self._native(Table(dict(zip(("win", "tie", "loss"), result, strict=True))))

    def better(self, first: Any, second: Any) -> float | Vector:
        """Return the probability that `first` is truly better than `second`, given all votes.

        Unlike `predict` this is about the items, not about a vote: it goes to 0 or 1 as votes come in. Labels must be
        of one component; sequences of labels give an array. For a compared pair sift uses the likelihood of its votes
        exactly, and a Gaussian for all other votes.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
        >>> fit = crowdsift.fit(votes)
        >>> best, worst = fit.items["item"][0], fit.items["item"][-1]
        >>> fit.better(best, worst) > 0.99
        True
        """
        from crowdsift.results.predict import Pairs, better, differences, item_codes

        query = Pairs(*differences(self, first, second))
        result = better(self, item_codes(self), query)
        single = not is_sequence(first) and not is_sequence(second)
        return float(result[0]) if single else result

    def difference(self, first: Any, second: Any) -> Any:
        """Return how far `first` is above `second`, with an interval: difference, lower, upper.

        Labels must be of one component; sequences of labels give a row per pair. On the scales elo and logit the
        difference is in their units, else in those of the method.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
        >>> fit = crowdsift.fit(votes)
        >>> result = fit.difference(fit.labels[0], fit.labels[-1])
        >>> bool(0 < result["lower"][0] < result["difference"][0] < result["upper"][0])
        True
        """
        from crowdsift.results.predict import differences

        *_, difference, sd = differences(self, first, second)
        factor = float(self.summary.get("scale_factor") or 1.0)
        difference, half = factor * difference, factor * half_width(self.level) * sd
        return self._native(Table({"difference": difference, "lower": difference - half, "upper": difference + half}))

    def scores_of(self, items: Iterable[Any]) -> Vector:
        """Return the scores of items, in the order given; NaN for an item without votes."""
        padded = np.append(self.shown_items["score"], np.nan)
        return np.asarray(padded[positions(items, self.labels, missing=-1)])

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write items.csv, workers.csv, decisions.csv and summary.json; all of them or none.

        The votes and the posterior are saved as well, up to 2 million rows each, so that a loaded fit gives the same
        answers. For sift, population.json and sites.parquet let a later fit start from this one.

        Examples
        --------
        >>> import crowdsift, tempfile
        >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     crowdsift.fit(votes, method="bt").save(folder)
        ...     crowdsift.load(folder).method
        'bt'
        """
        from crowdsift.results.store import save

        save(self, directory)

    def to_pandas(self) -> Frames:
        """Return items and workers as frames of pandas."""
        return self._frames("pandas")

    def to_polars(self) -> Frames:
        """Return items and workers as frames of polars."""
        return self._frames("polars")

    def to_arrow(self) -> Frames:
        """Return items and workers as tables of PyArrow."""
        return self._frames("pyarrow")

    def hide_workers(self, key: str | os.PathLike[str] | None = None) -> Fit:
        """Return the same fit with stable pseudonyms in place of the labels of workers.

        A pseudonym is the same in every table, report and update. An update of the fit hides the workers of the new
        votes in the same way. To hide workers everywhere, including notes on reading and bad rows, read or fit with
        ``hide_workers=True``.

        Parameters
        ----------
        key
            The file of a secret key of at least 16 characters. Without a key, anybody with a list of labels can
            identify the workers; with one, only those who have the key.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["ann"])
        >>> crowdsift.fit(votes, "bt").hide_workers().workers["worker"].tolist()
        ['worker-f9fbcfa180d108c7a2a83516']
        """
        from crowdsift.results.hidden import hidden_fields

        return replace(self, **hidden_fields(self, key))

    def with_seconds(self, seconds: Mapping[Any, float]) -> Fit:
        """Return the fit with `median_seconds`, the median time of each worker's answers.

        Times are shown and written; they change no verdict.
        """
        times = [float(seconds.get(who, np.nan)) for who in self.worker_table["worker"].tolist()]
        column = np.array(times, dtype=np.float64)
        return replace(self, worker_table=Table({**self.worker_table, "median_seconds": column}))

    def decisions(self) -> Any:
        """Return for every worker whether to pay, review or block it, and why; see `decisions.csv`."""
        from crowdsift.results.reasons import decisions

        return self._native(decisions(self))

    def _frames(self, backend: Backend) -> Frames:
        tables = (self.shown_items, self.worker_table)
        return Frames(*(table.to_frame(backend) for table in tables))

    def to_json(self) -> dict[str, Any]:
        """Return summary, items, workers and, if there is one, `overall`, as lists and dictionaries."""
        result = {
            "summary": dict(self.summary),
            "items": _json_labels(self.shown_items.records(), "item", *self.context_columns),
            "workers": _json_labels(self.worker_table.records(), "worker"),
        }
        if (whole := self.overall_ranking) is not None:
            result["overall"] = _json_labels(whole.shown_items.records(), "item")
        return result

    def on_scale(self, scale: str, anchor: Mapping[Any, float] | None = None) -> Fit:
        """Return the same fit with its scores, and their intervals, on another scale.

        Predictions and ranks stay; tables, exports and the report follow.

        Parameters
        ----------
        scale
            "standard" (the method's own), "logit" (b·r with b the typical reliability, so that differences are log odds
            of a typical vote), "elo" (400/ln 10·b·r, mean 1000), or "winrate" (the share of wins against all others, of
            a typical worker).
        anchor
            The value that an item shall have, as ``{"gpt-4": 1200}``.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"] * 10 + ["b"], ["b"] * 10 + ["a"])
        >>> fit = crowdsift.fit(votes, method="bt").on_scale("elo", {"b": 1000})
        >>> fit.items["score"].round().tolist()
        [1398.0, 1000.0]
        """
        from crowdsift.results.scales import scaled_fields

        whole = self.overall_ranking
        if whole is not None:
            whole = replace(whole, **scaled_fields(whole, scale, anchor))
        return replace(self, overall_ranking=whole, **scaled_fields(self, scale, anchor))

    def leaderboard(self, form: str = "markdown") -> str:
        """Return the items as a table for a page or a paper: "markdown", "latex" or "csv".

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"] * 3 + ["b"], ["b"] * 3 + ["a"])
        >>> print(crowdsift.fit(votes, method="bt").leaderboard())
        | rank | item | score | 90 % interval | ranks | votes |
        | --: | :-- | --: | --: | --: | --: |
        | 1 | a | 0.546 | -0.399 to 1.490 | 1 to 2 | 4 |
        | 2 | b | -0.546 | -1.490 to 0.399 | 1 to 2 | 4 |
        <BLANKLINE>
        """
        from crowdsift.results.leaderboard import leaderboard

        return leaderboard(self, form)

    def joint(self, level: float | None = None, top: int = 3) -> Any:
        """Return statements about all items at once that hold together at one level.

        One row per item, the best first within its component. Columns `lower` and `upper` are simultaneous intervals,
        which hold for all items together. Columns `p_best` and `p_top_3` are the probabilities of being the best and
        among the best three. Column `shares_first` says whether no other item is clearly better; the best item is among
        these at the level. Column `above_next` says whether the item is clearly better than the next; all these
        statements hold together at the level.

        Parameters
        ----------
        level
            That of the fit by default.
        top
            How many items are the best in `p_top_...`.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=6, workers=8, comparisons=900, seed=3).comparisons()
        >>> found = crowdsift.fit(votes, "bt").joint()
        >>> bool(found["shares_first"][0]), round(float(found["p_best"].sum()), 6)
        (True, 1.0)
        """
        from crowdsift.checks.joint import joint_table

        return self._native(joint_table(self, level, top))

    def first_place(self, level: float | None = None) -> list[list[Any]]:
        """Return the items that share first place, a list for every component.

        The item that is truly the best is among them with the probability `level`.

        Examples
        --------
        >>> import crowdsift
        >>> wins = {("a", "b"): 30, ("b", "a"): 20, ("a", "c"): 45, ("c", "a"): 5}
        >>> first, second = zip(*wins)
        >>> votes = crowdsift.Comparisons.from_arrays(first, second, weight=list(wins.values()))
        >>> crowdsift.fit(votes, "bt").first_place()
        [['a', 'b']]
        """
        from crowdsift.checks.joint import first_place

        return first_place(self, level)

    def win_matrix(self) -> Any:
        """Return the probability that a random worker prefers the row's item to the column's.

        Rows and columns are those of `items`, entries are those of `predict`, and NaN between components. The result is
        an array. For votes from a data frame it is a frame with labels: those of rows are in its index (pandas), or in
        the column item.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
        >>> crowdsift.fit(votes, method="bt").win_matrix().round(3)
        array([[0.5  , 0.666],
               [0.334, 0.5  ]])
        """
        from crowdsift.checks.joint import win_matrix

        found = win_matrix(self)
        if self.backend is None:
            return found
        from crowdsift.results.words import item_label

        names = [item_label(label, self.by) for label in self.labels]
        columns = {name: found[:, place].copy() for place, name in enumerate(names)}
        table = Table({"item": np.array(names, dtype=object), **columns})
        frame = self._native(table)
        return frame.set_index("item") if self.backend == "pandas" else frame

    def _native(self, table: Table) -> Any:
        return table.in_backend(self.backend)

    def robustness(self, *, neighbours: bool = False, gold: Any = None, threads: int | None = None) -> Robustness:
        """Find the fewest votes, and workers, whose removal changes the leader.

        Candidates are found by influence and verified by fitting the remaining votes, starting from this fit if the
        method can. Every number is an upper bound.

        Parameters
        ----------
        neighbours
            Whether every pair of neighbours is searched as well.
        gold
            Pairs of known order; by default those that this fit was given.
        threads
            How many threads the fits may use.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"] * 9 + ["b"] * 6, ["b"] * 9 + ["a"] * 6)
        >>> print(crowdsift.fit(votes, "bt").robustness())
        Without at most 4 of the 15 votes b would be above a
        """
        from crowdsift.checks.robustness import robustness

        gold = self.gold if gold is None else gold
        return robustness(self, neighbours=neighbours, gold=gold, threads=threads)

    def statistics(self, *, halves: int = 0, gold: Any = None, threads: int | None = None) -> FitStatistics:
        """Return separation, agreement, misfitting workers and items, intransitive triads.

        Parameters
        ----------
        halves
            How often the workers are halved for the split-half reliability, two fits each.
        gold, threads
            For these fits: pairs of known order, by default those that this fit was given, and how many threads.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=9, workers=8, comparisons=800, seed=3).comparisons()
        >>> found = crowdsift.fit(votes, "bt").statistics()
        >>> 0.8 < found.separation.reliability < 1
        True
        """
        from crowdsift.checks.statistics import fit_statistics

        gold = self.gold if gold is None else gold
        found = fit_statistics(self, halves, gold=gold, threads=threads)
        tables = (self._native(found.items), self._native(found.workers))
        return replace(found, items=tables[0], workers=tables[1])

    def copying(self) -> Copying:
        """Return workers whose answers agree too often to be independent, and those who repeat themselves.

        Agreement on the same pairs of items is compared with the agreement that scores and reliabilities explain, and
        with that of all workers beyond this. With a probability of 99 % no worker is named by chance.

        Examples
        --------
        >>> import crowdsift
        >>> drawn = crowdsift.simulate(items=9, workers=8, comparisons=900, seed=3)
        >>> crowdsift.fit(drawn.comparisons()).copying().groups
        ()
        """
        from crowdsift.checks.copying import copying

        return copying(self)

    def with_robustness(self, **options: Any) -> Fit:
        """Return the fit with the results of `robustness`, which has the same options."""
        found = self.robustness(**options)
        text = {**found.to_json(), "text": str(found)}
        return replace(self, summary={**self.summary, "robustness": text})

    def with_statistics(self, **options: Any) -> Fit:
        """Return the fit with the results of `statistics` in its summary and its tables.

        The tables of items and workers get infit and outfit with their limits, the standard score of the infit and
        misfit, which is 0 or 1. The options are those of `statistics`.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"] * 9 + ["b"] * 6, ["b"] * 9 + ["a"] * 6)
        >>> fit = crowdsift.fit(votes, "bt").with_statistics()
        >>> round(fit.summary["statistics"]["alpha"], 3)
        0.006
        """
        found = replace(self, backend=None).statistics(**options)
        items, workers = (
            {name: each[name] + 0 for name in each if name not in ("item", "worker")}
            for each in (found.items, found.workers)
        )
        return replace(
            self,
            item_table=Table({**self.item_table, **items}),
            shown=None if self.shown is None else Table({**self.shown, **items}),
            worker_table=Table({**self.worker_table, **workers}),
            summary={**self.summary, "statistics": found.to_json()},
        )

    def score(self, items: Any) -> Any:
        """Return the scores of items by their features alone; the items may have no votes.

        Columns item, score, lower and upper, on the method's own scale; 0 is the mean of the fitted items. An interval
        includes the uncertainty of the weights and the part of a score that features do not explain.

        Parameters
        ----------
        items
            A table as it was given to `fit`, with the same columns; where features were one block of numbers also a
            matrix with one row per item.

        Examples
        --------
        >>> import crowdsift, numpy as np
        >>> drawn = crowdsift.simulate(items=60, workers=20, comparisons=4000, seed=1)
        >>> table = {"item": drawn.items, "x": drawn.scores, "y": -drawn.scores**3}
        >>> fit = crowdsift.fit(drawn.comparisons(), items=table)
        >>> found = fit.score({"item": ["new", "other"], "x": [1.0, -1.0], "y": [-1.0, 1.0]})
        >>> bool(found["score"][0] > found["score"][1])
        True
        """
        from crowdsift.results.feature_table import score_items

        return self._native(score_items(self.features, items, self.level))

    def feature_weights(self) -> Any:
        """Return the weights of features with intervals: score = Σ weight·(x - mean)/scale.

        Columns block, feature, weight, lower, upper, mean and scale; empty where features have no part in the scores.
        Without n-grams of texts, which mean nothing one by one.
        """
        from crowdsift.results.feature_table import weight_table

        return self._native(weight_table(self._required_features(), self.level))

    def save_head(self, path: str | os.PathLike[str]) -> None:
        """Write the linear head (weight, weight_sd, mean, scale, names) as a safetensors file."""
        from crowdsift.io.files import replace_file
        from crowdsift.results.feature_table import head_bytes

        content = head_bytes(self._required_features())
        with replace_file(Path(path)) as temporary:
            temporary.write_bytes(content)

    def _required_features(self) -> FeatureEstimate:
        if self.features is None:
            raise RequestError("this fit has no features of items that explain scores")
        return self.features

    def update(self, votes: Any, **options: Any) -> Fit:
        """Return a fit of the old and new votes together, starting from this fit.

        Parameters
        ----------
        votes
            The new votes alone: anything that `crowdsift.read` takes. New items and workers may come.
        options
            As for `crowdsift.fit`: columns, threads, gold, ... A file that was taken already, and one that holds most
            of the old votes, is refused unless `again` is True.

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
        from crowdsift.fitting.refit import updated

        return updated(self, votes, options)

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
        """Return the report, one self-contained HTML page for people who decide by this fit.

        Parameters
        ----------
        path
            The file to write; None writes nothing. A notebook displays the result.
        votes
            The votes; needed only for a loaded fit that did not keep them.
        title
            The subject of the votes; the name of their file by default.
        command
            The command that the page shows for making it again.
        refit
            Whether to fit twice more, for predictions of left-out votes and for the ranking without flagged workers. By
            default they run if each takes a few seconds at most.
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

    def _repr_html_(self) -> str:
        from crowdsift.report.page import fit_html

        return fit_html(self)


def ranking_of(items: Table, summary: dict[str, Any], parameters: dict[str, Any]) -> Fit:
    """Return a fit that has only a table of items, to which scales can be applied."""
    nobody = {name: np.empty(0) for name in ("worker", "reliability", "comparisons")}
    return Fit(items, Table(nobody), summary, parameters)


def _json_labels(records: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Return labels as text if JSON has no type for them (dates, tuples, infinity)."""
    for record in records:
        for kind in kinds:
            label = record[kind]
            finite = not isinstance(label, float) or isfinite(label)
            if not isinstance(label, str | int | float | bool | None) or not finite:
                record[kind] = str(label)
    return records
