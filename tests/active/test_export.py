"""Exported votes: nothing lost, in order, and what is added is what the posterior says."""

from __future__ import annotations

import json
import sys

import duckdb
import numpy as np
import pytest
from preference_rows import lines_of, mixed_votes, preferences

import crowdsift
from crowdsift import InputError, RequestError, cli, export_votes, soft_labels
from crowdsift.numeric.likelihoods import sigmoid


@pytest.fixture(scope="module")
def crowd():
    return crowdsift.simulate(items=12, workers=9, comparisons=900, reliability=(-0.5, 2), seed=4)


@pytest.fixture
def votes(crowd, tmp_path):
    """A file with a column of its own, in a mixed order."""
    return mixed_votes(crowd, tmp_path)


def test_every_row_and_column_in_order(votes, tmp_path):
    done = export_votes(votes, tmp_path / "out.jsonl")
    rows = lines_of(tmp_path / "out.jsonl")
    assert done.rows == len(rows) == 900
    given = duckdb.sql(f"SELECT * FROM read_csv('{votes}', all_varchar=true)").fetchall()
    kept = [tuple(row[name] for name in ("left", "right", "winner", "worker", "note")) for row in rows]
    assert kept == given
    export_votes(votes, tmp_path / "out.parquet")
    table = duckdb.sql(f"SELECT * FROM '{tmp_path / 'out.parquet'}'")
    assert table.columns == list(rows[0])
    assert [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()] == rows


def test_columns_are_what_the_posterior_says(votes, tmp_path):
    done = export_votes(votes, tmp_path / "out.jsonl")
    fit = crowdsift.fit(votes)
    beta = dict(zip(fit.workers["worker"], fit.workers["reliability"], strict=True))
    trusted = fit.workers["reliability"][fit.workers["lower"] > 0]
    typical = np.median(trusted)
    random = np.random.default_rng(0)
    assert done.columns == ("probability", "margin", "soft_label", "weight")
    for row in lines_of(tmp_path / "out.jsonl")[::97]:
        one, two = row["left"], row["right"]
        if row["winner"] == "right":
            one, two = two, one
        assert row["probability"] == pytest.approx(fit.better(one, two), abs=1e-9)
        result = fit.difference(one, two)
        assert row["margin"] == pytest.approx(result["difference"][0])
        sd = (result["upper"][0] - result["lower"][0]) / 2 / 1.6448536
        drawn = sigmoid(typical * (row["margin"] + sd * random.standard_normal(200_000)))
        assert row["soft_label"] == pytest.approx(drawn.mean(), abs=0.005)
        assert row["weight"] == pytest.approx((beta[row["worker"]] / typical) ** 2)


def test_doubted_votes_are_those_of_bad_workers(crowd, votes, tmp_path):
    export_votes(votes, tmp_path / "out.jsonl")
    true = dict(zip(crowd.workers, crowd.reliability, strict=True))
    rows = lines_of(tmp_path / "out.jsonl")
    worst, best = min(true, key=true.get), max(true, key=true.get)
    mean = {who: np.mean([row["probability"] for row in rows if row["worker"] == who]) for who in (worst, best)}
    assert mean[worst] < 0.5 < mean[best]
    weight = {who: next(r["weight"] for r in rows if r["worker"] == who) for who in true}
    assert weight[best] > 1 > weight[min(true, key=lambda who: abs(true[who]))]


def test_trl_columns(crowd, votes, tmp_path):
    items = tmp_path / "texts.csv"
    items.write_text("item,text\n" + "".join(f'{i},"text of {i}"\n' for i in crowd.items))
    export_votes(votes, tmp_path / "out.jsonl", to="trl", texts=f"{items}:text")
    export_votes(votes, tmp_path / "plain.jsonl")
    fit = crowdsift.fit(votes)
    pairs = zip(lines_of(tmp_path / "out.jsonl"), lines_of(tmp_path / "plain.jsonl"), strict=True)
    for row, plain in pairs:
        chosen, rejected = (row[name].removeprefix("text of ") for name in ("chosen", "rejected"))
        assert {chosen, rejected} == {row["left"], row["right"]}
        score = fit.scores_of([chosen, rejected])
        assert score[0] >= score[1]
        assert row["margin"] == pytest.approx(abs(plain["margin"]))
        surer = max(plain["probability"], 1 - plain["probability"])
        assert row["probability"] == pytest.approx(surer)
        assert row["note"] == plain["note"]
    items.write_text("item,text\ni00,x\n")
    with pytest.raises(InputError, match="have no text here"):
        export_votes(votes, tmp_path / "out.jsonl", to="trl", texts=f"{items}:text")


def test_taken_names_weights_and_ties(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(
        "left,right,winner,worker,weight,Margin\na,b,left,x,2,1\nb,a,right,y,1,\na,b,tie,x,0,7\nb,c,left,y,3,8\n"
    )
    done = export_votes(path, tmp_path / "out.jsonl")
    assert done.columns == ("probability", "crowdsift_margin", "soft_label", "crowdsift_weight")
    rows = lines_of(tmp_path / "out.jsonl")
    assert [row["weight"] for row in rows] == ["2", "1", "0", "3"]
    assert [row["Margin"] for row in rows] == ["1", None, "7", "8"]
    assert rows[2]["crowdsift_weight"] == 0
    # The first, second and third row speak for the same item: a.
    assert rows[0]["probability"] == pytest.approx(rows[1]["probability"])
    assert rows[2]["probability"] == pytest.approx(rows[0]["probability"])


def test_json_in_and_parquet_out(tmp_path):
    path = tmp_path / "votes.jsonl"
    rows = [
        {"winner": 1, "loser": 2, "worker": "x", "tags": {"a": [1]}, "share": 0.5, "ok": True},
        {"winner": 2, "loser": 3, "worker": "y", "tags": None, "share": 1, "ok": None},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    export_votes(path, tmp_path / "out.jsonl")
    for row, given in zip(lines_of(tmp_path / "out.jsonl"), rows, strict=True):
        assert {name: row[name] for name in given} == given
    export_votes(path, tmp_path / "out.parquet")
    back = duckdb.sql(f"SELECT winner, worker, share, ok FROM '{tmp_path / 'out.parquet'}'")
    assert back.fetchall() == [(1, "x", 0.5, True), (2, "y", 1.0, None)]


def test_many_rows_keep_their_order(tmp_path):
    path = tmp_path / "votes.parquet"
    duckdb.sql(
        "COPY (SELECT 'i' || (i * 7 % 50) AS winner, 'i' || (i * 7 % 50 + 1 + i % 3) AS loser, "
        f"i % 40 AS worker, i AS row FROM range(300000) t(i)) TO '{path}' (FORMAT PARQUET)"
    )
    out = tmp_path / "out.parquet"
    assert export_votes(path, out, to="trl", method="bt").rows == 300_000
    rows = duckdb.sql(f"SELECT row, winner, chosen, rejected, loser FROM '{out}'").fetchnumpy()
    np.testing.assert_array_equal(rows["row"], np.arange(300_000))
    same = rows["winner"] == rows["chosen"]
    assert (same | (rows["winner"] == rows["rejected"])).all()


def test_soft_labels_are_the_exported_columns(votes, tmp_path):
    export_votes(votes, tmp_path / "out.jsonl")
    rows = lines_of(tmp_path / "out.jsonl")
    result = soft_labels(votes)
    for name, values in result.items():
        np.testing.assert_allclose(values, [row[name] for row in rows])


def test_the_old_file_stays(votes, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    bad = tmp_path / "bad.csv"
    bad.write_text("winner,loser,worker\na,a,x\n")
    with pytest.raises(InputError):
        export_votes(bad, out)
    with pytest.raises(RequestError, match="rank-centrality"):
        export_votes(votes, out, method="rank-centrality")
    assert out.read_text() == "old"
    assert not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize(
    ("target", "match"), [("out.txt", r"\.jsonl, \.csv or \.parquet"), ("none/out.jsonl", "there is no folder")]
)
def test_wrong_targets(votes, tmp_path, target, match):
    with pytest.raises(RequestError, match=match):
        export_votes(votes, tmp_path / target)
    with pytest.raises(RequestError, match="soft_labels"):
        export_votes({"winner": ["a"]}, tmp_path / "out.jsonl")


def test_columns_that_differ_in_case_only(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker,a,A\nx,y,1,2,3\n")
    with pytest.raises(InputError, match="twice, but for upper case"):
        export_votes(path, tmp_path / "out.jsonl")


def test_command(votes, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.parquet"
    monkeypatch.setattr(sys, "argv", ["crowdsift", "export", str(votes), "--out", str(out)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    assert "900 votes; added probability" in capsys.readouterr().err
    assert out.exists()


# --- one order for all columns -------------------------------------------------------------------


@pytest.mark.parametrize("chat", [False, True])
def test_chosen_margin_and_label_speak_of_one_order(tmp_path, chat):
    given = preferences(tmp_path / "in.jsonl", chat)
    done = export_votes(tmp_path / "in.jsonl", tmp_path / "out.jsonl", to="trl")
    rows = lines_of(tmp_path / "out.jsonl")
    assert len(rows) == len(given)
    flipped = 0
    for row, old in zip(rows, given, strict=True):
        assert row["original_chosen"] == old["chosen"]
        assert row["original_rejected"] == old["rejected"]
        assert {str(row["chosen"]), str(row["rejected"])} == {str(old["chosen"]), str(old["rejected"])}
        assert (row["margin"] > 0) == (row["probability"] > 0.5)
        assert row["probability"] >= 0.5
        assert row["soft_label"] >= 0.5
        flipped += row["chosen"] != old["chosen"]
    assert flipped == done.flipped > 0


def test_flips_that_are_sure_and_none(tmp_path):
    given = preferences(tmp_path / "in.jsonl")
    flips = {}
    for flip in ("never", "sure", "always"):
        done = export_votes(tmp_path / "in.jsonl", tmp_path / "out.jsonl", to="trl", flip=flip)
        flips[flip] = done.flipped
        for row, old in zip(lines_of(tmp_path / "out.jsonl"), given, strict=True):
            assert (row["margin"] > 0) == (row["probability"] > 0.5)
            if flip == "never":
                assert row["chosen"] == old["chosen"]
            elif row["chosen"] != old["chosen"]:
                assert row["probability"] >= (0.95 if flip == "sure" else 0.5)
    assert flips["never"] == 0 < flips["sure"] < flips["always"]


def test_what_is_less_sure_is_dropped(tmp_path):
    given = preferences(tmp_path / "in.jsonl")
    whole = export_votes(tmp_path / "in.jsonl", tmp_path / "all.jsonl", to="trl")
    done = export_votes(tmp_path / "in.jsonl", tmp_path / "out.jsonl", to="trl", keep=0.999)
    rows = lines_of(tmp_path / "out.jsonl")
    assert [row for row in lines_of(tmp_path / "all.jsonl") if row["probability"] >= 0.999] == rows
    assert done.rows == len(rows) == len(given) - done.dropped
    assert whole.dropped == 0 < done.dropped


def test_from_a_saved_fit_without_fitting(votes, tmp_path, monkeypatch):
    export_votes(votes, tmp_path / "one.jsonl")
    crowdsift.fit(votes).save(tmp_path / "fit")
    monkeypatch.setattr("crowdsift.active.export.fit", None)
    export_votes(votes, tmp_path / "two.jsonl", fitted=tmp_path / "fit")
    for one, two in zip(lines_of(tmp_path / "one.jsonl"), lines_of(tmp_path / "two.jsonl"), strict=True):
        assert one["probability"] == pytest.approx(two["probability"], rel=1e-6)
        assert one["weight"] == pytest.approx(two["weight"], rel=1e-6)
    other = tmp_path / "other.csv"
    other.write_text("winner,loser,worker\nx,y,z\n")
    with pytest.raises(RequestError, match="2 items of the votes are not in the fit"):
        export_votes(other, tmp_path / "three.jsonl", fitted=tmp_path / "fit")


def test_votes_without_workers_export_through_bt(tmp_path):
    """In one component of more items than have exact covariances, too."""
    rng = np.random.default_rng(1)
    score = rng.standard_normal(1300)
    a = rng.integers(0, 1300, 20_000)
    b = (a + rng.integers(1, 1300, len(a))) % 1300
    won = rng.random(len(a)) < 1 / (1 + np.exp(2 * (score[b] - score[a])))
    one, two = np.where(won, a, b), np.where(won, b, a)
    path = tmp_path / "votes.csv"
    rows = "".join(f"{x},{y}\n" for x, y in zip(one, two, strict=True))
    path.write_text("winner,loser\n" + rows)
    done = export_votes(path, tmp_path / "out.csv", workers=False)
    assert done.fit.method == "bt"
    found = duckdb.sql(f"SELECT probability FROM '{tmp_path / 'out.csv'}'").fetchnumpy()
    p, right = found["probability"], score[one] > score[two]
    sure = p > 0.9
    assert right[sure].mean() == pytest.approx(p[sure].mean(), abs=0.03)


def test_rows_that_are_no_votes_are_left_out(tmp_path):
    path = tmp_path / "batch.csv"
    path.write_text("WorkerId,AssignmentId,Input.a,Input.b,Answer.choice\nw,1,x,y,A\nw,2,y,x,\nv,3,x,y,B\nv,3,x,y,B\n")
    done = export_votes(path, tmp_path / "out.jsonl")
    assert done.rows == 2
    assert [row["AssignmentId"] for row in lines_of(tmp_path / "out.jsonl")] == ["1", "3"]
