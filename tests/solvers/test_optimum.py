"""Where solvers end, against the objectives that they state, written out in NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from reference_engine.links import LIKELIHOODS

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.elimination import WorkerElimination, minimise_eliminated
from crowdsift.solvers.em import polya_gamma_em
from crowdsift.solvers.ep.items import spectral_scores
from crowdsift.solvers.slopes import CommonSlope, minimise_with_slopes

VOTES = crowdsift.simulate(8, 5, 500, reliability=(0.3, 1.5), seed=2).comparisons()
ENGINE = choose_engine("cpu", VOTES, 1)


def derivatives(likelihood, scores, theta):
    """The specification at every vote, with its weights."""
    d = scores[VOTES.first] - scores[VOTES.second]
    x = np.zeros((len(VOTES), theta.shape[1] - (likelihood == "led-logit")))
    at = LIKELIHOODS[likelihood](d, theta[VOTES.worker_codes()], x, VOTES.outcome.astype(float))
    return at, VOTES.weight.astype(float)


def summed(likelihood, scores, theta):
    """Log-likelihood and its gradients over items and workers."""
    at, n = derivatives(likelihood, scores, theta)
    items = np.bincount(VOTES.first, n * at.d, VOTES.n_items)
    items -= np.bincount(VOTES.second, n * at.d, VOTES.n_items)
    workers = np.zeros_like(theta)
    np.add.at(workers, VOTES.worker_codes(), n[:, None] * at.t)
    return float(n @ at.value), items, workers


@pytest.mark.parametrize(
    ("likelihood", "start", "bounds"),
    [("scaled-logit", 0.8, (-1.0, 1.0)), ("scaled-probit", 0.8, (0.0, np.inf)), ("flipped-logit", 0.7, (0.0, 1.0))],
)
@pytest.mark.parametrize("penalty", [0.01, 2.0])
def test_scores_and_workers_end_where_both_gradients_vanish(likelihood, start, bounds, penalty):
    objective = WorkerElimination(ENGINE, likelihood, penalty, np.array([start]), bounds)
    rule = StoppingRule("gradient", 1e-7, 200)
    scores, trace = minimise_eliminated(objective, np.zeros(8), rule)
    theta = objective.theta
    value, items, workers = summed(likelihood, scores, theta)
    assert rule.converged
    assert rule.iterations <= 25
    np.testing.assert_allclose(items, penalty * scores, atol=1e-6)
    pull = workers[:, 0] - penalty * (theta[:, 0] - start)
    low, high = theta[:, 0] <= bounds[0], theta[:, 0] >= bounds[1]
    assert (pull[low] <= 1e-6).all()  # held there against what the votes ask for
    assert (pull[high] >= -1e-6).all()
    np.testing.assert_allclose(pull[~low & ~high], 0.0, atol=1e-5)
    prior = 0.5 * penalty * (scores @ scores + np.sum((theta - start) ** 2))
    assert trace[-1] == pytest.approx(prior - value, rel=1e-9)
    assert objective.log_likelihood == pytest.approx(value, rel=1e-9)
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(trace))


def test_variances_of_workers_and_the_laplacian_are_those_of_the_second_derivatives():
    objective = WorkerElimination(ENGINE, "flipped-logit", 0.5, np.array([0.7]), (0.0, 1.0))
    scores, _ = minimise_eliminated(objective, np.zeros(8), StoppingRule("gradient", 1e-8, 99))
    at, n = derivatives("flipped-logit", scores, objective.theta)
    blocks = 0.5 - np.bincount(VOTES.worker_codes(), n * at.tt[:, 0, 0], 5)
    np.testing.assert_allclose(objective.worker_variances()[:, 0], 1.0 / blocks, rtol=1e-6)
    direct = np.zeros((8, 8))
    np.add.at(direct, (VOTES.first, VOTES.first), -n * at.dd)
    np.add.at(direct, (VOTES.second, VOTES.second), -n * at.dd)
    np.add.at(direct, (VOTES.first, VOTES.second), n * at.dd)
    np.add.at(direct, (VOTES.second, VOTES.first), n * at.dd)
    found = np.stack([objective.laplacian().multiply(unit) for unit in np.eye(8)])
    np.testing.assert_allclose(found, direct, atol=1e-5)


def test_stages_end_at_the_same_penalty_and_workers_held_stay_alike():
    objective = WorkerElimination(ENGINE, "scaled-probit", 0.1, np.array([0.8]), (0.0, np.inf))
    plain, _ = minimise_eliminated(objective, np.zeros(8), StoppingRule("gradient", 1e-8, 99))
    staged, _ = minimise_eliminated(objective, np.zeros(8), StoppingRule("gradient", 1e-8, 99), stages=(100.0, 10.0))
    assert objective.worker_penalty == 0.1
    np.testing.assert_allclose(staged, plain, atol=1e-6)
    held = WorkerElimination(ENGINE, "scaled-probit", 0.1, np.array([0.8]))
    held.evaluate(plain)
    assert (held.theta == 0.8).all()


def test_one_slope_for_all_is_bradley_terry_and_its_first_scores_are_near():
    objective = CommonSlope(ENGINE, penalty=0.3, slope=1.5)
    first = objective.first_scores()
    fit = crowdsift.fit(VOTES, crowdsift.BradleyTerry(penalty=0.3, tolerance=1e-9))
    exact = fit.scores_of(VOTES.items)
    assert np.corrcoef(first, exact)[0, 1] > 0.99
    value, gradient = objective.evaluate(first)
    likelihood, items, _ = summed("scaled-logit", first, np.full((5, 1), 1.5))
    assert value == pytest.approx(0.15 * first @ first - likelihood, rel=1e-6)
    np.testing.assert_allclose(gradient, 0.3 * first - items, atol=1e-4)
    # The measure: how far the gradient alone would move a score, in units of the curvature.
    at, n = derivatives("scaled-logit", first, np.full((5, 1), 1.5))
    curvature = np.bincount(VOTES.first, -n * at.dd, 8) + np.bincount(VOTES.second, -n * at.dd, 8)
    expected = float(np.abs(gradient / (curvature + 0.3)).max())
    assert objective.largest_step(gradient) == pytest.approx(expected, rel=0.2)
    assert objective.largest_step(2.0 * gradient) == pytest.approx(2.0 * objective.largest_step(gradient))


def test_first_scores_of_items_that_always_win_or_lose_are_finite_and_mirror_images():
    others = [f"b{k}" for k in range(30)]
    votes = crowdsift.Comparisons.from_arrays(
        ["a"] * 30 + others, others + ["z"] * 30, worker=["v"] * 60, weight=[20.0] * 60
    )
    first = CommonSlope(choose_engine("cpu", votes, 1), penalty=1e-3, slope=2.0).first_scores()
    place = votes.items.tolist().index
    assert first[place("a")] == pytest.approx(np.log(9.0) / 2.0)  # a share of nine tenths at most
    assert first[place("z")] == pytest.approx(-np.log(9.0) / 2.0)
    np.testing.assert_allclose(first[[place(b) for b in others]], 0.0, atol=1e-6)


@pytest.mark.parametrize(("mean", "sd"), [(1.25, 0.7), (0.6, 2.0)])
def test_own_slopes_end_where_both_gradients_vanish(mean, sd):
    rule = StoppingRule("step", 1e-9, 99)
    scores, at, trace = minimise_with_slopes(ENGINE, penalty=1.0, mean=mean, sd=sd, rule=rule)
    value, items, workers = summed("scaled-logit", scores, at.slopes[:, None])
    assert rule.converged
    assert rule.iterations <= 12
    np.testing.assert_allclose(items, scores, atol=1e-6)
    np.testing.assert_allclose(workers[:, 0], (at.slopes - mean) / sd**2, atol=1e-6)
    prior = 0.5 * scores @ scores + 0.5 * np.sum((at.slopes - mean) ** 2) / sd**2
    assert trace[-1] == pytest.approx(prior - value, rel=1e-8)


@pytest.mark.parametrize("depth", [0, 5])
def test_em_ends_at_a_fixed_point_of_its_own_iteration(depth):
    rule = StoppingRule("change", 1e-10, 3000)
    total = float(VOTES.weight.sum())
    keys = {"total_weight": total, "alternations": 10, "item_ridge": 0.01, "worker_ridge": 1.0}
    state, trace = polya_gamma_em(ENGINE.em, np.linspace(-1, 1, 8), np.full(5, 0.8), **keys, rule=rule, depth=depth)
    assert rule.converged
    assert rule.iterations < (400 if depth == 0 else 60)
    assert len(trace) == rule.iterations + 1
    scores, slopes = state.scores, state.slopes
    assert scores.mean() == pytest.approx(0.0, abs=1e-12)
    assert np.sqrt(np.mean(scores**2)) == pytest.approx(1.0)
    value, _, _ = summed("scaled-logit", scores, slopes[:, None])
    assert trace[-1] == pytest.approx(value / total, rel=1e-6)
    # Once more by hand: E[ω], then ten times ridge solves for scores and slopes.
    d, y, n = scores[VOTES.first] - scores[VOTES.second], VOTES.outcome, VOTES.weight
    who = VOTES.worker_codes()
    eta = slopes[who] * d
    omega = n * np.where(np.abs(eta) < 1e-9, 0.25, np.tanh(eta / 2) / (2 * eta + (eta == 0)))
    shift = 0.01 * omega.sum() / total
    X = np.zeros((len(VOTES), 8))
    X[np.arange(len(VOTES)), VOTES.first] += 1.0
    X[np.arange(len(VOTES)), VOTES.second] -= 1.0
    r, beta = scores, slopes
    for _ in range(10):
        design = beta[who][:, None] * X
        normal = design.T @ (omega[:, None] * design) + shift * np.eye(8)
        r = np.linalg.solve(normal, design.T @ (n * (y - 0.5)))
        r = r - r.mean()
        d = X @ r
        top = np.bincount(who, n * (y - 0.5) * d, 5)
        beta = top / (np.bincount(who, omega * d**2, 5) + 1.0)
    size = np.sqrt(np.mean(r**2))
    np.testing.assert_allclose(r / size, scores, atol=2e-5)
    np.testing.assert_allclose(beta * size, slopes, atol=2e-5)


def test_em_of_votes_that_say_nothing_ends_at_zero():
    both = crowdsift.Comparisons.from_arrays(["a", "b"], ["b", "a"], worker=["v", "v"])
    rule = StoppingRule("change", 1e-6, 50)
    state, trace = polya_gamma_em(
        choose_engine("cpu", both, 1).em,
        np.zeros(2),
        np.ones(1),
        total_weight=2.0,
        alternations=10,
        item_ridge=0.01,
        worker_ridge=1.0,
        rule=rule,
    )
    assert (state.scores == 0).all()
    assert (state.slopes == 0).all()
    assert rule.converged
    assert state.solved  # no solve fell short of its tolerance
    assert trace[-1] == pytest.approx(np.log(0.5))


def test_em_of_two_items_has_its_scores_at_once():
    """Scores are ±1 from the first step on, which leaves no step to compare the next one with."""
    votes = crowdsift.Comparisons.from_arrays(list("aaab"), list("bbba"), worker=list("vvvv"))
    rule = StoppingRule("change", 1e-12, 500)
    state, trace = polya_gamma_em(
        choose_engine("cpu", votes, 1).em,
        np.array([1.0, -1.0]),
        np.array([0.1]),
        total_weight=4.0,
        alternations=1,
        item_ridge=1e-9,
        worker_ridge=1e-9,
        rule=rule,
        depth=0,
    )
    assert rule.converged
    assert rule.iterations > 2
    assert state.scores.tolist() == pytest.approx([1.0, -1.0], abs=1e-15)
    assert state.slopes[0] == pytest.approx(0.5 * np.log(3.0), rel=1e-6)  # σ(2β) = ¾
    assert trace[-1] == pytest.approx(0.75 * np.log(0.75) + 0.25 * np.log(0.25), rel=1e-9)


class Dense:
    """An operator that is a matrix; `diagonal` is what it is divided by."""

    def __init__(self, matrix, degrees):
        self.matrix, self.degrees, self.products = matrix, degrees, 0

    def multiply(self, v):
        self.products += 1
        return self.matrix @ v

    def diagonal(self):
        return self.degrees


@pytest.mark.parametrize("n", [5, 40, 200])
def test_the_spectral_start_is_the_leading_eigenvector(n):
    rng = np.random.default_rng(n)
    wanted = rng.normal(size=n)
    degrees = rng.uniform(0.2, 3.0, n)  # a light vote is less than one
    noise = rng.normal(size=(n, n)) / np.sqrt(n)
    matrix = 9.0 * np.outer(wanted, wanted) / n + 0.2 * (noise + noise.T)
    operator = Dense(matrix, degrees)
    found = spectral_scores(operator, n, tolerance=1e-8)
    root = np.sqrt(degrees)
    _, vectors = np.linalg.eigh(matrix / np.outer(root, root))
    expected = vectors[:, -1] / root
    expected -= expected.mean()
    expected /= np.sqrt(np.mean(expected**2))
    assert abs(found @ expected) / n == pytest.approx(1.0, abs=1e-6)
    assert found.mean() == pytest.approx(0.0, abs=1e-12)
    assert np.mean(found**2) == pytest.approx(1.0)
    assert operator.products <= min(60, n)
    rough = Dense(matrix, degrees)
    spectral_scores(rough, n)
    assert rough.products <= operator.products


@pytest.mark.parametrize("tolerance", [0.05, 1e-2, 1e-4])
def test_the_spectral_start_takes_hardly_more_steps_than_its_tolerance_needs(tolerance):
    """To a residual of so many times the eigenvalue, which is looked at every few steps."""
    n = 150
    root = np.linalg.qr(np.random.default_rng(3).normal(size=(n, n)))[0]
    root[:, 0] = 0.0
    root -= root.mean(axis=0)  # scores are centred, and so are these vectors
    root = np.linalg.qr(root[:, 1:])[0]
    matrix = (root * np.linspace(0.0, 1.0, n - 1)) @ root.T

    def residual(steps):
        operator = Dense(matrix, np.ones(n))
        x = spectral_scores(operator, n, steps=steps, tolerance=tolerance) / np.sqrt(n)
        value = x @ matrix @ x
        return float(np.linalg.norm(matrix @ x - value * x)) / value, operator.products

    found, products = residual(60)
    assert found <= 1.05 * tolerance
    assert products < 60
    assert residual(products - 5)[0] > 0.95 * tolerance


@pytest.mark.parametrize("n", [2, 3, 6, 7])
def test_with_as_many_steps_as_items_the_spectral_start_is_exact(n):
    """However close the next eigenvalue is: the vectors of all steps span everything."""
    for seed in range(4):
        root = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
        matrix = (root * np.linspace(1.0, 1.1, n)) @ root.T
        found = spectral_scores(Dense(matrix, np.ones(n)), n, tolerance=0.0)
        expected = root[:, -1] - root[:, -1].mean()
        expected /= np.sqrt(np.mean(expected**2))
        assert abs(found @ expected) / n == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("number", [1.0, 0.3])
def test_a_spectral_start_goes_no_further_than_there_are_directions(number):
    """Of a matrix that is a number times 1 any vector is an eigenvector, the first one too."""
    operator = Dense(number * np.eye(9), np.ones(9))
    found = spectral_scores(operator, 9)
    assert found is not None
    assert found.mean() == pytest.approx(0.0, abs=1e-12)
    assert np.mean(found**2) == pytest.approx(1.0)
    assert operator.products == 1


def test_no_spectral_start_without_correlations_or_votes():
    ones = np.ones(6)
    assert spectral_scores(Dense(np.zeros((6, 6)), ones), 6) is None
    assert spectral_scores(Dense(-np.eye(6), ones), 6) is None
    assert spectral_scores(Dense(np.eye(6), np.zeros(6)), 6) is None  # nobody voted
    some = np.array([1.0, 1.0, 0.0, 1.0])
    matrix = np.outer([1.0, -1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0])
    found = spectral_scores(Dense(matrix, some), 4)
    assert found[2] == pytest.approx(found[3], abs=1e-6)  # without votes: in the middle
    assert abs(found[0] - found[1]) > 2.0


@pytest.fixture(scope="module")
def many_minima():
    """Votes on which Newton's steps alone end in another minimum when a start moves by 1e-9."""
    votes = crowdsift.simulate(300, 200, 4000, reliability=(-1, 1), seed=3).comparisons()
    return choose_engine("cpu", votes, 1)


def crowd_bt(engine, truthful):
    return WorkerElimination(engine, "flipped-logit", 0.01, np.array([0.7]), (0.0, 1.0), truthful=truthful)


def test_rounding_does_not_decide_in_which_minimum_a_run_ends(many_minima):
    moved = 1e-9 * np.random.default_rng(5).standard_normal(300)
    ends, values = [], []
    for truthful in (1.0, None):
        for first in (np.zeros(300), moved):
            objective = crowd_bt(many_minima, truthful)
            rule = StoppingRule("gradient", 1e-9, 500)
            scores, trace = minimise_eliminated(objective, first, rule)
            assert rule.converged
            ends.append(scores - scores.mean())
            values.append(trace[-1])
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)
    assert np.abs(ends[2] - ends[3]).max() > 1.0  # what the steps of EM are for
    assert values[0] < min(values[2:])


def test_steps_of_em_go_downhill_from_anywhere(many_minima):
    """Also where the Hessian is far from positive, as at random scores."""
    for seed in range(5):
        objective = crowd_bt(many_minima, 1.0)
        objective.hold_workers = False
        x = 2.0 * np.random.default_rng(seed).standard_normal(300)
        before, gradient = objective.evaluate(x)
        step = objective.em_step(x)
        assert step @ gradient < 0.0
        after, _ = objective.evaluate(x + step)
        assert after < before
        # The step is Newton's for votes of which a share, as probable as it is now, is turned.
        laplacian = many_minima.slopes.curvature(x, np.ones(200)).laplacian
        np.testing.assert_allclose(
            laplacian.multiply(step) + 0.01 * step, -gradient, atol=2e-3 * float(np.linalg.norm(gradient))
        )
