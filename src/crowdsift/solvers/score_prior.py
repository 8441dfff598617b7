"""Gaussian priors of scores in a penalised likelihood: ½rᵀPr, P = λI or by features of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["Ridge", "ScorePrior"]


class ScorePrior(Protocol):
    """Scores ~ N(0, P⁻¹), where P 1 = level·1."""

    @property
    def level(self) -> float:
        """How much the level of all scores is held."""

    def times(self, v: Vector) -> Vector:
        """The product of P with v."""

    def diagonal(self) -> Vector | float:
        """The diagonal of P."""


class Ridge:
    """P = λI.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.solvers.score_prior import Ridge
    >>> Ridge(0.5).times(np.array([2.0, 4.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, penalty: float) -> None:
        self.level = penalty

    def times(self, v: Vector) -> Vector:
        """See `ScorePrior`."""
        return self.level * v

    def diagonal(self) -> float:
        """See `ScorePrior`."""
        return self.level
