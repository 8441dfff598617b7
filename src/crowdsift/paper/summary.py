"""Means over seeds, the best methods, and comparison with the paper's figures."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crowdsift.lab import datasets
from crowdsift.paper.base import DEFAULT, EIGHT, FIGURES, METRICS, Record

MARGIN = 0.001  # accuracies closer than this are a tie

# For these methods the paper chooses the sign of the scores by the truth, so their published figures are up to sign;
# for the other three they are as returned.
_TURNED = ("crowd-bt", "factor-bt", "htcv", "hbtl", "bora-em", DEFAULT)

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Cell:
    """The figures of one method on one setting, over its seeds."""

    values: dict[str, list[float]]

    @property
    def seeds(self) -> int:
        return max((len(found) for found in self.values.values()), default=0)

    def mean(self, figure: str) -> float:
        """Return the mean over seeds; NaN if there is none."""
        found = self.values.get(figure, [])
        return math.fsum(found) / len(found) if found else math.nan

    def sd(self, figure: str) -> float:
        """Return the standard deviation over seeds; NaN for fewer than two."""
        found = self.values.get(figure, [])
        if len(found) < 2:
            return math.nan
        mean = self.mean(figure)
        return math.sqrt(math.fsum((x - mean) ** 2 for x in found) / (len(found) - 1))

    def standard_error(self, figure: str) -> float:
        return self.sd(figure) / math.sqrt(max(len(self.values.get(figure, [])), 1))


def cells(records: Iterable[Record]) -> dict[Key, dict[str, Cell]]:
    """Return cells by setting without its seed, in the order of the records, then by method."""
    found: dict[Key, dict[str, Cell]] = {}
    for record in records:
        key = tuple(value for name, value in record["setting"].items() if name != "seed")
        cell = found.setdefault(key, {}).setdefault(record["method"], Cell({}))
        for name, value in record["figures"].items():
            if value is not None:
                cell.values.setdefault(name, []).append(float(value))
    return found


def seeds_text(found: dict[Key, dict[str, Cell]]) -> str:
    """Return a sentence on the number of seeds behind the means, and on their standard errors."""
    by_text: dict[str, list[str]] = {}
    for method in dict.fromkeys(name for methods in found.values() for name in methods):
        mine = [methods[method] for methods in found.values() if method in methods]
        counts = sorted(cell.seeds for cell in mine)
        errors = [cell.standard_error(like_published(method, "accuracy")) for cell in mine]
        errors = sorted(error for error in errors if not math.isnan(error))
        few, many = counts[0], counts[-1]
        seeds = f"{many} seed{'s' * (many > 1)}" if few == many else f"{few} to {many} seeds"
        where = "" if len(mine) == len(found) else f" in {len(mine)} of {len(found)} settings"
        error = f", {errors[len(errors) // 2]:.4f}".replace("0.", ".") if errors else ""
        by_text.setdefault(f"{seeds}{where}{error}", []).append(method)
    parts = "; ".join(f"{', '.join(methods)} {words}" for words, methods in by_text.items())
    return f"Seeds, and the standard error of a mean (median over settings): {parts}.\n"


def like_published(method: str, metric: str) -> str:
    """Return our figure that corresponds to the paper's."""
    return f"{metric}_up_to_sign" if method in _TURNED else metric


def mean_rows(
    found: dict[Key, dict[str, Cell]],
    names: Sequence[str],
    published: Callable[[Key, str, str], tuple[float, float] | None],
) -> list[dict[str, Any]]:
    """Return one row per setting and method: means, deviations, and the published figure."""
    # `published` returns the mean and the standard deviation (or NaN) of a metric.
    rows = []
    for key, methods in found.items():
        for method, cell in methods.items():
            row = dict(zip(names, key, strict=True)) | {"method": method, "seeds": cell.seeds}
            for figure in FIGURES:
                row[figure] = cell.mean(figure)
            for metric in METRICS:
                row[f"{metric}_sd"] = cell.sd(like_published(method, metric))
                theirs = published(key, method, metric)
                row[f"{metric}_published"] = theirs[0] if theirs else math.nan
                ours = cell.mean(like_published(method, metric))
                row[f"{metric}_difference"] = ours - theirs[0] if theirs else math.nan
            rows.append(row)
    return rows


@dataclass(frozen=True)
class Standing:
    """The number of settings in which our default beats, ties with and loses to the best of the eight."""

    beats: int = 0
    ties: int = 0
    loses: int = 0

    def __str__(self) -> str:
        return f"beats {self.beats}, ties {self.ties}, loses {self.loses}"

    @property
    def settings(self) -> int:
        return self.beats + self.ties + self.loses


def standing(
    found: dict[Key, dict[str, Cell]], figure: str | Callable[[Key], str] = "accuracy", rivals: Sequence[str] = EIGHT
) -> Standing:
    """Compare the means, setting by setting; the best rival is chosen after the fact."""
    counts = {"beats": 0, "ties": 0, "loses": 0}
    for key, methods in found.items():
        name = figure if isinstance(figure, str) else figure(key)
        known = [methods[m].mean(name) for m in rivals if m in methods]
        known = [value for value in known if not math.isnan(value)]
        ours = methods[DEFAULT].mean(name) if DEFAULT in methods else math.nan
        if not known or math.isnan(ours):
            continue
        gain = ours - max(known)
        verdict = "beats" if gain > MARGIN else "loses" if gain < -MARGIN else "ties"
        counts[verdict] += 1
    return Standing(**counts)


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
_SEEDS = 10  # seeds of the paper's means


class Published:
    """One table of the paper, by some of its columns and the method."""

    def __init__(self, table: str, columns: Sequence[str], data: Path | None) -> None:
        rows = datasets.published(table, data)
        self.there = rows is not None
        self._rows = {(tuple(row[c] for c in columns), _METHODS[row["method"]]): row for row in rows or []}

    def figure(self, key: Key, method: str, metric: str) -> tuple[float, float] | None:
        """Return mean and standard deviation, NaN if none was published."""
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
        """Return our mean minus the published one, in standard errors of the difference."""
        theirs = self.figure(key, method, metric)
        if theirs is None:
            return math.nan
        name = like_published(method, metric)
        error = math.hypot(cell.standard_error(name), theirs[1] / math.sqrt(_SEEDS))
        return (cell.mean(name) - theirs[0]) / error if error > 0 else math.nan
