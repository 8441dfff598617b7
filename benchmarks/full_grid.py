"""How far the grid of worker types decides scores and evidence of sift.

Run with ``python -m benchmarks.full_grid [--points 97] [NAME ...]``. Every pass of sift is over all types of the grid,
so there is no smaller set of types to hold against a full one. What is left of the grid is its spacing: this compares
the default, 49 reliabilities and adaptive grids of workers whose posterior is narrower than a cell, with a grid of more
points, on the real data sets.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import crowdsift
from benchmarks.data import data_folder

__all__ = ["compared"]

NAMES = ("passage", "faceage_subset", "llmfao", "mtbench", "musicsim", "lightfield", "wmt13_fren")


def compared(name: str, points: int) -> tuple[float, float, float]:
    """Root mean square and largest difference of scores in their sd, and that of the evidence."""
    path = next(data_folder().glob(f"{name}.csv*"))
    votes = crowdsift.read(path)
    usual = crowdsift.fit(votes, crowdsift.Sift())
    fine = crowdsift.fit(votes, crowdsift.Sift(grid_points=points))
    one = np.asarray(usual.items["score"], np.float64)
    two = fine.scores_of(usual.labels)
    apart = (one - two) / one.std()
    evidence = fine.summary["evidence"] - usual.summary["evidence"]
    return float(np.sqrt(np.mean(apart**2))), float(np.abs(apart).max()), float(evidence)


def main() -> None:
    """Print one row a data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--points", type=int, default=97)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | scores, rms (sd) | largest (sd) | evidence of the finer grid (nats) |")
    print("|---|---|---|---|")
    for name in given.names:
        usual, largest, evidence = compared(name, given.points)
        print(f"| {name} | {usual:.1e} | {largest:.1e} | {evidence:+.3f} |", flush=True)


if __name__ == "__main__":
    main()
