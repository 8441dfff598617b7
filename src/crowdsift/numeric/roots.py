"""Find a zero of a continuous function of one variable in a bracket."""

import math
from collections.abc import Callable
from typing import NamedTuple

_TRUNCATION = 0.2  # κ₁ times the width of the first bracket; with κ₂ = 2
_SLACK = 1  # n₀: evaluations that the search may take beyond bisection


class Bracket(NamedTuple):
    """An interval at whose ends a function has values of opposite sign, or is zero."""

    low: float
    high: float
    at_low: float
    at_high: float

    @property
    def middle(self) -> float:
        """Return the midpoint."""
        return self.low + 0.5 * (self.high - self.low)

    @property
    def secant(self) -> float:
        """Return the zero of the line through the two values, or the midpoint if one is infinite."""
        if self.at_low == 0.0:
            return self.low
        if math.isinf(self.at_low) or math.isinf(self.at_high):
            return self.middle
        size = max(abs(self.at_low), abs(self.at_high))  # so that no difference overflows
        below, above = self.at_low / size, self.at_high / size
        share = below / (below - above)
        return min(max(self.low + share * (self.high - self.low), self.low), self.high)


def find_root(function: Callable[[float], float], bracket: Bracket, tolerance: float) -> float:
    """Return a zero of a continuous function in the bracket, to within the tolerance."""
    # The method of Oliveira and Takahashi (2020, "ITP") takes the secant point and moves it a little towards the
    # middle, so that both ends of the bracket close in. It stays so close to the middle that the bracket is never wider
    # than that of bisection one step earlier. It needs about as many evaluations as the secant method on smooth
    # functions, and at most one more than bisection. Only the width of the bracket ends the search, so that a short
    # step cannot end it early. The result is the secant point of the last bracket.
    rising = _direction(bracket)
    half = 0.5 * max(tolerance, _resolution(bracket))
    width = bracket.high - bracket.low
    if bracket.at_high == 0.0:
        return bracket.high
    if bracket.at_low == 0.0 or width <= 2.0 * half:
        return bracket.secant
    truncation = _TRUNCATION / width
    steps = math.ceil(math.log2(width / (2.0 * half))) + _SLACK
    for step in range(steps):
        at = _next_point(bracket, truncation, half * 2.0 ** (steps - step))
        value = function(at)
        if value == 0.0:
            return at
        if math.isnan(value):
            raise ValueError(f"the function is not a number at {at}")
        if (value > 0.0) == rising:
            bracket = bracket._replace(high=at, at_high=value)
        else:
            bracket = bracket._replace(low=at, at_low=value)
        if bracket.high - bracket.low <= 2.0 * half:
            break
    return bracket.secant


def _next_point(bracket: Bracket, truncation: float, reach: float) -> float:
    """Return the next point: interpolate, truncate, project (Algorithm 1); `reach` is ε·2^(n - j)."""
    middle, secant, width = bracket.middle, bracket.secant, bracket.high - bracket.low
    sign = math.copysign(1.0, middle - secant)
    move = truncation * width**2
    truncated = secant + sign * move if move <= abs(middle - secant) else middle
    radius = max(reach - 0.5 * width, 0.0)
    return truncated if abs(truncated - middle) <= radius else middle - sign * radius


def _direction(bracket: Bracket) -> bool:
    """Return whether the function is larger at the upper end."""
    low, high = bracket.at_low, bracket.at_high
    if not (low <= 0.0 <= high or high <= 0.0 <= low):
        raise ValueError(f"no bracket of a zero: {low} at {bracket.low}, {high} at {bracket.high}")
    return low <= high


def _resolution(bracket: Bracket) -> float:
    """Return a width below which no double is between the ends."""
    return 4.0 * math.ulp(max(abs(bracket.low), abs(bracket.high)))


def expand_bracket(
    function: Callable[[float], float],
    start: float,
    step: float,
    low: float,
    high: float,
    at_start: float | None = None,
) -> Bracket | None:
    """Return the first bracket of a rising function's zero, in equal steps from the start."""
    # Steps go upwards if the function is negative at the start, else downwards, within `low` and `high`. None if the
    # sign does not change there. `at_start` is the value at the start, if known.
    at, value = start, function(start) if at_start is None else at_start
    if value == 0.0:
        return Bracket(at, at, value, value)
    upwards = value < 0.0
    while low < at if not upwards else at < high:
        to = min(at + step, high) if upwards else max(at - step, low)
        there = function(to)
        if upwards and there >= 0.0:
            return Bracket(at, to, value, there)
        if not upwards and there <= 0.0:
            return Bracket(to, at, there, value)
        at, value = to, there
    return None
