"""One fit in a process of its own: seconds, passes, memory, likelihood, as one line of JSON.

Run with ``python -m benchmarks.measure FOLDER METHOD THREADS REPEATS``; the table does. Memory is the peak beyond the
votes, which are loaded before. `solve` is the estimate alone, `seconds` the whole fit, its intervals, ranks and tables
included, `processor` the same in time of all cores: on a busy machine that is what can be compared.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import crowdsift
from benchmarks.data import votes_of
from crowdsift.engines import choose_engine

__all__ = ["measure"]


def memory(name: str) -> int:
    """Bytes of this process: VmRSS now, VmHWM at the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    return 0


def measure(folder: Path, method: str, threads: int, repeats: int) -> dict[str, Any]:
    """Return the fastest of several fits."""
    votes = votes_of(folder)
    warnings.simplefilter("ignore")
    small = crowdsift.simulate(20, 10, 500, seed=1).comparisons()
    crowdsift.fit(small, method, threads=1)  # loads libraries
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    held = memory("VmRSS")
    seconds, processor, fit = float("inf"), float("inf"), None
    for _ in range(repeats):
        fit = None  # its tables count once
        started, used = time.perf_counter(), time.process_time()
        fit = crowdsift.fit(votes, method, threads=threads)
        seconds = min(seconds, time.perf_counter() - started)
        processor = min(processor, time.process_time() - used)
    assert fit is not None
    peak = memory("VmHWM") - held
    model, solve = crowdsift.model(method), seconds
    for _ in range(repeats if len(votes) < 3_000_000 else 0):
        engine = choose_engine("cpu", model.prepare(votes), threads)
        started = time.perf_counter()
        model.estimate(engine)
        solve = min(solve, time.perf_counter() - started)
    return {
        "library": "crowdsift",
        "method": method,
        "threads": threads,
        "comparisons": len(votes),
        "items": votes.n_items,
        "workers": votes.n_workers,
        "seconds": seconds,
        "solve": solve,
        "processor": processor,
        "iterations": fit.summary["iterations"],
        "passes": fit.summary["passes"],
        "peak_memory": peak,
        "mean_log_likelihood": fit.summary["mean_log_likelihood"],
        "converged": fit.converged,
        "load": os.getloadavg()[0],
    }


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
