"""The base class of experiments: settings, the methods of a setting, and how one setting is run.

A setting is a flat mapping of names to numbers and texts, one piece of work for one process. It is the same in every
run of the same version and options, so that finished settings can be kept.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from crowdsift.errors import InputError, RequestError
from crowdsift.lab import datasets
from crowdsift.models import DEFAULT as DEFAULT
from crowdsift.models import Model
from crowdsift.numeric import Vector
from crowdsift.votes.comparisons import Comparisons

if TYPE_CHECKING:
    from crowdsift.fitting import Fit
    from crowdsift.paper.figures import Figure
    from crowdsift.paper.summary import Standing

Setting = Mapping[str, Any]
Record = dict[str, Any]  # setting, method, figures, seconds, note

EIGHT = ("bt", "rank-centrality", "crowd-bt", "factor-bt", "barp", "htcv", "hbtl", "bora-em")
# The note of a figure that comes from the tables of an earlier version.
EARLIER = "of an earlier version"
METRICS = ("accuracy", "weighted_accuracy", "kendall_tau")
FIGURES = (*METRICS, *(f"{name}_up_to_sign" for name in METRICS))
TITLES = {"passage": "Passage", "faceage_subset": "FaceAge, subset", "faceage": "FaceAge"}


@dataclass(frozen=True)
class Options:
    """The options of a run; a folder of results has one set of options."""

    quick: bool = False
    seeds: int = 10
    tune: bool = False
    data: Path | None = None
    fetch: bool = False

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise RequestError(f"seeds must be at least 1, not {self.seeds}")


@dataclass(frozen=True)
class Page:
    """The output of a run: a text in Markdown, its figures, and tables to write as CSV."""

    text: str
    figures: Sequence[Figure] = ()
    tables: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)


class Experiment(ABC):
    """One experiment of the paper, for given options."""

    name: ClassVar[str]
    title: ClassVar[str]
    seeded: ClassVar[bool] = True  # whether it has random numbers, hence seeds
    tunable: ClassVar[bool] = False  # whether penalties can be chosen by left-out votes
    by_method: ClassVar[bool] = False  # whether methods run in separate processes, for experiments with few settings

    def __init__(self, options: Options) -> None:
        if options.tune and not self.tunable:
            raise RequestError(f"{self.name} has no rows with penalties chosen by left-out votes")
        self.options = options

    @property
    def seeds(self) -> range:
        return range(self.options.seeds if self.seeded else 1)

    @abstractmethod
    def settings(self) -> list[Setting]:
        """Return all pieces of work, in the order in which they are done."""

    def methods(self, setting: Setting) -> tuple[str, ...]:
        """Return the methods that are run on a setting."""
        return (*EIGHT, DEFAULT)

    def cost(self, setting: Setting) -> float:
        """Return how long a setting takes, in any unit; for the estimate of the time left."""
        return 1.0

    def inputs(self) -> list[Path]:
        """Return the files on whose content the results depend."""
        return []

    @abstractmethod
    def run(self, setting: Setting, methods: Sequence[str]) -> list[Record]:
        """Return the records of some methods on one setting."""

    @abstractmethod
    def page(self, records: list[Record]) -> Page:
        """Return the output for finished records."""

    def standings(self, records: list[Record]) -> dict[str, Standing]:
        """Return the rank of our default among the best of the eight, by parts of the experiment."""
        return {}


@dataclass(frozen=True)
class _Read:
    votes: Comparisons
    truth: dict[Any, float]
    classes: str | None


class RealExperiment(Experiment):
    """An experiment on votes about items with known truth; each process reads a data set once."""

    more: ClassVar[tuple[str, ...]] = ()  # used only if present, or if downloads are allowed

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._found = {name: datasets.find(name, options.data) for name in ("passage", "faceage_subset")}
        for name in self.more:
            try:
                self._found[name] = datasets.find(name, options.data, fetch=options.fetch)
            except InputError:
                if options.fetch:
                    raise
        self._read: dict[str, _Read] = {}

    @property
    def sets(self) -> list[str]:
        """Return the data sets that are present."""
        return list(self._found)

    def inputs(self) -> list[Path]:
        return list(dict.fromkeys(path for known in self._found.values() for path in known.files))

    def data(self, name: str) -> _Read:
        """Return the votes of a data set, its truth and the classes of its items."""
        if name not in self._read:
            found = self._found[name]
            self._read[name] = _Read(found.read(), found.truth(), found.classes)
        return self._read[name]

    def record(self, setting: Setting, votes: Comparisons, chosen: str | Model, tune: bool = False) -> Record:
        """Return the record of one method on votes about the items of the setting's data set."""
        from crowdsift.lab.evaluation import evaluate

        known = self.data(setting["data"])
        (row,) = evaluate(votes, known.truth, [chosen], classes=known.classes, threads=1, tune=tune)
        method, seconds, note = (row.pop(name) for name in ("method", "seconds", "note"))
        return {"setting": dict(setting), "method": method, "figures": row, "seconds": seconds, "note": note}


def fitted(votes: Comparisons, chosen: Model, tune: bool = False) -> tuple[Fit, str]:
    """Return a model fitted with one thread, in a form that the votes allow, and its notes."""
    from crowdsift.fitting import fit

    relaxed, note = chosen.relax(votes)
    with warnings.catch_warnings():  # the note contains the warnings
        warnings.simplefilter("ignore", UserWarning)
        result = fit(votes, relaxed, threads=1, tune=tune, overall=False)
    return result, "; ".join([*([note] if note else []), *result.warnings])


def judged(setting: Setting, method: str, scores: Vector, truth: Vector, seconds: float, note: str) -> Record:
    """Return the record of a method whose scores are compared with the truth."""
    from crowdsift.numeric.metrics import measure, measure_up_to_sign

    plain, either = measure(scores, truth), measure_up_to_sign(scores, truth)
    values = [getattr(found, name) for found in (plain, either) for name in METRICS]
    figures = {name: None if isnan(value) else value for name, value in zip(FIGURES, values, strict=True)}
    return {"setting": dict(setting), "method": method, "figures": figures, "seconds": seconds, "note": note}
