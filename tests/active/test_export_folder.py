"""Exports from the folder of a fit alone, and of formats whose rows are nested."""

from __future__ import annotations

import json

import duckdb
import pytest
from preference_rows import lines_of, mixed_votes, preferences

import crowdsift
from crowdsift import RequestError, export_votes


@pytest.fixture
def votes(tmp_path):
    drawn = crowdsift.simulate(12, 9, 900, reliability=(-0.5, 2), seed=4)
    return mixed_votes(drawn, tmp_path)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_from_the_folder_of_a_fit_alone(votes, tmp_path, monkeypatch, kind):
    crowdsift.fit(votes).save(tmp_path / "fit")
    export_votes(votes, tmp_path / "file.jsonl", to="trl", fitted=tmp_path / "fit")
    votes.unlink()
    monkeypatch.setattr("crowdsift.active.export.fit", None)
    out = tmp_path / f"out.{kind}"
    done = export_votes(tmp_path / "fit", out, to="trl")
    table = duckdb.sql(f"SELECT * FROM '{out}'")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    assert done.rows == len(rows)
    assert sum(row["votes"] for row in rows) == 900
    result = {}  # what was written from the file, by what was voted
    for row in lines_of(tmp_path / "file.jsonl"):
        vote = (row["left"], row["right"], {"left": 1, "right": 0}[row["winner"]], row["worker"])
        result[vote] = row
    assert {(r["first"], r["second"], r["outcome"], r["worker"]) for r in rows} == set(result)
    for row in rows:
        other = result[row["first"], row["second"], row["outcome"], row["worker"]]
        assert (row["chosen"], row["rejected"]) == (other["chosen"], other["rejected"])
        assert row["margin"] == pytest.approx(other["margin"], rel=1e-6)
        assert row["weight"] == pytest.approx(other["weight"] * row["votes"], rel=1e-6)
        assert (row["margin"] > 0) == (row["probability"] > 0.5)
    with pytest.raises(RequestError, match="the folder of a fit, which is taken as it is"):
        export_votes(tmp_path / "fit", out, method="bt")
    with pytest.raises(RequestError, match="where: options of reading"):
        export_votes(tmp_path / "fit", out, where="worker = 'w1'")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_columns_without_rows(tmp_path, kind):
    crowdsift.fit({"winner": ["a", "b"], "loser": ["b", "c"], "worker": [1, 2]}).save(tmp_path)
    out = tmp_path / f"out.{kind}"
    done = export_votes(tmp_path, out, keep=1.0)
    assert (done.rows, done.dropped) == (0, 2)
    if kind == "jsonl":
        assert out.read_text() == ""
    else:
        assert duckdb.sql(f"SELECT * FROM '{out}'").columns[-2:] == ["soft_label", "weight"]


def test_a_folder_names_the_file_of_long_replies(tmp_path, monkeypatch):
    """Which alone holds their texts."""
    rows = preferences(tmp_path / "in.jsonl")
    rows = [{**row, "chosen": row["chosen"] * 3, "rejected": row["rejected"] * 3} for row in rows]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    crowdsift.fit(path).save(tmp_path / "fit")
    monkeypatch.setattr("crowdsift.active.export.fit", None)
    done = export_votes(tmp_path / "fit", tmp_path / "out.jsonl", to="trl")
    written = lines_of(tmp_path / "out.jsonl")
    assert [row["original_chosen"] for row in written] == [row["chosen"] for row in rows]
    assert done.rows == len(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[1:]))
    with pytest.raises(RequestError, match=r"gives .* votes now, and .* were fitted"):
        export_votes(tmp_path / "fit", tmp_path / "out.jsonl", to="trl")
    path.unlink()
    with pytest.raises(RequestError, match="the beginnings of replies"):
        export_votes(tmp_path / "fit", tmp_path / "out.jsonl", to="trl")


def test_conversations_with_implicit_prompts_are_written_whole(tmp_path):
    path = tmp_path / "in.jsonl"
    rows = [
        {
            "chosen": f"\n\nHuman: hi {i % 3}\n\nAssistant: {a} " + "long " * 20,
            "rejected": f"\n\nHuman: hi {i % 3}\n\nAssistant: {b} " + "long " * 20,
            "worker": f"w{i % 4}",
            "note": i,
        }
        for i, (a, b) in enumerate([("yes", "no"), ("no", "maybe"), ("yes", "maybe")] * 8)
    ]
    rows[5]["chosen"], rows[5]["rejected"] = rows[5]["rejected"], rows[5]["chosen"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = export_votes(path, tmp_path / "out.jsonl", to="trl")
    written = lines_of(tmp_path / "out.jsonl")
    assert [row["note"] for row in written] == list(range(24))
    for row, given in zip(written, rows, strict=True):
        assert row["original_chosen"] == given["chosen"]
        assert {row["chosen"], row["rejected"]} == {given["chosen"], given["rejected"]}
        assert (row["margin"] > 0) == (row["probability"] > 0.5)
    assert sum(r["chosen"] != g["chosen"] for r, g in zip(written, rows, strict=True)) == done.flipped


def test_nested_formats_are_written_one_row_a_vote(tmp_path):
    texts = {name: f"{name} " + "word " * 30 for name in ("r1", "r2", "r3")}
    orders = (("a", ["r1", "r2", "r3"]), ("b", ["r1", "r3", "r2"]))
    records = [
        {
            "fields": {"question": f"why {i}? " + "so " * 40, **texts},
            "responses": {
                "rank": [
                    {
                        "value": [{"value": n, "rank": k} for k, n in enumerate(order)],
                        "user_id": who,
                        "status": "submitted",
                    }
                    for who, order in orders
                ]
            },
        }
        for i in range(6)
    ]
    path = tmp_path / "argilla.json"
    path.write_text(json.dumps(records))
    export_votes(path, tmp_path / "out.jsonl", to="trl")
    written = lines_of(tmp_path / "out.jsonl")
    assert len(written) == 6 * 2 * 3
    assert {row["chosen"] for row in written} <= set(texts.values())
    assert all(row["prompt"].endswith("so so ") for row in written)
    sure = [row for row in written if {row["chosen"], row["rejected"]} == {texts["r1"], texts["r2"]}]
    assert all(row["chosen"] == texts["r1"] for row in sure)
    tasks = [
        {
            "id": t,
            "data": {"image_a": "x", "image_b": "y"},
            "annotations": [{"id": t, "completed_by": 1 + t % 2, "result": [{"value": {"selected": "left"}}]}],
        }
        for t in range(5)
    ]
    path = tmp_path / "studio.json"
    path.write_text(json.dumps(tasks))
    for kind in ("csv", "parquet"):
        done = export_votes(path, tmp_path / f"out.{kind}", to="trl")
        found = duckdb.sql(f"SELECT task, chosen, rejected, margin FROM '{tmp_path}/out.{kind}'")
        assert [row[:3] for row in found.fetchall()] == [(t, "x", "y") for t in range(5)]
        assert done.rows == 5
