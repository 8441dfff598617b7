"""The leaderboard as Markdown, LaTeX and CSV, on the scale and at the level of the fit."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import crowdsift
from crowdsift.cli import app

HOSTILE = ["a|b", "50% of_x & {y}", "c\\d", "two\nlines"]


@pytest.fixture(scope="module")
def fit() -> crowdsift.Fit:
    votes = crowdsift.Comparisons.from_arrays(
        [HOSTILE[i] for i in (0, 0, 1, 2, 0, 3)], [HOSTILE[i] for i in (1, 2, 2, 3, 3, 1)]
    )
    return crowdsift.fit(votes, "bt", scale="elo", level=0.95)


def test_markdown_has_one_row_an_item(fit: crowdsift.Fit) -> None:
    lines = fit.leaderboard("markdown").splitlines()
    assert lines[6:] == ["", "Elo points, their mean is 1000: only differences mean something."]
    del lines[6:]
    assert len(lines) == 2 + 4
    assert lines[0] == "| rank | item | Elo | 95 % interval | ranks | votes |"
    for line in lines:
        assert line.replace("\\|", "").count("|") == 7
    assert "a\\|b" in lines[2]
    assert f" {fit.items['score'][0]:.0f} " in lines[2]


def test_latex_escapes_what_it_must(fit: crowdsift.Fit) -> None:
    text = fit.leaderboard("latex")
    assert r"50\% of\_x \& \{y\}" in text
    assert r"c\textbackslash{}d" in text
    assert "two lines" in text
    assert text.count(r"\\") == 5
    assert text.startswith(r"\begin{tabular}{rlrrrr}")


def test_csv_keeps_every_digit(fit: crowdsift.Fit) -> None:
    rows = list(csv.DictReader(fit.leaderboard("csv").splitlines(keepends=True)))
    assert [float(row["score"]) for row in rows] == fit.items["score"].tolist()
    assert sorted(row["item"] for row in rows) == sorted(HOSTILE)


def test_contexts_and_groups_have_a_column() -> None:
    given = {"winner": ["a", "b"], "loser": ["b", "a"], "topic": ["x", "y"]}
    fit = crowdsift.fit(given, "bt", by="topic", workers=False)
    assert fit.leaderboard().startswith("| topic | rank | item |")
    islands = crowdsift.Comparisons.from_arrays(["a", "c"], ["b", "d"])
    assert "| component |" in crowdsift.fit(islands, "bt").leaderboard()


@pytest.mark.parametrize("ending", ["md", "tex", "csv"])
def test_the_command_writes_it(tmp_path: Path, ending: str) -> None:
    (tmp_path / "votes.csv").write_text("winner,loser\na,b\nb,c\na,c\n")
    path = tmp_path / f"board.{ending}"
    call = ["fit", str(tmp_path / "votes.csv"), "--no-workers", "--method", "bt"]
    run = CliRunner().invoke(app, [*call, "--table", str(path)])
    assert run.exit_code == 0
    forms = {"md": "markdown", "tex": "latex", "csv": "csv"}
    again = crowdsift.fit(str(tmp_path / "votes.csv"), "bt", workers=False)
    assert path.read_text() == again.leaderboard(forms[ending])


def test_other_endings_are_refused_before_work(tmp_path: Path, fit: crowdsift.Fit) -> None:
    (tmp_path / "votes.csv").write_text("winner,loser\na,b\n")
    wrong = CliRunner().invoke(app, ["fit", str(tmp_path / "votes.csv"), "--no-workers", "--table", "board.doc"])
    assert ".md, .tex or .csv" in str(wrong.exception)
    with pytest.raises(crowdsift.RequestError, match="written as one of"):
        fit.leaderboard("html")


LABELS = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[click](javascript:alert(1))",
    "![x](javascript:alert(1))",
    "<javascript:alert(1)>",
    "`code` *bold* __init__ ~~gone~~ a\\|b $x$ &lt;",
    "red \x1b[31m and \x9b31m and \u202e",
]


def test_labels_are_text_in_markdown_and_in_latex() -> None:
    from html import unescape

    from markdown_it import MarkdownIt

    votes = crowdsift.Comparisons.from_arrays(LABELS[:-1], LABELS[1:])
    fit = crowdsift.fit(votes, "bt")
    page = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    html = page.render(fit.leaderboard("markdown"))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)[1::6]  # the second of six columns
    shown = [label.encode("unicode_escape").decode() for label in LABELS[-1:]]
    assert sorted(map(unescape, cells)) == sorted([*LABELS[:-1], *shown])
    assert not re.search(r"<(?!/?(table|thead|tbody|tr|t[hd])\b)", html)
    for form in ("markdown", "latex"):
        assert not set(fit.leaderboard(form)) & set("\x1b\x9b\u202e")
