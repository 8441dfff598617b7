"""The passes against what the machine can do, both measured in the same run.

A pass over the votes streams bytes, gathers from vectors over items and scatters into them. What these cost here is
measured by cpp/bench/machine.cpp; their sum is a floor for a pass that overlaps nothing, and arithmetic comes on top
where it is not hidden behind it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import stored, votes_of
from crowdsift.engines import choose_engine
from crowdsift.engines.base import SlopePrior, required

__all__ = ["machine", "passes"]

ROOT = Path(__file__).resolve().parents[1]
# Bytes streamed, gathers and scatters a comparison: item codes 8, outcome and weight 8, an entry of A or B 4 to read
# and 8 to write (the line is fetched first).
COSTS = {
    "bt pass": (16 + 8, 2, 2),
    "bt product": (8 + 4, 2, 2),
    "bora-map pass": (16 + 16, 2, 2),
    "bora-map product": (8 + 8, 2, 2),
}


def machine(threads: int) -> list[dict[str, Any]]:
    """Rates of this machine with 1 to so many threads."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        sys.exit("the roofline needs a C++ compiler")
    program = ROOT / "build" / "machine"
    program.parent.mkdir(exist_ok=True)
    source, include = ROOT / "cpp" / "bench" / "machine.cpp", ROOT / "cpp" / "include"
    flags = ["-std=c++17", "-O3", "-march=native", "-pthread", f"-I{include}"]
    subprocess.run([compiler, *flags, source, "-o", program], check=True)
    output = subprocess.run([program, str(threads)], check=True, capture_output=True, text=True)
    rates: list[dict[str, Any]] = json.loads(output.stdout)
    return rates


def passes(name: str, rates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every pass on a data set, one row per thread count: ns per comparison, and the floor."""
    votes = votes_of(stored(name))
    rows = []
    for rate in rates:
        engine = choose_engine("cpu", votes, rate["threads"])
        passes, facts = required(engine.slopes), engine.facts
        x = np.random.default_rng(0).normal(size=facts.n_items)
        scores, slopes = 0.5 * x, np.ones(facts.n_workers)
        prior = SlopePrior(mean=1.25, precision=2.0, last_step=1e-3)
        common = passes.profile(scores, slopes).hessian
        own = passes.profile(scores, slopes, prior).hessian
        tasks: dict[str, Callable[[], object]] = {
            "bt pass": partial(passes.profile, scores, slopes),
            "bt product": partial(common.multiply, x),
            "bora-map pass": partial(passes.profile, scores, slopes, prior),
            "bora-map product": partial(own.multiply, x),
        }
        near = min(rate["access"], key=lambda entry: abs(np.log(entry["items"] / facts.n_items)))
        for task, run in tasks.items():
            seconds = _best(run) / len(votes)
            stream, gathers, scatters = COSTS[task]
            floor = stream / rate["stream"]
            floor += gathers * near["gather"] + scatters * near["scatter"]
            rows.append(
                {
                    "data": name,
                    "pass": task,
                    "threads": rate["threads"],
                    "bytes": stream,
                    "nanoseconds": 1e9 * seconds,
                    "floor": 1e9 * floor,
                    "ratio": seconds / floor,
                }
            )
    return rows


def _best(run: Callable[[], object]) -> float:
    least = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - started)
    return least
