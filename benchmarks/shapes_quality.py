"""Whether what is said of the shapes that people have is true: islands, verdicts, intervals.

Run with ``python -m benchmarks.shapes_quality [--seeds 5]``. Samples with their truth come from the maker beside the
real data. Prints tables, and writes bench-output/shapes_quality.json.

Islands: the mean `probability` of an export against the share of rows that are right, by tenths of the probability and
by verdict of the annotator; errors of the share are by prompt. Coverage: 90 % intervals of differences inside islands.
Verdicts: planted workers of a Mechanical Turk batch, annotators of preferences, judges of an arena.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import crowdsift
from benchmarks import samples
from benchmarks.data import OUTPUT

__all__ = ["calibration", "coverage", "islands"]

SCALE = 8.0
FEWEST = 5_000  # rows of a tenth that is judged


def calibration(seeds: int) -> list[dict[str, Any]]:
    """Probabilities of an export against the truth, by tenths and by verdict, seeds pooled."""
    parts = [_exported(seed) for seed in range(1, seeds + 1)]
    p, right, prompt, verdict = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows = []
    for group in ("all", *sorted(set(verdict.tolist()))):
        mine = np.ones(len(p), bool) if group == "all" else verdict == group
        tenth = np.minimum((10 * p).astype(int), 9)
        for bin_ in range(10):
            inside = mine & (tenth == bin_)
            if inside.sum() >= FEWEST:
                rows.append({"annotators": group, **_judged(p, right, prompt, inside), "tenth": bin_})
        rows.append({"annotators": group, **_judged(p, right, prompt, mine), "tenth": "all"})
    return rows


def _exported(seed: int) -> tuple[np.ndarray, ...]:
    """Of every row: probability, whether it is right, its prompt, the verdict of its annotator."""
    votes = samples.preferences(seed, SCALE)
    truth = [json.loads(line)["right"] for line in (votes.parent / "trl_truth.jsonl").open()]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.parquet"
        done = crowdsift.export_votes(votes, out, by="prompt")
        with duckdb.connect(":memory:") as connection:
            query = f"SELECT probability, prompt, worker FROM '{out}'"
            found = connection.execute(query).fetchnumpy()
    table = done.fit.worker_table
    verdict = dict(zip(table["worker"].tolist(), table["verdict"].tolist(), strict=True))
    words = np.array([verdict[worker] for worker in found["worker"]])
    prompts = np.array([f"{seed} {each}" for each in found["prompt"]])
    return np.asarray(found["probability"]), np.array(truth), prompts, words


def _judged(p: np.ndarray, right: np.ndarray, prompt: np.ndarray, inside: np.ndarray) -> dict[str, Any]:
    gap = right[inside] - p[inside]
    _, code = np.unique(prompt[inside], return_inverse=True)
    sums = np.bincount(code, gap - gap.mean())
    error = float(np.sqrt((sums**2).sum())) / inside.sum()
    allowed = 0.01 + 3.0 * error
    return {
        "rows": int(inside.sum()),
        "said": round(float(p[inside].mean()), 4),
        "right": round(float(right[inside].mean()), 4),
        "allowed": round(allowed, 4),
        "fits": bool(abs(gap.mean()) <= allowed),
    }


def islands(count: int, size: int, votes: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Scores, and so many votes on each of so many islands; a chain of votes connects each."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(count * size)
    island, place = np.repeat(np.arange(count), votes), np.tile(np.arange(votes), count)
    a = rng.integers(0, size, len(island))
    b = (a + rng.integers(1, size, len(island))) % size
    a, b = np.where(place < size - 1, place, a), np.where(place < size - 1, place + 1, b)
    a, b = island * size + a, island * size + b
    worker = rng.integers(0, 200, len(island))
    beta = rng.choice([2.0, 0.0, -2.0], 200, p=[0.8, 0.15, 0.05])[worker]
    won = rng.random(len(island)) < 1.0 / (1.0 + np.exp(-beta * (scores[a] - scores[b])))
    return scores, {"winner": np.where(won, a, b), "loser": np.where(won, b, a), "worker": worker}


def pairs_inside(count: int, size: int) -> Iterator[np.ndarray]:
    """First and second items of all pairs inside islands."""
    one, two = np.triu_indices(size, 1)
    base = np.arange(count)[:, None] * size
    yield from ((base + side).ravel() for side in (one, two))


def coverage(items: int, size: int, votes: int, differences: int) -> dict[str, Any]:
    """How often 90 % intervals of differences inside islands hold the truth."""
    count, seed = items // size, 0
    held: list[np.ndarray] = []
    while sum(len(part) for part in held) < differences:
        seed += 1
        scores, rows = islands(count, size, votes, seed)
        one, two = pairs_inside(count, size)
        difference = crowdsift.fit(rows).difference(one.tolist(), two.tolist())
        truth = scores[one] - scores[two]
        held.append((difference["lower"] <= truth) & (truth <= difference["upper"]))
    share = np.concatenate(held)
    return {
        "items": count * size,
        "size": size,
        "votes": votes,
        "differences": len(share),
        "covered": round(float(share.mean()), 4),
    }


def main() -> None:
    """Run all and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    found = {
        "calibration": calibration(seeds),
        "coverage": [
            coverage(items, size, votes, 10_000)
            for items, size, votes in ((900, 3, 6), (900, 2, 3), (20_000, 3, 6), (20_000, 2, 3), (20_000, 4, 8))
        ],
    }
    for name, rows in found.items():
        print(name)
        for row in rows:
            print("  ", ", ".join(f"{key} {value}" for key, value in row.items()))
    OUTPUT.mkdir(exist_ok=True)
    (OUTPUT / "shapes_quality.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
