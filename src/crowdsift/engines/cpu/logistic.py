"""Tallies and the logistic model on the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import ItemSystem, Profile, ScoreCurvature, SlopePrior, Tally
from crowdsift.engines.cpu.operators import CpuLaplacian, CpuOperator, CpuProducts, vector

if TYPE_CHECKING:
    from crowdsift import _core
    from crowdsift.engines.cpu.operators import CpuVotes
    from crowdsift.numeric import Vector

__all__ = ["CpuCounts", "CpuEM", "CpuSlopes"]


class CpuCounts:
    """Tallies."""

    def __init__(self, votes: CpuVotes) -> None:
        self._votes = votes

    def tally(self, rank: Vector) -> Tally:
        """Count votes; see the protocol."""
        self._votes.passes += 1
        found = self._votes.core.tally(vector(rank))
        appearances, wins = found[5:]
        return Tally(*found, appearances - wins)

    def margins(self, prior: float) -> CpuProducts:
        """The smoothed margins of pairs; see the protocol."""
        core, k = self._votes.core, self._votes.facts.n_items
        return CpuProducts(self._votes, lambda x: core.margin_flow(x, prior), lambda: np.zeros(k))


class CpuSlopes:
    """The logistic model with a slope for every worker."""

    def __init__(self, votes: CpuVotes) -> None:
        self._votes = votes

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        """Log-likelihood; see the protocol."""
        self._votes.passes += 1
        return self._votes.core.log_likelihood(vector(scores), vector(slopes))

    def profile(
        self, scores: Vector, slopes: Vector, prior: SlopePrior | None = None, *,
        resolution: float = 0.0,
    ) -> Profile:  # fmt: skip
        """The log-likelihood as a function of the scores; see the protocol."""
        self._votes.passes += 1
        core, scores, slopes = self._votes.core, vector(scores), vector(slopes)
        if prior is None:
            if (slopes != slopes[0]).any():
                raise ValueError("without a prior all slopes must be equal")
            value, gradient, hessian = core.common_slope(scores, float(slopes[0]), resolution)
            curvature = np.full(len(slopes), np.inf)
        else:
            value, gradient, slopes, curvature, hessian = core.own_slopes(
                scores, slopes, *prior, resolution
            )
        return Profile(value, gradient, slopes, curvature, CpuOperator(self._votes, hessian))

    def curvature(self, scores: Vector, slopes: Vector) -> ScoreCurvature:
        """Derivatives in the scores; see the protocol."""
        self._votes.passes += 1
        value, gradient, information, laplacian = self._votes.core.curvature(
            vector(scores), vector(slopes)
        )
        return ScoreCurvature(value, gradient, information, CpuLaplacian(laplacian))


class CpuEM:
    """Pólya-Gamma EM."""

    def __init__(self, votes: CpuVotes) -> None:
        self._votes = votes

    def e_step(self, scores: Vector, slopes: Vector, *, resolution: float = 0.0) -> CpuEStep:
        """The E-step; see the protocol."""
        self._votes.passes += 1
        inner, value, precision, laplacian, rhs = self._votes.core.e_step(
            vector(scores), vector(slopes), resolution
        )
        system = ItemSystem(CpuLaplacian(laplacian), rhs)
        return CpuEStep(self._votes, inner, value, precision, system)


class CpuEStep:
    """n·E[ω] of every vote, kept in the core."""

    def __init__(
        self,
        votes: CpuVotes,
        inner: _core.EStep,
        log_likelihood: float,
        precision: float,
        system: ItemSystem,
    ) -> None:
        self._votes, self._inner = votes, inner
        self.log_likelihood, self.precision, self.system = log_likelihood, precision, system

    def regress(self, scores: Vector, ridge: float) -> tuple[Vector, ItemSystem]:
        """Slopes of workers and the item system; see the protocol."""
        self._votes.passes += 1
        slopes, laplacian, rhs = self._inner.regress(vector(scores), ridge)
        return slopes, ItemSystem(CpuLaplacian(laplacian), rhs)
