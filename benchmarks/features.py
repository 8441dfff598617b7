"""What features of items are worth: accuracy, items without votes, preference rows, coverage.

Run with ``python -m benchmarks.features NAME [--seeds N] [--data FOLDER]``; NAME is passage,
left-out, preferences, unseen, noise or large. Seeds count from 0; means have standard errors.
Shares are chosen by evidence, penalties of rivals by left-out votes, nothing by the truth.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift
from crowdsift.io.item_features import group_values, read_features_table, with_item_features
from crowdsift.numeric.metrics import measure
from crowdsift.votes.comparisons import Comparisons

Run = Callable[[argparse.Namespace], None]
SPAM = (("none", 0), ("adversarial", 40), ("adversarial", 80), ("random", 40), ("random", 80))


def mean(values: list[float]) -> str:
    """A mean with its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.4f} ± {error:.4f} ({len(values)})"


def passages(options: argparse.Namespace) -> tuple[Comparisons, dict[str, str], dict[str, float]]:
    """The votes on passages, their texts and their grades."""
    folder = Path(options.data or os.environ["CROWDSIFT_DATA"])
    rows = list(csv.DictReader((folder / "passage_items.csv").open(encoding="utf-8")))
    texts = {row["item"]: row["text"] for row in rows}
    return crowdsift.read(folder / "passage.csv"), texts, {
        row["item"]: float(row["score"]) for row in rows
    }  # fmt: skip


def spammed(votes: Comparisons, kind: str, percent: int, seed: int) -> Comparisons:
    """The votes and spammers; sides, which were not known, are not used."""
    if kind == "none":
        return votes
    return crowdsift.add_spammers(votes, kind, percent, seed)


def fit(votes: Comparisons, **given: Any) -> crowdsift.Fit:
    """The method sift without side biases, which these votes have none of."""
    return crowdsift.fit(votes, crowdsift.Sift(sides=False), **given)


def passage(options: argparse.Namespace) -> None:
    """Accuracy and tau on Passage with texts, clean and with spammers."""
    votes, texts, truth = passages(options)
    for kind, percent in (("none", 0), ("adversarial", 80), ("random", 900)):
        found: dict[str, list[float]] = {"accuracy": [], "tau": [], "without": []}
        for seed in range(1 if kind == "none" else options.seeds):
            given = spammed(votes, kind, percent, seed)
            y = np.array([truth[str(item)] for item in given.items])
            result = measure(fit(given, item_text=texts).scores_of(given.items), y)
            found["accuracy"].append(result.accuracy)
            found["tau"].append(result.kendall_tau)
            found["without"].append(measure(fit(given).scores_of(given.items), y).accuracy)
        print(kind, percent, {name: mean(values) for name, values in found.items()}, flush=True)


def ridge(votes: Comparisons, beta: np.ndarray, gram: np.ndarray, penalty: float) -> np.ndarray:
    """Dual weights a, scores being gram·a: Σ -log σ(β d) + ½ penalty aᵀ gram a, by Newton."""
    a, n = np.zeros(len(gram)), len(gram)
    for _ in range(12):
        f = gram @ a
        d = beta * (f[votes.first] - f[votes.second])
        p = 1.0 / (1.0 + np.exp(-d))
        slope = votes.weight * beta * (votes.outcome - p)
        w = votes.weight * beta**2 * p * (1.0 - p)
        b = np.bincount(votes.first, slope, n) - np.bincount(votes.second, slope, n)
        L = np.zeros((n, n))
        for one, two, sign in ((0, 0, 1), (1, 1, 1), (0, 1, -1), (1, 0, -1)):
            np.add.at(L, ((votes.first, votes.second)[one], (votes.first, votes.second)[two]),
                      sign * w)  # fmt: skip
        a = np.linalg.solve(L @ gram + penalty * np.eye(n), L @ f + b)
    return a


def tuned_ridge(votes: Comparisons, beta: np.ndarray, gram: np.ndarray, seed: int) -> np.ndarray:
    """The ridge whose penalty foretells a fifth of the votes best."""
    part = np.random.default_rng(seed).integers(0, 5, len(votes))
    kept, left = votes.select(part > 0), votes.select(part == 0)
    loss = {}
    for penalty in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0):
        f = gram @ ridge(kept, beta[part > 0], gram, penalty)
        d = beta[part == 0] * (f[left.first] - f[left.second])
        loss[penalty] = np.mean(np.log1p(np.exp(-np.where(left.outcome > 0.5, d, -d))))
    return ridge(votes, beta, gram, min(loss, key=lambda each: loss[each]))


def left_out(options: argparse.Namespace) -> None:
    """A fifth of the passages without any vote: their order by features, ours and by ridge."""
    votes, texts, truth = passages(options)
    for kind, percent in [row for row in SPAM if options.spam in (None, f"{row[0]}-{row[1]}")]:
        found: dict[str, list[float]] = {"sift": [], "ridge": [], "ridge, votes weighted": []}
        for seed in range(options.seeds):
            hidden = np.random.default_rng(seed).permutation(votes.n_items) % 5 == seed % 5
            seen = votes.select(~hidden[votes.first] & ~hidden[votes.second])
            given = spammed(seen, kind, percent, seed)
            items = [str(item) for item in votes.items]
            known = Comparisons.from_arrays(
                given.items[given.first], given.items[given.second], outcome=given.outcome,
                weight=given.weight, worker=given.workers[given.worker_codes()],
            )  # fmt: skip
            away = [item for item, gone in zip(items, hidden, strict=True) if gone]
            y = np.array([truth[item] for item in away])
            table = {"item": away, "text": [texts[item] for item in away]}
            ours = fit(known, item_text=texts)
            found["sift"].append(measure(ours.score(table)["score"], y).accuracy)
            featured = with_item_features(known, text=texts).item_features
            assert featured is not None
            new = read_features_table(featured.groups, table)
            gram = sum(0.5 * g.values.astype(float) @ g.values.T.astype(float)
                       for g in featured.groups)  # fmt: skip
            cross = sum(0.5 * group_values(g, new) @ g.values.T for g in featured.groups)
            plain = fit(known)
            place = {who: row for row, who in enumerate(plain.worker_table["worker"])}
            reliability = plain.worker_table["reliability"][[place[w] for w in known.workers]]
            trusted = reliability[known.worker_codes()]
            for name, beta in (("ridge", np.ones(len(known))), ("ridge, votes weighted", trusted)):
                a = tuned_ridge(known, beta, gram, seed)
                found[name].append(measure(cross @ a, y).accuracy)
        print(kind, percent, {name: mean(values) for name, values in found.items()})
        for name in ("ridge", "ridge, votes weighted"):
            gain = [one - two for one, two in zip(found["sift"], found[name], strict=True)]
            print("    sift less", name, mean(gain), flush=True)


def preferences(options: argparse.Namespace) -> None:
    """20,000 prompts, one pair each judged once; 64-dimensional embeddings of the answers."""
    for seed in range(options.seeds):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(40_000, 64)), rng.normal(size=64)
        r = np.sqrt(0.5) * (X @ w / np.linalg.norm(w) + rng.normal(size=40_000))
        beta = np.concatenate([rng.gamma(8, 0.25, 80), np.zeros(15), -rng.gamma(8, 0.25, 5)])
        who, a = rng.integers(0, 100, 20_000), np.arange(20_000)
        won = rng.random(20_000) < 1 / (1 + np.exp(-beta[who] * (r[a] - r[a + 20_000])))
        votes = Comparisons.from_arrays(
            np.where(won, a, a + 20_000), np.where(won, a + 20_000, a), worker=who
        )
        started = time.perf_counter()
        found = crowdsift.fit(votes, items={"item": np.arange(40_000), "x": X})
        seconds = time.perf_counter() - started
        for name, each in (("with", found), ("without", crowdsift.fit(votes))):
            verdict = np.empty(100, dtype=object)
            verdict[each.worker_table["worker"].astype(int)] = each.worker_table["verdict"]
            print(
                f"seed {seed}, {name} features: adversarial found "
                f"{int((verdict[95:] == 'adversarial').sum())} of 5, random "
                f"{int((verdict[80:95] == 'random').sum())} of 15, careful flagged "
                f"{int(np.isin(verdict[:80], ['adversarial', 'random']).sum())} of 80; "
                + (f"{seconds:.1f} s" if name == "with" else ""), flush=True,
            )  # fmt: skip


def simulated(
    seed: int, features: int, share: float
) -> tuple[Comparisons, np.ndarray, np.ndarray, np.ndarray]:
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
        for seed in range(options.seeds):
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
    for seed in range(max(options.seeds, 20)):
        votes, X, _, _ = simulated(seed, 8, 0.5)
        other = np.random.default_rng(1_000 + seed).normal(size=X[:200].shape)
        found = crowdsift.fit(votes, items={"item": np.arange(200), "x": other})
        used.append(bool(found.summary["item_features"]["used"]))
    print(f"noise: used in {sum(used)} of {len(used)}", flush=True)


def large(options: argparse.Namespace) -> None:
    """Seconds for 1e6 votes on 1e5 items, by the number of features."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(100_000, 512)).astype(np.float32), rng.normal(size=512)
    r = np.sqrt(0.5) * (X @ w / np.linalg.norm(w) + rng.normal(size=100_000))
    beta = rng.gamma(8, 0.25, 5_000)
    who, a = rng.integers(0, 5_000, 1_000_000), rng.integers(0, 100_000, 1_000_000)
    b = (a + rng.integers(1, 100_000, 1_000_000)) % 100_000
    won = rng.random(1_000_000) < 1 / (1 + np.exp(-beta[who] * (r[a] - r[b])))
    votes = Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=who)
    for size in options.sizes:
        started = time.perf_counter()
        items = {"item": np.arange(100_000), "x": X[:, :size]} if size else None
        found = crowdsift.fit(votes, items=items, threads=2)
        seconds, about = time.perf_counter() - started, found.summary.get("item_features")
        print(f"{size} features: {seconds:.1f} s, {found.summary['iterations']} iterations", about,
              flush=True)  # fmt: skip


RUNS: dict[str, Run] = {"passage": passage, "left-out": left_out, "preferences": preferences,
                        "unseen": unseen, "noise": noise, "large": large}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=RUNS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data")
    parser.add_argument("--spam", help="one row of left-out, as adversarial-80")
    parser.add_argument("--sizes", type=int, nargs="*", default=[0, 128, 512])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    RUNS[options.name](options)


if __name__ == "__main__":
    main()
