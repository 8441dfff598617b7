"""The shapes of votes that people have, timed: leaderboards, preferences, crowds, many votes.

Run with ``python -m benchmarks.shapes --against REVISION``: every case by this version and by another revision in turn,
with the ratio of their medians. Without ``--against`` this version alone. ``--rounds 1 --longest 30`` takes some five
minutes where the other revision is already installed. Runs in the environment that users have: no variable that sets
the threads of BLAS. Writes bench-output/shapes.md and shapes.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import samples, side_by_side
from benchmarks.data import OUTPUT, data_folder, stored
from benchmarks.peers import run_adapter
from benchmarks.side_by_side import LIMITS, Row, command, fits, in_turn, show
from benchmarks.versions import Version, here, other

THREADS = 2


def real_shapes(versions: Sequence[Version]) -> list[Row]:
    """Leaderboards and crowds with ties and sides, and the plain model on the same votes."""
    data = data_folder()
    cases = {
        "arena, ties and sides": {"file": str(samples.arena())},
        "arena --by language": {"file": str(samples.arena()), "by": "language"},
        "arena without ties and sides": {"file": str(samples.arena_plain())},
        "llmfao": {"file": str(data / "llmfao.csv")},
        "wmt13_fren": {"file": str(data / "wmt13_fren.csv.gz")},
        "mtbench": {"file": str(data / "mtbench.csv")},
    }
    return [_fitted(versions, name, votes) for name, votes in cases.items()]


def _fitted(versions: Sequence[Version], name: str, votes: Row, method: str = "sift", rounds: int = 3) -> Row:
    request = {"method": method, "threads": THREADS, "repeats": 1, **votes}
    return in_turn(name, versions, lambda version: fits(version, request), rounds)


def cost_of_ties_and_sides(rows: Sequence[Row], version: Version) -> list[Row]:
    """Return a pass and a fit with ties and sides, in units of the plain model's, vote for vote."""
    full, plain = (
        next((row for row in rows if row["case"] == name), {})
        for name in ("arena, ties and sides", "arena without ties and sides")
    )
    seconds, passes = f"seconds {version.name}", f"passes {version.name}"
    if seconds not in full or seconds not in plain:
        return []
    times = full[seconds] / plain[seconds]
    each = times * plain[passes] / full[passes]
    return [{"version": version.name, "a pass": each, "a fit": times}]


def convergence(version: Version, seeds: int) -> list[Row]:
    """Arena samples of so many seeds: iterations, and whether each converged."""
    rows = []
    for seed in range(1, seeds + 1):
        request = {"file": str(samples.arena(seed)), "method": "sift", "threads": THREADS, "repeats": 1}
        measured = fits(version, request)
        keys = ("iterations", "converged", "seconds", "note")
        rows.append({"seed": seed, **{key: measured.get(key) for key in keys}})
    return rows


def commands(versions: Sequence[Version]) -> list[Row]:
    """Whole commands on preferences in islands, from the file to the written folder."""
    table = samples.preferences()
    written = table.with_suffix(".jsonl")  # by the tool itself; older versions do not read it
    cases: tuple[tuple[str, Sequence[Version], Path, tuple[str, ...]], ...] = (
        ("trl", versions, table, ()),
        ("trl --by prompt", versions, table, ("--by", "prompt")),
        ("trl.jsonl", versions[:1], written, ()),
    )
    rows = []
    for name, compared, path, more in cases:

        def run(version: Version, path: Path = path, more: tuple[str, ...] = more) -> Row:
            with tempfile.TemporaryDirectory() as folder:
                words = ("fit", path, *more, "--out", Path(folder) / "fit", "--quiet")
                return command(version, (*words, "--threads", THREADS))

        rows.append(in_turn(name, compared, run, rounds=2))
    return rows


def rivals(versions: Sequence[Version]) -> list[Row]:
    """Bt with intervals on the arena sample beside evalica (scores alone) and arena-rank."""
    path = samples.arena()
    request = {"file": str(path), "method": "bt", "threads": THREADS, "repeats": 7}
    rows = [in_turn("crowdsift bt", versions, lambda version: fits(version, request), rounds=5)]
    with path.open(newline="", encoding="utf-8") as file:
        votes = list(csv.DictReader(file))
    codes = {label: code for code, label in enumerate(sorted({v["left"] for v in votes}))}
    left, right = (np.array([codes[v[side]] for v in votes]) for side in ("left", "right"))
    won = np.array([v["winner"] != "right" for v in votes])
    arrays = {
        "winner": np.where(won, left, right),
        "loser": np.where(won, right, left),
        "tie": np.array([v["winner"] == "tie" for v in votes]),
        "items": np.array(len(codes)),
        "intervals": np.array(True),
    }
    for peer, name in (("evalica", "evalica, scores alone"), ("arena-rank", "arena-rank")):
        found = [run_adapter(peer, arrays) for _ in range(min(3, LIMITS["rounds"]))]
        seconds = [float(str(result["seconds"])) for result in found if "seconds" in result]
        row: Row = {"case": name}
        if seconds:
            row[f"seconds {versions[0].name}"] = statistics.median(seconds)
        else:
            row["note"] = found[0].get("note")
        rows.append(row)
    return rows


def many_votes(versions: Sequence[Version], sizes: Sequence[str]) -> list[Row]:
    """Plain sift on simulated votes: seconds and the peak of memory beside the votes."""
    return [_fitted(versions, f"sift, {size} votes", {"arrays": str(stored(size))}, rounds=2) for size in sizes]


def threads(version: Version, sizes: Sequence[str]) -> list[Row]:
    """Return what a second thread brings, beside what a second process brings a spinning loop."""
    rows = []
    for size in sizes:
        for method in ("bt", "bora-map", "sift"):
            row: Row = {"votes": size, "method": method}
            taken: dict[int, list[float]] = {1: [], 2: []}
            times = min(2, LIMITS["rounds"])
            for _ in range(times):
                for count in taken:
                    measured = fits(
                        version, {"arrays": str(stored(size)), "method": method, "threads": count, "repeats": times}
                    )
                    taken[count].append(measured.get("seconds", float("nan")))
            one, two = (statistics.median(taken[count]) for count in (1, 2))
            row |= {"one thread": one, "two threads": two, "times": one / two}
            row["two processes spinning"] = side_by_side.spin_gain()
            rows.append(row)
    return rows


def main() -> None:
    """Measure what is requested; print and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", help="another revision of this repository")
    parser.add_argument("--only", default="real,commands,rivals,many,threads,seeds")
    parser.add_argument("--sizes", default="1e6,1e7")
    parser.add_argument("--seeds", type=int, default=10, help="arena samples for convergence")
    parser.add_argument("--rounds", type=int, default=5, help="at most so many of a case")
    parser.add_argument("--longest", type=int, default=600, help="seconds that a run may take")
    options = parser.parse_args()
    LIMITS.update(seconds=options.longest, rounds=options.rounds)
    wanted, sizes = options.only.split(","), options.sizes.split(",")
    versions = [here(), *([other(options.against)] if options.against else [])]
    busy = side_by_side.load()
    OUTPUT.mkdir(exist_ok=True)
    report: dict[str, list[Row]] = {}
    parts: dict[str, tuple[str, Callable[[], list[Row]]]] = {
        "real": ("Leaderboards and crowds", lambda: real_shapes(versions)),
        "commands": ("Whole commands on preferences", lambda: commands(versions)),
        "rivals": ("bt with intervals beside others", lambda: rivals(versions)),
        "many": ("Plain sift on many votes", lambda: many_votes(versions, sizes)),
        "threads": ("What a second thread brings", lambda: threads(versions[0], sizes)),
        "seeds": ("Arena samples of other seeds", lambda: convergence(versions[0], options.seeds)),
    }
    head = (
        f"# Shapes\n\n{busy}. {THREADS} threads; medians of runs in turn, each in a process of its "
        "own. No variable sets the threads of BLAS: the environment that users have.\n"
    )
    for key in wanted:
        title, measure = parts[key]
        report[title] = measure()
        if key == "real":
            cost = [r for v in versions for r in cost_of_ties_and_sides(report[title], v)]
            report["Ties and sides, in units of the plain model"] = cost
        page = "\n".join([head, *(show(name, rows) for name, rows in report.items())])
        (OUTPUT / "shapes.md").write_text(page)
        (OUTPUT / "shapes.json").write_text(json.dumps(report, indent=2))
    print((OUTPUT / "shapes.md").read_text())


if __name__ == "__main__":
    main()
