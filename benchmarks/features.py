"""What features of items are worth: accuracy, items without votes, preference rows, coverage.

Run with ``python -m benchmarks.features NAME [--seeds N] [--data FOLDER]``; NAME is passage, preferences, unseen, noise
or large; items without votes beside reward models are in `benchmarks.left_out_items`. Seeds count from 0; means have
standard errors. Shares are chosen by evidence, nothing by the truth.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import crowdsift
from crowdsift.numeric.metrics import measure
from crowdsift.votes.comparisons import Comparisons

Run = Callable[[argparse.Namespace], None]
ADVERSARIES = ("sample", "opposite")  # -1.5 each, or each drawn as a careful one is, turned round


def mean(values: list[float]) -> str:
    """Return a mean with its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.4f} ± {error:.4f} ({len(values)})"


def passages(options: argparse.Namespace) -> tuple[Comparisons, dict[str, str], dict[str, float]]:
    """Return the votes on passages, their texts and their grades."""
    folder = Path(options.data or os.environ["CROWDSIFT_DATA"])
    rows = list(csv.DictReader((folder / "passage_items.csv").open(encoding="utf-8")))
    texts = {row["item"]: row["text"] for row in rows}
    return crowdsift.read(folder / "passage.csv"), texts, {row["item"]: float(row["score"]) for row in rows}


def spammed(votes: Comparisons, kind: str, percent: int, seed: int) -> Comparisons:
    """Return the votes and spammers; sides, which were not known, are not used."""
    if kind == "none":
        return votes
    return crowdsift.add_spammers(votes, kind, percent, seed)


def fit(votes: Comparisons, **given: Any) -> crowdsift.Fit:
    """Return the method sift without side biases, which these votes have none of."""
    return crowdsift.fit(votes, crowdsift.Sift(sides=False), **given)


def passage(options: argparse.Namespace) -> None:
    """Accuracy and tau on Passage with texts, clean and with spammers."""
    votes, texts, truth = passages(options)
    for kind, percent in (("none", 0), ("adversarial", 80), ("random", 900)):
        if options.rows and f"{kind}-{percent}" not in options.rows:
            continue
        found: dict[str, list[float]] = {"accuracy": [], "tau": [], "without": []}
        for seed in range(options.first, 1 if kind == "none" else options.seeds):
            given = spammed(votes, kind, percent, seed)
            y = np.array([truth[str(item)] for item in given.items])
            result = measure(fit(given, item_text=texts).scores_of(given.items), y)
            found["accuracy"].append(result.accuracy)
            found["tau"].append(result.kendall_tau)
            found["without"].append(measure(fit(given).scores_of(given.items), y).accuracy)
        print(kind, percent, {name: mean(values) for name, values in found.items()}, flush=True)


class Preferences(NamedTuple):
    """Preference rows and their truth: 80 careful annotators, 15 random, 5 adversarial."""

    votes: Comparisons
    X: np.ndarray
    beta: np.ndarray
    who: np.ndarray
    by_features: np.ndarray  # of the winner over the loser of every vote, for features alone


def preference_rows(seed: int, adversaries: str) -> Preferences:
    """20,000 prompts, one pair each judged once; embeddings that explain half the variance."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(40_000, 64)), rng.normal(size=64)
    part = X @ w / np.linalg.norm(w)
    r = np.sqrt(0.5) * (part + rng.normal(size=40_000))
    beta = np.concatenate([rng.gamma(8, 0.25, 80), np.zeros(15), -rng.gamma(8, 0.25, 5)])
    if adversaries == "sample":
        beta[95:] = -1.5
    who, a = rng.integers(0, 100, 20_000), np.arange(20_000)
    won = rng.random(20_000) < 1 / (1 + np.exp(-beta[who] * (r[a] - r[a + 20_000])))
    best, worst = np.where(won, a, a + 20_000), np.where(won, a + 20_000, a)
    votes = Comparisons.from_arrays(best, worst, worker=who)
    return Preferences(votes, X, beta, who, part[best] - part[worst])


def preferences(options: argparse.Namespace) -> None:
    """Who is found where every answer is in one vote, with features and by votes alone.

    Annotators are those of the preferences in the samples, whose adversaries have -1.5; harder, and not asked for, are
    ones that are each the opposite of a careful annotator, some of them weak.
    """
    for kind, seed in product(options.rows or ADVERSARIES, range(options.first, options.seeds)):
        drawn = preference_rows(seed, kind)
        started, cpu = time.perf_counter(), time.process_time()
        found = crowdsift.fit(drawn.votes, items={"item": np.arange(40_000), "x": drawn.X}, threads=options.threads)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        alone = (("without", crowdsift.fit(drawn.votes)),) if kind == ADVERSARIES[0] else ()
        for name, each in (("with", found), *alone):
            order = np.argsort(each.worker_table["worker"].astype(int))
            verdict, beta = (each.worker_table[name][order] for name in ("verdict", "reliability"))
            ratio = beta[:80].mean() / drawn.beta[:80].mean()
            print(
                f"adversaries {kind}, seed {seed}, {name} features: adversarial found "
                f"{int((verdict[95:] == 'adversarial').sum())} of 5, random "
                f"{int((verdict[80:95] == 'random').sum())} of 15, careful flagged "
                f"{int(np.isin(verdict[:80], ['adversarial', 'random']).sum())} of 80; "
                + (
                    f"reliabilities of careful ones {ratio:.2f} times as large as true; "
                    f"{seconds:.1f} s, {cpu:.1f} s of CPU"
                    if name == "with"
                    else ""
                ),
                flush=True,
            )


def simulated(seed: int, features: int, share: float) -> tuple[Comparisons, np.ndarray, np.ndarray, np.ndarray]:
    """Votes on 200 of 400 items, all features, and all scores."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(400, features)), rng.normal(size=features)
    r = np.sqrt(share) * X @ w / np.linalg.norm(w) + np.sqrt(1 - share) * rng.normal(size=400)
    worker, a = rng.integers(0, 50, 4000), rng.integers(0, 200, 4000)
    b = (a + rng.integers(1, 200, 4000)) % 200
    beta = np.where(np.arange(50) < 40, rng.gamma(8, 0.25, 50), 0.0)[worker]
    won = rng.random(4000) < 1 / (1 + np.exp(-beta * (r[a] - r[b])))
    votes = Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=worker)
    return votes, X, r, beta


def unseen(options: argparse.Namespace) -> None:
    """Coverage of 90 % intervals of items that nobody compared; the scale is that of the fit."""
    for features, share in ((8, 0.5), (32, 0.7)):
        inside: list[float] = []
        for seed in range(options.first, options.seeds):
            votes, X, r, _ = simulated(seed, features, share)
            found = crowdsift.fit(votes, items={"item": np.arange(200), "x": X[:200]})
            table = found.score(X[200:])
            scale = np.sqrt(np.mean((r[:200] - r[:200].mean()) ** 2))
            true = (r[200:] - r[:200].mean()) / scale
            inside.append(float(np.mean((table["lower"] <= true) & (true <= table["upper"]))))
        print(f"{features} features, share {share}: coverage {mean(inside)}", flush=True)


def noise(options: argparse.Namespace) -> None:
    """How often features that are noise are used."""
    used = []
    for seed in range(options.first, max(options.seeds, 20)):
        votes, X, _, _ = simulated(seed, 8, 0.5)
        other = np.random.default_rng(1_000 + seed).normal(size=X[:200].shape)
        found = crowdsift.fit(votes, items={"item": np.arange(200), "x": other})
        used.append(bool(found.summary["item_features"]["used"]))
    print(f"noise: used in {sum(used)} of {len(used)}", flush=True)


def large(options: argparse.Namespace) -> None:
    """Seconds for ten votes an item, by the number of features."""
    rng, n, votes = np.random.default_rng(0), options.items, 10 * options.items
    workers = max(votes // 200, 10)
    X, w = rng.normal(size=(n, max(*options.sizes, 1))).astype(np.float32), rng.normal(size=n)
    w = w[: X.shape[1]]
    r = np.sqrt(0.5) * (X @ w / np.linalg.norm(w) + rng.normal(size=n))
    beta = rng.gamma(8, 0.25, workers)
    who, a = rng.integers(0, workers, votes), rng.integers(0, n, votes)
    b = (a + rng.integers(1, n, votes)) % n
    won = rng.random(votes) < 1 / (1 + np.exp(-beta[who] * (r[a] - r[b])))
    given = Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=who)
    for size in options.sizes:
        started, cpu = time.perf_counter(), time.process_time()
        items = {"item": np.arange(n), "x": X[:, :size]} if size else None
        found = crowdsift.fit(given, items=items, threads=options.threads)
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        about = found.summary.get("item_features")
        order = np.array([int(each) for each in found.item_table["item"]])
        right = np.corrcoef(found.item_table["score"], r[order])[0, 1]
        print(
            f"{votes} votes, {n} items, {size} features: {seconds:.1f} s, {cpu:.1f} s of CPU, "
            f"{found.summary['iterations']} iterations, correlation {right:.4f}",
            about,
            flush=True,
        )


RUNS: dict[str, Run] = {
    "passage": passage,
    "preferences": preferences,
    "unseen": unseen,
    "noise": noise,
    "large": large,
}


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=RUNS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", nargs="*", help="as adversarial-80 or, of preferences, sample")
    parser.add_argument("--data")
    parser.add_argument("--sizes", type=int, nargs="*", default=[0, 128, 512])
    parser.add_argument("--items", type=int, default=100_000, help="of large")
    parser.add_argument("--threads", type=int, default=2, help="of large and preferences")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    RUNS[options.name](options)


if __name__ == "__main__":
    main()
