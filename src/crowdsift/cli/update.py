"""`crowdsift update`."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli import options as opt
from crowdsift.cli.reading import read_options, say_intake
from crowdsift.cli.targets import Writes, fit_files
from crowdsift.cli.terminal import fit_progress, print_text, say, to_json, warn


def update(
    directory: opt.FitFolder,
    votes: opt.Votes,
    out: Annotated[
        Path | None,
        Writes(fit_files, replaces=True, place=lambda given: given["out"] or given["directory"]),
        typer.Option(help="Folder for the new fit; the same folder by default."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Take votes that were taken already, once more."),
    ] = False,
    format_: opt.FormatName = "auto", columns: opt.Columns = None, values: opt.Values = None,
    where: opt.Where = None, unique: opt.Unique = None, encoding: opt.Encoding = None,
    skip_bad: opt.SkipBad = False, bad_rows: opt.BadRows = None, sides: opt.Sides = None,
    partitions: opt.Partitions = False, query: opt.Query = None,
    gold: opt.Gold = None, hide_key: opt.HideKey = None,
    as_json: opt.AsJson = False,
    threads: opt.Threads = None,
    quiet: opt.Quiet = False,
) -> None:  # fmt: skip
    """Go on from a saved fit with more votes; what was there is kept.

    The votes are read as those of the fit were, unless an option says otherwise.
    """
    import crowdsift
    from crowdsift.io.files import locked
    from crowdsift.results.further import read_new

    options = read_options(
        encoding=encoding,
        columns=columns, format=format_, values=values, where=where, unique=unique, sides=sides,
        skip_bad=skip_bad, bad_rows=bad_rows, partitions=partitions, query=query, threads=threads,
        hide_workers=hide_key,
    )  # fmt: skip
    given = {name: getattr(options, name) for name in options.changed()}
    with ExitStack() as hold:
        if directory.is_dir():  # from reading the fit to writing it, so that no update is lost
            busy = f"{directory}: another run is writing there; waiting for it"
            hold.enter_context(locked(directory, lambda: say(busy)))
        earlier = crowdsift.load(directory)
        new = read_new(earlier, votes, given, again=again, threads=threads)
        say_intake(new, options, quiet=quiet)
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
