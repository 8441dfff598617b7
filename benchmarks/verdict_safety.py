"""Whether verdicts are just: honest workers accused, weak ones blocked, planted ones found.

Run with ``python -m benchmarks.verdict_safety [--seeds 4] [--first 0] [--methods sift,bora-map]``. Prints one Markdown
table, that of docs/research/quality.md.

- Honest: 6,000 judges of reliability 1 to 2.5 with 1 to 20 votes each, ties, side biases of
  mean .1 and standard deviation .3; every second time .4 and .6. Accused is random, adversarial or one-sided.
- Weak: 25 workers of reliability 2, and ten of .15 to .5, with 50 to 500 votes each; and 25 of 3
  with two of .3 and .45, 300 votes each. Wronged are those whose interval is above 0 and who are called random, or are
  not to be paid.
- Planted: 30 workers of reliability 1.5 to 2.5, four who click at random, three adversarial ones
  (-2) and three who answer left, or right, in 93 % to 97 % of their votes, 60 to 150 votes each.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np

import crowdsift

__all__ = ["METHODS", "Crowd", "crowd", "honest", "planted", "weak"]

METHODS = ("sift", "bora-map", "bora-em", "crowd-bt", "factor-bt", "htcv", "hbtl")
ACCUSED = ("random", "adversarial", "one-sided")
KINDS = ("random", "adversarial", "one-sided")
MISREAD = {"random": ("reliable", "weak", "adversarial", "distinct"), "weak": ("adversarial", "distinct")}


class Crowd(NamedTuple):
    """Votes as columns, and the kind of every worker."""

    votes: dict[str, np.ndarray]
    kind: np.ndarray


def crowd(
    rng: np.random.Generator,
    reliability: np.ndarray,
    votes: np.ndarray,
    *,
    items: int = 30,
    side: np.ndarray | float = 0.0,
    tie: float = 0.4,
    kind: np.ndarray | None = None,
) -> Crowd:
    """Draw votes: P(left) = σ(βd + γ - t), P(right) = σ(-βd - γ - t), a tie otherwise."""
    workers = len(reliability)
    score, worker = rng.standard_normal(items), np.repeat(np.arange(workers), votes)
    left = rng.integers(items, size=len(worker))
    right = (left + rng.integers(1, items, len(worker))) % items
    gamma = np.broadcast_to(side, workers)[worker]
    x = reliability[worker] * (score[left] - score[right]) + gamma
    u, won, lost = rng.random(len(worker)), 1 / (1 + np.exp(tie - x)), 1 / (1 + np.exp(tie + x))
    winner = np.where(u < won, "left", np.where(u < won + lost, "right", "tie"))
    columns = {"left": left, "right": right, "winner": winner, "worker": worker}
    return Crowd(columns, np.full(workers, "honest") if kind is None else kind)


def honest(seed: int) -> Crowd:
    """Draw judges with few votes each, all of them honest."""
    rng, count = np.random.default_rng([1, seed]), 6_000
    return crowd(
        rng,
        rng.uniform(1.0, 2.5, count),
        rng.integers(1, 21, count),
        side=rng.normal(*((0.1, 0.3), (0.4, 0.6))[seed % 2], count),
        items=(14, 30, 100)[seed % 3],
    )


def weak(seed: int) -> Crowd:
    """Draw honest workers of whom some are weak; every second time those of the issue."""
    rng = np.random.default_rng([2, seed])
    if seed % 2:
        beta, votes = np.append(np.full(25, 3.0), [0.3, 0.45]), np.full(27, 300)
    else:
        beta = np.append(np.full(25, 2.0), rng.uniform(0.15, 0.5, 10))
        votes = rng.integers(50, 501, 35)
    kind = np.where(beta < 1.0, "weak", "honest")
    return crowd(rng, beta, votes, kind=kind, tie=0.0)


def planted(seed: int) -> Crowd:
    """Draw a crowd with random, adversarial and one-sided workers among careful ones."""
    rng = np.random.default_rng([3, seed])
    kind = np.repeat(["honest", *KINDS], [30, 4, 3, 3])
    beta = np.where(kind == "honest", rng.uniform(1.5, 2.5, 40), 0.0)
    beta[kind == "adversarial"] = -2.0
    side = np.where(kind == "honest", rng.normal(0.0, 0.3, 40), 0.0)
    sided = kind == "one-sided"
    share = rng.uniform(0.93, 0.97, sided.sum())
    side[sided] = np.log(share / (1.0 - share)) * rng.choice([-1.0, 1.0], sided.sum())
    return crowd(rng, beta, rng.integers(60, 151, 40), side=side, kind=kind, tie=0.2)


def counts(method: str, seeds: range) -> dict[str, Any]:
    """Fit all crowds by a method, and count who is accused, wronged, found and misread."""
    names = ("honest", "wronged", *KINDS, "random misread", "weak misread")
    done: dict[str, Any] = {name: np.zeros(2, int) for name in names}
    for seed in seeds:
        drawn = honest(seed)
        verdict = crowdsift.fit(drawn.votes, method).workers["verdict"]
        done["honest"] += np.isin(verdict, ACCUSED).sum(), len(verdict)
    for seed in range(4 * seeds.start, 4 * seeds.stop):
        drawn = weak(seed)
        fit = crowdsift.fit(drawn.votes, method)
        table, mine = fit.workers, drawn.kind == "weak"
        refused = (table["verdict"] == "random") | (fit.decisions()["suggestion"] != "pay")
        level = 0.5 if method == "crowd-bt" else 0.0
        done["wronged"] += (refused & (table["lower"] > level))[mine].sum(), mine.sum()
        done["weak misread"] += np.isin(table["verdict"][mine], MISREAD["weak"]).sum(), mine.sum()
        drawn = planted(seed)
        verdict = crowdsift.fit(drawn.votes, method).workers["verdict"]
        for kind in KINDS:
            mine = drawn.kind == kind
            done[kind] += (verdict[mine] == kind).sum(), mine.sum()
        clickers = verdict[drawn.kind == "random"]
        done["random misread"] += np.isin(clickers, MISREAD["random"]).sum(), len(clickers)
        done["honest"] += np.isin(verdict[drawn.kind == "honest"], ACCUSED).sum(), 30
    return done


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--methods", default=",".join(METHODS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| method | honest accused | weak wronged | random | adversarial | one-sided | random misread | weak misread |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for method in given.methods.split(","):
        done = counts(method, range(given.first, given.first + given.seeds))
        cells = [f"{found:,} of {total:,}" for found, total in done.values()]
        print(f"| {method} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
