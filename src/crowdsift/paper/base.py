"""What every experiment is: settings, the methods of a setting, and how one setting is run.

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

from crowdsift.errors import RequestError
from crowdsift.models import Model
from crowdsift.paper.names import DEFAULT, EIGHT, FIGURES, METRICS, Record, Setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crowdsift.fitting import Fit
    from crowdsift.paper.figures import Figure
    from crowdsift.paper.summary import Standing
    from crowdsift.votes.comparisons import Comparisons

__all__ = [
    "DEFAULT",
    "EIGHT",
    "FIGURES",
    "METRICS",
    "Experiment",
    "Options",
    "Page",
    "Record",
    "Setting",
    "fitted",
    "judged",
]


@dataclass(frozen=True)
class Options:
    """What a run was asked for; a folder of results holds those of one set of options."""

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
    """What is shown of a run: a text in Markdown, its figures, and tables to write as CSV."""

    text: str
    figures: Sequence[Figure] = ()
    tables: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)


class Experiment(ABC):
    """One experiment of the paper, for given options."""

    name: ClassVar[str]
    title: ClassVar[str]
    seeded: ClassVar[bool] = True  # whether it has random numbers, hence seeds
    tunable: ClassVar[bool] = False  # whether penalties can be chosen by left-out votes
    by_method: ClassVar[bool] = False  # whether methods are shared out too, for few settings

    def __init__(self, options: Options) -> None:
        if options.tune and not self.tunable:
            raise RequestError(f"{self.name} has no rows with penalties chosen by left-out votes")
        self.options = options

    @property
    def seeds(self) -> range:
        """The seeds of every setting."""
        return range(self.options.seeds if self.seeded else 1)

    @abstractmethod
    def settings(self) -> list[Setting]:
        """All pieces of work, in the order in which they are done."""

    def methods(self, setting: Setting) -> tuple[str, ...]:
        """Return the methods that are run on a setting."""
        return (*EIGHT, DEFAULT)

    def cost(self, setting: Setting) -> float:
        """How long a setting takes, in any unit; for the estimate of the time left."""
        return 1.0

    def inputs(self) -> list[Path]:
        """Return the files whose content the results depend on."""
        return []

    @abstractmethod
    def run(self, setting: Setting, methods: Sequence[str]) -> list[Record]:
        """Return the records of some methods on one setting."""

    @abstractmethod
    def page(self, records: list[Record]) -> Page:
        """Return what is shown of finished records."""

    def standings(self, records: list[Record]) -> dict[str, Standing]:
        """Where our default stands against the best of the eight, by parts of the experiment."""
        return {}


def fitted(votes: Comparisons, chosen: Model, tune: bool = False) -> tuple[Fit, str]:
    """Return a model fitted with one thread, in the form that the votes allow, and what to note."""
    from crowdsift.fitting import fit

    relaxed, note = chosen.relax(votes)
    with warnings.catch_warnings():  # what it warns of stands in the note
        warnings.simplefilter("ignore", UserWarning)
        result = fit(votes, relaxed, threads=1, tune=tune, overall=False)
    return result, "; ".join([*([note] if note else []), *result.warnings])


def judged(
    setting: Setting, method: str, scores: NDArray[np.float64], truth: NDArray[np.float64], seconds: float, note: str
) -> Record:
    """Return the record of a method whose scores are compared with the truth."""
    from crowdsift.numeric.metrics import measure, measure_up_to_sign

    plain, either = measure(scores, truth), measure_up_to_sign(scores, truth)
    values = [getattr(found, name) for found in (plain, either) for name in METRICS]
    figures = {name: None if isnan(value) else value for name, value in zip(FIGURES, values, strict=True)}
    return {"setting": dict(setting), "method": method, "figures": figures, "seconds": seconds, "note": note}
