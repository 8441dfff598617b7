"""An estimate of the other sign: as likely, and the same again when turned twice."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from context_votes import draw_votes

import crowdsift
from crowdsift import Sift
from crowdsift.engines import choose_engine
from crowdsift.models.mirror import mirror
from crowdsift.results import sign


def same(one, two):
    if isinstance(one, np.ndarray):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-15)
    elif isinstance(one, tuple) and hasattr(one, "_fields"):
        for a, b in zip(one, two, strict=True):
            same(a, b)
    elif isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            same(one[key], two[key])
    elif isinstance(one, list | float):
        assert one == pytest.approx(two)


@pytest.mark.parametrize("contexts", [False, True])
def test_turned_twice_it_is_the_same(contexts):
    votes = draw_votes(0.3, 0.8, seed=7)
    model = Sift(starts=("flat",), contexts=contexts)
    estimate = model.estimate(choose_engine("cpu", votes, 1))
    assert (estimate.in_context is not None) == contexts
    turned = mirror(model, estimate)
    np.testing.assert_array_equal(turned.scores, -estimate.scores)
    np.testing.assert_array_equal(turned.workers.reliability, -estimate.workers.reliability)
    assert (turned.workers.reliability_lower <= turned.workers.reliability_upper).all()
    assert (np.diff(turned.theta, axis=1) >= 0.0).all()
    again = mirror(model, turned)
    for field in fields(estimate):
        same(getattr(estimate, field.name), getattr(again, field.name))
    # r and -r, with workers to match, explain other votes alike
    other = choose_engine("cpu", draw_votes(0.3, 0.8, seed=7, each=20), 1)
    assert model.left_out(other, turned) == pytest.approx(model.left_out(other, estimate))


def test_a_majority_of_adversaries_is_turned_and_goes_on():
    """The spectral start finds scores up to sign; the head-count settles it, for a warm start, too.

    Votes turned around are those of adversaries: the same fit but for the sign.
    """
    votes = crowdsift.simulate(15, 30, 2000, reliability=(0.5, 1.5), seed=3).comparisons()
    fits = [
        crowdsift.fit(votes, Sift(starts=(start,)), threads=1) for start in ("flat", "spectral")
    ]
    np.testing.assert_allclose(*(fit.scores_of(votes.items) for fit in fits), atol=1e-3)
    for fit in fits:
        assert fit.summary["sign_margin"] > 0.5
        warm = crowdsift.fit(votes, Sift(), start=fit, threads=1)
        np.testing.assert_allclose(
            warm.scores_of(votes.items), fit.scores_of(votes.items), atol=1e-3
        )


def test_results_turn_by_the_same_function():
    assert sign.mirror is mirror
