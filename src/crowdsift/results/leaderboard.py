"""The leaderboard for a paper or a page (Markdown, LaTeX, CSV), and tables for spreadsheets."""

import csv
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.io.files import replace_file, require_file, write_folder
from crowdsift.results.fit import Fit
from crowdsift.results.reasons import decisions
from crowdsift.results.scales import level_text, scale_text, score_name
from crowdsift.results.tables import Table
from crowdsift.results.words import plain_text

FORMATS = {".md": "markdown", ".tex": "latex", ".csv": "csv"}
# Labels are plain text: HTML, links and emphasis are escaped.
_MARKDOWN = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "\\`*_[]~|$"})
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def leaderboard(fit: Fit, form: str = "markdown") -> str:
    """Return the leaderboard as text; see `Fit.leaderboard`."""
    if form not in FORMATS.values():
        raise RequestError(f"a leaderboard is written as one of {', '.join(FORMATS.values())}, not {form!r}")
    if form == "csv":
        return _numbers(fit).to_csv()
    heads, rows = _cells(fit)
    if form == "markdown":
        line = scale_text(fit)
        return _markdown(heads, rows) + (f"\n{line}\n" if line else "")
    return _latex(heads, rows)


def write_leaderboard(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write the leaderboard in the form that the file's ending gives."""
    form = form_of(path)
    require_file(path)
    with replace_file(Path(path)) as draft:
        draft.write_text(leaderboard(fit, form), encoding="utf-8", newline="\n")


def form_of(path: str | os.PathLike[str]) -> str:
    """Return Markdown, LaTeX or CSV, by the ending of a name."""
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise RequestError(f"{os.fspath(path)}: a table is written as .md, .tex or .csv, not as {ending!r}")
    return FORMATS[ending]


def _numbers(fit: Fit) -> Table:
    table = fit.shown_items
    names = (
        *fit.context_columns,
        "rank",
        "item",
        "score",
        "lower",
        "upper",
        "rank_lower",
        "rank_upper",
        "comparisons",
        "component",
        "se",
    )
    return Table({name: table[name] for name in names})


def _cells(fit: Fit) -> tuple[list[str], list[list[str]]]:
    by, scale = fit.context_columns, fit.summary.get("scale") or "standard"
    several = fit.summary.get("components", 1) > 1 and not by
    heads = list(by)
    heads += ["rank", "item", score_name(fit), f"{level_text(fit.level)} interval"]
    heads += ["ranks", "votes", *(["component"] if several else [])]
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


EXCEL_FILES = ("items.csv", "workers.csv", "decisions.csv", "overall.csv")

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_MARK = "\ufeff"  # without it spreadsheets do not recognise UTF-8


def excel_safe(value: Any) -> Any:
    """Return a text that begins like a formula with a mark that makes spreadsheets show it as text."""
    # Numbers stay numbers, even negative ones.
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def write_excel_safe(fit: Fit, directory: str | os.PathLike[str], *, decimal_comma: bool = False) -> None:
    """Write items, workers, decisions and overall.csv for a spreadsheet; `load` reads none of them.

    The folder of `Fit.save` keeps labels unchanged, so that it can be loaded. With `decimal_comma` numbers have a comma
    and columns are separated by semicolons, as spreadsheets in most of Europe and South America expect: these read 1.5
    as text or as a date.
    """
    tables = {"items": fit.shown_items, "workers": fit.worker_table, "decisions": decisions(fit)}
    if fit.overall_ranking is not None:
        tables["overall"] = fit.overall_ranking.shown_items
    write_folder(directory, {f"{name}.csv": _MARK + _text(table, decimal_comma) for name, table in tables.items()})


def _text(table: Table, decimal_comma: bool) -> str:
    """Return the table as CSV for a spreadsheet."""
    plain = Table({name: _marked(column) for name, column in table.items()}).to_csv()
    if not decimal_comma:
        return plain
    out = io.StringIO(newline="")
    header, *rows = csv.reader(io.StringIO(plain, newline=""))
    numbers = [table[name].dtype.kind == "f" for name in header]
    writer = csv.writer(out, delimiter=";", lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        cells = zip(row, numbers, strict=True)
        writer.writerow(cell.replace(".", ",") if is_number else cell for cell, is_number in cells)
    return out.getvalue()


def _marked(column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind not in "OUT":
        return column
    return np.array([excel_safe(value) for value in column.tolist()], dtype=object)
