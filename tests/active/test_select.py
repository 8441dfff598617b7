"""Questions are chosen by what they tell: against numerical integrals and full matrices."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from scipy import integrate, stats

import crowdsift
from crowdsift import RequestError, Selector, cli
from crowdsift.active.batches import TYPES, State, ThompsonSampler
from crowdsift.active.beliefs import Independent, Joint, answer, vote_precision
from crowdsift.io.items import read_capacities
from crowdsift.votes.graph import components


@pytest.fixture(scope="module")
def crowd():
    return crowdsift.simulate(items=15, workers=8, comparisons=600, reliability=(0, 1.5), seed=2)


def some_belief(k=6, seed=1):
    random = np.random.default_rng(seed)
    root = random.normal(size=(k, k)) / np.sqrt(k)
    return Joint(random.normal(size=k), root @ root.T + 0.1 * np.eye(k))


def wrong_pairs(belief, covariance):
    """Σ over pairs of ∫ p(d) Φ(-|d|/f) dd with p the belief and f from another covariance."""
    total, k = 0.0, len(belief.mean)
    for i in range(k):
        for j in range(i):
            x = np.zeros(k)
            x[i], x[j] = 1.0, -1.0
            m, s = belief.mean[i] - belief.mean[j], np.sqrt(x @ belief.covariance @ x)
            f = np.sqrt(x @ covariance @ x)
            # p varies slowly over f in the limit that the formula is for: p(0) in its place
            total += stats.norm.pdf(0, m, s) * 2 * integrate.quad(lambda d, f=f: stats.norm.cdf(-d / f), 0, 20 * f)[0]
    return total


def test_worth_is_the_derivative_of_the_number_of_wrong_pairs():
    belief = some_belief()
    batch = belief.batch(np.array([0, 2]), np.array([3, 5]), None)
    for place, (a, b) in enumerate([(0, 3), (2, 5)]):
        tiny = 1e-5
        after = Joint(belief.mean.copy(), belief.covariance.copy())
        variance = belief.variance(np.array([a]), np.array([b]))[0]
        after.move(a, b, 0.0, tiny / (1 + tiny * variance))
        fall = wrong_pairs(belief, belief.covariance) - wrong_pairs(belief, after.covariance)
        assert batch.worth[place] == pytest.approx(fall / tiny, rel=1e-3)


def test_supposed_votes_update_as_the_full_matrices():
    """Rank-one updates at the candidates equal ΣLΣ made anew, with the weights held."""
    belief, k = some_belief(7, 3), 7
    a, b = np.triu_indices(k, 1)
    batch = belief.batch(a, b, None)
    spread = belief.variance(*np.meshgrid(np.arange(k), np.arange(k), indexing="ij"))
    gap = belief.mean[:, None] - belief.mean
    weight = np.exp(-0.5 * gap**2 / spread) / (2 * np.pi * spread)
    np.fill_diagonal(weight, 0)
    laplacian = np.diag(weight.sum(1)) - weight
    s = belief.covariance.copy()
    for place, precision in ((3, 0.7), (11, 2.0), (3, 0.4)):
        batch.take(place, precision)
        x = s[:, a[place]] - s[:, b[place]]
        s -= precision / (1 + precision * (x[a[place]] - x[b[place]])) * np.outer(x, x)
    response = s @ laplacian @ s
    own, var = np.diag(response), np.diag(s)
    np.testing.assert_allclose(batch.variance, var[a] + var[b] - 2 * s[a, b], rtol=1e-9)
    np.testing.assert_allclose(batch.worth, own[a] + own[b] - 2 * response[a, b], rtol=1e-8)


def test_independent_is_joint_with_a_diagonal():
    own = np.array([0.5, 0.2, 0.9, 0.4])
    mean = np.array([0.3, -0.2, 0.0, 0.8])
    a, b = np.triu_indices(4, 1)
    one = Independent(mean.copy(), own.copy(), np.zeros(4, int)).batch(a, b, None)
    two = Joint(mean.copy(), np.diag(own)).batch(a, b, None)
    np.testing.assert_allclose(one.worth, two.worth)
    np.testing.assert_allclose(one.variance, two.variance)


def test_answer_is_the_posterior_by_quadrature():
    """Mean and variance of d, and the shares of types, against integrals for a narrow prior."""
    types, share = np.array([-0.5, 0.3, 1.5]), np.array([0.2, 0.3, 0.5])
    m, v = 0.4, 0.05
    step, shrink, after = answer(m, v, 1.0, types, share)
    d = np.linspace(m - 8 * np.sqrt(v), m + 8 * np.sqrt(v), 20_001)
    prior = stats.norm.pdf(d, m, np.sqrt(v))
    each = share[:, None] / (1 + np.exp(-types[:, None] * d)) * prior
    joint = each / each.sum()
    mean = float((joint.sum(0) * d).sum())
    variance = float((joint.sum(0) * (d - mean) ** 2).sum())
    assert m + v * step == pytest.approx(mean, abs=2e-4)
    assert v - v * v * shrink == pytest.approx(variance, rel=2e-3)
    np.testing.assert_allclose(after, joint.sum(1), atol=1e-3)


def test_precision_of_a_vote_is_expected_information():
    m, v, beta = 0.7, 0.3, 1.2
    slope = lambda d: beta**2 * stats.logistic.pdf(beta * d) * stats.norm.pdf(d, m, np.sqrt(v))  # noqa: E731
    exact = integrate.quad(slope, -10, 10)[0]
    found = vote_precision(np.array([m]), np.array([v]), np.array([beta]), np.ones(1))[0]
    assert found == pytest.approx(exact, rel=0.02)


def test_islands_are_connected_first():
    votes = crowdsift.Comparisons.from_arrays(["a", "c", "e", "a"], ["b", "d", "f", "b"], worker=[1, 1, 2, 2])
    asked = Selector(votes).choose(5)
    assert asked["reason"].tolist() == ["connects", "connects", "orders", "orders", "orders"]
    joined = crowdsift.Comparisons.from_arrays(
        ["a", "c", "e", *asked["first"][:2]], ["b", "d", "f", *asked["second"][:2]], worker=[1] * 5
    )
    assert components(joined).max() == 0
    kept = Selector(votes, islands="keep").choose(3)
    pairs = {frozenset(pair) for pair in zip(kept["first"], kept["second"], strict=True)}
    assert pairs == {frozenset("ab"), frozenset("cd"), frozenset("ef")}


def test_a_batch_has_no_pair_twice_and_its_gains_are_of_close_items(crowd):
    selector = Selector(crowd.comparisons())
    asked = selector.choose(60)
    pairs = {frozenset(pair) for pair in zip(asked["first"], asked["second"], strict=True)}
    assert len(pairs) == 60
    gaps = np.abs(selector.fit.scores_of(asked["first"]) - selector.fit.scores_of(asked["second"]))
    every = selector.scores
    assert gaps[:20].mean() < np.abs(every[:, None] - every).mean()
    assert (asked["gain"] > 0).all()
    again = selector.choose(15 * 14 // 2 + 5)  # more than there are pairs: then some come again
    assert len(again["first"]) == 110


def test_workers_capacities_and_pairs_they_have_seen(crowd):
    votes = crowd.comparisons()
    selector = Selector(votes, workers=["newcomer"])
    asked = selector.choose(40, workers={"w0": 3, "w5": 30, "newcomer": 2})
    names, counts = np.unique(asked["worker"].astype(str), return_counts=True)
    most = {"w0": 3, "w5": 30, "newcomer": 2}
    assert all(count <= most[name] for name, count in zip(names, counts, strict=True))
    mine = votes.worker_codes() == 5
    seen = {
        frozenset(pair) for pair in zip(votes.items[votes.first[mine]], votes.items[votes.second[mine]], strict=True)
    }
    for first, second, worker in zip(asked["first"], asked["second"], asked["worker"], strict=True):
        assert worker != "w5" or frozenset((first, second)) not in seen


def test_reliable_workers_are_asked():
    drawn = crowdsift.simulate(20, 10, 3000, reliability=(0, 1.5), seed=5)
    asked = Selector(drawn.comparisons()).choose(50, workers=list(drawn.workers))
    true = dict(zip(drawn.workers, drawn.reliability, strict=True))
    assert np.mean([true[w] for w in asked["worker"]]) > np.quantile(drawn.reliability, 0.75)


def test_who_is_asked_is_the_larger_mean_of_a_hundred_draws():
    """Two workers: the share of turns is Φ of the difference of means over its sd."""
    random = np.random.default_rng(1)
    types = np.stack([random.normal(1.0, 0.5, TYPES), random.normal(1.0, 0.8, TYPES)])
    types[1] += types[0].mean() - types[1].mean() - 0.05
    share = np.full((2, TYPES), 1 / TYPES)
    state = State(some_belief(), np.zeros(6, int), types[0], types, share, np.full(2, 99.0))
    sampler = ThompsonSampler(state, np.arange(2), np.full(2, 10_000), np.random.default_rng(2))
    first = np.mean([sampler.draw() == 0 for _ in range(4_000)])
    expected = stats.norm.cdf(0.05 / np.sqrt(types.var(axis=1).sum() / 100))
    assert first == pytest.approx(expected, abs=4 * np.sqrt(0.25 / 4_000))


def test_the_same_seed_asks_the_same(crowd):
    one, two = (Selector(crowd.comparisons(), seed=4).choose(20, workers=list(crowd.workers)) for _ in range(2))
    for name in one:
        assert one[name].tolist() == two[name].tolist()


def test_a_thousand_rounds_without_fitting_again():
    """One vote a round: the updates alone find the order that a fit of all votes finds."""
    random = np.random.default_rng(3)
    truth, beta = np.linspace(-2, 2, 12), np.array([1.5, 1.2, 1.0, 0.0])
    selector = Selector(items=range(12), workers=range(4), refit=0)
    for _ in range(1000):
        asked = selector.choose(1)
        a, b, s = int(asked["first"][0]), int(asked["second"][0]), int(random.integers(4))
        won = random.random() < 1 / (1 + np.exp(-beta[s] * (truth[a] - truth[b])))
        selector.add(a if won else b, b if won else a, s)
    assert selector.fit is None
    assert selector.pending == 1000
    tau = stats.kendalltau(selector.scores, truth).statistic
    found = selector.refit()
    assert found.summary["votes"] == 1000
    assert tau > 0.8
    assert stats.kendalltau(selector.scores, truth).statistic >= tau - 0.1


def test_refitting_now_and_then(crowd):
    selector = Selector(crowd.comparisons(), refit=0.01)
    before = selector.fit
    selector.add(["i00"] * 5, ["i01"] * 5, ["w0"] * 5)
    selector.choose(1)
    assert selector.fit is before  # 5 of 600
    selector.add(["i02"] * 5, ["i01"] * 5, ["w0"] * 5, outcome=[0, 1, 0.5, 1, 1])
    selector.choose(1)
    assert selector.fit is not before
    assert selector.fit.summary["votes"] == 610
    assert selector.pending == 0


def test_among_and_many_items():
    drawn = crowdsift.simulate(2000, 30, 6000, seed=1)
    selector = Selector(drawn.comparisons())
    asked = selector.choose(5, among=(["i0000", "i0002"], ["i0001", "i0003"]))
    assert set(asked["first"]) | set(asked["second"]) <= {"i0000", "i0001", "i0002", "i0003"}
    assert len(selector.choose(30)["first"]) == 30


def test_votes_without_workers():
    votes = crowdsift.Comparisons.from_arrays(["a", "b", "c"], ["b", "c", "d"])
    assert len(Selector(votes).choose(4)["first"]) == 4
    with pytest.raises(RequestError, match="no workers to choose from"):
        Selector(votes).choose(1, workers=["x"])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda s: s.choose(0), "pairs must be a whole number"),
        (lambda s: s.choose(10**23), "at most 1,000,000, not 100,000,"),
        (lambda s: s.choose(1, workers=[]), "list is empty"),
        (lambda s: s.choose(1, workers={"w0": -1}), "capacities"),
        (lambda s: s.choose(1, workers=["nobody"]), "'nobody' is unknown"),
        (lambda s: s.add("i00", "i00", "w0"), "itself"),
        (lambda s: s.add("i00", "nothing", "w0"), "'nothing' is unknown"),
        (lambda s: s.add("i00", "i01", "w0", outcome=2), r"\[0, 1\]"),
        (lambda s: s.add(["i00"] * 2, ["i01"] * 3, "w0"), "differ in length"),
    ],
)
def test_wrong_requests(crowd, call, match):
    with pytest.raises(RequestError, match=match):
        call(Selector(crowd.comparisons()))


def test_command(tmp_path, monkeypatch, capsys, crowd):
    crowd.write(tmp_path)
    roster = tmp_path / "who.csv"
    roster.write_text("worker,capacity\nw0,1\nw1,2\n")
    assert read_capacities(roster) == {"w0": 1, "w1": 2}
    arguments = ["crowdsift", "next", str(tmp_path / "votes.csv"), "--pairs", "5", "--json"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--workers", str(roster)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert sorted(row["worker"] for row in rows) == ["w0", "w1", "w1"]
    assert "only 3 of 5" in err
    roster.write_text("worker,capacity\nw0,1\nw1,1.5\n")
    with pytest.raises(SystemExit):
        cli.main()
    assert "row 2, column 'capacity'" in capsys.readouterr().err


def test_where_everybody_only_saw_the_side_somebody_new_is_asked():
    """All votes went to the left item: the crowd is worth nothing, which crashed the choice."""
    n = 20
    votes = {
        "left": ["a", "b", "c"] * n,
        "right": ["b", "c", "a"] * n,
        "winner": ["left"] * 3 * n,
        "worker": ["x", "y", "z"] * n,
    }
    assert (crowdsift.next_pairs(votes, 3)["gain"] > 0).all()
    assert crowdsift.next_pairs(votes, 3, workers="all").height == 0


def test_workers_whose_votes_weigh_less_than_one_half_count():
    votes = {"winner": ["a", "b"], "loser": ["b", "c"], "worker": ["x", "y"], "weight": [0.3, 0.2]}
    assert crowdsift.next_pairs(votes, 3).height == 3


def test_a_fit_is_used_as_it_is_when_all_its_items_and_workers_are_named(crowd):
    fit = crowdsift.fit(crowd.comparisons())
    selector = crowdsift.Selector(fit, items=fit.votes.items, workers=fit.votes.workers, refit=0)
    assert selector.fit is fit
