"""Priors of workers' own: the engines agree, and rows of the common prior are the common one."""

from __future__ import annotations

import numpy as np
from grid_cases import CLOSE, SIDE, passes
from hypothesis import given
from hypothesis import strategies as st

from crowdsift.engines.grid import WorkerPriors


@given(passes(), st.integers(0, 2**32 - 1))
def test_priors_of_workers_own(case, seed):
    """Both engines agree, own levels included; and rows of the common prior are the common one."""
    makers, levels, prior, means, clip = case
    found = []
    for make in makers:
        engine, sites = make()
        rng = np.random.default_rng(seed)
        crowd = engine.n_workers - engine.known_workers
        own = WorkerPriors(
            rng.dirichlet(np.full(len(prior), 0.5), crowd) + 1e-6,
            rng.normal(size=crowd),
            rng.uniform(0.1, 1.0, crowd),
        )
        sites.reset(1.5)
        sites.set_worker_priors(own)
        first = sites.update(levels, prior, means[0], damping=1.0, clip=True, side=SIDE)
        half = len(levels)
        given = sites.vote_sites()
        low, high = (np.where(np.arange(engine.n_workers) < min(1, crowd), x, np.nan)
                     for x in (0.5, 1.5))  # fmt: skip
        sites.set_vote_sites(given._replace(low=low, high=high), half)
        second = sites.update(levels, prior, means[1], damping=0.5, clip=clip, side=SIDE)
        masses = sites.posteriors(prior, 0, engine.n_workers).masses
        sides = sites.sides() if second.sides.weight else ()
        sites.set_worker_priors(None)
        third = sites.update(levels, prior, means[0], damping=0.0, clip=clip, side=SIDE)
        same = WorkerPriors(
            np.tile(prior, (crowd, 1)), np.full(crowd, SIDE.mean), np.full(crowd, SIDE.variance)
        )
        sites.set_worker_priors(same)
        again = sites.update(levels, prior, means[0], damping=0.0, clip=clip, side=SIDE)
        for one, other in zip(third, again, strict=True):
            np.testing.assert_allclose(one, other, **CLOSE)
        found.append([*first, *second, masses, *sides, third.log_messages])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)
