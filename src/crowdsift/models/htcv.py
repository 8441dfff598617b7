"""HTCV: heterogeneous workers in Thurstone's case V."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdsift.models.likelihood import ReliabilityModel
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import normal_cdf


@dataclass(frozen=True)
class HTCV(ReliabilityModel):
    """P(w beats l | s) = Φ(β_s (r_w - r_l)/√2), β_s ≥ 0 (Thurstone, 1927; Jin et al., 2020).

    `penalty` is λ, the precision of the prior, and `start_reliability` β of every worker at the start and in the prior.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(20, 10, 2000, model="htcv", seed=1).comparisons()
    >>> crowdsift.fit(votes, "htcv").converged
    True
    """

    name: ClassVar[str] = "htcv"
    free_sign: ClassVar[bool] = False
    likelihood: ClassVar[str] = "scaled-probit"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    # Workers at β = 0, from which no single vote moves them, cause many minima.
    stages: ClassVar[tuple[float, ...]] = (10.0**3.0, 10.0**2.5, 10.0**2.0, 10.0**1.5, 10.0**1.0, 10.0**0.5)

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        return normal_cdf(reliability * difference / np.sqrt(2.0))
