"""What solvers ask of an engine on their way: how finely, how often, and what they make of it."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.numeric.extrapolation import Anderson
from crowdsift.numeric.likelihoods import LIKELIHOODS
from crowdsift.solvers import elimination, em
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.elimination import WorkerElimination

VOTES = crowdsift.simulate(8, 5, 500, reliability=(0.3, 1.5), seed=2).comparisons()
ENGINE = choose_engine("reference", VOTES, 1)
SCORES = np.linspace(-1.0, 1.0, 8)


def rms(x):
    return float(np.sqrt(np.mean(x**2)))


# --- EM ----------------------------------------------------------------------------------------


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
            log_likelihood=inner.log_likelihood, precision=inner.precision,
            system=system(inner.system), regress=regress,
        )  # fmt: skip


def run_em(rule, depth, spy=None, alternations=3):
    spy = spy or SpiedEM()
    state, trace = em.polya_gamma_em(
        spy, SCORES / rms(SCORES), np.full(5, 0.8), total_weight=500.0, alternations=alternations,
        item_ridge=0.01, worker_ridge=0.7, rule=rule, depth=depth,
    )  # fmt: skip
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
        jumps = [
            np.abs(b[0] - a[0]).max() for a, b in zip(spy.points, spy.points[1:], strict=False)
        ]
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
    by_hand = em.alternate(
        em.EMState(SCORES, np.full(5, 0.8), plain), 2, shift=0.1, ridge=0.7, tolerance=1e-9
    )
    answer, asked = None, []

    def alternate(*given):
        asked.append(given)
        return answer

    fused = SimpleNamespace(
        system=plain.system, regress=plain.regress, log_likelihood=0.0, precision=1.0,
        alternate=alternate,
    )  # fmt: skip
    state = em.EMState(SCORES, np.full(5, 0.8), fused)
    keys = {"shift": 0.1, "ridge": 0.7, "tolerance": 1e-9}
    declined = em.alternate(state, 2, **keys)  # the answer is None: done here
    np.testing.assert_array_equal(declined[0], by_hand[0])
    np.testing.assert_array_equal(declined[1], by_hand[1])
    answer = (SCORES + 1.0, np.ones(5), False)
    assert em.alternate(state, 2, **keys) is answer
    assert asked == [(state.scores, 2, 0.1, 0.7, 1e-9)] * 2


# --- workers eliminated ------------------------------------------------------------------------


class SpiedLikelihood:
    """Passes that write down how closely workers are to be settled."""

    def __init__(self, inner):
        self._inner, self.tolerances = inner, []

    def fit_workers(self, *given, **named):
        self.tolerances.append(named["tolerance"])
        return self._inner.fit_workers(*given, **named)

    def derivatives(self, *given):
        return self._inner.derivatives(*given)


def objective_of(likelihood="scaled-logit", penalty=0.1, bounds=(-np.inf, np.inf)):
    spied = SpiedLikelihood(ENGINE.likelihood)
    engine = SimpleNamespace(likelihood=spied, facts=ENGINE.facts)
    return WorkerElimination(engine, likelihood, penalty, np.array([0.8]), bounds), spied


def test_workers_are_settled_as_closely_as_the_gradient_is_small():
    objective, spied = objective_of()
    objective.hold_workers = False
    _, steep = objective.evaluate(SCORES)
    objective.evaluate(SCORES)
    rule = StoppingRule("gradient", 1e-9, 60)
    best, _ = elimination.minimise_eliminated(objective, SCORES, rule)
    spied.tolerances[2:] = []
    _, flat = objective.evaluate(best)
    objective.evaluate(best + 0.01)
    assert np.abs(steep).max() > 0.1
    assert spied.tolerances[:2] == [1e-12, 1e-6]  # nothing known yet; far from the end
    _, near = objective.evaluate(best + 1e-3 * SCORES)
    assert 1e-7 < np.abs(near).max() < 0.1
    objective.evaluate(best)
    assert spied.tolerances[-1] == pytest.approx(1e-5 * np.abs(near).max(), rel=1e-12)
    assert np.abs(flat).max() < 1e-6


@pytest.mark.parametrize("bounded", [False, True])
def test_a_step_is_newtons_on_the_schur_complement(bounded):
    """Written out in NumPy; workers at a bound, or held, have no part in it."""
    objective, _ = objective_of()
    best, _ = elimination.minimise_eliminated(objective, SCORES, StoppingRule("gradient", 1e-6, 60))
    low, second, *_, last, high = np.sort(objective.theta[:, 0])
    bounds = ((low + second) / 2, (last + high) / 2) if bounded else (-np.inf, np.inf)
    objective, _ = objective_of(bounds=bounds)
    x = best + 0.02 * SCORES
    for held in (True, False):
        objective.hold_workers = held
        value, gradient = objective.evaluate(x)
        theta, who = objective.theta, VOTES.worker_codes()
        d = x[VOTES.first] - x[VOTES.second]
        n, y = VOTES.weight.astype(float), VOTES.outcome.astype(float)
        at = LIKELIHOODS["scaled-logit"](d, theta[who], np.zeros((len(VOTES), 0)), y)
        X = np.zeros((len(VOTES), 8))
        X[np.arange(len(VOTES)), VOTES.first] += 1.0
        X[np.arange(len(VOTES)), VOTES.second] -= 1.0
        A = -X.T @ ((n * at.dd)[:, None] * X)
        B = np.zeros((8, 5))
        np.add.at(B.T, who, -(n * at.dt[:, 0])[:, None] * X)
        D = np.bincount(who, -n * at.tt[:, 0, 0], 5) + 0.1
        free = (theta[:, 0] > bounds[0]) & (theta[:, 0] < bounds[1])
        part = np.where(free & (not held), 1.0 / D, 0.0)
        schur = A - (B * part) @ B.T + 0.1 * np.eye(8)
        step = objective.step(np.inf, 1e-12)
        np.testing.assert_allclose(step.x, np.linalg.solve(schur, -gradient), rtol=1e-6)
        drift = float(np.sum((theta - 0.8) ** 2))
        likelihood = float(n @ at.value)
        assert objective.log_likelihood == pytest.approx(likelihood, rel=1e-12)
        prior = 0.05 * x @ x + 0.05 * drift
        assert value == pytest.approx(prior - likelihood, rel=1e-12)
        assert objective.workers() is theta
        assert held or free.sum() == (3 if bounded else 5)


def test_a_step_taken_back_costs_no_pass_and_finds_everything_as_it_was():
    """Unless the penalty of workers changed, or they are no longer held: then F is another."""
    objective, spied = objective_of()
    objective.hold_workers = False
    value, gradient = objective.evaluate(SCORES)
    theta, likelihood = objective.theta, objective.log_likelihood
    step = objective.step(np.inf, 1e-12).x
    assert objective.evaluate(SCORES + 5.0 * step)[0] != value
    again, same = objective.evaluate(SCORES)
    assert (again, same is gradient, objective.theta is theta) == (value, True, True)
    assert objective.log_likelihood == likelihood
    np.testing.assert_array_equal(objective.step(np.inf, 1e-12).x, step)
    assert len(spied.tolerances) == 2
    assert objective.evaluate(SCORES.copy())[0] == pytest.approx(value, rel=1e-12)
    assert len(spied.tolerances) == 3
    objective.worker_penalty *= 10.0
    heavier, _ = objective.evaluate(SCORES)
    assert heavier > value + 1e-6
    assert len(spied.tolerances) == 4
    objective.hold_workers = True
    assert objective.evaluate(SCORES)[0] == pytest.approx(heavier, rel=1e-12)


def test_inverses_of_blocks_of_any_size():
    assert elimination._inverses(np.array([[[4.0]], [[0.0]]])).ravel().tolist() == [0.25, 1e12]
    assert elimination._inverses(np.zeros((3, 0, 0))).shape == (3, 0, 0)
    two = np.array([[[2.0, 1.0], [1.0, 3.0]]])
    np.testing.assert_allclose(elimination._inverses(two)[0] @ two[0], np.eye(2), atol=1e-15)


def test_workers_of_two_parameters_are_eliminated_by_their_blocks():
    engine = SimpleNamespace(likelihood=None, facts=ENGINE.facts)
    engine.likelihood = SpiedLikelihood(ENGINE.likelihood)
    objective = WorkerElimination(engine, "led-logit", 0.5, np.array([0.7, 0.2]), (0.0, 1.0))
    root = np.random.default_rng(1).normal(size=(5, 2, 2))
    blocks = root @ root.transpose(0, 2, 1)
    theta = np.array([[0.5, 0.5], [0.0, 0.5], [0.5, 1.0], [0.4, 0.3], [1.0, 0.0]])
    objective._last = SimpleNamespace(theta=theta, curvature=SimpleNamespace(blocks=blocks))
    assert (objective._inverse_blocks() == 0.0).all()  # held
    objective.hold_workers = False
    expected = np.linalg.inv(blocks + 0.5 * np.eye(2))
    np.testing.assert_allclose(
        objective.worker_variances(), np.diagonal(expected, axis1=1, axis2=2), rtol=1e-12
    )
    expected[[1, 2, 4]] = 0.0  # at a bound
    np.testing.assert_allclose(objective._inverse_blocks(), expected, rtol=1e-12)


def test_a_step_of_em_is_solved_with_all_votes_true():
    asked = {}

    class Passes(SpiedLikelihood):
        def derivatives(self, likelihood, x, theta):
            made = super().derivatives(likelihood, x, theta)
            if not (theta == 1.0).all():
                return made

            def solve(rhs, first, **options):
                asked.update(options, rhs=rhs, first=first)
                return SimpleNamespace(x=SCORES)

            def reduced(inverse):
                assert inverse is None
                return SimpleNamespace(solve=solve)

            return SimpleNamespace(hessian=SimpleNamespace(reduced=reduced))

    engine = SimpleNamespace(likelihood=Passes(ENGINE.likelihood), facts=ENGINE.facts)
    objective = WorkerElimination(
        engine, "flipped-logit", 0.3, np.array([0.7]), (0.0, 1.0), truthful=1.0
    )
    _, gradient = objective.evaluate(SCORES)
    assert objective.em_step(SCORES) is SCORES
    assert not objective.hold_workers  # from now on they are free
    assert (asked["shift"], asked["tolerance"], asked["most"]) == (0.3, 1e-6, 1000)
    np.testing.assert_array_equal(asked["rhs"], -gradient)
    assert asked["first"].tolist() == [0.0] * 8


class Scripted:
    """An objective whose values and gradients are given, with steps of 1."""

    def __init__(self, values, sizes):
        self._values, self._sizes, self.steps = values, sizes, 0

    def evaluate(self, x):
        number = int(x[0])
        return self._values(number), np.array([self._sizes(number), 0.0])

    def em_step(self, x):
        self.steps += 1
        return np.ones(2)


@pytest.mark.parametrize(
    ("values", "sizes", "tolerance", "most", "ends", "steps"),
    [
        (lambda k: -k, lambda k: 1.0, 1e-6, 500, 100, 101),  # a hundred steps at most
        (lambda k: -k, lambda k: 1.0, 1e-6, 5, 5, 6),  # or as many as the rule allows
        (lambda k: -k if k < 3 else 0.0, lambda k: 1.0, 1e-6, 500, 2, 3),  # it rises
        (lambda k: -min(k, 2), lambda k: 1.0, 1e-6, 500, 2, 3),  # or stays
        (lambda k: np.nan if k else 0.0, lambda k: 1.0, 1e-6, 500, 0, 1),
        (lambda k: -k, lambda k: 0.01 if k == 4 else 0.011, 1e-6, 500, 4, 4),  # Newton's turn
        (lambda k: -k, lambda k: 0.5, 0.5, 500, 1, 1),
        (lambda k: -k, lambda k: 0.0, 1e-6, 500, 1, 1),  # one step at least
        (lambda k: -k, lambda k: -2.0, 0.5, 3, 3, 4),  # the size counts, not the sign
    ],
)  # fmt: skip
def test_steps_of_em_end_where_f_no_longer_falls_or_newton_can_go_on(
    values, sizes, tolerance, most, ends, steps
):
    script = Scripted(values, sizes)
    found = elimination._by_em(script, np.zeros(2), StoppingRule("gradient", tolerance, most))
    assert found.tolist() == [ends, ends]
    assert script.steps == steps


@pytest.mark.parametrize(
    ("tolerance", "rough", "stage"), [(1e-8, 0.1, 1e-6), (1e-3, 0.1, 1e-3), (0.5, 0.5, 0.5)]
)
def test_stages_fall_to_the_penalty_itself(tolerance, rough, stage, monkeypatch):
    asked = []

    def minimise(objective, scores, rule):
        asked.append((objective.hold_workers, objective.worker_penalty, rule.tolerance, rule.most))
        return scores + 1.0, [float(len(asked))]

    monkeypatch.setattr(elimination, "minimise", minimise)
    objective, _ = objective_of(penalty=0.1)
    rule = StoppingRule("gradient", tolerance, 300)
    scores, trace = elimination.minimise_eliminated(objective, np.zeros(8), rule, (100.0, 10.0))
    assert asked == [
        (True, 0.1, rough, 20),
        (False, 10.0, stage, 300),
        (False, 1.0, stage, 300),
        (False, 0.1, tolerance, 300),
    ]
    assert scores.tolist() == [4.0] * 8
    assert trace == [4.0]
