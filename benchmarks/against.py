"""How much of the order each library finds when part of the crowd cannot be trusted.

Run with ``python -m benchmarks.against``. Simulated crowds, then with spammers added; every library gets the same
votes, each in an environment of its own (benchmarks/rivals/README.md). The figure is the share of pairs of items in the
right order, a mean over seeds with its standard error.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

import crowdsift
from benchmarks.peers import PEERS, run_peer

LIBRARIES = ("crowdsift", *PEERS)
CROWDS = {
    "clean": None,
    "50 % random": ("random", 50),
    "60 % adversarial": ("adversarial", 60),
    "200 % left": ("left", 200),
}


def crowd(kind: tuple[str, int] | None, seed: int) -> tuple[crowdsift.Comparisons, dict[str, float]]:
    """50 items, 60 workers with reliabilities between 0.5 and 2, 6,000 votes, and the truth."""
    drawn = crowdsift.simulate(50, 60, 6000, reliability=(0.5, 2.0), seed=seed)
    votes = drawn.comparisons()
    if kind is not None:
        votes = crowdsift.add_spammers(votes, kind[0], kind[1], seed=seed)
    return votes, dict(zip(drawn.items, drawn.scores, strict=True))


def found(library: str, votes: crowdsift.Comparisons, truth: dict[str, float]) -> float:
    """Return the share of pairs that a library puts in the right order."""
    if library == "crowdsift":
        scores = crowdsift.fit(votes).scores_of(votes.items)
    else:
        result = run_peer(library, votes)
        if "scores" not in result:
            raise SystemExit(f"{library}: {result['note']}")
        scores = np.asarray(result["scores"], dtype=float)
    return crowdsift.metrics.accuracy(scores, [truth[str(item)] for item in votes.items])


def main() -> None:
    """Print a row per library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default=",".join(LIBRARIES), help="these libraries")
    options = parser.parse_args()
    seeds = range(options.seeds)
    print("| |" + " | ".join(CROWDS) + " |\n|---|" + "---|" * len(CROWDS))
    for library in options.only.split(","):
        cells = []
        for kind in CROWDS.values():
            each = [found(library, *crowd(kind, seed)) for seed in seeds]
            error = statistics.stdev(each) / len(each) ** 0.5
            cells.append(f"{statistics.mean(each):.3f} ± {error:.3f}")
        print(f"| {library} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
