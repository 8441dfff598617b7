"""Partial pooling and trusted votes: every figure of docs/guides/llm-judges.md and docs/islands.md.

python -m benchmarks.pooling contexts [SEEDS]    drawn contexts with planted deviations
python -m benchmarks.pooling arena FOLDER...     arena.jsonl by language, a folder per seed
python -m benchmarks.pooling panel FOLDER...     panel.csv against models.csv, a folder per seed
python -m benchmarks.pooling ppr FILE [DRAWS]    human votes beside three LLM judges
"""

from __future__ import annotations

import csv
import gzip
import sys
from dataclasses import replace

import numpy as np

import crowdsift
from crowdsift.fitting.estimate import Resources, estimate_votes, open_votes
from crowdsift.votes.graph import folds

ITEMS, CONTEXTS, WORKERS = 12, 10, 40
KINDS = ("auto", "none", "complete")


def drawn_contexts(
    deviation: float, votes: int, seed: int
) -> tuple[crowdsift.Comparisons, crowdsift.Comparisons]:
    """Votes in contexts with planted deviations, and every pair with its true probability."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, ITEMS) + rng.normal(0, deviation, (CONTEXTS, ITEMS))
    rows = []
    for context in range(CONTEXTS):
        for _ in range(votes):
            i, j = rng.choice(ITEMS, 2, replace=False)
            p = 1 / (1 + np.exp(scores[context, j] - scores[context, i]))
            rows.append((i, j, float(rng.random() < p), rng.integers(WORKERS), context))
        for i in range(ITEMS):
            for j in range(i):
                p = 1 / (1 + np.exp(scores[context, j] - scores[context, i]))
                rows.append((i, j, p, rng.integers(WORKERS), context))
    names = ("first", "second", "outcome", "worker", "context")
    table = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    both = crowdsift.read(table, by="context")
    known = (both.outcome > 0) & (both.outcome < 1)
    return both.select(~known), both.select(known)


def left_out(
    train: crowdsift.Comparisons, test: crowdsift.Comparisons, kind: str
) -> tuple[float, float]:
    """The log loss of other votes, and the deviation that was found, in logits."""
    model = crowdsift.Sift(pooling=kind)
    if kind == "complete":
        model = replace(model, contexts=False)
    found = estimate_votes(model, train, Resources(threads=1))
    with open_votes(model, test, Resources(threads=1)) as others:
        loss = -model.left_out(others.engine, found) / test.total_weight
    assert found.workers.reliability is not None
    typical = float(np.median(found.workers.reliability))
    return loss, typical * float(found.details.get("context_deviation") or 0.0)


def contexts(seeds: int) -> None:
    """Drawn contexts: pooling against the better of none and complete."""
    print("deviation votes   auto    none   complete  auto-better  found (median)")
    for deviation in (0.0, 0.1, 0.3, 1.0):
        for votes in (20, 200, 2000):
            table, found = [], []
            for seed in range(seeds):
                train, test = drawn_contexts(deviation, votes, seed)
                results = [left_out(train, test, kind) for kind in KINDS]
                table.append([loss for loss, _ in results])
                found.append(results[0][1])
            auto, none, complete = np.mean(table, axis=0)
            print(f"{deviation:9.1f} {votes:5d} {auto:.4f}  {none:.4f}  {complete:.4f}"
                  f"   {auto - min(none, complete):+.4f}     {np.median(found):.3f}"
                  f"  {np.min(found):.3f} to {np.max(found):.3f}", flush=True)  # fmt: skip


def arena(folders: list[str]) -> None:
    """The arena sample by language: five folds of every seed."""
    for folder in folders:
        votes = crowdsift.read(f"{folder}/arena.jsonl", by="language")
        losses = {
            kind: sum(left_out(kept, out, kind)[0] * out.total_weight
                      for kept, out in folds(votes, 5)) / votes.total_weight
            for kind in KINDS
        }  # fmt: skip
        found = left_out(votes, votes, "auto")[1]
        print(folder, {kind: round(loss, 5) for kind, loss in losses.items()}, f"{found:.3f}")


def logits(fit: crowdsift.Fit, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Centred scores in logits of the items by name, and half of their 90 % intervals."""
    found = fit.on_scale("logit")
    place = {item: row for row, item in enumerate(found.labels)}
    rows = [place[name] for name in names]
    table = found.shown_items
    half = 0.5 * (table["upper"][rows] - table["lower"][rows])
    score = table["score"][rows]
    return score - score.mean(), half


def read_table(path: str) -> dict[str, np.ndarray]:
    """A CSV file, also compressed, by column."""
    opened = gzip.open if path.endswith("gz") else open
    with opened(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([row[name] for row in rows], object) for name in rows[0]}


def panel(folders: list[str]) -> None:
    """Planted quality and biases: people alone, all votes as one crowd, and trusted votes."""
    rows = []
    for folder in folders:
        votes, models = read_table(f"{folder}/panel.csv"), read_table(f"{folder}/models.csv")
        names = models["model"].tolist()
        truth = models["quality"].astype(float)
        truth = truth - truth.mean()
        bias = models["panel_bias"].astype(float)
        people = {name: column[votes["panel"] == "human"] for name, column in votes.items()}
        alone, _ = logits(crowdsift.fit(people, dimensions=1, threads=1), names)
        pooled, _ = logits(crowdsift.fit(votes, dimensions=1, threads=1), names)
        fit = crowdsift.fit(votes, trusted={"panel": "human"}, threads=1)
        both, half = logits(fit, names)
        table = fit.panel_biases
        assert table is not None
        place = {item: row for row, item in enumerate(table["item"])}
        at = [place[name] for name in names]
        planted = bias - bias.mean()
        held = (table["lower"][at] <= planted) & (planted <= table["upper"][at])
        errors = [float(np.sqrt(np.mean((x - truth) ** 2))) for x in (alone, pooled, both)]
        rows.append([*errors, np.mean(np.abs(both - truth) <= half), np.mean(held)])
        print(folder, np.round(rows[-1], 3), flush=True)
    found = np.array(rows)
    better = ((found[:, 2] < found[:, 0]) & (found[:, 2] < found[:, 1])).sum()
    print("mean rmse: people alone, all votes, trusted; coverage of scores, of biases:",
          found.mean(axis=0).round(3), f"better than both in {better} of {len(found)}")  # fmt: skip


def tau(one: np.ndarray, two: np.ndarray) -> float:
    """Kendall's tau."""
    n = len(one)
    return float((np.sign(one[:, None] - one) * np.sign(two[:, None] - two)).sum() / (n * (n - 1)))


def ppr(path: str, draws: int) -> None:
    """Few human votes and all votes of LLM judges, on the 12 models with most votes."""
    table = read_table(path)
    names, counts = np.unique(np.concatenate([table["left"], table["right"]]), return_counts=True)
    chosen = sorted(names[np.argsort(-counts, kind="stable")[:12]].tolist())
    kept = np.isin(table["left"], chosen) & np.isin(table["right"], chosen)
    columns = ("left", "right", "winner", "worker", "panel")
    votes = {name: table[name][kept] for name in columns}
    human = np.flatnonzero(votes["panel"] == "human")
    judges = np.flatnonzero(votes["panel"] == "llm")

    def part(rows: np.ndarray) -> dict[str, np.ndarray]:
        return {name: column[rows] for name, column in votes.items()}

    truth, _ = logits(crowdsift.fit(part(human), dimensions=1, threads=1), chosen)
    only, _ = logits(crowdsift.fit(part(judges), dimensions=1, threads=1), chosen)
    print(f"LLM judges alone: tau {tau(only, truth):.3f}")
    for count in (200, 1000, 4000):
        found = []
        for seed in range(draws):
            some = np.random.default_rng(seed).choice(human, count, replace=False)
            people, wide = logits(crowdsift.fit(part(some), dimensions=1, threads=1), chosen)
            both = crowdsift.fit(part(np.concatenate([some, judges])), threads=1,
                                 trusted={"panel": "human"})  # fmt: skip
            scores, half = logits(both, chosen)
            found.append([tau(people, truth), np.mean(np.abs(people - truth) <= wide),
                          tau(scores, truth), np.mean(np.abs(scores - truth) <= half),
                          both.summary["trusted"]["worth"]])  # fmt: skip
        means = np.mean(found, axis=0)
        print(f"{count} human votes: people alone tau {means[0]:.3f}, coverage {means[1]:.3f}; "
              f"trusted tau {means[2]:.3f}, coverage {means[3]:.3f}; the judges are worth "
              f"{means[4]:.0f} votes", flush=True)  # fmt: skip


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "contexts":
        contexts(int(rest[0]) if rest else 5)
    elif what == "arena":
        arena(rest)
    elif what == "panel":
        panel(rest)
    elif what == "ppr":
        ppr(rest[0], int(rest[1]) if len(rest) > 1 else 100)
