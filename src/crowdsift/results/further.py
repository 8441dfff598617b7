"""Fits that follow from a fit: with further votes, and of other votes by the same method."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from crowdsift._version import __version__
from crowdsift.errors import ConvergenceWarning, RequestError, SignWarning
from crowdsift.io.classes import with_classes
from crowdsift.io.gold import read_gold
from crowdsift.io.ingest import read_votes
from crowdsift.io.options import ReadOptions
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.results.checked import CheckedRecord
from crowdsift.results.data import model_of
from crowdsift.results.feature_table import WITHOUT_FEATURES
from crowdsift.results.history import with_history
from crowdsift.results.kept import MOST_VOTES
from crowdsift.results.overlap import fingerprint, refuse_repeated, taken_by
from crowdsift.results.start import kept_gold
from crowdsift.votes.comparisons import Comparisons

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["refitter", "updated"]

Result = TypeVar("Result", bound=CheckedRecord)


def updated(
    earlier: Result, votes: Any, options: dict[str, Any], fit: Callable[..., Result]
) -> Result:
    """`Fit.update`: the old votes and new ones, from where the earlier fit ended."""
    if earlier.votes is None:
        kept = f"the votes of this fit were not kept (more than {MOST_VOTES:,}, or with features)"
        raise RequestError(f"{kept}; fit all votes with start=FOLDER (--start)")
    if earlier.features is not None:
        raise RequestError("a fit with features of items cannot go on: fit all votes with them")
    ours = ("gold", "tune", "scale", "anchor", "level", "engine", "threads", "seed", "progress")
    given = {name: options.pop(name) for name in ours if name in options}
    again, classes = options.pop("again", False), options.pop("classes", None)
    options = {"by": earlier.votes.by, "workers": earlier.votes.has_workers, **options}
    new = votes
    if not isinstance(votes, Comparisons):
        how = ReadOptions.of(options, given.get("threads"))
        new = with_classes(read_votes(votes, how), classes)
    if not again:
        refuse_repeated(earlier, new)
    model = model_of(earlier)
    as_before = {name: earlier.summary.get(name) for name in ("scale", "anchor", "level", "seed")}
    given = {**{name: value for name, value in as_before.items() if value}, **given}
    resumes = earlier.population is not None and earlier.summary.get("version") == __version__
    start = earlier if resumes else None
    whole = earlier.votes.extended(new)
    gold = given.pop("gold", None)
    gold = read_gold(gold, whole, kept_gold(earlier, gold))
    found = fit(whole, model, start=start, gold=gold, **given)
    found = _without_groups(earlier, found)
    summary = with_history(earlier, found)
    return replace(found, summary=summary, taken=(*taken_by(earlier), fingerprint(new)))


def _without_groups(earlier: Result, found: Result) -> Result:
    """The fit with a word on what it no longer knows: which votes depend on each other.

    Which of the earlier votes go together is not kept with a fit.
    """
    column = earlier.summary.get("dependent_by") or earlier.summary.get("no_longer_dependent_by")
    if not column:
        return found
    diagnostic = Diagnostic(
        Kind.INTERVALS,
        f"votes of one {column} counted as dependent before this update and no longer do, since a "
        "fit does not keep which of them go together: intervals are too narrow. Fit all votes "
        f"with --dependent-by {column} (dependent_by=)",
    )
    summary = {**found.summary, "no_longer_dependent_by": column}
    summary["warnings"] = [*found.summary["warnings"], diagnostic.message]
    return replace(found, summary=summary, diagnostics=(*found.diagnostics, diagnostic))


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
                votes, model, gold=gold, start=given, threads=threads, seed=seed, overall=False
            )

    return refit
