"""The command `crowdsift update`."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdsift.cli import options as opt
from crowdsift.cli.options import READS, AsJson, FitFolder, HideKey, HideWorkers, Quiet, Threads, Writes, fit_files
from crowdsift.cli.reading import reads_votes, say_intake
from crowdsift.cli.terminal import (
    command_line,
    fit_progress,
    print_text,
    say,
    show_table,
    step_progress,
    to_json,
    warn,
    write_csv,
)

if TYPE_CHECKING:
    from crowdsift import Fit
    from crowdsift.io import ReadOptions


@reads_votes("hide_key")
def update(
    directory: opt.FitFolder,
    votes: opt.Votes,
    *,
    out: Annotated[
        Path | None,
        Writes(fit_files, replaces=True, place=lambda given: given["out"] or given["directory"]),
        typer.Option(help="Folder for the new fit; the same folder by default."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Take votes that were taken already, once more.")] = False,
    reading: "ReadOptions",
    gold: opt.Gold = None,
    as_json: opt.AsJson = False,
    quiet: opt.Quiet = False,
) -> None:
    """Continue a saved fit with more votes; the earlier votes stay in it.

    The votes are read as those of the fit were, unless an option says otherwise.
    """
    import crowdsift
    from crowdsift.fitting.refit import read_new
    from crowdsift.io import locked

    given = {name: getattr(reading, name) for name in reading.changed()}
    with ExitStack() as hold:
        if directory.is_dir():  # from reading the fit to writing it, so that no update is lost
            busy = f"{directory}: another run is writing there; waiting for it"
            hold.enter_context(locked(directory, lambda: say(busy)))
        earlier = crowdsift.load(directory)
        new = read_new(earlier, votes, given, again=again, threads=reading.threads)
        say_intake(new, reading, quiet=quiet)
        model = crowdsift.model(earlier.method, **earlier.parameters)
        with fit_progress(f"Updating {model.name}", model, quiet=quiet) as progress:
            result = earlier.update(new, gold=gold, threads=reading.threads, progress=progress, again=again)
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


def _target(given: Mapping[str, Any]) -> Path | None:
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
            help="Fit twice more, for predictions of left-out votes and for the ranking without flagged workers.",
        ),
    ] = False,
    plots: Annotated[
        Path | None,
        Writes(lambda: _PLOTS),
        typer.Option(help="Folder for the figures, each as PDF and as SVG, instead of a page."),
    ] = None,
    hide_workers: HideWorkers = False,
    hide_key: HideKey = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Make the report of a saved fit, without fitting again."""
    import crowdsift
    from crowdsift.report import STAGES, make_report

    found = crowdsift.load(directory)
    if hide_workers or hide_key:
        found = found.hide_workers(hide_key)
    if plots is not None:
        _write_plots(found, plots, quiet)
        return
    out = out or directory / "report.html"
    with step_progress("Report:", STAGES, quiet=quiet) as progress:
        make_report(
            found, title=title, command=command_line(), refit=refit, threads=threads, path=out, progress=progress
        )
    if not quiet:
        say(f"Written: {out}")


_FIGURES = ("leaderboard", "workers", "convergence")
_PLOTS = tuple(f"{name}.{ending}" for name in _FIGURES for ending in ("pdf", "svg"))


def _write_plots(found: "Fit", folder: Path, quiet: bool) -> None:
    """Write the figures that need no further fit, if the method supports them."""
    from crowdsift import plots

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in _PLOTS:
        if name.startswith("workers") and not (found.worker_table["verdict"] != "").any():
            continue
        plots.save(getattr(plots, name.partition(".")[0])(found), folder / name)
        written.append(name)
    if not quiet:
        say(f"Written: {folder}/{', '.join(written)}")


def compare(
    first: FitFolder,
    second: Annotated[Path, READS, typer.Argument(metavar="DIR", help="The folder of the second fit.")],
    plot: Annotated[
        Path | None, Writes(), typer.Option(help="File for a plot of the two scores: .pdf, .svg or .png.")
    ] = None,
    out: Annotated[Path | None, Writes(), typer.Option(help="CSV file for the items of both.")] = None,
    level: opt.Level = 0.9,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare the scores of two saved fits: two sessions, or two panels, on the same items."""
    import crowdsift

    if plot is not None:
        crowdsift.plots.require_ending(plot)
    found = crowdsift.compare(crowdsift.load(first), crowdsift.load(second), level=level)
    if out is not None:
        write_csv(found.items, out)
    if plot is not None:
        crowdsift.plots.save(crowdsift.plots.comparison(found), plot)
    print_text(to_json(found.to_json()) if as_json else f"{found}\n")
    for path in (out, plot):
        if path is not None and not (quiet or as_json):
            say(f"Written: {path}")


Pairs = Annotated[
    str,
    READS,
    typer.Argument(
        metavar="PAIRS",
        help="A file with one pair per row: first and second (or left and right, winner and loser, "
        "chosen and rejected, model_a and model_b), optionally worker, and the column of contexts "
        "where the fit has one; or - for standard input. Of a fit with features of items also a "
        "file with the columns item and those of the features: scores of items without votes.",
    ),
]
Unknown = Annotated[
    str,
    typer.Option(
        help="What to do with items and workers without votes. error: refuse them by name. "
        "prior: such an item has the prior's score, such a worker is one drawn from the crowd."
    ),
]


def predict(
    directory: FitFolder,
    pairs: Pairs,
    unknown: Unknown = "error",
    out: Annotated[Path | None, Writes(), typer.Option(help="CSV file for the predictions.")] = None,
    as_json: AsJson = False,
    hide_key: HideKey = None,
) -> None:
    """Predict votes on pairs, or scores of new items, from a saved fit, without fitting again."""
    import crowdsift
    from crowdsift.io import has_items, read_pair_queries
    from crowdsift.results import labels_of_workers, predictions

    found = crowdsift.load(directory)
    if found.features is not None and has_items(pairs):
        result = found.score(pairs)
    else:
        query = read_pair_queries(pairs, found.labels, found.worker_table["worker"].tolist(), found.by)
        workers = labels_of_workers(found, query.worker, hide_key)
        result = predictions(found, query.first, query.second, workers, unknown=unknown)
    show_table(result, out, as_json=as_json)
