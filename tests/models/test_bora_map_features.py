"""bora-map with features of items: the mode, the shares that evidence chooses, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.errors import RequestError
from crowdsift.solvers import feature_map
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.slopes import minimise_with_slopes
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.item_features import standardised_group

MEAN, SD = 1.25, 0.7


def drawn(seed, n=60, voted=60, share=0.7):
    """Votes on the first items, features of all, and all scores."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, 4)), rng.normal(size=4)
    r = np.sqrt(share) * X @ w / np.linalg.norm(w) + np.sqrt(1 - share) * rng.normal(size=n)
    a, who = rng.integers(0, voted, 1500), rng.integers(0, 20, 1500)
    b = (a + rng.integers(1, voted, 1500)) % voted
    beta = rng.gamma(8, 0.2, 20)[who]
    won = rng.random(1500) < 1 / (1 + np.exp(-beta * (r[a] - r[b])))
    return Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=who), X, r


def found_mode(votes, X):
    """The mode with features, its engine and the standardised features."""
    engine = choose_engine("cpu", votes, 1)
    names = tuple("abcd")
    values = standardised_group("g", "columns", names, names, X).values
    rule = StoppingRule("largest step of a score", 1e-8, 200)
    scores, at, _ = minimise_with_slopes(engine, penalty=1.0, mean=MEAN, sd=SD, rule=rule)
    mode = feature_map.mode_with_features(
        engine, [values], mean=MEAN, sd=SD, rule=rule, start=(scores, at.slopes)
    )
    return mode, engine, values


def test_the_mode_is_that_of_the_stated_posterior():
    """The gradient in scores and slopes of votes, N(0, C) and N(μ, σ²) is 0, straight from C."""
    votes, X, _ = drawn(0)
    mode, _, values = found_mode(votes, X)
    rho = float(mode.item_prior.shares[0])
    C = (1 - rho) * np.eye(60) + rho * values.astype(float) @ values.T
    r, beta, who = mode.means, mode.at.slopes, votes.worker_codes()
    d = r[votes.first] - r[votes.second]
    push = votes.weight * (votes.outcome - 1 / (1 + np.exp(-beta[who] * d)))
    slope = np.bincount(votes.first, push * beta[who], 60)
    slope -= np.bincount(votes.second, push * beta[who], 60)
    assert np.linalg.solve(C, r) == pytest.approx(slope, abs=1e-4)
    workers = np.bincount(who, push * d, votes.n_workers)
    assert (beta - MEAN) / SD**2 == pytest.approx(workers, abs=1e-3)


def test_shares_maximise_the_evidence():
    """Laplace's evidence at other shares is less on either side, each with its own mode."""
    votes, X, _ = drawn(1)
    mode, engine, values = found_mode(votes, X)
    rho = float(mode.item_prior.shares[0])
    assert 0.1 < rho < 0.97

    def evidence(share):
        prior = feature_map._FixedScale([values], np.array([share]))
        rule = StoppingRule("", 1e-8, 200)
        start = (mode.means, mode.at.slopes)
        return feature_map._settled(engine, prior, MEAN, SD, rule, start).evidence

    at, below, above = (evidence(rho + step) for step in (0.0, -0.05, 0.05))
    assert at == pytest.approx(mode.evidence, abs=1e-4)
    assert at > max(below, above)


def test_features_are_used_where_they_say_something_and_score_others(tmp_path):
    votes, X, r = drawn(2, n=260)
    fit = crowdsift.fit(votes, "bora-map", items={"item": np.arange(60), "x": X[:60]})
    about = fit.summary["item_features"]
    assert about["used"]
    assert about["evidence_gain"] > 3
    table = fit.score(X[60:])
    true = (r[60:] - r[:60].mean()) / np.std(r[:60])
    assert np.corrcoef(table["score"], true)[0, 1] > 0.6
    assert 0.8 < np.mean((table["lower"] < true) & (true < table["upper"])) < 0.98
    fit.save(tmp_path / "fit")
    again = crowdsift.load(tmp_path / "fit").score(X[60:])
    assert again["score"] == pytest.approx(table["score"])
    noise = np.random.default_rng(7).normal(size=(60, 4))
    without = crowdsift.fit(votes, "bora-map", items={"item": np.arange(60), "x": noise})
    assert not without.summary["item_features"]["used"]
    assert without.scores_of(votes.items) == pytest.approx(
        crowdsift.fit(votes, "bora-map").scores_of(votes.items)
    )


def test_too_many_items_are_refused(monkeypatch):
    votes, X, _ = drawn(3)
    monkeypatch.setattr("crowdsift.models.bora_map.DENSE_ITEMS", 50)
    with pytest.raises(RequestError, match="at most 50 items, not of 60; sift takes more"):
        crowdsift.fit(votes, "bora-map", items={"item": np.arange(60), "x": X})
