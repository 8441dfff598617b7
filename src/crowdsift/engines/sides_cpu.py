"""The passes with a side term on the compiled core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdsift.engines.sides import SideCurvature

if TYPE_CHECKING:
    from crowdsift import _core
    from crowdsift.engines.cpu import CpuEngine
    from crowdsift.numeric import Vector

__all__ = ["CpuSidePasses"]


class CpuSidePasses:
    """Passes of `crowdsift.engines.sides.SidePasses` on the compiled core."""

    def __init__(self, engine: CpuEngine, core: _core.SidePasses) -> None:
        self._engine, self._core = engine, core

    def expect(self, scores: Vector, slopes: Vector, sides: Vector) -> tuple[float, float]:
        """Pólya-Gamma E-step; see the protocol."""
        self._engine.passes += 1
        return self._core.expect(scores, slopes, sides)

    def item_system(self, slopes: Vector, sides: Vector) -> Vector:
        """Refresh the Laplacian and return the right-hand side; see the protocol."""
        self._engine.passes += 1
        return self._core.item_system(slopes, sides)

    def regress_workers(
        self, scores: Vector, ridge: float, side_ridge: float
    ) -> tuple[Vector, Vector, Vector]:
        """Slopes and sides of workers and the item system; see the protocol."""
        self._engine.passes += 1
        return self._core.regress_workers(scores, ridge, side_ridge)

    def derivatives(self, scores: Vector, slopes: Vector, sides: Vector) -> SideCurvature:
        """Derivatives in scores, slopes and sides; see the protocol."""
        self._engine.passes += 1
        return SideCurvature(*self._core.derivatives(scores, slopes, sides))
