"""Side biases by context against dense Gaussians, finite differences and drawn data."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsift.engines.grid import SidePrior, WorkerPoints
from crowdsift.numeric.random_effects import log_mean
from crowdsift.solvers.ep.terms import contexts
from crowdsift.solvers.ep.terms.contexts import SideTree

WHOLE = np.array([0, 0, 0, 1])


def context_sums(seed, size=4):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 4.0, size), rng.normal(size=size)


@pytest.mark.parametrize("w", [0.15, 1e-12, 0.0])
@pytest.mark.parametrize("t2", [0.2, 1e-12, 0.0])
def test_messages_against_the_joint_gaussian(w, t2):
    """Evidence, γ in contexts, and the sums of a worker, from the dense covariance of all γ."""
    a, h = context_sums(2)
    side = SidePrior(0.3, t2)
    tree = SideTree(WHOLE, 2)
    tree.spread = w
    tree.start(side)
    tree.gather(a, h, side)
    own = log_mean(h, a, tree.context_mean, tree.context_variance)  # of contexts by themselves
    mean, variance = tree.context_posteriors(0.0)
    for s in (0, 1):
        mine = np.flatnonzero(s == WHOLE)
        n = len(mine)
        prior = t2 * np.ones((n, n)) + w * np.eye(n)
        # exp(-½γᵀAγ + hᵀγ) for γ ~ N(g0, prior), which may be singular
        A, e = np.diag(a[mine]), h[mine] - a[mine] * side.mean
        inner = np.eye(n) + prior @ A
        evidence = (
            h[mine].sum() * side.mean
            - 0.5 * a[mine].sum() * side.mean**2
            + 0.5 * e @ np.linalg.solve(inner, prior @ e)
            - 0.5 * np.linalg.slogdet(inner)[1]
        )
        assert own[mine].sum() + tree.bonus[s] == pytest.approx(evidence, abs=1e-9)
        S = np.linalg.solve(inner, prior)
        np.testing.assert_allclose(mean[mine], side.mean + S @ e, rtol=1e-9)
        np.testing.assert_allclose(variance[mine], np.diag(S), rtol=1e-9, atol=1e-15)
        assert tree.evidence(np.eye(2)[s], w) == pytest.approx(evidence - 0.5 * w, abs=1e-9)


@pytest.mark.parametrize("w", [0.15, 0.0])
@pytest.mark.parametrize("t2", [0.2, 0.0])
def test_what_is_not_known_of_the_crowd_adds_to_the_variance_in_a_context(w, t2):
    """The mean in a context is linear in g0, whose variance enters by the square of the slope."""
    a, h = context_sums(7)
    means = []
    for g0 in (0.0, 1.0):
        side = SidePrior(g0, t2)
        tree = SideTree(WHOLE, 2)
        tree.spread = w
        tree.gather(a, h, side)
        means.append(tree.context_posteriors(0.0)[0])
    sure, unsure = (tree.context_posteriors(variance)[1] for variance in (0.0, 0.04))
    np.testing.assert_allclose(unsure - sure, 0.04 * (means[1] - means[0]) ** 2, rtol=1e-9)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-3, 0.3]), st.sampled_from([0.0, 0.2]))
def test_the_slope_is_a_finite_difference(seed, w, t2):
    a, h = context_sums(seed)
    tree = SideTree(WHOLE, 2)
    tree.gather(5.0 * a, 3.0 * h, SidePrior(0.3, t2))
    weight, step = np.array([0.9, 0.4]), 1e-5
    at = [tree.evidence(weight, w + k * step) for k in range(3)]
    difference = (4.0 * at[1] - at[2] - 3.0 * at[0]) / (2.0 * step)
    assert tree.slope(weight[WHOLE], w) == pytest.approx(difference, rel=1e-3, abs=1e-4)


def drawn(w, seed, workers=300, contexts=4, t2=0.2, g0=0.1):
    rng = np.random.default_rng(seed)
    whole = np.repeat(np.arange(workers), contexts)
    gamma = rng.normal(g0, np.sqrt(t2), workers)[whole] + rng.normal(0, np.sqrt(w), len(whole))
    a = rng.gamma(2.0, 4.0, len(whole))
    return whole, a, a * gamma + np.sqrt(a) * rng.normal(size=len(whole)), SidePrior(g0, t2)


@pytest.mark.parametrize("w", [0.05, 0.4])
def test_the_spread_that_was_drawn_is_found(w):
    whole, a, h, side = drawn(w, 5)
    tree = SideTree(whole, 300)
    for _ in range(6):
        tree.gather(a, h, side)
        tree.learn(np.ones(300))
    assert tree.spread == pytest.approx(w, rel=0.25)
    best = tree.evidence(np.ones(300), tree.spread)
    for other in (0.95 * tree.spread, 1.05 * tree.spread):
        assert tree.evidence(np.ones(300), other) < best


def test_contexts_that_do_not_differ_have_spread_0():
    whole, a, h, side = drawn(0.0, 6)
    h = a * np.repeat(h.reshape(-1, 4).sum(1) / a.reshape(-1, 4).sum(1), 4)
    tree = SideTree(whole, 300)
    for _ in range(12):
        tree.gather(a, h, side)
        tree.learn(np.ones(300))
    assert tree.spread == 0.0
    tree.gather(a, h, side)
    found = tree.context_posteriors(0.0)[0].reshape(-1, 4)
    np.testing.assert_allclose(found, found[:, [0]] @ np.ones((1, 4)))


def test_what_is_unknown_of_the_population_is_unknown_of_every_context():
    a, h = context_sums(3)
    tree = SideTree(WHOLE, 2)
    tree.spread = 0.0
    tree.gather(a, h, SidePrior(0.3, 0.0))
    mean, variance = tree.context_posteriors(0.04)
    np.testing.assert_allclose(mean, 0.3)
    np.testing.assert_allclose(variance, 0.04)


def test_sites_that_do_not_count_idle_threads_leave_one():
    assert contexts.ContextSites.idle_threads(SimpleNamespace(by_context=object())) == 1


def test_only_workers_with_several_contexts_show_how_much_contexts_differ():
    """-1 stands for the contexts with too few votes, together; context 0 is one like the others."""
    apart = SimpleNamespace(worker=np.array([0, 0, 1, 2, 2, 3, 3, 3]), context=np.array([0, 1, 0, -1, 2, 0, 3, -1]))
    assert contexts._informative(apart, 4).tolist() == [0, 1, 5, 6]


def test_rows_of_workers_in_contexts():
    """The row of a worker in a context lies below those of all workers; without votes there it is the worker's own."""
    worker, context = np.array([2, 0, 2, 1]), np.array([1, 3, 0, 2])
    points = contexts.ContextPoints(worker, context, None)
    asked = [(2, 1), (0, 3), (2, 0), (1, 2), (0, 0), (1, 1), (2, 2), (1, 5)]
    rows = points.rows(*np.array(asked).T, 3)
    assert rows.tolist() == [3, 4, 5, 6, 0, 1, 2, 1]


def test_points_in_another_context_have_the_spread_of_contexts():
    points = WorkerPoints(np.full((2, 400), 1.5), np.zeros((2, 400)), np.zeros((2, 400)), np.full((2, 400), 0.2))
    points.side_variance[1] = 0.0
    found = contexts.in_another(points, SimpleNamespace(reliability_spread=0.3, side_spread=0.7))
    np.testing.assert_allclose(found.reliability.mean(axis=1), 1.5)
    np.testing.assert_allclose(found.reliability.std(axis=1), 1.5 * 0.3, rtol=0.02)
    np.testing.assert_allclose(found.side_variance, np.repeat([[0.9], [0.0]], 400, axis=1))
