"""Votes drawn from a model with known scores and known workers.

The scores are uniform on [-3, 3] and centred. The two items of a pair are drawn uniformly without replacement, and the
worker uniformly or as often as the workers of a real data set voted. The winner is drawn from the model. Each model is
one entry of ``crowdsift.lab.simulation.SIMULATORS``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdsift.errors import RequestError
from crowdsift.io.files import write_folder
from crowdsift.numeric import Codes, Indices, Labels, Mask, Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.numeric.threads import number, whole_number
from crowdsift.votes.choices import votes_of_rankings
from crowdsift.votes.comparisons import Comparisons

Draw = Callable[[np.random.Generator, int], Vector]
Vote = Callable[[np.random.Generator, Mapping[str, Vector]], Mask]

_BLOCK = 1 << 18  # votes at a time, so that temporary arrays in double precision stay small


@dataclass(frozen=True, eq=False)
class Simulation:
    """Simulated votes and the truth behind them.

    Vote i is by worker ``worker[i]``, who saw item ``first[i]`` on the left and ``second[i]`` on the right, and chose
    the left one if ``outcome[i]`` is 1, the right one if it is 0.

    `model`: the name of the model; `seed`: the seed, which makes the same votes again; `scores`: the true score of
    every item; `worker_parameters`: the true parameters of every worker, by name. ``reliability`` is always included:
    beta in the notation of the models, gamma in factor-bt, and 1 if all workers are alike; `item_parameters`: further
    parameters of every item, by name: ``class`` in barp; `first`, `second`, `worker`: codes of items and workers, of
    type uint32; `outcome`: 0 or 1, of type float32; `rankings`: items in the order of every answer, best first, if sets
    of more than two were ranked; `first` and `second` are then the two best.
    """

    model: str
    seed: int
    scores: Vector
    worker_parameters: Mapping[str, Vector]
    item_parameters: Mapping[str, Vector]
    first: Codes
    second: Codes
    outcome: NDArray[np.float32]
    worker: Codes
    rankings: Codes | None = None

    def __repr__(self) -> str:
        return (
            f"Simulation({len(self.outcome)} votes by {self.model}, {len(self.scores)} items, "
            f"{len(self.reliability)} workers, seed {self.seed}; votes: .comparisons())"
        )

    @property
    def reliability(self) -> Vector:
        """Return the true reliability of every worker."""
        return self.worker_parameters["reliability"]

    @property
    def items(self) -> Labels:
        """Return the labels of the items, whose sorted order is that of the codes."""
        return _labels("i", len(self.scores))

    @property
    def workers(self) -> Labels:
        """Return the labels of the workers, whose sorted order is that of the codes."""
        return _labels("w", len(self.reliability))

    def comparisons(self) -> Comparisons:
        """Return the votes, ready to fit, with known sides."""
        # Items and workers without votes keep their codes, so that estimates align with the truth.
        if self.rankings is not None:
            ranked = (tuple((item, float(place)) for place, item in enumerate(row)) for row in self.rankings.tolist())
            return votes_of_rankings(ranked, self.worker.tolist(), (self.items, self.workers))
        return Comparisons.from_codes(
            self.first,
            self.second,
            worker=self.worker,
            outcome=self.outcome,
            items=self.items,
            workers=self.workers,
            sides_known=True,
            source=f"votes simulated from {self.model}",
        )

    def write(self, directory: str | os.PathLike[str]) -> None:
        """Write votes.csv, items.csv and workers.csv, all of them or none."""
        # The columns are `left,right,winner,worker` with winner left or right (for rankings `worker,ranking`),
        # `item,score` and further item parameters, and `worker,reliability` and further worker parameters. Numbers are
        # written without loss. `directory` is created if it does not exist; files with these names are replaced.
        files = {
            "votes.csv": self._vote_lines(),
            "items.csv": _table("item", self.items, {"score": self.scores, **self.item_parameters}),
            "workers.csv": _table("worker", self.workers, self.worker_parameters),
        }
        write_folder(directory, files)

    def _vote_lines(self) -> Iterator[bytes]:
        yield b"left,right,winner,worker\n" if self.rankings is None else b"worker,ranking\n"
        for block in _blocks(len(self.worker)):
            voters = self.workers[self.worker[block]].tolist()
            if self.rankings is not None:
                rows = zip(voters, map(">".join, self.items[self.rankings[block]]), strict=True)
            else:
                winner = np.where(self.outcome[block] == 1, "left", "right").tolist()
                sides = (self.items[each[block]].tolist() for each in (self.first, self.second))
                rows = zip(*sides, winner, voters, strict=True)
            yield "".join(f"{','.join(row)}\n" for row in rows).encode()


def simulate(
    items: int,
    workers: int,
    comparisons: int,
    *,
    reliability: tuple[float, float] | None = None,
    model: str = "bora-em",
    reliabilities: ArrayLike | None = None,
    loads: ArrayLike | None = None,
    seed: int = 0,
    set_size: int = 2,
) -> Simulation:
    """Draw votes from a model.

    The truth depends only on the seed, the model and the numbers of items and workers: with more comparisons the same
    items are compared by the same workers.

    Parameters
    ----------
    items, workers, comparisons
        The number of each.
    reliability
        Draw the workers' reliability uniformly between these two. By default it depends on the model: uniform on [0, 1]
        in bora-em, hbtl and htcv, uniform on [0.5, 1] in crowd-bt, normal with mean 1 and deviation 1 in factor-bt
        (there it is gamma). In bt, rank-centrality and barp all workers are alike, and it cannot be given.
    model
        One of `MODELS`. In factor-bt every worker has a side bias in favour of the left, normal with mean 0 and
        deviation 1. In barp every item is of class 0 or 1 at random, and every worker has a bias for class 1, normal
        with mean 0 and deviation 0.5. (Votes cannot separate any other mean from the scores.)
    reliabilities
        The reliability of every worker, if it is not drawn.
    loads
        Numbers of comparisons of workers in another data set, scaled to the number of comparisons. If there are more or
        fewer loads than workers, the workers' loads are drawn from them with replacement. By default the worker of each
        vote is drawn uniformly.
    seed
        The same seed gives the same votes.
    set_size
        The number of items shown at once. Answers to more than two are rankings, by the model of Plackett and Luce with
        utilities βr; this needs a logistic model: bt, rank-centrality, bora-em or hbtl.

    Examples
    --------
    >>> from crowdsift.lab.simulation import simulate
    >>> drawn = simulate(10, 2, 1000, reliability=(-1, 1), loads=[1, 3], seed=7)
    >>> float((drawn.worker == 1).mean())
    0.75
    """
    given = None if reliabilities is None else _numbers("reliabilities", reliabilities)
    if given is not None:
        if given.shape != (workers,) or not workers or reliability is not None:
            raise RequestError("give either a range of reliability or one reliability per worker")
        reliability = float(given.min()), float(given.max())
    items = whole_number("items", items, 2)
    workers = whole_number("workers", workers, 1)
    comparisons, seed = whole_number("comparisons", comparisons, 1), whole_number("seed", seed)
    known, reliability = _checked(model, reliability)
    set_size = whole_number("set_size", set_size, 2)
    if set_size > items or (set_size > 2 and known.vote is not _logistic_vote):
        raise RequestError(f"sets of {set_size} need as many items and a logistic model: bt, bora-em or hbtl")
    streams = (np.random.Generator(np.random.PCG64(s)) for s in np.random.SeedSequence(seed).spawn(3))
    truth, design, votes = streams
    scores = truth.uniform(-3.0, 3.0, items)
    scores -= scores.mean()
    draws = dict(known.workers)
    if reliability is not None:
        draws["reliability"] = uniform(*reliability)
    if given is not None:
        draws["reliability"] = lambda rng, size: given
    worker_parameters = {name: draw(truth, workers) for name, draw in draws.items()}
    item_parameters = {name: draw(truth, items) for name, draw in known.items.items()}

    sets = np.empty((set_size, comparisons), np.uint32)
    for place in range(set_size):  # every item is uniform on those not in the set
        sets[place] = design.integers(items - place, size=comparisons, dtype=np.uint32)
        for earlier in np.sort(sets[:place], axis=0):
            sets[place] += sets[place] >= earlier
    first, second = sets[:2]
    if loads is None:
        worker = design.integers(workers, size=comparisons, dtype=np.uint32)
    else:
        counts = _scaled_loads(design, loads, workers, comparisons)
        worker = np.repeat(np.arange(workers, dtype=np.uint32), counts)

    outcome, rankings = np.ones(comparisons, dtype=np.float32), None
    if set_size > 2:
        utility = worker_parameters["reliability"][worker] * scores[sets] + votes.gumbel(size=sets.shape)
        rankings = np.take_along_axis(sets, np.argsort(-utility, axis=0), axis=0).T
        first, second = rankings[:, 0], rankings[:, 1]
    for block in _blocks(comparisons if rankings is None else 0):
        one, two, who = first[block], second[block], worker[block]
        view = {name: values[who] for name, values in worker_parameters.items()}
        for name, values in {"score": scores, **item_parameters}.items():
            view[name] = values[one] - values[two]
        outcome[block] = known.vote(votes, view)

    for array in (scores, *worker_parameters.values(), *item_parameters.values()):
        array.setflags(write=False)
    for votes_array in (first, second, outcome, worker):
        votes_array.setflags(write=False)
    return Simulation(model, seed, scores, worker_parameters, item_parameters, first, second, outcome, worker, rankings)


def _checked(model: str, reliability: tuple[float, float] | None) -> tuple[Simulator, tuple[float, float] | None]:
    """Return the model and the range of reliability; raise an error if they cannot be simulated."""
    known = SIMULATORS.get(model) if isinstance(model, str) else None
    if known is None:
        raise RequestError(f"no simulator for {model!r}; the models are {', '.join(MODELS)}")
    if reliability is None:
        return known, None
    if known.bounds is None:
        raise RequestError(f"in {model} all workers are alike; leave the reliability out")
    if not isinstance(reliability, Sequence | np.ndarray) or np.shape(reliability) != (2,):
        raise RequestError(f"reliability is {reliability!r}; give two numbers, the lower first")
    low, high = (number("reliability", value) for value in reliability)
    if not math.isfinite(high - low) or low > high:
        raise RequestError(f"reliability is {low},{high}; give two finite numbers, the lower first")
    if low < known.bounds[0] or high > known.bounds[1]:
        raise RequestError(
            f"reliability is {low},{high}; in {model} it lies in [{known.bounds[0]:g}, {known.bounds[1]:g}]"
        )
    return known, (low, high)


def _numbers(name: str, values: ArrayLike) -> Vector:
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if not found.size or not np.isfinite(found).all():
        raise RequestError(f"{name} must be finite numbers")
    return found


def _scaled_loads(rng: np.random.Generator, loads: ArrayLike, workers: int, comparisons: int) -> Indices:
    """Return numbers of comparisons proportional to the loads."""
    # Every worker gets the integer part of its share, so that every worker has votes if there are enough. The rest goes
    # to workers drawn by their fractional parts.
    given = np.asarray(loads)
    if given.ndim != 1 or given.dtype.kind not in "iu" or (given < 0).any() or not given.any():
        raise RequestError("loads must be numbers of comparisons, one per worker, not all 0")
    share = given.astype(np.int64)
    if len(share) != workers:
        share = rng.choice(share[share > 0], workers)
    total = int(share.sum())
    counts, fraction = np.divmod(comparisons * share, total)
    left = comparisons - int(counts.sum())
    if left:
        counts += rng.multinomial(left, fraction / fraction.sum())
    return counts


def _labels(prefix: str, count: int) -> Labels:
    width = len(str(count - 1))
    return np.array([f"{prefix}{code:0{width}d}" for code in range(count)], dtype=object)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, count)) for start in range(0, count, _BLOCK))


def _table(name: str, labels: Labels, columns: Mapping[str, Vector]) -> Iterator[bytes]:
    yield f"{','.join((name, *columns))}\n".encode()
    for label, *values in zip(labels, *(c.tolist() for c in columns.values()), strict=True):
        yield f"{label},{','.join(map(repr, values))}\n".encode()


@dataclass(frozen=True)
class Simulator:
    """Functions that draw the parameters and the votes of a model.

    `vote`: whether first wins, for many votes, from the parameters of each vote's worker and the differences, first
    minus second, of the items' parameters; `workers`, `items`: how each parameter is drawn; `bounds`: the range of the
    reliability; None if it is no parameter of the model.
    """

    vote: Vote
    workers: Mapping[str, Draw]
    items: Mapping[str, Draw] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None


def uniform(low: float, high: float) -> Draw:
    """Return a function that draws uniformly between the two."""
    return lambda rng, size: rng.uniform(low, high, size)


def _normal(mean: float, deviation: float) -> Draw:
    return lambda rng, size: rng.normal(mean, deviation, size)


def _ones(rng: np.random.Generator, size: int) -> Vector:
    return np.ones(size)


def _coins(rng: np.random.Generator, size: int) -> Vector:
    return rng.integers(2, size=size).astype(np.float64)


def _logistic_vote(rng: np.random.Generator, v: Mapping[str, Vector]) -> Mask:
    """Return P = sigma(beta d)."""
    return rng.random(len(v["score"])) < sigmoid(v["reliability"] * v["score"])


def _probit_vote(rng: np.random.Generator, v: Mapping[str, Vector]) -> Mask:
    """Return P = Phi(beta d / sqrt 2): each item is seen with normal noise of deviation 1 / beta."""
    noise = rng.standard_normal(len(v["score"]))
    return v["reliability"] * v["score"] / math.sqrt(2.0) > noise


def _crowd_bt_vote(rng: np.random.Generator, v: Mapping[str, Vector]) -> Mask:
    """Return P = beta sigma(d) + (1 - beta) sigma(-d)."""
    honest = sigmoid(v["score"])
    chance = v["reliability"] * honest + (1.0 - v["reliability"]) * (1.0 - honest)
    return rng.random(len(honest)) < chance


def _factor_bt_vote(rng: np.random.Generator, v: Mapping[str, Vector]) -> Mask:
    """Return P = sigma(gamma) sigma(d) + (1 - sigma(gamma)) sigma(b x), with x = 1 for first on the left."""
    skill = sigmoid(v["reliability"])
    chance = skill * sigmoid(v["score"]) + (1.0 - skill) * sigmoid(v["side_bias"])
    return rng.random(len(skill)) < chance


def _barp_vote(rng: np.random.Generator, v: Mapping[str, Vector]) -> Mask:
    """Return P = sigma(d + theta (class of first - class of second))."""
    return rng.random(len(v["score"])) < sigmoid(v["score"] + v["class_bias"] * v["class"])


_UNIT = {"reliability": uniform(0.0, 1.0)}
_ALIKE = Simulator(_logistic_vote, {"reliability": _ones})

SIMULATORS: dict[str, Simulator] = {
    "bt": _ALIKE,
    "rank-centrality": _ALIKE,
    "bora-em": Simulator(_logistic_vote, _UNIT, bounds=(-math.inf, math.inf)),
    "hbtl": Simulator(_logistic_vote, _UNIT, bounds=(-1.0, 1.0)),
    "htcv": Simulator(_probit_vote, _UNIT, bounds=(0.0, math.inf)),
    "crowd-bt": Simulator(_crowd_bt_vote, {"reliability": uniform(0.5, 1.0)}, bounds=(0.0, 1.0)),
    "factor-bt": Simulator(
        _factor_bt_vote,
        {"reliability": _normal(1.0, 1.0), "side_bias": _normal(0.0, 1.0)},
        bounds=(-math.inf, math.inf),
    ),
    "barp": Simulator(_barp_vote, {"reliability": _ones, "class_bias": _normal(0.0, 0.5)}, {"class": _coins}),
}

#: The names of the models that votes can be drawn from.
MODELS = tuple(SIMULATORS)
