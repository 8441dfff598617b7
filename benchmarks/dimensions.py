"""What several dimensions are worth: left-out votes, planted crowds, one-dimensional crowds, speed.

Run with ``python -m benchmarks.dimensions NAME [--seeds N]``; NAME is loss, planted, crowds, speed, tastes or verdicts.
Seeds count from 0; the last two draw their votes by ``judges.py`` in the folder ``samples`` beside that of the data,
with seeds from 1.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import crowdsift
from benchmarks.data import data_folder
from crowdsift.fitting.estimate import Resources, estimate_votes
from crowdsift.fitting.holdout import left_out_log_likelihood
from crowdsift.lab.spam import add_spammers
from crowdsift.numeric.metrics import measure_up_to_sign
from crowdsift.paper.synthetic import RANGES, SWEEPS
from crowdsift.votes.comparisons import Comparisons

JUDGEMENT = {"winner": "candidate_chosen", "loser": "candidate_not_chosen", "worker": "judge"}
SETS = (
    "cj_spehar2016_expt2_plain.csv",
    "cj_luckett2018_cola.csv",
    "llmfao.csv",
    "lightfield.csv",
    "passage.csv",
    "mtbench.csv",
    "musicsim.csv",
    "wmt13_fren.csv.gz",
)


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


ARENA = "arena.jsonl"
ONE_AND_AUTO: tuple[int | str, ...] = (1, "auto")


def loss(options: argparse.Namespace) -> None:
    """Left-out log loss, five folds; ties are left away in the sets without them."""
    for name in SETS:
        columns = JUDGEMENT if name.startswith("cj_") else None
        votes = crowdsift.read(data_folder() / name, columns=columns)
        if name == "llmfao.csv":
            votes = votes.select(votes.outcome != 0.5)
        found = [-left_out_log_likelihood(votes, crowdsift.Sift(dimensions=d)) for d in ONE_AND_AUTO]
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
        print(
            f"D = {D}: found {np.bincount(counts)}, smallest canonical correlation "
            f"{min(smallest):.3f}, coverage {np.mean(inside):.3f}, with the standard error "
            f"{np.std(inside) / np.sqrt(len(inside)):.3f} over crowds"
        )


def crowds(options: argparse.Namespace) -> None:
    """One-dimensional crowds of the paper, their sweeps thinned, with random spammers: auto beside one dimension."""
    found: Counter[str] = Counter()
    accuracy, seconds, number = np.zeros(2), np.zeros(2), 0
    points = {point for sweep in SWEEPS.values() for point in sweep[:: options.every]}
    for seed in range(options.seeds):
        for span, (items, workers, count) in itertools.product(RANGES.values(), sorted(points)):
            crowd = crowdsift.simulate(items, workers, count, reliability=span, seed=seed)
            votes, number = add_spammers(crowd.comparisons(), "random", 10, seed), number + 1
            spammers = sorted(set(map(str, votes.workers)) - set(map(str, crowd.workers)))
            for at, d in enumerate(ONE_AND_AUTO):
                began = time.perf_counter()
                fit = crowdsift.fit(votes, dimensions=d)
                seconds[at] += time.perf_counter() - began
                accuracy[at] += measure_up_to_sign(fit.scores_of(crowd.items), crowd.scores).accuracy
                table = fit.decisions()
                verdict = dict(zip(map(str, table["worker"]), map(str, table["verdict"]), strict=True))
                found[f"called random, dimensions {d}"] += sum(verdict[name] == "random" for name in spammers)
            found["spammers"] += len(spammers)
            found["one dimension kept"] += fit.summary["dimensions"] == 1
    accuracy /= number
    print(f"{number} crowds: {dict(found)}; accuracy {accuracy[0]:.5f}, auto {accuracy[1]:.5f}", flush=True)
    print(f"auto takes {seconds[1] / seconds[0]:.2f} of the time of one dimension")


def speed(options: argparse.Namespace) -> None:
    """Votes in two dimensions, and auto beside one dimension: the least CPU and wall time of three runs."""

    def timed(name: str, votes: Comparisons, choices: tuple[int | str, ...]) -> None:
        least = dict.fromkeys(choices, (np.inf, np.inf))
        for _ in range(3):
            for d in choices:
                began, cpu = time.perf_counter(), time.process_time()
                estimate_votes(crowdsift.Sift(dimensions=d), votes, Resources())
                least[d] = min(least[d], (time.process_time() - cpu, time.perf_counter() - began))
        each = ", ".join(f"{d}: {cpu:.2f} s CPU, {wall:.2f} s" for d, (cpu, wall) in least.items())
        print(f"{name}, dimensions {each}", flush=True)

    timed("1e6 votes in two dimensions", drawn(2, 10_000, 10_000, 100, 0)[0], (1, 2))
    for items, count in ((100, 10_000), (10_000, 1_000_000)):
        flat = crowdsift.simulate(items=items, workers=items, comparisons=count, seed=0).comparisons()
        timed(f"{count:.0e} one-dimensional votes", flat, ONE_AND_AUTO)
    for folder in samples(1, "make.py"):
        timed("arena sample", crowdsift.read(folder / ARENA), (1, 2))


def samples(seeds: int, name: str = "judges.py") -> Iterator[Path]:
    """Folders with the votes of a script of samples, a seed each; none where it is not there."""
    script = data_folder().parent / "samples" / name
    if not script.is_file():
        print(f"skipped: no {script.name} in the folder {script.parent.name}")
        return
    for seed in range(1, seeds + 1):
        with TemporaryDirectory() as folder:
            subprocess.run([sys.executable, script, folder, "--seed", str(seed)], check=True, stdout=subprocess.DEVNULL)
            yield Path(folder)


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def tastes(options: argparse.Namespace) -> None:
    """Verdicts on people of a majority, of a minority, and at random, and who is to be blocked."""
    found: Counter[tuple[str, str]] = Counter()
    for folder in samples(options.seeds):
        kind = {row["worker"]: row["kind"] for row in rows_of(folder / "tastes_workers.csv")}
        table = crowdsift.fit(folder / "tastes.csv").decisions()
        for worker, verdict, advice in zip(table["worker"], table["verdict"], table["suggestion"], strict=True):
            found[kind[str(worker)], str(verdict)] += 1
            found[kind[str(worker)], f"({advice})"] += 1
    for (who, what), count in sorted(found.items()):
        print(f"{who}: {what} {count}")


def verdicts(options: argparse.Namespace) -> None:
    """Judges who share errors, 20 gold pairs: the other pairs that are right, by majority, and as stated."""
    right, stated, most = [], [], []
    for folder in samples(options.seeds):
        gold = rows_of(folder / "verdicts_gold.csv")
        known = {name: [row[name] for row in gold[:20]] for name in gold[0]}
        fit = crowdsift.fit(folder / "verdicts", gold=known, worker_from_path=True)
        won, lost = ([(row["id"], row[name]) for row in gold[20:]] for name in ("winner", "loser"))
        p = np.asarray(fit.better(won, lost))
        right.append(float(np.mean(p > 0.5)))
        stated.append(p)
        assert fit.votes is not None
        most.append(majority(fit.votes, won, lost))
        print(f"{fit.summary['dimensions']} dimensions, {right[-1]:.3f} right, majority {most[-1]:.3f}", flush=True)
    if right:
        p = np.concatenate(stated)
        sure = np.maximum(p, 1.0 - p)
        above = sure > 0.95
        print(
            f"mean {np.mean(right):.3f}, majority {np.mean(most):.3f}; of {above.sum()} stated above .95 (mean "
            f"{sure[above].mean():.3f}) {np.mean(p[above] > 0.5):.3f} right"
        )


def majority(votes: Comparisons, won: list[tuple[str, str]], lost: list[tuple[str, str]]) -> float:
    """Return the share of pairs in which most votes are for the item that won; a tie counts as half."""
    code = {label: i for i, label in enumerate(votes.items)}
    lead: defaultdict[tuple[int, int], float] = defaultdict(float)
    for first, second, outcome, weight in zip(*votes.columns, strict=True):
        lead[int(first), int(second)] += float(weight * (2.0 * outcome - 1.0))
    ahead = [lead[code[a], code[b]] - lead[code[b], code[a]] for a, b in zip(won, lost, strict=True)]
    return float(np.mean(0.5 + 0.5 * np.sign(ahead)))


BENCHMARKS = {
    "loss": loss,
    "planted": planted,
    "crowds": crowds,
    "speed": speed,
    "tastes": tastes,
    "verdicts": verdicts,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(BENCHMARKS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--every", type=int, default=4, help="crowds: take every so many-th point of a sweep")
    chosen = parser.parse_args()
    BENCHMARKS[chosen.name](chosen)
