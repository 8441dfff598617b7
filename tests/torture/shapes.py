"""Degenerate votes through every method: an answer that is finite and consistent, or a reason.

One pair, nothing but ties, perfect separation, islands, stars, workers with a vote each, weights of all sizes. The
order of rows must not matter to a byte, and a fit must survive its folder.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift
from crowdsift import Comparisons, CrowdsiftError
from crowdsift.engines import ENGINES
from crowdsift.models import MODELS
from torture.words import result

Arrays = dict[str, Any]
ENGINES["reference"] = "reference_engine"  # the specification, no choice of users


def case(seed: int, folder: Path) -> None:
    """One shape, one method, one engine."""
    rng = random.Random(seed)
    shape = rng.choice(list(SHAPES))
    if shape == "great_star" and rng.random() < 0.95:  # it takes seconds
        shape = "star"
    arrays = SHAPES[shape](np.random.default_rng(seed))
    weights = weight(rng, len(arrays["first"]))
    engine = rng.choice(("cpu", "cpu", "reference")) if len(weights) <= 200 else "cpu"
    options = {"engine": engine, "threads": rng.choice((1, 2, 3))}
    method = rng.choice(sorted(MODELS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdsift.ConvergenceWarning)
        warnings.simplefilter("ignore", crowdsift.SignWarning)
        try:
            votes = made(arrays, weights)
            model = crowdsift.model(method).relax(votes)[0]
            fit = crowdsift.fit(votes, model, **options)
        except CrowdsiftError as error:
            result(error)
            return
        consistent(fit)
        order = np.random.default_rng(seed).permutation(len(weights))
        shuffled = {name: np.asarray(values)[order] for name, values in arrays.items()}
        again = crowdsift.fit(made(shuffled, weights[order]), model, **options)
    assert again.item_table.to_csv() == fit.item_table.to_csv(), (shape, method)
    assert again.worker_table.to_csv() == fit.worker_table.to_csv(), (shape, method)
    fit.save(folder / "fit")
    loaded = crowdsift.load(folder / "fit")
    assert loaded.item_table.to_csv() == fit.item_table.to_csv()
    assert loaded.worker_table.to_csv() == fit.worker_table.to_csv()


def made(arrays: Arrays, weights: np.ndarray) -> Comparisons:
    return Comparisons.from_arrays(
        arrays["first"],
        arrays["second"],
        worker=arrays["worker"],
        outcome=arrays["outcome"],
        weight=weights,
        sides_known=True,
    )


def consistent(fit: crowdsift.Fit) -> None:
    """Finite, inside its interval, ranked as scored."""
    items = fit.item_table
    score, lower, upper = (np.asarray(items[name], float) for name in ("score", "lower", "upper"))
    assert np.isfinite(score).all()
    known = np.isfinite(lower)
    assert (known == np.isfinite(upper)).all()
    assert (lower[known] <= score[known]).all()
    assert (score[known] <= upper[known]).all()
    rank = np.asarray(items["rank"])
    for part in np.unique(items["component"]):
        inside = np.flatnonzero(items["component"] == part)
        assert (np.diff(score[inside][np.argsort(rank[inside], kind="stable")]) <= 0).all()
    workers = fit.worker_table
    reliability = np.asarray(workers["reliability"], float)
    low, high = (np.asarray(workers[name], float) for name in ("lower", "upper"))
    bounded = np.isfinite(low) & np.isfinite(reliability)
    assert (low[bounded] <= reliability[bounded] + 1e-9).all()
    assert (reliability[bounded] <= high[bounded] + 1e-9).all()


def weight(rng: random.Random, count: int) -> np.ndarray:
    """Ones mostly; else the same extreme for all, or all sizes at once."""
    kind = rng.random()
    if kind < 0.5:
        return np.ones(count)
    if kind < 0.75:
        return np.full(count, 10.0 ** rng.choice((-300, -30, -3, 3, 6, 30, 300)))
    return 10.0 ** np.array([rng.uniform(-3, 3) for _ in range(count)])


def _votes(first: Any, second: Any, worker: Any, outcome: Any) -> Arrays:
    first, second = np.asarray(first), np.asarray(second)
    worker, outcome = np.broadcast_arrays(worker, np.asarray(outcome, float), first)[:2]
    return {"first": first, "second": second, "worker": worker, "outcome": outcome}


def one_pair(rng: np.random.Generator) -> Arrays:
    return _votes([0], [1], 0, rng.choice([0.0, 0.5, 1.0]))


def one_worker(rng: np.random.Generator) -> Arrays:
    return any_votes(rng) | {"worker": np.zeros(60, int)}


def any_votes(rng: np.random.Generator) -> Arrays:
    first = rng.integers(6, size=60)
    second = (first + rng.integers(1, 6, size=60)) % 6
    return _votes(first, second, rng.integers(5, size=60), rng.choice([0.0, 0.5, 1.0], 60))


def all_ties(rng: np.random.Generator) -> Arrays:
    return any_votes(rng) | {"outcome": np.full(60, 0.5)}


def all_left(rng: np.random.Generator) -> Arrays:
    return any_votes(rng) | {"outcome": np.ones(60)}


def separated(rng: np.random.Generator) -> Arrays:
    votes = any_votes(rng)
    return votes | {"outcome": (votes["first"] < votes["second"]).astype(float)}


def opposed(rng: np.random.Generator) -> Arrays:
    """Two workers who contradict each other in every vote."""
    votes = separated(rng)
    worker = np.arange(60) % 2
    return votes | {"worker": worker, "outcome": np.abs(votes["outcome"] - worker)}


def islands(rng: np.random.Generator) -> Arrays:
    first = 2 * rng.integers(20, size=80)
    return _votes(first, first + 1, rng.integers(8, size=80), rng.integers(2, size=80))


def star(rng: np.random.Generator) -> Arrays:
    count = int(rng.choice([3, 50, 2000]))
    rays = np.arange(1, count)
    return _votes(np.zeros(count - 1, int), rays, rays, rng.integers(2, size=count - 1))


def great_star(rng: np.random.Generator) -> Arrays:
    """1e5 items, each compared once with the first, by a worker of its own."""
    rays = np.arange(1, 100_000)
    return _votes(np.zeros(99_999, int), rays, rays, rng.integers(2, size=99_999))


def chain(rng: np.random.Generator) -> Arrays:
    links = np.arange(int(rng.choice([3, 60, 1500])))
    return _votes(links, links + 1, links % 7, rng.integers(2, size=len(links)))


def strangers(rng: np.random.Generator) -> Arrays:
    """Every worker has one vote."""
    return any_votes(rng) | {"worker": np.arange(60)}


def doubles(rng: np.random.Generator) -> Arrays:
    """One vote, many times."""
    return _votes(np.zeros(50, int), np.ones(50, int), 0, 1.0)


def shares(rng: np.random.Generator) -> Arrays:
    return any_votes(rng) | {"outcome": rng.random(60)}


SHAPES = {
    f.__name__: f
    for f in (
        one_pair,
        one_worker,
        any_votes,
        all_ties,
        all_left,
        separated,
        opposed,
        islands,
        star,
        chain,
        strangers,
        doubles,
        shares,
        great_star,
    )
}
