"""The page of all runs: what agrees with the paper, what does not, and where our default stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crowdsift.errors import RequestError
from crowdsift.io.files import write_folder
from crowdsift.paper import EXPERIMENTS, experiment
from crowdsift.paper.output import Files, content, described, fits_wanted
from crowdsift.paper.store import Store, made_with
from crowdsift.paper.summary import MARGIN
from crowdsift.paper.text import FOLDER

if TYPE_CHECKING:
    from crowdsift.paper.base import Experiment, Record

_LARGE = 1_000_000  # bytes of a table that is left out


def write_results(runs: Path, out: Path, data: Path | None = None, *, fetch: bool = False) -> None:
    """Write results.md, and beside it results/ with tables and figures, of the runs in a folder."""
    # `runs`: holds one folder for each experiment, under its name. Those that are missing are named on the page; of
    # those that are not finished it shows what is there, and says so; `data`, `fetch`: as in the runs: a folder to look
    # for data sets in first, and whether to download.
    found = {}
    for name in EXPERIMENTS:
        if (runs / name / "run.json").is_file():
            found[name] = _finished(name, runs / name, data, fetch)
    if not found:
        raise RequestError(
            f"{runs} holds no run; make one with crowdsift reproduce synthetic --out "
            f"{runs / 'synthetic'}, or say with --runs where they are"
        )
    files: Files = {}
    parts = [_head(found)]
    for chosen, records in found.values():
        page = chosen.page(records)
        parts.append(f"## {chosen.title}\n\n{described(chosen, records)}\n{page.text}")
        for name, body in content(chosen, records, page).items():
            large = isinstance(body, str) and len(body) > _LARGE
            if not large and not name.endswith(("-seconds.csv", ".svg")):  # as in the runs
                files[name] = body
    write_folder(out / "results", files)
    write_folder(out, {"results.md": "\n".join(parts).replace(FOLDER, "results/")})


def _finished(name: str, folder: Path, data: Path | None, fetch: bool) -> tuple[Experiment, list[Record]]:
    options = made_with(folder, data, fetch)
    chosen = experiment(name, options)
    with Store(folder, chosen).opened() as store:
        return chosen, store.records()


def _head(found: dict[str, tuple[Experiment, list[Record]]]) -> str:
    lines = ["# Results", ""]
    lines.append(
        "`sift`, the default, against the best of the paper's eight methods, picked after the "
        f"fact in every setting; mean accuracy, a tie is within {MARGIN:g}:"
    )
    lines.append("")
    for chosen, records in found.values():
        known = chosen.standings(records)
        result = [f"{part}: {value}" for part, value in known.items() if value.settings]
        if result:
            wanted = fits_wanted(chosen)
            state = "" if len(records) == wanted else f" ({len(records)} of {wanted} fits done)"
            lines.append(f"- **{chosen.title}**{state} · {'; '.join(result)}")
    missing = [EXPERIMENTS[name].title for name in EXPERIMENTS if name not in found]
    if missing:
        lines += ["", f"Not run: {', '.join(missing)}."]
    lines += ["", ""]
    return "\n".join(lines) + _ABOUT


_ABOUT = """\
This page is written by `crowdsift reproduce results` from the runs in `reproduce-output`; see
[how to make them](reproduce.md). The tables are in `docs/research/results/` as CSV. Unless said
otherwise every method runs at its defaults, and all see the same votes.
"""
