"""Contexts: one ranking for each value of a column, with the same workers."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import crowdsift
from crowdsift import InputError, RequestError, cli
from crowdsift.models import MODELS
from samples import written

TABLE = {
    "winner": ["a", "b", "a", "b", "c", "b", "a"],
    "loser": ["b", "c", "c", "a", "b", "a", "c"],
    "worker": ["v", "w", "v", "w", "v", "v", "w"],
    "topic": ["law", "law", "law", "art", "art", "art", "art"],
}


def test_an_item_is_a_pair_of_context_and_label():
    votes = crowdsift.read(TABLE, by="topic")
    assert votes.by == "topic"
    assert votes.items.tolist() == [(t, i) for t in ("art", "law") for i in "abc"]
    result = {
        (*votes.items[f], votes.items[s][1], votes.workers[w])
        for f, s, w in zip(votes.first, votes.second, votes.worker_codes(), strict=True)
    }
    rows = zip(*(TABLE[name] for name in ("topic", "winner", "loser", "worker")), strict=True)
    assert result == set(rows)
    assert all(votes.items[f][0] == votes.items[s][0] for f, s in zip(votes.first, votes.second, strict=True))


@pytest.mark.parametrize("method", MODELS)
def test_every_method_ranks_within_contexts(method):
    table = {**TABLE, "side": np.ones(7)}
    features = ["side"] if method == "factor-bt" else []
    votes = crowdsift.read(table, by="topic", covariates=features)
    if method == "barp":
        votes = votes.with_classes([0, 1, 0, 0, 1, 0])
    fit = crowdsift.fit(votes, method, pooling="none")
    assert list(fit.items)[:2] == ["topic", "item"]
    assert fit.summary["by"] == "topic"
    ranks = dict(zip(fit.labels, fit.items["rank"].tolist(), strict=True))
    assert sorted(ranks[t, i] for t in ("law",) for i in "abc") == [1, 2, 3]
    assert ranks["law", "a"] == 1
    parts = fit.items["component"][fit.items["topic"] == "law"]
    assert set(parts).isdisjoint(fit.items["component"][fit.items["topic"] == "art"])


def test_questions_take_pairs_and_never_cross_contexts():
    fit = crowdsift.fit(TABLE, by="topic")
    assert 0.5 < fit.better(("law", "a"), ("law", "c")) < 1
    assert 0 < fit.predict(("law", "a"), ("law", "c"), "v") < 1
    assert fit.scores_of([("law", "a")])[0] == fit.items["score"][fit.labels.index(("law", "a"))]
    with pytest.raises(RequestError, match=r"\('law', 'a'\) is in component 2 and \('art', 'a'\)"):
        fit.predict(("law", "a"), ("art", "a"))
    with pytest.raises(RequestError, match="'a' is not among the items"):
        fit.better("a", "b")


def test_a_context_is_the_same_as_labels_that_hold_it():
    """Items named topic/item by hand give the same scores."""
    drawn = crowdsift.simulate(items=12, workers=9, comparisons=900, seed=2)
    votes = drawn.comparisons()
    rng = np.random.default_rng(0)
    topic = np.array(["law", "art"])[rng.integers(0, 2, len(votes))]
    names = [votes.items[codes] for codes in (votes.first, votes.second)]
    crowd = votes.workers[votes.worker_codes()]
    apart = crowdsift.fit(
        {
            "first": names[0],
            "second": names[1],
            "outcome": votes.outcome,
            "worker": crowd,
            "weight": votes.weight,
            "topic": topic,
        },
        by="topic",
        pooling="none",
    )
    named = [[f"{t}/{i}" for t, i in zip(topic, side, strict=True)] for side in names]
    joined = crowdsift.fit(
        {"first": named[0], "second": named[1], "outcome": votes.outcome, "worker": crowd, "weight": votes.weight}
    )
    np.testing.assert_array_equal(apart.items["score"], joined.items["score"])
    assert [f"{t}/{i}" for t, i in apart.labels] == joined.labels
    np.testing.assert_array_equal(apart.workers["reliability"], joined.workers["reliability"])


def test_a_saved_fit_keeps_its_contexts(tmp_path):
    table = {**TABLE, "year": [2020, 2020, 2020, 2021, 2021, 2021, 2021]}
    fit = crowdsift.fit(table, by="year")
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.labels == fit.labels
    assert back.labels[0][0] in (2020, 2021)
    for year in (2020, 2021):
        result = [each.predict((year, "a"), (year, "c")) for each in (fit, back)]
        assert result[1] == pytest.approx(result[0], abs=1e-9)
        assert abs(result[0] - 0.5) > 1e-4  # what a folder that forgot its scores would say


def test_a_fit_by_context_goes_on_where_it_was(tmp_path):
    drawn = crowdsift.simulate(items=12, workers=9, comparisons=900, seed=2)
    votes = drawn.comparisons()
    topic = np.array(["law", "art"])[np.arange(len(votes)) % 2]
    table = {
        "first": votes.items[votes.first],
        "second": votes.items[votes.second],
        "outcome": votes.outcome,
        "worker": votes.workers[votes.worker_codes()],
        "topic": topic,
    }
    cold = crowdsift.fit(table, by="topic")
    cold.save(tmp_path)
    again = crowdsift.fit(table, by="topic", start=str(tmp_path))
    np.testing.assert_allclose(again.scores_of(cold.labels), cold.items["score"], atol=1e-3)
    assert again.summary["passes"] < cold.summary["passes"]


def test_gold_needs_the_context_too():
    gold = {"winner": ["a"], "loser": ["c"], "topic": ["law"]}
    fit = crowdsift.fit(TABLE, by="topic", gold=gold)
    assert fit.summary["gold_agree"] + fit.summary["gold_disagree"] == 1
    with pytest.raises(InputError, match="no column 'topic' for the context of the gold"):
        crowdsift.fit(TABLE, by="topic", gold={"winner": ["a"], "loser": ["c"]})
    with pytest.raises(InputError, match=r"row 1, column 'winner': the item \('tax', 'a'\) is not"):
        crowdsift.fit(TABLE, by="topic", gold={**gold, "topic": ["tax"]})


def test_bad_contexts_are_refused():
    with pytest.raises(InputError, match=r"no column 'scene'.*columns are winner, loser, worker"):
        crowdsift.fit(TABLE, by="scene")
    with pytest.raises(RequestError, match="'worker' is the worker of the votes"):
        crowdsift.read(TABLE, by="worker")
    with pytest.raises(RequestError, match="'rank' would be mistaken"):
        crowdsift.read({**TABLE, "rank": TABLE["topic"]}, by="rank")
    gap = ["law", "law", None, "art", "art", "art", "a"]
    with pytest.raises(InputError, match="row 3, column 'topic': empty context"):
        crowdsift.read({**TABLE, "topic": gap}, by="topic")
    with pytest.raises(RequestError, match="read already"):
        crowdsift.fit(crowdsift.read(TABLE), by="topic")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_come_back_with_the_context(kind):
    narwhals = pytest.importorskip("narwhals")
    frame = narwhals.from_dict(TABLE, backend=kind).to_native()
    items = narwhals.from_native(crowdsift.fit(frame, by="topic").items)
    assert items.columns[:2] == ["topic", "item"]


def test_the_command_fits_by_a_column(tmp_path, monkeypatch, capsys):
    rows = [",".join(row) for row in zip(*TABLE.values(), strict=True)]
    path = written(tmp_path / "votes.csv", "\n".join([",".join(TABLE), *rows]) + "\n")
    monkeypatch.setattr(sys, "argv", ["crowdsift", "fit", str(path), "--by", "topic", "--json"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    result = json.loads(capsys.readouterr().out)
    assert [next(iter(row)) for row in result["items"]] == ["topic"] * 6
    assert [row["item"] for row in result["overall"]] == ["b", "a", "c"]
    monkeypatch.setattr(sys, "argv", ["crowdsift", "fit", str(path), "--by", "scene"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert "no column 'scene' for the context" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "column"), [("lightfield", "scene"), ("musicsim", "query")])
def test_real_contexts_are_the_components(data_dir, name, column):
    votes = crowdsift.read(data_dir / f"{name}.csv", by=column)
    fit = crowdsift.fit(votes, "bora-em")
    contexts = fit.items[column]
    assert fit.summary["components"] == len(set(contexts))
    assert len(set(zip(contexts, fit.items["component"], strict=True))) == len(set(contexts))
    assert fit.worker_table.height == votes.n_workers


def test_contexts_alone_are_no_reason_to_warn():
    rows = {"winner": ["a", "b", "a", "c"], "loser": ["b", "a", "b", "d"], "worker": ["x"] * 4}
    apart = crowdsift.fit({**rows, "topic": [1, 1, 2, 2]}, "bt", by="topic")
    assert any("3 components" in note for note in apart.summary["warnings"])
    joined = crowdsift.fit({**rows, "topic": [1, 1, 1, 2]}, "bt", by="topic")
    assert not any("components" in note for note in joined.summary["warnings"])


def _arena(seed=3, contexts=(("en", 1), ("en", 2), ("de", 1))):
    """Votes of good workers on the same items in several contexts, in one order of the truth."""
    rng = np.random.default_rng(seed)
    truth = np.linspace(-2.0, 2.0, 7)
    rows = {name: [] for name in ("first", "second", "outcome", "worker", "language", "turn")}
    for language, turn in contexts:
        for _ in range(400):
            a, b = rng.choice(7, 2, replace=False)
            won = rng.random() < 1.0 / (1.0 + np.exp(-(truth[a] - truth[b])))
            drawn = (f"m{a}", f"m{b}", float(won), f"w{rng.integers(9)}", language, turn)
            for name, value in zip(rows, drawn, strict=True):
                rows[name].append(value)
    return rows


def test_several_columns_are_one_context_each_combination():
    """A ranking for each combination: as if one column held both values."""
    rows = _arena()
    apart = crowdsift.fit(rows, by=("language", "turn"))
    assert apart.summary["by"] == ["language", "turn"]
    assert list(apart.items)[:3] == ["language", "turn", "item"]
    assert {value for value, _ in apart.labels} == {("en", 1), ("en", 2), ("de", 1)}
    one = [f"{a}/{b}" for a, b in zip(rows["language"], rows["turn"], strict=True)]
    joined = crowdsift.fit({**rows, "both": one}, by="both")
    assert [(f"{a}/{b}", item) for (a, b), item in apart.labels] == joined.labels
    np.testing.assert_array_equal(apart.items["score"], joined.items["score"])
    np.testing.assert_array_equal(apart.workers["reliability"], joined.workers["reliability"])
    text = crowdsift.read(rows, by="language, turn")
    assert text.items.tolist() == apart.votes.items.tolist()
    assert apart.predict((("en", 2), "m6"), (("en", 2), "m0")) > 0.8


def test_a_column_named_with_a_comma_is_one_column():
    rows = {**TABLE, "a,b": TABLE["topic"]}
    assert crowdsift.read(rows, by="a,b").by == "a,b"
    with pytest.raises(RequestError, match="twice"):
        crowdsift.read(rows, by=["topic", "topic"])
    with pytest.raises(InputError, match="no column 'scene' for the context"):
        crowdsift.read(rows, by="topic,scene")


def test_several_columns_are_kept_updated_and_asked_for(tmp_path):
    rows = _arena()
    gold = {"winner": ["m6"], "loser": ["m0"], "language": ["en"], "turn": ["2"]}
    fit = crowdsift.fit(rows, by=["language", "turn"], gold=gold)
    assert fit.summary["gold_agree"] == 1
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert (back.labels, back.by) == (fit.labels, ("language", "turn"))
    assert back.votes.items.tolist() == fit.votes.items.tolist()
    new = {"first": ["m1"], "second": ["m0"], "outcome": [1.0], "worker": ["w1"], "language": ["en"], "turn": [2]}
    assert back.update(new).summary["votes"] == fit.summary["votes"] + 1
    assert "| language | turn | rank |" in fit.leaderboard()
    assert fit.joint()["turn"].tolist() == fit.items["turn"].tolist()
    page = fit.report(refit=False).html
    assert "Over all contexts" in page
    assert "By language, turn" in page


def test_the_overall_ranking_is_that_of_the_votes_without_contexts(tmp_path):
    rows = _arena()
    apart = crowdsift.fit(rows, by="language,turn", pooling="none", scale="elo", anchor={"m0": 800})
    whole = crowdsift.fit(rows, scale="elo", anchor={"m0": 800})
    assert list(apart.overall) == list(whole.items)
    for name in whole.items:
        np.testing.assert_array_equal(apart.overall[name], whole.items[name], err_msg=name)
    said = apart.summary["overall"]
    assert (said["items"], said["evidence"]) == (7, whole.summary["evidence"])
    assert [row["item"] for row in apart.to_json()["overall"]] == whole.labels
    apart.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.overall["item"].tolist() == whole.labels
    np.testing.assert_allclose(back.overall["score"], whole.items["score"])
    standard = crowdsift.fit(rows).items["score"]
    np.testing.assert_allclose(back.on_scale("standard").overall["score"], standard)
    np.testing.assert_allclose(back.on_scale("winrate").overall["score"], whole.on_scale("winrate").items["score"])


def test_no_overall_ranking_where_it_would_say_nothing():
    alone = {"winner": ["a", "b", "c"], "loser": ["b", "e", "a"], "topic": [1, 1, 2]}  # but a
    fit = crowdsift.fit(alone, "bt", by="topic", workers=False)
    assert fit.overall is None
    assert "overall" not in fit.summary
    rows = _arena()
    assert crowdsift.fit(rows, by="language", overall=False).overall is None
    assert crowdsift.fit(rows).overall is None


def test_gold_that_contexts_contradict_is_left_out_of_the_overall_ranking():
    gold = {"winner": ["m6", "m0", "m5"], "loser": ["m0", "m6", "m1"], "language": ["en", "de", "en"]}
    rows = _arena()
    fit = crowdsift.fit(rows, by="language", pooling="none", gold=gold)
    whole = crowdsift.fit(rows, gold={"winner": ["m5"], "loser": ["m1"]})
    np.testing.assert_array_equal(fit.overall["score"], whole.items["score"])
