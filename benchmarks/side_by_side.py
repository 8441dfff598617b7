"""Versions measured in turn, so that what the machine does besides falls on both alike."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.versions import Version

__all__ = ["LIMITS", "Row", "command", "fits", "in_turn", "show", "spin_gain"]

Row = dict[str, Any]
ONE_FIT = Path(__file__).with_name("one_fit.py")
LIMITS = {"seconds": 600, "rounds": 5}  # of one run, and of one case


def fits(version: Version, request: Row) -> Row:
    """One run of benchmarks/one_fit.py by a version."""
    return _ran(version, [ONE_FIT, json.dumps(request)])


def command(version: Version, words: Sequence[object]) -> Row:
    """Return the whole command line, from start to exit: seconds, and the peak of all memory."""
    started = time.perf_counter()
    result = _ran(version, ["-m", "crowdsift", *words], parse=False)
    return {"seconds": time.perf_counter() - started, **result}


def _ran(version: Version, words: Sequence[object], parse: bool = True) -> Row:
    """Return what a process printed as JSON, with its peak of memory, or a note of why there is none."""
    process = subprocess.Popen(
        [str(word) for word in (version.python, *words)],
        env=dict(version.environment),
        text=True,
        stdout=subprocess.PIPE if parse else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=ONE_FIT.parents[1],
    )
    try:
        out, err = process.communicate(timeout=LIMITS["seconds"])
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"note": f"{version.name}: over {LIMITS['seconds']} s"}
    if process.returncode:
        last = err.strip().splitlines()[-1:] or ["?"]
        return {"note": f"{version.name}: {last[0][:90]}"}
    return dict(json.loads(out)) if parse else {}


def in_turn(name: str, versions: Sequence[Version], measure: Callable[[Version], Row], rounds: int = 3) -> Row:
    """Medians of so many rounds, in each of which every version runs once; the ratio of the two.

    A version that fails or takes too long is not tried again.
    """
    found: dict[str, list[Row]] = {version.name: [] for version in versions}
    row: Row = {"case": name}
    for turn in range(min(rounds, LIMITS["rounds"])):
        order = versions if turn % 2 == 0 else versions[::-1]
        for version in order:
            if "note" in row and version.name in row["note"]:
                continue
            result = measure(version)
            if "note" in result:
                row["note"] = "; ".join(filter(None, (row.get("note"), result["note"])))
            else:
                found[version.name].append(result)
    for version in versions:
        for key in ("seconds", "processor", "peak", "iterations", "passes"):
            values = [r[key] for r in found[version.name] if r.get(key) is not None]
            if values:
                row[f"{key} {version.name}"] = statistics.median(values)
    if len(versions) == 2:
        ours, theirs = (row.get(f"seconds {version.name}") for version in versions)
        if ours and theirs:
            row["times faster"] = theirs / ours
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


_SPIN = "n = 0\nwhile n < 20_000_000: n += 1"


def spin_gain(rounds: int = 3) -> float:
    """How much more work two processes that only count do than one, in the same time."""

    def seconds(count: int) -> float:
        started = time.perf_counter()
        running = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(count)]
        for process in running:
            process.wait()
        return time.perf_counter() - started

    return statistics.median(2 * seconds(1) / seconds(2) for _ in range(rounds))


def show(title: str, rows: Sequence[Row]) -> str:
    """Rows as a Markdown table under a heading."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [f"## {title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(key, row.get(key)) for key in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key.startswith("peak"):
        return f"{value / 1e6:.0f} MB"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def load() -> str:
    """How busy the machine was when this was called."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start"
