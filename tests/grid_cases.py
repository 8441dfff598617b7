"""Shapes of the grid of worker types, for tests of its passes."""

from __future__ import annotations

import numpy as np

from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, WorkerTypes

SIDES, WIDTHS = np.array([-2.0, 1.0, 4.0]), np.array([0.02, 0.4, 2.0])
NONE = np.empty(0)
SHAPES = [
    RELIABILITY_ONLY,
    WorkerTypes(np.zeros(1), SIDES, np.zeros(3), sides=True),
    WorkerTypes(WIDTHS, NONE, NONE, sides=False),
    WorkerTypes(WIDTHS, np.tile(SIDES, 2), np.repeat(WIDTHS[::2], 3), sides=True),
]
SIDE = SidePrior(0.2, 0.4)
