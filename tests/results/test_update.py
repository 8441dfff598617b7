"""An update uses everything that shaped the earlier fit, or refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdsift
from crowdsift import InputError, RequestError

Rows = dict[str, list[Any]]


def rows(seed: int = 3, count: int = 900, lies: bool = False, ties: bool = False) -> Rows:
    """Votes with sides, one row each in a random order; `lies` gives every vote to the loser."""
    drawn = crowdsift.simulate(items=12, workers=20, comparisons=count, reliability=(1.0, 2.0),
                               seed=seed)  # fmt: skip
    votes = drawn.comparisons()
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(np.repeat(np.arange(len(votes)), votes.weight.astype(int)))
    won = (votes.outcome[chosen] > 0.5) != lies
    answer = np.where(won, "left", "right").astype(object)
    if ties:
        answer[rng.random(len(answer)) < 0.2] = "tie"
    return {
        "left": votes.items[votes.first[chosen]].tolist(),
        "right": votes.items[votes.second[chosen]].tolist(),
        "winner": answer.tolist(),
        "worker": votes.workers[votes.worker_codes()[chosen]].tolist(),
    }


def part(votes: Rows, begin: int, end: int | None = None) -> Rows:
    return {name: column[begin:end] for name, column in votes.items()}


def without_sides(votes: Rows) -> Rows:
    """The same votes as winner and loser."""
    sides = zip(votes["left"], votes["right"], votes["winner"], strict=True)
    pairs = [(a, b) if answer == "left" else (b, a) for a, b, answer in sides]
    winner, loser = (list(column) for column in zip(*pairs, strict=True))
    return {"winner": winner, "loser": loser, "worker": votes["worker"]}


def true_pairs(count: int = 4, seed: int = 3) -> Rows:
    drawn = crowdsift.simulate(items=12, workers=20, comparisons=900, reliability=(1.0, 2.0),
                               seed=seed)  # fmt: skip
    order = np.asarray(drawn.items)[np.argsort(-np.asarray(drawn.scores))].tolist()
    return {"winner": order[:count], "loser": order[::-1][:count]}


def same_scores(one: crowdsift.Fit, two: crowdsift.Fit, near: float = 1e-3) -> None:
    assert sorted(map(str, one.labels)) == sorted(map(str, two.labels))
    np.testing.assert_allclose(one.scores_of(two.labels), two.items["score"], atol=near)


def write(path: Path, votes: Rows) -> str:
    lines = [",".join(map(str, row)) for row in zip(*votes.values(), strict=True)]
    path.write_text("\n".join([",".join(votes), *lines]) + "\n")
    return str(path)


# --- gold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["sift", "bora-em", "bora-map", "crowd-bt", "hbtl"])
@pytest.mark.parametrize("saved", [True, False])
def test_one_more_vote_does_not_turn_what_gold_settled(tmp_path, method, saved):
    votes, gold = without_sides(rows(lies=True)), true_pairs()
    fit = crowdsift.fit(part(votes, 0, -1), method, gold=gold)
    if saved:
        fit.save(tmp_path)
        fit = crowdsift.load(tmp_path)
    later = fit.update(part(votes, -1))
    assert later.summary["gold_agree"] == 4
    same_scores(later, crowdsift.fit(votes, method, gold=gold))
    again = later.update(part(votes, 0, 1), again=True)
    assert again.summary["gold_agree"] == 4


def test_a_fit_that_starts_from_one_with_gold_uses_it(tmp_path):
    votes, gold = without_sides(rows(lies=True)), true_pairs()
    crowdsift.fit(part(votes, 0, -1), gold=gold).save(tmp_path)
    later = crowdsift.fit(votes, start=tmp_path)
    assert later.summary["gold_agree"] == 4
    same_scores(later, crowdsift.fit(votes, gold=gold))


def test_gold_in_contexts_is_kept(tmp_path):
    votes, gold = without_sides(rows(lies=True)), true_pairs()
    votes["topic"] = [["law", "art"][i % 2] for i in range(len(votes["winner"]))]
    known = {name: [*column, *column] for name, column in gold.items()}
    known["topic"] = ["law"] * 4 + ["art"] * 4
    crowdsift.fit(part(votes, 0, -9), by="topic", gold=known).save(tmp_path)
    later = crowdsift.load(tmp_path).update(part(votes, -9))
    same_scores(later, crowdsift.fit(votes, by="topic", gold=known), 2e-3)
    assert later.summary["gold_agree"] == 8


def test_more_gold_is_added_and_must_not_contradict(tmp_path):
    votes, gold = without_sides(rows(lies=True)), true_pairs(1)
    fit = crowdsift.fit(part(votes, 0, -9), gold=gold)
    later = fit.update(part(votes, -9), gold=true_pairs(3))
    assert later.summary["gold_agree"] == 3
    assert len(later.gold.winner) == 3
    turned = {"winner": gold["loser"], "loser": gold["winner"]}
    with pytest.raises(InputError, match="contradict those that the earlier fit keeps"):
        fit.update(part(votes, -9), gold=turned)


def test_gold_that_is_not_there_any_more_is_not_forgotten(tmp_path):
    votes = without_sides(rows(lies=True))
    crowdsift.fit(part(votes, 0, -9), gold=true_pairs()).save(tmp_path)
    (tmp_path / "gold.parquet").unlink()
    with pytest.raises(RequestError, match="fitted with gold, which is not kept"):
        crowdsift.load(tmp_path).update(part(votes, -9))
    with pytest.raises(RequestError, match="fitted with gold, which is not kept"):
        crowdsift.fit(votes, start=tmp_path)
    later = crowdsift.load(tmp_path).update(part(votes, -9), gold=true_pairs())
    assert later.summary["gold_agree"] == 4


def test_checks_that_refit_use_the_gold_of_the_fit():
    fit = crowdsift.fit(without_sides(rows(lies=True)), gold=true_pairs())
    plain, given = fit.robustness(), fit.robustness(gold=true_pairs())
    assert str(plain) == str(given)
