"""CrowdBT: every worker votes truthfully with its own probability."""

from dataclasses import dataclass
from typing import ClassVar

from crowdsift.models.base import WorkerEstimate
from crowdsift.models.likelihood import ReliabilityModel
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import sigmoid


@dataclass(frozen=True)
class CrowdBT(ReliabilityModel):
    """P(w beats l | s) = β_s σ(d) + (1 - β_s) σ(-d), β_s in [0, 1] (Chen et al., 2013).

    A worker who clicks at random has the reliability ½.

    `penalty` is λ, the precision of the prior, and `start_reliability` β of every worker at the start and in the prior.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(20, 10, 2000, model="crowd-bt", seed=1).comparisons()
    >>> crowdsift.fit(votes, "crowd-bt").converged
    True
    """

    start_reliability: float = 0.7

    name: ClassVar[str] = "crowd-bt"
    likelihood: ClassVar[str] = "flipped-logit"
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    truthful: ClassVar[float | None] = 1.0

    def workers(self, theta: Vector, sd: Vector) -> WorkerEstimate:
        return WorkerEstimate(theta[:, 0].copy(), sd[:, 0].copy(), random_level=0.5)

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        return reliability * sigmoid(difference) + (1.0 - reliability) * sigmoid(-difference)
