"""What a run writes: tidy tables, figures and a page; and the page of all runs together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdsift._version import __version__
from crowdsift.io.files import write_folder
from crowdsift.paper.names import EARLIER
from crowdsift.paper.text import FOLDER, comma_separated

if TYPE_CHECKING:
    from crowdsift.paper.base import Experiment, Page, Record

Files = dict[str, str | Iterable[bytes]]


def write(folder: Path, experiment: Experiment, records: list[Record]) -> list[str]:
    """Write everything that is shown of a run, all of it or nothing; return the names."""
    page = experiment.page(records)
    files = content(experiment, records, page)
    text = f"# {experiment.title}\n\n{described(experiment, records)}\n{page.text}"
    files[f"{experiment.name}.md"] = text.replace(FOLDER, "")
    write_folder(folder, files)
    return list(files)


def content(experiment: Experiment, records: list[Record], page: Page) -> Files:
    """Tables and figures by file name; seconds, which no run repeats, in a file of their own."""
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
    """Which run this is, in one paragraph."""
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
    """Which revision of the source the fits are of, where they say so (benchmarks.paper does)."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if record.get("revision"):
            found.setdefault(record["revision"], {})[record["method"]] = None
    if len(found) == 1:
        return f" Revision {next(iter(found))}."
    texts = [f"{revision} ({', '.join(methods)})" for revision, methods in found.items()]
    return f" Revisions: {'; '.join(texts)}." if texts else ""


def fits_wanted(experiment: Experiment) -> int:
    """How many fits a finished run has."""
    return sum(len(experiment.methods(setting)) for setting in experiment.settings())


def _flat(record: Record, figures: Mapping[str, Any]) -> dict[str, Any]:
    return {**record["setting"], "method": record["method"], **figures}
