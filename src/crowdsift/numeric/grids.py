"""Distributions on grids of points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["deposit"]


def deposit(grid: Vector, points: Vector, masses: Vector) -> Vector:
    """Masses at points as masses on the grid, each shared by its two neighbours linearly.

    The last axis of the masses is that of the points.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.numeric.grids import deposit
    >>> deposit(np.array([0.0, 1.0]), np.array([0.25]), np.array([1.0]))
    array([0.75, 0.25])
    """
    place = np.clip(np.searchsorted(grid, points, side="right") - 1, 0, len(grid) - 2)
    share = np.clip((points - grid[place]) / (grid[place + 1] - grid[place]), 0.0, 1.0)
    shares, rows = np.zeros((len(points), len(grid))), np.arange(len(points))
    shares[rows, place], shares[rows, place + 1] = 1 - share, share
    return np.asarray(masses @ shares)
