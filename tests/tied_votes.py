"""Votes with ties and sides, drawn from the model of Rao and Kupper."""

from __future__ import annotations

import numpy as np

from crowdsift import Comparisons

CROWDS = {"ties": {"side": 0.0}, "sides": {"width": None, "side": 0.6}, "both": {"side": 0.6}}


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def drawn(seed, items=12, workers=20, votes=800, width=(0.3, 1.5), side=0.0, spread=0.0):
    """Votes by Rao and Kupper: a worker has β, δ and γ; None for no ties. Arrays and scores."""
    rng = np.random.default_rng(seed)
    r, beta = rng.normal(size=items), rng.uniform(0.6, 1.8, workers)
    delta = np.zeros(workers) if width is None else rng.uniform(*width, workers)
    gamma = side + spread * rng.normal(size=workers)
    one = rng.integers(0, items, votes)
    two = (one + rng.integers(1, items, votes)) % items
    s = rng.integers(0, workers, votes)
    z, u = beta[s] * (r[one] - r[two]) + gamma[s], rng.random(votes)
    win, loss = sigmoid(z - delta[s]), sigmoid(-z - delta[s])
    outcome = np.where(u < win, 1.0, np.where(u < win + loss, 0.0, 0.5))
    return one, two, s, outcome, r


def votes_of(one, two, worker, outcome, **options):
    return Comparisons.from_arrays(one, two, worker=worker, outcome=outcome, **{"sides_known": True, **options})
