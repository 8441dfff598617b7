"""bora-map with features of items: the mode, the shares that evidence chooses, what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.errors import RequestError
from crowdsift.solvers import feature_map
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.slopes import minimise_with_slopes
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.item_features import standardised_block

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
    values = standardised_block("g", "columns", names, names, X).values
    rule = StoppingRule("largest step of a score", 1e-8, 200)
    scores, at, _ = minimise_with_slopes(engine, penalty=1.0, mean=MEAN, sd=SD, rule=rule)
    mode = feature_map.mode_with_features(engine, [values], mean=MEAN, sd=SD, rule=rule, start=(scores, at.slopes))
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


def test_the_evidence_is_laplaces_written_out():
    """-V - ½log|L + C⁻¹| - ½log|C| - ½Σ log h; and what follows about the mode is of L + C⁻¹."""
    votes, X, _ = drawn(0)
    mode, engine, values = found_mode(votes, X)
    rho = float(mode.item_prior.shares[0])
    plain = minimise_with_slopes(engine, penalty=1.0, mean=MEAN, sd=SD, rule=StoppingRule("", 1e-8, 200))
    modes = [
        (rho * values.astype(float) @ values.T + (1 - rho) * np.eye(60), mode.means, mode.at),
        (np.eye(60), *plain[:2]),
    ]
    found = [mode.evidence, feature_map.plain_evidence(engine, *plain[:2], plain[2][-1])]
    first, second, who, n = votes.first, votes.second, votes.worker_codes(), votes.weight
    for (C, r, at), evidence in zip(modes, found, strict=True):
        beta, inverse = at.slopes, np.linalg.inv(C)
        d = r[first] - r[second]
        p = 1 / (1 + np.exp(-beta[who] * d))
        value = -np.sum(n * np.log(np.where(votes.outcome > 0.5, p, 1 - p)))
        value += 0.5 * r @ inverse @ r + 0.5 * np.sum((beta - MEAN) ** 2) / SD**2
        D = np.eye(60)[first] - np.eye(60)[second]
        precision = D.T @ ((n * beta[who] ** 2 * p * (1 - p))[:, None] * D) + inverse
        h = np.bincount(who, n * d**2 * p * (1 - p), len(beta)) + 1 / SD**2
        logs = np.linalg.slogdet(precision)[1] + np.linalg.slogdet(C)[1] + np.log(h).sum()
        assert evidence == pytest.approx(-value - 0.5 * logs, abs=1e-3)
        if at is mode.at:
            sigma = np.linalg.inv(precision)
            assert mode.variances == pytest.approx(np.diag(sigma), rel=1e-5)
            assert mode.item_prior.covariance == pytest.approx(sigma, abs=1e-6)
            assert sigma @ mode.system.rhs == pytest.approx(r, abs=1e-5)


@pytest.mark.parametrize(("total", "best"), [(0.5, -2.6), (0.5, -0.7), (0.5, 0.0), (0.5, 0.6), (0.96, 3.85)])
def test_the_sum_of_the_shares_is_found_by_golden_section(total, best):
    """Of an evidence whose maximum is known, in the log-odds of the sum."""
    asked = []

    def settled(shares):
        asked.append(shares)
        share = shares.sum()
        return SimpleNamespace(evidence=-((np.log(share / (1 - share)) - best) ** 2))

    start = total * np.array([0.6, 0.4])
    found = feature_map._best_sum(settled, SimpleNamespace(item_prior=SimpleNamespace(shares=start)))
    assert len(asked) == 12  # two, and one a section
    assert max(each.sum() for each in asked) <= 0.98  # items have something of their own
    assert found.evidence > -((4.0 * 0.618**11) ** 2)
    assert all(each[0] / each[1] == pytest.approx(1.5) for each in asked)


def test_shares_under_a_fixed_sum_have_one_multiplier():
    """v = v|·|²/(γ + λ) with one λ for all, so that they add up to 1; none is below its least."""
    groups = [np.array([[1.0], [-1.0]])] * 2
    for shares, squares, determined in (
        ([0.3, 0.2], [1.2, 0.4, 0.9], [0.8, 0.5, 1.1]),
        ([0.5, 0.1], [0.1, 5.0, 1.0], [2.0, 0.1, 0.4]),
        ([0.3, 0.2], [8.0, 0.0, 3.0], [0.8, 0.5, 1.1]),
    ):
        prior = feature_map._FixedScale(groups, np.array(shares))
        top = np.append(prior.shares, prior.own) * squares
        result = np.array(squares), np.array(determined)
        prior._squares = lambda run, result=result: result
        prior.learn(None)
        found = np.append(prior.shares, prior.own)
        assert found.sum() == pytest.approx(1.0)
        inside = top > 0.0
        multiplier = top[inside] / found[inside] - np.array(determined)[inside]
        np.testing.assert_allclose(multiplier, multiplier[0], rtol=1e-4)
        np.testing.assert_allclose(found[~inside], 1e-6, rtol=1e-3)
    prior = feature_map._FixedScale(groups, np.array([0.5, 0.48]))
    prior._squares = lambda run: (np.array([1.0, 1.0, 1e-3]), np.ones(3))
    prior.learn(None)
    assert prior.own == pytest.approx(0.02, rel=0.03)  # what items have of their own stays


def test_modes_and_shares_alternate_until_shares_rest(monkeypatch):
    """Shares that go half the way to .4 each time: the seventh step is below a thousandth."""
    asked = []

    def settled(engine, prior, mean, sd, rule, at):
        asked.append(float(prior.shares[0]))
        return SimpleNamespace(means=None, at=SimpleNamespace(slopes=None), item_prior=prior)

    def learn(self, run):
        self.shares = 0.5 * (self.shares + 0.4)

    monkeypatch.setattr(feature_map, "_settled", settled)
    monkeypatch.setattr(feature_map._FixedScale, "learn", learn)
    monkeypatch.setattr(feature_map, "_best_sum", lambda settled, found: found)
    group = np.array([[1.0], [-1.0]])
    feature_map.mode_with_features(None, [group], mean=MEAN, sd=SD, rule=None, start=(None, None))
    assert asked == pytest.approx([0.4 + 0.1 * 0.5**k for k in range(7)])


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
    assert without.scores_of(votes.items) == pytest.approx(crowdsift.fit(votes, "bora-map").scores_of(votes.items))


def test_too_many_items_are_refused(monkeypatch):
    votes, X, _ = drawn(3)
    monkeypatch.setattr("crowdsift.models.bora_map.MAX_DENSE_ITEMS", 50)
    with pytest.raises(RequestError, match="at most 50 items, not of 60; sift takes more"):
        crowdsift.fit(votes, "bora-map", items={"item": np.arange(60), "x": X})


@pytest.mark.parametrize("method", ["bora-map", "sift"])
@pytest.mark.parametrize("columns", ["x", "x,y"])
def test_constant_features_change_nothing(method, columns, tmp_path):
    crowd = crowdsift.simulate(items=12, workers=10, comparisons=400, seed=1)
    path = tmp_path / "items.csv"
    path.write_text("item,x,y\n" + "".join(f"{item},1,2\n" for item in crowd.items))
    plain = crowdsift.fit(crowd.comparisons(), method, threads=1)
    fit = crowdsift.fit(crowd.comparisons(), method, items=f"{path}:{columns}", threads=1)
    np.testing.assert_array_equal(fit.scores_of(crowd.items), plain.scores_of(crowd.items))
    assert any("constant features say nothing" in note for note in fit.warnings)


def test_a_constant_group_beside_another_gets_no_share(tmp_path):
    crowd = crowdsift.simulate(items=30, workers=10, comparisons=300, seed=1)
    path = tmp_path / "items.csv"
    rows = [f"{item},{s},same" for item, s in zip(crowd.items, crowd.scores, strict=True)]
    path.write_text("\n".join(["item,z,text", *rows]))
    given = {"items": f"{path}:z", "item_text": f"{path}:text"}
    fit = crowdsift.fit(crowd.comparisons(), "bora-map", threads=1, **given)
    shares = [block["share"] for block in fit.summary["item_features"]["blocks"]]
    assert shares[0] > 0.5
    assert max(shares[1:]) < 1e-4


def test_scores_that_are_all_equal_have_nothing_to_explain(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,z\na,1\nb,2\nc,4\n")
    votes = Comparisons.from_arrays(list("abc"), list("bca"), worker=list("xyz"), outcome=[0.5] * 3)
    fit = crowdsift.fit(votes, "bora-map", items=f"{path}:z")
    assert not fit.items["score"].any()
    assert any("say nothing of their scores" in note for note in fit.warnings)
