"""The torch engine on a GPU: agreement with the CPU, times, and what the card itself can do.

``python benchmarks/gpu.py --prepare FOLDER`` here writes small data sets and CPU answers; ``python benchmarks/gpu.py
--data FOLDER [--parts ...] [--seconds N]`` on the machine with the card needs torch, Triton and NumPy alone, draws the
large data sets there, and prints one table. Times are of fits after a first one, whose time, compilation included,
stands beside; votes are encoded, in host memory, and their transfer is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("src", ".")]

from benchmarks.gpu_bench import ARRAYS, Bench, bare, event_time, large, row_on_error, shares_text, spent  # noqa: E402
from crowdsift.models import MODELS, Model, model  # noqa: E402
from crowdsift.votes.comparisons import Comparisons  # noqa: E402

REAL = ("passage", "faceage_subset", "llmfao", "look-alike")
PARTS = ("ceilings", "em", "paper", "sift", "map", "dimensions", "more", "start")
TOLERANCE = 1e-9
SINGLE = 1e-7  # sites in single precision move scores by about half as much in every iteration


def tight(name: str) -> Model:
    """Return the method at the tolerance of the comparison."""
    return model(name, tolerance=SINGLE if name == "sift" else TOLERANCE)


# --- here ------------------------------------------------------------------------------------


def prepare(folder: Path, names: list[str], methods: list[str]) -> None:
    """Write data sets and answers of the CPU engine, one file each."""
    import crowdsift
    from benchmarks.data import data_folder, look_alike
    from crowdsift.engines import choose_engine

    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        votes = look_alike() if name == "look-alike" else crowdsift.read(data_folder() / f"{name}.csv")
        path = folder / f"{name}.npz"
        kept = dict(np.load(path)) if path.exists() else {}
        kept |= {array: getattr(votes, array) for array in ARRAYS}
        kept |= {"n_items": np.array(votes.n_items), "sides": np.array(votes.sides_known)}
        votes = bare(kept, votes.n_items, votes.sides_known)
        for method in methods:
            begun = time.perf_counter()
            try:
                chosen = tight(method)
                chosen, _ = chosen.relax(votes)
                estimate = chosen.estimate(choose_engine("cpu", chosen.prepare(votes)))
            except crowdsift.CrowdsiftError as error:
                print(f"{name} {method}: {error}", flush=True)
                continue
            took = time.perf_counter() - begun
            kept[f"scores {method}"] = estimate.scores
            kept[f"value {method}"] = np.array(estimate.log_likelihood)
            kept[f"seconds {method}"] = np.array(took)
            print(
                f"{name} {method}: {took:.2f} s, {estimate.rule.iterations} iterations, "
                f"converged {estimate.rule.converged}",
                flush=True,
            )
            np.savez_compressed(path, **kept)


# --- there -----------------------------------------------------------------------------------


def ceilings(bench: Bench, folder: Path) -> None:
    """Measure a copy, exponentials, and the way from and to the host."""
    torch, device = bench.torch, bench.device
    size = 1 << 29 if device.startswith("cuda") else 1 << 22
    one = torch.rand(size, device=device)
    two = torch.empty_like(one)
    took = event_time(bench, lambda: two.copy_(one))
    bench.row("copy on the device", f"{8 * size / took / 1e9:,.0f} GB/s", "read and written")
    host = np.ones(size // 4, np.float32)
    took = event_time(bench, lambda: torch.from_numpy(host).to(device), 3)
    bench.row("copy to the device", f"{size / took / 1e9:,.1f} GB/s", "pageable memory")
    index = torch.randint(0, 1_000_000, (size // 8,), device=device, dtype=torch.int32)
    sums = torch.zeros(1_000_000, dtype=torch.int64, device=device)
    values = torch.ones(size // 8, dtype=torch.int64, device=device)
    took = event_time(bench, lambda: sums.index_add_(0, index, values))
    bench.row("sums by index in integers", f"{size / 8 / took / 1e9:,.1f} G/s", "1e6 sums")
    if device.startswith("cuda"):
        from benchmarks.gpu_kernels import exponentials

        count, work = exponentials(one)
        took = event_time(bench, work)
        bench.row("exponentials", f"{count / took / 1e12:,.2f} T/s", "float32, Triton")


def agreement(bench: Bench, folder: Path, names: tuple[str, ...], share: float) -> None:
    """Scores against the CPU engine's, and two runs against each other."""
    for name in names:
        if not (folder / f"{name}.npz").exists():
            continue
        stored = dict(np.load(folder / f"{name}.npz"))
        votes = bare(stored, int(stored["n_items"]), bool(stored["sides"]))
        until = time.time() + share
        keys = [key for key in stored if key.startswith("scores ")]
        for key in sorted(keys, key=lambda key: "sift bora-em bora-map bt".find(key[7:]) % 99):
            if time.time() > until or bench.left() < 30:
                continue
            method = key.removeprefix("scores ")
            with row_on_error(bench, f"{name} {method}"):
                chosen, _ = tight(method).relax(votes)
                prepared = chosen.prepare(votes)
                first, one = bench.fit(chosen, prepared)
                again, two = first, None
                if 1.2 * first < bench.left() - 30:
                    again, two = bench.fit(chosen, prepared)
                wanted = stored[key]
                off = float(np.abs(one.scores - wanted).max() / max(wanted.std(), 1e-300))
                same = "one run"
                if two is not None:
                    equal = one.scores.tobytes() == two.scores.tobytes()
                    same = "same bytes" if equal else "BYTES DIFFER"
                cpu = float(stored[f"seconds {method}"])
                gain = ""
                if f"value {method}" in stored:
                    more = one.log_likelihood - float(stored[f"value {method}"])
                    gain = f"; log-likelihood {more:+.1e}"
                bench.row(
                    f"{name} {method}",
                    f"{off:.1e} sd",
                    f"{again:.3f} s, first {first:.3f}, CPU {cpu:.3f}; {one.rule.iterations} it., {same}{gain}",
                )


def em(bench: Bench, folder: Path) -> None:
    """bora-em to its fixed point, as the paper's stopping rule has it, and sift beside it."""
    for method, name in (("bora-em", "look-alike"), ("bora-em", "passage"), ("sift", "look-alike")):
        stored = dict(np.load(folder / f"{name}.npz"))
        votes = bare(stored, int(stored["n_items"]), bool(stored["sides"]))
        with row_on_error(bench, f"{method} {name}"):
            first, estimate = bench.fit(model(method), votes)
            times = sorted(bench.fit(model(method), votes)[0] for _ in range(6))
            note = f"first {first:.3f} s, {estimate.rule.iterations} iterations"
            bench.row(f"{method} {name}", f"{times[0]:.3f} to {times[-1]:.3f} s", note)


def paper(bench: Bench, folder: Path) -> None:
    """Measure the paper's algorithm written plainly in torch, on the same card."""
    from benchmarks.gpu_kernels import plain_em

    for name in ("look-alike", "passage"):
        stored = dict(np.load(folder / f"{name}.npz"))
        with row_on_error(bench, f"paper's EM {name}"):
            for _ in range(2):
                bench.wait()
                begun = time.perf_counter()
                iterations = plain_em(stored, int(stored["n_items"]), bench.device)
                bench.wait()
                took = time.perf_counter() - begun
            bench.row(f"paper's EM, plain torch, {name}", f"{took:.3f} s", f"{iterations} it.")


def sized(bench: Bench, method: str, sizes: str, profile: bool, dimensions: int = 1) -> None:
    """Measure a method on drawn votes of several sizes, as long as time is left."""
    choices = {"dimensions": dimensions} if dimensions > 1 else {}
    name = f"{method}, {dimensions} dimensions," if dimensions > 1 else method
    for size in sizes.split(","):
        count = int(float(size))
        if bench.left() < 40 + count / 1e7:
            bench.row(f"{name} {size}", "no time left")
            continue
        with row_on_error(bench, f"{name} {size}"):
            votes = large(bench, count, dimensions)
            bench.memory()
            first, estimate = bench.fit(model(method, **choices), votes)
            times, same, scores = [], "same bytes", np.asarray(estimate.scores).tobytes()
            for _ in range(1 if count > 1e8 else 3):
                del estimate
                again, estimate = bench.fit(model(method, **choices), votes)
                times.append(again)
                if np.asarray(estimate.scores).tobytes() != scores:
                    same = "BYTES DIFFER"
            note = f"first {first:.3f} s; {estimate.rule.iterations} it., converged "
            note += f"{estimate.rule.converged}; {same}; {bench.memory()}"
            bench.row(f"{name} {size}", f"{min(times):.3f} to {max(times):.3f} s", note)
            if profile and count <= 1e7:
                with spent(bench) as shares:
                    bench.fit(model(method, **choices), votes)
                print("         " + shares_text(shares), flush=True)
                profiled(bench, model(method, **choices), votes)


START = """
import sys, time; begun = time.perf_counter()
sys.path[:0] = [{here!r}, {src!r}]
import torch; torch.cuda.init(); started = time.perf_counter()
from benchmarks.gpu_bench import Bench, large
from crowdsift.models import model
bench = Bench("cuda:0", 100.0)
votes = large(bench, {votes}); bench.wait(); drawn = time.perf_counter()
bench.fit(model({method!r}), votes)
print(started - begun, time.perf_counter() - drawn)
"""


def start(bench: Bench, folder: Path) -> None:
    """Time a fit in a separate process with kernels compiled earlier: the figure that `auto` uses."""
    here = Path(__file__).resolve().parents[1]
    for method in ("bora-map", "bora-em", "sift"):
        for votes in (1_000_000, 4_000_000):
            program = START.format(here=str(here), src=str(here / "src"), votes=votes, method=method)
            ran = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", program], text=True, capture_output=True, check=False
            )
            begun, fitted = (float(each) for each in ran.stdout.split() or ("nan", "nan"))
            bench.row(
                f"{method} {votes:,}, a new process",
                f"{begun + fitted:.2f} s",
                f"PyTorch and CUDA {begun:.2f} s, the fit {fitted:.2f} s",
            )


def profiled(bench: Bench, chosen: Model, votes: Comparisons) -> None:
    """Where the device's time goes, kernel by kernel."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recorder

    with recorder(activities=[ProfilerActivity.CUDA]) as found:
        bench.fit(chosen, votes)
    rows = sorted(found.key_averages(), key=lambda row: -row.device_time_total)[:14]
    for row in rows:
        print(f"         {row.device_time_total / 1e3:9.2f} ms {row.count:7d} x {row.key[:90]}")


def main() -> None:
    """Prepare, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--data", type=Path, default=Path("bench-output/gpu"))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--sift", default="1e6,1e7,1e8,1e9")
    parser.add_argument("--map", default="1e7,1e8,1e9")
    parser.add_argument("--dimensions", default="1e6,1e7,1e8")
    parser.add_argument("--sets", default=",".join(REAL))
    parser.add_argument("--methods", default=",".join(MODELS))
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.prepare:
        prepare(given.prepare, given.sets.split(","), given.methods.split(","))
        return
    import torch

    bench = Bench(given.device, given.seconds)
    name = torch.cuda.get_device_name() if given.device.startswith("cuda") else platform.machine()
    triton = find_spec("triton") and version("triton")
    print(
        f"{name}; torch {torch.__version__}, Triton {triton}, NumPy {np.__version__}, Python "
        f"{platform.python_version()}, {time.strftime('%Y-%m-%d')}",
        flush=True,
    )
    work: dict[str, Callable[[], None]] = {
        "ceilings": lambda: ceilings(bench, given.data),
        "more": lambda: agreement(bench, given.data, tuple(given.sets.split(",")), 150.0),
        "em": lambda: em(bench, given.data),
        "start": lambda: start(bench, given.data),
        "paper": lambda: paper(bench, given.data),
        "sift": lambda: sized(bench, "sift", given.sift, given.profile),
        "map": lambda: sized(bench, "bora-map", given.map, given.profile),
        "dimensions": lambda: sized(bench, "sift", given.dimensions, given.profile, 2),
    }
    for part in given.parts.split(","):
        with row_on_error(bench, part):
            work[part]()
    print("\n| what | figure | note |\n|---|---|---|")
    for row in bench.rows:
        print("| " + " | ".join(row) + " |")
    if "OUT" in os.environ:
        Path(os.environ["OUT"], "gpu.json").write_text(json.dumps(bench.rows))


if __name__ == "__main__":
    main()
