"""The links of votes against SciPy's functions, where they are flat, steep and far out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from reference_engine.links import logistic, polya_gamma_mean, probit
from scipy.special import erfcx, expit, log_expit, log_ndtr

from crowdsift.numeric.likelihoods import LOGISTIC_SMOOTHING, sigmoid, smoothing

FAR = np.array([-700.0, -100.0, -38.0, -36.001, -36.0, -35.9, -8.0, -1.5, -1e-9])
POINTS = np.concatenate([FAR, [0.0], -FAR[::-1]])


def ratio(z):
    """φ(z)/Φ(z), by a function that has no seam where Φ underflows."""
    return np.sqrt(2.0 / np.pi) / erfcx(-z / np.sqrt(2.0))


@pytest.mark.parametrize("outcome", [0.0, 0.25, 0.5, 1.0])
def test_probit_is_that_of_the_normal_distribution(outcome):
    """The series far out is as exact as the rest."""
    value, first, second = probit(POINTS, np.full(len(POINTS), outcome))
    expected = outcome * log_ndtr(POINTS) + (1.0 - outcome) * log_ndtr(-POINTS)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-300)
    slope = outcome * ratio(POINTS) - (1.0 - outcome) * ratio(-POINTS)
    np.testing.assert_allclose(first, slope, rtol=1e-10, atol=1e-14)
    step = 1e-4
    up, down = (outcome * ratio(POINTS + h) - (1.0 - outcome) * ratio(-POINTS - h) for h in (step, -step))
    np.testing.assert_allclose(second, (up - down) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("outcome", [0.0, 0.25, 0.5, 1.0])
def test_logit_is_that_of_the_logistic_distribution(outcome):
    value, first, second = logistic(POINTS, np.full(len(POINTS), outcome))
    expected = outcome * log_expit(POINTS) + (1.0 - outcome) * log_expit(-POINTS)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    np.testing.assert_allclose(first, outcome - expit(POINTS), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(second, -expit(POINTS) * expit(-POINTS), rtol=1e-12)
    np.testing.assert_allclose(sigmoid(POINTS), expit(POINTS), rtol=1e-14)


def test_the_mean_of_a_polya_gamma_variable_has_no_seam():
    """E ω = Σ 1/(2π²) / ((k - ½)² + x²/(4π²)), the series that defines the distribution."""
    x = np.array([0.0, 1e-5, 9.99e-4, -9.99e-4, 1.001e-3, -1.001e-3, 0.3, 5.0])
    n = 20_000
    k = np.arange(1, n + 1)[:, None]
    summed = (1.0 / ((k - 0.5) ** 2 + x**2 / (4 * np.pi**2))).sum(axis=0) + 1.0 / n
    np.testing.assert_allclose(polya_gamma_mean(x), summed / (2 * np.pi**2), rtol=1e-12)
    assert (np.diff(polya_gamma_mean(np.linspace(9e-4, 1.1e-3, 21))) < 0.0).all()


@pytest.mark.parametrize("variance", [0.1, 1.0, 9.0, 1e4])
def test_smoothing_is_the_mean_over_a_gaussian(variance):
    """E σ(x) of x ~ N(m, v), by quadrature, is within two hundredths of σ(m/√(1 + cv))."""
    m = np.linspace(-4.0, 4.0, 9) * np.sqrt(1.0 + variance)
    z = np.linspace(-9.0, 9.0, 4001)
    mass = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    exact = expit(m[:, None] + np.sqrt(variance) * z) @ mass
    smoothed = sigmoid(m / np.sqrt(1.0 + LOGISTIC_SMOOTHING * variance))
    np.testing.assert_allclose(smoothed, exact, atol=0.02)


def test_the_core_smooths_with_the_same_constant():
    """Python and C++ write the constant once each."""
    header = Path(__file__).parents[2] / "cpp" / "include" / "crowdsift" / "simd.hpp"
    pi, divisor = re.search(r"kLogisticSmoothing = ([0-9.]+) / ([0-9.]+);", header.read_text()).groups()
    assert float(pi) / float(divisor) == LOGISTIC_SMOOTHING


@pytest.mark.parametrize("variance", [0.0, 0.3, 1.0, 4.0, 16.0])
def test_smoothing_approximates_the_mean_of_the_logistic_function(variance):
    """E[σ(x)] of x ~ N(m, v), by Gauss-Hermite quadrature; exact without variance."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    mean = np.linspace(-4.0, 4.0, 33)
    exact = expit(mean[:, None] + np.sqrt(variance) * nodes) @ weights / weights.sum()
    np.testing.assert_allclose(expit(smoothing(np.array(variance)) * mean), exact, atol=0.02 if variance else 1e-12)
