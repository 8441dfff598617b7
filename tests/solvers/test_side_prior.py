"""The side bias of the population from that of its workers."""

from __future__ import annotations

import numpy as np
import pytest

from crowdsift.engines.grid import SidePrior
from crowdsift.numeric.random_effects import RandomEffects
from crowdsift.solvers.ep.workers import PopulationSide, learn_sides


def drawn(variance, workers=400, seed=1, mean=0.4):
    rng = np.random.default_rng(seed)
    tau = rng.gamma(2.0, 8.0, workers)
    nu = tau * rng.normal(mean, np.sqrt(variance), workers) + np.sqrt(tau) * rng.normal(size=workers)
    return nu, tau


def settled(nu, tau, regular):
    side = PopulationSide()
    for steps in range(100):
        found = learn_sides(nu, tau, regular, side.prior)
        if np.allclose(found.prior, side.prior, rtol=1e-5, atol=1e-12):
            return found, steps
        side = found
    raise AssertionError("never settled")


@pytest.mark.parametrize("variance", [0.02, 0.3, 2.0])
def test_what_was_drawn_is_found(variance):
    nu, tau = drawn(variance)
    side, steps = settled(nu, tau, np.ones(400))
    assert side.prior.mean == pytest.approx(0.4, abs=3.0 * np.sqrt(side.mean_variance))
    error = np.sqrt(2.0 / np.sum((variance + 1.0 / tau) ** -2.0))  # by Fisher's information
    assert side.prior.variance == pytest.approx(variance, abs=3.0 * error)
    assert steps <= 5
    expected = RandomEffects.of_messages(nu, tau, np.ones(400), 0.25)
    assert side.prior.variance == pytest.approx(expected.variance, rel=1e-5)


def test_workers_who_are_not_regular_do_not_count():
    nu, tau = drawn(0.05)
    odd = np.arange(400) < 40
    regular = np.where(odd, 0.0, 1.0)
    clean, _ = settled(nu[~odd], tau[~odd], np.ones(360))
    side, _ = settled(np.where(odd, 4.0 * tau, nu), tau, regular)
    np.testing.assert_allclose(side.prior, clean.prior, rtol=1e-5)


def test_a_population_that_does_not_differ():
    """t² reaches 0 in a few passes; every worker then has the side bias of the population."""
    rng = np.random.default_rng(2)
    tau = rng.gamma(2.0, 8.0, 400)
    nu = 0.1 * tau + 0.5 * np.sqrt(tau) * rng.normal(size=400)
    side, steps = settled(nu, tau, np.ones(400))
    assert side.prior.variance == 0.0
    assert steps <= 12
    mean, variance = side.posteriors(nu, tau)
    np.testing.assert_allclose(mean, side.prior.mean)
    np.testing.assert_allclose(variance, side.mean_variance)
    assert side.mean_variance == pytest.approx(1.0 / (1.0 + tau.sum()))


def test_posteriors_of_workers():
    side = PopulationSide(SidePrior(0.3, 0.5), 0.01)
    mean, variance = side.posteriors(np.array([0.0, 8.0]), np.array([0.0, 10.0]))
    np.testing.assert_allclose(mean, [0.3, (0.3 / 0.5 + 8.0) / (1 / 0.5 + 10.0)])
    np.testing.assert_allclose(variance, [0.51, 1 / (1 / 0.5 + 10.0) + 0.01 / 36.0])


def test_nothing_is_learned_of_no_sites():
    none = np.zeros(3)
    side = learn_sides(none, none, np.ones(3), SidePrior(0.1, 0.2))
    assert side.prior == (0.1, 0.2)
    mean, variance = side.posteriors(none, none)
    assert mean.tolist() == [0.1] * 3
    assert variance == pytest.approx([1.2] * 3)  # what is known of g0 is its prior, N(0, 1)


def test_one_pass_moves_a_variance_by_a_factor_of_4_at_most():
    tau = np.full(50, 100.0)
    alike = learn_sides(0.2 * tau, tau, np.ones(50), SidePrior(0.0, 0.25))
    assert alike.prior.variance == 0.0625
    apart = learn_sides(tau * np.linspace(-3, 3, 50), tau, np.ones(50), SidePrior(0.0, 0.25))
    assert apart.prior.variance == 1.0


def test_one_worker_of_whom_little_is_known_counts_for_that():
    """τ of .4: mean and variance of g0 are those of the closed form, not those of the prior."""
    side = learn_sides(np.array([0.3]), np.array([0.4]), np.ones(1), SidePrior(0.0, 0.25))
    D = 1.0 + side.prior.variance * 0.4
    assert side.mean_variance == pytest.approx(1.0 / (1.0 + 0.4 / D))
    assert side.prior.mean == pytest.approx(0.3 / D * side.mean_variance)
