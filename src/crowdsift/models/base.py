"""What every model is and what it returns."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.comparisons import Comparisons
    from crowdsift.engines import Engine, Vector
    from crowdsift.solvers.convergence import Progress, StoppingRule

__all__ = ["Estimate", "Model", "WorkerEstimate", "centred_sd", "parameters", "require_positive"]


@dataclass(frozen=True)
class WorkerEstimate:
    """What a method says of workers; None where it says nothing.

    `random_level` is the reliability of a worker who clicks at random, and `extra` holds further
    parameters by name. Methods with a posterior of reliability give its 90 % limits and the
    probabilities of either sign; without limits `reliability_sd` makes them.
    """

    reliability: Vector | None = None
    reliability_sd: Vector | None = None
    reliability_lower: Vector | None = None
    reliability_upper: Vector | None = None
    positive: Vector | None = None
    negative: Vector | None = None
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
    sign_margin: float | None = None
    warnings: tuple[str, ...] = ()


class Model(Protocol):
    """A frozen dataclass of hyper-parameters that knows its assumptions and its estimate."""

    name: ClassVar[str]
    uses_workers: ClassVar[bool]
    tuned: ClassVar[str]  # the hyper-parameter that left-out votes choose

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """The comparisons in the form that the model needs."""

    def estimate(self, engine: Engine, progress: Progress | None = None) -> Estimate:
        """Fit the model to the comparisons of the engine."""

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        """Log-likelihood of the engine's votes at an estimate made from other votes."""

    def probability(
        self, difference: NDArray[np.float64], reliability: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """P(first over second) for a difference of scores and a worker's reliability."""


def parameters(model: Model) -> dict[str, Any]:
    """The hyper-parameters of a model by name."""
    return asdict(model)  # type: ignore[call-overload, no-any-return]


def require_positive(model: Model, *names: str, zero: bool = False) -> None:
    """Refuse parameters that are not positive, finite numbers (or zero where that is allowed)."""
    for name in names:
        value = getattr(model, name)
        if not np.isfinite(value) or value < 0 or (value == 0 and not zero):
            bound = "at least 0" if zero else "above 0"
            raise RequestError(f"{model.name}: {name} must be {bound}, not {value}")


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
