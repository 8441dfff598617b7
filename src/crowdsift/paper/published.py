"""The paper's figures, beside which ours are put."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from crowdsift.lab import datasets
from crowdsift.paper.summary import Cell, Key, like_published

MISSING = "The published figures are not there (set CROWDSIFT_REFERENCE to their folder), so ours stand alone.\n"

# The methods and metrics by their names in the paper's tables.
_METHODS = {
    "BT": "bt",
    "RC": "rank-centrality",
    "CrowdBT": "crowd-bt",
    "FactorBT": "factor-bt",
    "BARP": "barp",
    "HTCV": "htcv",
    "HBTL": "hbtl",
    "BoRaEM": "bora-em",
}
_METRICS = {"accuracy": "acc", "weighted_accuracy": "wacc", "kendall_tau": "tau"}
_SEEDS = 10  # over which its means were taken


class Published:
    """One table of the paper, by some of its columns and the method."""

    def __init__(self, table: str, columns: Sequence[str], data: Path | None) -> None:
        rows = datasets.published(table, data)
        self.there = rows is not None
        self._rows = {(tuple(row[c] for c in columns), _METHODS[row["method"]]): row for row in rows or []}

    def figure(self, key: Key, method: str, metric: str) -> tuple[float, float] | None:
        """Mean and standard deviation (NaN where none was published)."""
        row = self._rows.get((tuple(str(part) for part in key), method))
        name = _METRICS[metric]
        if row is None or not row[name]:
            return None
        return float(row[name]), float(row.get(f"{name}_sd") or "nan")

    def mean(self, key: Key, method: str, metric: str = "accuracy") -> float | None:
        """Return the mean alone."""
        found = self.figure(key, method, metric)
        return None if found is None else found[0]

    def distance(self, key: Key, method: str, cell: Cell, metric: str = "accuracy") -> float:
        """Our mean minus the published one, in standard errors of the difference."""
        theirs = self.figure(key, method, metric)
        if theirs is None:
            return math.nan
        name = like_published(method, metric)
        error = math.hypot(cell.standard_error(name), theirs[1] / math.sqrt(_SEEDS))
        return (cell.mean(name) - theirs[0]) / error if error > 0 else math.nan
