"""Commands that are refused: the status is 1, the reason is said, and nothing is written."""

from __future__ import annotations

import errno
import os
import re
from unittest.mock import Mock

import pytest

from crowdsift import cli

COMMANDS = {
    "no workers": (
        "simulate --items 5 --comparisons 9 --out OUT",
        "say how many workers with --workers, or take them --like VOTES",
    ),
    "no range": (
        "simulate --items 5 --workers 2 --comparisons 9 --out OUT --reliability high",
        "--reliability takes LOW,HIGH, such as -1,1, not 'high'",
    ),
    "a table from a file": ("fit VOTES --to-table board", "use --out DIR"),
    "two kinds of tables in one folder": (
        "fit VOTES --out OUT --excel-safe OUT",
        "--out writes to it, too; give each its own file or folder",
    ),
    "another engine": ("fit VOTES --engine abacus", "unknown engine 'abacus'"),
    "another method": ("fit VOTES --method shift", "did you mean 'sift'"),
    "a column that is not one of times": (
        "fit VOTES --time worker",
        "the column 'worker' is not one of times: 'x' is neither a number nor a date",
    ),
    "another experiment's methods": (
        "reproduce synthetic --redo magic --out OUT",
        "cannot redo 'magic'; give all or methods of",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_are_refused(name, run, tmp_path):
    words, message = COMMANDS[name]
    (tmp_path / "votes.csv").write_text("winner,loser,worker\na,b,x\nb,c,y\na,c,x\nc,a,y\n")
    places = {"OUT": tmp_path / "out", "VOTES": tmp_path / "votes.csv"}
    status, _, err = run(*(places.get(word, word) for word in words.split()))
    assert status == 1
    assert message in re.sub(r"\s+", " ", err)
    assert [each.name for each in tmp_path.iterdir()] == ["votes.csv"]


@pytest.mark.parametrize(
    "command",
    [
        "fit VOTES --report VOTES",
        "fit VOTES --table VOTES",
        "fit FOLDER/votes.parquet --out FOLDER",
        "next VOTES --out VOTES",
        "export VOTES --out VOTES",
        "spam VOTES --kind left --percent 50 --out VOTES",
    ],
)
def test_the_votes_are_not_written_over(run, tmp_path, command):
    places = {"VOTES": str(tmp_path / "votes.csv"), "FOLDER": str(tmp_path)}
    for path in (tmp_path / "votes.csv", tmp_path / "votes.parquet"):
        path.write_text("winner,loser,worker\na,b,x\nb,c,y\n")
    for name, place in places.items():
        command = command.replace(name, place)
    status, _, err = run(*command.split())
    assert status == 1
    assert "this file is read (VOTES); write somewhere else" in err
    assert sorted(os.listdir(tmp_path)) == ["votes.csv", "votes.parquet"]


def test_many_files_are_told_to_be_a_glob(run):
    status, _, err = run("fit", "a.csv", "b.csv")
    assert status == 2
    assert 'a glob in quotes: "votes-*.csv"' in re.sub(r"\s+", " ", err)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("can't start new thread"),
        ImportError("libx.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=["thread", "library", "mapping"],
)
def test_a_shortage_of_memory_is_no_fault_of_the_program(error, monkeypatch, capsys):
    """What a low `ulimit -v` leads to, at a place that depends on the limit."""
    monkeypatch.setattr(cli, "app", Mock(side_effect=error))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    message = capsys.readouterr().err
    assert ended.value.code == 1
    assert "not enough memory" in message
    assert "ulimit -v" in message
    assert "fault of" not in message
