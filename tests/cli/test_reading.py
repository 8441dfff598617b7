"""Options of reading, as a person at a terminal gives them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROWS = [
    ("A", "x", "Approved"),
    ("B", "y", "Rejected"),
    ("B", "x", "Approved"),
    ("", "y", "Approved"),
    ("tie", "z", "Approved"),
    ("A", "z", "Rejected"),
    ("A", "x", "Approved"),
]


@pytest.fixture
def batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small batch of Mechanical Turk: one answer is empty, one assignment a duplicate."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "batch.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        names = ("AssignmentId", "WorkerId", "AssignmentStatus", "Input.a", "Input.b")
        writer.writerow([*names, "Answer.choice"])
        rows = [
            (f"a{i}", worker, status, f"item{i % 3}", f"item{(i + 1) % 3}", answer)
            for i, (answer, worker, status) in enumerate(ROWS)
        ]
        writer.writerows([*rows, rows[2]])
    return path


def test_the_format_is_named_and_every_row_accounted_for(run: Any, batch: Path) -> None:
    status, out, err = run("fit", batch, "--json")
    assert status == 0
    first = err.splitlines()[0]
    assert first == "mturk: 8 rows read, 6 used, 1 empty, 1 duplicate, 0 set aside"
    assert "2 of the rows used are of rejected assignments" in err
    summary = json.loads(out)["summary"]
    assert summary["votes"] == summary["intake"]["used"] == 6
    assert summary["intake"]["format"] == "mturk"


def test_conditions_and_values(run: Any, batch: Path) -> None:
    where = ("--where", "AssignmentStatus != 'Rejected'")
    assert "4 used, 1 empty, 1 duplicate, 0 set aside, 2 left out" in run("fit", batch, *where)[2]
    status, _, err = run("fit", batch, "--values", "tie=empty")
    assert status == 0
    assert "5 used, 2 empty" in err
    status, _, err = run("fit", batch, "--values", "tie")
    assert status == 1
    assert "--values takes NAME=NAME,... such as A=left, not 'tie'" in err
    status, _, err = run("fit", batch, "--where", "nothing = 1")
    assert status == 1
    assert "--where" in err


def test_bad_rows_go_to_a_file(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker\na,b,x\nb,b,x\nb,c,y\na,c\n,c,y\n")
    assert run("fit", path)[0] == 1
    status, _, err = run("fit", path, "--skip-bad")
    assert status == 0
    assert "5 rows read, 2 used, 0 empty, 0 duplicates, 3 set aside" in err
    assert "Written: bad-rows.csv" in err
    with (tmp_path / "bad-rows.csv").open(newline="") as file:
        assert [row["row"] for row in csv.DictReader(file)] == ["2", "4", "5"]
    other = ("--bad-rows", tmp_path / "mine.csv", "--quiet")
    lines = run("fit", path, "--skip-bad", *other)[2].splitlines()
    assert all(line.startswith("crowdsift: warning: ") for line in lines)
    assert (tmp_path / "mine.csv").exists()


def test_votes_without_workers_are_fitted_by_bt(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("left,right,winner\na,b,left\nb,c,tie\nc,a,right\n")
    status, out, err = run("fit", path, "--json")
    assert status == 0
    assert err.startswith("evalica: 3 rows read, 3 used")
    assert json.loads(out)["summary"]["method"] == "bt"
    status, _, err = run("fit", path, "--method", "sift")
    assert status == 1
    assert "needs a worker for every vote" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tune"], "sift has no penalty to tune"),
        (["--method", "bt", "--covariates", "size"], "bt does not use covariates"),
        (["--method", "bt", "--classes", "classes.csv:kind"], "bt does not use classes"),
        (["--format", "excel"], "unknown format 'excel'"),
        (["--format", "arena"], "not in the format arena"),
    ],
)
def test_what_would_be_ignored_is_refused(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classes.csv").write_text("item,kind\na,1\nb,2\nc,2\n")
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker,size\na,b,x,1\nb,c,y,2\na,c,x,0\n")
    status, out, err = run("fit", path, *arguments)
    assert (status, out) == (1, "")
    assert message in err


def test_evaluate_and_next_read_alike(run: Any, batch: Path, tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text("item,score\nitem0,2\nitem1,1\nitem2,0\n")
    status, out, err = run("evaluate", batch, "--truth", truth, "--methods", "bt", "--json")
    assert status == 0, err
    assert "mturk: 8 rows read, 6 used" in err
    assert json.loads(out)[0]["method"] == "bt"
    status, out, err = run("next", batch, "--pairs", 2, "--json", "--quiet")
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith("crowdsift: warning: 2 of the rows used are of rejected assignments")
    assert len(json.loads(out)) == 2


def test_every_command_that_reads_votes_takes_the_same_options(tmp_path: Path, run: Any) -> None:
    rng = np.random.default_rng(1)
    for who in ("ann", "bob", "cyd"):
        pairs = [rng.permutation(5)[:2] for _ in range(40)]
        rows = [f"{a},{b},{'A' if (a > b) != (rng.random() < 0.2) else 'B'}" for a, b in pairs]
        path = tmp_path / "votes" / f"{who}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(["left,right,winner", *rows]))
    votes, out = str(tmp_path / "votes"), str(tmp_path / "out")
    commands = {
        "fit": ["--out", out],
        "next": ["--pairs", "3"],
        "plan": ["--goal", "first", "--most", "60"],
        "export": ["--out", f"{tmp_path}/rows.csv"],
        "evaluate": ["--methods", "bt"],
        "spam": ["--kind", "left", "--percent", "50", "--out", f"{tmp_path}/spammed.csv"],
    }
    for name, more in commands.items():
        status, _, said = run(name, votes, "--worker-from-path", "--values", "A=left,B=right", *more)
        assert status == 0, said
    with (tmp_path / "spammed.csv").open() as file:
        assert {"ann", "bob", "cyd"} < {row["worker"] for row in csv.DictReader(file)}
    for name in ("next", "plan"):
        status, _, said = run(name, out, "--where", "x = 1")
        assert status == 1
        assert "--where" in said
        assert "is the folder of a fit" in said
