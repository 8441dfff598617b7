"""The ranking over all contexts beside those by context: of the same votes, all contexts alike.

It is kept as a ranking: its table, and what scales need of its workers.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import ConvergenceWarning, SignWarning
from crowdsift.io.items import Gold
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.results.data import FitData
from crowdsift.results.scales import typical_reliability
from crowdsift.results.tables import Table
from crowdsift.votes.contexts import without_contexts

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdsift.votes.comparisons import Comparisons

__all__ = ["KEPT", "overall_fields", "ranking_of"]

# What the summary says of the overall ranking.
KEPT = (
    "items", "components", "converged", "iterations", "log_likelihood", "mean_log_likelihood",
    "evidence", "seconds",
)  # fmt: skip
_REPEATED = (Kind.CONVERGENCE, Kind.SIGN)


def overall_fields(
    result: FitData, votes: Comparisons, gold: Gold | None, fit: Callable[..., FitData]
) -> dict[str, Any]:
    """The fields of a fit by context that change with its overall ranking.

    None change where most items are in one context only, nor where items have features: what those
    say of scores is learned by context.

    Parameters
    ----------
    result
        The fit by context.
    votes, gold
        What it is made of.
    fit
        Fits the same method to other votes, with `gold`.
    """
    found = None if votes.item_features is not None else without_contexts(votes)
    if found is None:
        return {}
    whole, place = found
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, SignWarning):
            warnings.simplefilter("ignore", kind)
        made = fit(whole, gold=None if gold is None else _merged(gold, place))
    notes = [
        Diagnostic(each.kind, f"overall ranking: {each.message}")
        for each in made.diagnostics
        if each.kind in _REPEATED
    ]
    messages = [*result.summary["warnings"], *(each.message for each in notes)]
    about = {name: made.summary.get(name) for name in KEPT}
    return {
        "overall_ranking": ranking_of(made.item_table, made.summary, made.parameters, made),
        "summary": {**result.summary, "overall": about, "warnings": messages},
        "diagnostics": (*result.diagnostics, *notes),
    }


def ranking_of(
    items: Table, summary: dict[str, Any], parameters: dict[str, Any], made: FitData | None = None
) -> FitData:
    """A fit as nothing but the table of its items, on which scales can be laid."""
    if made is not None:
        known = ("method", "level", "scale", "seed", "components", "converged", "warnings")
        summary = {name: summary[name] for name in known}
        typical = typical_reliability(made)
        summary["typical_reliability"] = typical if np.isfinite(typical) else None
    nobody = {name: np.empty(0) for name in ("worker", "reliability", "comparisons")}
    return FitData(items, Table(nobody), summary, parameters)


def _merged(gold: Gold, place: np.ndarray[Any, np.dtype[np.uint32]]) -> Gold | None:
    """Gold about items whatever their context; pairs that contexts contradict are left out."""
    pairs = {(int(place[a]), int(place[b])) for a, b in zip(gold.winner, gold.loser, strict=True)}
    kept = sorted(pair for pair in pairs if pair[::-1] not in pairs)
    if not kept:
        return None
    winner, loser = np.array(kept, np.uint32).T
    return replace(gold, winner=winner.copy(), loser=loser.copy())
