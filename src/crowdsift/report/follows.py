"""What votes follow beside scores, and what scores follow: covariates and features of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.results.words import label

if TYPE_CHECKING:
    from crowdsift.results.record import FitRecord

__all__ = ["what_is_followed"]

_SHOWN = 10  # workers, those with the most votes, and items, the best


def what_is_followed(fit: FitRecord) -> dict[str, Any] | None:
    """The section of a report on covariates and features; None where neither is used.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report.follows import what_is_followed
    >>> votes = crowdsift.simulate(items=9, workers=5, comparisons=300, seed=1).comparisons()
    >>> what_is_followed(crowdsift.fit(votes)) is None
    True
    """
    covariates = [each for each in fit.summary.get("covariates") or () if each["used"]]
    features = fit.summary.get("item_features") or {"used": False}
    if not covariates and not features["used"]:
        return None
    return {
        "covariates": covariates,
        "judges": _judges(fit) if covariates else [],
        "scores": _both_scores(fit) if covariates else [],
        "features": features if features["used"] else None,
    }


def _judges(fit: FitRecord) -> list[dict[str, Any]]:
    """Coefficients of the workers with the most votes, a row per worker and covariate."""
    table = fit.coefficients
    if table is None:
        return []
    votes = dict(zip(fit.worker_table["worker"], fit.worker_table["comparisons"], strict=True))
    best = sorted(votes, key=lambda who: -votes[who])[:_SHOWN]
    place = {who: at for at, who in enumerate(best)}
    rows = [row for row in table.records() if row["worker"] in place]
    rows.sort(key=lambda row: place[row["worker"]])
    return [{**row, "worker": label(row["worker"])} for row in rows]


def _both_scores(fit: FitRecord) -> list[dict[str, Any]]:
    """The best items with covariates held equal and as they are."""
    items = fit.item_table
    if "score_as_is" not in items:
        return []
    as_is = items["score_as_is"]
    rank = np.empty(len(as_is), np.int64)
    rank[np.argsort(-as_is, kind="stable")] = np.arange(1, len(as_is) + 1)
    best = np.argsort(-items["score"], kind="stable")[:_SHOWN]
    return [
        {"name": label(items["item"][row]), "score": float(items["score"][row]),
         "as_is": float(as_is[row]), "rank_as_is": int(rank[row])}
        for row in best
    ]  # fmt: skip
