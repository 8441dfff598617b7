"""Tables as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FOLDER = "{folder}"  # stands in a page for the way to its figures and tables


def share(value: float) -> str:
    """Return a share or a correlation with four digits, without the zero before the point."""
    return "" if math.isnan(value) else f"{value:.4f}".replace("0.", ".", 1)


def beside(ours: float, theirs: float | None, far: bool | None = None, best: bool = False) -> str:
    """Our figure, the published one and the difference; ‡ marks a difference that is not chance."""
    text = share(ours)
    if best:
        text = f"**{text}**"
    if theirs is None or math.isnan(theirs):
        return text
    difference = f"{round(ours - theirs, 4) + 0.0:+.4f}".replace("0.", ".", 1).replace("-", "−")
    return f"{text} ({share(theirs)}, {difference}{'‡' if far else ''})"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a table; the first columns hold texts, the others figures."""
    marks = ["---" if column < texts else "--:" for column in range(len(head))]
    lines = [head, marks, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def notes(given: Mapping[str, str]) -> str:
    """Write the notes of methods below a table, each sentence once with its methods."""
    sentences: dict[str, list[str]] = {}
    for method, note in given.items():
        for sentence in filter(None, note.split("; ")):
            sentences.setdefault(sentence, []).append(method)
    together: dict[tuple[str, ...], list[str]] = {}
    for sentence, methods in sentences.items():
        together.setdefault(tuple(methods), []).append(sentence)
    everyone = tuple(given)
    lines = [
        f"- {'all' if methods == everyone else ', '.join(methods)}: {'; '.join(sentences)}\n"
        for methods, sentences in sorted(together.items(), key=lambda entry: entry[0] != everyone)
    ]
    return "".join(lines)


def figure_link(name: str, title: str) -> str:
    """Return a figure on a page."""
    return f"![{title}]({FOLDER}{name}.png)\n"


def comma_separated(rows: Sequence[dict[str, Any]]) -> str:
    """CSV with six digits, the columns in the order in which they first appear."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_entry(row.get(name)) for name in columns] for row in rows)
    return file.getvalue()


def _entry(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
