"""Verdicts, agreement, and what is said where nothing can be learned."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons
from crowdsift.models.diagnostics import Kind
from crowdsift.results.verdicts import words_of

KINDS = {"careful": 34, "random": 6, "left": 3, "adversarial": 2}
WORDS = {"careful": "reliable", "random": "random", "left": "one-sided",
         "adversarial": "adversarial"}  # fmt: skip


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


@pytest.mark.parametrize("seed", range(3))
def test_planted_workers_are_found_and_no_careful_one_is_flagged(seed):
    rows, kinds = batch(seed)
    fit = crowdsift.fit(rows)
    found = dict(zip(fit.workers["worker"].tolist(), fit.workers["verdict"].tolist(), strict=True))
    for worker, kind in enumerate(kinds):
        assert found[worker] == WORDS[kind], (worker, kind)


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


def test_words_need_three_nats():
    evidence = np.array([
        [0.0, -2.9, -9.0],  # adversarial or random
        [-2.0, 0.0, -3.1],  # random, or adversarial: not informative in any case
        [-9.0, 0.0, -2.9],
        [-9.0, -3.1, 0.0],
    ])  # fmt: skip
    words = words_of(evidence, np.ones(4), 1.0, np.zeros(4))
    assert words.tolist() == ["undecided", "random", "undecided", "reliable"]


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
        ["a", "b", "a", "x", "p", "q"], ["b", "c", "c", "y", "q", "r"],
        worker=["u", "v", "w", "u", "v", "w"],
    )  # fmt: skip
    agreed = crowdsift.fit(votes, "bora-map").workers["agreement"]
    assert agreed[2] == 1.0  # a > b > c; q and r are nobody else's
    cycle = Comparisons.from_arrays(
        ["a", "b", "c", "x", "p", "q"], ["b", "c", "a", "y", "q", "r"],
        worker=["u", "v", "w", "u", "v", "w"],
    )  # fmt: skip
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
    rows = {"winner": [f"a{i}" for i in range(n)], "loser": [f"b{i}" for i in range(n)],
            "worker": [i % 20 for i in range(n)]}  # fmt: skip
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
