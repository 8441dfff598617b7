"""Odd crowds with ties and sides, and crowds whose votes hold no information."""

from __future__ import annotations

import numpy as np
import pytest
from tied_votes import CROWDS, drawn, votes_of

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.engines.grid import SidePrior
from crowdsift.models import Sift
from crowdsift.solvers.ep.search import null_evidence, propagate
from crowdsift.solvers.ep.workers import TIE_WIDTHS, WorkerPrior, power_grid, worker_types

# --- odd crowds ----------------------------------------------------------------------------------


def finite(fit):
    assert fit.converged
    for column in ("score", "lower", "upper"):
        assert np.isfinite(fit.items[column]).all()
    assert np.isfinite(fit.workers["reliability"]).all()
    one_sided = fit.worker_table.get("p_ignores_items", np.zeros(fit.worker_table.height)) > 0.5
    for column in ("lower", "upper"):  # who ignores the items has no interval
        np.testing.assert_array_equal(np.isfinite(fit.workers[column]), ~one_sided)
    assert np.isfinite(fit.summary["evidence"])


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("sides_known", [False, True])
def test_nothing_but_ties(engine, sides_known):
    one, two, s, _, _ = drawn(1, votes=120, workers=5)
    votes = votes_of(one, two, s, np.full(120, 0.5), sides_known=sides_known)
    fit = crowdsift.fit(votes, Sift(grid_points=11), engine=engine)
    finite(fit)
    np.testing.assert_allclose(fit.items["score"], 0.0, atol=1e-3)
    assert (fit.workers["tie_width"] > 3.0).all()  # the widest there is: 4.5
    assert any("no information" in note for note in fit.warnings)
    result = fit.predict_outcomes(0, 1)
    assert result["tie"][0] > 0.9


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("ties", [False, True])
def test_everyone_says_left(engine, ties):
    one, two, s, outcome, _ = drawn(1, votes=120, workers=4)
    outcome = np.where(np.arange(120) % 10 == 0, 0.5, 1.0) if ties else np.ones(120)
    fit = crowdsift.fit(votes_of(one, two, s, outcome), Sift(grid_points=11), engine=engine)
    finite(fit)
    assert (fit.workers["side_lower"] > 0.0).all()
    assert (np.abs(fit.items["score"]) < 0.5).all()
    assert fit.summary["crowd_side"] > 1.0 or (fit.workers["p_ignores_items"] > 0.5).all()


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_one_worker_with_ties_and_sides(engine):
    one, two, s, outcome, r = drawn(5, votes=400, workers=1, side=0.8)
    fit = crowdsift.fit(votes_of(one, two, s, outcome), Sift(grid_points=11), engine=engine)
    finite(fit)
    assert np.corrcoef(fit.scores_of(range(12)), r)[0, 1] > 0.9
    assert fit.workers["side_lower"][0] <= 0.8 <= fit.workers["side_upper"][0]


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("weight", [1e-3, 1.0, 1e6])
def test_one_vote_that_is_a_tie(engine, weight):
    votes = votes_of(["a"], ["b"], ["w"], [0.5], weight=[weight])
    fit = crowdsift.fit(votes, "sift", engine=engine)
    finite(fit)
    np.testing.assert_allclose(fit.items["score"], 0.0, atol=1e-6)
    assert (fit.items["upper"] > 0.5).all() or weight > 1


def test_one_half_beside_other_shares_is_a_share():
    votes = votes_of(["a", "b", "a"], ["b", "c", "c"], ["v", "w", "w"], [0.5, 0.9, 1.0])
    assert not votes.ties_are_outcomes
    fit = crowdsift.fit(votes, "sift")
    assert "tie_width" not in fit.workers
    split = votes_of(
        ["a", "a", "b", "b", "a"],
        ["b", "b", "c", "c", "c"],
        ["v", "v", "w", "w", "w"],
        [1, 0, 1, 0, 1],
        weight=[0.5, 0.5, 0.9, 0.1, 1.0],
    )
    np.testing.assert_allclose(fit.scores_of("abc"), crowdsift.fit(split, "sift").scores_of("abc"), atol=1e-5)


# --- no information ------------------------------------------------------------------------------


def gain_of(votes):
    engine = choose_engine("cpu", votes, 1)
    model = Sift(pair_effect=False, starts=("flat",))
    run = propagate(engine, power_grid(49), model._settings(engine))
    return run.evidence[-1] - null_evidence(engine, run.prior, run.sides.prior)


@pytest.mark.parametrize("kind", CROWDS)
def test_a_crowd_that_sees_nothing_gains_nothing(kind):
    """Reliability 0 for all, with widths and side biases: with gold or without, near 0 nats."""
    one, two, s, _, _ = drawn(1, items=30, votes=1000)
    _, _, _, outcome, _ = drawn(2, items=30, votes=1000, **CROWDS[kind])  # of other pairs
    votes = votes_of(one, two, s, outcome)
    gold = np.array([[0, 1, 2, 0, 1], [1, 2, 3, 2, 3]], np.uint32)
    assert abs(gain_of(votes)) < 3.0
    assert abs(gain_of(votes.with_gold(*gold))) < 3.0
    seen = votes_of(*drawn(2, items=30, votes=1000, **CROWDS[kind])[:4])
    assert gain_of(seen) > 20.0
    assert gain_of(seen.with_gold(*gold)) > 10.0


def test_null_evidence_of_coins_is_that_of_coins():
    votes = votes_of(*drawn(1, width=None, votes=300)[:4])
    engine = choose_engine("cpu", votes, 1)
    prior = WorkerPrior.start(power_grid(17), 1.0, 0.5)
    assert null_evidence(engine, prior, SidePrior()) == pytest.approx(300 * np.log(0.5))


def test_types_are_those_of_the_page():
    types = worker_types(ties=True, sides=True)
    assert types.widths.tolist() == list(TIE_WIDTHS)
    assert sorted(set(types.side_only_widths)) == list(TIE_WIDTHS[::2])
    assert len(types.side_only) == 6 * 7
    assert types.n_types(power_grid(13)) == 14 * 13 + 42
