"""Where the time of a fit on a GPU goes: passes, kernels, waiting, Python.

``python benchmarks/gpu_profile.py CASE ...`` with cases such as ``sift:look-alike``, ``sift:1e7`` or ``bora-map:1e8``;
needs torch, Triton and NumPy alone, as `benchmarks.gpu` does.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
import warnings
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("src", ".")]

from benchmarks.gpu_bench import Bench, bare, large, row_on_error, shares_text, spent  # noqa: E402
from crowdsift.models import model  # noqa: E402
from crowdsift.votes.comparisons import Comparisons  # noqa: E402


def votes_of(bench: Bench, folder: Path, name: str) -> Comparisons:
    """Return a stored data set, or a number of drawn votes."""
    if (folder / f"{name}.npz").exists():
        stored = dict(np.load(folder / f"{name}.npz"))
        return bare(stored, int(stored["n_items"]), bool(stored["sides"]))
    return large(bench, int(float(name)))


def kernels(bench: Bench, method: str, votes: Comparisons, rows: int) -> None:
    """Time of kernels and of calls of the driver, with their numbers."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        took, _ = bench.fit(model(method), votes)
    table = list(found.key_averages())
    device = sum(row.self_device_time_total for row in table) / 1e6
    launches = sum(row.count for row in table if row.self_device_time_total)
    print(f"   profiled {took:.3f} s: {device:.3f} s of kernels, {launches} of them", flush=True)
    for row in sorted(table, key=lambda row: -row.self_device_time_total)[:rows]:
        spent_there = row.self_device_time_total / 1e3
        print(f"   {spent_there:9.2f} ms {row.count:7d} x {row.key[:100]}")
    calls = [row for row in table if row.key.startswith("cuda")]
    for row in sorted(calls, key=lambda row: -row.self_cpu_time_total)[:6]:
        print(f"   {row.self_cpu_time_total / 1e3:9.2f} ms {row.count:7d} x {row.key}", flush=True)


def functions(bench: Bench, method: str, votes: Comparisons, rows: int) -> None:
    """Time of Python's functions, the device not waited for."""
    recorder = cProfile.Profile()
    recorder.enable()
    bench.fit(model(method), votes)
    recorder.disable()
    table = pstats.Stats(recorder).stats  # type: ignore[attr-defined]
    whole = sum(row[2] for row in table.values())
    print(f"   Python {whole:.3f} s; by own time, then with callees")
    for key in (2, 3):
        for (file, line, name), row in sorted(table.items(), key=lambda x: -x[1][key])[:rows]:
            place = f"{'/'.join(Path(file).parts[-2:])}:{line} {name}"
            print(f"   {row[2]:7.3f} {row[3]:7.3f} {row[1]:7d} x {place[:90]}")
    sys.stdout.flush()


def once(bench: Bench, method: str, size: str, rows: int) -> None:
    """All profiles of one fit, the first; for votes of which a fit is long."""
    begun = time.perf_counter()
    votes = large(bench, int(float(size)))
    drawn = time.perf_counter() - begun
    bench.memory()
    bench.torch.cuda.empty_cache()
    with spent(bench) as shares:
        kernels(bench, method, votes, rows)
    print(
        f"   {method} {size}, waiting after each, drawn {drawn:.1f} s; {bench.memory()}; {shares_text(shares)}",
        flush=True,
    )


def main() -> None:
    """Every case in turn, as long as time is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--data", type=Path, default=Path("bench-output/gpu"))
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--times", type=int, default=0, help="fits to time; none is profiled then")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    bench = Bench(given.device, given.seconds)
    for case in given.cases:
        method, _, name = case.partition(":")
        if bench.left() < 30:
            break
        if name.startswith("once-"):
            with row_on_error(bench, case):
                once(bench, method, name.removeprefix("once-"), given.rows)
            continue
        with row_on_error(bench, case):
            begun = time.perf_counter()
            votes = votes_of(bench, given.data, name)
            drawn = time.perf_counter() - begun
            first, _ = bench.fit(model(method), votes)
            bench.memory()
            second, estimate = bench.fit(model(method), votes)
            note = f"first {first:.3f} s, drawn {drawn:.1f} s, {estimate.rule.iterations} it."
            bench.row(case, f"{second:.4f} s", f"{note}, {bench.memory()}")
            if given.times:
                fits, same = [second], True
                for _ in range(given.times):
                    took, again = bench.fit(model(method), votes)
                    fits.append(took)
                    same &= again.scores.tobytes() == estimate.scores.tobytes()
                times = ", ".join(f"{x:.3f}" for x in fits)
                bytes_ = "same bytes" if same else "BYTES DIFFER"
                bench.row(case, f"{min(fits):.4f} s", f"all: {times}; {bytes_}")
                continue
            with spent(bench) as shares:
                took, _ = bench.fit(model(method), votes)
            print(f"   waiting after each: {took:.3f} s; {shares_text(shares)}", flush=True)
            if given.device.startswith("cuda"):
                kernels(bench, method, votes, given.rows)
            functions(bench, method, votes, given.rows)


if __name__ == "__main__":
    main()
