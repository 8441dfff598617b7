"""What the benchmarks of the torch engine share: the clock, drawn votes, where time goes."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("src", ".")]

from benchmarks.numpy_core import replace_core  # noqa: E402

replace_core()

from crowdsift.models import Model  # noqa: E402
from crowdsift.votes.comparisons import Comparisons  # noqa: E402

__all__ = ["ARRAYS", "Bench", "bare", "event_time", "large", "row_on_error", "shares_text", "spent"]

ARRAYS = ("first", "second", "outcome", "weight", "offsets")


def bare(arrays: dict[str, Any], n_items: int, sides: bool) -> Comparisons:
    """Return encoded votes; labels are codes."""
    held: dict[str, Any] = {name: np.ascontiguousarray(arrays[name]) for name in ARRAYS}
    return Comparisons(
        **held,
        items=np.arange(n_items).astype(object),
        workers=np.arange(len(arrays["offsets"]) - 1).astype(object),
        sides_known=sides,
        rows=len(arrays["first"]),
    )


class Bench:
    """The device, the clock, and the rows of the table."""

    def __init__(self, device: str, seconds: float) -> None:
        import torch

        self.torch, self.device, self.begun, self.seconds = torch, device, time.time(), seconds
        self.rows: list[tuple[str, str, str]] = []

    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (time.time() - self.begun)

    def wait(self) -> None:
        """Until the device has finished its work."""
        if self.device.startswith("cuda"):
            self.torch.cuda.synchronize()

    def row(self, what: str, figure: str, note: str = "") -> None:
        """Print a row of the table at once."""
        self.rows.append((what, figure, note))
        print(f"{time.time() - self.begun:6.1f} s  {what:44s} {figure:>24s}  {note}", flush=True)

    def engine(self, votes: Comparisons, needs: str) -> Any:
        """Return the votes on the device."""
        from crowdsift.engines.torch import engine

        return engine(votes, 1, device=self.device, needs=needs)

    def fit(self, chosen: Model, votes: Comparisons) -> tuple[float, Any]:
        """Seconds of a fit, transfer of the votes included, and its estimate."""
        self.wait()
        begun = time.perf_counter()
        estimate = chosen.estimate(self.engine(votes, chosen.needs))
        self.wait()
        return time.perf_counter() - begun, estimate

    def memory(self) -> str:
        """Return the most that was held on the device."""
        if not self.device.startswith("cuda"):
            return ""
        most = self.torch.cuda.max_memory_allocated() / 2**30
        self.torch.cuda.reset_peak_memory_stats()
        return f"{most:.1f} GiB"


def event_time(bench: Bench, work: Callable[[], Any], repeats: int = 10) -> float:
    """Median seconds of a call."""
    work()
    times = []
    for _ in range(repeats):
        bench.wait()
        begun = time.perf_counter()
        work()
        bench.wait()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))


@contextmanager
def row_on_error(bench: Bench, what: str) -> Iterator[None]:
    """Turn a failure into a row, so that the run goes on."""
    try:
        yield
    except Exception as error:
        bench.row(what, "FAILED", f"{type(error).__name__}: {error}"[:200])
        traceback.print_exc(limit=-4)
        if bench.device.startswith("cuda"):
            bench.torch.cuda.empty_cache()


def large(bench: Bench, count: int, dimensions: int = 1) -> Comparisons:
    """Return votes as `benchmarks.data.large` draws them, 200 of every worker, drawn on the device.

    Further dimensions have positions and weights of variance 1.
    """
    torch, device = bench.torch, bench.device
    items, workers = max(count // 80, 50), max(count // 200, 20)
    made = torch.Generator(device=device)
    made.manual_seed(1)
    score = torch.rand(items, generator=made, device=device) * 6 - 3
    reliability = torch.rand(workers, generator=made, device=device) * 1.4 - 0.2
    further = dimensions - 1
    positions = torch.randn(items, further, generator=made, device=device)
    weights = torch.randn(workers, further, generator=made, device=device)
    arrays = {name: np.empty(count, np.uint32) for name in ("first", "second")}
    for begin in range(0, count, 1 << 26):
        rows = slice(begin, min(begin + (1 << 26), count))
        n = rows.stop - begin
        one = torch.randint(items, (n,), generator=made, device=device)
        two = (one + torch.randint(1, items, (n,), generator=made, device=device)) % items
        who = torch.arange(begin, rows.stop, device=device) // 200
        who = who.clamp(max=workers - 1)
        margin = reliability[who] * (score[one] - score[two])
        margin += (weights[who] * (positions[one] - positions[two])).sum(1)
        won = torch.rand(n, generator=made, device=device) < torch.sigmoid(margin)
        arrays["first"][rows] = torch.where(won, one, two).int().cpu().numpy().view(np.uint32)
        arrays["second"][rows] = torch.where(won, two, one).int().cpu().numpy().view(np.uint32)
    ones = np.ones(count, np.float32)
    offsets = np.minimum(np.arange(workers + 1, dtype=np.int64) * 200, count)
    offsets[-1] = count
    return bare({**arrays, "outcome": ones, "weight": ones, "offsets": offsets}, items, False)


WATCHED = (
    ("votes", "VoteTensors", ("__init__",)),
    ("rows", "SiteRows", ("__init__",)),
    (
        "sites",
        "TorchSites",
        (
            "update",
            "type_counts",
            "refine",
            "system",
            "propagate",
            "loopy_bp",
            "posteriors",
            "quantiles",
            "transform",
            "copy",
        ),
    ),
    ("operators", "TorchOperator", ("solve", "multiply", "diagonal")),
    ("grid", "TorchCorrelations", ("multiply", "diagonal_there")),
    ("slopes", "TorchSlopes", ("profile", "curvature", "log_likelihood")),
    ("em", "TorchEM", ("e_step",)),
    ("em", "TorchEStep", ("regress",)),
    ("", "TorchEngine", ("__init__",)),
)


@contextmanager
def spent(bench: Bench) -> Iterator[dict[str, list[float]]]:
    """Seconds and calls of the passes, the device waited for; so much slower is everything."""
    from importlib import import_module

    shares: dict[str, list[float]] = {}
    before = []

    def watch(holder: Any, name: str, label: str) -> None:
        plain = getattr(holder, name)

        def timed(*given: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            result = plain(*given, **named)
            bench.wait()
            entry = shares.setdefault(label, [0.0, 0])
            entry[0] += time.perf_counter() - begun
            entry[1] += 1
            return result

        before.append((holder, name, plain, name in vars(holder)))
        setattr(holder, name, timed)

    for module, kind, names in WATCHED:
        holder = getattr(import_module(f"crowdsift.engines.torch.{module}".rstrip(".")), kind)
        for name in names:
            watch(holder, name, f"{kind.removeprefix('Torch')}.{name}")
    try:
        yield shares
    finally:
        for holder, name, plain, own in before:
            setattr(holder, name, plain) if own else delattr(holder, name)


def shares_text(shares: dict[str, list[float]]) -> str:
    """Where the time went."""
    order = sorted(shares.items(), key=lambda entry: -entry[1][0])
    return "; ".join(f"{name} {took:.3f} s / {int(calls)}" for name, (took, calls) in order)
