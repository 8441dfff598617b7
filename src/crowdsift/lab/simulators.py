"""How votes are drawn: one entry of ``SIMULATORS`` for each model, its parameters and its votes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric.likelihoods import sigmoid

__all__ = ["MODELS", "SIMULATORS", "Simulator", "uniform"]

if TYPE_CHECKING:  # numpy.random costs 10 ms, which is not spent before a simulation
    Floats = NDArray[np.float64]
    Draw = Callable[[np.random.Generator, int], Floats]
    Vote = Callable[[np.random.Generator, Mapping[str, Floats]], NDArray[np.bool_]]


@dataclass(frozen=True)
class Simulator:
    """How a model draws its parameters and its votes.

    Attributes
    ----------
    vote
        Whether first wins, for many votes, from the parameters of each vote's worker and the
        differences, first minus second, of the items' parameters.
    workers, items
        How each parameter is drawn.
    bounds
        Between which the reliability may lie; None if it is no parameter of the model.
    """

    vote: Vote
    workers: Mapping[str, Draw]
    items: Mapping[str, Draw] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None


def uniform(low: float, high: float) -> Draw:
    """Draw uniformly between the two."""
    return lambda rng, size: rng.uniform(low, high, size)


def _normal(mean: float, deviation: float) -> Draw:
    return lambda rng, size: rng.normal(mean, deviation, size)


def _ones(rng: np.random.Generator, size: int) -> Floats:
    return np.ones(size)


def _coins(rng: np.random.Generator, size: int) -> Floats:
    return rng.integers(2, size=size).astype(np.float64)


def _logistic_vote(rng: np.random.Generator, v: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """P = sigma(beta d)."""
    return rng.random(len(v["score"])) < sigmoid(v["reliability"] * v["score"])


def _probit_vote(rng: np.random.Generator, v: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """P = Phi(beta d / sqrt 2): each item is seen with normal noise of deviation 1 / beta."""
    noise = rng.standard_normal(len(v["score"]))
    return v["reliability"] * v["score"] / math.sqrt(2.0) > noise


def _crowd_bt_vote(rng: np.random.Generator, v: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """P = beta sigma(d) + (1 - beta) sigma(-d)."""
    honest = sigmoid(v["score"])
    chance = v["reliability"] * honest + (1.0 - v["reliability"]) * (1.0 - honest)
    return rng.random(len(honest)) < chance


def _factor_bt_vote(rng: np.random.Generator, v: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """P = sigma(gamma) sigma(d) + (1 - sigma(gamma)) sigma(b x), x = 1 as first is on the left."""
    skill = sigmoid(v["reliability"])
    chance = skill * sigmoid(v["score"]) + (1.0 - skill) * sigmoid(v["side_bias"])
    return rng.random(len(skill)) < chance


def _barp_vote(rng: np.random.Generator, v: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """P = sigma(d + theta (class of first - class of second))."""
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
    "barp": Simulator(
        _barp_vote, {"reliability": _ones, "class_bias": _normal(0.0, 0.5)}, {"class": _coins}
    ),
}

#: The names of the models that votes can be drawn from.
MODELS = tuple(SIMULATORS)
