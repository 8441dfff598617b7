"""What `crowdsift ask` promises: replays of recorded votes, plans, load, and kills.

Run with ``python -m benchmarks.ask replay|error|plan|load|kills [--runs N] [--data NAME]``.

``replay``: every pair of the data was judged often. A study asks pairs, chosen for the goal or at
random; the answer is a recorded vote on that pair, drawn with replacement. The study stops when the
goal is settled, looked at after every vote. Truth is the ranking by all votes. ``error``: the same
with simulated votes on items of which the first two are nearly equal. ``plan``: studies with a
known truth; is the number of votes that each needs in the interval stated before? ``load``: 50
judges and 3,000 votes. ``kills``: kill -9 at random moments.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np

import crowdsift
from benchmarks.data import data_folder

MOST = 8_000  # votes of a replay
DATA: dict[str, dict[str, Any]] = {
    "cola": {
        "votes": "cj_luckett2018_cola.csv",
        "columns": {
            "winner": "candidate_chosen",
            "loser": "candidate_not_chosen",
            "worker": "judge",
        },
    },
    "mtbench": {"votes": "mtbench.csv"},
    "ppr": {"votes": "ppr.csv.gz", "where": "panel = 'human'"},
}
Draw = Callable[[np.random.Generator, int, int], tuple[float, Any]]


def recorded(name: str) -> tuple[list[Any], list[Any], np.ndarray, Draw]:
    """Items, workers, the true order, and a function that draws a vote on a pair."""
    options = dict(DATA[name])
    votes = crowdsift.read(data_folder() / options.pop("votes"), **options)
    table: dict[tuple[int, int], list[tuple[float, int]]] = {}
    rows = zip(votes.first, votes.second, votes.outcome, votes.worker_codes(), votes.weight,
               strict=True)  # fmt: skip
    for a, b, outcome, worker, weight in rows:
        for _ in range(round(float(weight))):
            table.setdefault((int(a), int(b)), []).append((float(outcome), int(worker)))
            table.setdefault((int(b), int(a)), []).append((1.0 - float(outcome), int(worker)))
    order = np.argsort(-crowdsift.fit(votes).scores_of(votes.items), kind="stable")

    def draw(random: np.random.Generator, a: int, b: int) -> tuple[float, Any]:
        held = table[a, b]
        outcome, worker = held[int(random.integers(len(held)))]
        return outcome, votes.workers[worker]

    return votes.items.tolist(), votes.workers.tolist(), order, draw


def study(
    items: list[Any], draw: Draw, goal: str, arm: str, seed: int, workers: Any = (),
    confidence: float = 0.95,
) -> tuple[int, list[int]]:  # fmt: skip
    """Votes until the goal is settled (or MOST), and the items claimed."""
    random = np.random.default_rng([seed, 11])
    selector = crowdsift.Selector(items=items, workers=workers, goal=goal, seed=seed, threads=1)
    code = {label: number for number, label in enumerate(items)}
    assert selector.items.tolist() == items
    state = selector.stopping(confidence=confidence)
    votes = 0
    while votes < MOST and not state.settled:
        votes += 1
        if arm == "random":
            a, b = (int(x) for x in random.choice(len(items), 2, replace=False))
        else:
            asked = selector.choose(1)
            a, b = code[asked["first"][0]], code[asked["second"][0]]
        outcome, worker = draw(random, a, b)
        selector.add(items[a], items[b], worker if workers else None, outcome)
        state = selector.stopping(confidence=confidence)
    return votes, state.claim.tolist() if state.settled else []


def _replayed(name: str, goal: str, arm: str, seed: int) -> tuple[int, bool]:
    items, _, order, draw = _cached(name)
    votes, claim = study(items, draw, goal, arm, seed)
    top = 1 if goal == "first" else 3
    return votes, bool(claim) and set(claim) != set(order[:top].tolist())


_known: dict[str, Any] = {}


def _cached(name: str) -> Any:
    if name not in _known:
        _known[name] = recorded(name)
    return _known[name]


def replay(names: list[str], runs: int, goals: list[str], processes: int) -> None:
    with ProcessPoolExecutor(processes) as pool:
        for name in names:
            for goal in goals:
                mean = {}
                for arm in ("chosen", "random"):
                    begin = time.perf_counter()
                    found = list(pool.map(partial(_replayed, name, goal, arm), range(runs)))
                    votes = np.array([each[0] for each in found])
                    wrong = sum(each[1] for each in found)
                    mean[arm] = votes.mean()
                    print(
                        f"{name:8s} {goal:6s} {arm:7s} wrong {wrong:3d} of {runs}; votes: mean "
                        f"{votes.mean():7.1f}, median {np.median(votes):6.0f}, 90 % "
                        f"{np.quantile(votes, 0.9):6.0f}; unsettled {int((votes >= MOST).sum())}; "
                        f"{time.perf_counter() - begin:.0f} s", flush=True,
                    )  # fmt: skip
                print(f"{name:8s} {goal:6s} chosen/random {mean['chosen'] / mean['random']:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("replay",))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--goals", nargs="*", default=["first", "top-3"])
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    replay(given.data, given.runs, given.goals, given.processes)


if __name__ == "__main__":
    main()
