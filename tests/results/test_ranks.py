"""Intervals of ranks: counted where there are many items, drawn where there are few."""

from __future__ import annotations

import numpy as np
import pytest

from crowdsift.models.covariance import Block
from crowdsift.results import ranking


def independent(sd, component):
    """Every component as a block of independent errors."""
    parts = [np.flatnonzero(component == c) for c in np.unique(component)]
    return [Block(part[None], np.diag(sd[part])[None]) for part in parts]


def test_counted_limits_are_those_of_samples(monkeypatch):
    """Two components of unlike sizes and errors; samples have a noise of their own."""
    rng = np.random.default_rng(5)
    scores, sd = rng.standard_normal(3000), rng.uniform(0.1, 0.8, 3000)
    component = (np.arange(3000) >= 700).astype(np.uint32)
    counted = ranking.rank_limits(scores, sd, (), component)
    monkeypatch.setattr(ranking, "_SAMPLES", 3000)
    drawn = ranking.rank_limits(scores, sd, independent(sd, component), component)
    sizes = np.bincount(component)[component]
    for one, two in zip(counted, drawn, strict=True):
        share = (one - two) / sizes
        assert np.sqrt(np.mean(share**2)) < 0.006
        assert abs(share.mean()) < 0.002
        assert (one >= 1).all()
        assert (one <= sizes).all()


@pytest.mark.parametrize("k", [9, 16, 17, 512, 513, 1000])
def test_drawn_ranks_are_those_of_the_draws(k):
    rng = np.random.default_rng(k)
    drawn = rng.permuted(np.tile(np.arange(k, dtype=np.float32), (2, 3, 1)), axis=2) - 7.0
    exact = 1 + (drawn[:, :, :, None] < drawn[:, :, None, :]).sum(axis=3)
    np.testing.assert_array_equal(ranking._ranks_of(1e-3 * drawn), exact)
    one = ranking._ranks_of(np.full((1, 1, k), 2.0, np.float32))  # equal: each its own
    np.testing.assert_array_equal(np.sort(one), np.arange(1, k + 1)[None, None])


def test_counted_limits_without_errors_are_the_ranks():
    scores = np.random.default_rng(6).permutation(np.linspace(-1, 1, 2000))
    component = np.zeros(2000, np.uint32)
    low, high = ranking.rank_limits(scores, np.full(2000, 1e-9), (), component)
    exact = ranking.ranks(scores, component)
    assert np.abs(low - exact).max() <= 8  # the table's cells hold about eight items
    assert np.abs(high - exact).max() <= 8


def test_limits_from_a_joint_posterior():
    """Items of two components whose errors go together keep their places, whatever their sd."""
    rng = np.random.default_rng(3)
    k = 12
    component = np.repeat([0, 1], k // 2).astype(np.uint32)
    root = 0.1 * rng.standard_normal((k, k))
    root[0] += 3.0 * (component == 0)  # a level that all of a component share
    scores = rng.standard_normal(k)
    sd = np.sqrt(np.diag(root.T @ root))
    drawn = scores + rng.standard_normal((20_000, k)) @ root
    same = component[:, None] == component[None, :]
    above = drawn[:, None, :] > drawn[:, :, None]
    rank = 1 + np.sum(above & same[None], axis=2)
    expected = np.quantile(rank, [0.05, 0.95], axis=0, method="inverted_cdf")
    parts = [np.flatnonzero(component == c) for c in (0, 1)]
    factors = [np.linalg.qr(root[:, part], mode="r") for part in parts]
    joint = [Block(part[None], factor[None]) for part, factor in zip(parts, factors, strict=True)]
    found = np.array(ranking.rank_limits(scores, sd, joint, component))
    assert np.abs(found - expected).max() <= 1
    assert np.mean(found == expected) > 0.7
    alone = np.array(ranking.rank_limits(scores, sd, independent(sd, component), component))
    width, wider = (limits[1] - limits[0] for limits in (found, alone))
    assert wider[component == 0].mean() > width[component == 0].mean() + 2.0


def test_a_rank_lies_inside_its_own_interval():
    """Fault 30: the first of six nearly equal items, five of them uncertain, is seldom first."""
    scores, sd = np.array([0.01, 0.0, 0.0, 0.0, 0.0, 0.0]), np.array([0.01] + [5.0] * 5)
    block = Block(np.arange(6)[None], np.diag(sd)[None])
    component = np.zeros(6, np.uint32)
    for blocks in ([block], []):  # by draws, and by counting
        low, high = ranking.rank_limits(scores, sd, blocks, component)
        rank = ranking.ranks(scores, component)
        assert (low <= rank).all()
        assert (rank <= high).all()
