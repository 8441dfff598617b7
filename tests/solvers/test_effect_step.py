"""Variances of effects, a step of Fisher scoring at a time."""

from __future__ import annotations

import pytest

from crowdsift.solvers.ep.items import scoring_step


@pytest.mark.parametrize(
    ("slope", "information", "variance", "after"),
    [
        (2.0, 10.0, 0.5, 0.7),
        (-2.0, 10.0, 0.5, 0.3),
        (90.0, 1.0, 0.5, 2.0),  # four times as large at most
        (-90.0, 1.0, 0.5, 0.125),  # a fourth at least
        (90.0, 1.0, 3.0, 4.0),  # and no larger than 4,
        (-90.0, 1.0, 0.002, 0.001),  # no smaller than .001
        (1.0, 0.0, 0.5, 2.0),  # votes that say nothing of it but which way
        (-1.0, 0.0, 0.5, 0.125),
        (0.0, 0.0, 0.5, 0.5),
    ],
)
def test_a_step_is_newtons_within_its_reach(slope, information, variance, after):
    assert scoring_step(slope, information, variance) == pytest.approx(after, rel=1e-12)
