"""Spammers do what their kind says."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons, RequestError, add_spammers
from crowdsift.lab.spam import KINDS, write_votes


@pytest.fixture(scope="module")
def votes():
    return crowdsift.simulate(10, 20, 1010, seed=1).comparisons()


def spam_of(spammed, kind):
    """Outcomes (and weights) of the spammers of one kind."""
    named = np.array([str(label).startswith(f"spam-{kind}") for label in spammed.workers])
    mine = named[spammed.worker_codes()]
    return spammed.outcome[mine], spammed.weight[mine], mine


def test_numbers(votes):
    spammed = add_spammers(votes, "random", 40, seed=3)
    assert spammed.n_workers == 28
    loads = dict(zip(spammed.workers, spammed.worker_loads(), strict=True))
    added = {label: load for label, load in loads.items() if label.startswith("spam")}
    assert set(added.values()) == {50}  # ⌊1010/20⌋
    assert spammed.total_weight == 1010 + 8 * 50
    kept = {label: load for label, load in loads.items() if label not in added}
    assert list(kept.values()) == votes.worker_loads().tolist()


def test_sides(votes):
    outcome, _, _ = spam_of(add_spammers(votes, "left", 50), "left")
    assert (outcome == 1).all()
    outcome, _, _ = spam_of(add_spammers(votes, "right", 50), "right")
    assert (outcome == 0).all()


def test_coins(votes):
    outcome, weight, _ = spam_of(add_spammers(votes, "random", 900, seed=2), "random")
    share = np.average(outcome, weights=weight)
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(weight.sum())


def test_adversaries_answer_the_opposite():
    """Where everyone prefers the item on the left, an adversary prefers the right one."""
    votes = Comparisons.from_arrays(
        ["a", "b", "c"] * 4, ["b", "c", "a"] * 4, worker=list(range(4)) * 3, sides_known=True
    )
    outcome, _, _ = spam_of(add_spammers(votes, "adversarial", 100), "adversarial")
    assert (outcome == 0).all()


def test_ties_stay_ties_for_adversaries():
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=[1, 2], outcome=[0.5, 0.5], sides_known=True)
    outcome, _, _ = spam_of(add_spammers(votes, "adversarial", 100), "adversarial")
    assert (outcome == 0.5).all()


def test_combined_is_a_quarter_each(votes):
    spammed = add_spammers(votes, "combined", 50, seed=1)
    counts = [sum(str(w).startswith(f"spam-{kind}") for w in spammed.workers) for kind in KINDS[:4]]
    assert counts == [3, 3, 2, 2]


def test_unknown_sides_are_fixed_for_a_pair():
    honest = Comparisons.from_arrays(["a", "b", "c", "a"] * 5, ["b", "a", "a", "c"] * 5, worker=list(range(4)) * 5)
    spammed = add_spammers(honest, "left", 100, seed=4)
    assert spammed.sides_known
    shown = {(a, b) for a, b in zip(spammed.first.tolist(), spammed.second.tolist(), strict=True)}
    assert len(shown) == len({frozenset(pair) for pair in shown})
    # nobody's answer changed
    winners = np.where(spammed.outcome == 1, spammed.first, spammed.second)
    _, _, spam = spam_of(spammed, "left")
    kept = sorted(zip(winners[~spam].tolist(), spammed.weight[~spam].tolist(), strict=True))
    before = sorted(zip(honest.first.tolist(), honest.weight.tolist(), strict=True))
    assert kept == before


def test_same_seed_same_spam(votes):
    one, two, other = (add_spammers(votes, "combined", 30, seed=s) for s in (5, 5, 6))
    assert one.outcome.tobytes() == two.outcome.tobytes()
    assert one.first.tobytes() == two.first.tobytes()
    assert one.first.tobytes() != other.first.tobytes()


def test_names_that_are_taken():
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["spam-left-1", "w"])
    spammed = add_spammers(votes, "left", 50)
    assert "spam-left-1'" in spammed.workers.tolist()


def test_written_votes_read_back(votes, tmp_path):
    spammed = add_spammers(votes, "combined", 50, seed=1)
    write_votes(spammed, tmp_path / "spam.csv")
    back = crowdsift.read(tmp_path / "spam.csv")
    assert back.sides_known
    assert back.total_weight == spammed.total_weight
    assert back.outcome.tobytes() == spammed.outcome.tobytes()
    assert back.workers.tolist() == spammed.workers.tolist()


@pytest.mark.parametrize(
    ("kind", "percent", "message"),
    [
        ("bored", 10, "unknown kind of spam 'bored'; the kinds are random, left"),
        ("left", 1, "1 % of 20 workers adds no one; give at least 5"),
        ("left", 0, "adds no one"),
        ("left", -10, "adds no one"),
        ("left", float("nan"), "adds no one"),
    ],
)
def test_impossible_requests(votes, kind, percent, message):
    with pytest.raises(RequestError, match=message):
        add_spammers(votes, kind, percent)


def test_votes_that_cannot_be_spammed():
    soft = Comparisons.from_arrays(["a"], ["b"], outcome=[0.7], worker=["w"])
    with pytest.raises(RequestError, match="soft outcomes"):
        add_spammers(soft, "left", 100)
    pooled = Comparisons.from_arrays(["a"], ["b"])
    with pytest.raises(RequestError, match="have none"):
        add_spammers(pooled, "left", 100)


def rankings_of(votes):
    """Every ranking with the labels of its worker and items, and how often."""
    labels = votes.items.tolist()
    return sorted(
        (votes.workers[who], tuple((labels[item], rank) for item, rank in ranking), often)
        for who, ranking, _, often in votes.choices.rankings()
    )


RANKINGS = {
    "full": {"ranking": ["a>b>c", "c>a>d", "b>a", "a>b>c", "d>c>b>a", "a=b>c"]},
    "ties": {"ranking": ["a=b>c=d", "a>b=c=d", "a=b=c=d>e", "c=a", "a>b>c=e", "a=b>c=d"]},
    "top": {"ranking": ["a>b", "c", "b=a", "d>a", "e>a>b", "c>d"], "items": ["a|b|c|d|e"] * 6},
    "best-worst": {"best": list("abcabc"), "worst": list("bcdcda"), "items": ["a|b|c|d"] * 5 + ["a|c"]},
}


@pytest.mark.parametrize("kind", RANKINGS)
def test_rankings_are_written_and_read_back(kind, tmp_path):
    votes = crowdsift.read({"worker": list("vvwwxx"), **RANKINGS[kind]})
    write_votes(votes, tmp_path / "votes.csv")
    back = crowdsift.read(tmp_path / "votes.csv")
    for name in ("plus", "minus", "tied", "offsets", "worker", "weight"):
        assert (getattr(back.choices, name) == getattr(votes.choices, name)).all()
    assert sorted(back.weight.tolist()) == sorted(votes.weight.tolist())


@pytest.mark.parametrize("kind", RANKINGS)
def test_spammers_rank_drawn_sets_in_the_reverse_order(kind):
    votes = crowdsift.read({"worker": list("vvwwxx"), **RANKINGS[kind]})
    spammed = add_spammers(votes, "adversarial", 100, seed=2)
    found = rankings_of(spammed)
    assert [row for row in found if not row[0].startswith("spam")] == rankings_of(votes)
    spam = [row for row in found if row[0].startswith("spam")]
    assert sum(often for *_, often in spam) == 3 * 2
    known = [ranking for _, ranking, _ in rankings_of(votes)]
    ranks = {tuple(sorted(zip([item for item, _ in reversed(r)], [rank for _, rank in r], strict=True))) for r in known}
    # Items of equal rank have no order, and so several reversed orders.
    shapes = {(frozenset(item for item, _ in r), tuple(sorted(rank for _, rank in r))) for r in known}
    for _, ranking, _ in spam:
        assert (frozenset(item for item, _ in ranking), tuple(sorted(rank for _, rank in ranking))) in shapes
        if kind == "full" and len({rank for _, rank in ranking}) == len(ranking):
            assert tuple(sorted(ranking)) in ranks


def test_random_rankings_are_uniform():
    votes = crowdsift.read({"worker": list("abcde") * 40, "ranking": ["x>y>z"] * 200})
    spammed = add_spammers(votes, "random", 400, seed=5)
    orders = {"".join(item for item, _ in ranking): 0.0 for who, ranking, _ in rankings_of(spammed)}
    for who, ranking, often in rankings_of(spammed):
        orders["".join(item for item, _ in ranking)] += often * who.startswith("spam")
    counts = np.array(list(orders.values()))
    assert len(counts) == 6
    assert counts.sum() == 20 * 40
    assert ((counts - 800 / 6) ** 2 / (800 / 6)).sum() < 20.5  # the 99.9 % quantile of chi-square with 5 degrees


def test_rankings_have_no_sides():
    votes = crowdsift.read({"worker": ["v", "w"], "ranking": ["a>b>c", "b>a>c"]})
    for kind in ("left", "combined"):
        with pytest.raises(RequestError, match="rankings have no sides"):
            add_spammers(votes, kind, 200)


@pytest.mark.parametrize("sides", [True, False])
def test_grades_stay_with_spammed_votes(sides, tmp_path):
    answers = ["a>>b", "a>b", "a=b", "b>a", "b>>a", "a>>b"]
    table = {"left": list("abcabc"), "right": list("bcacab"), "winner": answers, "worker": list("vvwwxx")}
    votes = crowdsift.read(table, sides=sides)

    def graded(given):
        """The winner, the loser and the grade of every decided vote of a worker."""
        g, names = given.grades, given.items
        ends = np.where(g.outcome == 1, g.first, g.second), np.where(g.outcome == 1, g.second, g.first)
        honest = [not str(given.workers[who]).startswith("spam") for who in g.worker]
        rows = zip(names[ends[0]], names[ends[1]], g.level.tolist(), given.workers[g.worker], honest, strict=True)
        return sorted(row[:4] for row in rows if row[4])

    spammed = add_spammers(votes, "left", 100, seed=1)
    assert graded(spammed) == graded(votes)
    named = np.array([str(label).startswith("spam") for label in spammed.workers])
    assert (spammed.grades.outcome[named[spammed.grades.worker]] == 1).all()
    assert spammed.grades.weight.sum() + votes.weight[votes.outcome == 0.5].sum() >= 6
    write_votes(spammed, tmp_path / "votes.csv")
    back = crowdsift.read(tmp_path / "votes.csv")
    assert graded(back) == graded(votes)
    assert back.outcome.tobytes() == spammed.outcome.tobytes()


def test_rankings_that_cannot_be_counted_are_not_written(tmp_path):
    rankings = crowdsift.read({"worker": ["v", "w"], "ranking": ["a>b>c", "b>a>c"]})
    half = Comparisons.from_arrays(["a"], ["c"], worker=["w"], weight=[0.5])
    with pytest.raises(RequestError, match="fractional weight"):
        write_votes(rankings.extended(half), tmp_path / "votes.csv")
    assert not (tmp_path / "votes.csv").exists()
