"""Random effects by maximum evidence: integrals, differences, EM, the boundary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsift.numeric.random_effects import MAX_VARIANCE, RandomEffects, evidence, mean_at, slope_at


def messages(seed, units=200, variance=0.3, mean=0.4, most=30.0):
    rng = np.random.default_rng(seed)
    effect = rng.normal(mean, np.sqrt(variance), units)
    tau = rng.gamma(1.0, most / 3.0, units)
    nu = tau * effect + np.sqrt(tau) * rng.normal(size=units)
    return nu, tau, rng.uniform(0.2, 1.0, units)


def test_the_evidence_is_an_integral():
    nu, tau, weight = messages(1, units=6)
    g, t2 = 0.3, 0.7
    grid = np.linspace(-12.0, 12.0, 200_001)
    step = grid[1] - grid[0]
    density = np.exp(-0.5 * (grid - g) ** 2 / t2) / np.sqrt(2 * np.pi * t2)
    found = 0.0
    for a, h, w in zip(tau, nu, weight, strict=True):
        found += w * np.log(np.sum(density * np.exp(-0.5 * a * grid**2 + h * grid)) * step)
    assert evidence(nu, tau, weight, g, t2) == pytest.approx(found - 0.5 * g**2 - 0.5 * t2)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 1e-3, 0.1, 2.0]))
def test_slopes_are_finite_differences(seed, t2):
    nu, tau, weight = messages(seed, units=9)
    mean, information = mean_at(nu, tau, weight, t2)
    at = [evidence(nu, tau, weight, mean + d, t2) for d in (-1e-4, 0.0, 1e-4)]
    assert at[2] - at[0] == pytest.approx(0.0, abs=1e-6)  # the best mean
    assert (2 * at[1] - at[0] - at[2]) / 1e-8 == pytest.approx(1.0 + information, rel=1e-3)
    step = 1e-6

    def profile(x):
        return evidence(nu, tau, weight, mean_at(nu, tau, weight, x)[0], x)

    # one-sided at the boundary, of second order
    difference = (
        (profile(t2 + step) - profile(t2 - step)) / (2 * step)
        if t2
        else (4 * profile(step) - profile(2 * step) - 3 * profile(0.0)) / (2 * step)
    )
    assert slope_at(nu, tau, weight, t2) == pytest.approx(difference, rel=1e-3, abs=1e-3)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.02, 0.5, 3.0]), st.floats(1e-4, 4.0))
def test_the_result_is_a_maximum(seed, variance, start):
    nu, tau, weight = messages(seed, variance=variance)
    found = RandomEffects.of_messages(nu, tau, weight, start)
    best = evidence(nu, tau, weight, *found[:2])
    for other in (found.variance * 0.98, found.variance * 1.02 + 1e-5):
        mean = mean_at(nu, tau, weight, other)[0]
        assert evidence(nu, tau, weight, mean, other) <= best + 1e-12 * abs(best)
    for mean in (found.mean - 0.01, found.mean + 0.01):
        assert evidence(nu, tau, weight, mean, found.variance) < best


def em_step(nu, tau, weight, g, t2):
    """One step of EM with the same priors; t² is the root of t⁴ + Σω t² - SS = 0."""
    D = 1.0 + t2 * tau
    G, V = (g + t2 * nu) / D, t2 / D
    g = weight @ G / (weight.sum() + t2)
    squares, held = weight @ ((G - g) ** 2 + V), weight.sum()
    return g, 2.0 * squares / (held + np.sqrt(held**2 + 4.0 * squares))


@pytest.mark.parametrize("variance", [0.1, 0.5, 2.0])
def test_expectation_maximisation_ends_at_the_same_place(variance):
    nu, tau, weight = messages(5, variance=variance)
    g, t2 = 0.0, 0.25
    for _ in range(20_000):
        g, t2 = em_step(nu, tau, weight, g, t2)
    found = RandomEffects.of_messages(nu, tau, weight, 0.25)
    assert found.variance == pytest.approx(t2, rel=1e-5)
    assert found.mean == pytest.approx(g, abs=1e-5)


def test_units_that_do_not_differ_have_variance_0():
    """Less spread than noise: 0 exactly, from any start, where EM creeps."""
    rng = np.random.default_rng(3)
    tau = rng.gamma(2.0, 5.0, 500)
    nu = 0.2 * tau + 0.7 * np.sqrt(tau) * rng.normal(size=500)
    weight = np.ones(500)
    for start in (0.0, 1e-3, 0.25, 4.0):
        found = RandomEffects.of_messages(nu, tau, weight, start)
        assert found.variance == 0.0
        assert found.mean == pytest.approx(nu.sum() / (1.0 + tau.sum()))
        assert found.mean_variance == pytest.approx(1.0 / (1.0 + tau.sum()))
    g, t2 = 0.0, 0.25
    for _ in range(200):
        g, t2 = em_step(nu, tau, weight, g, t2)
    assert t2 > 1e-4


def test_the_mean_is_shrunk_by_its_own_prior_and_not_by_the_variance():
    tau = np.full(4, 1e4)
    found = RandomEffects.of_messages(0.5 * tau, tau, np.ones(4), 0.25)
    assert found.variance == 0.0
    assert found.mean == pytest.approx(0.5, abs=1e-4)


def test_nothing_known():
    none = np.zeros(3)
    assert RandomEffects.of_messages(none, none, none, 0.25) == (0.0, 0.0, 1.0)
    assert RandomEffects.of_messages(none, none, np.ones(3), 0.25) == (0.0, 0.0, 1.0)


def test_effects_of_any_size_stay_in_bounds():
    tau = np.full(50, 100.0)
    nu = tau * np.linspace(-90.0, 90.0, 50)
    found = RandomEffects.of_messages(nu, tau, np.ones(50), 0.25)
    assert found.variance == MAX_VARIANCE


def test_coverage_of_the_mean():
    """90 % intervals of g from its variance, over data drawn from the model."""
    rng = np.random.default_rng(9)
    inside = 0
    for _ in range(400):
        g = rng.normal()
        tau = rng.gamma(1.0, 8.0, 60)
        effect = rng.normal(g, 0.4, 60)
        nu = tau * effect + np.sqrt(tau) * rng.normal(size=60)
        found = RandomEffects.of_messages(nu, tau, np.ones(60), 0.25)
        inside += abs(found.mean - g) < 1.645 * np.sqrt(found.mean_variance)
    assert 0.86 <= inside / 400 <= 0.94
