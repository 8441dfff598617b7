"""What every model is and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.comparisons import Comparisons
    from crowdsift.engines import Engine, Vector
    from crowdsift.solvers.convergence import Progress, StoppingRule

__all__ = ["Estimate", "Model", "WorkerEstimate", "centred_sd"]


# The types that a hyper-parameter can have, in words and for isinstance.
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "bool": ("true or false", (bool,)),
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
}


@dataclass(frozen=True)
class WorkerEstimate:
    """What a method says of workers; None where it says nothing.

    `random_level` is the reliability of a worker who clicks at random, and `extra` holds further
    parameters by name.
    """

    reliability: Vector | None = None
    reliability_sd: Vector | None = None
    random_level: float = 0.0
    side_bias: Vector | None = None
    side_sd: Vector | None = None
    extra: dict[str, Vector] = field(default_factory=dict)


@dataclass(frozen=True)
class Estimate:
    """What a model estimates, by code: labels and tables are made of it later.

    `theta` holds the workers' parameters as the likelihood takes them, one row a worker.
    """

    scores: Vector
    log_likelihood: float
    rule: StoppingRule
    trace: list[float]
    score_sd: Vector | None = None
    theta: Vector = field(default_factory=lambda: np.empty((0, 0)))
    workers: WorkerEstimate = field(default_factory=WorkerEstimate)
    evidence: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Model(ABC):
    """A frozen dataclass of hyper-parameters that knows its assumptions and its estimate."""

    name: ClassVar[str]
    uses_workers: ClassVar[bool] = True
    tuned: ClassVar[str] = "penalty"  # the hyper-parameter that left-out votes choose
    of_any_sign: ClassVar[tuple[str, ...]] = ()  # numbers that need not be positive

    def __post_init__(self) -> None:
        for entry in fields(self):
            self._check(entry.name, str(entry.type), getattr(self, entry.name))

    def _check(self, name: str, kind: str, value: Any) -> None:
        """Refuse a hyper-parameter of the wrong type or outside what makes sense."""
        wanted, types = _TYPES[kind]
        fits = isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
        if not fits:
            raise RequestError(f"{self.name}: {name} must be {wanted}, not {value!r}")
        if kind == "bool":
            return
        bound, right = "above 0", value > 0
        if name == "tolerance":
            bound, right = "at least 0", value >= 0
        elif name in self.of_any_sign:
            bound, right = "finite", True
        if not right or not isfinite(value):
            raise RequestError(f"{self.name}: {name} must be {bound}, not {value}")

    def parameters(self) -> dict[str, Any]:
        """The hyper-parameters by name."""
        return asdict(self)

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """The comparisons in the form that the model needs, or an error that says what lacks."""
        return comparisons

    def relax(self, comparisons: Comparisons) -> tuple[Model, str]:
        """The model in the form that these votes allow, and what it then leaves out."""
        return self, ""

    @abstractmethod
    def estimate(self, engine: Engine, progress: Progress | None = None) -> Estimate:
        """Fit the model to the comparisons of the engine."""

    @abstractmethod
    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        """Log-likelihood of the engine's votes at an estimate made from other votes."""

    @abstractmethod
    def probability(
        self, difference: NDArray[np.float64], reliability: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """P(first over second) for a difference of scores and a worker's reliability."""


def centred_sd(engine: Engine, shift: float) -> Vector | None:
    """Standard deviations of scores under the precision L + shift·I, about their mean.

    (L + shift·I) 1 = shift·1 on every component of K items, so its level has variance
    1/(shift·K) and is independent of the differences: the variance about the mean of the
    component is what remains. None where there are too many items.
    """
    variance = engine.laplacian.inverse_diagonal(shift)
    if variance is None or (variance <= 0).any():  # too large, or not a minimum of this block
        return None
    return np.sqrt(np.maximum(variance - 1.0 / (shift * engine.component_sizes), 0.0))
