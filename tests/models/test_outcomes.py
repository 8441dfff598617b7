"""Ties, weights and soft outcomes in every method; win, tie and loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln
from strategies import comparisons

import crowdsift
from crowdsift import Comparisons, RequestError
from crowdsift.models import MODELS, model
from crowdsift.votes.outcomes import half_win, rao_kupper, tie_rates


def tied(seed=0, items=8, workers=6, votes=600):
    """Votes of workers who call ties at rates of their own; and these."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=items)
    rate = np.linspace(0.05, 0.8, workers)
    one = rng.integers(0, items, votes)
    two = (one + rng.integers(1, items, votes)) % items
    who = rng.integers(0, workers, votes)
    outcome = (rng.random(votes) < 1 / (1 + np.exp(scores[two] - scores[one]))).astype(float)
    outcome[rng.random(votes) < rate[who]] = 0.5
    names = np.array([f"i{j}" for j in range(items)])
    crowd = np.array([f"w{s}" for s in range(workers)])
    data = Comparisons.from_arrays(names[one], names[two], worker=crowd[who], outcome=outcome, sides_known=True)
    return data.with_classes([0, 1] * (items // 2)), rate


@given(st.floats(0, 1), st.floats(0, 1))
def test_half_win_outcomes_share_what_is_no_tie(share, rate):
    result = half_win(np.array([share]), np.array([rate]))
    assert sum(part[0] for part in result) == pytest.approx(1.0)
    assert result.tie[0] == rate
    assert result.win[0] * (1 - share) == pytest.approx(result.loss[0] * share)


@given(st.floats(-8, 8), st.floats(0, 4))
def test_rao_kupper_is_the_model_of_ratings(z, width):
    """P(win) = π_i/(π_i + θ π_j) with π = e^z, θ = e^δ, as Rao and Kupper wrote it."""
    result = rao_kupper(np.array([z]), np.array([width]))
    pi, theta = np.exp(z), np.exp(width)
    assert result.win[0] == pytest.approx(pi / (pi + theta))
    assert result.loss[0] == pytest.approx(1 / (1 + theta * pi))
    tie = pi * (theta**2 - 1) / ((pi + theta) * (1 + theta * pi))
    assert result.tie[0] == pytest.approx(tie, abs=1e-12)


def test_tie_rates_are_those_of_the_likeliest_beta_prior():
    votes, truth = tied(votes=3000)
    rates, crowd = tie_rates(votes)
    worker = votes.worker_codes()
    total = np.bincount(worker, votes.weight)
    ties = np.bincount(worker, votes.weight * (votes.outcome == 0.5))
    assert crowd == pytest.approx(ties.sum() / total.sum())
    strengths = 2.0 ** np.arange(-2, 11)
    evidence = [
        np.sum(betaln(a * crowd + ties, a * (1 - crowd) + total - ties) - betaln(a * crowd, a * (1 - crowd)))
        for a in strengths
    ]
    a = strengths[np.argmax(evidence)]
    np.testing.assert_allclose(rates, (ties + a * crowd) / (total + a))
    np.testing.assert_allclose(rates, truth, atol=0.08)


@given(comparisons())
def test_tie_rates_are_probabilities(votes):
    rates, crowd = tie_rates(votes)
    assert ((rates >= 0) & (rates <= 1)).all()
    assert (crowd > 0) == votes.ties_are_outcomes
    if not votes.ties_are_outcomes:
        assert not rates.any()


@pytest.mark.parametrize("method", MODELS)
def test_every_method_predicts_three_outcomes(method, tmp_path):
    votes, _ = tied()
    fit = crowdsift.fit(votes, method)
    first, second = fit.labels[0], fit.labels[-1]
    for worker in (None, "w0", "w5", "a stranger"):
        result = fit.predict_outcomes(first, second, worker, unknown="prior")
        assert list(result) == ["win", "tie", "loss"]
        assert sum(result[name][0] for name in result) == pytest.approx(1.0)
        assert all(0 <= result[name][0] <= 1 for name in result)
        assert result["win"][0] > result["loss"][0]
    often, seldom = (fit.predict_outcomes(first, second, w)["tie"][0] for w in ("w5", "w0"))
    assert often > seldom + 0.3
    there = fit.predict_outcomes([first, second], [second, first], "w2")
    np.testing.assert_allclose(there["win"], there["loss"][::-1], atol=1e-9)
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    within = 0.01 if method == "sift" else 1e-9  # a folder has quantiles of types, not all
    for worker in ("w0", "w5"):
        one, two = (each.predict_outcomes(first, second, worker) for each in (fit, back))
        assert [two[name][0] for name in two] == pytest.approx([one[name][0] for name in one], abs=within)


@pytest.mark.parametrize("method", [name for name in MODELS if name != "sift"])
def test_half_win_methods_split_by_what_predict_says(method):
    votes, _ = tied()
    fit = crowdsift.fit(votes, method)
    result = fit.predict_outcomes("i0", "i1", "w3")
    rate = fit.workers["tie_rate"][3]
    share = fit.predict("i0", "i1", "w3")
    assert result["tie"][0] == pytest.approx(rate)
    assert result["win"][0] == pytest.approx((1 - rate) * share)


@pytest.mark.parametrize("sides", [False, True])
def test_sift_averages_rao_kupper_over_the_posterior(sides, tmp_path):
    """The joint points of reliability, width and side; either item on either side."""
    votes, _ = tied()
    outcome = np.where((votes.outcome == 0.0) & (np.arange(len(votes)) % 2 == 0), 1.0, votes.outcome)
    if sides:  # half of all answers "second" become "first"
        votes = Comparisons.from_codes(
            votes.first,
            votes.second,
            worker=votes.worker_codes(),
            outcome=outcome,
            weight=votes.weight,
            items=votes.items,
            workers=votes.workers,
            sides_known=True,
        )
    fit = crowdsift.fit(votes, "sift")
    assert bool(np.isfinite(fit.workers["side_bias"]).any()) == sides
    result = fit.predict_outcomes("i0", "i1", "w3")
    beta, width, side, variance = (column[3] for column in fit.posterior.points)
    assert side.any() == sides
    gap = fit.scores_of(["i0"])[0] - fit.scores_of(["i1"])[0]
    x, w = np.polynomial.hermite_e.hermegauss(21)  # the smoothing by k is within .005 of this
    win, loss = 0.0, 0.0
    for node, weight in zip(x, w / w.sum(), strict=True):
        gamma = side + np.sqrt(variance) * node
        for x_side in (1.0, -1.0):
            z = beta * gap + x_side * gamma
            win += 0.5 * weight * np.mean(1 / (1 + np.exp(width - z)))
            loss += 0.5 * weight * np.mean(1 / (1 + np.exp(width + z)))
    assert result["win"][0] == pytest.approx(win, abs=0.005 if sides else 1e-12)
    assert result["loss"][0] == pytest.approx(loss, abs=0.005 if sides else 1e-12)
    share = result["win"][0] / (result["win"][0] + result["loss"][0])
    assert fit.predict("i0", "i1", "w3") == pytest.approx(share)
    assert fit.predict("i1", "i0", "w3") == pytest.approx(1.0 - share)
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.predict("i0", "i1", "w3") == pytest.approx(share, abs=0.02)


def test_ties_as_half_wins_in_sift_have_the_rate_of_the_worker():
    votes, _ = tied()
    fit = crowdsift.fit(votes, crowdsift.Sift(ties=False))
    result = fit.predict_outcomes("i0", "i1", "w3")
    rate = fit.workers["tie_rate"][3]
    assert result["tie"][0] == pytest.approx(rate)
    assert result["win"][0] == pytest.approx((1 - rate) * fit.predict("i0", "i1", "w3"))


def test_without_ties_there_is_no_tie():
    drawn = crowdsift.simulate(items=8, workers=5, comparisons=300, seed=1)
    for method in ("bora-em", "sift"):
        fit = crowdsift.fit(drawn.comparisons(), method)
        assert "tie_rate" not in fit.workers
        result = fit.predict_outcomes(fit.labels[0], fit.labels[1], "w1")
        assert result["tie"][0] == pytest.approx(0.0, abs=1e-12)
        assert result["win"][0] == pytest.approx(fit.predict(fit.labels[0], fit.labels[1], "w1"))


def test_votes_without_workers_have_the_rate_of_the_crowd():
    votes = Comparisons.from_arrays(["a", "a", "b", "a"], ["b", "b", "c", "c"], outcome=[1, 0.5, 1, 1])
    result = crowdsift.fit(votes, "bt").predict_outcomes("a", "c")
    assert result["tie"][0] == pytest.approx(0.25)


def test_outcomes_are_refused_across_components():
    votes = Comparisons.from_arrays(["a", "x"], ["b", "y"], worker=["v", "v"])
    with pytest.raises(RequestError, match="component 1"):
        crowdsift.fit(votes, "bt").predict_outcomes("a", "x")


def spread_votes(seed=3):
    rng = np.random.default_rng(seed)
    one = rng.integers(0, 6, 150)
    two = (one + rng.integers(1, 6, 150)) % 6
    return one, two, rng.integers(0, 5, 150), rng


def scores_of(method, one, two, worker, outcome, weight):
    votes = Comparisons.from_arrays(
        one, two, worker=worker, outcome=outcome, weight=weight, sides_known=True
    ).with_classes([0, 1, 0, 1, 0, 1])
    own = method in ("rank-centrality", "sift")
    chosen = model(method) if own else model(method, tolerance=1e-9)
    return crowdsift.fit(votes, chosen).scores_of(range(6))


@pytest.mark.parametrize("method", MODELS)
def test_a_weight_counts_votes(method):
    one, two, worker, rng = spread_votes()
    outcome = rng.integers(0, 2, 150).astype(float)
    weight = rng.integers(1, 4, 150)
    again = np.repeat(np.arange(150), weight)
    weighted = scores_of(method, one, two, worker, outcome, weight)
    repeated = scores_of(method, one[again], two[again], worker[again], outcome[again], None)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


@pytest.mark.parametrize("method", MODELS)
def test_a_soft_outcome_is_a_share_of_a_win_and_a_loss(method):
    one, two, worker, rng = spread_votes()
    outcome = rng.integers(0, 5, 150) / 4.0  # one half beside other shares is no tie
    soft = scores_of(method, one, two, worker, outcome, None)
    split = scores_of(
        method,
        np.tile(one, 2),
        np.tile(two, 2),
        np.tile(worker, 2),
        np.repeat([1.0, 0.0], 150),
        np.concatenate([outcome, 1 - outcome]),
    )
    np.testing.assert_allclose(soft, split, atol=2e-4)


@pytest.mark.parametrize("method", [name for name in MODELS if name != "sift"])
def test_a_tie_is_half_a_win_and_half_a_loss(method):
    one, two, worker, rng = spread_votes()
    outcome = rng.integers(0, 3, 150) / 2.0
    tie = scores_of(method, one, two, worker, outcome, None)
    split = scores_of(
        method,
        np.tile(one, 2),
        np.tile(two, 2),
        np.tile(worker, 2),
        np.repeat([1.0, 0.0], 150),
        np.concatenate([outcome, 1 - outcome]),
    )
    np.testing.assert_allclose(tie, split, atol=2e-4)
