"""How the ranks of the best items changed from one update of a fit to the next.

A history is a list of entries in the summary of a fit: the number of votes, and rank, label and
score of the best items as they were then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.results.words import item_label

if TYPE_CHECKING:
    from crowdsift.results.data import FitData

__all__ = ["MOST_ENTRIES", "MOST_ITEMS", "ranks_over_updates", "with_history"]

MOST_ITEMS = 50  # of an entry
MOST_ENTRIES = 200  # the first one and the latest stay


def with_history(earlier: FitData, later: FitData) -> dict[str, Any]:
    """The summary of a later fit with the history of the earlier one and both as they are.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=300, seed=1).comparisons()
    >>> new = {"left": ["i1"], "right": ["i2"], "winner": ["left"], "worker": ["w1"]}
    >>> [entry["votes"] for entry in crowdsift.fit(votes).update(new).summary["history"]]
    [300.0, 301.0]
    """
    before = list(earlier.summary.get("history") or [_entry(earlier)])
    entries = [*before, _entry(later)]
    if len(entries) > MOST_ENTRIES:
        entries = [entries[0], *entries[1 - MOST_ENTRIES :]]
    return {**later.summary, "history": entries}


def _entry(fit: FitData) -> dict[str, Any]:
    """The best items of the first component as they are now."""
    table, by = fit.item_table, fit.summary.get("by")
    rows = np.flatnonzero(table["component"] == table["component"][0])[:MOST_ITEMS]
    return {
        "votes": float(fit.summary["votes"]),
        "items": [item_label(fit.labels[row], by) for row in rows.tolist()],
        "ranks": table["rank"][rows].tolist(),
        "scores": [float(f"{score:.6g}") for score in table["score"][rows].tolist()],
    }


def ranks_over_updates(
    history: list[dict[str, Any]], most: int = 12
) -> tuple[list[float], dict[str, list[int | None]]]:
    """The votes of every entry, and the ranks of the items that are the best now.

    None where an item was not among the best, or not there, at the time.

    Examples
    --------
    >>> from crowdsift.results.history import ranks_over_updates
    >>> one = {"votes": 10.0, "items": ["a", "b"], "ranks": [1, 2]}
    >>> two = {"votes": 12.0, "items": ["c", "a"], "ranks": [1, 2]}
    >>> ranks_over_updates([one, two])
    ([10.0, 12.0], {'c': [None, 1], 'a': [1, 2]})
    """
    places = [dict(zip(entry["items"], entry["ranks"], strict=True)) for entry in history]
    best = history[-1]["items"][:most] if history else []
    return [entry["votes"] for entry in history], {
        name: [place.get(name) for place in places] for name in best
    }
