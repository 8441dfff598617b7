"""What Newton's steps with workers eliminated ask of an engine, and what they make of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from reference_engine.links import LIKELIHOODS

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.solvers import elimination
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.elimination import WorkerElimination

VOTES = crowdsift.simulate(8, 5, 500, reliability=(0.3, 1.5), seed=2).comparisons()
ENGINE = choose_engine("reference", VOTES, 1)
SCORES = np.linspace(-1.0, 1.0, 8)


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
    np.testing.assert_allclose(objective.worker_variances(), np.diagonal(expected, axis1=1, axis2=2), rtol=1e-12)
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
    objective = WorkerElimination(engine, "flipped-logit", 0.3, np.array([0.7]), (0.0, 1.0), truthful=1.0)
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
)
def test_steps_of_em_end_where_f_no_longer_falls_or_newton_can_go_on(values, sizes, tolerance, most, ends, steps):
    script = Scripted(values, sizes)
    found = elimination._by_em(script, np.zeros(2), StoppingRule("gradient", tolerance, most))
    assert found.tolist() == [ends, ends]
    assert script.steps == steps


@pytest.mark.parametrize(("tolerance", "rough", "stage"), [(1e-8, 0.1, 1e-6), (1e-3, 0.1, 1e-3), (0.5, 0.5, 0.5)])
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


def test_parameters_that_are_given_are_not_held():
    """The first stage holds workers at parameters that are all alike; the next one begins with them free."""
    objective = SimpleNamespace(hold_workers=True)
    WorkerElimination.start_from(objective, theta := np.ones((3, 1)))
    assert objective._settled is theta
    assert not objective.hold_workers
