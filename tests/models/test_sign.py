"""An estimate of the other sign: as likely, and the same again when turned twice."""

from __future__ import annotations

import warnings
from dataclasses import fields

import numpy as np
import pytest
from benchmarks.sign import outcome, strong_and_random, votes_of
from context_votes import draw_votes

import crowdsift
from crowdsift import Sift
from crowdsift.engines import choose_engine
from crowdsift.models.base import SignSupport, WorkerEstimate, mirror, sign_log_odds


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
    fits = [crowdsift.fit(votes, Sift(starts=(start,)), threads=1) for start in ("flat", "spectral")]
    np.testing.assert_allclose(*(fit.scores_of(votes.items) for fit in fits), atol=1e-3)
    for fit in fits:
        assert fit.summary["sign_margin"] > 0.5
        warm = crowdsift.fit(votes, Sift(), start=fit, threads=1)
        np.testing.assert_allclose(warm.scores_of(votes.items), fit.scores_of(votes.items), atol=1e-3)


@pytest.mark.parametrize("method", ["sift", "bora-map"])
@pytest.mark.parametrize("seed", range(6))
def test_many_nearly_random_workers_do_not_outvote_few_strong_judges(method, seed):
    beta, each = np.repeat([3.0, -0.25], [16, 44]), np.repeat([120, 400], [16, 44])
    found = outcome(method, *votes_of(np.random.default_rng(seed), beta, each))
    assert found.right
    assert found.stated > 0.99
    assert not found.warned


@pytest.mark.parametrize("method", ["sift", "bora-map"])
def test_a_narrow_majority_of_equals_leaves_the_sign_undecided(method):
    beta = np.repeat([1.5, -1.5], [27, 33])
    found = outcome(method, *votes_of(np.random.default_rng(1), beta, np.full(60, 100)))
    assert 0.5 <= found.stated < 0.75
    assert found.warned


@pytest.mark.parametrize("method", ["sift", "bora-map"])
def test_the_returned_sign_is_the_more_probable_one_and_the_warning_states_it(method):
    """Crowds of strong judges, upright with probability .9, and of many nearly random workers."""
    sure = []
    for seed in range(500, 540):
        scores, votes = strong_and_random(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", crowdsift.SignWarning)
            fit = crowdsift.fit(votes, method, threads=1)
        stated = fit.summary["sign_probability"]
        assert stated >= 0.5
        assert fit.summary["sign_margin"] >= 0.0
        assert fit.summary["sign_unsettled"] == (stated < 0.95)
        if stated < 0.95:
            assert f"right with probability {100 * stated:.0f} %" in fit.warnings[0]
        elif stated > 0.95:
            sure.append(np.corrcoef(fit.scores_of(np.arange(len(scores))), scores)[0, 1] > 0)
    assert len(sure) > 20
    assert np.mean(sure) >= 0.93


def test_bora_map_knows_no_sign_before_the_first_vote():
    """The prior of reliabilities is above 0, but one vote each supports neither sign."""
    votes = crowdsift.Comparisons.from_arrays(list("abcaab"), list("bcdcdd"), worker=list("uvwxyz"))
    with pytest.warns(crowdsift.SignWarning, match="not settled"):
        crowdsift.fit(votes, "bora-map")


def test_informative_workers_are_counted_by_their_distance_from_zero():
    beta, sd = np.array([2.0, -2.0, 2.0, 0.1, -0.1]), np.full(5, 1e-6)
    workers = WorkerEstimate(beta + 0.5, sd, random_level=0.5)
    found = workers.sign_support(np.array([9.0, 9.0, 9.0, 900.0, 900.0]))
    assert found == SignSupport(2.0, 1.0, 5)
    assert found.mirrored() == SignSupport(1.0, 2.0, 5)
    assert found.log_odds == -found.mirrored().log_odds == sign_log_odds(2.0, 1.0) > 0.0
    assert found.margin == pytest.approx(0.2)
    assert workers.sign_support(np.full(2, 9.0)) == SignSupport(1.0, 1.0, 2)  # the rest is gold
    nothing = WorkerEstimate(np.zeros(3), np.ones(3))
    assert nothing.sign_support(np.ones(3)) == SignSupport(0.0, 0.0, 3)
    assert WorkerEstimate().sign_support(np.ones(3)) is None


def test_coherent_adversaries_do_not_make_honest_workers_uninformative():
    beta, sd = np.repeat([0.8, -6.0], [30, 20]), np.full(50, 0.05)
    found = WorkerEstimate(beta, sd).sign_support(np.full(50, 100.0))
    assert found == SignSupport(30.0, 20.0, 50)
