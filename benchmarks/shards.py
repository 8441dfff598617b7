"""Every method on an engine of shards beside the engine that they are made of.

Run with ``python -m benchmarks.shards [--quick] [--data NAME ...] [--methods a,b]``. Both engines fit with a tolerance
of 1e-9, sift of 1e-7; the table has the largest difference of a score for 1, 2, 3 and 5 shards. With ``--quick``
methods and data of more than some seconds are left out. Beside the real data there are 20,000 pairs of 5,000 items with
ten workers each, too many for exact variances: there sift needs belief propagation, and most pairs are compared in
several shards.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import crowdsift
from benchmarks.data import data_folder
from crowdsift.engines import cpu
from crowdsift.engines.base import Engine
from crowdsift.engines.sharded import sharded_engine
from crowdsift.models import MODELS, Model
from crowdsift.votes.comparisons import Comparisons

SHARDS = (1, 2, 3, 5)
REAL = ("passage", "faceage_subset", "llmfao")
SPARSE = "20,000 pairs"
TOLERANCE = 1e-9
# Sift's sites are in single precision: its standardised scores come to rest to some 5e-8.
SIFT_TOLERANCE = 1e-7
# (data, method) of more than some seconds on one core
SLOW = {("faceage_subset", "htcv"), ("faceage_subset", "hbtl")}


def real_votes(name: str, folder: Path) -> Comparisons:
    """Votes of a data set, items with their class where one is known."""
    votes = crowdsift.read(folder / f"{name}.csv")
    if name != "faceage_subset":
        return votes
    rows = (folder / "faceage_items.csv").read_text().splitlines()[1:]
    gender = {fields[0]: fields[2] for fields in (row.split(",") for row in rows)}
    return votes.with_classes([gender[str(item)] for item in votes.items])


def sparse_votes(seed: int = 1) -> Comparisons:
    """20,000 pairs of 5,000 items, ten workers of 500 on each."""
    rng = np.random.default_rng(seed)
    items, workers, pairs, each = 5_000, 500, 20_000, 10
    score, beta = rng.normal(size=items), rng.uniform(-0.3, 2.0, workers)
    one = np.append(np.arange(items), rng.integers(items, size=pairs - items))
    two = (one + rng.integers(1, items, pairs)) % items
    start = rng.integers(workers, size=pairs)
    worker = (start[:, None] + np.arange(each) * 37) % workers  # ten different ones
    first, second = (np.repeat(ends, each) for ends in (one, two))
    chance = 1.0 / (1.0 + np.exp(-beta[worker.ravel()] * (score[first] - score[second])))
    return Comparisons.from_codes(
        first.astype(np.uint32),
        second.astype(np.uint32),
        worker=worker.ravel().astype(np.uint32),
        outcome=(rng.random(len(chance)) < chance).astype(np.float64),
        items=np.array([f"i{j:04d}" for j in range(items)], dtype=object),
        workers=np.array([f"w{s:03d}" for s in range(workers)], dtype=object),
    )


def exacting(method: str, votes: Comparisons) -> Model:
    """Return the method with the tolerance of the comparison, in the form that these votes allow."""
    tolerance = SIFT_TOLERANCE if method == "sift" else TOLERANCE
    return crowdsift.model(method, tolerance=tolerance).relax(votes)[0]


def scores(model: Model, votes: Comparisons, shards: int = 0) -> np.ndarray:
    """Scores by the CPU engine, in so many shards; 0 for none."""
    prepared = model.prepare(votes)
    engine: Engine = cpu.engine(prepared, 1)
    if shards:
        engine = sharded_engine(prepared, lambda part, shared: cpu.engine(part, 1, shared), shards)
    return model.estimate(engine).scores


def differences(method: str, votes: Comparisons, shards: tuple[int, ...] = SHARDS) -> list[float]:
    """Return the largest difference of a score between shards and none, for each number of shards."""
    model = exacting(method, votes)
    whole = scores(model, votes)
    return [float(np.abs(scores(model, votes, count) - whole).max()) for count in shards]


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out what takes long")
    parser.add_argument("--data", nargs="*", default=[*REAL, SPARSE])
    parser.add_argument("--methods", default=",".join(MODELS))
    given = parser.parse_args()
    folder = data_folder()
    print(f"| data | method | CPU seconds | {' | '.join(f'{n} shards' for n in SHARDS)} |")
    print(f"|---|---|---|{'---|' * len(SHARDS)}")
    for name in given.data:
        votes = sparse_votes() if name == SPARSE else real_votes(name, folder)
        for method in given.methods.split(","):
            if given.quick and (name, method) in SLOW:
                continue
            began = time.process_time()
            found = differences(method, votes)
            taken = time.process_time() - began
            cells = " | ".join(f"{value:.1e}" for value in found)
            print(f"| {name} | {method} | {taken:.1f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
