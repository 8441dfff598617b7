"""Covariances by component: exact in small ones, however many there are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from benchmarks.shapes_quality import coverage

import crowdsift
from crowdsift.models.covariance import ComponentCovariance


def test_a_pair_compared_once_is_no_surer_among_many():
    """The same pair, alone and among 600 others of its kind: .785, not .868."""
    few, many = (
        {"winner": [f"a{i}" for i in range(n)], "loser": [f"b{i}" for i in range(n)], "worker": ["w"] * n}
        for n in (400, 600)
    )
    model = crowdsift.BradleyTerry(penalty=1.0)
    sure = [crowdsift.fit(votes, model).better("a1", "b1") for votes in (few, many)]
    assert sure[0] == pytest.approx(sure[1], abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_the_dense_inverse(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, 40)
    component = rng.permutation(np.repeat(np.arange(40), sizes))
    n, shift, size = len(component), 0.3, 1.7
    laplacian, pairs = np.zeros((n, n)), []
    for c in range(40):
        items = np.flatnonzero(component == c)
        for i, j in pairwise(items):
            pairs += [(i, j, rng.uniform(0.1, 3.0)), (items[0], j, 0.4)]
    pairs = [(i, j, w) for i, j, w in pairs if i != j]
    for i, j, w in pairs:
        laplacian[[i, j], [i, j]] += w
        laplacian[[i, j], [j, i]] -= w
    low, high, weight = (np.array(column) for column in zip(*pairs, strict=True))
    found = ComponentCovariance(component, low, high, weight, shift, size)
    together = component[:, None] == component[None, :]
    level = together / np.bincount(component)[component]
    centred = np.eye(n) - level
    expected = centred @ np.linalg.inv(laplacian + shift * np.eye(n)) @ centred / size**2
    np.testing.assert_allclose(found.dense(), expected, atol=1e-12)
    one, two = rng.integers(0, n, (2, 300))
    np.testing.assert_allclose(found.between(one, two), expected[one, two], atol=1e-12)
    sd = found.deviations(None)
    np.testing.assert_allclose(sd, np.sqrt(np.maximum(np.diag(expected), 0.0)), atol=1e-9)


def test_components_that_are_improper_or_large_are_not_exact():
    component = np.repeat([0, 1, 2], [2, 2, 1200])
    low = np.concatenate([[0, 2], np.arange(4, 1203)])
    weight = np.concatenate([[1.0, -3.0], np.ones(1199)])
    found = ComponentCovariance(component, low, low + 1, weight, 1.0)
    assert found.exact.tolist() == [True, True] + [False] * 1202
    given = found.deviations(np.full(1204, 9.0))
    assert given[:3] == pytest.approx([np.sqrt(1 / 6), np.sqrt(1 / 6), 9.0])
    assert found.dense() is None


def test_ranks_of_two_are_those_of_many_draws():
    votes = crowdsift.simulate(items=2, workers=5, comparisons=6, seed=1).comparisons()
    fit = crowdsift.fit(votes)
    p = fit.better(fit.labels[0], fit.labels[1])
    assert fit.items["rank_upper"][0] == (1 if p >= 0.95 else 2)
    assert fit.items["rank_lower"][1] == (1 if p < 0.95 else 2)


@pytest.mark.parametrize("items", [900, 20_001])
def test_intervals_of_differences_inside_islands_cover(items):
    found = coverage(items, 3, 6, 2_700 if items == 900 else 20_000)
    assert 0.88 <= found["covered"] <= 0.92, found
