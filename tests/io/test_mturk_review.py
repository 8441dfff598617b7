"""A Mechanical Turk batch is filled in for upload."""

from __future__ import annotations

import csv
import sys

import numpy as np
import pytest

import crowdsift
from crowdsift import InputError, cli
from crowdsift.io.mturk_review import median_seconds, write_review

HEADER = ["AssignmentId", "WorkerId", "AssignmentStatus", "WorkTimeInSeconds", "Input.a",
          "Input.b", "Answer.choice", "Approve", "Reject"]  # fmt: skip


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
    command = ["crowdsift", "fit", str(tmp_path / "batch.csv"), "--out", str(tmp_path / "fit"),
               "--mturk-review", str(tmp_path / "review.csv")]  # fmt: skip
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


def test_files_that_are_no_batch(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker\na,b,c\n")
    assert median_seconds(path) is None
    assert median_seconds("-") is None
    with pytest.raises(InputError, match="no column WorkerId"):
        write_review(path, {}, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
