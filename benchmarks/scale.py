"""What shards cost: calls of a cluster, kills, votes in files, a database; see docs/scale.md.

Run with ``python -m benchmarks.scale calls|kills|disk|processes ...``; each prints what it found as lines of text. All
of it runs on one machine, in real processes.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import crowdsift
from crowdsift.engines import cpu
from crowdsift.engines.dask import engine

QUIET: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def worker_process(address: str) -> subprocess.Popen[bytes]:
    """Return a worker of one thread."""
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    worker += ["--death-timeout", "60"]  # where this process is killed and its scheduler gone
    return subprocess.Popen([*worker, "--memory-limit", "0", "--no-dashboard", "--no-nanny"], **QUIET)


def wait_for(address: str, processes: int) -> None:
    """Until so many workers are there."""
    from distributed import Client

    with Client(address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(processes, timeout=60)


@contextmanager
def started(processes: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Yield a scheduler and worker processes, as an administrator starts them; the first is it."""
    port = random.randint(20_000, 60_000)
    address = f"tcp://127.0.0.1:{port}"
    begin = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", str(port)]
    running = [subprocess.Popen([*begin, "--host", "127.0.0.1", "--no-dashboard"], **QUIET)]
    running += [worker_process(address) for _ in range(processes)]
    try:
        wait_for(address, processes)
        yield address, running
    finally:
        for process in running:
            process.kill()
            process.wait()


def scores(votes: Any, method: str, address: str, shards: int, tolerance: float) -> Any:
    """Scores by the cluster, what travelled, and the seconds of the estimate."""
    model = crowdsift.model(method, tolerance=tolerance).relax(votes)[0]
    prepared = model.prepare(votes)
    made = engine(prepared, 1, scheduler=address, shards=shards, needs=model.needs)
    try:
        began = time.perf_counter()
        found = model.estimate(made).scores
        return found, made.traffic, time.perf_counter() - began
    finally:
        made.close()


def calls(given: argparse.Namespace) -> None:
    """Milliseconds of a pass that does next to nothing, by shards."""
    votes = crowdsift.simulate(given.items, 40, 4000, seed=1).comparisons()
    with started(given.processes) as (address, _):
        for shards in (1, 2, 4, 8):
            made = engine(votes, 1, scheduler=address, shards=shards)
            slopes, x, own = made.slopes, np.zeros(given.items), np.ones(40)
            taken = []
            for _ in range(60):
                began = time.perf_counter()
                slopes.log_likelihood(x, own)  # type: ignore[union-attr]
                taken.append(1000 * (time.perf_counter() - began))
            made.close()
            within = np.quantile(taken, 0.9)
            print(
                f"{shards} shards on {given.processes} processes, {given.items} items: median "
                f"{np.median(taken):.2f} ms a pass, 90 % within {within:.2f} ms"
            )


def kills(given: argparse.Namespace) -> None:
    """Kill -9 of a worker in the middle of fits, at random moments: equal bytes, and how long."""
    votes = crowdsift.simulate(60, 40, 20_000, seed=3).comparisons()
    model = crowdsift.model(given.method, tolerance=given.tolerance).relax(votes)[0]
    prepared, generator = model.prepare(votes), random.Random(given.seed)
    longest, right, hits, expected, taken = 0.0, 0, 0, b"", 0.0
    with started(3) as (address, running):
        while hits < given.times:
            made = engine(prepared, 1, scheduler=address, shards=4, needs=model.needs)
            began, victim = time.perf_counter(), running[-1 - generator.randrange(3)]
            moment = generator.uniform(0.0, 0.9 * taken)
            timer = threading.Timer(moment, victim.send_signal, [signal.SIGKILL])
            if expected:
                timer.start()
            found = model.estimate(made).scores.tobytes()
            if not expected:
                expected, taken = found, time.perf_counter() - began
                print(f"{given.method}, 4 shards on 3 processes: {taken:.1f} s without a kill")
            elif made.traffic.recovered:  # else the fit was done before the kill
                hits, right = hits + 1, right + (found == expected)
                seconds = made.traffic.longest_recovery
                word = "equal" if found == expected else "OTHER"
                longest = max(longest, seconds)
                print(
                    f"{hits}: killed after {moment:.2f} s, {made.traffic.recovered} shards made "
                    f"anew in {seconds:.1f} s, {word} bytes",
                    flush=True,
                )
            made.close()
            if expected and timer.ident is not None:
                timer.join()
                victim.wait()
                running.remove(victim)
                running.append(worker_process(address))
                wait_for(address, 3)
    print(
        f"{given.method}: {right} of {hits} kills in mid-fit ended in equal bytes, the longest "
        f"recovery took {longest:.1f} s"
    )


def disk(given: argparse.Namespace) -> None:
    """bora-map of a Parquet folder, in memory or in files: seconds and the peak of memory."""
    began = time.perf_counter()
    votes = crowdsift.read(given.files, memory=given.memory)
    read = time.perf_counter()
    fit = crowdsift.fit(votes, method="bora-map", memory=given.memory)
    done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{len(votes):,} comparisons {'in files' if votes.on_disk else 'in memory'}: read in "
        f"{read - began:.1f} s, fitted in {done - read:.1f} s ({fit.summary['passes']} passes), "
        f"peak {peak:.2f} GB"
    )


def processes(given: argparse.Namespace) -> None:
    """Seconds of bora-map's passes with one and two processes, and by the CPU engine."""
    votes = crowdsift.simulate(100_000, 20_000, int(given.votes), seed=1).comparisons()
    model = crowdsift.model("bora-map")
    began = time.perf_counter()
    model.estimate(cpu.engine(votes, 1))
    print(f"CPU engine, one thread: {time.perf_counter() - began:.2f} s", flush=True)
    for count in (1, 2):
        with started(count) as (address, _):
            _, traffic, taken = scores(votes, "bora-map", address, count, model.tolerance)  # type: ignore[attr-defined]
            print(
                f"{count} processes: {taken:.2f} s, {traffic.calls} calls, "
                f"{(traffic.sent + traffic.received) / 1e6:.0f} MB",
                flush=True,
            )


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["calls", "kills", "disk", "processes"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--method", default="sift")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", default="votes/*.parquet")
    parser.add_argument("--memory", default="")
    parser.add_argument("--votes", type=float, default=1e6)
    given = parser.parse_args()
    os.environ.setdefault("DASK_DISTRIBUTED__LOGGING__DISTRIBUTED", "critical")
    globals()[given.what](given)


if __name__ == "__main__":
    main()
