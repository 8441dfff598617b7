"""The record of a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from crowdsift.numeric.distributions import half_width
from crowdsift.results.compared import Pairs, better
from crowdsift.results.data import FitData
from crowdsift.results.decisions import decisions
from crowdsift.results.hidden import hidden_fields
from crowdsift.results.joint import first_place, joint_table, win_matrix
from crowdsift.results.leaderboard import leaderboard
from crowdsift.results.predict import differences, item_codes, outcomes, question
from crowdsift.results.query import is_sequence, positions
from crowdsift.results.scales import scaled_fields
from crowdsift.results.store import save
from crowdsift.results.tables import Table

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from crowdsift.votes.source import Backend

__all__ = ["FitRecord", "Frames"]


class Frames(NamedTuple):
    """The tables of a fit as data frames."""

    items: Any
    workers: Any


@dataclass(frozen=True, eq=False)
class FitRecord(FitData):
    """A fit as a record: its tables, its predictions, and how it is saved; see `crowdsift.Fit`."""

    @property
    def items(self) -> Any:
        """The items, the best first, on the scale of the fit."""
        return self._native(self.shown_items)

    @property
    def overall(self) -> Any:
        """The items over all contexts, on the same scale; None where there is no such ranking."""
        whole = self.overall_ranking
        return None if whole is None else self._native(whole.shown_items)

    @property
    def workers(self) -> Any:
        """The workers, by label."""
        return self._native(self.worker_table)

    def __repr__(self) -> str:
        s = self.summary
        how = "converged in" if self.converged else "NOT converged after"
        return (
            f"Fit({self.method}: {s['items']} items, {s['workers']} workers, {s['votes']:g} votes; "
            f"{how} {s['iterations']} iterations)"
        )

    def predict(
        self, first: Any, second: Any, worker: Any = None, *, unknown: str = "error"
    ) -> float | NDArray[np.float64]:
        """Probability that a worker prefers `first` to `second`.

        Parameters
        ----------
        first, second
            A label each, or sequences of labels; items of different components are refused.
        worker
            A label or a sequence; None means one drawn from the crowd: the mean over all workers.
            Where workers have a posterior (of reliability, tie width and side bias) it is averaged
            over. For an ideal worker, who sees what is truly better, ask `better`.
        unknown
            "error" refuses items and workers without votes, by name; with "prior" such an item has
            the prior's score, 0, as has the mean of every component, so that components are
            compared, too; such a worker is one drawn from the crowd.

        Notes
        -----
        Where a tie is an outcome this is the probability given that the worker decides. Where
        workers have side biases, either item may stand on either side.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
        >>> fit = crowdsift.fit(votes, method="bt")
        >>> round(fit.predict("a", "b"), 3)
        0.666
        """
        query = question(self, first, second, worker, unknown)
        win, _, loss = outcomes(self, query, decided=True)
        result = win / (win + loss)
        return float(result[0]) if query.single else result

    def predict_outcomes(
        self, first: Any, second: Any, worker: Any = None, *, unknown: str = "error"
    ) -> Table:
        """Probabilities that a worker prefers `first`, calls a tie, or prefers `second`.

        The columns are win, tie and loss, one row per pair; what may be asked is as in `predict`.
        A method for which a tie is an outcome of its own gives its own probabilities. For the
        others, where it counts as half a win, the tie has the rate of the worker (`tie_rate` in
        the workers' table), and the rest is shared as `predict` says.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(
        ...     ["a", "a", "b"], ["b", "b", "a"], outcome=[1, 0.5, 0], worker=["x"] * 3)
        >>> result = crowdsift.fit(votes, method="bora-em").predict_outcomes("a", "b")
        >>> list(result), round(float(sum(result[name][0] for name in result)), 12)
        (['win', 'tie', 'loss'], 1.0)
        """
        result = outcomes(self, question(self, first, second, worker, unknown))
        return Table(dict(zip(("win", "tie", "loss"), result, strict=True)))

    def better(self, first: Any, second: Any) -> float | NDArray[np.float64]:
        """Probability that `first` is truly better than `second`, given all votes.

        Unlike `predict` this is about the items, not about a vote: it goes to 0 or 1 as votes
        come in. Labels must be of one component; sequences of labels give an array. Of items that
        were compared with each other sift takes these votes as they are, the others as a Gaussian.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
        >>> fit = crowdsift.fit(votes)
        >>> best, worst = fit.items["item"][0], fit.items["item"][-1]
        >>> fit.better(best, worst) > 0.99
        True
        """
        query = Pairs(*differences(self, first, second))
        result = better(self, item_codes(self), query)
        single = not is_sequence(first) and not is_sequence(second)
        return float(result[0]) if single else result

    def difference(self, first: Any, second: Any) -> Table:
        """How far `first` is above `second`, with an interval: difference, lower, upper.

        Labels must be of one component; sequences of labels give a row per pair. On the scales
        elo and logit the difference is in their units, else in those of the method.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
        >>> fit = crowdsift.fit(votes)
        >>> result = fit.difference(fit.labels[0], fit.labels[-1])
        >>> bool(0 < result["lower"][0] < result["difference"][0] < result["upper"][0])
        True
        """
        *_, difference, sd = differences(self, first, second)
        factor = float(self.summary.get("scale_factor") or 1.0)
        difference, half = factor * difference, factor * half_width(self.level) * sd
        return Table(
            {"difference": difference, "lower": difference - half, "upper": difference + half}
        )

    def scores_of(self, items: Iterable[Any]) -> NDArray[np.float64]:
        """The scores of items, in the order given; NaN for an item without votes.

        Examples
        --------
        >>> import crowdsift
        >>> fit = crowdsift.fit(crowdsift.Comparisons.from_arrays(["a"], ["b"]), "bt")
        >>> fit.scores_of(["b", "a"]).round(2)
        array([-1.96,  1.96])
        """
        padded = np.append(self.shown_items["score"], np.nan)
        return np.asarray(padded[positions(items, self.labels, missing=-1)])

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write items.csv, workers.csv, decisions.csv and summary.json; all of them or none.

        Beside them, up to 2 million each, the votes and the posterior, so that a loaded fit answers
        as this one; of sift also population.json and sites.parquet, for a later fit to
        start from.

        Examples
        --------
        >>> import crowdsift, tempfile
        >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     crowdsift.fit(votes, method="bt").save(folder)
        ...     crowdsift.load(folder).method
        'bt'
        """
        save(self, directory)

    def to_pandas(self) -> Frames:
        """Items and workers as frames of pandas.

        Examples
        --------
        >>> import crowdsift
        >>> fit = crowdsift.fit(crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"]), "bt")
        >>> fit.to_pandas().items["item"].tolist()
        ['a', 'b']
        """
        return self._frames("pandas")

    def to_polars(self) -> Frames:
        """Items and workers as frames of polars."""
        return self._frames("polars")

    def to_arrow(self) -> Frames:
        """Items and workers as tables of PyArrow."""
        return self._frames("pyarrow")

    def hide_workers(self, key: str | os.PathLike[str] | None = None) -> Self:
        """Return the same fit with stable pseudonyms in place of the labels of workers.

        A pseudonym is the same in every table, report and update. An update of the fit hides the
        workers of the new votes in the same way. To hide workers from the beginning, notes of
        reading and bad rows included, read or fit with ``hide_workers=True``.

        Parameters
        ----------
        key
            The file of a secret key of at least 16 characters. Without a key everybody who has a
            list of labels can find out who is who; with one only those who have the key.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["ann"])
        >>> crowdsift.fit(votes, "bt").hide_workers().workers["worker"].tolist()
        ['worker-f9fbcfa180d108c7a2a83516']
        """
        return replace(self, **hidden_fields(self, key))

    def with_seconds(self, seconds: Mapping[Any, float]) -> Self:
        """The same fit with the median time of a worker's answers, `median_seconds`, beside it.

        Times are shown and written; they change no verdict.
        """
        times = [float(seconds.get(who, np.nan)) for who in self.worker_table["worker"].tolist()]
        column = np.array(times, dtype=np.float64)
        return replace(self, worker_table=Table({**self.worker_table, "median_seconds": column}))

    def decisions(self) -> Table:
        """What to do about every worker: pay, review or block, and why; see `decisions.csv`.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
        >>> sorted(set(crowdsift.fit(votes).decisions()["suggestion"]))
        ['pay']
        """
        return decisions(self)

    def _frames(self, backend: Backend) -> Frames:
        tables = (self.shown_items, self.worker_table)
        return Frames(*(table.to_frame(backend) for table in tables))

    def to_json(self) -> dict[str, Any]:
        """Summary, items and workers as plain lists and dictionaries; `overall` where it is.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
        >>> sorted(crowdsift.fit(votes, method="bt").to_json())
        ['items', 'summary', 'workers']
        """
        result = {
            "summary": dict(self.summary),
            "items": _json_labels(self.shown_items.records(), "item", *self.context_columns),
            "workers": _json_labels(self.worker_table.records(), "worker"),
        }
        if (whole := self.overall_ranking) is not None:
            result["overall"] = _json_labels(whole.shown_items.records(), "item")
        return result

    def on_scale(self, scale: str, anchor: Mapping[Any, float] | None = None) -> Self:
        """The same fit with its scores, and their intervals, on another scale.

        Predictions and ranks stay; tables, exports and the report follow.

        Parameters
        ----------
        scale
            "standard" (the method's own), "logit" (b·r with b the typical reliability, so that
            differences are log odds of a typical vote), "elo" (400/ln 10·b·r, mean 1000), or
            "winrate" (the share of wins against all others, of a typical worker).
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
        whole = self.overall_ranking
        if whole is not None:
            whole = replace(whole, **scaled_fields(whole, scale, anchor))
        return replace(self, overall_ranking=whole, **scaled_fields(self, scale, anchor))

    def leaderboard(self, form: str = "markdown") -> str:
        """The items as a table for a page or a paper: "markdown", "latex" or "csv".

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
        return leaderboard(self, form)

    def joint(self, level: float | None = None, top: int = 3) -> Table:
        """What can be said of all items at once, at one level for the whole statement.

        One row per item, the best first within its component: lower and upper, simultaneous
        intervals, which hold for all items together; p_best and p_top_3, the probabilities of
        being the best and among the best three; shares_first, whether no other item is clearly
        better (the best item is among these at the level); above_next, whether it is clearly
        better than the next (all these statements hold together at the level).

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
        return joint_table(self, level, top)

    def first_place(self, level: float | None = None) -> list[list[Any]]:
        """The items that share first place, a list for every component.

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
        return first_place(self, level)

    def win_matrix(self) -> NDArray[np.float64]:
        """Probability that a worker of the crowd prefers the row's item to the column's.

        Rows and columns are those of `items`; NaN between components. As `predict` says it.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
        >>> crowdsift.fit(votes, method="bt").win_matrix().round(3)
        array([[0.5  , 0.666],
               [0.334, 0.5  ]])
        """
        return win_matrix(self)

    def _native(self, table: Table) -> Any:
        return table if self.backend is None else table.to_frame(self.backend)


def _json_labels(records: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    """Labels that JSON does not know (dates, tuples, infinity) as text."""
    for record in records:
        for kind in kinds:
            label = record[kind]
            finite = not isinstance(label, float) or isfinite(label)
            if not isinstance(label, str | int | float | bool | None) or not finite:
                record[kind] = str(label)
    return records
