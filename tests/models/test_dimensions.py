"""sift in several dimensions against planted truth."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift.engines import opened_engine
from crowdsift.errors import RequestError
from crowdsift.fitting.estimate import Resources, estimate_votes
from crowdsift.io.items import Gold
from crowdsift.models.base import mirror
from crowdsift.solvers.ep.terms.dimensions import Setting, begin, leading_residual, run

CPU = Resources("cpu", None, 1)


def planted(D, items=30, workers=100, votes=60, seed=0, side=0.0, tie=0.0, pairs=False):
    """Votes of a crowd with D dimensions, and the positions and weights of its items and workers.

    With `pairs` items 0 and 1, 2 and 3, ... are compared with each other only.
    """
    rng = np.random.default_rng(seed)
    x, a = rng.normal(size=(items, D)), rng.normal(size=(workers, D))
    a[:, 0] += 1.0
    s = np.repeat(np.arange(workers), votes)
    i = rng.integers(items, size=len(s))
    j = i ^ 1 if pairs else (i + rng.integers(1, items, len(s))) % items
    z, u = (a[s] * (x[i] - x[j])).sum(1) + side, rng.uniform(size=len(s))
    win, loss = 1 / (1 + np.exp(tie - z)), 1 / (1 + np.exp(tie + z))
    y = np.where(u < win, 1.0, np.where(u < win + loss, 0.0, 0.5))
    made = crowdsift.Comparisons.from_arrays(i, j, worker=s, outcome=y, sides_known=side != 0.0)
    return made, x[[int(k) for k in made.items]], a[[int(k) for k in made.workers]]


def canonical(one, two):
    """The smallest canonical correlation of two tables."""
    one, two = (np.linalg.qr(each - each.mean(0))[0] for each in (one, two))
    return np.linalg.svd(one.T @ two)[1].min()


@pytest.mark.parametrize("D", [2, 3])
def test_planted_dimensions_are_found(D):
    votes, x, a = planted(D)
    estimate = estimate_votes(crowdsift.Sift(), votes, CPU)
    found = estimate.dimensions
    assert found is not None
    assert found.count == D
    assert canonical(x, found.positions) > 0.95
    assert canonical(a, found.weights) > 0.8
    assert found.has_common
    assert np.corrcoef(x[:, 0], estimate.scores)[0, 1] > 0.95  # μ is along the first axis
    np.testing.assert_array_equal(found.positions[:, 0], estimate.scores)
    np.testing.assert_array_equal(found.weights[:, 0], estimate.workers.reliability)


def test_intervals_of_scores_cover_the_truth():
    inside = []
    for seed in range(20, 26):
        votes, x, _ = planted(2, workers=200, votes=50, seed=seed)
        estimate = estimate_votes(crowdsift.Sift(dimensions=2), votes, CPU)
        truth, size = x[:, 0] - x[:, 0].mean(), estimate.scores.std()
        error = truth / truth.std() - estimate.scores / size
        inside.append(np.abs(error) < 1.645 * estimate.score_sd / size)
    assert 0.82 < np.mean(inside) < 0.97  # .9, six crowds of 30 items, whose errors are shared


def test_intervals_of_many_items_cover_the_truth():
    inside = []
    for seed in (20, 21):
        votes, x, _ = planted(2, items=650, workers=300, votes=150, seed=seed)
        estimate = estimate_votes(crowdsift.Sift(dimensions=2), votes, CPU)
        truth, size = x[:, 0] - x[:, 0].mean(), estimate.scores.std()
        error = truth / truth.std() - estimate.scores / size
        inside.append(np.abs(error) < 1.645 * estimate.score_sd / size)
    assert 0.87 < np.mean(inside) < 0.95  # .9; with weights and direction as known less than .86


def test_variances_of_many_items_are_near_those_of_the_joint_covariance(monkeypatch):
    votes, _, _ = planted(2, workers=200, votes=50, seed=20)
    whole = estimate_votes(crowdsift.Sift(dimensions=2), votes, CPU)
    monkeypatch.setattr("crowdsift.models.sift_dimensions._RESPONSE_WORK", 0.0)
    blocks = estimate_votes(crowdsift.Sift(dimensions=2), votes, CPU)
    ratio = blocks.score_sd / whole.score_sd
    assert np.median(ratio) == pytest.approx(1.0, abs=0.03)
    assert 0.95 < ratio.min() < ratio.max() < 1.25
    assert blocks.precision is not None


def test_the_spread_of_weights_is_that_planted():
    spreads = []
    for seed in range(4):
        votes, x, _ = planted(3, workers=200, votes=50, seed=seed)
        found = estimate_votes(crowdsift.Sift(dimensions=3), votes, CPU).dimensions
        back = np.linalg.inv(np.linalg.lstsq(found.positions, x - x.mean(0), rcond=None)[0])
        spreads.append(np.diag(back @ found.covariance @ back.T)[1:])
    assert 0.93 < np.mean(spreads) < 1.13  # 1; 8 variances of 200 workers have an error of .035


def test_sides_ties_and_islands():
    votes, x, _ = planted(2, items=40, workers=60, votes=200, side=0.7, tie=0.4, pairs=True)
    estimate = estimate_votes(crowdsift.Sift(), votes, CPU)
    found, component = estimate.dimensions, estimate.precision.component
    assert found is not None
    assert found.count == 2
    assert abs(np.median(estimate.workers.side_bias) - 0.7) < 0.15
    assert abs(np.median(estimate.workers.extra["tie_width"]) - 0.4) < 0.15
    sums = np.stack([np.bincount(component, column) for column in x.T], 1)
    assert canonical(x - (sums / 2)[component], found.positions) > 0.9


def test_evidence_counts_the_votes_left_out():
    """A weak dimension that the bound on six votes of seven does not carry alone, but left-out votes support."""
    rng = np.random.default_rng(100)
    x, a = rng.normal(size=(12, 2)), np.stack([1 + 0.3 * rng.normal(size=300), 0.5 * rng.normal(size=300)], axis=1)
    s = np.repeat(np.arange(300), 15)
    i = rng.integers(12, size=len(s))
    j = (i + rng.integers(1, 12, len(s))) % 12
    won = rng.random(len(s)) < 1 / (1 + np.exp(-(a[s] * (x[i] - x[j])).sum(1)))
    votes = crowdsift.Comparisons.from_arrays(i, j, worker=s, outcome=won.astype(float))
    found = estimate_votes(crowdsift.Sift(), votes, CPU).dimensions
    assert found is not None
    one, two = found.trials[:2]
    assert two.evidence > one.evidence + 3.0
    votes_left_out = votes.total_weight / 7.0
    by_left_out = (one.left_out_loss - two.left_out_loss) * votes_left_out
    assert by_left_out > 3.0
    assert canonical(x[[int(k) for k in votes.items]], found.positions) > 0.8


def test_one_dimensional_votes_stay_as_they_are():
    votes = crowdsift.simulate(items=30, workers=40, comparisons=3000, seed=4).comparisons()
    auto, one = (estimate_votes(crowdsift.Sift(dimensions=d), votes, CPU) for d in ("auto", 1))
    assert auto.dimensions is None
    np.testing.assert_array_equal(auto.scores, one.scores)
    np.testing.assert_array_equal(auto.score_sd, one.score_sd)


def test_gold_turns_the_score():
    votes, x, _ = planted(2)
    code = {str(label): k for k, label in enumerate(votes.items)}
    low, high = np.argsort(x[:, 1])[:6], np.argsort(-x[:, 1])[:6]
    assert len(code) == len(x)
    gold = Gold(high.astype(np.uint32), low.astype(np.uint32))
    estimate = estimate_votes(crowdsift.Sift(dimensions=2), votes, CPU, gold)
    assert estimate.dimensions.direction == "gold"
    scores = estimate.scores
    assert np.corrcoef(x[:, 1], scores)[0, 1] > 0.9


def trusted_and_others(seed):
    """Votes of 4 people who follow quality and of 26 judges, 18 of whom follow appeal; and quality."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=14)
    appeal = rng.normal(size=14) - 0.6 * quality
    s = np.repeat(np.arange(30), 100)
    i = rng.integers(14, size=len(s))
    j = (i + rng.integers(1, 14, len(s))) % 14
    a, b = np.where(s < 4, 1.5, np.where(s < 12, 1.5, 0.2)), np.where(s < 4, 0.0, np.where(s < 12, 0.3, 1.4))
    z = a * (quality[i] - quality[j]) + b * (appeal[i] - appeal[j])
    won = rng.random(len(s)) < 1 / (1 + np.exp(-z))
    names = np.char.add("i", np.stack([np.where(won, i, j), np.where(won, j, i)]).astype(str))
    panel = np.where(s < 4, "human", "llm")
    rows = {"winner": names[0], "loser": names[1], "worker": np.char.add("w", s.astype(str)), "panel": panel}
    return {name: column.tolist() for name, column in rows.items()}, (quality - quality.mean()) / quality.std()


def test_trusted_votes_turn_the_score(tmp_path):
    right, inside = [], []
    for seed in range(4):
        rows, quality = trusted_and_others(seed)
        fit = crowdsift.fit(rows, trusted={"panel": "human"}, dimensions=2)
        truth, table = quality[[int(item[1:]) for item in fit.labels]], fit.item_table
        size = table["score"].std()
        right.append(np.corrcoef(table["score"], truth)[0, 1])
        inside.append((table["lower"] / size <= truth) & (truth <= table["upper"] / size))
    common = crowdsift.fit(rows, dimensions=2)
    assert np.corrcoef(common.item_table["score"], quality[[int(item[1:]) for item in common.labels]])[0, 1] < 0.7
    assert min(right) > 0.95
    assert np.mean(inside) > 0.85
    assert (fit.summary["direction"], fit.summary["has_common"]) == ("trusted", True)
    assert fit.summary["trusted"]["values"] == ["human"]
    assert "direction of the trusted votes" in str(fit.report(refit=False).html)
    assert "gold_to_check" not in fit.summary
    fit.save(tmp_path / "fit")
    loaded = crowdsift.load(tmp_path / "fit")
    assert loaded.votes.panels == fit.votes.panels
    more = {name: column[:50] for name, column in trusted_and_others(9)[0].items()}
    updated = loaded.update(more)
    assert (updated.summary["dimensions"], updated.summary["direction"]) == (2, "trusted")


def test_the_bound_never_falls():
    votes, _, _ = planted(2, items=12, workers=20, votes=40, side=0.3, tie=0.3)
    with opened_engine("cpu", votes, 1, "grid", {}) as engine:
        component, m = engine.facts.component, votes.n_workers
        setting = Setting(engine.dimensions, np.full(m, 0.3), True, component)
        state = begin(np.linspace(-1, 1, 12), np.ones(12), np.ones((m, 2)), np.ones((m, 2)))
        direction, _ = leading_residual(setting, state.positions, state.weights)
        state = state.extended(direction)
        bounds = [run(setting, state, most=n).bound for n in range(3, 40, 4)]
    # hyper-parameters have a weak prior, which the bound leaves out
    assert np.diff(bounds).min() > -0.05
    assert bounds[-1] > bounds[0] + 1.0


def test_offsets_and_left_out_votes():
    votes, _, _ = planted(3, workers=60)
    kept = np.random.default_rng(1).random(len(votes)) < 0.8
    rest, out = votes.select(kept), votes.select(~kept)
    loss = {}
    for count in (1, 3):
        model = crowdsift.Sift(dimensions=count)
        estimate = estimate_votes(model, rest, CPU)
        with opened_engine("cpu", out, 1, "grid", {}) as engine:
            loss[count] = -model.left_out(engine, estimate) / out.total_weight
    assert loss[3] < loss[1] - 0.05
    found, rng = estimate.dimensions, np.random.default_rng(2)
    worker, first, second = 5, 1, 2
    a = rng.multivariate_normal(found.weights[worker], found.weight_covariance[worker], 200_000)
    draw = [
        rng.multivariate_normal(found.positions[i], found.position_covariance[i] * 30 / 29, 200_000)
        for i in (first, second)
    ]
    z = (a * (draw[0] - draw[1]))[:, 1:].sum(1)
    mean, variance = found.offsets(*(np.array([k]) for k in (worker, first, second)))
    assert abs(mean[0] - z.mean()) < 0.02
    assert abs(variance[0] / z.var() - 1.0) < 0.03


def test_mirrored_estimate_predicts_the_same():
    votes, _, _ = planted(2, workers=60)
    model = crowdsift.Sift(dimensions=2)
    estimate = estimate_votes(model, votes, CPU)
    turned = mirror(model, estimate)
    np.testing.assert_array_equal(turned.dimensions.positions[:, 0], turned.scores)
    with opened_engine("cpu", votes, 1, "grid", {}) as engine:
        there, back = model.left_out(engine, turned), model.left_out(engine, estimate)
    assert there == pytest.approx(back, rel=1e-12)


def test_more_dimensions_than_votes_can_carry():
    votes, _, _ = planted(2, items=4, workers=9)
    with pytest.raises(RequestError, match="4 dimensions are too many for 4 items and 9 workers, which can carry 3"):
        estimate_votes(crowdsift.Sift(dimensions=4), votes, CPU)
    islands = planted(1, items=6, workers=9, pairs=True)[0]
    with pytest.raises(RequestError, match="6 items in 3 islands and 9 workers, which can carry 3"):
        estimate_votes(crowdsift.Sift(dimensions=4), islands, CPU)
    assert estimate_votes(crowdsift.Sift(dimensions=3), islands, CPU).dimensions.count == 3
    with pytest.raises(RequestError, match=r"20 items and 2 workers, which can carry 2 \(never more than 8\)"):
        estimate_votes(crowdsift.Sift(dimensions=3), planted(1, items=20, workers=2)[0], CPU)
    with pytest.raises(RequestError, match="2 dimensions are too many for 4 items and 1 worker, which can carry 1"):
        estimate_votes(crowdsift.Sift(dimensions=2), planted(1, items=4, workers=1)[0], CPU)
    with pytest.raises(RequestError, match="10 items and 12 workers, which can carry 8"):
        estimate_votes(crowdsift.Sift(dimensions=9), planted(1, items=10, workers=12)[0], CPU)
    with pytest.raises(RequestError, match="whole number above 0 or 'auto', not 0"):
        crowdsift.Sift(dimensions=0)


def test_contexts_that_are_not_pooled_are_said_to_be_ranked_alone():
    rng = np.random.default_rng(3)
    i = rng.integers(8, size=400)
    j = (i + rng.integers(1, 8, 400)) % 8
    rows = {"winner": i.tolist(), "loser": j.tolist(), "worker": (np.arange(400) % 9).tolist()}
    rows["lang"] = rng.choice(["de", "en"], 400).tolist()
    said = {d: str(crowdsift.fit(rows, by="lang", dimensions=d).summary["warnings"]) for d in (1, 2)}
    assert ["ranked from its votes alone" in text for text in said.values()] == [False, True]


def test_votes_decide_how_near_to_nothing_random_workers_are():
    votes, x, _ = planted(2, workers=150, votes=80)
    rng, each = np.random.default_rng(5), (60, 240)
    s = np.repeat(np.arange(20), np.tile(each, 10))  # who answer at random
    i = rng.integers(30, size=len(s))
    j = (i + rng.integers(1, 30, len(s))) % 30
    joined = crowdsift.Comparisons.from_arrays(
        np.append(votes.first, i),
        np.append(votes.second, j),
        worker=np.append(votes.worker_codes(), s + votes.n_workers),
        outcome=np.append(votes.outcome, rng.integers(2, size=len(s))),
        weight=np.append(votes.weight, np.ones(len(s))),
    )
    workers = estimate_votes(crowdsift.Sift(dimensions=2), joined, CPU).workers
    at = np.array([int(label) for label in joined.workers])
    lower, upper = (v[np.argsort(at)][-20:] for v in (workers.reliability_lower, workers.reliability_upper))
    assert np.mean((lower < 0.0) & (upper > 0.0)) >= 0.85
    for start, count in enumerate(each):  # curvature at 0: votes x 1/4 x the square of differences
        plain = 2 * 1.645 / np.sqrt(count / 4 * 2.0 * x[:, 0].var())
        assert np.median((upper - lower)[start::2]) == pytest.approx(plain, rel=0.25)
