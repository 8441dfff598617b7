"""Make the tables of docs/research/quality.md from the CSV files in docs/research/results.

``python -m docs.quality_tables`` writes them between their marks, after `crowdsift reproduce results` has written the
means; a test holds the page equal to them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev

FOLDER = Path(__file__).resolve().parent
PAGE = FOLDER / "research" / "quality.md"
EIGHT = ("bt", "rank-centrality", "crowd-bt", "factor-bt", "barp", "htcv", "hbtl", "bora-em")
_CELLS = [
    (data, kind, percent)
    for data in ("passage", "faceage_subset")
    for kind in ("random", "left", "adversarial", "combined")
    for percent in (10, 40, 80)
]

Row = dict[str, str]


def rows(name: str) -> list[Row]:
    """Return the rows of a table."""
    path = FOLDER / "research" / "results" / f"{name}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def means(name: str) -> list[Row]:
    """Return the rows of a table of means."""
    return rows(f"{name}-means")


def synthetic() -> str:
    """Every setting once: the best of the eight, sift, the difference, and the oracle."""
    settings: dict[tuple[str, int, int, int], dict[str, Row]] = {}
    for row in means("synthetic"):
        key = (row["beta"], int(row["items"]), int(row["workers"]), int(row["comparisons"]))
        settings.setdefault(key, {})[row["method"]] = row
    lines = ["beta         K      M       N  best of the eight           sift     gain   oracle"]
    gains = []
    for (beta, items, workers, votes), found in sorted(settings.items()):
        figure = "accuracy_up_to_sign" if beta.startswith("[-") else "accuracy"
        value = {method: float(row[figure]) for method, row in found.items()}
        best = max((name for name in EIGHT if name in value), key=value.__getitem__)
        gains.append(value["sift"] - value[best])
        limit = f"{value['oracle']:9.4f}" if "oracle" in value else ""
        lines.append(
            f"{beta:8s}{items:6d}{workers:7d}{votes:8d}  {best:18s}{value[best]:8.4f}"
            f"{value['sift']:8.4f}{gains[-1]:+9.4f}{limit}"
        )
    lines.append(_gains(gains))
    return "\n".join([_seeds(settings.values()), *lines])


def tuned() -> str:
    """Return the best of the eight at penalties chosen by left-out votes, and sift, on the same crowds.

    From ``synthetic-tuned.csv``, which `benchmarks.quality synthetic --tune` writes.
    """
    crowds: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows("synthetic-tuned"):  # up to sign where β is in [-1, 1]
        crowds.setdefault(_crowd(row), {})[row["method"]] = float(row["accuracy"])
    for row in rows("synthetic"):
        if row["method"] == "sift" and _crowd(row) in crowds:
            figure = "accuracy_up_to_sign" if row["beta"].startswith("[-") else "accuracy"
            crowds[_crowd(row)]["sift"] = float(row[figure])
    seeds = sorted({key[-1] for key in crowds}, key=int)
    settings = sorted({(key[0], *map(int, key[1:-1])) for key in crowds})
    lines = [f"mean accuracy, {len(seeds)} seeds"]
    lines.append("beta         K      M       N  best of eight, tuned      sift     gain")
    gains = []
    for beta, items, workers, votes in settings:
        mine = [crowds[beta, str(items), str(workers), str(votes), seed] for seed in seeds]
        value = {method: sum(each[method] for each in mine) / len(mine) for method in mine[0]}
        best = max(EIGHT, key=value.__getitem__)
        gains.append(value["sift"] - value[best])
        lines.append(
            f"{beta:8s}{items:6d}{workers:7d}{votes:8d}  {best:18s}{value[best]:8.4f}"
            f"{value['sift']:8.4f}{gains[-1]:+9.4f}"
        )
    lines.append(_gains(gains))
    return "\n".join(lines)


def spammers() -> str:
    """Return the table of some amounts of some kinds: four methods as returned."""
    found: dict[tuple[str, str, int], dict[str, Row]] = {}
    for row in means("spammers"):
        key = (row["data"], row["kind"], int(row["percent"]))
        found.setdefault(key, {})[row["method"]] = row
    shown = [key for key in _CELLS if key in found]
    methods = ("sift", "crowd-bt", "bt", "bora-em")
    head = f"{'data':16s}{'kind':13s}{'%':>4s}" + "".join(f"{name:>10s}" for name in methods)
    kept = [{m: row for m, row in found[key].items() if m in methods} for key in shown]
    lines = [_seeds(kept), head]
    for key in shown:
        values = [f"{float(found[key][m]['accuracy']):10.4f}" if m in found[key] else f"{'':10s}" for m in methods]
        lines.append(f"{key[0]:16s}{key[1]:13s}{key[2]:4d}{''.join(values)}".rstrip())
    return "\n".join(lines)


def spammers_tuned() -> str:
    """Three rivals at penalties chosen by left-out votes, and sift, on the same votes.

    From ``spammers-tuned.csv``, which `benchmarks.paper_gpu table` writes: the seeds of a cell with all of its fits.
    The standard error is that of the mean of differences, seed by seed.
    """
    rivals = ("crowd-bt", "bt", "bora-em")
    found: dict[tuple[str, str, int], dict[str, dict[str, float]]] = {}
    for row in (*rows("spammers-tuned"), *rows("spammers")):
        key = (row["data"], row["kind"], int(row["percent"]))
        if "penalty" in row or (row["method"] == "sift" and key in found):
            mine = found.setdefault(key, {}).setdefault(row["seed"], {})
            mine[row["method"]] = float(row["accuracy"])
    names = "".join(f"{name:>10s}" for name in ("sift", *rivals))
    lines = [f"{'data':16s}{'kind':13s}{'%':>4s}{names}  sift - best of the three (s.e.)"]
    gains, errors, counts = [], [], set()
    for key in (each for each in _CELLS if each in found):
        whole = [seed for seed in found[key].values() if len(seed) == len(rivals) + 1]
        if len(whole) < 2:
            continue
        counts.add(len(whole))
        value = {name: fmean(seed[name] for seed in whole) for name in ("sift", *rivals)}
        best = max(rivals, key=value.__getitem__)
        differences = [seed["sift"] - seed[best] for seed in whole]
        gains.append(fmean(differences))
        errors.append(stdev(differences) / len(whole) ** 0.5)
        figures = "".join(f"{value[name]:10.4f}" for name in value)
        against = f"{gains[-1]:+9.4f} ({errors[-1]:.4f}) {best}"
        lines.append(f"{key[0]:16s}{key[1]:13s}{key[2]:4d}{figures}{against}")
    above = sum(gain > 2 * error for gain, error in zip(gains, errors, strict=True))
    below = sum(-gain > 2 * error for gain, error in zip(gains, errors, strict=True))
    lines.append(
        f"by more than two standard errors sift is above the best of the three in {above} of "
        f"{len(gains)}, below in {below}; gains {min(gains):+.4f} to {max(gains):+.4f}"
    )
    return "\n".join([f"mean accuracy, {_span(counts)} seeds", *lines])


def _crowd(row: Row) -> tuple[str, ...]:
    return tuple(row[each] for each in ("beta", "items", "workers", "comparisons", "seed"))


def _gains(gains: list[float]) -> str:
    return (
        f"at least the best - .001 in {sum(gain >= -0.001 for gain in gains)} of {len(gains)}, "
        f"better by .005 in {sum(gain >= 0.005 for gain in gains)}; smallest gain {min(gains):+.4f}"
    )


def _seeds(settings: Iterable[dict[str, Row]]) -> str:
    """How many seeds the means are of, method by method where these differ."""
    counts: dict[str, set[int]] = {}
    for found in settings:
        for method, row in found.items():
            counts.setdefault(method, set()).add(int(row["seeds"]))
    if len({frozenset(each) for each in counts.values()}) == 1:
        return f"mean accuracy, {_span(next(iter(counts.values())))} seeds"
    result = ", ".join(f"{method} {_span(each)}" for method, each in counts.items())
    return f"mean accuracy; seeds: {result}"


def _span(counts: set[int]) -> str:
    return f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


TABLES = {"synthetic": synthetic, "tuned": tuned, "spammers": spammers, "spammers-tuned": spammers_tuned}


def written(name: str, page: str) -> str:
    """Return what stands between the marks of a table."""
    found = re.search(rf"<!-- {name}: .*? -->\n```\n(.*?)\n```\n<!-- {name} end -->", page, re.S)
    if found is None:
        raise ValueError(f"docs/research/quality.md has no marks of {name}")
    return found[1]


def main() -> None:
    """Write all tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    for name, make in TABLES.items():
        page = page.replace(f"\n{written(name, page)}\n```\n<!-- {name} end", f"\n{make()}\n```\n<!-- {name} end")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
