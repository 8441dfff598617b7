"""The data sets that the benchmarks share, kept as arrays so that a process can load them fast."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import crowdsift

__all__ = ["REAL", "data_folder", "large", "look_alike", "stored", "votes_of"]

OUTPUT = Path("bench-output")
REAL = ("passage", "faceage_subset", "look-alike")
_ARRAYS = ("first", "second", "outcome", "weight", "offsets")


def data_folder() -> Path:
    """Return the folder of the real data sets: CROWDSIFT_DATA, or ../shared/data beside the project."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CROWDSIFT_DATA", default))
    if not folder.is_dir():
        sys.exit(f"no real data at {folder}; set CROWDSIFT_DATA to their folder")
    return folder


@cache
def look_alike() -> crowdsift.Comparisons:
    """Votes as many as in FaceAge, with the loads of its workers, made by the command line."""
    command = (sys.executable, "-m", "crowdsift")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(*command, "simulate", "--items", "9150", "--comparisons", "250249"),
                *("--like", data_folder() / "faceage_subset.csv", "--seed", "0", "--out", folder),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        return crowdsift.read(Path(folder) / "votes.csv")


def large(count: int, seed: int = 0) -> crowdsift.Comparisons:
    """So many votes, 160 on every item and 200 of every worker, drawn from the model.

    Scores uniform on [-3, 3], reliabilities on [-0.2, 1.2]; ten million at a time. From 1e5 on there are more than
    1,000 items, so that all sizes are the same work: no joint covariance.
    """
    items, workers = max(count // 80, 50), max(count // 200, 20)
    rng = np.random.default_rng(seed)
    score = rng.uniform(-3, 3, items).astype(np.float32)
    reliability = rng.uniform(-0.2, 1.2, workers).astype(np.float32)
    winner, loser, worker = (np.empty(count, np.uint32) for _ in range(3))
    for start in range(0, count, 10_000_000):
        part = slice(start, min(start + 10_000_000, count))
        n = part.stop - part.start
        one = rng.integers(items, size=n, dtype=np.uint32)
        two = (one + rng.integers(1, items, size=n, dtype=np.uint32)) % np.uint32(items)
        who = rng.integers(workers, size=n, dtype=np.uint32)
        margin = reliability[who] * (score[one] - score[two])
        won = rng.random(n, dtype=np.float32) < 1 / (1 + np.exp(-margin))
        winner[part], loser[part] = np.where(won, one, two), np.where(won, two, one)
        worker[part] = who
    return crowdsift.Comparisons.from_codes(
        winner, loser, worker=worker, items=np.arange(items).astype(object), workers=np.arange(workers).astype(object)
    )


def stored(name: str) -> Path:
    """Return the folder with the arrays of a data set, made on first use."""
    folder = OUTPUT / "data" / name
    if not (folder / "offsets.npy").exists():
        folder.mkdir(parents=True, exist_ok=True)
        if name == "look-alike":
            votes = look_alike()
        elif name in REAL:
            votes = crowdsift.read(data_folder() / f"{name}.csv")
        else:
            votes = large(int(float(name)))
        np.save(folder / "n_items.npy", votes.n_items)
        for array in _ARRAYS:  # the last one tells that all are there
            np.save(folder / f"{array}.npy", getattr(votes, array))
    return folder


def votes_of(folder: Path) -> crowdsift.Comparisons:
    """Return the data set of a folder of arrays; labels are numbers."""
    arrays = {name: np.load(folder / f"{name}.npy") for name in _ARRAYS}
    items, workers = int(np.load(folder / "n_items.npy")), len(arrays["offsets"]) - 1
    return crowdsift.Comparisons(
        **arrays,
        items=np.arange(items).astype(object),
        workers=np.arange(workers).astype(object),
        rows=len(arrays["first"]),
    )
