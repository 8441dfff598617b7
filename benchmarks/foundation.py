"""Start-up, reading, bora-em and sift: seconds on this machine, against our own limits.

Run with ``python -m benchmarks.foundation``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import crowdsift
from benchmarks.data import data_folder, look_alike


def best_of(repeats: int, task: Callable[[], object]) -> float:
    """Return the fastest of several runs: the others measure what else the machine was doing."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        task()
        times.append(time.perf_counter() - started)
    return min(times)


def start_up(code: str) -> float:
    """Seconds of a Python process that runs the code, beyond an empty one."""

    def run(text: str) -> float:
        return best_of(7, lambda: subprocess.run([sys.executable, "-c", text], check=True))

    return run(code) - run("pass")


def command_help() -> float:
    """Return the seconds of `crowdsift --help`."""
    command = Path(sys.executable).with_name("crowdsift")
    return best_of(7, lambda: subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL))


def million_rows(folder: Path) -> Path:
    """Return a CSV of 1,000,000 votes with string labels."""
    rng = np.random.default_rng(0)
    first = rng.integers(10_000, size=1_000_000)
    second = (first + rng.integers(1, 10_000, size=1_000_000)) % 10_000
    worker = rng.integers(5_000, size=1_000_000)
    path = folder / "million.csv"
    with path.open("w") as file:
        file.write("winner,loser,worker\n")
        file.writelines(
            f"item-{a:05d},item-{b:05d},worker-{s:04d}\n" for a, b, s in zip(first, second, worker, strict=True)
        )
    return path


def main(arguments: list[str] | None = None) -> None:
    """Print one row per measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args(arguments)
    rows: list[tuple[str, float, float]] = [
        ("import crowdsift", start_up("import crowdsift"), 0.15),
        ("crowdsift --help", command_help(), 0.30),
    ]
    with tempfile.TemporaryDirectory() as name:
        path = million_rows(Path(name))
        seconds = best_of(3, lambda: crowdsift.read(path))
        rows.append(("read 1,000,000 rows of CSV, 2 threads", seconds, 1.0))
    folder = data_folder()
    passage = crowdsift.read(folder / "passage.csv")
    seconds = best_of(5, lambda: crowdsift.fit(passage, "bora-em", threads=1))
    rows.append(("bora-em, Passage, 1 thread", seconds, 0.15))
    faces = crowdsift.read(folder / "faceage_subset.csv")
    votes = look_alike()
    for name, data, limit in (
        ("Passage", passage, 0.15),
        ("FaceAge subset", faces, 0.6),
        ("FaceAge look-alike", votes, 1.0),
    ):
        seconds = best_of(3, partial(crowdsift.fit, data, "sift", threads=1))
        rows.append((f"sift, {name}, 1 thread", seconds, limit))
    for threads in (1, 2):
        seconds = best_of(2, partial(crowdsift.fit, votes, "bora-em", threads=threads))
        rows.append((f"bora-em, FaceAge look-alike, {threads} thread(s)", seconds, 4.0))
    print(f"{'':44s}{'seconds':>9s}{'limit':>8s}")
    for title, seconds, limit in rows:
        print(f"{title:44s}{seconds:9.3f}{limit:8.2f}  {'ok' if seconds <= limit else 'OVER'}")


if __name__ == "__main__":
    main()
