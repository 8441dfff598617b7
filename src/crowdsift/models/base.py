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

__all__ = ["Estimate", "Model", "centred_sd", "parameters", "require_positive"]


@dataclass(frozen=True)
class Estimate:
    """What a model estimates, by code: labels and tables are made of it later.

    Standard deviations are None where a method has none; `reliability` is None where a method
    does not model workers.
    """

    scores: Vector
    log_likelihood: float
    rule: StoppingRule
    trace: list[float]
    score_sd: Vector | None = None
    reliability: Vector | None = None
    reliability_sd: Vector | None = None
    evidence: float | None = None
    warnings: tuple[str, ...] = ()
    extra_workers: dict[str, Vector] = field(default_factory=dict)


class Model(Protocol):
    """A frozen dataclass of hyper-parameters that knows its assumptions and its estimate."""

    name: ClassVar[str]
    uses_workers: ClassVar[bool]

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """The comparisons in the form that the model needs."""

    def estimate(self, engine: Engine, progress: Progress | None = None) -> Estimate:
        """Fit the model to the comparisons of the engine."""

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
    if variance is None:
        return None
    return np.sqrt(np.maximum(variance - 1.0 / (shift * engine.component_sizes), 0.0))
