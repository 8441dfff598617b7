"""What the solvers of slopes ask of an engine on their way, and where their steps go."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.slopes import CommonSlope, SlopeScale, WorkerSlopes, minimise_with_slopes

VOTES = crowdsift.simulate(8, 5, 500, reliability=(0.3, 1.5), seed=2).comparisons()
SCORES = np.linspace(-1.0, 1.0, 8)


class SpiedSlopes:
    """Passes that write down where and how finely they are made, and from which slopes."""

    def __init__(self, inner):
        self._inner, self.asked = inner, []

    def profile(self, scores, slopes, prior=None, *, resolution=0.0):
        self.asked.append((scores, slopes, prior, resolution))
        return self._inner.profile(scores, slopes, prior, resolution=resolution)


def spied_engine(votes=VOTES):
    engine = choose_engine("reference", votes, 1)
    return SimpleNamespace(slopes=SpiedSlopes(engine.slopes), facts=engine.facts)


def test_passes_are_as_fine_as_the_step_that_is_expected():
    engine = spied_engine()
    objective = CommonSlope(engine, 0.3, slope=1.5, tolerance=1e-6)
    asked = engine.slopes.asked
    _, gradient = objective.evaluate(SCORES)
    assert [each[3] for each in asked] == [np.inf]
    assert (asked[0][1] == 1.5).all()
    largest = objective.largest_step(gradient)
    assert largest == pytest.approx(np.abs(gradient / (objective.at.hessian.diagonal() + 0.3)).max(), rel=1e-12)
    objective.evaluate(SCORES + 0.05)
    assert asked[-1][3] == pytest.approx(0.1 * largest**2, rel=1e-12)
    # Converged by a rough pass: looked at once more, finely.
    best = SCORES
    for _ in range(12):
        best = best + objective.step(np.inf, 1e-10).x
        objective.evaluate(best)
    asked.clear()
    fresh = CommonSlope(engine, 0.3, slope=1.5, tolerance=1e-6)
    fresh.evaluate(best)
    assert [each[3] for each in asked] == [np.inf, 0.1 * 1e-6]
    fresh.evaluate(best)
    assert [each[3] for each in asked[2:]] == [0.1 * 1e-6]  # fine already


def test_the_diagonal_is_taken_anew_after_a_step_of_a_tenth():
    objective = CommonSlope(spied_engine(), 0.3)
    one = np.ones(8)
    for at, same in ((SCORES, False), (1.099 * SCORES, True), (1.101 * SCORES, False)):
        _, gradient = objective.evaluate(at)
        measured = objective.largest_step(2.0 * gradient) / 2.0
        fresh = np.abs(gradient / (objective.at.hessian.diagonal() + 0.3)).max()
        assert (measured != pytest.approx(fresh, rel=1e-12)) is same
        assert objective.largest_step(gradient) == pytest.approx(measured, rel=1e-15)
    assert objective.workers() is None
    before = objective.profile(one * 3.0)  # elsewhere: a pass
    assert objective.profile(objective._x) is before  # here: none


def test_first_scores_are_logits_of_the_shares_that_a_linear_step_says():
    engine = spied_engine()
    objective = CommonSlope(engine, 0.3, slope=1.5)
    first = objective.first_scores()
    other = CommonSlope(engine, 0.3, slope=1.5)
    other.evaluate(np.zeros(8))
    linear = other.step(np.inf, 0.1).x
    share = np.clip(0.5 + 0.25 * 1.5 * linear, 0.1, 0.9)
    np.testing.assert_allclose(first, np.log(share / (1 - share)) / 1.5, rtol=1e-12)
    strong = CommonSlope(engine, 1e-6, slope=40.0).first_scores()
    assert np.abs(strong).max() <= np.log(9.0) / 40.0 * (1 + 1e-12)


class Dense:
    """A prior that is no multiple of the identity, as features of items make it."""

    level = 0.3
    matrix = np.diag(np.linspace(1.0, 3.0, 8)) + np.outer(np.sin(np.arange(8)), np.cos(range(8)))
    matrix = matrix @ matrix.T

    def times(self, v):
        return self.matrix @ v

    def diagonal(self):
        return np.diag(self.matrix)


def test_steps_are_newtons_with_any_prior():
    for prior, matrix in ((0.3, 0.3 * np.eye(8)), (Dense(), Dense.matrix)):
        objective = CommonSlope(spied_engine(), prior)
        _, gradient = objective.evaluate(SCORES)
        hessian = matrix + np.array([objective.at.hessian.multiply(e) for e in np.eye(8)])
        np.testing.assert_allclose(gradient, matrix @ SCORES - objective.at.gradient, rtol=1e-12)
        step = objective.step(np.inf, 1e-12)
        np.testing.assert_allclose(step.x, np.linalg.solve(hessian, -gradient), rtol=1e-6)
        assert step.expected == pytest.approx(-0.5 * gradient @ step.x, rel=1e-6)


def test_levels_of_islands_are_what_the_prior_alone_holds():
    islands = crowdsift.Comparisons.from_arrays(list("aabxy"), list("bcczz"), worker=list("vwvwv"))
    objective = CommonSlope(spied_engine(islands), 0.5)
    v, out = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0]), np.ones(6)
    objective._levels(v, out)
    np.testing.assert_allclose(out, 1.0 + np.array([6.0] * 3 + [18.0] * 3) / (0.5 * 3))
    whole, out = CommonSlope(spied_engine(), 0.5), np.ones(8)
    whole._levels(SCORES + 1.0, out)
    np.testing.assert_allclose(out, 1.0 + 8.0 / (0.5 * 8))


def test_own_slopes_are_settled_from_where_the_last_step_began():
    engine = spied_engine()
    objective = WorkerSlopes(engine, 1.0, mean=0.9, sd=0.5, tolerance=1e-8)
    value, _ = objective.evaluate(SCORES)
    _, start, prior, _ = engine.slopes.asked[0]
    assert (start == 0.9).all()
    assert prior == (0.9, 4.0, 1e-3)
    at = objective.at
    expected = 0.5 * SCORES @ SCORES + 2.0 * np.sum((at.slopes - 0.9) ** 2) - at.value
    assert value == pytest.approx(expected, rel=1e-12)
    objective.step(0.1, 1e-3)  # within a region: the scale stays as it is
    assert objective.workers() is at.slopes
    objective.start_from(np.full(5, 1.1))
    objective.evaluate(SCORES)
    assert (engine.slopes.asked[-1][1] == 1.1).all()


@pytest.mark.parametrize("factor", [0.2, 1.5])
def test_a_step_goes_to_the_best_scale_where_that_is_elsewhere(factor):
    """Scores a fifth as large as they should be, or larger: what is across them is kept."""
    engine = spied_engine()
    rule = StoppingRule("step", 1e-10, 60)
    best, _, _ = minimise_with_slopes(engine, penalty=1.0, mean=0.9, sd=0.5, rule=rule)
    objective = WorkerSlopes(engine, 1.0, mean=0.9, sd=0.5)
    small = factor * best
    objective.evaluate(small)
    plain = objective.step(1e9, 1e-10).x  # a region, if a wide one: Newton's own
    assert objective.workers() is objective.at.slopes
    step = objective.step(np.inf, 1e-10)
    taken = 1.0 + small @ plain / (small @ small)
    across = (small + plain) / taken
    scale = SlopeScale(objective.at.slopes, objective.at.curvature, 0.9, 4.0)
    wanted = scale.best(float(across @ across))
    assert abs(wanted - taken) > 0.02
    assert bool(taken > 1.0) is (factor < 1.0)
    np.testing.assert_allclose(small + step.x, wanted * across, rtol=1e-6)
    np.testing.assert_allclose(objective.workers(), scale.slopes_at(wanted), rtol=1e-12)
    far = [float((small + each) @ best / (best @ best)) - 1.0 for each in (plain, step.x)]
    assert abs(far[1]) < abs(far[0])
    objective.evaluate(best)  # at the best scale nothing is replaced
    objective.step(np.inf, 1e-8)
    assert objective.workers() is objective.at.slopes


def test_a_run_that_was_cut_short_goes_on_from_its_scores_and_slopes():
    engine = spied_engine()
    rule = StoppingRule("step", 1e-9, 60)
    scores, at, _ = minimise_with_slopes(engine, penalty=1.0, mean=0.9, sd=0.5, rule=rule)
    engine.slopes.asked.clear()
    again = StoppingRule("step", 1e-6, 60)
    minimise_with_slopes(engine, penalty=1.0, mean=0.9, sd=0.5, rule=again, start=(scores, at.slopes))
    assert again.iterations == 0
    assert engine.slopes.asked[0][0] is scores
    assert engine.slopes.asked[0][1] is at.slopes


def test_from_scores_of_nothing_there_is_a_step_downhill():
    """At 0 there is no direction along the scores, and its curvature is 0."""
    objective = WorkerSlopes(choose_engine("reference", VOTES, 1), 0.3, 1.5, 0.1)
    value, gradient = objective.evaluate(np.zeros(8))
    step = objective.step(np.inf, 1e-10).x
    assert np.isfinite(step).all()
    assert step @ gradient < 0.0
    assert objective.evaluate(step)[0] < value
    # Newton's on the Schur complement: where all differences are 0, slopes bend by their prior.
    n, y, who = VOTES.weight.astype(float), VOTES.outcome.astype(float), VOTES.worker_codes()
    X = np.eye(8)[VOTES.first] - np.eye(8)[VOTES.second]
    B = np.zeros((8, 5))
    np.add.at(B.T, who, -(n * (y - 0.5))[:, None] * X)
    schur = 1.5**2 / 4.0 * X.T @ (n[:, None] * X) + 0.3 * np.eye(8) - 0.1**2 * B @ B.T
    np.testing.assert_allclose(step, np.linalg.solve(schur, -gradient), rtol=1e-6)
