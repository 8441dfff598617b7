"""`crowdsift fit`."""

# Annotations are read by typer when the command is registered.
from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import (
    Anchors,
    AsJson,
    By,
    Classes,
    Columns,
    EngineName,
    Features,
    Gold,
    Level,
    NoWorkers,
    Scale,
    Seed,
    Sides,
    Threads,
    Tune,
    Votes,
    anchors,
    hyper_parameters,
    mapping,
    names,
)
from crowdsift.cli.terminal import (
    command_line,
    fit_progress,
    print_text,
    say,
    step_progress,
    to_json,
    warn,
)


def fit(
    votes: Votes,
    method: Annotated[
        str | None,
        typer.Option(
            help="sift (default), bora-em, bora-map, bt, rank-centrality, crowd-bt, factor-bt, "
            "barp, htcv or hbtl."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A hyper-parameter of the method, as alternations=5."),
    ] = None,
    tune: Tune = False,
    columns: Columns = None,
    features: Features = None,
    classes: Classes = None,
    gold: Gold = None,
    by: By = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for items.csv, workers.csv and summary.json."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="File for the report, one HTML page that needs no network."),
    ] = None,
    scale: Scale = "standard",
    anchor: Anchors = None,
    level: Level = 0.9,
    as_json: AsJson = False,
    no_workers: NoWorkers = False,
    sides: Sides = None,
    start: Annotated[
        Path | None,
        typer.Option(help="Folder of an earlier fit of these and fewer votes, to go on from."),
    ] = None,
    engine: EngineName = "auto",
    threads: Threads = None,
    seed: Seed = 0,
) -> None:
    """Fit votes: scores and ranks of items, reliability and verdict of workers."""
    import crowdsift
    from crowdsift.io.files import require_file, require_folder
    from crowdsift.models import DEFAULT

    chosen = crowdsift.model(method or DEFAULT, **hyper_parameters(settings or []))
    if out is not None:
        require_folder(out)
    if report is not None:
        require_file(report)
    with fit_progress(f"Fitting {chosen.name}", chosen) as progress:
        result = crowdsift.fit(
            votes,
            chosen,
            columns=mapping(columns),
            workers=not no_workers,
            sides=sides,
            features=names(features),
            classes=classes,
            by=by or "",
            gold=gold,
            tune=tune,
            start=start,
            scale=scale,
            anchor=anchors(anchor),
            level=level,
            engine=engine,
            threads=threads,
            seed=seed,
            progress=progress,
        )
    text = to_json(result.to_json()) if as_json else ""
    page = None
    if report is not None:
        with step_progress("Testing the fit for the report"):
            page = result.report(command=command_line(), threads=threads)
    if out is not None:
        result.save(out)
    if page is not None and report is not None:
        page.save(report)
    warn(result.warnings)
    if as_json:
        print_text(text)
        return
    from crowdsift.report import terminal as console

    console.show_fit(result)
    if out is not None:
        say(f"Written: {out}/items.csv, workers.csv, summary.json")
    if report is not None:
        say(f"Written: {report}")
