"""Planted rankings and left-out rankings of WMT13: rankings themselves against weighted pairs.

`python -m benchmarks.rankings planted [CROWDS [FIRST_SEED]]`, `graded [...]`, `arena FOLDER ...` (of Arena-Hard
files), `wmt13`.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

import crowdsift
from benchmarks.data import data_folder
from crowdsift.results import predict
from crowdsift.results.query import model_of

ITEMS, WORKERS, SPAMMERS = 30, 100, 20


def crowd(seed: int, kind: str) -> tuple[np.ndarray, crowdsift.Comparisons]:
    """Draw 100 workers, 20 of whom answer at random; the truth in the unit of sift."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=ITEMS)
    truth = (truth - truth.mean()) * np.sqrt((1 - 1 / ITEMS) / truth.var())
    slope = rng.uniform(1, 3, WORKERS)
    slope[:SPAMMERS] = 0
    rows: dict[str, list[str]] = defaultdict(list)
    for who in np.repeat(np.arange(WORKERS), 8 if kind == "rankings" else 12):
        shown = rng.choice(ITEMS, rng.integers(3, 9), replace=False)
        utility = slope[who] * truth[shown]
        order = shown[np.argsort(-(utility + rng.gumbel(size=len(shown))))]
        rows["worker"].append(str(who))
        if kind == "rankings":
            rows["ranking"].append(">".join(map(str, order)))
            continue
        rows["items"].append("|".join(map(str, shown)))
        if kind == "best":
            rows["best"].append(str(order[0]))
            continue
        odds = np.exp(utility[:, None] - utility)
        np.fill_diagonal(odds, 0)
        best, worst = divmod(rng.choice(odds.size, p=(odds / odds.sum()).ravel()), len(shown))
        rows["best"].append(str(shown[best]))
        rows["worst"].append(str(shown[worst]))
    return truth, crowdsift.read(dict(rows))


def planted(crowds: int, first: int = 0) -> None:
    """Print coverage of 90 % intervals, error of scores, spammers found and honest ones blamed."""
    for kind in ("rankings", "best", "best-worst"):
        figures: dict[str, list[list[float]]] = {"weighted pairs": [], "rankings": []}
        for seed in range(first, first + crowds):
            truth, votes = crowd(seed, kind)
            for name, each in zip(figures, (replace(votes, choices=None), votes), strict=True):
                fit = crowdsift.fit(each, threads=1)
                items, workers = fit.item_table, fit.worker_table
                true = truth[items["item"].astype(int)]
                inside = (items["lower"] <= true) & (true <= items["upper"])
                spam = workers["worker"].astype(int) < SPAMMERS
                random = workers["verdict"] == "random"
                error = float(np.sqrt(np.mean((items["score"] - true) ** 2)))
                figures[name].append([inside.mean(), error, random[spam].mean(), random[~spam].mean()])
        for name, rows in figures.items():
            mean, se = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(crowds)
            shown = (f"{m:.4f} ({e:.4f})" for m, e in zip(mean, se, strict=True))
            print(f"{kind}, {name}: covered, error, found, blamed", *shown)


def wmt_rankings() -> tuple[list[str], list[str]]:
    """Return worker and text of every ranking of WMT13 French-English whose pairs are an order."""
    with gzip.open(data_folder() / "wmt13_fren.csv.gz", "rt") as file:
        tasks: dict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
        for row in csv.DictReader(file):
            outcome = {"left": 1.0, "right": 0.0, "tie": 0.5}[row["winner"]]
            pairs = tasks[row["worker"], row["task"]]
            pairs[row["left"], row["right"]] = outcome
            pairs[row["right"], row["left"]] = 1.0 - outcome
    workers, texts = [], []
    for (worker, _), pairs in tasks.items():
        items = sorted({item for pair in pairs for item in pair})
        if len(pairs) != len(items) * (len(items) - 1):
            continue
        wins = {item: sum(pairs[item, other] for other in items if other != item) for item in items}
        groups: dict[float, list[str]] = defaultdict(list)
        for item in items:
            groups[wins[item]].append(item)
        workers.append(worker)
        texts.append(">".join("=".join(groups[won]) for won in sorted(groups, reverse=True)))
    return workers, texts


def wmt13(folds: int = 5) -> None:
    """Print the mean log loss of left-out rankings."""
    workers, texts = (np.array(column, object) for column in wmt_rankings())
    fold = np.random.default_rng(0).integers(0, folds, len(texts))
    whole = crowdsift.read({"worker": workers, "ranking": texts})
    place = {label: code for code, label in enumerate(whole.items)}
    who = {label: code for code, label in enumerate(whole.workers)}
    losses: dict[str, list[np.ndarray]] = defaultdict(list)
    for number in range(folds):
        kept, out = fold != number, fold == number
        train = crowdsift.read({"worker": workers[kept], "ranking": texts[kept]})
        left = crowdsift.read({"worker": workers[out], "ranking": texts[out]})
        codes = np.array([place[label] for label in left.items])
        people = np.array([who[label] for label in left.workers])
        assert left.choices is not None
        choices = left.choices.recoded(codes, people)
        for method in ("bt", "sift"):
            for name, votes in (("ranks", train), ("pairs", replace(train, choices=None))):
                fit = crowdsift.fit(votes, method)
                scores = np.zeros(whole.n_items)
                for item, score in zip(fit.items["item"], fit.items["score"], strict=True):
                    scores[place[item]] = score
                slopes = np.ones((whole.n_workers, 1))
                if method == "sift":  # a worker without votes is one of the crowd
                    assert fit.posterior is not None
                    assert fit.posterior.quantiles is not None
                    own = fit.posterior.quantiles
                    slopes = np.tile(np.quantile(own, (np.arange(16) + 0.5) / 16), (len(slopes), 1))
                    for row, label in enumerate(fit.worker_table["worker"]):
                        slopes[who[label]] = own[row]
                logs = [choices.probabilities(scores, each)[1] for each in slopes.T]
                losses[f"{method} {name}"].append(-choices.weight * _mean_of_logs(np.array(logs)))
    total = {name: np.concatenate(parts) for name, parts in losses.items()}
    for method in ("bt", "sift"):
        ranks, pairs = total[f"{method} ranks"], total[f"{method} pairs"]
        error = (pairs - ranks).std() * np.sqrt(len(ranks)) / len(texts)
        print(
            f"{method}: nats a ranking {ranks.sum() / len(texts):.4f}, by weighted pairs "
            f"{pairs.sum() / len(texts):.4f}, difference {(pairs - ranks).sum() / len(texts):.4f} "
            f"(standard error {error:.4f}), {len(texts)} rankings"
        )


def _mean_of_logs(logs: np.ndarray) -> np.ndarray:
    most = logs.max(axis=0)
    return np.asarray(most + np.log(np.mean(np.exp(logs - most), axis=0)))


def graded_crowd(seed: int, cuts: tuple[float, float]) -> dict[str, np.ndarray]:
    """Draw five grades (or four, without ties) of 60 workers, 8 of whom answer at random."""
    rng = np.random.default_rng(seed)
    truth, slope = rng.normal(size=25), rng.uniform(0.8, 2.5, 60)
    slope[:8] = 0
    who, left = rng.integers(0, 60, 6000), rng.integers(0, 25, 6000)
    right = (left + rng.integers(1, 25, 6000)) % 25
    edges = np.array([-cuts[1], -cuts[0], cuts[0], cuts[1]] if cuts[0] else [-cuts[1], 0, cuts[1]])
    eta = slope[who] * (truth - truth.mean())[left] - slope[who] * (truth - truth.mean())[right]
    place = (rng.random(6000)[:, None] < 1 / (1 + np.exp(edges - eta[:, None]))).sum(axis=1)
    words = np.array(["b>>a", "b>a", *(["a=b"] if cuts[0] else []), "a>b", "a>>b"])
    return {"left": left, "right": right, "winner": words[place], "worker": who}


def graded(crowds: int, first: int = 0) -> None:
    """Print coverage of cut points, and left-out loss with grades and made binary."""
    for cuts in ((0.5, 2.0), (0.0, 1.5)):
        covered, losses = [], []
        for seed in range(first, first + crowds):
            rows = graded_crowd(seed, cuts)
            out = np.random.default_rng(seed + 10_000).random(len(rows["left"])) < 0.2
            votes = crowdsift.read({name: column[~out] for name, column in rows.items()})
            found = [crowdsift.fit(each, threads=1, dimensions=1) for each in (votes, replace(votes, grades=None))]
            s = found[0].summary
            if "cut_point_2" in s:  # else grades were set aside
                limits = [
                    (cut, s[f"cut_point_{k}_lower"], s[f"cut_point_{k}_upper"]) for k, cut in enumerate(cuts, 1) if cut
                ]
                covered.append([lower <= cut <= upper for cut, lower, upper in limits])
            kept = out & (rows["winner"] != "a=b")
            won = np.char.startswith(rows["winner"][kept], "a")
            p = [fit.predict(*(rows[name][kept] for name in ("left", "right", "worker"))) for fit in found]
            losses.append([-np.log(np.where(won, each, 1 - each)).mean() for each in p])
        share = np.mean(covered, axis=0).round(3)
        print(
            cuts,
            "cut points covered",
            share,
            "left-out loss",
            np.mean(losses, axis=0).round(4),
            "better in",
            np.mean(np.diff(losses) > 0).round(3),
            "grades used in",
            len(covered) / crowds,
        )


def left_wins(fit: crowdsift.Fit, left: np.ndarray, right: np.ndarray, worker: np.ndarray) -> np.ndarray:
    """Return P(left item preferred), given that the worker decides; `predict` knows no sides."""
    asked, model, known = predict.question(fit, left, right, worker, "error"), model_of(fit), predict.dimensions_of(fit)
    draws, offset = predict.worker_draws(fit, model), np.zeros((1, 1))
    points = type(draws)(*(x[asked.worker] for x in draws))
    if known is not None:
        points, offset = predict._shifted(known, asked, np.arange(len(left)), asked.worker, points)
    win, _, loss = model.outcome_probabilities(
        asked.difference[:, None], points.reliability, points.width, 0.0, points.side_variance, offset + points.side
    )
    return np.asarray(win.mean(axis=1) / (win.mean(axis=1) + loss.mean(axis=1)))


def arena(folders: list[str], splits: int = 2) -> None:
    """Print the left-out loss of decided Arena-Hard votes with grades, and made binary."""
    losses, used = [], []
    for folder in folders:
        rows: dict[str, list[str]] = {name: [] for name in ("left", "right", "winner", "worker")}
        for path in sorted(Path(folder).glob("*/*.jsonl")):
            for row in map(json.loads, path.read_text().splitlines()):
                for number, game in enumerate(row["games"]):
                    pair = (row["baseline"], row["model"])[:: -1 if number else 1]
                    for name, entry in zip(rows, (*pair, game["score"], row["judge"]), strict=True):
                        rows[name].append(entry)
        table = {name: np.array(column) for name, column in rows.items()}
        for split in range(splits):
            out = np.random.default_rng(split + 100).random(len(table["left"])) < 0.2
            votes = crowdsift.read({name: column[~out] for name, column in table.items()})
            kept = out & (table["winner"] != "A=B")
            won = np.char.startswith(table["winner"][kept], "A")
            ends = [table[name][kept] for name in ("left", "right", "worker")]
            found = [crowdsift.fit(each, threads=1) for each in (votes, replace(votes, grades=None))]
            p = [left_wins(fit, *ends) for fit in found]
            losses.append([-np.log(np.where(won, each, 1 - each)).mean() for each in p])
            used.append("cut_point_2" in found[0].summary)
    gain = np.diff(losses).reshape(len(folders), splits).mean(axis=1)
    print(
        "left-out loss",
        np.mean(losses, axis=0).round(5),
        f"graded lower by {gain.mean():.5f} (standard error {gain.std() / np.sqrt(len(gain)):.5f}), "
        f"in {np.mean(np.diff(losses) > 0):.2f} of splits; grades used in {np.mean(used):.2f}",
    )


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "arena":
        arena(words)
    elif command == "wmt13":
        wmt13()
    else:  # [CROWDS [FIRST SEED]]
        {"graded": graded, "planted": planted}[command](*map(int, words or ["100"]))
