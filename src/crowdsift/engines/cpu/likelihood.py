"""Likelihoods with parameters of workers on the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdsift.engines.base import Curvature
from crowdsift.engines.cpu.operators import CpuLaplacian, CpuOperator, vector

if TYPE_CHECKING:
    from crowdsift import _core
    from crowdsift.engines.cpu.operators import CpuVotes
    from crowdsift.numeric import Vector

__all__ = ["CpuLikelihood"]


class CpuLikelihood:
    """Likelihoods with parameters of workers."""

    def __init__(self, votes: CpuVotes) -> None:
        self._votes = votes

    def derivatives(self, likelihood: str, scores: Vector, theta: Vector) -> Curvature:
        """Value and derivatives; see the protocol."""
        self._votes.passes += 1
        value, items, workers, blocks, schur = self._votes.core.derivatives(
            likelihood, vector(scores), vector(theta)
        )
        return Curvature(value, items, workers, blocks, CpuSchur(self._votes, schur))

    def fit_workers(
        self,
        likelihood: str,
        scores: Vector,
        theta: Vector,
        *,
        centre: Vector,
        penalty: float,
        bounds: tuple[float, float],
        tolerance: float = 1e-9,
    ) -> Vector:
        """Every worker's parameters at their maximum; see the protocol."""
        self._votes.passes += 1
        return self._votes.core.fit_workers(
            likelihood, vector(scores), vector(theta), vector(centre), penalty, *bounds, tolerance
        )


class CpuSchur:
    """Second derivatives of every vote, kept in the core."""

    def __init__(self, votes: CpuVotes, inner: _core.Schur) -> None:
        self._votes, self._inner = votes, inner

    def reduced(self, inverse: Vector | None) -> CpuOperator | CpuLaplacian:
        """A - B·inverse·B', or A; see the protocol."""
        if inverse is None:
            self._votes.passes += 1
            return CpuLaplacian(self._inner.laplacian())
        return CpuOperator(self._votes, self._inner.reduced(vector(inverse)))
