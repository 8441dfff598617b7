"""What several dimensions are worth: left-out votes, planted crowds, one-dimensional crowds, speed.

Run with ``python -m benchmarks.dimensions NAME [--seeds N]``; NAME is loss, planted, crowds or
speed. Seeds count from 0.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import crowdsift
from benchmarks.data import data_folder
from crowdsift.fitting.estimate import Resources, estimate_votes
from crowdsift.fitting.holdout import left_out_log_likelihood
from crowdsift.votes.comparisons import Comparisons

JUDGEMENT = {"winner": "candidate_chosen", "loser": "candidate_not_chosen", "worker": "judge"}
SETS = ("cj_spehar2016_expt2_plain.csv", "cj_luckett2018_cola.csv", "llmfao.csv", "lightfield.csv",
        "passage.csv", "mtbench.csv", "musicsim.csv", "wmt13_fren.csv.gz")  # fmt: skip


def drawn(D: int, items: int, workers: int, each: int, seed: int) -> tuple[Comparisons, np.ndarray]:
    """Votes of workers with weights N((1, 0, ...), I), and the positions of the items."""
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=(items, D)), rng.normal(size=(workers, D))
    a[:, 0] += 1.0
    s = np.repeat(np.arange(workers), each)
    i = rng.integers(items, size=len(s))
    j = (i + rng.integers(1, items, len(s))) % items
    p = 1.0 / (1.0 + np.exp(-(a[s] * (x[i] - x[j])).sum(1)))
    y = (rng.random(len(s)) < p).astype(float)
    votes = Comparisons.from_arrays(i, j, worker=s, outcome=y)
    return votes, x[[int(label) for label in votes.items]]


ONE_AND_AUTO: tuple[int | str, ...] = (1, "auto")


def loss(options: argparse.Namespace) -> None:
    """Left-out log loss, five folds; ties are left away in the sets without them."""
    for name in SETS:
        columns = JUDGEMENT if name.startswith("cj_") else None
        votes = crowdsift.read(data_folder() / name, columns=columns)
        if name == "llmfao.csv":
            votes = votes.select(votes.outcome != 0.5)
        found = [
            -left_out_log_likelihood(votes, crowdsift.Sift(dimensions=d)) for d in ONE_AND_AUTO
        ]
        print(f"{name}: one dimension {found[0]:.4f}, auto {found[1]:.4f}", flush=True)


def planted(options: argparse.Namespace) -> None:
    """Canonical correlations of positions, and coverage of 90 % intervals of scores."""
    for D in (2, 3):
        counts, smallest, inside = [], [], []
        for seed in range(options.seeds):
            votes, x = drawn(D, 30, 200, 50, seed)
            estimate = estimate_votes(crowdsift.Sift(), votes, Resources())
            found = estimate.dimensions
            counts.append(1 if found is None else found.count)
            if found is None or estimate.score_sd is None:
                continue
            one, two = (np.linalg.qr(e - e.mean(0))[0] for e in (x, found.positions))
            smallest.append(np.linalg.svd(one.T @ two)[1].min())
            truth, size = x[:, 0] - x[:, 0].mean(), estimate.scores.std()
            error = np.abs(truth / truth.std() - estimate.scores / size)
            inside.append(float(np.mean(error < 1.645 * estimate.score_sd / size)))
        print(f"D = {D}: found {np.bincount(counts)}, smallest canonical correlation "
              f"{min(smallest):.3f}, coverage {np.mean(inside):.3f}")  # fmt: skip


def crowds(options: argparse.Namespace) -> None:
    """One-dimensional crowds: how often one dimension is kept, and what auto costs."""
    kept, seconds = 0, np.zeros(2)
    for seed in range(options.seeds):
        votes = crowdsift.simulate(items=100, workers=100, comparisons=10_000, seed=seed)
        for at, d in enumerate(ONE_AND_AUTO):
            began = time.perf_counter()
            estimate = estimate_votes(
                crowdsift.Sift(dimensions=d), votes.comparisons(), Resources()
            )
            seconds[at] += time.perf_counter() - began
        kept += estimate.dimensions is None
    print(f"one dimension in {kept} of {options.seeds}, auto takes {seconds[1] / seconds[0]:.2f}")


def speed(options: argparse.Namespace) -> None:
    """A million votes in two dimensions, and auto beside one dimension."""
    votes, _ = drawn(2, 10_000, 10_000, 100, 0)
    for count in (1, 2):
        began = time.perf_counter()
        estimate_votes(crowdsift.Sift(dimensions=count), votes, Resources())
        print(f"1e6 votes, dimensions {count}: {time.perf_counter() - began:.1f} s", flush=True)
    flat = crowdsift.simulate(items=10_000, workers=10_000, comparisons=1_000_000, seed=0)
    for d in ONE_AND_AUTO:
        began = time.perf_counter()
        estimate_votes(crowdsift.Sift(dimensions=d), flat.comparisons(), Resources())
        print(f"1e6 one-dimensional votes, dimensions {d}: {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=("loss", "planted", "crowds", "speed"))
    parser.add_argument("--seeds", type=int, default=20)
    chosen = parser.parse_args()
    {"loss": loss, "planted": planted, "crowds": crowds, "speed": speed}[chosen.name](chosen)
