"""`crowdsift report`."""

from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import FitFolder, HideWorkers, Quiet, Threads
from crowdsift.cli.terminal import command_line, say, step_progress


def report(
    directory: FitFolder,
    out: Annotated[
        Path | None,
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
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Make the report of a saved fit, without fitting again."""
    import crowdsift
    from crowdsift.io.files import require_file

    out = out or directory / "report.html"
    if directory.is_dir():  # else it is the folder that is wrong
        require_file(out)
    found = crowdsift.load(directory)
    if hide_workers:
        found = found.hide_workers()
    with step_progress("Making the report", quiet=quiet):
        page = found.report(title=title, command=command_line(), refit=refit, threads=threads)
    page.save(out)
    if not quiet:
        say(f"Written: {out}")
