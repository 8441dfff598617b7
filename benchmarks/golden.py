"""Fits of this version beside those of another revision: scores, intervals, ranks and verdicts.

Run with ``python -m benchmarks.golden --against REVISION``. Every method is fitted to real data and to samples, with
and without contexts, covariates, features and dependent votes. Each version runs in its own process. The table gives
the largest difference in standard deviations of the scores, and the number of ranks and verdicts that differ. The
command exits with 1 if a difference of scores or limits is above ``--tolerance``, or if a verdict or rank differs.
``--plain`` is for comparing with a version without several dimensions and pooled contexts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("bt", "rank-centrality", "crowd-bt", "factor-bt", "barp", "htcv", "hbtl", "bora-em", "bora-map", "sift")
NUMBERS = ("score", "lower", "upper", "reliability", "side_bias")


def cases(data: Path, samples: Path, longest: int) -> dict[str, dict[str, Any]]:
    """Return the arguments of `crowdsift.fit` for every case, by name."""
    files = {
        name: str(data / f"{name}.csv") for name in ("passage", "faceage_subset", "llmfao", "mtbench", "lightfield")
    }
    files["wmt13"] = str(data / "wmt13_fren.csv.gz")
    files |= {"arena": str(samples / "arena.jsonl"), "trl": str(samples / "trl.jsonl")}
    found: dict[str, dict[str, Any]] = {}
    for name, path in files.items():
        slow = () if name not in ("faceage_subset", "wmt13") or longest > 1 else ("htcv", "hbtl")
        for method in METHODS:
            if method not in slow and method != "barp":
                found[f"{method} {name}"] = {"votes": path, "method": method}
    llmfao = str(data / "llmfao_covariates.csv")
    passage = {"votes": files["passage"], "method": "sift"}
    found |= {
        "barp llmfao": {"votes": files["llmfao"], "method": "barp", "classes": f"{data / 'llmfao_items.csv'}:org"},
        "sift arena by language": {"votes": files["arena"], "method": "sift", "by": "language"},
        "bt arena by language": {"votes": files["arena"], "method": "bt", "by": "language"},
        "bora-map arena by language": {"votes": files["arena"], "method": "bora-map", "by": "language"},
        "sift trl by prompt": {"votes": files["trl"], "method": "sift", "by": "prompt"},
        "sift lightfield by scene": {"votes": files["lightfield"], "method": "sift", "by": "scene"},
        "sift llmfao covariates": {"votes": llmfao, "method": "sift", "covariates": ["chars"]},
        "sift mtbench dependent": {"votes": files["mtbench"], "method": "sift", "dependent_by": "question"},
        "sift wmt13 dependent": {"votes": files["wmt13"], "method": "sift", "dependent_by": "task"},
        "sift passage text": {**passage, "item_text": f"{data / 'passage_items.csv'}:text"},
        "bora-map passage text": {**passage, "method": "bora-map", "item_text": f"{data / 'passage_items.csv'}:text"},
        "sift faceage features": {
            "votes": files["faceage_subset"],
            "method": "sift",
            "items": f"{data / 'faceage_items.csv'}:gender",
        },
    }
    return found


def write(target: Path, requests: dict[str, dict[str, Any]]) -> None:
    """Fit every case with the version that runs this process, and write what is compared."""
    import crowdsift

    warnings.simplefilter("ignore")
    result: dict[str, dict[str, Any]] = {}
    for name, request in requests.items():
        given = dict(request)
        votes, plain = given.pop("votes"), given.pop("plain", False)
        if plain and given["method"] == "sift" and hasattr(crowdsift.Sift, "dimensions"):
            given |= {"dimensions": 1, **({"pooling": "none"} if "by" in given else {})}
        try:
            fit = crowdsift.fit(votes, threads=2, **given)
        except crowdsift.CrowdsiftError as error:
            result[name] = {"error": str(error)}
            continue
        values: dict[str, list[Any]] = {}
        for kind, frame in (("items", fit.items), ("workers", fit.workers)):
            for column in frame:
                if column in NUMBERS or column in ("rank", "verdict"):
                    values[f"{kind}.{column}"] = np.asarray(frame[column]).tolist()
        order = np.argsort([str(item) for item in fit.items["item"]], kind="stable")
        for key in [key for key in values if key.startswith("items.")]:
            values[key] = [values[key][place] for place in order]
        result[name] = values
        print(".", end="", file=sys.stderr, flush=True)
    target.write_text(json.dumps(result))


def difference(one: dict[str, Any], two: dict[str, Any]) -> tuple[float, int]:
    """Return the largest difference of numbers in standard deviations, and the words that differ.

    Items and their limits are measured in standard deviations of the scores, workers in those of the reliabilities.
    """
    if "error" in one or "error" in two:
        return 0.0, int(one.get("error") != two.get("error"))
    largest, words = 0.0, 0
    for key in sorted(set(one) | set(two)):
        if key not in one or key not in two or len(one[key]) != len(two[key]):
            words += 1
            continue
        if key.endswith((".verdict", ".rank")):
            words += sum(a != b for a, b in zip(one[key], two[key], strict=True))
            continue
        a, b = (np.array(each[key], dtype=float) for each in (one, two))
        unit_of = "items.score" if key.startswith("items.") else "workers.reliability"
        unit = np.nanstd(np.array(one.get(unit_of, [1.0]), dtype=float)) if a.size else 1.0
        words += int((np.isnan(a) != np.isnan(b)).sum())
        apart = np.abs(a - b)[~np.isnan(a) & ~np.isnan(b) & (a != b)]
        if apart.size:
            largest = max(largest, float(apart.max()) / (unit if unit > 0 else 1.0))
    return largest, words


def main() -> int:
    """Fit all cases with both versions and print the table."""
    from benchmarks import samples as made
    from benchmarks.data import data_folder
    from benchmarks.versions import here, other

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", required=True, help="another revision of this repository")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="leave out the slowest fits")
    parser.add_argument("--plain", action="store_true", help="sift in one dimension, every context alone")
    options = parser.parse_args()
    folder = made.arena().parent
    requests = {
        name: {**request, "plain": options.plain}
        for name, request in cases(data_folder(), folder, 0 if options.quick else 2).items()
        if options.only in name
    }
    found = []
    for version in (here(), other(options.against)):
        with tempfile.TemporaryDirectory() as name:
            target = Path(name) / "fits.json"
            words = [version.python, Path(__file__), target, json.dumps(requests)]
            environment = dict(version.environment)
            subprocess.run([str(word) for word in words], env=environment, check=True)
            found.append(json.loads(target.read_text()))
    print(f"\n| fit | largest difference, sd | ranks and verdicts that differ |\n{'|---' * 3}|")
    failed = 0
    for name in requests:
        largest, differing = difference(found[0][name], found[1][name])
        note = f" ({found[0][name]['error'][:60]})" if "error" in found[0][name] else ""
        print(f"| {name}{note} | {largest:.1e} | {differing} |")
        failed += largest > options.tolerance or differing > 0
    print(f"\n{len(requests)} fits, {failed} differ by more than {options.tolerance:g}")
    return int(failed > 0)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].startswith("{"):
        write(Path(sys.argv[1]), json.loads(sys.argv[2]))
    else:
        sys.exit(main())
