"""The record of a fit."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.grid import WorkerPoints
from crowdsift.errors import RequestError
from crowdsift.models import model
from crowdsift.numeric.distributions import Z90
from crowdsift.numeric.likelihoods import normal_cdf
from crowdsift.results.posterior import Posterior
from crowdsift.results.query import as_list, is_sequence, keys_of, places_of
from crowdsift.results.tables import Table
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.labels import context_codes, key_of
from crowdsift.votes.source import Backend

if TYPE_CHECKING:
    from crowdsift.engines.grid import VoteSites
    from crowdsift.models import Model
    from crowdsift.report import Report

__all__ = ["Fit"]


class _Asked(NamedTuple):
    """A question about votes: differences of scores, codes of workers (-1: the crowd)."""

    difference: NDArray[np.float64]
    worker: NDArray[np.int64]
    single: bool


@dataclass(frozen=True, eq=False)
class Fit:
    """What was estimated from the votes, and how.

    Attributes
    ----------
    items, workers
        The tables of the result: item, score, lower, upper, rank, rank_lower, rank_upper,
        comparisons, component, before them the context where there is one, after them a flag
        (only won, only lost) where any item has one; and worker, reliability, lower, upper,
        side_bias, side_lower, side_upper, comparisons, agreement, verdict. Intervals are 90 %.
        Data frames of the kind that the votes came in, otherwise a `Table`.
    summary
        Method, version, counts, convergence, likelihood, seconds and warnings.
    parameters
        The hyper-parameters of the method.
    crowd
        What was learned of workers in general, where a method learns it: a later fit can start
        from it, as `update` does.
    sites
        What every vote said of its pair, with the rows of `items` and `workers` for codes: with it
        a later fit needs few passes. None for other methods and beyond 2 million votes.
    votes
        The votes, while the fit is in memory.
    trace
        The mean over votes of what the method maximises (log-likelihood, with the penalty where
        there is one), before the first and after every iteration.
    votes
        What was fitted; None for a fit that was loaded.

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
    backend: Backend | None = None
    posterior: Posterior | None = None
    crowd: dict[str, Any] | None = None
    sites: VoteSites | None = None
    votes: Comparisons | None = None

    @property
    def items(self) -> Any:
        """The items, the best first."""
        return self._native(self.item_table)

    @property
    def workers(self) -> Any:
        """The workers, by label."""
        return self._native(self.worker_table)

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self.summary["method"])

    @property
    def converged(self) -> bool:
        """Whether the method reached its tolerance."""
        return bool(self.summary["converged"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a look."""
        return tuple(self.summary["warnings"])

    @property
    def labels(self) -> list[Any]:
        """The labels of the items, the best first; with a context (value, item) each.

        Examples
        --------
        >>> import crowdsift
        >>> crowdsift.fit(crowdsift.Comparisons.from_arrays(["a"], ["b"]), "bt").labels
        ['a', 'b']
        """
        items = self.item_table["item"].tolist()
        context = self.summary.get("by")
        if not context:
            return items  # type: ignore[no-any-return]
        return list(zip(self.item_table[context].tolist(), items, strict=True))

    def __repr__(self) -> str:
        s = self.summary
        how = "converged in" if self.converged else "NOT converged after"
        return (
            f"Fit({self.method}: {s['items']} items, {s['workers']} workers, {s['votes']:g} votes; "
            f"{how} {s['iterations']} iterations)"
        )

    def predict(self, first: Any, second: Any, worker: Any = None) -> float | NDArray[np.float64]:
        """Probability that a worker prefers `first` to `second`.

        Parameters
        ----------
        first, second
            A label each, or sequences of labels. An item without votes has the prior's score, 0;
            two items of different components cannot be compared.
        worker
            A label or a sequence; None, or a worker without votes, means one drawn from the
            crowd: the mean over all workers. Where workers have a posterior (of reliability, tie
            width and side habit) it is averaged over. For an ideal worker, who sees what is truly
            better, ask `better`.

        Where a tie is an outcome this is the probability given that the worker decides. Where
        workers have side habits, either item may stand on either side.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
        >>> fit = crowdsift.fit(votes, method="bt")
        >>> round(fit.predict("a", "b"), 3)
        0.666
        """
        asked = self._asked(first, second, worker)
        win, _, loss = self._outcomes(asked, decided=True)
        result = win / (win + loss)
        return float(result[0]) if asked.single else result

    def predict_outcomes(self, first: Any, second: Any, worker: Any = None) -> Table:
        """Probabilities that a worker prefers `first`, calls a tie, or prefers `second`.

        The columns are win, tie and loss, one row a pair; what may be asked is as in `predict`.
        A method for which a tie is an outcome of its own gives its own probabilities. For the
        others, where it counts as half a win, the tie has the rate of the worker (`tie_rate` in
        the workers' table), and the rest is shared as `predict` says.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(
        ...     ["a", "a", "b"], ["b", "b", "a"], outcome=[1, 0.5, 0], worker=["x"] * 3)
        >>> told = crowdsift.fit(votes, method="bora-em").predict_outcomes("a", "b")
        >>> list(told), round(float(sum(told[name][0] for name in told)), 12)
        (['win', 'tie', 'loss'], 1.0)
        """
        told = self._outcomes(self._asked(first, second, worker))
        return Table(dict(zip(("win", "tie", "loss"), told, strict=True)))

    def _outcomes(self, asked: _Asked, *, decided: bool = False) -> NDArray[np.float64]:
        """Win, tie and loss, a row each; if `decided`, methods without ties leave them out."""
        rule = model(self.method, **self.parameters)
        draws = self._worker_draws(rule)
        if decided and rule.tie_column == "tie_rate":
            draws = draws._replace(width=np.zeros_like(draws.width))
        result = np.empty((3, len(asked.difference)))
        crowd = max(self.worker_table.height, 1)
        for i, (difference, code) in enumerate(zip(asked.difference, asked.worker, strict=True)):
            row = slice(crowd) if code < 0 else slice(code, code + 1)
            parts = rule.outcome_probabilities(difference, *(column[row] for column in draws))
            result[:, i] = [part.mean() for part in parts]
        return result

    def _worker_draws(self, rule: Model) -> WorkerPoints:
        """Points of every worker's posterior, one row each; its tie parameter for the width.

        Where workers differ by context, rows of workers in contexts follow.
        Without a posterior the table's estimates stand alone, a side habit with its variance.
        """
        table, known = self.worker_table, self.posterior
        height = max(table.height, 1)  # without workers: one who is nobody

        def column(name: str, other: float) -> NDArray[np.float64]:
            if name not in table or not table.height:
                return np.full((height, 1), other)
            return table[name].astype(np.float64)[:, None]

        rate = float(self.summary.get("tie_rate") or 0.0)
        tie = column(rule.tie_column, rate if rule.tie_column == "tie_rate" else 0.0)
        if known is not None and known.points is not None:
            points, apart = known.points, known.in_context
            if apart is not None:
                points, tie = apart.below(points), np.concatenate([tie, tie[apart.worker]])
            return points._replace(width=points.width if rule.tie_column == "tie_width" else tie)
        reliability = column("reliability", np.nan)
        if known is not None and known.quantiles is not None:
            reliability = known.quantiles
        low, side, high = (column(f"side_{name}", 0.0) for name in ("lower", "bias", "upper"))
        variance = (0.5 * (high - low) / Z90) ** 2
        return WorkerPoints(reliability, tie, np.nan_to_num(side), np.nan_to_num(variance))

    def _asked(self, first: Any, second: Any, worker: Any) -> _Asked:
        """Differences of scores and codes of workers for what is asked of `predict`."""
        one, two, who = as_list(first), as_list(second), as_list(worker)
        n = max(len(one), len(two), len(who))
        if {len(one), len(two), len(who)} - {1, n}:
            raise RequestError(
                f"{len(one)} first items, {len(two)} second ones and {len(who)} workers do not fit"
            )
        known = places_of(self.worker_table["worker"])
        padded = np.append(self.item_table["score"], 0.0)  # the prior's score, for unseen items
        place = places_of(self.labels)
        a, b = (
            np.broadcast_to([place.get(key, -1) for key in keys_of(side)], (n,))
            for side in (one, two)
        )
        self._refuse_across(a, b)
        codes = np.broadcast_to([known.get(key, -1) for key in keys_of(who)], (n,))
        single = not is_sequence(first) and not is_sequence(second) and n == 1
        return _Asked(padded[a] - padded[b], self._in_context(codes, a), single)

    def _in_context(self, worker: NDArray[np.int64], item: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of `_worker_draws` for workers at items; -1 stays: a worker of the crowd."""
        apart = None if self.posterior is None else self.posterior.in_context
        if self.posterior is None or apart is None:
            return worker
        codes, labels = context_codes(self.posterior.items), self.labels
        context = np.array([codes[key_of(labels[i][0])] if i >= 0 else -1 for i in item.tolist()])
        rows = apart.rows(worker, context, self.worker_table.height)
        return np.where((worker < 0) | (context < 0), worker, rows)

    def better(self, first: Any, second: Any) -> float | NDArray[np.float64]:
        """Probability that `first` is truly better than `second`, given all votes.

        Unlike `predict` this is about the items, not about a vote: it goes to 0 or 1 as votes
        come in. Labels must be of one component; sequences of labels give an array. A fit that
        was loaded knows no covariances, and takes errors as independent.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
        >>> fit = crowdsift.fit(votes)
        >>> best, worst = fit.items["item"][0], fit.items["item"][-1]
        >>> fit.better(best, worst) > 0.99
        True
        """
        difference, sd = self._differences(first, second)
        ratio = np.divide(difference, sd, out=np.sign(difference) * np.inf, where=sd > 0)
        result = normal_cdf(np.where(difference == 0, 0.0, ratio))
        single = not is_sequence(first) and not is_sequence(second)
        return float(result[0]) if single else result

    def difference(self, first: Any, second: Any) -> Table:
        """How far `first` is above `second`, with a 90 % interval: difference, lower, upper.

        Labels must be of one component; sequences of labels give a row a pair.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
        >>> fit = crowdsift.fit(votes)
        >>> told = fit.difference(fit.labels[0], fit.labels[-1])
        >>> bool(0 < told["lower"][0] < told["difference"][0] < told["upper"][0])
        True
        """
        difference, sd = self._differences(first, second)
        half = Z90 * sd
        return Table(
            {"difference": difference, "lower": difference - half, "upper": difference + half}
        )

    def _differences(
        self, first: Any, second: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Differences of scores and their standard deviations, of items that have votes."""
        place = places_of(self.labels)
        try:
            one, two = (
                np.array([place[key] for key in keys_of(as_list(side))]) for side in (first, second)
            )
            one, two = np.broadcast_arrays(one, two)
        except KeyError as error:
            (key,) = error.args
            name = key[1] if type(key) is tuple else key
            raise RequestError(f"{name!r} is not among the items") from None
        except ValueError:
            raise RequestError("as many first items as second ones are needed") from None
        self._refuse_across(one, two)
        score = self.item_table["score"]
        return score[one] - score[two], self._difference_sd(one, two)

    def _refuse_across(self, one: NDArray[np.int64], two: NDArray[np.int64]) -> None:
        """Refuse pairs of items, by rows, between which no chain of votes leads; -1 is unseen."""
        component = np.append(self.item_table["component"], 0)
        across = (component[one] != component[two]) & (one >= 0) & (two >= 0)
        if not across.any():
            return
        pair = int(np.argmax(across))
        a, b, labels = one[pair], two[pair], self.labels
        raise RequestError(
            f"{labels[a]!r} is in component {component[a]} and {labels[b]!r} in component "
            f"{component[b]}: no chain of votes connects them, so they cannot be compared"
        )

    def _difference_sd(self, one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.float64]:
        """Standard deviations of differences, by rows of the item table."""
        table = self.item_table
        if self.posterior is not None:
            code = places_of(self.posterior.items)
            codes = np.array([code[key] for key in keys_of(self.labels)])
            sd = self.posterior.difference_sd(codes[one], codes[two])
        else:
            half = 0.5 * (table["upper"] - table["lower"]) / Z90
            sd = np.sqrt(half[one] ** 2 + half[two] ** 2)
        if sd is None or np.isnan(sd).any():
            raise RequestError(f"{self.method} gives no intervals for these items")
        return np.asarray(sd)

    def scores_of(self, items: Iterable[Any]) -> NDArray[np.float64]:
        """The scores of items, in the order given; NaN for an item without votes.

        Examples
        --------
        >>> import crowdsift
        >>> fit = crowdsift.fit(crowdsift.Comparisons.from_arrays(["a"], ["b"]), "bt")
        >>> fit.scores_of(["b", "a"]).round(2)
        array([-1.96,  1.96])
        """
        place = places_of(self.labels)
        padded = np.append(self.item_table["score"], np.nan)
        return np.asarray(padded[[place.get(key, -1) for key in keys_of(items)]])

    def update(self, votes: Any, **options: Any) -> Fit:
        """The fit of the old votes and further ones, from where this one ended.

        Parameters
        ----------
        votes
            The new votes alone: whatever `crowdsift.read` takes. New items and workers may come.
        options
            As for `crowdsift.fit`: columns, threads, gold, ...

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=300, seed=1).comparisons()
        >>> fit = crowdsift.fit(votes)
        >>> new = {"winner": ["i1", "i2"], "loser": ["i2", "i3"], "worker": ["w1", "new"]}
        >>> fit.update(new).summary["votes"]
        302.0
        """
        from crowdsift.fitting import go_on

        return go_on(self, votes, options)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write items.csv, workers.csv and summary.json; all of them or none.

        Of sift also crowd.json and, up to 2 million votes, sites.parquet, for a later fit to
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
        from crowdsift.results.store import save

        save(self, directory)

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

    def _repr_html_(self) -> str:
        """The display in a notebook."""
        from crowdsift.report.notebook import fit_html

        return fit_html(self)

    def to_json(self) -> dict[str, Any]:
        """Summary, items and workers as plain lists and dictionaries.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
        >>> sorted(crowdsift.fit(votes, method="bt").to_json())
        ['items', 'summary', 'workers']
        """
        return {
            "summary": dict(self.summary),
            "items": _json_labels(self.item_table.records(), "item", self.summary.get("by")),
            "workers": _json_labels(self.worker_table.records(), "worker"),
        }

    def _native(self, table: Table) -> Any:
        return table if self.backend is None else table.to_frame(self.backend)


def _json_labels(records: list[dict[str, Any]], *kinds: str | None) -> list[dict[str, Any]]:
    """Labels that JSON does not know (dates, tuples, infinity) as text."""
    for record in records:
        for kind in filter(None, kinds):
            label = record[kind]
            finite = not isinstance(label, float) or isfinite(label)
            if not isinstance(label, str | int | float | bool | None) or not finite:
                record[kind] = str(label)
    return records
