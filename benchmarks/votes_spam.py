"""Spammers on Passage, one fixed random side a pair: what `benchmarks.votes spam` measures."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

import crowdsift
from benchmarks.data import data_folder
from benchmarks.quality import Record, Task, work
from crowdsift.io.items import match_items, read_item_values
from crowdsift.lab.spam import KINDS
from crowdsift.numeric.metrics import measure
from crowdsift.votes.comparisons import Comparisons

__all__ = ["spam"]

PERCENTS = (10, 20, 40, 60, 80, 100, 150, 233, 400, 900)


def gold_pairs(votes: Comparisons, truth: Path, count: int, seed: int) -> dict[str, list[str]]:
    """Random pairs of different truth, the better one the winner."""
    labels, values = read_item_values(truth)
    place = match_items(votes, labels)
    known = np.flatnonzero(place >= 0)
    score = dict(zip(known.tolist(), values[place[known]], strict=True))
    rng = np.random.default_rng(seed)
    gold: dict[str, list[str]] = {"winner": [], "loser": []}
    while len(gold["winner"]) < count:
        one, two = rng.choice(known, 2, replace=False).tolist()
        if score[one] != score[two]:
            better, worse = (one, two) if score[one] > score[two] else (two, one)
            gold["winner"].append(votes.items[better])
            gold["loser"].append(votes.items[worse])
    return gold


def spam_task(task: Task) -> list[Record]:
    """Accuracy as returned; sift also with gold pairs."""
    kind, percent, seed, count = task
    folder = data_folder()
    votes = crowdsift.add_spammers(crowdsift.read(folder / "passage.csv"), kind, percent, seed)
    truth = folder / "passage_items.csv"
    labels, values = read_item_values(truth)
    gold = gold_pairs(votes, truth, count, seed)
    records = []
    for name, known in (("bora-em", None), ("sift", None), (f"sift+{count} gold", gold)):
        fit = crowdsift.fit(votes, name.split("+")[0], gold=known, threads=1)
        result = measure(fit.scores_of(labels), values)
        records.append(
            {
                "task": task,
                "method": name,
                "accuracy": result.accuracy,
                "unsettled": fit.summary["sign_unsettled"],
                "gold_needed": fit.summary["gold_needed"],
                "seconds": fit.summary["seconds"],
                "converged": fit.converged,
            }
        )
    return records


def published() -> dict[tuple[str, int], float]:
    """Return the paper's accuracy of BoRaEM on Passage by kind and percentage."""
    path = data_folder().parent / "reference" / "paper_spammers.csv"
    with path.open() as file:
        return {
            (row["kind"], int(row["added_percent"])): float(row["acc"])
            for row in csv.DictReader(file)
            if row["dataset"] == "passage" and row["method"].lower().startswith("bora")
        }


def spam(seeds: int) -> None:
    """One row a kind and percentage: mean accuracy, and the least of the seeds."""
    grid = [(kind, percent) for kind in KINDS for percent in PERCENTS]
    records = work("votes-spam", spam_task, [(*c, s, 20) for s in range(seeds) for c in grid])
    paper = published()
    print(f"Passage, accuracy as returned, mean of {seeds} seeds (least); one side fixed a pair")
    print(
        f"{'kind':12s}{'%':>5s}{'published':>11s}{'bora-em':>17s}{'sift':>17s}{'20 gold':>17s}{'warned':>8s}  must show"
    )
    for kind, percent in grid:
        means = []
        for method in ("bora-em", "sift", "sift+20 gold"):
            mine = [
                r["accuracy"]
                for r in records
                if r["method"] == method and tuple(r["task"][:2]) == (kind, percent) and r["task"][2] < seeds
            ]
            means.append((float(np.mean(mine)), float(np.min(mine))))
        warned = np.mean(
            [r["unsettled"] for r in records if r["method"] == "sift" and tuple(r["task"][:2]) == (kind, percent)]
        )
        figures = "".join(f"{mean:9.4f} ({least:.3f})" for mean, least in means)
        verdict = _spam_verdict(kind, percent, means[1][0], means[2][0])
        print(f"{kind:12s}{percent:5d}{paper.get((kind, percent), np.nan):11.4f}{figures}{warned:8.0%}  {verdict}")


def _spam_verdict(kind: str, percent: int, plain: float, gold: float) -> str:
    if kind in ("random", "left", "right"):
        return "holds" if plain >= 0.695 else "MISSES .695"
    words = ["" if percent > 80 else ("holds" if plain >= 0.685 else "MISSES .685")]
    words.append("gold holds" if gold >= 0.675 else "gold MISSES .675")
    return ", ".join(filter(None, words))
