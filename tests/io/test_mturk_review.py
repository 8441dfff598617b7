"""A Mechanical Turk batch is filled in for upload."""

from __future__ import annotations

import csv
import gzip
import sys

import duckdb
import numpy as np
import pytest

import crowdsift
from crowdsift import cli

HEADER = [
    "AssignmentId",
    "WorkerId",
    "AssignmentStatus",
    "WorkTimeInSeconds",
    "Input.a",
    "Input.b",
    "Answer.choice",
    "Approve",
    "Reject",
]


def batch(path):
    rng = np.random.default_rng(1)
    score, rows = rng.standard_normal(20), []
    for i in range(1500):
        worker = int(rng.integers(0, 12))
        a, b = rng.choice(20, 2, replace=False)
        skill = -2.0 if worker == 0 else 0.0 if worker == 1 else 2.0
        answer = "A" if rng.random() < 1 / (1 + np.exp(-skill * (score[a] - score[b]))) else "B"
        status = ("Submitted", "Approved")[i % 7 == 0]
        rows.append([f"id{i}", f"W{worker}", status, 10 + worker, f"x{a}", f"x{b}", answer, "", ""])
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return rows


def test_the_command_fills_in_what_to_upload(tmp_path, monkeypatch, capsys):
    rows = batch(tmp_path / "batch.csv")
    command = [
        "crowdsift",
        "fit",
        str(tmp_path / "batch.csv"),
        "--out",
        str(tmp_path / "fit"),
        "--mturk-review",
        str(tmp_path / "review.csv"),
    ]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    assert "approved" in capsys.readouterr().err
    with (tmp_path / "review.csv").open() as file:
        filled = list(csv.DictReader(file))
    assert [row["AssignmentId"] for row in filled] == [row[0] for row in rows]
    for row in filled:
        submitted = row["AssignmentStatus"] == "Submitted"
        rejected = row["WorkerId"] == "W0" and submitted
        assert bool(row["Reject"]) == rejected or row["WorkerId"] == "W1"
        assert (row["Approve"] == "x") == (submitted and row["WorkerId"] not in ("W0", "W1"))
    with (tmp_path / "fit" / "decisions.csv").open() as file:
        decided = {row["worker"]: row for row in csv.DictReader(file)}
    assert decided["W0"]["suggestion"] == "block"
    assert decided["W5"]["suggestion"] == "pay"
    assert decided["W5"]["median_seconds"] == "15.0"
    assert crowdsift.load(tmp_path / "fit").worker_table["median_seconds"][0] == 10.0


def test_files_that_are_no_batch_are_refused_before_the_fit(run, tmp_path, monkeypatch):
    monkeypatch.setattr(crowdsift, "fit", None)  # nothing is fitted
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker\na,b,c\n")
    status, _, err = run("fit", path, "--mturk-review", tmp_path / "out.csv")
    assert status == 1
    assert "no column WorkerId: not the results of a batch" in err
    for name in ("one", "two"):
        batch(tmp_path / f"{name}.csv")
    status, _, err = run("fit", f"{tmp_path}/[ot]*.csv", "--mturk-review", tmp_path / "out.csv")
    assert status == 1
    assert "several files; --mturk-review fills in one batch" in err
    assert not (tmp_path / "out.csv").exists()


def zipped(path):
    path.write_bytes(gzip.compress(path.read_bytes()))


def long_field(path):
    header, *rows = path.read_text().splitlines()
    more = [f"{header},Input.note", *(f"{row},{'n' * 140_000 if not i else ''}" for i, row in enumerate(rows))]
    path.write_text("\n".join(more) + "\n")


def semicolons(path):
    path.write_text(path.read_text().replace(",", ";"))


def parquet(path):
    duckdb.sql(f"COPY (FROM read_csv('{path}', all_varchar=true)) TO '{path}' (FORMAT parquet)")


@pytest.mark.parametrize("change", [zipped, long_field, semicolons, parquet])
def test_batches_of_any_form_give_times_and_go_back(change, run, tmp_path):
    rows = batch(tmp_path / "batch.csv")
    change(tmp_path / "batch.csv")
    words = ("--method", "bora-map", "--out", tmp_path / "fit", "--quiet")
    review = tmp_path / "review.csv"
    status, _, err = run("fit", tmp_path / "batch.csv", *words, "--mturk-review", review)
    assert (status, err) == (0, "")
    fit = crowdsift.load(tmp_path / "fit")
    times = dict(zip(fit.workers["worker"], fit.workers["median_seconds"], strict=True))
    assert times == {f"W{i}": 10.0 + i for i in range(12)}
    csv.field_size_limit(1_000_000)
    with review.open(newline="") as file:
        filled = list(csv.DictReader(file))
    assert [[row[name] for name in HEADER[:7]] for row in filled] == [[str(entry) for entry in row[:7]] for row in rows]
    assert {row["Approve"] for row in filled} == {"", "x"}


def test_a_batch_from_standard_input_goes_back(run, tmp_path, monkeypatch):
    rows = batch(tmp_path / "batch.csv")
    with (tmp_path / "batch.csv").open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        words = ("--method", "bora-map", "--mturk-review", tmp_path / "review.csv")
        assert run("fit", "-", *words)[0] == 0
    assert len((tmp_path / "review.csv").read_text().splitlines()) == len(rows) + 1


def test_rows_that_are_no_votes_go_back_too(run, tmp_path):
    path = tmp_path / "batch.csv"
    rows = batch(path)
    with path.open("a") as file:  # a duplicate assignment, no answer, and no record
        file.write(",".join(map(str, rows[0])) + "\nx1,W3,Submitted,99,x1,x2,,,\nx2,W3\n")
    words = ("--skip-bad", "--bad-rows", tmp_path / "bad.csv", "--method", "bora-map", "--out", tmp_path / "fit")
    assert run("fit", path, *words, "--mturk-review", tmp_path / "review.csv")[0] == 0
    with (tmp_path / "review.csv").open() as file:
        found = [row["AssignmentId"] for row in csv.DictReader(file)]
    assert found == [*(row[0] for row in rows), "id0", "x1"]
    fit = crowdsift.load(tmp_path / "fit")
    assert dict(zip(fit.workers["worker"], fit.workers["median_seconds"], strict=True))["W3"] == 13
