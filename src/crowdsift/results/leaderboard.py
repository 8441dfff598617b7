"""The leaderboard as text for a paper or a page: Markdown, LaTeX or CSV."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdsift.errors import RequestError
from crowdsift.io.files import replace_file, require_file
from crowdsift.results.scales import level_text, scale_text, score_name
from crowdsift.results.tables import Table
from crowdsift.results.words import plain_text

if TYPE_CHECKING:
    from crowdsift.results.fit import Fit

FORMATS = {".md": "markdown", ".tex": "latex", ".csv": "csv"}
# Labels are text: neither HTML nor links nor emphasis.
_MARKDOWN = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "\\`*_[]~|$"}
)
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
        "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    }
)  # fmt: skip


def leaderboard(fit: Fit, form: str = "markdown") -> str:
    """The leaderboard as text; see `Fit.leaderboard`."""
    if form not in FORMATS.values():
        raise RequestError(
            f"a leaderboard is written as one of {', '.join(FORMATS.values())}, not {form!r}"
        )
    if form == "csv":
        return _numbers(fit).to_csv()
    heads, rows = _cells(fit)
    if form == "markdown":
        line = scale_text(fit)
        return _markdown(heads, rows) + (f"\n{line}\n" if line else "")
    return _latex(heads, rows)


def write_leaderboard(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write the leaderboard; the ending of the name says how."""
    form = form_of(path)
    require_file(path)
    with replace_file(Path(path)) as draft:
        draft.write_text(leaderboard(fit, form), encoding="utf-8", newline="\n")


def form_of(path: str | os.PathLike[str]) -> str:
    """Markdown, LaTeX or CSV, by the ending of a name.

    Examples
    --------
    >>> from crowdsift.results.leaderboard import form_of
    >>> form_of("board.tex")
    'latex'
    """
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise RequestError(
            f"{os.fspath(path)}: a table is written as .md, .tex or .csv, not as {ending!r}"
        )
    return FORMATS[ending]


def _numbers(fit: Fit) -> Table:
    """The columns of a leaderboard with all their digits."""
    table = fit.shown_items
    names = (*fit.context_columns, "rank", "item", "score", "lower", "upper", "rank_lower",
             "rank_upper", "comparisons", "component")  # fmt: skip
    return Table({name: table[name] for name in names})


def _cells(fit: Fit) -> tuple[list[str], list[list[str]]]:
    """Heads, and rows of text: an interval is one cell."""
    by, scale = fit.context_columns, fit.summary.get("scale") or "standard"
    several = fit.summary.get("components", 1) > 1 and not by
    heads = list(by)
    heads += ["rank", "item", score_name(fit), f"{level_text(fit.level)} interval"]
    heads += ["ranks", "votes", *(["group"] if several else [])]
    digits = 0 if scale == "elo" else 3
    rows = []
    for row in fit.shown_items.records():
        cells = [row[name] for name in by]
        cells += [row["rank"], row["item"], f"{row['score']:z.{digits}f}"]
        cells.append(_span(row["lower"], row["upper"], digits))
        cells.append(_span(row["rank_lower"], row["rank_upper"], 0))
        cells += [f"{row['comparisons']:,g}", *([row["component"]] if several else [])]
        rows.append([_one_line(cell) for cell in cells])
    return [_one_line(head) for head in heads], rows


def _one_line(cell: Any) -> str:
    """Return the text of a cell in one line, with control characters as escapes."""
    return plain_text(" ".join(str(cell).split()))


def _span(low: float | None, high: float | None, digits: int) -> str:
    return "" if low is None or high is None else f"{low:z.{digits}f} to {high:z.{digits}f}"


def _is_text(heads: list[str], column: int) -> bool:
    return column < heads.index("rank") or heads[column] == "item"


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    marks = [":--" if _is_text(heads, i) else "--:" for i in range(len(heads))]
    body = [[cell.translate(_MARKDOWN) for cell in row] for row in (heads, *rows)]
    return "\n".join([line(body[0]), line(marks), *map(line, body[1:])]) + "\n"


def _latex(heads: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str]) -> str:
        return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"

    marks = "".join("l" if _is_text(heads, i) else "r" for i in range(len(heads)))
    body = [r"\begin{tabular}{" + marks + "}", r"\hline", line(heads), r"\hline"]
    return "\n".join([*body, *map(line, rows), r"\hline", r"\end{tabular}"]) + "\n"
