"""What EM asks of an engine on its way: how finely, how often, and what it makes of it."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.solvers import em
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.ep.workers import Anderson

VOTES = crowdsift.simulate(8, 5, 500, reliability=(0.3, 1.5), seed=2).comparisons()
ENGINE = choose_engine("reference", VOTES, 1)
SCORES = np.linspace(-1.0, 1.0, 8)


def rms(x):
    return float(np.sqrt(np.mean(x**2)))


class SpiedEM:
    """EM passes that write down what is asked of them."""

    def __init__(self, converged=lambda number: True):
        self.points, self.resolutions, self.solves, self.ridges = [], [], [], []
        self.values, self.precisions, self._converged = [], [], converged

    def e_step(self, scores, slopes, *, resolution=0.0):
        inner = ENGINE.em.e_step(scores, slopes, resolution=resolution)
        self.points.append((scores, slopes))
        self.resolutions.append(resolution)
        self.values.append(inner.log_likelihood)
        self.precisions.append(inner.precision)

        def system(made):
            return SimpleNamespace(laplacian=SimpleNamespace(solve=solver(made)), rhs=made.rhs)

        def solver(made):
            def solve(rhs, first, *, shift, tolerance):
                self.solves.append((len(self.points), shift, tolerance))
                found = made.laplacian.solve(rhs, first, shift=shift, tolerance=tolerance)
                return SimpleNamespace(x=found.x, converged=self._converged(len(self.solves)))

            return solve

        def regress(given, ridge):
            self.ridges.append(ridge)
            found, made = inner.regress(given, ridge)
            return found, system(made)

        return SimpleNamespace(
            log_likelihood=inner.log_likelihood, precision=inner.precision, system=system(inner.system), regress=regress
        )


def run_em(rule, depth, spy=None, alternations=3):
    spy = spy or SpiedEM()
    state, trace = em.polya_gamma_em(
        spy,
        SCORES / rms(SCORES),
        np.full(5, 0.8),
        total_weight=500.0,
        alternations=alternations,
        item_ridge=0.01,
        worker_ridge=0.7,
        rule=rule,
        depth=depth,
    )
    return spy, state, trace


@pytest.mark.parametrize("depth", [0, 5])
def test_em_holds_one_e_step_at_a_time(depth):
    """Its arrays, numbers of every vote, are there for the next one."""

    class Counted:
        def __init__(self):
            self.made = []

        def e_step(self, scores, slopes, *, resolution=0.0):
            assert all(one() is None for one in self.made)
            found = ENGINE.em.e_step(scores, slopes, resolution=resolution)
            self.made.append(weakref.ref(found))
            return found

    spy, state, _ = run_em(StoppingRule("change", 1e-7, 60), depth, Counted())
    assert len(spy.made) > 3
    assert spy.made[-1]() is state.e_step


@pytest.mark.parametrize("tolerance", [1e-7, 9e-8])
def test_plain_em_asks_for_what_the_last_step_was_worth(tolerance):
    """And below 1e-7 its measure is where a geometric series of its steps would end, too."""
    rule = StoppingRule("change", tolerance, 60)
    spy, state, trace = run_em(rule, depth=0)
    steps = [rms(b[0] - a[0]) for a, b in zip(spy.points, spy.points[1:], strict=False)]
    for number, (e_step, shift, solved_to) in enumerate(spy.solves):
        last = 1.0 if e_step == 1 else steps[e_step - 2]
        assert solved_to == pytest.approx(min(max(0.01 * last, 1e-12), 1e-3), rel=1e-12)
        assert shift == pytest.approx(0.01 * spy.precisions[e_step - 1] / 500.0, rel=1e-12)
        assert number // 3 == e_step - 1  # so many alternations an iteration
    assert set(spy.resolutions) == {tolerance}
    assert set(spy.ridges) == {0.7}
    np.testing.assert_allclose(trace, np.array(spy.values) / 500.0, rtol=1e-12)
    moved = np.abs(np.diff(trace))
    expected = moved
    if tolerance < 1e-7:
        jumps = [np.abs(b[0] - a[0]).max() for a, b in zip(spy.points, spy.points[1:], strict=False)]
        ratio = np.minimum(np.array(steps) / np.array([1.0, *steps[:-1]]), 0.999)
        expected = np.maximum(moved, np.array(jumps) / (1.0 - ratio))
    np.testing.assert_allclose(rule.history, expected, rtol=1e-9)
    assert state.solved
    iterate = rule.iterate()
    assert iterate["scores"] is state.scores
    assert iterate["workers"] is state.slopes


def test_accelerated_em_counts_two_small_moves_and_stays_centred_and_of_size_one():
    rule = StoppingRule("change", 1e-6, 60)
    spy, _, trace = run_em(rule, depth=5)
    moved = np.abs(np.diff(trace))
    np.testing.assert_allclose(rule.history, np.maximum(moved, [0.0, *moved[:-1]]), rtol=1e-12)
    for scores, _ in spy.points[1:]:
        assert scores.mean() == pytest.approx(0.0, abs=1e-14)
        assert rms(scores) == pytest.approx(1.0)
    plain = StoppingRule("change", 1e-6, 60)
    run_em(plain, depth=0)
    assert rule.iterations < plain.iterations
    fine = StoppingRule("change", 9e-8, 60)
    spy, _, trace = run_em(fine, depth=5)
    jumps = [np.abs(b[0] - a[0]).max() for a, b in zip(spy.points, spy.points[1:], strict=False)]
    moved = np.abs(np.diff(trace))
    expected = np.maximum(np.maximum(moved, [0.0, *moved[:-1]]), jumps)
    np.testing.assert_allclose(fine.history, expected, rtol=1e-9)


@pytest.mark.parametrize(("failing", "solved"), [((), True), ((1,), False), ((3,), False)])
def test_a_solve_that_does_not_converge_is_remembered(failing, solved):
    """Of the last iteration, whichever of its solves it was."""
    spy = SpiedEM(lambda number: (number - 1) % 3 + 1 not in failing)
    _, state, _ = run_em(StoppingRule("change", 0.0, 2), 0, spy)
    assert state.solved is solved


def test_a_proposal_without_size_is_not_taken():
    class Nothing(Anderson):
        def propose(self, point, image):
            return np.zeros_like(image)

    scores, slopes = np.array([1.0, -1.0]), np.array([0.5])
    point = np.array([0.9, -0.9, 0.4])
    found = em._accelerate(Nothing(5), point, scores, slopes)
    assert found[0] is scores
    assert found[1] is slopes

    class Moved(Anderson):
        def propose(self, point, image):
            return np.array([1.0, 0.0, 3.0])  # mean ½, then ½ and -½: size ½

    found = em._accelerate(Moved(5), point, scores, slopes)
    assert [each.tolist() for each in found] == [[1.0, -1.0], [1.5]]


def test_an_m_step_in_one_call_is_used_where_there_is_one():
    plain = ENGINE.em.e_step(SCORES, np.full(5, 0.8))
    by_hand = em.alternate(em.EMState(SCORES, np.full(5, 0.8), plain), 2, shift=0.1, ridge=0.7, tolerance=1e-9)
    answer, asked = None, []

    def alternate(*given):
        asked.append(given)
        return answer

    fused = SimpleNamespace(
        system=plain.system, regress=plain.regress, log_likelihood=0.0, precision=1.0, alternate=alternate
    )
    state = em.EMState(SCORES, np.full(5, 0.8), fused)
    keys = {"shift": 0.1, "ridge": 0.7, "tolerance": 1e-9}
    declined = em.alternate(state, 2, **keys)  # the answer is None: done here
    np.testing.assert_array_equal(declined[0], by_hand[0])
    np.testing.assert_array_equal(declined[1], by_hand[1])
    answer = (SCORES + 1.0, np.ones(5), False)
    assert em.alternate(state, 2, **keys) is answer
    assert asked == [(state.scores, 2, 0.1, 0.7, 1e-9)] * 2
