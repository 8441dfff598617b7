"""Dimensions of a fit in tables, in the summary and in words.

Workers give different weights to a dimension after the first. Its sign is arbitrary.
"""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np

from crowdsift.models.dimensions import DimensionEstimate
from crowdsift.numeric import Mask, Vector
from crowdsift.numeric.distributions import limits
from crowdsift.results.build import FitBuilder
from crowdsift.results.fit import Fit
from crowdsift.results.words import count, item_label, label, many, shortened

_NAMED = 3  # items and workers named in a sentence
_LONGEST = 40  # characters of a label in a sentence
_OPPOSITE = {"more": "less", "less": "more"}
_CORRELATED = 0.5  # least correlation at which a dimension is named after a feature or a covariate
_MOST_FEATURES = 1_000  # most features that are compared with a dimension
_DIRECTIONS = {
    "common": "Scores are positions along the direction on which voters agree",
    "gold": "Scores are positions along the direction of the gold pairs",
    "trusted": "Scores are positions along the direction of the trusted votes",
}
NO_COMMON = (
    "there is no common ranking: voters agree on no direction. Scores are positions "
    "along one of the dimensions in which voters differ, not an order on which they "
    "agree; gold pairs (--gold, gold=) would say which direction is wanted"
)


def position_columns(found: DimensionEstimate, level: float, unseen: Mask) -> dict[str, Vector]:
    """Return the positions of items with intervals; items without votes have no intervals."""
    columns = _columns("position", found.positions, found.position_covariance, level)
    return {
        name: np.where(unseen & name.endswith(("_lower", "_upper")), np.nan, values) for name, values in columns.items()
    }


def weight_columns(found: DimensionEstimate, level: float) -> dict[str, Vector]:
    """Return weights of workers with intervals, their length, and the probability of being distinct."""
    columns = _columns("weight", found.weights, found.weight_covariance, level)
    return {"p_distinct": found.distinct, **columns, "weight_length": np.linalg.norm(found.weights, axis=1)}


def _columns(kind: str, mean: Vector, covariance: Vector, level: float) -> dict[str, Vector]:
    columns: dict[str, Vector] = {}
    for axis in range(1, mean.shape[1]):
        ends = limits(mean[:, axis], np.sqrt(covariance[:, axis, axis]), level)
        names = (f"{kind}_{axis + 1}{end}" for end in ("", "_lower", "_upper"))
        columns |= dict(zip(names, (mean[:, axis], *ends), strict=True))
    return columns


def dimension_summary(fitted: FitBuilder) -> dict[str, Any]:
    """Return the entry of dimensions in `summary.json`."""
    found = fitted.estimate.dimensions
    assert found is not None
    return {
        "dimensions": found.count,
        "direction": found.direction,
        "has_common": bool(found.has_common or found.direction != "common"),
        "dimension_names": _names(fitted, found),
        "trials": [
            {name: value if isfinite(value) else None for name, value in each._asdict().items()}
            for each in found.trials
        ],
    }


def _names(fitted: FitBuilder, found: DimensionEstimate) -> list[str | None]:
    """Return what each dimension after the first correlates with; None if nothing is known."""
    known = [(name, values) for name, values in _item_values(fitted) if values.std() > 0.0]
    names: list[str | None] = []
    for axis in range(1, found.count):
        at = found.positions[:, axis]
        r = [float(np.corrcoef(at, values)[0, 1]) if at.std() else 0.0 for _, values in known]
        best = int(np.argmax(np.abs(r))) if r else -1
        clear = best >= 0 and abs(r[best]) >= _CORRELATED
        names.append(f"{'more' if r[best] > 0 else 'less'} {known[best][0]}" if clear else None)
    return names


def _item_values(fitted: FitBuilder) -> Iterator[tuple[str, Vector]]:
    votes = fitted.votes
    blocks = () if votes.item_features is None else votes.item_features.blocks
    for block in blocks:
        if len(block.names) <= _MOST_FEATURES and block.kind != "ngrams":
            yield from zip(block.names, block.values.T.astype(np.float64), strict=True)
    if votes.features is not None:
        k = votes.n_items
        number = np.bincount(votes.first, minlength=k) + np.bincount(votes.second, minlength=k)
        for name, column in zip(votes.feature_names, votes.features.T, strict=True):
            total = np.bincount(votes.first, column, k) - np.bincount(votes.second, column, k)
            yield name, total / np.maximum(number, 1)


def direction_sentence(fit: Fit) -> str:
    """Return the sentence on the reported direction; empty if there is one dimension."""
    s = fit.summary
    if s.get("dimensions", 1) == 1:
        return ""
    if not s["has_common"]:
        return f"{NO_COMMON[0].upper()}{NO_COMMON[1:]}."
    others = many(s["dimensions"] - 1, "further dimension")
    return f"{_DIRECTIONS[s['direction']]}; workers also weigh {others}."


def dimension_sentences(fit: Fit) -> list[str]:
    """Return one sentence per further dimension: who weighs it, which items gain, its worth."""
    summary, sentences = fit.summary, []
    losses = {each["dimensions"]: each["left_out_loss"] for each in summary.get("trials", ())}
    for number in range(2, summary.get("dimensions", 1) + 1):
        text = f"Dimension {number}{_who(fit, number, summary['dimension_names'][number - 2])}"
        before, after = losses.get(number - 1), losses.get(number)
        if before is not None and after is not None:
            text += (
                f" With {count(number)} dimensions instead of {count(number - 1)} the log loss of left-out votes is "
                f"{after:.4f} instead of {before:.4f}."
            )
        sentences.append(text)
    return sentences


def _who(fit: Fit, number: int, name: str | None) -> str:
    """Return the name of a dimension and who weighs it, for the end that most workers prefer."""
    items, workers = fit.item_table, fit.worker_table
    at = items[f"position_{number}"].astype(np.float64)
    up = workers[f"weight_{number}_lower"] > 0.0
    down = workers[f"weight_{number}_upper"] < 0.0
    if down.sum() > up.sum():
        up, down, at = down, up, -at
        name = name and " ".join([_OPPOSITE[name.split(" ")[0]], *name.split(" ")[1:]])
    named = f" ({name}): " if name else ": "
    order = np.argsort(-at, kind="stable")
    most = min(_NAMED, len(at) // 2)
    names = [shortened(item_label(each, fit.summary.get("by")), _LONGEST) for each in fit.labels]
    high, low = (_listed([names[i] for i in some]) for some in (order[:most], order[::-1][:most]))
    if not up.any():
        return f"{named}no worker clearly weighs it; it sets {high} apart from {low}."
    size = np.abs(workers[f"weight_{number}"].astype(np.float64))
    first = np.flatnonzero(up)[np.argsort(-size[up], kind="stable")]
    who = [shortened(label(workers["worker"][row]), _LONGEST) for row in first[:_NAMED].tolist()]
    more = f" and {many(len(first) - _NAMED, 'other')}" if len(first) > _NAMED else ""
    other = f", {many(int(down.sum()), 'worker')} the other way round" if down.any() else ""
    favour = "gives" if len(first) == 1 else "give"
    return (
        f"{named}{count(len(first))} of {many(workers.height, 'worker')} ({_listed(who, not more)}{more}) "
        f"{favour} more to {high} than to {low}{other}."
    )


def _listed(names: list[str], end: bool = True) -> str:
    if len(names) < 2 or not end:
        return ", ".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
