"""The scale that scores and slopes share, and what conjugate gradients make of soft directions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import comparisons, vectors

import crowdsift
from crowdsift import Comparisons
from crowdsift.engines import choose_engine
from crowdsift.engines.base import SlopePrior
from crowdsift.numeric.conjugate_gradient import conjugate_gradient
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.solvers.slopes import SlopeScale
from crowdsift.votes.comparisons import tally

MEAN, PRECISION = 0.9, 2.0


def settled(votes, scores):
    slopes = choose_engine("reference", votes).slopes
    prior = SlopePrior(MEAN, PRECISION, 1e-12)
    at = slopes.profile(scores, np.full(votes.n_workers, MEAN), prior)
    return at.hessian, SlopeScale(at.slopes, at.curvature, MEAN, PRECISION)


@given(comparisons(), st.data())
def test_curvature_along_the_scores(votes, data):
    scores = data.draw(vectors(votes.n_items))
    hessian, scale = settled(votes, scores)
    expected = scores @ (hessian.multiply(scores) + 0.5 * scores)
    size = 1.0 + float(np.sum(hessian.diagonal() * scores**2))
    assert scale.along_scores(0.5 * float(scores @ scores)) == pytest.approx(expected, abs=1e-9 * size)


@given(st.data())
def test_best_scale_costs_least(data):
    """Against the cost written out: every worker's slope at its minimum, by brute force."""
    slopes = data.draw(vectors(7)) + 1.0
    scale = SlopeScale(slopes, PRECISION + np.abs(data.draw(vectors(7))) * 5 + 0.1, MEAN, PRECISION)
    square = data.draw(st.floats(0.1, 50.0))
    h = scale.curvature - PRECISION
    optimum = slopes + PRECISION * (slopes - MEAN) / h

    def cost(t, beta):
        miss = 0.5 * h * (t * beta - optimum) ** 2 + 0.5 * PRECISION * (beta - MEAN) ** 2
        return 0.5 * square * t**2 + miss.sum()

    for t in (0.3, 1.0, 2.5):
        best = scale.slopes_at(t)
        for aside in (-1e-3, 1e-3):
            assert cost(t, best) <= cost(t, best + aside)
    found = scale.best(square)
    assume(found is not None)
    assert scale.is_near_best(square, found, 0.01 * found)
    least = cost(found, scale.slopes_at(found))
    for t in (0.97 * found, 1.03 * found):  # to 1e-3, and a minimum
        assert least <= cost(t, scale.slopes_at(t)) + 1e-6 * abs(least)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_the_best_scale_of_workers_alike_is_the_least_cost_on_a_grid(workers):
    slope, h, square = 1.2, 6.0, 2.0
    ones = np.ones(workers)
    scale = SlopeScale(slope * ones, (h + PRECISION) * ones, MEAN, PRECISION)
    optimum, t = slope + PRECISION * (slope - MEAN) / h, np.linspace(0.1, 2.0, 19001)
    missed = 0.5 * h * PRECISION * (optimum - t * MEAN) ** 2 / (PRECISION + t**2 * h)
    least = t[np.argmin(0.5 * square * t**2 + workers * missed)]
    assert scale.best(square) == pytest.approx(least, rel=2e-3)


def test_workers_without_votes_stay_at_the_prior_whatever_the_scale():
    slopes, curvature = np.array([1.2, MEAN, 0.8]), np.array([30.0, PRECISION, 20.0])
    scale = SlopeScale(slopes, curvature, MEAN, PRECISION)
    found = scale.best(3.0)
    assert 0.2 < found < 2.0
    assert scale.slopes_at(found)[1] == pytest.approx(MEAN)
    others = SlopeScale(slopes[[0, 2]], curvature[[0, 2]], MEAN, PRECISION)
    assert found == pytest.approx(others.best(3.0), rel=1e-3)


def test_no_scale_where_the_votes_speak_against_the_prior():
    scale = SlopeScale(np.full(5, -2.0), np.full(5, 50.0), MEAN, PRECISION)
    assert scale.best(1e6) is None


def test_scores_far_too_small_are_scaled_at_once():
    votes = crowdsift.simulate(60, 40, 6000, reliability=(0.2, 1.5), seed=3).comparisons()
    scores = crowdsift.fit(votes, "bora-map").scores_of(votes.items)
    _, scale = settled(votes, scores)
    _, small = settled(votes, 0.5 * scores)
    square = float(scores @ scores)
    # The same votes, scores half as large: the best scale is twice the other, but for the likelihood of a slope, which
    # is not quite quadratic.
    assert small.best(0.25 * square) == pytest.approx(2.0 * scale.best(square), rel=0.05)


def test_a_soft_direction_costs_no_products():
    """A spread spectrum, and below it one eigenvalue whose vector is known."""
    rng = np.random.default_rng(0)
    n = 200
    basis, _ = np.linalg.qr(rng.normal(size=(n, n)))
    soft = 3.0 * basis[:, 0]
    matrix = basis @ np.diag([1e-4, *np.linspace(0.7, 1.3, n - 1)]) @ basis.T
    rhs = rng.normal(size=n)
    along = float(soft @ matrix @ soft)

    def solve(correct):
        return conjugate_gradient(lambda v: matrix @ v, rhs, np.ones(n), tolerance=1e-10, correct=correct)

    def correct(v, out):
        out += soft * float(soft @ v) / along

    plain, helped = solve(None), solve(correct)
    for step in (plain, helped):
        np.testing.assert_allclose(step.x, np.linalg.solve(matrix, rhs), rtol=1e-6, atol=1e-6)
    assert helped.iterations < plain.iterations


def many(items=45_000, votes=180_000, workers=900):
    """More items than sums and scores are kept long for."""
    rng = np.random.default_rng(5)
    first = rng.integers(items, size=votes)
    second = (first + rng.integers(1, items, size=votes)) % items
    worker, score = rng.integers(workers, size=votes), rng.normal(size=items)
    slope = rng.normal(1.0, 0.5, workers)
    up = rng.random(votes) < sigmoid(slope[worker] * (score[first] - score[second]))
    return Comparisons.from_codes(
        first.astype(np.uint32),
        second.astype(np.uint32),
        worker=worker.astype(np.uint32),
        outcome=up.astype(float),
        items=np.arange(items).astype(object),
        workers=np.arange(workers).astype(object),
    )


@pytest.mark.parametrize("tolerance", [1e-6, 1e-9])
def test_the_optimum_among_many_items(tolerance):
    """The gradient in double precision, by the book, at scores found with short sums."""
    votes = many()
    fit = crowdsift.fit(votes, crowdsift.BradleyTerry(tolerance=tolerance))
    assert fit.converged
    scores = fit.scores_of(votes.items)
    up = votes.outcome - sigmoid(scores[votes.first] - scores[votes.second])
    gradient, size = np.zeros(votes.n_items), np.full(votes.n_items, 0.01)
    for items, sign in ((votes.first, 1.0), (votes.second, -1.0)):
        np.add.at(gradient, items, sign * votes.weight * up)
        np.add.at(size, items, votes.weight * np.abs(up) * (1.0 - np.abs(up)))
    gradient -= 0.01 * scores
    # scores were centred after the fit, which the penalty alone feels
    gradient -= gradient.mean()
    assert np.abs(gradient / size).max() < 1.1 * tolerance


def hub(items=45_000):
    """One item that beats each of the others 7 times in 10."""
    second = np.repeat(np.arange(1, items), 2).astype(np.uint32)
    return Comparisons.from_codes(
        np.zeros(len(second), np.uint32),
        second,
        worker=np.tile([0, 1], items - 1).astype(np.uint32),
        outcome=np.tile([1.0, 0.0], items - 1),
        weight=np.tile([7.0, 3.0], items - 1),
        items=np.arange(items).astype(object),
        workers=np.arange(2).astype(object),
    )


def test_an_item_in_all_votes():
    votes = hub()
    fit = crowdsift.fit(votes, "bt")
    assert fit.converged
    assert fit.summary["iterations"] < 10
    scores = fit.scores_of(votes.items)
    # each of the others: 10 p(1 - p) d = its score times the penalty, which is next to nothing
    assert scores[0] - scores[1] == pytest.approx(np.log(7 / 3), abs=1e-3)
    assert np.ptp(scores[1:]) < 1e-6
    weight = {"weight": np.tile(np.float32([0.1, 101.0]), votes.n_items - 1)}
    heavy = dataclasses.replace(votes, **weight)
    counted = tally(heavy, np.zeros(votes.n_items, np.int64), 2)
    assert counted.appearances[0] == pytest.approx(heavy.weight.astype(float).sum(), rel=1e-12)


@pytest.mark.parametrize("resolution", [0.0, 1e-6, 1.0])
def test_own_slopes_among_many_items(resolution):
    """Against the formulas in double precision: gradients are 0 in the slopes, and so on."""
    votes = many()
    rng = np.random.default_rng(1)
    scores, v = rng.normal(size=(2, votes.n_items))
    s, n = votes.worker_codes(), votes.weight.astype(float)
    d, moved = (x[votes.first] - x[votes.second] for x in (scores, v))

    def to_workers(values):
        return np.bincount(s, values, votes.n_workers)

    def to_items(values):
        ends = ((votes.first, values), (votes.second, -values))
        return sum(np.bincount(items, x, votes.n_items) for items, x in ends)

    for threads in (1, 2):
        slopes = choose_engine("cpu", votes, threads).slopes
        prior = SlopePrior(MEAN, PRECISION, 1e-9)
        at = slopes.profile(scores, np.ones(votes.n_workers), prior, resolution=resolution)
        beta = at.slopes[s]
        p = sigmoid(beta * d)
        left, weight = n * (votes.outcome - p), n * p * (1.0 - p)
        curvature = to_workers(weight * d**2) + PRECISION
        slope = to_workers(left * d) - PRECISION * (at.slopes - MEAN)
        np.testing.assert_allclose(slope / curvature, 0.0, atol=1e-6)
        np.testing.assert_allclose(at.curvature, curvature, rtol=1e-6)
        atol = 1e-5 if resolution else 1e-7
        np.testing.assert_allclose(at.gradient, to_items(beta * left), rtol=1e-6, atol=atol)
        log = n * np.log(np.where(votes.outcome > 0.5, p, 1.0 - p))
        assert at.value == pytest.approx(log.sum(), rel=1e-9)
        # A v - B D⁻¹ B'v, B' being the derivative of -gradient in the slopes
        mixed = weight * beta * d - left
        through = (to_workers(mixed * moved) / curvature)[s]
        product = to_items(weight * beta**2 * moved - mixed * through)
        np.testing.assert_allclose(at.hessian.multiply(v), product, rtol=1e-5, atol=1e-4)
        ends = ((votes.first, weight * beta**2), (votes.second, weight * beta**2))
        diagonal = sum(np.bincount(items, x, votes.n_items) for items, x in ends)
        np.testing.assert_allclose(at.hessian.diagonal(), diagonal, rtol=1e-5, atol=1e-6)


def test_scores_that_are_not_finite_among_many_items():
    votes = many()
    scores = np.zeros(votes.n_items)
    scores[votes.first[0]] = np.nan
    slopes = choose_engine("cpu", votes, 2).slopes
    assert np.isnan(slopes.profile(scores, np.ones(votes.n_workers)).value)
