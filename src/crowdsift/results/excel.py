"""Tables for spreadsheets: labels that these would run as a formula begin with an apostrophe."""

from __future__ import annotations

import csv
import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.io.files import write_folder
from crowdsift.results.tables import Table

if TYPE_CHECKING:
    from crowdsift.results.fit import Fit

FILES = ("items.csv", "workers.csv", "decisions.csv", "overall.csv")

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_MARK = "\ufeff"  # without it spreadsheets do not take the text for UTF-8


def excel_safe(value: Any) -> Any:
    """The value as a spreadsheet shows it: a text that begins like a formula is marked as text.

    Numbers stay numbers, also negative ones.

    Examples
    --------
    >>> from crowdsift.results.excel import excel_safe
    >>> excel_safe("=1+1"), excel_safe("a+b"), excel_safe(-1.5)
    ("'=1+1", 'a+b', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def write_excel_safe(
    fit: Fit, directory: str | os.PathLike[str], *, decimal_comma: bool = False
) -> None:
    """Write items, workers, decisions and overall.csv for a spreadsheet; `load` reads none of them.

    The folder of `Fit.save` keeps labels as they are, or it could not be read again. With
    `decimal_comma` numbers have a comma and columns are separated by semicolons, as spreadsheets
    in most of Europe and South America expect: these take 1.5 for text or for a date.
    """
    tables = {"items": fit.shown_items, "workers": fit.worker_table, "decisions": fit.decisions()}
    if fit.overall_ranking is not None:
        tables["overall"] = fit.overall_ranking.shown_items
    write_folder(
        directory,
        {f"{name}.csv": _MARK + _text(table, decimal_comma) for name, table in tables.items()},
    )


def _text(table: Table, decimal_comma: bool) -> str:
    """Return the table as CSV for a spreadsheet."""
    plain = _safe(table).to_csv()
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


def _safe(table: Table) -> Table:
    return Table({name: _marked(table[name]) for name in table})


def _marked(column: NDArray[Any]) -> NDArray[Any]:
    if column.dtype.kind not in "OUT":
        return column
    return np.array([excel_safe(value) for value in column.tolist()], dtype=object)
