"""Grid passes on the compiled engine and its specification, for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from strategies import comparisons, vectors

from crowdsift.engines.cpu import CpuEngine
from crowdsift.engines.grid import PLAIN, Habits, SidePrior
from crowdsift.engines.reference import ReferenceEngine
from crowdsift.solvers.worker_prior import power_grid

# Sites are in single precision in the core.
CLOSE = {"rtol": 2e-4, "atol": 2e-5}
SIDES, WIDTHS = np.array([-2.0, 1.0, 4.0]), np.array([0.02, 0.4, 2.0])
NONE = np.empty(0)
SHAPES = [
    PLAIN,
    Habits(np.zeros(1), SIDES, np.zeros(3), sides=True),
    Habits(WIDTHS, NONE, NONE, sides=False),
    Habits(WIDTHS, np.tile(SIDES, 2), np.repeat(WIDTHS[::2], 3), sides=True),
]
SIDE = SidePrior(0.2, 0.4)


@st.composite
def passes(draw):
    """Sites on both engines, a grid (lanes full and not), a prior over it and two means."""
    votes = draw(comparisons())
    threads = draw(st.integers(1, 3))
    engines = CpuEngine(votes, threads), ReferenceEngine(votes)
    known = draw(st.integers(0, 1)) if votes.n_workers > 1 else 0
    for engine in engines:
        engine.known_workers = known
    habits = draw(st.sampled_from(SHAPES))
    levels = power_grid(draw(st.sampled_from([5, 11, 17, 41, 49, 51])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    prior = rng.dirichlet(np.full(habits.n_types(levels), 0.5)) + 1e-6
    prior /= prior.sum()
    means = [draw(vectors(votes.n_items, 2.0)) for _ in range(2)]
    makers = [lambda engine=engine: (engine, engine.grid_sites(habits)) for engine in engines]
    return makers, levels, prior, means, draw(st.booleans())
