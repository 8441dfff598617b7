"""Fits that follow from a fit: with more votes, with fewer, and fast ones for searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift._version import __version__
from crowdsift.errors import RequestError
from crowdsift.fitting import fit, with_notes, without_warnings
from crowdsift.fitting.estimate import OpenVotes, Resources, estimate_model, open_votes
from crowdsift.fitting.rows import read_rows
from crowdsift.fitting.start import kept_gold, starting_point
from crowdsift.io.ingest import read_votes
from crowdsift.io.items import read_gold
from crowdsift.io.options import ReadOptions
from crowdsift.models import Start
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.numeric import Vector
from crowdsift.results.feature_table import WITHOUT_FEATURES
from crowdsift.results.fit import Fit
from crowdsift.results.hidden import hidden_votes
from crowdsift.results.query import model_of
from crowdsift.results.store import MOST_VOTES, fingerprint, taken_by
from crowdsift.results.words import item_label
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.labels import match_labels
from crowdsift.votes.pseudonyms import Hiding

MAX_HISTORY_ITEMS = 50  # items per entry
MAX_HISTORY = 200  # entries; the first one and the latest are kept
_FEWEST = 20  # repeated rows above which a file counts as used before
_SAME = 0.5  # share of repeated rows, beyond chance, above which votes are refused
_CLEARLY = 3.0  # standard deviations beyond chance
# With fewer votes the fit starts from the beginning, in about a second: the update is then exactly the fit of all
# votes.
_MIN_RESUMED = 100_000
_CLEAR_SIGN, _KEPT = 0.5, 0.75  # clear margin of the workers' signs; shares of votes and of workers that must remain


def read_new(
    earlier: Fit, votes: Any, options: Mapping[str, Any], *, again: bool = False, threads: int | None = None
) -> Comparisons:
    """Read further votes in the way the earlier fit did; raise an error for votes that it cannot use."""
    # `options` are options of reading that differ from those of the earlier votes; `again` accepts rows that the
    # earlier fit already has.
    old = _required_votes(earlier)
    hiding = Hiding.of(old.reading.get("hide_workers"))
    if hiding is None and options.get("hide_workers"):
        raise RequestError(
            "the workers of the fit are not hidden: the same worker would become two; hide them first "
            "(Fit.hide_workers), or fit all votes with --hide-workers"
        )
    if hiding is not None and options.get("hide_workers"):
        hiding = hiding.or_same(Hiding.of(options["hide_workers"]))
        options = {**options, "hide_workers": hiding}
    if isinstance(votes, Comparisons):
        own = Hiding.of(votes.reading.get("hide_workers"))
        same = hiding is None or (own is not None and own.check == hiding.check)
        new = votes if hiding is None or same else hidden_votes(votes, hiding)
    else:
        options = {**old.reading, "by": old.by, "workers": old.has_workers, **options}
        new = read_votes(votes, ReadOptions.of(options, threads), None if again else old.row_ids)
    if old.sides_known and not new.sides_known:
        raise RequestError(
            f"{new.source}: these votes do not say which item was on the left, and those of the fit do. Give the "
            "columns left, right and winner, or say that the first item was on the left (--sides, sides=True); to do "
            "without sides fit all votes with --no-sides"
        )
    if not again:
        refuse_repeated(earlier, new)
    return new if old.panels is None else _with_known_panels(new, votes, old, options, threads)


def _with_known_panels(
    new: Comparisons, votes: Any, old: Comparisons, options: Mapping[str, Any], threads: int | None
) -> Comparisons:
    """Return new votes with the panel of every worker, known or from the column of panels."""
    panels = old.panels
    assert panels is not None
    of = {} if new.panels is None else dict(new.panels.of)
    if not isinstance(votes, Comparisons):
        read, rows = read_rows(votes, ReadOptions.of(options, threads), group=panels.column)
        assert rows.group is not None
        known = zip(rows.worker.tolist(), rows.group.tolist(), strict=True)
        of = {read.workers[who]: rows.group_labels[panel] for who, panel in set(known)}
    for who in new.workers:
        if who not in of and who not in panels.of:
            raise RequestError(
                f"worker {who!r} has no {panels.column}, and the fit trusts "
                f"{panels.column}={' or '.join(panels.trusted)}; give votes with that column"
            )
        if of.get(who, panels.of.get(who)) != panels.of.get(who, of.get(who)):
            raise RequestError(
                f"worker {who!r} was of {panels.column}={panels.of[who]} and now is of "
                f"{panels.column}={of[who]}; a judge belongs to one panel"
            )
    return replace(new, panels=panels._replace(of=of))


def _required_votes(earlier: Fit) -> Comparisons:
    """Return the votes of a fit; raise an error if it lacks a part of what it was made from."""
    votes, summary = earlier.votes, earlier.summary
    column = summary.get("dependent_by") or summary.get("no_longer_dependent_by")
    shaped = {
        "features of items": bool(summary.get("item_features")),
        "classes of items": votes is not None and votes.item_class is not None,
        "covariates": votes is not None and votes.features is not None,
        f"votes that depend on each other by {column}": bool(column),
    }
    if reasons := [what for what, is_so in shaped.items() if is_so]:
        raise RequestError(
            f"a fit with {reasons[0]} cannot be updated, since these are not kept with it; fit all votes, the old ones "
            "and the new, with the same options"
        )
    if votes is None:
        raise RequestError(
            f"the votes of this fit were not kept (more than {MOST_VOTES:,}, with covariates or classes of items, or a "
            "file was deleted); fit all votes with start=FOLDER (--start)"
        )
    return votes


def updated(earlier: Fit, votes: Any, options: dict[str, Any]) -> Fit:
    """Return a fit of the old and new votes together; with many votes it starts from the earlier fit."""
    ours = (
        *("gold", "check_gold", "tune", "dimensions", "scale", "anchor", "level"),
        *("engine", "engine_options", "threads", "seed", "progress"),
    )
    given = {**earlier.resources, **{name: options.pop(name) for name in ours if name in options}}
    again = options.pop("again", False)
    new = read_new(earlier, votes, options, again=again, threads=given.get("threads"))
    as_before = {name: earlier.summary.get(name) for name in ("scale", "anchor", "level", "seed")}
    given = {**{name: value for name, value in as_before.items() if value}, **given}
    old = _required_votes(earlier)
    whole, gold = old.extended(new), given.pop("gold", None)
    resumes = earlier.population is not None and earlier.summary.get("version") == __version__
    resumes = resumes and whole.total_weight >= _MIN_RESUMED
    gold = read_gold(gold, whole, kept_gold(earlier, gold))
    found = fit(whole, model_of(earlier), start=earlier if resumes else None, gold=gold, **given)
    notes = list(again_notes(old, new)) if not again else []
    if new.intake is not None and new.intake.known:
        notes.append(
            f"{new.intake.known:,} rows of {new.source} are in the fit already, by what "
            "names a row, and are not counted again"
        )
    if (old.grades is None) != (new.grades is None):
        notes.append("only a part of the votes has grades: the others count as better, none as much better")
    if new.sides_known and not old.sides_known:
        notes.append("the new votes say which item was on the left and the earlier ones do not: sides are not used")
    if earlier.summary.get("drift"):
        notes.append("drift over time is not tested in an update; fit all votes with --time")
    taken = (*taken_by(earlier), fingerprint(new))
    found = replace(found, summary=with_history(earlier, found), taken=taken)
    return with_notes(found, [Diagnostic(Kind.UPDATE, note) for note in notes])


def refitter(earlier: Fit, gold: Any, threads: int | None, *, warm: bool) -> Callable[[Comparisons], Fit]:
    """Return a function that fits the method of a fit to other votes on the same engine."""
    # `gold` and `threads` are pairs of known order and the number of threads for these fits. With `warm` they start
    # from the fit, if the method can and most votes are the same.
    model, seed = model_of(earlier), int(earlier.summary["seed"])

    def refit(votes: Comparisons) -> Fit:
        if earlier.features is not None and votes.item_features is None:
            raise RequestError(WITHOUT_FEATURES)
        near = 2.0 * votes.total_weight >= float(earlier.summary["votes"])
        start = earlier if warm and near and earlier.population is not None else None
        with without_warnings():
            return fit(
                votes,
                model,
                gold=gold,
                start=start,
                threads=threads,
                seed=seed,
                overall=False,
                check_gold=False,
                **earlier.resources,
            )

    return refit


class Rescored(NamedTuple):
    """Scores by the codes of the votes, and the components of comparable items."""

    scores: Vector
    component: NDArray[Any]


class Nearby:
    """Fast scores, without tables, of votes that differ little from those of a fit; for searches.

    The first fit repeats all decisions by evidence; the next ones start there and keep these decisions. `whole` decides
    again for its votes, and verifies the result of a search.
    """

    def __init__(self, earlier: Fit, gold: Any, threads: int | None) -> None:
        self._earlier, self._gold = earlier, gold
        self._resources, self._model = Resources.of(earlier, threads), model_of(earlier)
        self._near: Start | None = None

    def series(self) -> Nearby:
        """Return another series of such scores that starts from the same fit."""
        return Nearby(self._earlier, self._gold, self._resources.threads)

    @property
    def possible(self) -> bool:
        """Return whether the method and this fit can be continued; otherwise a new fit is needed."""
        earlier, votes = self._earlier, self._earlier.votes
        if earlier.population is None or earlier.population.get("by_context") or votes is None:
            return False
        plain = votes.features is None and votes.item_features is None
        return plain and not earlier.summary.get("group_effect")

    def quick(self, votes: Comparisons) -> Rescored | None:
        """Return the scores; None if they did not converge and a complete fit is needed."""
        with self._opened(votes) as opened:
            start = self._start(votes)
            if start is None:
                return None
            found = self._model.rescore(opened.engine, start, decide=self._near is None)
            if found is None:
                return None
            self._near = self._near or found[1]
            return Rescored(found[0], opened.engine.facts.component)

    def whole(self, votes: Comparisons) -> Rescored | None:
        """Return the scores of a complete fit to these votes, started from the closest estimate."""
        with self._opened(votes) as opened:
            start = self._start(votes)
            if start is None:
                return None
            if self._sign_stays(votes):  # otherwise the workers must be counted, which takes as long
                found = self._model.rescore(opened.engine, start, decide=True)
                if found is not None:
                    return Rescored(found[0], opened.engine.facts.component)
            return Rescored(estimate_model(opened, start).scores, opened.engine.facts.component)

    def _opened(self, votes: Comparisons) -> AbstractContextManager[OpenVotes]:
        return open_votes(self._model, votes, self._resources, read_gold(self._gold, votes))

    def _sign_stays(self, votes: Comparisons) -> bool:
        """Return whether removals this small cannot reverse the sign."""
        # With a margin of ½, three of four workers support the sign, and they still would without any quarter of the
        # workers.
        summary = self._earlier.summary
        workers = len(np.unique(votes.worker_codes())) if votes.has_workers else 0
        most = workers >= _KEPT * float(summary["workers"])
        most = most and votes.total_weight >= _KEPT * float(summary["votes"])
        return most and float(summary.get("sign_margin") or 0.0) > _CLEAR_SIGN

    def _start(self, votes: Comparisons) -> Start | None:
        try:
            return self._near or starting_point(self._earlier, votes, self._model)
        except RequestError:  # too few votes are left to continue
            return None


def with_history(earlier: Fit, later: Fit) -> dict[str, Any]:
    """Return the summary of a later fit, with the history of both fits."""
    before = list(earlier.summary.get("history") or [_entry(earlier)])
    entries = [*before, _entry(later)]
    if len(entries) > MAX_HISTORY:
        entries = [entries[0], *entries[1 - MAX_HISTORY :]]
    return {**later.summary, "history": entries}


def _entry(fit: Fit) -> dict[str, Any]:
    """Return the entry of a fit in the history: the best items of the first component."""
    table, by = fit.item_table, fit.summary.get("by")
    rows = np.flatnonzero(table["component"] == table["component"][0])[:MAX_HISTORY_ITEMS]
    return {
        "votes": float(fit.summary["votes"]),
        "items": [item_label(fit.labels[row], by) for row in rows.tolist()],
        "ranks": table["rank"][rows].tolist(),
        "scores": [float(f"{score:.6g}") for score in table["score"][rows].tolist()],
    }


def ranks_over_updates(
    history: list[dict[str, Any]], most: int = 12
) -> tuple[list[float], dict[str, list[int | None]]]:
    """Return the votes of every entry of a history, and the ranks of the items that are best now."""
    # None for an item that was not among the best, or not present, at the time.
    places = [dict(zip(entry["items"], entry["ranks"], strict=True)) for entry in history]
    best = history[-1]["items"][:most] if history else []
    return [entry["votes"] for entry in history], {name: [place.get(name) for place in places] for name in best}


def refuse_repeated(earlier: Fit, new: Comparisons) -> None:
    """Raise an error for votes that the fit already has: the same file, identified rows, or most rows."""
    old = earlier.votes
    if fingerprint(new) in taken_by(earlier):
        raise RequestError(
            f"{new.source}: these {new.total_weight:,g} votes were taken already; give new votes "
            "only (again=True, --again takes them once more)"
        )
    if old is None:
        return
    if old.row_ids is not None and new.row_ids is not None:
        if same := int(np.isin(new.row_ids, old.row_ids).sum()):
            raise RequestError(
                f"{new.source}: {same:,} of the {len(new.row_ids):,} rows are in the fit already, by what names a row; "
                "give update the file or the frame itself, which leaves them out, or again=True to take them once more"
            )
        return
    same, chance = _repeated(old, new)
    fewest = min(len(old), len(new))
    if same >= _FEWEST and same - chance >= _SAME * max(fewest - chance, 0.0) and chance < same / 2:
        raise RequestError(
            f"{new.source}: {same:,} of its {len(new):,} rows are equal to earlier rows in worker, items and answer; "
            "give new votes only, or fit the whole file with start= (--start). again=True (--again) takes them once "
            "more"
        )


def again_notes(old: Comparisons, new: Comparisons) -> Iterator[str]:
    """Yield a warning if more rows come again than chance explains."""
    if old.row_ids is not None and new.row_ids is not None:
        return
    same, chance = _repeated(old, new)
    if same > chance + _CLEARLY * (1.0 + np.sqrt(chance)):
        yield (
            f"{same:,} of the {len(new):,} new rows are equal to earlier ones in worker, items and "
            f"answer, about {chance:,.0f} by chance: if these are the same votes they are counted "
            "twice. A column that names a row (--unique, unique=) tells them apart"
        )


def _repeated(old: Comparisons, new: Comparisons) -> tuple[int, float]:
    """Return how many new rows are among the old ones, and how many would be by chance."""
    # Two judges and a few models give the same row many times. Among W votes, w of them equal to a row, two are equal
    # with probability about q = Σ w(w - 1)/W²; a further row is among them with 1 - exp(-qW).
    weight = old.weight.astype(np.float64)
    total = max(float(weight.sum()), 1.0)
    equal = float(weight @ np.maximum(weight - 1.0, 0.0)) / total**2
    same = int(np.isin(_keys(new, old), _keys(old, old)).sum())
    return same, float(-np.expm1(-equal * total)) * len(new)


def _keys(votes: Comparisons, old: Comparisons) -> np.ndarray:
    """Return rows as numbers, by the labels of the old votes; rows with other labels are -1."""
    item = match_labels(votes.items.tolist(), old.items.tolist())
    worker = match_labels(votes.workers.tolist(), old.workers.tolist())
    one, two, who = item[votes.first], item[votes.second], worker[votes.worker_codes()]
    outcome = np.round(votes.outcome * 1000).astype(np.int64)
    if not (votes.sides_known and old.sides_known):  # the order of the items in a row has no meaning
        turned = one > two
        one, two = np.where(turned, two, one), np.where(turned, one, two)
        outcome = np.where(turned, 1000 - outcome, outcome)
    key = ((who * old.n_items + one) * old.n_items + two) * 1001 + outcome
    return np.where((one < 0) | (two < 0) | (who < 0), -1, key)
