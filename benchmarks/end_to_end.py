"""From a Parquet file of text labels to the tables of a fit: seconds and peak memory.

Run with ``python -m benchmarks.end_to_end [VOTES] [--method NAME] [--memory SIZE]``, VOTES such as 1e7. The votes are
those of `benchmarks.data.large`, in the order in which they were cast, written once to bench-output/data; the command
runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import OUTPUT, stored, votes_of

__all__ = ["measure", "parquet"]

_ROWS = 10_000_000  # written at a time


def parquet(name: str) -> Path:
    """Return the file with a number of votes, made on first use."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = OUTPUT / "data" / f"votes-{name}.parquet"
    if path.exists():
        return path
    votes = votes_of(stored(name))
    rng = np.random.default_rng(0)
    order = rng.permutation(len(votes)).astype(np.uint32)
    item = pa.array([f"item-{code:08d}" for code in range(votes.n_items)])
    worker = pa.array([f"worker-{code:08d}" for code in range(votes.n_workers)])
    schema = pa.schema([(column, pa.string()) for column in ("winner", "loser", "worker")])
    part = path.with_suffix(".part")
    with pq.ParquetWriter(part, schema) as file:
        for start in range(0, len(order), _ROWS):
            rows = order[start : start + _ROWS]
            who = np.searchsorted(votes.offsets, rows, side="right") - 1
            first, second = votes.first[rows], votes.second[rows]
            won = votes.outcome[rows] > 0.5
            columns = (
                item.take(pa.array(np.where(won, first, second))),
                item.take(pa.array(np.where(won, second, first))),
                worker.take(pa.array(who)),
            )
            file.write_table(pa.table(dict(zip(schema.names, columns, strict=True)), schema))
    part.rename(path)
    return path


def measure(name: str, method: str, memory: str = "") -> dict[str, Any]:
    """One run of the command line, `memory` its limit of memory."""
    path = parquet(name)
    environment = {**os.environ, **({"CROWDSIFT_MEMORY": memory} if memory else {})}
    with tempfile.TemporaryDirectory(dir=OUTPUT) as folder:
        command = [Path(sys.executable).with_name("crowdsift"), "fit", path, "--method", method]
        output = Path(folder) / "output.txt"
        started = time.perf_counter()
        with output.open("w") as file:
            run = subprocess.Popen(
                [*map(str, command), "--out", f"{folder}/fit"], env=environment, stdout=subprocess.DEVNULL, stderr=file
            )
            _, status, used = os.wait4(run.pid, 0)
        seconds = time.perf_counter() - started
        run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode:
            lines = output.read_text().strip().splitlines()
            return {"data": name, "method": method, "note": lines[-1] if lines else "failed"}
        summary = json.loads((Path(folder) / "fit" / "summary.json").read_text())
    return {
        "data": name,
        "method": method,
        "seconds": seconds,
        "fit_seconds": summary["seconds"],
        "votes": summary["votes"],
        "converged": summary["converged"],
        "peak_memory": 1024 * used.ru_maxrss,
        "file": path.stat().st_size,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("votes", nargs="?", default="1e7")
    parser.add_argument("--method", default="bora-map")
    parser.add_argument("--memory", default="", help="a limit, such as 6GB")
    options = parser.parse_args()
    print(json.dumps(measure(options.votes, options.method, options.memory)))
