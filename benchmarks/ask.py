"""What `crowdsift ask` promises: replays of recorded votes, plans, load, and kills.

Run with ``python -m benchmarks.ask replay|errors|ties|plan|load|kills [--runs N] [--first SEED]``; replay takes
``[--data NAME] [--goals GOAL] [--most N]`` too.

``replay``: every pair of the data was judged often. A study asks pairs, chosen for the goal or at random; the answer
is a recorded vote on that pair, drawn with replacement. The study stops when the goal is settled, looked at after
every vote, and beyond 2,000 votes after each further 2 %. Truth is the ranking by all votes. ``errors`` and
``ties``: how often is a claim wrong if two items are almost equal? ``plan``: studies with a
known truth; is the number of votes that each needs in the interval stated before? ``load``: 50 judges and 3,000
votes. ``kills``: kill -9 at random moments.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift
from benchmarks.ask_server import Client, Server
from benchmarks.data import data_folder
from crowdsift.numeric.distributions import log_evidence
from crowdsift.votes.comparisons import Comparisons

MOST, EVERY = 1_000_000, 2_000  # votes of a replay at most, and up to where it is looked at after every vote
DATA: dict[str, dict[str, Any]] = {
    "cola": {
        "votes": "cj_luckett2018_cola.csv",
        "columns": {"winner": "candidate_chosen", "loser": "candidate_not_chosen", "worker": "judge"},
    },
    "mtbench": {"votes": "mtbench.csv"},
    "ppr": {"votes": "ppr.csv.gz", "where": "panel = 'human'"},
}
Draw = Callable[[np.random.Generator, int, int, int], np.ndarray]


def recorded(name: str) -> tuple[list[Any], np.ndarray, Draw]:
    """Items, the true order, and a function that draws votes on a pair."""
    options = dict(DATA[name])
    votes = crowdsift.read(data_folder() / options.pop("votes"), **options)
    table: dict[tuple[int, int], list[float]] = {}
    for a, b, outcome, weight in zip(votes.first, votes.second, votes.outcome, votes.weight, strict=True):
        for _ in range(round(float(weight))):
            table.setdefault((int(a), int(b)), []).append(float(outcome))
            table.setdefault((int(b), int(a)), []).append(1.0 - float(outcome))
    order = np.argsort(-crowdsift.fit(votes).scores_of(votes.items), kind="stable")

    held = {pair: np.array(outcomes) for pair, outcomes in table.items()}

    def draw(random: np.random.Generator, a: int, b: int, votes: int) -> np.ndarray:
        return held[a, b][random.integers(len(held[a, b]), size=votes)]

    return votes.items.tolist(), order, draw


def study(
    items: list[Any],
    draw: Draw,
    goal: str,
    arm: str,
    seed: int,
    most: int = MOST,
    given: Counter[tuple[int, int, float]] | None = None,
    every: int = EVERY,
) -> tuple[int, list[int]]:
    """Votes until the goal is settled (or `most`), and the items claimed.

    `given` are votes with which it begins, by pair and outcome. A study is looked at after every vote up to `every`
    votes, then after each further 2 %: up to 40 pairs are chosen at a time, each is asked several times, and all
    votes are fitted again.
    """
    random = np.random.default_rng([seed, 11])
    code = {label: number for number, label in enumerate(items)}
    given = Counter() if given is None else given
    votes = given.total()
    before = _summed(items, given) if votes else None
    selector = crowdsift.Selector(before, items=items, goal=goal, seed=seed, threads=1)
    assert selector.items.tolist() == items
    state = selector.stopping()
    one, two = np.triu_indices(len(items), 1)
    while votes < most and not state.settled:
        size = 1 if votes < every else votes // 50
        if arm == "random":
            pairs = [(int(one[i]), int(two[i])) for i in random.integers(len(one), size=size)]
        else:
            found = selector.choose(min(size, 40))
            pairs = [(code[a], code[b]) for a, b in zip(found["first"], found["second"], strict=True)]
            pairs = (pairs * (size // len(pairs) + 1))[:size]
        drawn = [(a, b, y) for (a, b), n in Counter(pairs).items() for y in draw(random, a, b, n).tolist()]
        given.update(drawn)
        votes += size
        if size == 1:
            selector.add(items[drawn[0][0]], items[drawn[0][1]], outcome=drawn[0][2])
        else:
            selector = crowdsift.Selector(_summed(items, given), items=items, goal=goal, seed=votes, threads=1)
        state = selector.stopping()
    return votes, state.claim.tolist() if state.settled else []


def _summed(items: list[Any], given: Counter[tuple[int, int, float]]) -> Comparisons:
    first, second, outcome = (np.array(column) for column in zip(*given, strict=True))
    return Comparisons.from_codes(
        first.astype(np.uint32),
        second.astype(np.uint32),
        outcome=outcome,
        weight=np.array(list(given.values()), dtype=np.float64),
        items=np.array(items, dtype=object),
        workers=np.array([None], dtype=object),
        threads=1,
        summed=True,
    )


def _replayed(name: str, goal: str, arm: str, most: int, seed: int) -> tuple[int, bool]:
    items, order, draw = _cached(name)
    votes, claim = study(items, draw, goal, arm, seed, most=most)
    top = 1 if goal == "first" else 3
    return votes, bool(claim) and set(claim) != set(order[:top].tolist())


_known: dict[str, Any] = {}


def _cached(name: str) -> Any:
    if name not in _known:
        _known[name] = recorded(name)
    return _known[name]


def replay(names: list[str], seeds: range, goals: list[str], processes: int, most: int = MOST) -> None:
    """Replay a study for each seed and print what they needed."""
    with ProcessPoolExecutor(processes) as pool:
        for name in names:
            for goal in goals:
                mean = {}
                for arm in ("chosen", "random"):
                    begin = time.perf_counter()
                    found = list(pool.map(partial(_replayed, name, goal, arm, most), seeds))
                    votes = np.array([each[0] for each in found])
                    wrong = sum(each[1] for each in found)
                    mean[arm] = votes.mean()
                    print(
                        f"{name:8s} {goal:6s} {arm:7s} wrong {wrong:3d} of {len(seeds)}; votes: mean "
                        f"{votes.mean():7.1f}, median {np.median(votes):6.0f}, 90 % "
                        f"{np.quantile(votes, 0.9):6.0f}; unsettled {int((votes >= most).sum())}; "
                        f"{time.perf_counter() - begin:.0f} s",
                        flush=True,
                    )
                print(f"{name:8s} {goal:6s} chosen/random {mean['chosen'] / mean['random']:.1%}")


def model(scores: np.ndarray) -> Draw:
    """Return a function that draws votes on a pair of items with these scores."""

    def draw(random: np.random.Generator, a: int, b: int, votes: int) -> np.ndarray:
        return np.asarray(random.random(votes) < 1.0 / (1.0 + np.exp(scores[b] - scores[a])), dtype=float)

    return draw


GAPS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def errors(runs: int, first: int, most: int = MOST) -> None:
    """Print how often studies of two items claim the worse one, and how often the better one."""
    for gap in GAPS:
        random = np.random.default_rng([first, 17])
        won, mode, votes = np.zeros(runs), np.zeros(runs), 0
        end, claim = np.full(runs, np.inf), np.zeros(runs)
        while votes < most:
            size = 1 if votes < EVERY else votes // 50
            won += random.binomial(size, 1.0 / (1.0 + np.exp(-gap)), runs)
            votes += size
            for _ in range(4):  # the posterior of the difference by Laplace's approximation, as in a fit
                p = 1.0 / (1.0 + np.exp(-mode))
                precision = votes * p * (1.0 - p) + 0.5
                mode += (won - votes * p - 0.5 * mode) / precision
            evidence = log_evidence(np.abs(mode), 1.0 / precision)
            now = np.isinf(end) & (evidence >= np.log(20.0))
            end[now], claim[now] = votes, np.sign(mode[now])
        print(
            f"difference {gap:4.2f}: wrong {(claim < 0).mean():.2%}, right {(claim > 0).mean():.2%}, not settled by "
            f"{most:,} {np.isinf(end).mean():.1%}; median {np.median(end):,.0f} votes",
            flush=True,
        )


TIED = {  # the scores of items from which pairs are chosen: 0 and 1 differ by a gap, perhaps at a boundary within
    "first": np.array([0.0, 0.0, -0.4, -0.8, -1.6, -2.4]),
    "top-3": np.array([0.0, 0.0, 1.2, 0.4, -0.4, -2.4]),
}
TIED_MOST = 20_000


def _tied(goal: str, gap: float, seed: int) -> int:
    """1 if a study of six items claims the better one of two almost equal items, -1 for the worse one, 0 for none."""
    scores = TIED[goal] + np.array([gap, 0.0, 0.0, 0.0, 0.0, 0.0])
    _, claim = study(list(range(6)), model(scores), goal, "chosen", seed, TIED_MOST, every=500)
    return (0 in claim) - (1 in claim)


def ties(runs: int, first: int, processes: int) -> None:
    """Print how often studies of six items, with chosen pairs, claim the worse one of two almost equal items."""
    with ProcessPoolExecutor(processes) as pool:
        for goal in TIED:
            for gap in (0.0, 0.05):
                found = np.array(list(pool.map(partial(_tied, goal, gap), range(first, first + runs))))
                print(
                    f"{goal:6s} difference {gap:4.2f}: wrong {(found < 0).sum()}, right {(found > 0).sum()} of {runs}, "
                    f"the others not settled by {TIED_MOST:,}",
                    flush=True,
                )


BEFORE, PLAN_ITEMS = 40, 4  # votes before the plan, items


def _planned(seed: int) -> tuple[int, int, int, int] | None:
    """Return the interval and the median of a plan, and the need of the study; None if it is settled at the outset.

    The truth is drawn from what a plan assumes before any vote.
    """
    random = np.random.default_rng([seed, 3])
    items = list(range(PLAN_ITEMS))
    truth = random.standard_normal(PLAN_ITEMS)
    draw = model(truth)
    before = [tuple(random.choice(PLAN_ITEMS, 2, replace=False).tolist()) for _ in range(BEFORE)]
    given = Counter((a, b, float(draw(random, a, b, 1)[0])) for a, b in before)
    selector = crowdsift.Selector(_summed(items, given), items=items, goal="first", threads=1)
    low, middle, high = crowdsift.plan(selector, goal="first", runs=39, most=MOST, seed=seed).interval
    if high == 0:
        return None
    votes, _ = study(items, draw, "first", "chosen", seed, given=given)
    return low, middle, high, votes - BEFORE


def plans(runs: int, first: int, processes: int) -> None:
    """Print how often the need was in the interval, in `runs` studies that are not settled at the outset."""
    with ProcessPoolExecutor(processes) as pool:
        found: list[tuple[int, int, int, int]] = []
        tried = 0
        while len(found) < runs:
            seeds = range(first + tried, first + tried + 4 * processes)
            found += [each for each in pool.map(_planned, seeds) if each is not None]
            tried += len(seeds)
            low, middle, high, need = np.array(found[:runs]).T
            print(
                f"plan: of {len(found[:runs])} studies (of {tried}) the need was in the 90 % interval in "
                f"{int(((low <= need) & (need <= high)).sum())}, below in {int((need < low).sum())}, above in "
                f"{int((need > high).sum())}; below the median in {int((need < middle).sum())}; "
                f"not settled by {MOST:,} {int((need >= MOST - BEFORE).sum())}, intervals that end there "
                f"{int((high >= MOST).sum())}",
                flush=True,
            )


def load(judges: int = 50, votes: int = 3_000, pause: float = 0.5) -> None:
    """Judges who answer after about `pause` seconds each; seconds of every answer."""
    with tempfile.TemporaryDirectory() as folder:
        items = "".join(f"i{n},Text {n}\n" for n in range(40))
        (Path(folder) / "items.csv").write_text(f"item,text\n{items}")
        server = Server(Path(folder), "items.csv", "--goal", "top-3")
        taken: list[float] = []

        def judge(number: int) -> None:
            random = np.random.default_rng(number)
            client = Client(server.port, server.judges.partition("#")[2])
            time.sleep(random.uniform(0, 2 * pause))
            client.join(f"judge {number}")
            for _ in range(votes // judges):
                time.sleep(random.uniform(0.5, 1.5) * pause)
                if not client.held:
                    break
                left = int(client.held[0]["left"]["text"].split()[1])
                right = int(client.held[0]["right"]["text"].split()[1])
                better = random.random() < 1.0 / (1.0 + np.exp(0.05 * (left - right)))
                begin = time.perf_counter()
                client.vote("left" if better else "right")
                taken.append(time.perf_counter() - begin)

        threads = [threading.Thread(target=judge, args=(n,)) for n in range(judges)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            status, found = Client(server.port, server.owner).call("/api/study")
            assert status == 200
            fits = found["result"]["votes"]
        finally:
            server.stop()
        at = 1_000 * np.quantile(taken, (0.5, 0.95, 0.99, 1.0))
        print(f"load: {len(taken)} votes of {judges} judges, {found['answers']} stored, {fits} fitted")
        print("ms: median {:.0f}, 95 % {:.0f}, 99 % {:.0f}, longest {:.0f}".format(*at))


def kills(moments: int = 50) -> None:
    """Kill -9 while a judge votes; what was under way is sent again after the restart."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        names = "".join(f"i{n}\n" for n in range(80))
        (Path(folder) / "items.csv").write_text(f"item\n{names}")
        token, body = "", None
        sent: set[str] = set()
        acknowledged: set[str] = set()
        for _ in range(moments):
            server = Server(Path(folder), "items.csv")
            client = Client(server.port, token or server.judges.partition("#")[2])
            if not token:
                client.join("ann")
                token = client.token
            if body is not None and client.call("/api/vote", body)[0] == 200:
                acknowledged.add(body["id"])
            client.begin()
            killer = threading.Timer(random.uniform(0.0, 0.4), server.process.kill)
            killer.start()
            with suppress(OSError, HTTPException, IndexError):
                while True:
                    body = {
                        "id": f"vote-{len(sent):06d}",
                        "question": client.held.pop(0)["id"],
                        "answer": "left",
                        "held": [q["id"] for q in client.held],
                    }
                    sent.add(body["id"])
                    status, found = client.call("/api/vote", body)
                    if status == 200:
                        acknowledged.add(body["id"])
                        client.held += found["questions"]
            killer.join()
            server.kill()
        store = sqlite3.connect(Path(folder) / "study.sqlite")
        stored = [each for (each,) in store.execute("SELECT id FROM answers")]
        store.close()
    lost, twice = len(acknowledged - set(stored)), len(stored) - len(set(stored))
    print(f"{moments} kills, {len(acknowledged)} votes acknowledged, {lost} lost, {twice} twice")


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("replay", "errors", "ties", "plan", "load", "kills"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--data", nargs="*", default=list(DATA))
    parser.add_argument("--goals", nargs="*", default=["first", "top-3"])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--most", type=int, default=MOST, help="where replays end, settled or not")
    given = parser.parse_args()
    if given.what == "replay":
        seeds = range(given.first, given.first + given.runs)
        replay(given.data, seeds, given.goals, given.processes, given.most)
    elif given.what == "errors":
        errors(given.runs, given.first, given.most)
    elif given.what == "ties":
        ties(given.runs, given.first, given.processes)
    elif given.what == "plan":
        plans(min(given.runs, 100), given.first, given.processes)
    elif given.what == "load":
        load()
    else:
        kills()


if __name__ == "__main__":
    main()
