"""`crowdsift evaluate`."""

from typing import Annotated

import typer

from crowdsift.cli.options import (
    AsJson,
    Classes,
    Columns,
    EngineName,
    Features,
    NoWorkers,
    Seed,
    Sides,
    Threads,
    Tune,
    Votes,
    mapping,
    names,
)
from crowdsift.cli.terminal import print_text, step_progress, to_json


def evaluate(
    votes: Votes,
    truth: Annotated[
        str | None,
        typer.Option(
            help="File with the columns item and score; without it votes are left out and foretold."
        ),
    ] = None,
    methods: Annotated[str, typer.Option(help="all, or names separated by commas.")] = "all",
    tune: Tune = False,
    columns: Columns = None,
    features: Features = None,
    classes: Classes = None,
    as_json: AsJson = False,
    no_workers: NoWorkers = False,
    sides: Sides = None,
    engine: EngineName = "auto",
    threads: Threads = None,
    seed: Seed = 0,
) -> None:
    """Compare methods by the true scores of items, or by how they foretell left-out votes."""
    import crowdsift

    with step_progress("Fitting") as progress:
        records = crowdsift.evaluate(
            votes,
            truth,
            methods,
            columns=mapping(columns),
            workers=not no_workers,
            sides=sides,
            features=names(features),
            classes=classes,
            tune=tune,
            engine=engine,
            threads=threads,
            seed=seed,
            progress=progress,
        )
    if as_json:
        print_text(to_json(records))
        return
    from crowdsift.report import terminal as console

    console.show_evaluation(records)
