"""Shards on a cluster and in files: equal answers, and what very many votes cost; docs/scale.md.

``python -m benchmarks.cluster equal [--data faceage|simulated] [--methods a,b] [--seconds N]`` compares the scores of
every method in 1 to 16 shards on 1, 2 and 4 processes with the CPU engine's, all at a tolerance of 1e-9 (sift: 1e-7,
since its sites are in single precision and do not come to rest below some 5e-8), and whether the same shards give the
same bytes on other processes.

``python -m benchmarks.cluster disk --votes 1e9`` draws comparisons straight into the files in which votes larger than
memory are kept, fits bora-map to them under ``--memory``, and says seconds, passes and the peak. ``parquet --votes 1e8
--folder DIR`` writes text labels for ``read``, which reads them in memory or, with ``--memory``, in files. ``model``
measures what docs/scale.md computes with, and compares it with fits of four sizes.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift
from benchmarks.data import data_folder
from benchmarks.scale import started
from benchmarks.shards import exacting, real_votes
from crowdsift.engines import cpu
from crowdsift.engines.dask import engine
from crowdsift.models import MODELS
from crowdsift.votes.comparisons import Comparisons

_WORKERS, _VOTES_EACH = 100_000, 10_000
_FILES = {"first": np.uint32, "second": np.uint32, "outcome": np.float32, "weight": np.float32}


def simulated(votes: float) -> Comparisons:
    """Votes of a crowd that is mostly right, with classes for barp."""
    drawn = crowdsift.simulate(1_000, 2_000, int(votes), reliability=(0.3, 1.5), seed=4)
    made = drawn.comparisons()
    return made.with_classes([str(j % 3) for j in range(made.n_items)])


def equal(given: argparse.Namespace) -> None:
    """Measure the largest difference of a score from the CPU engine's, by processes and shards."""
    votes = real_votes("faceage_subset", data_folder()) if given.data == "faceage" else (simulated(given.votes))
    began, whole = time.monotonic(), {}
    seen: dict[tuple[str, int], bytes] = {}
    for method in given.methods.split(","):
        model = exacting(method, votes)
        start = time.process_time()
        whole[method] = model.estimate(cpu.engine(model.prepare(votes), 1)).scores
        print(f"{given.data} {method}: CPU engine {time.process_time() - start:.1f} s", flush=True)
    for processes in given.processes:
        with started(processes) as (address, _):
            for method, expected in whole.items():
                model = exacting(method, votes)
                prepared, found = model.prepare(votes), {}
                for shards in given.shards:
                    if time.monotonic() - began > given.seconds:
                        print("out of time", flush=True)
                        return
                    made = engine(prepared, 1, scheduler=address, shards=shards, needs=model.needs)
                    scores = model.estimate(made).scores
                    made.close()
                    same = seen.setdefault((method, shards), scores.tobytes()) == scores.tobytes()
                    away = float(np.abs(scores - expected).max())
                    found[shards] = f"{away:.1e}{'' if same else ' OTHER BYTES'}"
                cells = ", ".join(f"{shards} shards {away}" for shards, away in found.items())
                print(f"{given.data} {method} on {processes} processes: {cells}", flush=True)


def _drawn(folder: Path, votes: int, items: int) -> Comparisons:
    """Comparisons drawn worker by worker into files, sorted as reading would have them."""
    workers = max(min(_WORKERS, votes // _VOTES_EACH), 1)
    each = votes // workers
    offsets = [0]
    files = {name: (folder / name).open("wb") for name in _FILES}
    random = np.random.default_rng(1)
    scores = random.normal(size=items).astype(np.float32)
    for _ in range(workers):
        beta = np.float32(random.uniform(0.2, 2.0))
        one = random.integers(0, items, each, np.uint32)
        two = (one + random.integers(1, items, each, np.uint32)) % np.uint32(items)
        right = random.random(each, np.float32) * (np.exp(-beta * (scores[one] - scores[two])) + np.float32(1.0)) < 1.0
        key = np.where(right, one, two).astype(np.uint64) << np.uint64(32)
        key |= np.where(right, two, one).astype(np.uint64)
        key = np.unique(key)  # a pair is drawn twice once in 1e6 votes
        (key >> np.uint64(32)).astype(np.uint32).tofile(files["first"])
        key.astype(np.uint32).tofile(files["second"])
        np.ones(2 * len(key), np.float32)[: len(key)].tofile(files["outcome"])
        np.ones(len(key), np.float32).tofile(files["weight"])
        offsets.append(offsets[-1] + len(key))
    for file in files.values():
        file.close()
    columns: dict[str, Any] = {name: np.memmap(folder / name, kind, "r") for name, kind in _FILES.items()}
    made = Comparisons(
        **columns,
        offsets=np.array(offsets, np.int64),
        rows=offsets[-1],
        items=np.arange(items).astype(object),
        workers=np.arange(workers).astype(object),
    )
    made.__dict__["truth"] = scores
    return made


def disk(given: argparse.Namespace) -> None:
    """bora-map of drawn comparisons that are in files only."""
    with tempfile.TemporaryDirectory(dir=given.folder or None) as folder:
        began = time.perf_counter()
        votes = _drawn(Path(folder), int(given.votes), given.items)
        print(
            f"{len(votes):,} comparisons drawn in {time.perf_counter() - began:.0f} s, {16 * len(votes) / 1e9:.1f} GB",
            flush=True,
        )
        began, cpu_began = time.perf_counter(), time.process_time()

        def progress(number: int, measure: float) -> None:
            print(
                f"  iteration {number}: {measure:.2e}, {time.perf_counter() - began:.0f} s, peak {_peak():.2f} GB",
                flush=True,
            )

        fit = crowdsift.fit(votes, "bora-map", memory=given.memory or "2GB", threads=given.threads, progress=progress)
        taken, used = time.perf_counter() - began, time.process_time() - cpu_began
        score = np.empty(given.items)
        score[fit.item_table["item"].astype(int)] = fit.item_table["score"]
        right = np.corrcoef(score, votes.__dict__["truth"])[0, 1]
        print(
            f"bora-map, {len(votes):,} comparisons, {given.items:,} items, memory "
            f"{given.memory or '2GB'}: {taken:.0f} s ({used:.0f} s of CPU), "
            f"{fit.summary['passes']} passes, peak {_peak():.2f} GB, correlation with the truth "
            f"{right:.4f}",
            flush=True,
        )


def parquet(given: argparse.Namespace) -> None:
    """Text labels in Parquet files of 1e7 rows each."""
    import duckdb

    os.makedirs(given.folder, exist_ok=True)
    connection = duckdb.connect(config={"threads": given.threads, "memory_limit": "1GB"})
    k, m, each = given.items, 20_000, 10_000_000
    for at in range(0, int(given.votes), each):
        end = min(at + each, int(given.votes))
        connection.execute(
            "COPY (SELECT 'item-' || (CASE WHEN y THEN a ELSE b END) AS winner, 'item-' || "
            "(CASE WHEN y THEN b ELSE a END) AS loser, 'worker-' || w AS worker FROM (SELECT a, b, "
            "w, random() < 1/(1 + exp(-(0.3 + (w % 7)/5.0)*2*(sin(a) - sin(b)))) AS y FROM (SELECT "
            f"hash(i*3 + 1) % {k} AS a, (hash(i*3 + 1) % {k} + 1 + hash(i*3 + 2) % {k - 1}) % {k} "
            f"AS b, floor({m}*pow((hash(i*3) % 1000000007)/1000000007.0, 1.5))::INT AS w "
            f"FROM range({at}, {end}) t(i)))) TO '{given.folder}/part-{at // each:03d}.parquet' "
            "(FORMAT parquet)"
        )
    print(f"{given.votes:g} rows in {given.folder}")


def read(given: argparse.Namespace) -> None:
    """Read Parquet and fit bora-map: seconds of the clock and of the processor, and the peak."""
    clock, used = time.perf_counter(), time.process_time()
    files = f"{given.folder}/*.parquet"
    votes = crowdsift.read(files, memory=given.memory, threads=given.threads)
    done, done_used = time.perf_counter(), time.process_time()
    print(
        f"{len(votes):,} comparisons {'in files' if votes.on_disk else 'in memory'}: read in "
        f"{done - clock:.0f} s ({done_used - used:.0f} s of CPU), peak {_peak():.2f} GB",
        flush=True,
    )
    fit = crowdsift.fit(votes, "bora-map", memory=given.memory, threads=given.threads)
    print(
        f"fitted in {time.perf_counter() - done:.0f} s ({time.process_time() - done_used:.0f} s "
        f"of CPU), {fit.summary['passes']} passes, peak {_peak():.2f} GB; in all "
        f"{time.perf_counter() - clock:.0f} s ({time.process_time() - used:.0f} s of CPU)",
        flush=True,
    )


def model(given: argparse.Namespace) -> None:
    """Nanoseconds of a vote in a pass of bora-map on one thread, from fits of four sizes."""
    for votes in given.sizes:
        made = crowdsift.simulate(100_000, 20_000, int(votes), seed=1).comparisons()
        held = cpu.engine(made, 1)
        used = time.process_time()
        crowdsift.model("bora-map").estimate(held)
        used = time.process_time() - used
        print(
            f"{votes:g} votes: {used:.2f} s of CPU, {held.passes:.1f} passes, "
            f"{1e9 * used / held.passes / len(made):.1f} ns a vote",
            flush=True,
        )


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["equal", "disk", "parquet", "read", "model"])
    parser.add_argument("--data", choices=["faceage", "simulated"], default="faceage")
    parser.add_argument("--methods", default=",".join(MODELS))
    parser.add_argument("--shards", type=int, nargs="*", default=[1, 2, 3, 5, 8, 16])
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e5, 1e6, 3e6, 1e7])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--votes", type=float, default=1e6)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--folder", default="")
    parser.add_argument("--memory", default="")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    os.environ.setdefault("DASK_DISTRIBUTED__LOGGING__DISTRIBUTED", "critical")
    globals()[given.what](given)


if __name__ == "__main__":
    main()
