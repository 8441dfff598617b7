"""Arguments of wrong types and values: an answer, or an error of ours that says what is wrong."""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import crowdsift
from crowdsift import CrowdsiftError
from crowdsift.models import MODELS
from torture.words import result

VOTES = {"winner": ["a", "b", "a", "c"], "loser": ["b", "c", "c", "a"], "worker": list("xxyy")}
JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    3,
    2**70,
    1.5,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    "x",
    "1",
    b"x",
    [],
    [1],
    ["a"],
    (),
    {},
    {"a": 1},
    {1, 2},
    object(),
    int,
    len,
    np.array([]),
    np.array(1.0),
    np.array([[1]]),
    np.float32(2),
    np.datetime64("NaT"),
    complex(1, 1),
    range(3),
    Path("x"),
)


def case(seed: int, folder: Path) -> None:
    """One argument of one public function is junk."""
    rng = random.Random(seed)
    call, good = rng.choice(CALLS)
    given = dict(good)
    name = rng.choice(sorted(given))
    given[name] = rng.choice(JUNK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(**given)
        except CrowdsiftError as error:
            result(error)


def _model(method: str, **values: Any) -> Any:
    return crowdsift.fit(VOTES, crowdsift.model(method, **values), threads=1)


def _predict(**values: Any) -> Any:
    return crowdsift.fit(VOTES, "bt", threads=1).predict(**values)


CALLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (
        crowdsift.read,
        {"source": VOTES, "columns": None, "workers": True, "sides": None, "covariates": (), "by": "", "threads": 1},
    ),
    (
        crowdsift.fit,
        {
            "votes": VOTES,
            "method": "bt",
            "classes": None,
            "gold": None,
            "start": None,
            "tune": False,
            "scale": "standard",
            "anchor": None,
            "level": 0.9,
            "dependent_by": None,
            "engine": "cpu",
            "engine_options": None,
            "threads": 1,
            "seed": 0,
        },
    ),
    (
        crowdsift.simulate,
        {
            "items": 4,
            "workers": 3,
            "comparisons": 20,
            "reliability": (0, 1),
            "model": "bora-em",
            "loads": None,
            "seed": 1,
        },
    ),
    (
        crowdsift.Comparisons.from_arrays,
        {
            "first": VOTES["winner"],
            "second": VOTES["loser"],
            "worker": VOTES["worker"],
            "outcome": [1, 0, 1, 0.5],
            "weight": [1, 2, 1, 1],
        },
    ),
    (crowdsift.load, {"directory": "nowhere"}),
    (crowdsift.model, {"name": "bt"}),
    (crowdsift.evaluate, {"votes": VOTES, "truth": {"a": 1, "b": 2, "c": 3}, "methods": "bt", "threads": 1, "seed": 0}),
    (_predict, {"first": ["a"], "second": ["b"]}),
    *(
        (
            _model,
            {
                "method": method,
                **{f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING},
            },
        )
        for method, kind in MODELS.items()
    ),
]
