"""One table of our methods and the libraries people use: seconds, passes, memory, likelihood.

Run with ``python -m benchmarks.table [--large] [--quick]``; `make bench` does. Writes bench-output/bench.json and
bench-output/bench.md: the table, how time and memory grow with the votes, what a second thread brings beside the
machine's own stream benchmark, and a roofline page. Every fit runs in a process of its own. With ``--against REVISION``
only our own rows, by this version and that one in turn: bench-output/against.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import end_to_end, peers, roofline, side_by_side
from benchmarks.data import OUTPUT, REAL, stored, votes_of
from benchmarks.versions import Version, here, other
from crowdsift import BradleyTerry
from crowdsift.numeric.threads import available_threads

Row = dict[str, Any]
METHODS = ("bt", "bora-map", "bora-em", "sift")
SIZES = ("1e5", "1e6", "1e7")
COLUMNS = (
    *("data", "library", "method", "threads", "seconds", "solve", "processor", "iterations"),
    *("passes", "peak_memory", "mean_log_likelihood", "times_ours", "yardstick_behind_ours"),
    "note",
)
LONGEST = 1800  # seconds that one of our fits may take


def ours(name: str, method: str, threads: int) -> Row:
    """One row of ours, from a process of its own."""
    folder = stored(name)
    quick = name == "1e6" or method in ("bt", "bora-map")
    repeats = 5 if name in (*REAL, "1e5") else 2 if quick else 1
    command = [sys.executable, "-m", "benchmarks.measure", folder, method, threads, repeats]
    try:
        run = subprocess.run(
            [str(word) for word in command], check=True, capture_output=True, text=True, timeout=LONGEST
        )
    except subprocess.TimeoutExpired:
        return {"data": name, "method": method, "threads": threads, "note": f"over {LONGEST} s"}
    except subprocess.CalledProcessError as error:
        note = error.stderr.strip().splitlines()[-1][:90] if error.stderr else "failed"
        return {"data": name, "method": method, "threads": threads, "note": note}
    return {"data": name, **json.loads(run.stdout)}


def rivals(name: str, rows: list[Row], longest: int) -> list[Row]:
    """Return the libraries on the same votes, beside our bt of the same run."""
    votes = votes_of(stored(name))
    mine = next((r for r in rows if r["data"] == name and r["method"] == "bt"), {})
    pooled, found = votes.pooled(), []
    reached = peers.ours(votes, BradleyTerry(penalty=peers.PENALTY))
    best = peers.yardstick(pooled, np.asarray(reached["scores"]))
    for peer in peers.PEERS:
        if peer == "crowd-kit":  # another model; see benchmarks.peers
            continue
        result = peers.run_peer(peer, votes, longest)
        row: Row = {"data": name, "library": peer, "method": "bt", "note": result.get("note", "")}
        if "scores" in result:
            row["seconds"] = result["seconds"]
            if "seconds" in mine:
                row["times_ours"] = peers.seconds_of(result) / mine["seconds"]
            value = peers.yardstick(pooled, np.asarray(result["scores"], dtype=float))
            row["yardstick_behind_ours"] = best - value
        found.append(row)
    return found


def growth(rows: list[Row]) -> list[Row]:
    """Exponents of time and memory in the number of votes, from the generated data."""
    found = []
    for method in METHODS:
        mine = [r for r in rows if r.get("method") == method and r["data"] not in REAL]
        mine = [r for r in mine if "seconds" in r and r.get("library") == "crowdsift"]
        mine = [r for r in mine if r["threads"] == max(each["threads"] for each in mine)]
        if len(mine) < 2:
            continue
        size = np.log([r["comparisons"] for r in mine])
        row: Row = {"method": method, "from": mine[0]["data"], "to": mine[-1]["data"]}
        for measure in ("seconds", "peak_memory"):
            row[measure] = float(np.polyfit(size, np.log([r[measure] for r in mine]), 1)[0])
        last = mine[-1]
        row["bytes_a_comparison"] = last["peak_memory"] / last["comparisons"]
        found.append(row)
    return found


def scaling(rows: list[Row], rates: list[Row]) -> list[Row]:
    """Return what more threads bring, beside the stream benchmark."""
    found = []
    for row in rows:
        alone = [r for r in rows if r["data"] == row["data"] and r["method"] == row["method"] and r.get("threads") == 1]
        if row.get("threads", 1) > 1 and alone and "seconds" in row and "seconds" in alone[0]:
            stream = rates[row["threads"] - 1]["stream"] / rates[0]["stream"]
            found.append(
                {
                    "data": row["data"],
                    "method": row["method"],
                    "threads": row["threads"],
                    "times": alone[0]["seconds"] / row["seconds"],
                    "stream": stream,
                }
            )
    return found


def against(revision: str, names: Sequence[str], methods: Sequence[str]) -> str:
    """Every row of ours by two versions in turn, with the ratio of the medians."""
    versions, busy = [here(), other(revision)], side_by_side.load()
    threads, rows = min(2, available_threads()), []
    for name in names:
        quick = name in (*REAL, "1e5")
        request = {"arrays": str(stored(name)), "threads": threads, "repeats": 3 if quick else 1}
        for method in methods:

            def run(version: Version, method: str = method, request: Row = request) -> Row:
                return side_by_side.fits(version, {**request, "method": method})

            rounds = 5 if quick else 3
            rows.append(side_by_side.in_turn(f"{name} {method}", versions, run, rounds))
    title = f"This version beside {revision}, {busy}; the environment that users have"
    return side_by_side.show(title, rows)


def tables(report: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    machine = report["machine"]
    text = [
        "# Benchmark",
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load']:.1f} at the "
        "start. `solve` is the estimate alone, `seconds` the whole fit with intervals, ranks and "
        "tables, `processor` its time summed over cores; memory is the peak beside the votes.",
        _table(report["rows"], COLUMNS),
        "## Growth",
        "Exponents in the number of votes (1 is linear).",
        _table(report["growth"], ("method", "from", "to", "seconds", "peak_memory", "bytes_a_comparison")),
        "## Threads",
        "`times` is one thread's time over this one's; `stream` the same for the triad a = b + s c of the machine.",
        _table(report["scaling"], ("data", "method", "threads", "times", "stream")),
        "## From a file to the tables",
        "`crowdsift fit` on Parquet with text labels: read, fit, write; the peak of all memory.",
        _table(report["end_to_end"], ("data", "method", "seconds", "fit_seconds", "peak_memory", "note")),
        "## Roofline",
        "Nanoseconds a comparison; the floor is bytes over bandwidth plus gathers and scatters at "
        "the rates below, measured in this run.",
        _table(report["roofline"], ("data", "pass", "threads", "bytes", "nanoseconds", "floor", "ratio")),
        _table(
            [
                {
                    "threads": rate["threads"],
                    "stream GB/s": rate["stream"] / 1e9,
                    "items": entry["items"],
                    "gather ns": 1e9 * entry["gather"],
                    "scatter ns": 1e9 * entry["scatter"],
                }
                for rate in report["rates"]
                for entry in rate["access"]
            ],
            ("threads", "stream GB/s", "items", "gather ns", "scatter ns"),
        ),
    ]
    return "\n\n".join(text) + "\n"


def _table(rows: list[Row], columns: tuple[str, ...]) -> str:
    used = [name for name in columns if any(row.get(name) not in (None, "") for row in rows)]
    lines = ["| " + " | ".join(used) + " |", "|" + "---|" * len(used)]
    lines += ["| " + " | ".join(_cell(name, row.get(name)) for name in used) + " |" for row in rows]
    return "\n".join(lines)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name == "peak_memory" and value > 100:  # bytes, not an exponent
        return f"{value / 1e6:.0f} MB"
    if name == "mean_log_likelihood":
        return f"{value:.6f}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Measure all, print the Markdown, write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="1e8 votes too; 6 GB of memory")
    parser.add_argument("--quick", action="store_true", help="up to 1e6 votes, no rivals")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--rival-seconds", type=int, default=300, help="the longest for a rival")
    parser.add_argument("--against", metavar="REVISION", help="our rows by two versions in turn")
    options = parser.parse_args()
    sizes = SIZES[:2] if options.quick else (*SIZES, "1e8") if options.large else SIZES
    if options.against:
        page = against(options.against, (*REAL, *sizes), options.methods.split(","))
        (OUTPUT / "against.md").write_text(page)
        print(page)
        return
    threads = min(2, available_threads())
    load = os.getloadavg()[0]
    rates = roofline.machine(threads)
    rows: list[Row] = []
    report: dict[str, Any] = {
        "machine": {
            "processor": _processor(),
            "cores": available_threads(),
            "load": load,
            "python": platform.python_version(),
        },
        "rates": rates,
        "rows": rows,
        "roofline": [],
        "end_to_end": [],
    }
    for name in (*REAL, *sizes):
        for method in options.methods.split(","):
            if name == "1e8" and method != "bora-map":
                continue  # of that size only some are measured
            counts = (1, threads) if name in ("1e6", "1e7") and threads > 1 else (threads,)
            for count in counts:
                rows.append(ours(name, method, count))
                print(rows[-1], file=sys.stderr, flush=True)
        if not options.quick and name in (*REAL, "1e6"):
            rows += rivals(name, rows, options.rival_seconds)
        if name in ("1e7", "1e8"):
            report["end_to_end"].append(end_to_end.measure(name, "bora-map"))
        write(report)
    report["roofline"] = [r for name in sizes[1:3] for r in roofline.passes(name, rates)]
    write(report)
    print(tables(report))


def write(report: dict[str, Any]) -> None:
    """Both files, as far as it has come: a run that is stopped leaves what it has measured."""
    report["growth"] = growth(report["rows"])
    report["scaling"] = scaling(report["rows"], report["rates"])
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "bench.json").write_text(json.dumps(report, indent=2))
    (OUTPUT / "bench.md").write_text(tables(report))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


if __name__ == "__main__":
    main()
