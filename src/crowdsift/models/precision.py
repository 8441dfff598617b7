"""The joint precision of the scores, from which their covariance is made when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from crowdsift.models.covariance import ComponentCovariance, exact_items

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crowdsift.engines.base import Facts
    from crowdsift.engines.kinds import Operator
    from crowdsift.numeric import Vector

__all__ = ["ScorePrecision"]


@dataclass(frozen=True)
class ScorePrecision:
    """L + shift·I of scores that are then divided by `size`, L by its pairs.

    Left-out votes and accuracies need no covariance, which takes longer to make than the scores of
    a few thousand votes.
    """

    low: NDArray[np.uint32]
    high: NDArray[np.uint32]
    weight: Vector
    component: NDArray[np.uint32]
    shift: float
    size: float = 1.0

    @staticmethod
    def of(
        laplacian: Operator, facts: Facts, shift: float, size: float = 1.0
    ) -> ScorePrecision | None:
        """That of a Laplacian; None where all components are large."""
        if not exact_items(facts.component).any():
            return None
        return ScorePrecision(*laplacian.pairs(), facts.component, shift, size)

    @cached_property
    def covariance(self) -> ComponentCovariance:
        """Covariances of the scores about the means of their components, the small ones."""
        return ComponentCovariance(
            self.component, self.low, self.high, self.weight, self.shift, self.size
        )
