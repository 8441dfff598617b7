"""Exported votes: nothing lost, in order, and what is added is what the posterior says."""

from __future__ import annotations

import json
import sys

import duckdb
import numpy as np
import pytest

import crowdsift
from crowdsift import InputError, RequestError, cli, export_votes, soft_labels
from crowdsift.numeric.likelihoods import sigmoid


@pytest.fixture(scope="module")
def crowd():
    return crowdsift.simulate(items=12, workers=9, comparisons=900, reliability=(-0.5, 2), seed=4)


@pytest.fixture
def votes(crowd, tmp_path):
    """A file with a column of its own, in a mixed order."""
    crowd.write(tmp_path)
    lines = (tmp_path / "votes.csv").read_text().splitlines()
    rows = np.random.default_rng(1).permutation(lines[1:])
    path = tmp_path / "mixed.csv"
    noted = [f'{row},"note, {i} ""é"""' for i, row in enumerate(rows)]
    path.write_text("\n".join([lines[0] + ",note", *noted]) + "\n", encoding="utf-8")
    return path


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_row_and_column_in_order(votes, tmp_path):
    done = export_votes(votes, tmp_path / "out.jsonl")
    rows = lines_of(tmp_path / "out.jsonl")
    assert done.rows == len(rows) == 900
    given = duckdb.sql(f"SELECT * FROM read_csv('{votes}', all_varchar=true)").fetchall()
    kept = [tuple(row[name] for name in ("left", "right", "winner", "worker", "note"))
            for row in rows]  # fmt: skip
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
        told = fit.difference(one, two)
        assert row["margin"] == pytest.approx(told["difference"][0])
        sd = (told["upper"][0] - told["lower"][0]) / 2 / 1.6448536
        drawn = sigmoid(typical * (row["margin"] + sd * random.standard_normal(200_000)))
        assert row["soft_label"] == pytest.approx(drawn.mean(), abs=0.005)
        assert row["weight"] == pytest.approx((beta[row["worker"]] / typical) ** 2)


def test_doubted_votes_are_those_of_bad_workers(crowd, votes, tmp_path):
    export_votes(votes, tmp_path / "out.jsonl")
    true = dict(zip(crowd.workers, crowd.reliability, strict=True))
    rows = lines_of(tmp_path / "out.jsonl")
    worst, best = min(true, key=true.get), max(true, key=true.get)
    mean = {
        who: np.mean([row["probability"] for row in rows if row["worker"] == who])
        for who in (worst, best)
    }
    assert mean[worst] < 0.5 < mean[best]
    weight = {who: next(r["weight"] for r in rows if r["worker"] == who) for who in true}
    assert weight[best] > 1 > weight[min(true, key=lambda who: abs(true[who]))]


def test_trl_columns(crowd, votes, tmp_path):
    items = tmp_path / "texts.csv"
    items.write_text("item,text\n" + "".join(f'{i},"text of {i}"\n' for i in crowd.items))
    export_votes(votes, tmp_path / "out.jsonl", trl=True, texts=f"{items}:text")
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
        export_votes(votes, tmp_path / "out.jsonl", trl=True, texts=f"{items}:text")


def test_taken_names_weights_and_ties(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(
        "left,right,winner,worker,weight,Margin\n"
        "a,b,left,x,2,1\nb,a,right,y,1,\na,b,tie,x,0,7\nb,c,left,y,3,8\n"
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
    assert export_votes(path, out, trl=True, method="bt").rows == 300_000
    rows = duckdb.sql(f"SELECT row, winner, chosen, rejected, loser FROM '{out}'").fetchnumpy()
    np.testing.assert_array_equal(rows["row"], np.arange(300_000))
    same = rows["winner"] == rows["chosen"]
    assert (same | (rows["winner"] == rows["rejected"])).all()


def test_soft_labels_are_the_exported_columns(votes, tmp_path):
    export_votes(votes, tmp_path / "out.jsonl")
    rows = lines_of(tmp_path / "out.jsonl")
    told = soft_labels(votes)
    for name, values in told.items():
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
    ("target", "match"),
    [("out.csv", r"\.jsonl or \.parquet"), ("none/out.jsonl", "there is no folder")],
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
