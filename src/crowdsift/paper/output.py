"""The output of a run: tidy tables, figures and a page, and the format of texts and numbers."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from crowdsift._version import __version__
from crowdsift.io.files import write_folder
from crowdsift.paper.base import EARLIER, Experiment, Page, Record

FOLDER = "{folder}"  # replaced in a page by the path to its figures and tables
Files = dict[str, str | Iterable[bytes]]


def write(folder: Path, experiment: Experiment, records: list[Record]) -> list[str]:
    """Write the output of a run, all of it or nothing; return the names."""
    page = experiment.page(records)
    files = content(experiment, records, page)
    text = f"# {experiment.title}\n\n{described(experiment, records)}\n{page.text}"
    files[f"{experiment.name}.md"] = text.replace(FOLDER, "")
    write_folder(folder, files)
    return list(files)


def content(experiment: Experiment, records: list[Record], page: Page) -> Files:
    """Return tables and figures by file name; seconds, which differ between runs, in a separate file."""
    name = experiment.name
    files: Files = {
        f"{name}.csv": comma_separated([_flat(r, r["figures"]) for r in records]),
        f"{name}-seconds.csv": comma_separated(
            [_flat(r, {"seconds": r["seconds"], "note": r["note"]}) for r in records]
        ),
    }
    for table, rows in page.tables.items():
        files[f"{name}-{table}.csv"] = comma_separated(rows)
    for figure in page.figures:
        files |= figure.files()
    return files


def described(experiment: Experiment, records: list[Record]) -> str:
    """Return a paragraph that identifies the run."""
    settings = experiment.settings()
    wanted = fits_wanted(experiment)
    count = len(experiment.seeds)
    seeds = f", {count} {'seed' if count == 1 else 'seeds'}" if experiment.seeded else ""
    quick = " A quick run, with thinned grids." if experiment.options.quick else ""
    state = "" if len(records) == wanted else f" Only {len(records)} of {wanted} fits are done."
    old = [record["method"] for record in records if record["note"] == EARLIER]
    names = ", ".join(dict.fromkeys(old))
    taken = f" {len(old)} of them are {EARLIER}, not run again: {names}." if old else ""
    taken += _revisions(records)
    return (
        f"crowdsift {__version__}, `crowdsift reproduce {experiment.name}`: {len(settings)} "
        f"settings{seeds}, {len(records)} fits.{quick}{state}{taken}\n"
    )


def _revisions(records: list[Record]) -> str:
    """Return the source revisions of the fits, if they are recorded (benchmarks.paper records them)."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if record.get("revision"):
            found.setdefault(record["revision"], {})[record["method"]] = None
    if len(found) == 1:
        return f" Revision {next(iter(found))}."
    texts = [f"{revision} ({', '.join(methods)})" for revision, methods in found.items()]
    return f" Revisions: {'; '.join(texts)}." if texts else ""


def fits_wanted(experiment: Experiment) -> int:
    """Return how many fits a finished run has."""
    return sum(len(experiment.methods(setting)) for setting in experiment.settings())


def _flat(record: Record, figures: Mapping[str, Any]) -> dict[str, Any]:
    return {**record["setting"], "method": record["method"], **figures}


def share(value: float) -> str:
    """Return a share or a correlation with four digits, without the zero before the decimal point."""
    return "" if math.isnan(value) else f"{value:.4f}".replace("0.", ".", 1)


def beside(ours: float, theirs: float | None, far: bool | None = None, best: bool = False) -> str:
    """Return our figure, the published one and the difference; ‡ marks a difference beyond chance."""
    text = share(ours)
    if best:
        text = f"**{text}**"
    if theirs is None or math.isnan(theirs):
        return text
    difference = f"{round(ours - theirs, 4) + 0.0:+.4f}".replace("0.", ".", 1).replace("-", "−")
    return f"{text} ({share(theirs)}, {difference}{'‡' if far else ''})"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a table; the first columns are texts, the others figures."""
    marks = ["---" if column < texts else "--:" for column in range(len(head))]
    lines = [head, marks, *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def notes(given: Mapping[str, str]) -> str:
    """Return the notes below a table, each sentence once with its methods."""
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
    """Return the Markdown of a figure."""
    return f"![{title}]({FOLDER}{name}.png)\n"


def comma_separated(rows: Sequence[dict[str, Any]]) -> str:
    """Return CSV with six digits, the columns in the order in which they first appear."""
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
