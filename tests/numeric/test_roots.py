"""Roots by brackets: closed forms, the promised number of evaluations, no early stop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdsift.numeric.roots import Bracket, expand_bracket, find_root


def bracket_of(function, low, high):
    return Bracket(low, high, function(low), function(high))


class Counted:
    def __init__(self, function) -> None:
        self.function, self.calls = function, 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)


CLOSED_FORMS = {
    "cubic": (lambda x: x**3 - 2.0, 0.0, 2.0, 2.0 ** (1.0 / 3.0)),
    "falling": (lambda x: math.exp(-x) - 0.1, 0.0, 50.0, math.log(10.0)),
    "flat at the root": (lambda x: (x - 1.0) ** 9, -3.0, 4.0, 1.0),
    "steep at one end": (lambda x: math.exp(30.0 * x) - 1.0, -1.0, 2.0, 0.0),
    "arctangent": (lambda x: math.atan(1e3 * (x - 0.3)), -10.0, 20.0, 0.3),
    "jump": (lambda x: -1.0 if x < math.pi else 1e-9, 0.0, 10.0, math.pi),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-12])
def test_closed_forms(name, tolerance):
    function, low, high, root = CLOSED_FORMS[name]
    counted = Counted(function)
    found = find_root(counted, bracket_of(function, low, high), tolerance)
    assert abs(found - root) <= 1.0001 * tolerance
    assert counted.calls <= math.ceil(math.log2((high - low) / tolerance)) + 1


def test_smooth_functions_need_few_evaluations():
    counted = Counted(lambda x: x**3 - 2.0)
    find_root(counted, Bracket(1.0, 2.0, -1.0, 6.0), 1e-12)
    assert counted.calls <= 10  # bisection: 40


@given(
    st.floats(-1e3, 1e3),
    st.floats(0.0, 1e3),
    st.floats(1e-6, 1e3),
    st.floats(0.1, 9.0),
    st.floats(-12.0, 1.0),
    st.booleans(),
)
def test_any_monotone_function_to_its_tolerance(root, below, above, power, digits, rising):
    """sign(x - root)|x - root|^power, concave, convex and flat, from any bracket of the root."""
    tolerance = 10.0**digits
    sign = 1.0 if rising else -1.0

    def function(x):
        return sign * math.copysign(abs(x - root) ** power, x - root)

    counted = Counted(function)
    low, high = root - below, root + above
    found = find_root(counted, bracket_of(function, low, high), tolerance)
    assert low <= found <= high
    assert abs(found - root) <= tolerance + 1e-12 * abs(root) + 4 * math.ulp(root)
    assert counted.calls <= max(math.ceil(math.log2((high - low) / tolerance)) + 1, 0)


def test_values_of_any_size_overflow_nowhere():
    big = Bracket(0.0, 1.0, -1.7e308, 1.7e308)
    assert find_root(lambda x: 1e308 * (x - 0.25), big, 1e-9) == pytest.approx(0.25, abs=1e-9)
    infinite = Bracket(0.0, 1.0, -math.inf, 1.0)
    found = find_root(lambda x: 1.0 - 0.5 / x**2 if x > 0.1 else -math.inf, infinite, 1e-9)
    assert found == pytest.approx(math.sqrt(0.5), abs=1e-9)
    tiny = Bracket(0.0, 1.0, -5e-324, 5e-324)
    assert 0.0 <= find_root(lambda x: 5e-324 if x > 0.3 else -5e-324, tiny, 1e-3) <= 1.0


def test_an_end_that_is_the_root():
    assert find_root(math.sin, Bracket(0.0, 1.0, 0.0, math.sin(1.0)), 1e-9) == 0.0
    assert find_root(math.sin, Bracket(-1.0, 0.0, math.sin(-1.0), 0.0), 1e-9) == 0.0


def test_what_is_no_bracket_is_refused():
    for values in ((1.0, 2.0), (-1.0, -2.0), (math.nan, 1.0)):
        with pytest.raises(ValueError, match="no bracket"):
            find_root(math.sin, Bracket(0.0, 1.0, *values), 1e-3)
    with pytest.raises(ValueError, match="not a number"):
        find_root(lambda x: math.nan, Bracket(0.0, 1.0, -1.0, 1.0), 1e-3)


def test_brackets_by_walking():
    assert expand_bracket(lambda x: x + 2.5, 0.0, 1.0, -4.0, 4.0) == (-3.0, -2.0, -0.5, 0.5)
    assert expand_bracket(lambda x: x - 9.0, 0.0, 1.0, -4.0, 4.0) is None
    assert expand_bracket(lambda x: x + 9.0, 0.0, 1.0, -4.0, 4.0) is None
    assert expand_bracket(lambda x: x - 3.7, 0.0, 3.0, -4.0, 4.0).high == 4.0  # not beyond
    assert expand_bracket(lambda x: x, 0.0, 1.0, -4.0, 4.0) == (0.0, 0.0, 0.0, 0.0)
    assert expand_bracket(lambda x: math.nan, 0.0, 1.0, -4.0, 4.0) is None
    counted = Counted(lambda x: x - 0.5)
    assert expand_bracket(counted, 0.0, 1.0, -4.0, 4.0, at_start=-0.5) is not None
    assert counted.calls == 1


def test_the_shared_scale_is_found_to_its_tolerance():
    """Where a secant step happens to be short the search must go on: one in 300 random problems."""
    from crowdsift.solvers.slopes import SlopeScale

    rng = np.random.default_rng(14)
    count = 0
    for _ in range(5_000):
        mean, precision, square = 0.9, 2.0, float(10 ** rng.uniform(-1, 2))
        slopes = rng.normal(1.0, 1.5, 7)
        curvature = precision + np.abs(rng.normal(0.0, 5.0, 7)) + 0.1
        scale = SlopeScale(slopes, curvature, mean, precision)
        found = scale.best(square)
        if found is None:
            continue
        count += 1
        h = curvature - precision
        optimum = slopes + precision * (slopes - mean) / h

        def slope(t, h=h, optimum=optimum, mean=mean, precision=precision, square=square):
            miss = (optimum - t * mean) / (precision + t * t * h)
            return square * t - precision * float(np.sum(h * miss * (mean + t * h * miss)))

        # the derivative changes sign within the tolerance of what was found
        assert slope(found * (1 - 1.1e-3)) <= 1e-9
        assert slope(found * (1 + 1.1e-3)) >= -1e-9
    assert count > 3_750
