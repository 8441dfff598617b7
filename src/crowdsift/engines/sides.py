"""The passes of the logistic model with a side term, as an engine offers them.

Throughout eta = slopes[worker] * d + sides[worker] with d = scores[first] - scores[second]: the
first item is the one that was shown on the left, so a positive side is a habit of voting left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["SideCurvature", "SidePasses"]


class SideCurvature(NamedTuple):
    """Log-likelihood, gradients, and the negative Hessian in every worker's two parameters.

    `workers` is M x 2 (slope, side), `blocks` M x 3 (slope, mixed, side).
    """

    value: float
    items: Vector
    workers: Vector
    blocks: Vector


class SidePasses(Protocol):
    """Passes that share the engine's Laplacian and count in its `passes`."""

    def expect(self, scores: Vector, slopes: Vector, sides: Vector) -> tuple[float, float]:
        """Pólya-Gamma E-step: keep n·E[ω]; return the log-likelihood and the sum of these."""

    def item_system(self, slopes: Vector, sides: Vector) -> Vector:
        """Refresh the Laplacian with slope²·n·E[ω].

        Returns b, b_j = Σ ± slope·(n·(y - ½) - n·E[ω]·side).
        """

    def regress_workers(
        self, scores: Vector, ridge: float, side_ridge: float
    ) -> tuple[Vector, Vector, Vector]:
        """Ridge regression of every worker on (d, 1), then `item_system` of the result.

        The 2 x 2 system is [Σωd² + ridge, Σωd; Σωd, Σω + side_ridge], the right-hand side
        (Σ n(y - ½)d, Σ n(y - ½)), ω for n·E[ω]. Returns slopes, sides and b.
        """

    def derivatives(self, scores: Vector, slopes: Vector, sides: Vector) -> SideCurvature:
        """Derivatives in scores, slopes and sides.

        Refreshes the Laplacian with slope²·n·p(1 - p), the negative Hessian in the scores.
        """
