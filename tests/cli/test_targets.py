"""No output destroys what is read, and what cannot be written is refused before the work."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import crowdsift
from crowdsift import RequestError, cli
from crowdsift.cli.options import declared

VOTES = "winner,loser,worker\n" + "a,b,x\nb,c,y\na,c,x\nc,a,y\n" * 5
COMMANDS = {command.__name__: command for command, *_ in cli._COMMANDS}
# Options whose text names no file. A new option with a text stands here, or says what it reads or writes.
NO_FILES = {
    "address",
    "anchor",
    "by",
    "columns",
    "covariates",
    "dependent_by",
    "device",
    "dimensions",
    "encoding",
    "pooling",
    "trusted",
    "worker_columns",
    "worker_from_path",
    "engine",
    "experiment",
    "features",
    "flip",
    "format_",
    "goal",
    "host",
    "item_features_missing",
    "kind",
    "memory",
    "method",
    "methods",
    "model",
    "price",
    "query",
    "question",
    "redo",
    "reliability",
    "scale",
    "scheduler",
    "settings",
    "time",
    "title",
    "to",
    "to_table",
    "unique",
    "unknown",
    "values",
    "where",
}


def kinds(hint) -> set:
    """The types that a parameter may have, those in lists and unions included."""
    parts = typing.get_args(hint) if typing.get_origin(hint) is not None else ()
    return {hint} | {kind for part in parts for kind in kinds(part)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_reads_or_writes(name):
    command = COMMANDS[name]
    marks = declared(command)
    hints = typing.get_type_hints(command)
    hints.pop("return")
    for option, hint in hints.items():
        found = kinds(hint)
        assert Path not in found or option in marks, f"--{option} is a path without Reads or Writes"
        if str in found:
            assert (option in marks) != (option in NO_FILES), (
                f"--{option}: mark it with Reads or Writes, or add it to NO_FILES"
            )


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with one file of every kind that commands read."""
    monkeypatch.chdir(tmp_path)
    for name in ("v.csv", "vv1.csv", "vv.csv", "bad-rows.csv"):
        (tmp_path / name).write_text(VOTES)
    (tmp_path / "rows.csv").write_text(VOTES + "a,,z\n")
    (tmp_path / "gold.csv").write_text("winner,loser\na,b\n")
    (tmp_path / "items.csv").write_text("item,score,text,kind\na,1,A,k\nb,2,B,k\nc,3,C,k\n")
    (tmp_path / "workers.csv").write_text("worker\nx\ny\n")
    (tmp_path / "pairs.csv").write_text("first,second\na,b\n")
    with sqlite3.connect(tmp_path / "d.sqlite") as database:
        database.execute("CREATE TABLE votes (winner TEXT, loser TEXT, worker TEXT)")
        database.executemany("INSERT INTO votes VALUES (?, ?, ?)", [("a", "b", "x"), ("b", "c", "x")])
    os.link("v.csv", "hard.csv")
    os.symlink("v.csv", "soft.csv")
    crowdsift.fit(tmp_path / "v.csv", "bt").save(tmp_path / "o")
    (tmp_path / "drawn").mkdir()
    (tmp_path / "drawn" / "votes.csv").write_text(VOTES)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


READ = {
    "fit bad-rows.csv --skip-bad": "--bad-rows bad-rows.csv: this file is read (VOTES)",
    "next bad-rows.csv --skip-bad": "--bad-rows bad-rows.csv: this file is read (VOTES)",
    "export bad-rows.csv --skip-bad --out t.csv": "--bad-rows bad-rows.csv: this file is read",
    "evaluate bad-rows.csv --skip-bad": "--bad-rows bad-rows.csv: this file is read (VOTES)",
    "fit vv*.csv --table vv.csv": "--table vv.csv: this file is read (VOTES)",
    "fit sqlite:///d.sqlite --query Q --report d.sqlite": "--report d.sqlite: this file is read",
    "fit d.sqlite --query Q --table d.sqlite": "--table d.sqlite: this file is read",
    "fit v.csv --mturk-review v.csv": "--mturk-review v.csv: this file is read (VOTES)",
    "fit v.csv --table hard.csv": "--table hard.csv: this file is read (VOTES)",
    "fit hard.csv --report soft.csv": "--report soft.csv: this file is read (VOTES)",
    "fit v.csv --gold gold.csv --table gold.csv": "this file is read (--gold)",
    "fit v.csv --item-features items.csv:score --table items.csv": "is read (--item-features)",
    "fit v.csv --item-text items.csv:text --table items.csv": "is read (--item-text)",
    "fit v.csv --method barp --classes items.csv:kind --table items.csv": "read (--classes)",
    "fit v.csv --start o --table o/items.csv": "this file is read (--start)",
    "fit v.csv --start o --excel-safe o": "this file is read (--start)",
    "fit items.csv --excel-safe .": "./items.csv: this file is read (VOTES)",
    "export v.csv --to trl --texts items.csv:text --out items.csv": "is read (--texts)",
    "export o --out o/items.csv": "this file is read (VOTES)",
    "export v.csv --fit o --out o/workers.csv": "this file is read (--fit)",
    "export o --head o/summary.json": "this file is read (VOTES)",
    "next v.csv --workers workers.csv --out workers.csv": "this file is read (--workers)",
    "next v.csv --items items.csv --out items.csv": "this file is read (--items)",
    "predict o pairs.csv --out pairs.csv": "this file is read (PAIRS)",
    "predict o pairs.csv --out o/items.csv": "this file is read (DIR)",
    "report o --out o/summary.json": "this file is read (DIR)",
    "report o --out o/items.csv": "this file is read (DIR)",
    "update o o/items.csv": "--out o/items.csv: this file is read (VOTES)",
    "spam v.csv --kind left --percent 50 --out ./v.csv": "this file is read (VOTES)",
    "simulate --items 4 --comparisons 9 --like drawn/votes.csv --out drawn": "is read (--like)",
    "fit v.csv --report a.csv --table a.csv": "--report writes to it, too; give each its own",
    "fit v.csv --table a.csv --excel-safe a.csv": "needs a folder of this name",
    "fit rows.csv --skip-bad --table bad-rows.csv": "writes to it, too",
    "fit v.csv --out new --table new/items.csv": "there is no folder new; make it first",
    "fit v.csv --out o --table o/items.csv": "writes to it, too",
}


@pytest.mark.parametrize("command", READ)
def test_no_output_is_a_file_that_is_read_or_written_twice(run, place, command):
    before = contents(place)
    words = ["SELECT * FROM votes" if word == "Q" else word for word in command.split()]
    status, out, err = run(*words)
    assert (status, out) == (1, "")
    assert READ[command] in err
    assert contents(place) == before


def test_standard_input_may_be_a_file_that_is_not_written_over(place):
    with open("v.csv") as votes:
        words = [sys.executable, "-m", "crowdsift", "fit", "-", "--table", "v.csv"]
        done = subprocess.run(words, stdin=votes, capture_output=True, text=True)
    assert done.returncode == 1
    assert "--table v.csv: this file is read (VOTES)" in done.stderr
    assert Path("v.csv").read_text() == VOTES


def test_a_fit_may_replace_the_one_that_it_starts_from(run, place):
    words = ("fit", "v.csv", "--quiet")
    assert run(*words, "--out", "o")[0] == 0
    assert run(*words, "--start", "o", "--out", "o")[0] == 0
    assert run(*words, "--checkpoint", "o", "--out", "o", "--report", "o/report.html")[0] == 0
    assert run("report", "o", "--quiet")[0] == 0
    assert run("fit", "v.csv", "--report", "/dev/null", "--mturk-review", "/dev/null")[0] == 1
    Path("more.csv").write_text("winner,loser,worker\na,c,z\n")
    assert run("update", "o", "more.csv", "--quiet")[0] == 0
    assert crowdsift.load("o").summary["votes"] == 21


def test_in_python_neither_bad_rows_nor_an_export_replace_what_is_read(place):
    before = contents(place)
    with pytest.raises(RequestError, match=r"bad rows rows\.csv: this file is read \(votes\)"):
        crowdsift.read("rows.csv", skip_bad="rows.csv")
    with pytest.raises(RequestError, match=r"out soft\.csv: this file is read \(votes\)"):
        crowdsift.export_votes("v.csv", "soft.csv")
    assert contents(place) == before


def test_targets_that_cannot_be_written_are_refused_before_the_fit(run, place, monkeypatch):
    monkeypatch.setattr(crowdsift, "fit", None)  # nothing is fitted
    Path("file").touch()
    for option in ("--out", "--report", "--table", "--mturk-review", "--excel-safe", "--checkpoint"):
        target = "file/x.csv" if option != "--table" else "file/x.md"
        status, _, err = run("fit", "v.csv", option, target)
        assert status == 1
        assert "there is no folder file" in err or "cannot write to file/x.csv" in err, option
    assert run("update", "o", "v.csv", "--out", "file")[0] == 1
    Path("other").mkdir()
    Path("other/items.csv").write_text("mine")
    status, _, err = run("update", "o", "v.csv", "--out", "other")
    assert (status, "would be overwritten" in err) == (1, True)


BATCH = "AssignmentId,WorkerId,AssignmentStatus,Input.a,Input.b,Answer.choice\n" + "".join(
    f"id{i},W{i % 3},Submitted,{a},{b},{'AB'[i % 5 == 0]}\n" for i, (a, b) in enumerate(["xy", "yz", "xz"] * 10)
)
FAILING = {
    "--mturk-review": ("crowdsift.io.formats.platforms.csv.DictWriter", OSError(28, "No space left")),
    "--excel-safe": ("crowdsift.results.leaderboard.write_folder", OSError(28, "No space left")),
    "--table": ("crowdsift.results.leaderboard.replace_file", OSError(28, "No space left")),
    "--report": ("crowdsift.report.make_report", MemoryError()),
    "--robustness": ("crowdsift.results.fit.Fit.with_robustness", ZeroDivisionError("by chance")),
    "--statistics": ("crowdsift.results.fit.Fit.with_statistics", MemoryError()),
    "--out": ("crowdsift.results.store.write_recorded", OSError(28, "No space left")),
}


@pytest.mark.parametrize("option", FAILING)
def test_one_output_that_fails_does_not_lose_the_others(run, tmp_path, monkeypatch, option):
    def fails(*_, **__):
        raise FAILING[option][1]

    monkeypatch.chdir(tmp_path)
    Path("batch.csv").write_text(BATCH)
    monkeypatch.setattr(FAILING[option][0], fails)
    outputs = {
        "--out": "fit",
        "--mturk-review": "review.csv",
        "--excel-safe": "sheets",
        "--report": "report.html",
        "--table": "table.md",
    }
    words = [word for pair in outputs.items() for word in pair]
    status, out, err = run("fit", "batch.csv", *words, "--robustness", "--statistics", "--json")
    assert status == 1
    assert out.startswith('{"')
    assert f"the fit is finished, but {option}: " in err
    lost = outputs.pop(option, "nothing")
    assert not Path(lost).exists()
    for each in outputs.values():
        assert Path(each).exists()
        assert each in err.rpartition("Written: ")[2]
    if option != "--out":
        assert crowdsift.load("fit").summary["votes"] == 30


def test_a_pipe_that_nobody_reads_does_not_hold_the_command(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("crowdsift.io.files._WAIT_FOR_READER", 0.2)
    Path("batch.csv").write_text(BATCH)
    os.mkfifo("pipe")
    status, _, err = run("fit", "batch.csv", "--mturk-review", "pipe", "--out", "fit")
    assert status == 1
    assert "--mturk-review: pipe: cannot be written: no process reads from this pipe" in err.replace(f"{tmp_path}/", "")
    assert crowdsift.load("fit").summary["votes"] == 30


@pytest.mark.skipif(sys.platform != "linux", reason="files in memory are of Linux")
def test_a_full_folder_of_temporary_files_does_not_lose_a_fit(tmp_path, monkeypatch):
    fit = crowdsift.fit({"winner": ["a", "b"], "loser": ["b", "c"], "worker": ["x", "y"]})

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("crowdsift.io.files._made", full)
    fit.save(tmp_path / "fit")
    assert crowdsift.load(tmp_path / "fit").votes.total_weight == 2


QUERY = ("--query", "SELECT winner, loser, worker FROM votes")


def test_every_command_that_reads_votes_reads_them_from_a_database(run, place):
    with sqlite3.connect("d.sqlite") as database:
        rows = [tuple(line.split(",")) for line in VOTES.splitlines()[1:]]
        database.execute("DELETE FROM votes")
        database.executemany("INSERT INTO votes VALUES (?, ?, ?)", rows)
        database.execute("CREATE TABLE more (winner TEXT, loser TEXT, worker TEXT)")
        database.execute("INSERT INTO more VALUES ('c', 'b', 'z')")
    commands = {
        "fit": ["d.sqlite", "--method", "bt"],
        "next": ["d.sqlite", "--pairs", "2"],
        "export": ["d.sqlite", "--method", "bt", "--out", "t.csv"],
        "evaluate": ["d.sqlite", "--methods", "bt"],
        "spam": ["d.sqlite", "--kind", "left", "--percent", "50", "--out", "s.csv"],
        "simulate": ["--items", "4", "--comparisons", "20", "--like", "d.sqlite", "--out", "s"],
        "update": ["o", "d.sqlite"],
    }
    read = {name.rstrip("_") for name, command in COMMANDS.items() if {"votes", "like"} & set(declared(command))}
    assert read == set(commands)
    for name, words in commands.items():
        status, _, err = run(name, *words)
        assert status == 1
        assert "is a database; say which rows are votes with --query" in err
        query = QUERY if name != "update" else (*QUERY[:1], "SELECT * FROM more")
        status, _, err = run(name, *words, *query)
        assert status == 0, err


def test_other_tables_in_a_database_get_no_advice_that_they_cannot_take(run, place):
    status, _, err = run("fit", "v.csv", "--gold", "d.sqlite")
    assert status == 1
    assert "d.sqlite: a database, from which only votes are read; write these rows as CSV" in err


def test_scales_and_anchors_are_refused_before_the_fit(run, place, monkeypatch):
    monkeypatch.setattr("crowdsift.fitting.estimate_model", None)  # nothing is fitted
    for words, message in (
        ("elo --anchor nobody=1200", "the anchor 'nobody' is not among the items"),
        ("winrate --anchor a=1", "a win rate has no level to choose"),
        ("Elo", "scale must be one of"),
        ("elo --anchor a", "--anchor takes"),
    ):
        status, _, err = run("fit", "v.csv", "--method", "bt", "--scale", *words.split())
        assert (status, message in err) == (1, True), err
