"""Verdicts, agreement, and what is said where nothing can be learned."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons
from crowdsift.models.diagnostics import Kind
from crowdsift.report.facts import gather
from crowdsift.report.page import _texts as page_texts
from crowdsift.report.page import worker_columns
from crowdsift.report.terminal import show_fit
from crowdsift.results.reasons import reason_texts

KINDS = {"careful": 34, "random": 6, "left": 3, "adversarial": 2}
WORDS = {"careful": "reliable", "random": "random", "left": "one-sided", "adversarial": "adversarial"}


def batch(seed: int) -> tuple[dict[str, list], list[str]]:
    """A crowd of 45 on 60 images: 700 pairs, five answers each, some of them ties."""
    rng = np.random.default_rng(seed)
    kinds = [kind for kind, count in KINDS.items() for _ in range(count)]
    skill = {"careful": 2.0, "random": 0.0, "left": 0.0, "adversarial": -2.0}
    score = rng.standard_normal(60)
    rows: dict[str, list] = {"left": [], "right": [], "winner": [], "worker": []}
    for _ in range(700):
        a, b = rng.choice(60, 2, replace=False)
        for worker in rng.choice(45, 5, replace=False):
            kind, d = kinds[worker], score[a] - score[b]
            p = 0.97 if kind == "left" else 1.0 / (1.0 + np.exp(-skill[kind] * d))
            answer = "left" if rng.random() < p else "right"
            if kind == "careful" and rng.random() < 0.08 * np.exp(-abs(d)):
                answer = "tie"
            for name, value in zip(rows, (int(a), int(b), answer, int(worker)), strict=True):
                rows[name].append(value)
    return rows, kinds


def test_planted_workers_are_found_and_no_careful_one_is_flagged():
    missed = 0
    for seed in range(3):
        rows, kinds = batch(seed)
        table = crowdsift.fit(rows).workers
        found = dict(zip(table["worker"].tolist(), table["verdict"].tolist(), strict=True))
        for worker, kind in enumerate(kinds):
            if found[worker] != WORDS[kind]:
                assert (kind, found[worker]) == ("random", "undecided")
                missed += 1
    assert missed <= 1  # of 18 random ones: an interval of 90 % that does not hold 0


def test_weak_workers_are_not_random_and_are_paid():
    """Fault 1: 25 workers of reliability 3 and two honest ones of .3 and .45, 300 votes each."""
    worker = np.repeat(np.arange(27), 300)
    beta = np.append(np.full(25, 3.0), [0.3, 0.45])[worker]
    weak, beside = 0, []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        score, a = rng.standard_normal(30), rng.integers(0, 30, len(worker))
        b = (a + rng.integers(1, 30, len(worker))) % 30
        won = rng.random(len(worker)) < 1.0 / (1.0 + np.exp(beta * (score[b] - score[a])))
        rows = {"winner": np.where(won, a, b), "loser": np.where(won, b, a), "worker": worker}
        for method in ("sift", "bora-map", "bora-em"):
            fit = crowdsift.fit(rows, method)
            table, suggestion = fit.workers, fit.decisions()["suggestion"]
            for row in (25, 26):
                above = table["lower"][row] > 0.0
                weak += int(table["verdict"][row] == "weak")
                assert not above or table["verdict"][row] == "weak"
                assert not above or suggestion[row] == "pay"
                beside.append((above, table["p_above_random"][row] >= 0.95))
    assert weak >= 30  # of 36
    assert all(above == sure for above, sure in beside)  # no probability against its interval


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", [0.3, 1.5])
def test_a_judge_who_nearly_always_answers_left_is_one_sided(seed, spread):
    """Fault 2: a side bias of +3.7 leaves little, also where side biases are usual."""
    rng = np.random.default_rng(seed)
    worker = np.append(np.repeat(np.arange(30), 100), np.full(200, 30))
    score, a = rng.standard_normal(30), rng.integers(0, 30, len(worker))
    b = (a + rng.integers(1, 30, len(worker))) % 30
    side = np.append(np.clip(rng.normal(0.0, spread, 30), -1.5, 1.5), 3.7)[worker]
    left = rng.random(len(worker)) < 1.0 / (1.0 + np.exp(-1.3 * (score[a] - score[b]) - side))
    rows = {"left": a, "right": b, "winner": np.where(left, "left", "right"), "worker": worker}
    table = crowdsift.fit(rows).workers
    assert table["verdict"][30] == "one-sided"
    assert not np.isin(table["verdict"][:30], ("one-sided", "random", "adversarial")).any()


@pytest.mark.parametrize("method", ["sift", "bora-map", "bora-em", "crowd-bt", "factor-bt", "htcv", "hbtl"])
@pytest.mark.parametrize("seed", [1, 2])
def test_honest_judges_with_few_votes_are_not_accused(method, seed):
    """Fault 25: 6,000 honest judges with 1 to 20 votes each and ties, who lean to the left, more in the first crowd."""
    from benchmarks.verdict_safety import ACCUSED, honest

    verdict = crowdsift.fit(honest(seed).votes, method).workers["verdict"]
    assert np.isin(verdict, ACCUSED).sum() <= 1
    assert (verdict == "reliable").sum() > 300


def test_ties_accuse_nobody():
    """A worker who ties five times is undecided, however few others tie."""
    rows, _ = batch(1)
    for index in range(5):
        for name, value in (("left", index), ("right", index + 9), ("winner", "tie"), ("worker", 45)):
            rows[name].append(value)
    for method in ("sift", "bora-map"):
        assert crowdsift.fit(rows, method).workers["verdict"][45] == "undecided"


@pytest.mark.parametrize("level", [0.55, 0.9, 0.999])
@pytest.mark.parametrize("method", ["sift", "bora-em", "hbtl"])
def test_verdicts_go_with_the_intervals_of_any_level(level, method):
    rows, _ = batch(2)
    table = crowdsift.fit(rows, method, level=level).workers
    verdict = table["verdict"]
    assert (table["lower"][np.isin(verdict, ("reliable", "weak"))] > 0.0).all()
    assert (table["upper"][verdict == "adversarial"] < 0.0).all()
    random = verdict == "random"
    assert ((table["lower"][random] <= 0.0) & (table["upper"][random] >= 0.0)).all()


def test_nobody_with_one_vote_is_called_anything():
    rng = np.random.default_rng(3)
    score, n = np.linspace(-1.5, 1.5, 14), 12_000
    worker = np.minimum(rng.geometric(0.0004, n), 8_000)
    a = rng.integers(0, 14, n)
    b = (a + rng.integers(1, 14, n)) % 14
    won = rng.random(n) < 1.0 / (1.0 + np.exp(score[b] - score[a]))
    votes = {"winner": np.where(won, a, b), "loser": np.where(won, b, a), "worker": worker}
    fit = crowdsift.fit(votes)
    single = fit.workers["comparisons"] == 1
    assert single.sum() > 100
    assert set(fit.workers["verdict"][single]) == {"undecided"}


def test_an_interval_of_reliability_holds_its_estimate():
    for seed in range(3):
        fit = crowdsift.fit(crowdsift.simulate(20, 60, 300, seed=seed).comparisons())
        table = fit.workers
        assert (table["lower"] <= table["reliability"]).all()
        assert (table["reliability"] <= table["upper"]).all()


# --- agreement -----------------------------------------------------------------------------------


def test_agreement_is_with_a_fit_of_the_others():
    """bora-map with all reliabilities equal, fitted again without each worker."""
    votes = crowdsift.simulate(items=12, workers=20, comparisons=400, seed=3).comparisons()
    model = crowdsift.BoraMAP(reliability_sd=1e-4)
    fit = crowdsift.fit(votes, model)
    expected = []
    for s in range(votes.n_workers):
        mine = np.repeat(np.arange(votes.n_workers) == s, np.diff(votes.offsets))
        others = crowdsift.fit(votes.select(~mine), model).scores_of(votes.items)
        order = np.sign(others[votes.first[mine]] - others[votes.second[mine]])
        agrees = order == np.sign(votes.outcome[mine] - 0.5)
        expected.append(np.average(agrees, weights=votes.weight[mine]))
    np.testing.assert_allclose(fit.workers["agreement"], expected, atol=0.06)
    assert np.mean(np.abs(fit.workers["agreement"] - expected) > 1e-9) < 0.3


def test_pairs_that_others_leave_open_do_not_count():
    """A triangle of three workers: the two others imply the order of each one's pair."""
    votes = Comparisons.from_arrays(
        ["a", "b", "a", "x", "p", "q"], ["b", "c", "c", "y", "q", "r"], worker=["u", "v", "w", "u", "v", "w"]
    )
    agreed = crowdsift.fit(votes, "bora-map").workers["agreement"]
    assert agreed[2] == 1.0  # a > b > c; q and r are nobody else's
    cycle = Comparisons.from_arrays(
        ["a", "b", "c", "x", "p", "q"], ["b", "c", "a", "y", "q", "r"], worker=["u", "v", "w", "u", "v", "w"]
    )
    assert crowdsift.fit(cycle, "bora-map").workers["agreement"].tolist() == [0.0, 0.0, 0.0]
    lonely = Comparisons.from_arrays(["a", "x"], ["b", "y"], worker=["u", "v"])
    assert np.isnan(crowdsift.fit(lonely, "bora-map").workers["agreement"]).all()


def test_an_item_that_nobody_else_judged_is_open_in_large_components_too():
    drawn = crowdsift.simulate(items=90, workers=12, comparisons=3000, seed=2).comparisons()
    rows = {
        "winner": [*drawn.items[drawn.first], "new"],
        "loser": [*drawn.items[drawn.second], "i0"],
        "worker": [*drawn.workers[drawn.worker_codes()], "only"],
    }
    agreed = crowdsift.fit(rows, "bora-map").workers
    place = agreed["worker"].tolist().index("only")
    assert np.isnan(agreed["agreement"][place])
    assert np.isfinite(np.delete(agreed["agreement"], place)).all()


# --- nothing to learn ----------------------------------------------------------------------------


def test_where_no_item_is_in_two_votes_one_message_says_so(capsys):
    n = 400
    rows = {
        "winner": [f"a{i}" for i in range(n)],
        "loser": [f"b{i}" for i in range(n)],
        "worker": [i % 20 for i in range(n)],
    }
    fit = crowdsift.fit(rows)
    assert [each.kind for each in fit.diagnostics] == [Kind.INFORMATION]
    (message,) = fit.warnings
    assert "no item is in two votes" in message
    assert "pairs judged again" in message
    assert set(fit.workers["verdict"]) == {"undecided"}
    assert np.isnan(fit.workers["agreement"]).all()
    from crowdsift.report.terminal import show_fit

    show_fit(fit)
    assert "a0" not in capsys.readouterr().out


def test_coin_flips_teach_nothing_and_judge_nobody():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 30, 600)
    b = (a + rng.integers(1, 30, 600)) % 30
    fit = crowdsift.fit({"winner": a, "loser": b, "worker": rng.integers(0, 20, 600)})
    assert Kind.INFORMATION in {each.kind for each in fit.diagnostics}
    assert set(fit.workers["verdict"]) == {"undecided"}


@pytest.mark.parametrize("method", ["sift", "bora-map", "bora-em", "hbtl"])
def test_nobody_is_adversarial_by_a_sign_that_is_not_settled(method):
    """Of two camps of the same size either may be the honest one, until gold says which."""
    rng = np.random.default_rng(4)
    score, worker = rng.standard_normal(10), np.repeat(np.arange(10), 60)
    a = rng.integers(0, 10, len(worker))
    b = (a + rng.integers(1, 10, len(worker))) % 10
    slope = np.where(worker < 5, 2.0, -2.0) * (score[a] - score[b])
    won = rng.random(len(worker)) < 1.0 / (1.0 + np.exp(-slope))
    rows = {"winner": np.where(won, a, b), "loser": np.where(won, b, a), "worker": worker}
    with pytest.warns(crowdsift.SignWarning):
        fit = crowdsift.fit(rows, method)
    assert fit.summary["sign_probability"] < 0.9
    assert "adversarial" not in fit.workers["verdict"].tolist()
    assert set(fit.decisions()["suggestion"].tolist()) == {"pay"}
    undecided = reason_texts(fit)[fit.workers["verdict"] == "undecided"]
    assert len(undecided) >= 5
    assert all("do not settle which end of the ranking is up" in text for text in undecided)
    assert all("gold" in text for text in undecided)
    order = np.argsort(-score)
    gold = {"winner": order[:5], "loser": order[5:]}
    known = crowdsift.fit(rows, method, gold=gold).workers["verdict"].tolist()
    assert known == ["reliable"] * 5 + ["adversarial"] * 5


def test_a_one_sided_worker_has_no_interval_of_reliability(capsys):
    """Votes that ignore the items say nothing about reliability; the interval was 0 to 3e-23."""
    rng = np.random.default_rng(0)
    score, worker = 1.5 * rng.standard_normal(15), np.repeat(np.arange(20), 150)
    a = rng.integers(0, 15, len(worker))
    b = (a + rng.integers(1, 15, len(worker))) % 15
    left = rng.random(len(worker)) < 1.0 / (1.0 + np.exp(1.5 * (score[b] - score[a])))
    left[worker < 3] = rng.random(450) < 0.985
    side = np.where(left, "left", "right")
    fit = crowdsift.fit({"left": a, "right": b, "winner": side, "worker": worker})
    table = fit.worker_table
    assert table["verdict"].tolist() == ["one-sided"] * 3 + ["reliable"] * 17
    for name in ("lower", "upper"):
        assert np.isnan(table[name]).tolist() == [True] * 3 + [False] * 17
    show_fit(fit)
    assert capsys.readouterr().out.count("not informative") == 3
    facts = gather(fit, fit.votes)
    texts = page_texts(worker_columns(facts), "reliability", 2, 0.0)["ends"]
    assert [text == "not informative" for text in texts] == [True] * 3 + [False] * 17
