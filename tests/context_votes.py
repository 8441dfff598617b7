"""Votes by context of workers who differ between contexts."""

from __future__ import annotations

import numpy as np

import crowdsift
from crowdsift.numeric.likelihoods import sigmoid


def draw_votes(spread, side_sd, seed, *, each=60, workers=20, contexts=6, items=8):
    """Votes by context of workers whose reliability and side bias differ so much by context."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(contexts, items))
    beta, habit = rng.uniform(1.0, 3.0, workers), rng.normal(0.0, 0.3, workers)
    own_beta = beta[:, None] * (1.0 + spread * rng.normal(size=(workers, contexts)))
    own_habit = habit[:, None] + side_sd * rng.normal(size=(workers, contexts))
    s, c = (x.ravel() for x in np.meshgrid(range(workers), range(contexts)))
    s, c = np.repeat(s, each), np.repeat(c, each)
    a = rng.integers(items, size=len(s))
    b = (a + rng.integers(1, items, len(s))) % items
    chance = sigmoid(own_beta[s, c] * (score[c, a] - score[c, b]) + own_habit[s, c])
    left = rng.random(len(s)) < chance
    rows = {
        "left": [f"i{x}" for x in a],
        "right": [f"i{x}" for x in b],
        "winner": np.where(left, "left", "right").tolist(),
        "worker": [f"w{x:02d}" for x in s],
        "scene": [f"c{x}" for x in c],
    }
    return crowdsift.read(rows, by="scene")
