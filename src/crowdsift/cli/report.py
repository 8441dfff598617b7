"""`crowdsift report`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from crowdsift.cli.options import FitFolder, HideKey, HideWorkers, Quiet, Threads
from crowdsift.cli.targets import Writes
from crowdsift.cli.terminal import command_line, say, step_progress


def _target(given: Mapping[str, Any]) -> Path | None:
    """Return the file of the report; without a folder it is the folder that is refused."""
    directory: Path = given["directory"]
    return (given["out"] or directory / "report.html") if directory.is_dir() else None


def report(
    directory: FitFolder,
    out: Annotated[
        Path | None,
        Writes(place=_target),
        typer.Option(help="File for the report, one HTML page; default report.html in the folder."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the votes are about.")] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit",
            help="Fit twice more, for predictions of left-out votes and for the ranking without "
            "flagged workers.",
        ),
    ] = False,
    hide_workers: HideWorkers = False,
    hide_key: HideKey = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Make the report of a saved fit, without fitting again."""
    import crowdsift

    out = out or directory / "report.html"
    found = crowdsift.load(directory)
    if hide_workers or hide_key:
        found = found.hide_workers(hide_key)
    with step_progress("Making the report", quiet=quiet):
        page = found.report(title=title, command=command_line(), refit=refit, threads=threads)
    page.save(out)
    if not quiet:
        say(f"Written: {out}")
