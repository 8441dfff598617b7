"""Tables for spreadsheets: no label is a formula, and everything else is as it was."""

from __future__ import annotations

import csv
import sys

import pytest

import crowdsift
from crowdsift import cli
from crowdsift.results.leaderboard import excel_safe, write_excel_safe

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("http://example.invalid","x")', "\t=1"]


def votes() -> crowdsift.Comparisons:
    names = [*FORMULAS, "plain", "a=b"]
    pairs = [(a, b) for a in names for b in names if a < b]
    first, second = (list(column) for column in zip(*pairs, strict=True))
    workers = [names[i % len(names)] for i in range(len(pairs))]
    return crowdsift.Comparisons.from_arrays(first, second, worker=workers)


def test_labels_are_text_and_numbers_are_numbers(tmp_path):
    fit = crowdsift.fit(votes(), "bt")
    write_excel_safe(fit, tmp_path / "sheets")
    for name, column in (("items", "item"), ("workers", "worker"), ("decisions", "worker")):
        text = (tmp_path / "sheets" / f"{name}.csv").read_text(encoding="utf-8-sig")
        rows = list(csv.DictReader(text.splitlines(keepends=True)))
        labels = {row[column] for row in rows}
        assert labels == {excel_safe(label) for label in [*FORMULAS, "plain", "a=b"]}
        assert not any(label.startswith(("=", "+", "-", "@", "\t")) for label in labels)
    scores = dict(zip(fit.items["item"], fit.items["score"], strict=True))
    sheet = (tmp_path / "sheets" / "items.csv").read_text(encoding="utf-8-sig")
    for row in csv.DictReader(sheet.splitlines(keepends=True)):
        label = row["item"].removeprefix("'")
        assert float(row["score"]) == scores[label]


def test_the_command_writes_them_beside_a_folder_that_can_be_read_again(monkeypatch, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker\n=1+1,b,x\nb,=1+1,@y\n")
    out, sheets = tmp_path / "fit", tmp_path / "sheets"
    words = ["fit", path, "--method", "bt", "--out", out, "--excel-safe", sheets]
    monkeypatch.setattr(sys, "argv", ["crowdsift", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    assert set(crowdsift.load(out).items["item"]) == {"=1+1", "b"}
    assert "'=1+1" in (sheets / "items.csv").read_text(encoding="utf-8-sig")


def test_decimal_commas_and_semicolons(run, tmp_path):
    rows = [*zip("abcabcabc", "bcacabbca", "uvwuvwuvw", strict=True)]
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker\n" + "".join(f"{a},{b};x,{c}\n" for a, b, c in rows))
    folders = tmp_path / "plain", tmp_path / "comma"
    assert run("fit", path, "--excel-safe", folders[0])[0] == 0
    assert run("fit", path, "--excel-safe", folders[1], "--decimal-comma")[0] == 0
    for name in ("items", "workers", "decisions"):
        sheets = [(each / f"{name}.csv").read_text(encoding="utf-8-sig") for each in folders]
        plain = list(csv.DictReader(sheets[0].splitlines()))
        comma = list(csv.DictReader(sheets[1].splitlines(), delimiter=";"))
        assert len(plain) == len(comma) > 0
        for one, two in zip(plain, comma, strict=True):
            assert one.keys() == two.keys()
            for column, cell in one.items():
                expected = cell.replace(".", ",") if is_decimal(cell) else cell
                assert two[column] == expected
    status, _, errors = run("fit", path, "--decimal-comma")
    assert status == 1
    assert "--excel-safe" in errors


def is_decimal(cell: str) -> bool:
    """Say whether a cell is a number with a point."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
