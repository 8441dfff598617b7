"""`crowdsift update`."""

from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import AsJson, Columns, FitFolder, Gold, Quiet, Threads, Votes
from crowdsift.cli.reading import read_options, read_shown
from crowdsift.cli.targets import Writes, fit_files
from crowdsift.cli.terminal import fit_progress, print_text, say, to_json, warn


def update(
    directory: FitFolder,
    votes: Votes,
    out: Annotated[
        Path | None,
        Writes(fit_files, replaces=True, place=lambda given: given["out"] or given["directory"]),
        typer.Option(help="Folder for the new fit; the same folder by default."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Take votes that were taken already, once more."),
    ] = False,
    columns: Columns = None,
    gold: Gold = None,
    as_json: AsJson = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Go on from a saved fit with more votes; what was there is kept."""
    import crowdsift

    earlier = crowdsift.load(directory)
    named = bool(earlier.summary.get("workers"))
    options = read_options(columns=columns, by=earlier.by, no_workers=not named, threads=threads)
    new = read_shown(votes, options, quiet=quiet)
    model = crowdsift.model(earlier.method, **earlier.parameters)
    with fit_progress(f"Updating {model.name}", model, quiet=quiet) as progress:
        result = earlier.update(new, gold=gold, threads=threads, progress=progress, again=again)
    result.save(out or directory)
    warn(result.warnings)
    if as_json:
        print_text(to_json(result.to_json()))
    if as_json or quiet:  # the folder has the results
        return
    from crowdsift.report import terminal as console

    console.show_fit(result)
    before, after = float(earlier.summary["votes"]), float(result.summary["votes"])
    say(f"Written: {out or directory} ({before:,.10g} votes before, {after:,.10g} now)")
