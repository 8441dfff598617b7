"""The posterior of a difference by its own votes, against sums over a grid."""

from __future__ import annotations

import numpy as np
import pytest

from crowdsift.numeric.likelihoods import LOGISTIC_SMOOTHING, normal_cdf, sigmoid
from crowdsift.numeric.own_votes import OwnVotes, chances_of_sign, few_points


@pytest.mark.parametrize("effect", [0.0, 0.6])
def test_any_cavity_and_sites(effect: float) -> None:
    """Whatever the sites are: they go out of the posterior as they came in."""
    rng = np.random.default_rng(3)
    pairs, n = 60, 200
    pair = np.sort(np.append(np.arange(pairs), rng.integers(0, pairs, n - pairs)))
    starts = np.flatnonzero(np.append(True, np.diff(pair)))
    m, v = rng.normal(0.0, 1.0, pairs), rng.uniform(0.1, 2.0, pairs)
    times, sign = rng.choice([1.0, 1.0, 2.5], n), rng.choice([-1.0, 1.0], n)
    tie, shown = rng.random(n) < 0.2, rng.choice([-1.0, 1.0], n)
    sign[tie] = 1.0
    beta, width = rng.uniform(-0.1, 1.5, (n, 1)), rng.uniform(0.1, 1.0, (n, 1))
    tau = beta[:, 0] ** 2 * rng.uniform(0.05, 0.2, n)  # roughly what votes say
    nu = np.where(tie, 0.0, sign * beta[:, 0] * rng.uniform(0.2, 0.6, n))
    side, spread = rng.normal(0.0, 1.0, (n, 1)), rng.uniform(0.0, 0.5, (n, 1))
    a, h = np.bincount(pair, times * tau), np.bincount(pair, times * nu)
    whole = 1.0 + effect * a
    variance = 1.0 / (1.0 / v + a / whole)
    mean = variance * (m / v + h / whole)
    votes = OwnVotes(starts, sign, tie, times, shown, tau, nu, np.arange(n), beta, width, side, spread, np.ones((n, 1)))
    below, above = chances_of_sign(mean, variance, votes, effect)
    np.testing.assert_allclose(below + above, 1.0)
    seen = np.linspace(-16.0, 16.0, 3200)  # what votes see: d, and what is the pair's own
    for j in range(pairs):
        logs = -0.5 * (seen - m[j]) ** 2 / (v[j] + effect)
        for i in np.flatnonzero(pair == j):
            k = 1.0 / np.sqrt(1.0 + LOGISTIC_SMOOTHING * spread[i, 0])
            z = beta[i, 0] * seen + shown[i] * side[i, 0]
            win, loss = sigmoid(k * (z - width[i, 0])), sigmoid(k * (-z - width[i, 0]))
            p = 1.0 - win - loss if tie[i] else win if sign[i] > 0 else loss
            logs += times[i] * np.log(np.maximum(p, 1e-300))
        density = np.exp(logs - logs.max())
        share = v[j] / (v[j] + effect)
        centre = m[j] + share * (seen - m[j])
        up = (centre > 0).astype(float)
        if effect > 0.0:
            up = normal_cdf(centre / np.sqrt(share * effect))
        expected = float((density * up).sum() / density.sum())
        assert above[j] == pytest.approx(expected, abs=1e-4)


def test_points_of_gauss() -> None:
    """As many moments as twice the points; fewer points than asked for stay what they are."""
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(2.0, 0.7, (5, 16)), np.full((1, 16), 1.5)])
    values[4] = np.repeat([-2.0, 2.0], 8)
    points, weights = few_points(values, 4)
    for power in range(8):
        expected = (values**power).mean(axis=1)
        np.testing.assert_allclose((weights * points**power).sum(axis=1), expected, rtol=1e-9)
