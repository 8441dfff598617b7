"""Whether the sign that a method returns is as often right as the fit states.

Run with ``python -m benchmarks.sign [--crowds 200] [--first 0] [--methods sift,bora-map]``. In every crowd 3 to 20
strong judges are upright with probability .9 each; many more workers are nearly random, and lean to one side in common.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import crowdsift
from crowdsift import Comparisons

_EDGES = (0.5, 0.8, 0.95, 0.99, 1.0)


class Outcome(NamedTuple):
    """Whether a returned sign is right, and with what probability the fit states that."""

    right: bool
    stated: float
    warned: bool


def votes_of(
    rng: np.random.Generator, beta: NDArray[np.float64], each: NDArray[np.int64], items: int = 40
) -> tuple[NDArray[np.float64], Comparisons]:
    """Draw true scores, and votes of workers of these reliabilities and numbers of votes."""
    scores = rng.normal(size=items)
    who = np.repeat(np.arange(len(beta)), each)
    one = rng.integers(0, items, len(who))
    two = (one + rng.integers(1, items, len(who))) % items
    won = rng.random(len(who)) < 1.0 / (1.0 + np.exp(-beta[who] * (scores[one] - scores[two])))
    votes = Comparisons.from_arrays(np.where(won, one, two), np.where(won, two, one), worker=who)
    return scores, votes


def strong_and_random(seed: int) -> tuple[NDArray[np.float64], Comparisons]:
    """Draw a crowd of strong judges, upright with probability .9, and of nearly random workers."""
    rng = np.random.default_rng(seed)
    strong, weak = rng.integers(3, 21), rng.integers(20, 81)
    upright = np.where(rng.random(strong) < 0.9, 1.0, -1.0)
    beta = np.concatenate([rng.uniform(1.5, 3.5, strong) * upright, rng.normal(rng.uniform(-0.25, 0.25), 0.1, weak)])
    each = np.concatenate([rng.integers(60, 201, strong), rng.integers(50, 401, weak)])
    return votes_of(rng, beta, each)


def outcome(method: str, scores: NDArray[np.float64], votes: Comparisons) -> Outcome:
    """Fit the votes and compare the sign with the truth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = crowdsift.fit(votes, method, threads=1)
    found = np.corrcoef(fit.scores_of(np.arange(len(scores))), scores)[0, 1]
    stated = float(fit.summary["sign_probability"])
    return Outcome(bool(found > 0.0), stated, bool(fit.summary["sign_unsettled"]))


def rows(method: str, found: list[Outcome]) -> Iterator[str]:
    """Write a row of the table for every range of the stated probability."""
    for low, high in pairwise(_EDGES):
        last = high == _EDGES[-1]
        some = [each for each in found if low <= each.stated < high or (last and each.stated >= 1)]
        right = sum(each.right for each in some)
        stated = f"{np.mean([each.stated for each in some]):.3f}" if some else ""
        yield f"| {method} | {low:.2f} to {high:.2f} | {len(some)} | {right} | {stated} |"


def main() -> None:
    """Print the table of `docs/gold.md`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crowds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--methods", default="sift,bora-map")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.crowds)
    print("| method | stated probability | crowds | sign is right | mean stated |")
    print("|---|---|---|---|---|")
    for method in options.methods.split(","):
        found = [outcome(method, *strong_and_random(seed)) for seed in seeds]
        print(*rows(method, found), sep="\n")
        below = sum(each.stated < 0.5 for each in found)
        sure = [each.right for each in found if each.stated > 0.95]
        silent = sum(each.warned != (each.stated < 0.95) for each in found)
        print(
            f"{method}: {below} returned below one half, {silent} where warning and number "
            f"differ; stated above .95: {sum(sure)} of {len(sure)} right"
        )


if __name__ == "__main__":
    main()
