"""How often copied answers can be noticed: what is found, beside what an oracle would find.

Run with ``python -m benchmarks.copies [--boards N]``. The oracle knows the true probabilities, the rate of copying and
how it is done; only who copies whom is for the votes to say. It takes the likelihood ratio, the most powerful test
there is, and names the true one of H hypotheses where its chance without copies (by a saddle point) is at most 0.01/H:
as strict as what it is compared with. The modest oracle allows workers to hold to opinions of their own, as the method
does: votes of a worker on one pair are then but one opinion, and it is the opinion that may be a copy.
"""

from __future__ import annotations

import argparse
from math import comb, log
from statistics import NormalDist

import numpy as np

import crowdsift
from benchmarks.trust import Votes, crowd_with, share
from crowdsift.numeric.saddle_point import saddle_point

COPIED, CHANCE = 0.8, 0.01
Cell = tuple[list[float], list[float], float]


def sigmoid(x: float) -> float:
    """Return the logistic function."""
    return float(1 / (1 + np.exp(-x)))


def sure(cells: list[Cell], hypotheses: int) -> bool:
    """Whether a sum of log ratios is beyond chance; a cell: values, chances, the one seen."""
    wide = max(len(values) for values, _, _ in cells)
    value, chance = np.zeros((2, len(cells), wide))
    for row, (values, chances, _) in enumerate(cells):
        value[row, : len(values)], chance[row, : len(values)] = values, chances
    z = saddle_point(value, chance, sum(seen for _, _, seen in cells))
    return z > -NormalDist().inv_cdf(CHANCE / hypotheses)


def oracle(seed: int, pair_sd: float, copiers: int = 3) -> tuple[bool, bool]:
    """Whether the copies of `crowd_with` are noticed, by the oracle and by the modest one."""
    rng = np.random.default_rng(seed)
    score, slope = rng.normal(size=10), rng.uniform(0.5, 2.0, 15)
    effect = pair_sd * rng.normal(size=(10, 10))
    rows = crowd_with(seed, copiers=copiers, pair_sd=pair_sd)
    last: dict[tuple[int, int], bool] = {}
    held: dict[tuple[int, int, int], list[bool]] = {}
    for winner, loser, worker in zip(rows["winner"], rows["loser"], rows["worker"], strict=True):
        a, b = sorted((int(winner[1:]), int(loser[1:])))
        who, first = int(worker[1:]), winner == f"i{a}"
        if who == 0:
            last[a, b] = first
        held.setdefault((who, a, b), []).append(first)
    whole: list[Cell] = []
    modest: list[Cell] = []
    for (who, a, b), votes in held.items():
        if not 0 < who <= copiers or (a, b) not in last:
            continue
        p = sigmoid(slope[who] * (score[a] - score[b]) + effect[a, b])
        n, wins, o = len(votes), sum(votes), int(last[a, b])
        ways = [comb(n, k) for k in range(n + 1)]

        def binomial(q: float, n: int = n, ways: list[int] = ways) -> list[float]:
            return [ways[k] * q**k * (1 - q) ** (n - k) for k in range(n + 1)]

        given = [binomial(COPIED * opinion + (1 - COPIED) * p) for opinion in (0, 1)]
        for found, alone in (
            (whole, binomial(p)),
            (modest, [(1 - p) * x + p * y for x, y in zip(*given, strict=True)]),
        ):
            ratio = [log(x / y) for x, y in zip(given[o], alone, strict=True)]
            found.append((ratio, alone, ratio[wins]))
    hypotheses = 15 * comb(14, copiers)
    return sure(whole, hypotheses), sure(modest, hypotheses)


def crowds(boards: int) -> None:
    """Measure the crowds of `benchmarks.trust copying` with three who copy a fourth."""
    for pair_sd in (0.0, 0.7):
        found = np.array([oracle(seed, pair_sd) for seed in range(boards)])
        print(
            f"three copy a fourth, pair effects {pair_sd:.1f}: oracle "
            f"{share(found[:, 0].tolist())}, which allows for opinions of one's own "
            f"{share(found[:, 1].tolist())}",
            flush=True,
        )


def pair_of_copies(seed: int, overlap: int, copied: float) -> tuple[Votes, bool]:
    """15 workers, 150 pairs each of 40 items; worker 1 copies worker 0 on so many common pairs.

    With whether the oracle notices it.
    """
    rng = np.random.default_rng([seed, overlap])
    score, slope = rng.normal(size=40), rng.uniform(0.5, 2.0, 15)
    every = [(a, b) for a in range(40) for b in range(a + 1, 40)]
    rows: Votes = {name: [] for name in ("winner", "loser", "worker")}
    answers: dict[int, bool] = {}
    cells = []
    for worker in range(15):
        chosen = rng.choice(len(every), 150, replace=False)
        if worker == 1:
            other = np.setdiff1d(np.arange(len(every)), list(answers))
            shared = rng.choice(list(answers), overlap, replace=False)
            chosen = np.concatenate([shared, rng.choice(other, 150 - overlap, replace=False)])
        for at in chosen.tolist():
            a, b = every[at]
            p = sigmoid(slope[worker] * (score[a] - score[b]))
            first = bool(rng.random() < p)
            if worker == 1 and at in answers:
                if rng.random() < copied:
                    first = answers[at]
                alone = [1 - p, p]
                ratio = [log(copied * (k == answers[at]) / alone[k] + 1 - copied) for k in (0, 1)]
                cells.append((ratio, alone, ratio[first]))
            if worker == 0:
                answers[at] = first
            rows["winner"].append(f"i{a if first else b}")
            rows["loser"].append(f"i{b if first else a}")
            rows["worker"].append(f"w{worker:02d}")
    return rows, sure(cells, 15 * 14)


def overlaps(boards: int, method: str) -> None:
    """Power by the number of pairs in common."""
    for copied in (0.8, 0.99):
        for overlap in (20, 40, 80, 150):
            noticed, wrong, bound = [], [], []
            for seed in range(boards):
                rows, seen = pair_of_copies(seed, overlap, copied)
                groups = crowdsift.fit(rows, method, threads=1).copying().groups
                noticed.append(any({"w00", "w01"} <= set(group) for group in groups))
                wrong.append(any(set(group) - {"w00", "w01"} for group in groups))
                bound.append(seen)
            print(
                f"  copied {copied:.2f}, {overlap:3d} pairs in common: noticed {share(noticed)}, "
                f"oracle {share(bound)}, others named {share(wrong)}",
                flush=True,
            )


def main() -> None:
    """Run both measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", type=int, default=24)
    parser.add_argument("--method", default="bora-map")
    options = parser.parse_args()
    crowds(options.boards)
    print(f"{options.method}: one worker of 15 copies another, 40 items, 150 votes each")
    overlaps(options.boards, options.method)


if __name__ == "__main__":
    main()
