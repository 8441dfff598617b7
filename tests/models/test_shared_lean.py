"""Judges who share one lean and do not differ, with ties: the fit converges, and soon."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift import Sift


def arena(seed, *, lean=0.3, side_sd=0.0, votes=6_000, judges=800, models=12):
    """Few models, many judges with few votes, one with many; Rao-Kupper ties."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=models)
    judge = np.where(rng.random(votes) < 0.1, 0, rng.integers(judges, size=votes))
    own = lean + side_sd * rng.normal(size=judges)
    a = rng.integers(models, size=votes)
    b = (a + rng.integers(1, models, votes)) % models
    z = rng.normal(1.3, 0.2, judges)[judge] * (score[a] - score[b]) + own[judge]
    draw = rng.random(votes)
    left, right = (1.0 / (1.0 + np.exp(0.5 - x)) for x in (z, -z))
    winner = np.where(draw < left, "left", np.where(draw > 1.0 - right, "right", "tie"))
    table = {"left": a, "right": b, "winner": winner, "worker": judge}
    return crowdsift.read({name: values.tolist() for name, values in table.items()})


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_lean_for_all(seed):
    fit = crowdsift.fit(arena(seed), Sift(starts=("flat",)), threads=1)
    assert fit.converged
    assert fit.summary["iterations"] <= 30
    lower, upper = (fit.summary[f"crowd_side_{end}"] for end in ("lower", "upper"))
    sd = 0.5 * (upper - lower) / 1.6449
    assert abs(fit.summary["crowd_side"] - 0.3) < 3.0 * sd < 0.2
    # workers have that lean, but for what may be side-only, and an interval no shorter than its own
    workers = fit.worker_table.records()
    widths = np.array([row["side_upper"] - row["side_lower"] for row in workers])
    assert (widths > 0.99 * (upper - lower)).all()
    sides = np.array([row["side_bias"] for row in workers])
    assert np.quantile(np.abs(sides - fit.summary["crowd_side"]), 0.9) < 0.05


def test_leans_that_differ_are_found():
    votes = arena(4, side_sd=0.8)
    fit = crowdsift.fit(votes, Sift(starts=("flat",)), threads=1)
    assert fit.converged
    assert fit.summary["iterations"] <= 40
    sides = np.array([row["side_bias"] for row in fit.worker_table.records()])
    assert sides.std() > 0.2
