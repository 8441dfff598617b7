"""HBTL: heterogeneous workers, bounded reliabilities."""

from dataclasses import dataclass
from typing import ClassVar

from crowdsift.models.likelihood import ReliabilityModel
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import sigmoid


@dataclass(frozen=True)
class HBTL(ReliabilityModel):
    """P(w beats l | s) = σ(β_s (r_w - r_l)), β_s in [-1, 1] (Jin et al., 2020).

    `penalty` is λ, the precision of the prior, and `start_reliability` β of every worker at the start and in the prior.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(20, 10, 2000, model="hbtl", seed=1).comparisons()
    >>> crowdsift.fit(votes, crowdsift.HBTL(penalty=1.0)).converged
    True
    """

    name: ClassVar[str] = "hbtl"
    likelihood: ClassVar[str] = "scaled-logit"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        return sigmoid(reliability * difference)
