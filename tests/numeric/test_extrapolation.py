"""Acceleration: the same fixed points, fewer steps, and plain steps where it does not help."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift import BoraEM
from crowdsift.solvers.ep.workers import Anderson


def iterate(image, x, depth, steps):
    method = Anderson(depth, wait=1)
    for _ in range(steps):
        x = method.propose(x, image(x))
    return x


def test_a_linear_map_is_solved_in_as_many_steps_as_it_has_dimensions():
    rng = np.random.default_rng(0)
    matrix = np.diag([0.99, 0.9, 0.5, -0.5]) + 0.01 * rng.normal(size=(4, 4))
    shift = rng.normal(size=4)
    found = iterate(lambda x: matrix @ x + shift, np.zeros(4), depth=4, steps=8)
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(4) - matrix, shift), atol=1e-8)


def test_depth_0_is_the_plain_iteration():
    def image(x):
        return np.cos(x)

    x = np.array([0.3])
    for _ in range(20):
        x = image(x)
    np.testing.assert_array_equal(iterate(image, np.array([0.3]), 0, 20), x)


def test_a_residual_that_grows_brings_the_plain_step():
    method = Anderson(depth=3, wait=0)
    x = method.propose(np.zeros(1), np.ones(1))  # no history yet: plain
    x = method.propose(x, x + 0.5)  # accelerated
    image = x + 2.0  # the residual grew
    np.testing.assert_array_equal(method.propose(x, image), image)


def test_em_comes_to_its_fixed_point_sooner():
    """EM of the share of one of two known distributions: the same answer in fewer steps."""
    rng = np.random.default_rng(4)
    ratio = np.exp(rng.normal(0.1, 0.4, 500))  # likelihood of one over that of the other

    def image(x):
        return np.array([np.mean(x[0] * ratio / (x[0] * ratio + 1.0 - x[0]))])

    plain, steps = np.array([0.5]), 0
    while abs(image(plain) - plain)[0] > 1e-10:
        plain, steps = image(plain), steps + 1
    fast, taken, method = np.array([0.5]), 0, Anderson(depth=3, wait=1)
    while abs(image(fast) - fast)[0] > 1e-10:
        fast, taken = np.clip(method.propose(fast, image(fast)), 0.0, 1.0), taken + 1
    assert fast[0] == pytest.approx(plain[0], abs=1e-6)
    assert taken < 0.2 * steps


def both(votes, most):
    """Accelerated and plain, of a tolerance so fine that it is asked of scores."""
    fits = [
        crowdsift.fit(votes, BoraEM(tolerance=1e-10, accelerate=fast, most_iterations=iterations))
        for fast, iterations in ((True, most), (False, 10 * most))
    ]
    assert all(fit.converged for fit in fits)
    return fits


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bora_em_has_the_same_fixed_point(seed):
    votes = crowdsift.simulate(40, 30, 4000, reliability=(-0.3, 1.2), seed=seed).comparisons()
    fast, plain = both(votes, 80)
    np.testing.assert_allclose(fast.scores_of(votes.items), plain.scores_of(votes.items), rtol=0, atol=1e-8)
    np.testing.assert_allclose(fast.workers["reliability"], plain.workers["reliability"], rtol=0, atol=1e-8)


def test_bora_em_has_the_same_fixed_point_on_passage(data_dir):
    votes = crowdsift.read(data_dir / "passage.csv")
    fast, plain = both(votes, 120)
    np.testing.assert_allclose(fast.scores_of(votes.items), plain.scores_of(votes.items), rtol=0, atol=1e-8)
    assert fast.summary["mean_log_likelihood"] == pytest.approx(plain.summary["mean_log_likelihood"], abs=1e-10)
