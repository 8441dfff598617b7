"""What choosing questions saves, against asking at random.

Run with ``python -m benchmarks.active simulated|lightfield [--seeds N] [--first SEED]``.

``simulated``: 100 items with scores uniform on [-3, 3], 50 workers with reliability uniform on [0, 1], votes in batches
of 300, sift fitted to all votes after every batch. Random asking is random pairs by random workers. ``pairs``: the
selector chooses the pairs, random workers answer. ``workers``: it chooses the pairs and who answers. All start without
a vote. The figure is the number of votes at which the mean accuracy over seeds reaches that of random asking with
6,000, by linear interpolation between batches; the range is that of 500 resamplings of the seeds. Beside it the other
reading: for every seed the first batch after which its accuracy is at least that of its own random run with 6,000, then
the mean; runs that end before count as ending there, and how many did is told. A noisy curve touches a level before its
mean does, but its target is as noisy.

``lightfield``: recorded votes are replayed; a question takes one of the recorded votes on its pair that is still left.
What is to be found is the order by all votes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import crowdsift
from benchmarks.data import data_folder
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.numeric.metrics import measure

OUTPUT = Path("bench-output") / "active"
ITEMS, WORKERS, BATCH, RANDOM = 100, 50, 300, 6_000
LONGEST = {"random": RANDOM, "pairs": 5_400, "workers": 3_000}
Floats = NDArray[np.float64]


def simulated(arm: str, seed: int) -> list[float]:
    """Accuracy after every batch."""
    random = np.random.default_rng([seed, 7])
    scores, reliability = random.uniform(-3, 3, ITEMS), random.uniform(0, 1, WORKERS)
    items, workers = range(ITEMS), range(WORKERS)
    selector = crowdsift.Selector(items=items, workers=workers, refit=0, seed=seed, threads=1)
    accuracy = []
    for _ in range(LONGEST[arm] // BATCH):
        who = random.integers(WORKERS, size=BATCH)
        if arm == "random":
            first = random.integers(ITEMS, size=BATCH)
            second = (first + random.integers(1, ITEMS, size=BATCH)) % ITEMS
        else:
            batch = selector.choose(BATCH, workers=workers if arm == "workers" else None)
            first, second = (batch[name].astype(int) for name in ("first", "second"))
            who = batch["worker"].astype(int) if arm == "workers" else who
        chance = sigmoid(reliability[who] * (scores[first] - scores[second]))
        # The winner first: sides are not known, and an order that tells nothing is not a side.
        won = random.random(BATCH) < chance
        selector.add(np.where(won, first, second), np.where(won, second, first), who)
        fit = selector.refit()
        accuracy.append(measure(fit.scores_of(items), scores).accuracy)
    return accuracy


def reach(curve: Floats, target: float, batch: int) -> float:
    """Votes at which a curve first reaches the target; infinite where it does not."""
    above = np.flatnonzero(curve >= target)
    if not len(above):
        return np.inf
    place = int(above[0])
    if place == 0:
        return float(batch)
    before, after = curve[place - 1], curve[place]
    return float(batch * (place + (target - before) / (after - before)))


def touch(curve: Floats, target: float) -> float:
    """Votes after the first batch that reaches the target; infinite where none does."""
    above = np.flatnonzero(curve >= target)
    return float(BATCH * (above[0] + 1)) if len(above) else np.inf


def run_simulated(first: int, seeds: int) -> None:
    """Replay simulated crowds and print the curves."""
    curves = {arm: np.array(curve_of(arm, first, seeds)) for arm in LONGEST}
    target = float(curves["random"][:, -1].mean())
    spread = float(curves["random"][:, -1].std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else np.nan
    print(f"random asking, {RANDOM} votes: accuracy {target:.4f} (standard error {spread:.4f})")
    resample = np.random.default_rng(0).integers(seeds, size=(500, seeds))
    for arm, goal in (("pairs", 0.62), ("workers", 0.36)):
        mean = curves[arm].mean(axis=0)
        share = reach(mean, target, BATCH) / RANDOM
        drawn = [
            reach(curves[arm][rows].mean(axis=0), float(curves["random"][rows, -1].mean()), BATCH) for rows in resample
        ]
        low, high = np.quantile(drawn, (0.05, 0.95), method="nearest") / RANDOM
        first_touch = np.array([touch(*both) for both in zip(curves[arm], curves["random"][:, -1], strict=True)])
        at = int(goal * RANDOM) // BATCH
        print(
            f"{arm:8s} reaches it with {share:.1%} of the votes (90 % range {low:.1%} to "
            f"{high:.1%}; goal {goal:.0%}); accuracy after {at * BATCH} votes {mean[at - 1]:.4f}"
        )
        ended = np.isinf(first_touch)
        bounded = np.where(ended, LONGEST[arm], first_touch)
        print(
            f"         each seed against its own random run: {bounded.mean() / RANDOM:.1%} "
            f"({int(ended.sum())} of {seeds} not by {LONGEST[arm]} votes)"
        )
    for arm, table in curves.items():
        print(f"{arm:8s}" + " ".join(f"{value:.3f}" for value in table.mean(axis=0)))


def curve_of(arm: str, first: int, seeds: int) -> list[list[float]]:
    """Curves of all seeds, each kept as soon as it is there."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    path = OUTPUT / f"{arm}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    known = {record["seed"]: record["accuracy"] for record in map(json.loads, lines)}
    for seed in range(first, first + seeds):
        if seed not in known:
            known[seed] = simulated(arm, seed)
            with path.open("a") as file:
                file.write(json.dumps({"seed": seed, "accuracy": known[seed]}) + "\n")
            if sys.stderr.isatty():
                print(f"\r{arm}: seed {seed}", end="", file=sys.stderr)
    return [known[seed] for seed in range(first, first + seeds)]


# --- recorded votes --------------------------------------------------------------------------


class Replay:
    """Recorded votes, handed out once each."""

    def __init__(self, seed: int) -> None:
        votes = crowdsift.read(data_folder() / "lightfield.csv")
        self.random = np.random.default_rng(seed)
        self.votes = votes
        self.worker = votes.worker_codes()
        rows = np.repeat(np.arange(len(votes)), votes.weight.astype(int))
        self.left: dict[tuple[int, int], list[int]] = {}
        for row in self.random.permutation(rows).tolist():
            self.left.setdefault(self._pair(row), []).append(row)

    def _pair(self, row: int) -> tuple[int, int]:
        a, b = int(self.votes.first[row]), int(self.votes.second[row])
        return min(a, b), max(a, b)

    def pairs(self) -> list[tuple[int, int]]:
        """Pairs on which votes are left."""
        return sorted(pair for pair, rows in self.left.items() if rows)

    def answer(self, pair: tuple[int, int]) -> tuple[Any, Any, Any]:
        """Winner, loser and worker of a recorded vote on the pair."""
        row = self.left[pair].pop()
        v = self.votes
        one, two = v.items[v.first[row]], v.items[v.second[row]]
        who = v.workers[self.worker[row]]
        return (one, two, who) if v.outcome[row] > 0.5 else (two, one, who)


def replay(arm: str, seed: int, order: dict[Any, float], scene: dict[Any, str]) -> list[float]:
    """Accuracy within scenes against the order by all votes, after every batch."""
    source = Replay(seed)
    items, workers = source.votes.items, source.votes.workers
    code = {label: place for place, label in enumerate(items)}
    selector = crowdsift.Selector(items=items, workers=workers, refit=0, seed=seed, threads=1)
    truth = np.array([order[item] for item in items])
    place = np.array([scene[item] for item in items])
    accuracy = []
    for _ in range(12):
        left = source.pairs()
        if arm == "random":  # in proportion to the votes that are left, as they came in
            rows = [pair for pair in left for _ in source.left[pair]]
            pairs = [rows[i] for i in source.random.permutation(len(rows))[:1_000]]
        else:
            among = ([items[a] for a, _ in left], [items[b] for _, b in left])
            batch = selector.choose(1_000, among=among)
            two = zip(batch["first"], batch["second"], strict=True)
            coded = [(code[a], code[b]) for a, b in two]
            pairs = [(min(p), max(p)) for p in coded]
        answers = [source.answer(pair) for pair in pairs if source.left[pair]]
        winner, loser, worker = map(list, zip(*answers, strict=True))
        selector.add(winner, loser, worker)
        scores = selector.refit().scores_of(items)
        right = total = 0.0
        for name in np.unique(place):
            inside = np.flatnonzero(place == name)
            gap = truth[inside][:, None] - truth[inside]
            found = scores[inside][:, None] - scores[inside]
            right += float((gap * found > 0).sum())
            total += float((gap != 0).sum())
        accuracy.append(right / total)
    return accuracy


def run_lightfield(first: int, seeds: int) -> None:
    """Replay lightfield and print the curves."""
    votes = crowdsift.read(data_folder() / "lightfield.csv")
    fit = crowdsift.fit(votes, "sift")
    order = dict(zip(votes.items, fit.scores_of(votes.items), strict=True))
    scene = {item: str(item).split("/")[0] for item in votes.items}
    print("lightfield, share of pairs within scenes ordered as by all 26,580 votes, per 1,000 votes")
    for arm in ("random", "pairs"):
        curves = [replay(arm, seed, order, scene) for seed in range(first, first + seeds)]
        print(f"{arm:8s}" + " ".join(f"{value:.3f}" for value in np.mean(curves, axis=0)))


def main() -> None:
    """Run the measurement that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["simulated", "lightfield"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    run = run_simulated if options.name == "simulated" else run_lightfield
    run(options.first, options.seeds)


if __name__ == "__main__":
    main()
