"""Fits that follow from a fit: with further votes, and of other votes by the same method."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from crowdsift._version import __version__
from crowdsift.errors import ConvergenceWarning, RequestError, SignWarning
from crowdsift.io.ingest import read_votes
from crowdsift.io.items import read_gold
from crowdsift.io.options import ReadOptions
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.results.checked import CheckedRecord
from crowdsift.results.data import FitData, model_of
from crowdsift.results.feature_table import WITHOUT_FEATURES
from crowdsift.results.hidden import hidden_votes
from crowdsift.results.history import with_history
from crowdsift.results.kept import MOST_VOTES
from crowdsift.results.overlap import again_notes, fingerprint, refuse_repeated, taken_by
from crowdsift.results.start import kept_gold
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.pseudonyms import Hiding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["read_new", "refitter", "updated"]

Result = TypeVar("Result", bound=CheckedRecord)


def read_new(
    earlier: FitData, votes: Any, options: Mapping[str, Any], *, again: bool = False,
    threads: int | None = None,
) -> Comparisons:  # fmt: skip
    """Read further votes as those of the earlier fit were read; refuse what it cannot use.

    Parameters
    ----------
    earlier
        The fit that is to be updated.
    votes
        The new votes alone, as for `crowdsift.read`.
    options
        Options of reading that differ from those of the earlier votes.
    again
        Whether to take rows once more that the earlier fit has already.
    threads
        How many threads may read.
    """
    old = _required_votes(earlier)
    hiding = Hiding.of(old.reading.get("hide_workers"))
    if hiding is None and options.get("hide_workers"):
        raise RequestError(
            "the workers of the fit are not hidden: the same worker would become two; hide them "
            "first (Fit.hide_workers), or fit all votes with --hide-workers"
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
            f"{new.source}: these votes do not say which item was on the left, and those of the "
            "fit do. Give the columns left, right and winner, or say that the first item was on "
            "the left (--sides, sides=True); to do without sides fit all votes with --no-sides"
        )
    if not again:
        refuse_repeated(earlier, new)
    return new


def _required_votes(earlier: FitData) -> Comparisons:
    """Return the votes of a fit; refuse a fit that keeps less than what shaped it."""
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
            f"a fit with {reasons[0]} cannot be updated, since these are not kept with it; fit all "
            "votes, the old ones and the new, with the same options"
        )
    if votes is None:
        raise RequestError(
            f"the votes of this fit were not kept (more than {MOST_VOTES:,}, with covariates or "
            "classes of items, or a file was deleted); fit all votes with start=FOLDER (--start)"
        )
    return votes


def updated(
    earlier: Result, votes: Any, options: dict[str, Any], fit: Callable[..., Result]
) -> Result:
    """Fit the old votes and new ones together, from where the earlier fit ended."""
    ours = (
        "gold",
        "check_gold",
        "tune",
        "scale",
        "anchor",
        "level",
        "engine",
        "threads",
        "seed",
        "progress",
    )
    given = {name: options.pop(name) for name in ours if name in options}
    again = options.pop("again", False)
    new = read_new(earlier, votes, options, again=again, threads=given.get("threads"))
    as_before = {name: earlier.summary.get(name) for name in ("scale", "anchor", "level", "seed")}
    given = {**{name: value for name, value in as_before.items() if value}, **given}
    resumes = earlier.population is not None and earlier.summary.get("version") == __version__
    old = _required_votes(earlier)
    whole, gold = old.extended(new), given.pop("gold", None)
    gold = read_gold(gold, whole, kept_gold(earlier, gold))
    found = fit(whole, model_of(earlier), start=earlier if resumes else None, gold=gold, **given)
    notes = list(again_notes(old, new)) if not again else []
    if new.intake is not None and new.intake.known:
        notes.append(
            f"{new.intake.known:,} rows of {new.source} are in the fit already, by what names a "
            "row, and are not counted again"
        )
    if new.sides_known and not old.sides_known:
        notes.append(
            "the new votes say which item was on the left and the earlier ones do not: sides are "
            "not used"
        )
    if earlier.summary.get("drift"):
        notes.append("drift over time is not tested in an update; fit all votes with --time")
    diagnostics = tuple(Diagnostic(Kind.UPDATE, note) for note in notes)
    summary = with_history(earlier, found)
    summary["warnings"] = [*summary["warnings"], *notes]
    taken = (*taken_by(earlier), fingerprint(new))
    return replace(
        found, summary=summary, diagnostics=(*found.diagnostics, *diagnostics), taken=taken
    )


def refitter(
    earlier: Result, gold: Any, threads: int | None, start: Result | None,
    fit: Callable[..., Result],
) -> Callable[[Comparisons], Result]:  # fmt: skip
    """What fits the method of a fit to other votes, without a word."""
    model, seed = model_of(earlier), int(earlier.summary["seed"])

    def refit(votes: Comparisons) -> Result:
        if earlier.features is not None and votes.item_features is None:
            raise RequestError(WITHOUT_FEATURES)
        with warnings.catch_warnings():
            for kind in (ConvergenceWarning, SignWarning):
                warnings.simplefilter("ignore", kind)
            given = start  # which must hold most of the votes to be of use
            if start is not None and 2.0 * votes.total_weight < start.summary["votes"]:
                given = None
            return fit(
                votes, model, gold=gold, start=given, threads=threads, seed=seed, overall=False,
                check_gold=False,
            )  # fmt: skip

    return refit
