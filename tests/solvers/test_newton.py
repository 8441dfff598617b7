"""Newton's method in a trust region, on functions whose minima are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.newton import NewtonStep, _forcing, _largest, minimise


class Function:
    """A function with its gradient and Hessian, solved by conjugate gradients as ours are."""

    def __init__(self, value, gradient, hessian):
        self._value, self._gradient, self._hessian = value, gradient, hessian
        self.steps = []  # radius and tolerance that were asked for
        self.points = []

    def evaluate(self, x):
        self.x = x
        self.points.append(x)
        return self._value(x), self._gradient(x)

    def step(self, radius, tolerance):
        self.steps.append((radius, tolerance))
        hessian = self._hessian(self.x)
        diagonal = np.maximum(np.diag(hessian), 1e-3)
        gradient = self._gradient(self.x)
        return NewtonStep.solve(lambda v: hessian @ v, gradient, diagonal, radius, tolerance)


def quadratic(matrix, centre):
    return Function(
        lambda x: 0.5 * (x - centre) @ matrix @ (x - centre), lambda x: matrix @ (x - centre), lambda x: matrix
    )


def rosenbrock():
    return Function(
        lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2,
        lambda x: np.array([-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)]),
        lambda x: np.array([[1200 * x[0] ** 2 - 400 * x[1] + 2, -400 * x[0]], [-400 * x[0], 200]]),
    )


def test_a_step_knows_its_gain_and_its_length():
    matrix = np.array([[4.0, 1.0], [1.0, 3.0]])
    gradient, diagonal = np.array([1.0, -2.0]), np.array([4.0, 3.0])
    inside = NewtonStep.solve(lambda v: matrix @ v, gradient, diagonal, np.inf, 1e-12)
    np.testing.assert_allclose(inside.x, np.linalg.solve(matrix, -gradient), rtol=1e-9)
    for radius, bound in ((np.inf, False), (0.1, True)):
        step = NewtonStep.solve(lambda v: matrix @ v, gradient, diagonal, radius, 1e-12)
        model = gradient @ step.x + 0.5 * step.x @ matrix @ step.x
        assert step.expected == pytest.approx(-model, rel=1e-12)
        assert step.length == pytest.approx(np.sqrt(diagonal @ step.x**2), rel=1e-12)
        assert step.at_boundary is bound
    assert step.length == pytest.approx(0.1)


def test_a_quadratic_takes_steps_to_its_centre_and_never_rises():
    matrix, centre = np.diag([1.0, 10.0, 100.0]) + 0.5, np.array([1.0, -2.0, 3.0])
    function = quadratic(matrix, centre)
    rule = StoppingRule("gradient", 1e-9, 50)
    x, trace = minimise(function, np.zeros(3), rule)
    np.testing.assert_allclose(x, centre, atol=1e-9)
    assert rule.converged
    assert len(trace) == rule.iterations + 1 <= 9
    assert all(after <= before for before, after in itertools.pairwise(trace))
    assert all(np.isinf(radius) for radius, _ in function.steps)


def test_a_bent_valley_is_followed_to_its_end():
    rule = StoppingRule("gradient", 1e-8, 100)
    function = rosenbrock()
    x, trace = minimise(function, np.array([-1.2, 1.0]), rule)
    np.testing.assert_allclose(x, [1.0, 1.0], atol=1e-7)
    assert rule.converged
    assert rule.iterations < 40
    assert all(after <= before for before, after in itertools.pairwise(trace))
    assert any(np.isfinite(radius) for radius, _ in function.steps)


def test_a_start_that_is_good_enough_is_kept():
    rule = StoppingRule("gradient", 1e-3, 50)
    x, trace = minimise(quadratic(np.eye(2), np.zeros(2)), np.array([1e-4, 0.0]), rule)
    assert (x.tolist(), len(trace), rule.iterations) == ([1e-4, 0.0], 1, 0)


def test_a_step_that_breaks_its_promise_is_taken_back_and_the_region_shrinks():
    """|x|^1.5 near 0: Newton's step -2x goes as far beyond 0 and gains nothing."""
    function = Function(
        lambda x: float(np.abs(x[0]) ** 1.5),
        lambda x: 1.5 * np.sign(x) * np.sqrt(np.abs(x)),
        lambda x: np.array([[0.75 / np.sqrt(np.abs(x[0]))]]),
    )
    x, trace = minimise(function, np.array([1.0]), StoppingRule("gradient", 1e-3, 60))
    assert abs(x[0]) < 1e-6
    assert trace[1] == trace[0]  # taken back
    first, second = function.steps[:2]
    assert np.isinf(first[0])
    # A quarter of the step's length: |-2| in the norm of the diagonal .75.
    assert second[0] == pytest.approx(0.25 * 2.0 * np.sqrt(0.75))
    assert function.points[2][0] == 1.0  # the curvature is that of where it went back to


def test_a_region_that_held_a_good_step_back_grows_to_twice_its_length():
    """A hill of negative curvature first, then a bowl: the boundary is met while steps gain."""
    function = Function(
        lambda x: float(np.log1p((x[0] - 10.0) ** 2)),
        lambda x: 2 * (x - 10.0) / (1 + (x - 10.0) ** 2),
        lambda x: np.array([[2 * (1 - (x[0] - 10) ** 2) / (1 + (x[0] - 10) ** 2) ** 2]]),
    )
    rule = StoppingRule("gradient", 1e-9, 60)
    x, _trace = minimise(function, np.array([0.0]), rule)
    assert x[0] == pytest.approx(10.0, abs=1e-6)
    assert rule.converged
    radii = [radius for radius, _ in function.steps if np.isfinite(radius)]
    assert any(after == pytest.approx(2 * before) for before, after in itertools.pairwise(radii))


def test_a_promise_that_drowns_in_rounding_is_taken_while_the_gradient_falls():
    """A value of 1e9 hides gains below 1e-7; the gradient still says where the centre is."""
    plain = quadratic(np.eye(2), np.array([1e-4, -1e-4]))
    lifted = Function(lambda x: 1e9 + plain._value(x), plain._gradient, plain._hessian)
    rule = StoppingRule("gradient", 1e-10, 20)
    x, _ = minimise(lifted, np.zeros(2), rule)
    np.testing.assert_allclose(x, [1e-4, -1e-4], atol=1e-10)
    assert rule.converged


def test_iterations_end_where_the_rule_says_or_nothing_moves():
    rule = StoppingRule("gradient", 0.0, 7)
    minimise(rosenbrock(), np.array([-1.2, 1.0]), rule)
    assert (rule.iterations, rule.converged) == (7, False)
    # A gradient that points the wrong way: no step gains, the region shrinks to nothing.
    wrong = Function(lambda x: float(x @ x), lambda x: -2 * x - 1.0, lambda x: np.eye(2))
    rule = StoppingRule("gradient", 1e-9, 1000)
    x, trace = minimise(wrong, np.ones(2), rule)
    assert x.tolist() == [1.0, 1.0]
    assert not rule.converged
    assert rule.iterations < 60
    assert set(trace) == {2.0}


def test_how_closely_a_step_is_solved():
    """At the square root of the mean gradient, .1 at most, 1e-8 at least; near the end for it."""
    gradient = np.full(4, 2e-4)  # norm 4e-4, over 4: 1e-4, root .01
    assert _forcing(gradient, 1e-5) == pytest.approx(0.01)
    assert _forcing(gradient, 0.01 / 3.5) == pytest.approx(0.01)  # 3.5 times what is missing
    assert _forcing(gradient, 0.01) == pytest.approx(1e-3)  # pace is not 3 times what is missing
    assert _forcing(np.full(4, 2e4), 1e-5) == 0.1
    assert _forcing(np.zeros(4), 1e-12) == 1e-8


def test_the_measure_can_be_another():
    rule = StoppingRule("half of the gradient", 1e-6, 50)
    minimise(quadratic(np.eye(2), np.ones(2)), np.zeros(2), rule, lambda g: 0.5 * np.abs(g).max())
    assert rule.history[-1] <= 1e-6
    result = []
    rule = StoppingRule("gradient", 0.5, 9, progress=lambda *given: result.append(given))
    assert not rule.begin(0.51)
    assert rule.begin(0.5)
    assert [rule.stop(v) for v in (2.0, 0.5)] == [False, True]
    assert result == [(1, 2.0), (2, 0.5)]
    assert rule.converged


def test_an_iterate_is_kept_where_there_is_one_and_somebody_keeps_it():
    """A plain function as progress keeps nothing; a rule without an iterate has nothing to keep."""
    plain = StoppingRule("gradient", 0.5, 9, progress=lambda *given: None)
    assert not plain.converged
    plain.iterate = lambda: {"scores": 1}
    assert plain.stop(0.1)
    kept = []

    class Keeper:
        def __call__(self, *given):
            kept.append(given)

        def keep(self, number, iterate):
            kept.append((number, iterate()))

    rule = StoppingRule("gradient", 0.5, 9, progress=Keeper())
    rule.stop(2.0)
    rule.iterate = lambda: {"scores": 1}
    rule.stop(3.0)
    assert kept == [(1, 2.0), (2, {"scores": 1}), (2, 3.0)]


class Script:
    """An objective whose values and steps are given; what is asked of it is kept."""

    def __init__(self, values, steps, workers=None):
        self._values, self._steps, self._workers = iter(values), iter(steps), workers
        self.asked, self.points = [], []

    def evaluate(self, x):
        self.points.append(float(x[0]))
        value, slope = next(self._values)
        return value, np.array([slope])

    def step(self, radius, tolerance):
        self.asked.append((radius, tolerance))
        return next(self._steps)

    def workers(self):
        return self._workers


def one_step(value, trial, step, slopes=(1.0, 1.0), then=()):
    """The end of one step, or of the steps that follow, and the radii that were asked for."""
    given = Script([(value, slopes[0]), (trial, slopes[1]), *then], [step, step, step])
    rule = StoppingRule("gradient", 1e-6, 1 if not then else 2)
    x, trace = minimise(given, np.zeros(1), rule)
    return float(x[0]), trace, [radius for radius, _ in given.asked]


def step_of(expected, length=1.0, at_boundary=False):
    return NewtonStep(np.ones(1), expected, length, at_boundary)


@pytest.mark.parametrize(
    ("value", "trial", "expected", "moved"),
    [
        (3.0, 2.0, 1e4, True),  # a gain of 1e-4 of what was promised is enough,
        (3.0, 2.0, 1.01e4, False),  # less is not,
        (3.0, 2.0, 0.0, True),  # no promise drowns, and the gradient has not grown,
        (3.0, 2.0, -1.0, False),  # a promise to rise is none
        (0.5, 0.5, 0.9e-9, True),  # drowned beside 1, not beside the value of .5
        (0.5, 0.5, 1.0e-9, False),
        (-4.0, -4.0, 3.9e-9, True),  # beside |value|
        (-4.0, -4.0, 4.1e-9, False),
        (-4.0, -4.0, -3.9e-9, True),
    ],
)
def test_which_steps_are_taken(value, trial, expected, moved):
    x, trace, _ = one_step(value, trial, step_of(expected))
    assert (x, trace) == ((1.0, [value, trial]) if moved else (0.0, [value, value]))


@pytest.mark.parametrize(("after", "moved"), [(1.0, True), (1.001, False)])
def test_a_drowned_step_must_not_raise_the_gradient(after, moved):
    assert one_step(0.0, 0.0, step_of(1e-12), (1.0, -after))[0] == moved
    assert one_step(3.0, 2.0, step_of(0.0), (1.0, -after))[0] == moved  # a gain not promised


@pytest.mark.parametrize(
    ("trial", "step", "radius"),
    [
        (1.0, step_of(2.0, 3.0, True), 6.0),  # gain 2 of 2, held back: twice its length
        (1.0, step_of(2.0, 0.25, True), 0.5),
        (1.0, step_of(4.0, 3.0, True), np.inf),  # half of what was promised
        (1.0, step_of(2.0, 3.0, False), np.inf),  # not held back
        (4.0, step_of(2.0, 3.0, True), 0.75),  # rose: a quarter of its length
    ],
)
def test_the_region_after_a_step(trial, step, radius):
    rejected = [(3.0, 1.0)] if trial > 3.0 else []
    _, _, radii = one_step(3.0, trial, step, then=[*rejected, (trial, 1.0)])
    assert radii == [np.inf, radius]


def test_a_region_does_not_shrink_by_a_good_step():
    """Steps of .1 that the region of .75 held back, as one in another norm may be: 2 x .75."""
    bad, good = step_of(2.0, 3.0), step_of(2.0, 0.1, at_boundary=True)
    values = [(3.0, 1.0), (4.0, 1.0), (3.0, 1.0), (1.0, 1.0), (0.0, 1.0)]
    given = Script(values, [bad, good, good])
    minimise(given, np.zeros(1), StoppingRule("gradient", 1e-6, 3))
    assert [radius for radius, _ in given.asked] == [np.inf, 0.75, 1.5]
    assert given.points == [0.0, 1.0, 0.0, 1.0, 2.0]  # back after the bad step, not after the good


@pytest.mark.parametrize(("length", "steps"), [(4e-14, 2), (3.9e-14, 1)])
def test_a_region_of_nothing_ends_it(length, steps):
    given = Script([(3.0, 1.0), (4.0, 1.0)] * 2, [step_of(2.0, length)] * 2)
    rule = StoppingRule("gradient", 1e-6, 2)
    minimise(given, np.zeros(1), rule)
    assert (rule.iterations, rule.converged) == (steps, False)


def test_what_a_step_and_a_checkpoint_are_given():
    for workers in (None, np.array([7.0])):
        given = Script([(3.0, 1e-4), (1.0, 1e-4)], [step_of(2.0)], workers)
        rule = StoppingRule("gradient", 5e-5, 1)
        minimise(given, np.zeros(1), rule)
        # Half of the gradient is missing: solved to a tenth of that, not to the pace of .01.
        assert given.asked == [(np.inf, pytest.approx(0.05))]
        kept = rule.iterate()
        assert kept.pop("scores").tolist() == [1.0]
        assert [*kept.items()] == ([] if workers is None else [("workers", workers)])
    gradient = np.array([2.0**-8, 0.0, 0.0, 0.0])  # pace 1/32
    assert _forcing(gradient, 2.0**-5 / 3.0) == pytest.approx(2.0**-5 / 30.0)
    assert [_largest(np.array(each)) for each in ([], [-0.5, 0.25])] == [0.0, 0.5]
