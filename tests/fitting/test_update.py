"""An update uses everything that shaped the earlier fit, or refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdsift
from crowdsift import InputError, RequestError
from crowdsift.report.terminal import show_fit

Rows = dict[str, list[Any]]


def drawn(items: int) -> Any:
    return crowdsift.simulate(items=items, workers=20, comparisons=900, reliability=(1.0, 2.0), seed=3)


def rows(items: int = 12, lies: bool = False, ties: bool = False) -> Rows:
    """900 votes with sides in a random order; `lies` gives every vote to the loser."""
    votes = drawn(items).comparisons()
    rng = np.random.default_rng(3)
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


def true_pairs(count: int = 4) -> Rows:
    crowd = drawn(12)
    order = np.asarray(crowd.items)[np.argsort(-np.asarray(crowd.scores))].tolist()
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


# --- sides, and how votes are read ---------------------------------------------------------------


def outcomes(votes: Rows) -> Rows:
    """The same votes as first, second and outcome."""
    number = {"left": 1.0, "right": 0.0, "tie": 0.5}
    return {
        "first": votes["left"],
        "second": votes["right"],
        "outcome": [number[answer] for answer in votes["winner"]],
        "worker": votes["worker"],
    }


def test_sides_are_known_after_an_update(tmp_path):
    votes = outcomes(rows())
    crowdsift.fit(part(votes, 0, -30), sides=True).save(tmp_path)
    later = crowdsift.load(tmp_path).update(part(votes, -30))
    whole = crowdsift.fit(votes, sides=True)
    assert whole.summary["sides_known"]
    assert later.summary["sides_known"]
    assert later.summary["crowd_side"] == pytest.approx(whole.summary["crowd_side"], abs=1e-2)
    same_scores(later, whole)


def test_votes_without_sides_are_not_added_to_votes_with_sides(tmp_path):
    votes = rows()
    fit = crowdsift.fit(part(votes, 0, -30))
    with pytest.raises(RequestError, match="do not say which item was on the left"):
        fit.update(without_sides(part(votes, -30)))
    fit.save(tmp_path)
    whole = crowdsift.read(part(votes, 0, -30)).extended(crowdsift.read(without_sides(part(votes, -30))))
    with pytest.raises(RequestError, match="knows on which side every item was shown"):
        crowdsift.fit(whole, start=tmp_path)
    plain = crowdsift.fit(without_sides(part(votes, 0, -30))).update(part(votes, -30))
    assert any("sides are not used" in note for note in plain.warnings)


def test_meanings_and_conditions_are_used_again(tmp_path):
    votes = rows(ties=True)
    words = {"left": "A", "right": "B", "tie": "neither"}
    told = {**votes, "winner": [words[answer] for answer in votes["winner"]]}
    told["state"] = ["bad" if i % 5 == 0 else "good" for i in range(len(told["winner"]))]
    reading = {"values": {"A": "left", "B": "right", "neither": "tie"}, "where": "state = 'good'"}
    crowdsift.fit(part(told, 0, -100), **reading).save(tmp_path)
    later = crowdsift.load(tmp_path).update(part(told, -100))
    whole = crowdsift.fit(told, **reading)
    assert later.summary["votes"] == whole.summary["votes"] < 900
    same_scores(later, whole)
    with pytest.raises(crowdsift.CrowdsiftError, match="state"):  # not without a word
        crowdsift.load(tmp_path).update(part(votes, -100))


def test_columns_are_used_again_and_can_be_named_anew(tmp_path):
    votes = without_sides(rows())
    named = {"chosen": votes["winner"], "loser": votes["loser"], "who": votes["worker"]}
    columns = {"winner": "chosen", "worker": "who"}
    crowdsift.fit(part(named, 0, -30), columns=columns).save(tmp_path)
    assert crowdsift.load(tmp_path).update(part(named, -30)).summary["votes"] == 900
    assert crowdsift.load(tmp_path).update(part(votes, -30), columns={}).summary["votes"] == 900


@pytest.mark.parametrize("saved", [True, False])
def test_what_a_fit_does_not_keep_is_refused(tmp_path, saved):
    votes = rows()
    items = sorted({*votes["left"], *votes["right"]})
    numbers = np.random.default_rng(0).normal(size=len(items)).tolist()
    votes = {
        **votes,
        "prompt": [f"p{i % 40}" for i in range(900)],
        "chars": np.random.default_rng(1).normal(size=900).tolist(),
    }
    cases = {
        "features of items": {"items": {"item": items, "x": numbers}},
        "covariates": {"covariates": ["chars"]},
        "classes of items": {"method": "barp", "classes": {item: item[-1] for item in items}},
        "by prompt": {"dependent_by": "prompt"},
    }
    for what, options in cases.items():
        fit = crowdsift.fit(part(votes, 0, -30), **options)
        if saved:
            fit.save(tmp_path / "fit")
            fit = crowdsift.load(tmp_path / "fit")
        with pytest.raises(RequestError, match=rf"{what}.*fit all votes"):
            fit.update(part(votes, -30))


# --- rows that come again ------------------------------------------------------------------------


def assignments(votes: Rows) -> Rows:
    """The votes as a batch of Mechanical Turk."""
    words = {"left": "A", "right": "B", "tie": "tie"}
    return {
        "AssignmentId": [f"3A{i:06d}" for i in range(len(votes["left"]))],
        "WorkerId": votes["worker"],
        "Input.item_a": votes["left"],
        "Input.item_b": votes["right"],
        "Answer.choice": [words[answer] for answer in votes["winner"]],
    }


def test_assignments_of_overlapping_downloads_count_once(tmp_path, capsys):
    batch = assignments(rows())
    write(tmp_path / "all.csv", batch)
    whole = crowdsift.fit(tmp_path / "all.csv")
    first, second = (tmp_path / name for name in ("one.csv", "two.csv"))
    write(first, part(batch, 0, 600))
    write(second, part(batch, 500))
    crowdsift.fit(first).save(tmp_path / "fit")
    later = crowdsift.load(tmp_path / "fit").update(second)
    assert later.summary["votes"] == whole.summary["votes"] == 900
    assert later.summary["intake"]["duplicates"] == 100
    assert later.summary["intake"]["known"] == 100
    assert any("100 rows of" in note and "are not counted again" in note for note in later.warnings)
    same_scores(later, whole)
    assert "Nothing was learned" not in str(later.robustness())
    show_fit(later)
    assert later.labels[0] in capsys.readouterr().out
    later.save(tmp_path / "fit")
    with pytest.raises(InputError, match=r"no votes are left.*300 in the fit already"):
        crowdsift.load(tmp_path / "fit").update({k: v[600:] for k, v in batch.items()})
    with pytest.raises(RequestError, match="100 of the 400 rows are in the fit already"):
        crowdsift.fit(first).update(crowdsift.read(second))
    assert crowdsift.fit(first).update(second, again=True).summary["votes"] == 1000


def test_a_deleted_list_of_rows_is_not_forgotten(tmp_path):
    batch = assignments(rows())
    crowdsift.fit(part(batch, 0, 600)).save(tmp_path)
    (tmp_path / "row_ids.parquet").unlink()
    with pytest.raises(RequestError, match="a file was deleted"):
        crowdsift.load(tmp_path).update(part(batch, 500))


def test_rows_without_a_name_that_come_again_are_said(tmp_path):
    votes = rows(items=80)
    fit = crowdsift.fit(part(votes, 0, 700))
    with pytest.raises(RequestError, match=r"rows are equal to earlier rows"):
        fit.update(part(votes, 400))
    later = fit.update(part(votes, 640))
    assert any("new rows are equal to earlier ones" in note for note in later.warnings)
    fresh = fit.update(part(votes, 700))
    assert not any("equal to earlier ones" in note for note in fresh.warnings)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("bora-map", "bora-map keeps nothing to start from, only sift does; fit without --start"),
        ("sift", "a fit of bora-map, from which sift cannot start; fit without --start, or give a"),
    ],
)
def test_a_fit_that_cannot_be_started_from_says_why(method, words):
    votes = crowdsift.simulate(items=9, workers=5, comparisons=300, seed=1).comparisons()
    earlier = crowdsift.fit(votes, "bora-map")
    with pytest.raises(RequestError, match=words):
        crowdsift.fit(votes, method, start=earlier)


def test_the_worker_of_the_path_is_remembered(tmp_path, run):
    """Options of the first reading hold for the second, and a saved folder is not read as votes."""
    rows = "left,right,reply\n" + "".join(f"a,b,{x}\nb,c,{x}\nc,a,{x}\n" for x in "IJIIJI")
    for name in ("ann", "bob", "eve"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "votes.csv").write_text(rows + f"a,b,I\nb,d,{'IJ'[name == 'eve']}\n")
    folder, pattern = tmp_path / "fit", "{worker}/votes.csv"
    run(
        "fit",
        f"{tmp_path}/[ab]*/*.csv",
        "--out",
        folder,
        "--worker-from-path",
        pattern,
        "--columns",
        "winner=reply",
        "--values",
        "I=left,J=right",
    )
    code, *_ = run("update", folder, tmp_path / "eve" / "votes.csv")
    assert code == 0
    assert crowdsift.load(folder).worker_table["worker"].tolist() == ["ann", "bob", "eve"]


def test_an_update_of_votes_that_say_little_is_the_fit_of_all():
    for seed in range(20):
        rng = np.random.default_rng([8, seed])
        items, workers, count = int(rng.choice([4, 8, 30])), int(rng.integers(1, 5)), int(rng.choice([30, 80, 200]))
        score, beta = rng.normal(size=items), rng.normal(0.0, 0.3, workers)
        worker, left = rng.integers(workers, size=count), rng.integers(items, size=count)
        right = (left + rng.integers(1, items, count)) % items
        won = rng.random(count) < 1.0 / (1.0 + np.exp(-beta[worker] * (score[left] - score[right])))
        votes: Rows = {
            "left": left.tolist(),
            "right": right.tolist(),
            "winner": np.where(won, "left", "right").tolist(),
            "worker": worker.tolist(),
        }
        fit = crowdsift.fit(part(votes, 0, count // 2), threads=1)
        later = fit.update(part(votes, count // 2), threads=1, again=True)
        same_scores(later, crowdsift.fit(votes, threads=1), 5e-3)
