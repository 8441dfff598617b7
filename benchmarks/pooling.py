"""Partial pooling and trusted votes: every figure of docs/guides/llm-judges.md and docs/islands.md.

python -m benchmarks.pooling contexts [SEEDS]    drawn contexts with planted deviations
python -m benchmarks.pooling arena FOLDER...     arena.jsonl by language, a folder per seed
"""

from __future__ import annotations

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


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "contexts":
        contexts(int(rest[0]) if rest else 5)
    elif what == "arena":
        arena(rest)
