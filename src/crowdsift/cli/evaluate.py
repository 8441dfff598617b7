"""`crowdsift evaluate`."""

from typing import Annotated

import typer

from crowdsift.cli import options as opt
from crowdsift.cli.options import READS, ItemFeaturesFile, ItemTextFile, MissingFeatures
from crowdsift.cli.reading import read_options, read_shown
from crowdsift.cli.terminal import print_text, step_progress, to_json


def evaluate(
    votes: opt.Votes,
    truth: Annotated[
        str | None,
        READS,
        typer.Option(help="File with the columns item and score; without it left-out votes are predicted."),
    ] = None,
    methods: Annotated[str, typer.Option(help="all, or names separated by commas.")] = "all",
    tune: opt.Tune = False,
    dimensions: opt.Dimensions = None,
    format_: opt.FormatName = "auto",
    columns: opt.Columns = None,
    values: opt.Values = None,
    where: opt.Where = None,
    unique: opt.Unique = None,
    encoding: opt.Encoding = None,
    skip_bad: opt.SkipBad = False,
    bad_rows: opt.BadRows = None,
    covariates: opt.Covariates = None,
    features: opt.OldFeatures = None,
    classes: opt.Classes = None,
    item_features: ItemFeaturesFile = None,
    item_text: ItemTextFile = None,
    item_features_missing: MissingFeatures = "error",
    as_json: opt.AsJson = False,
    no_workers: opt.NoWorkers = False,
    sides: opt.Sides = None,
    query: opt.Query = None,
    engine: opt.EngineName = "auto",
    threads: opt.Threads = None,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Compare methods by the true scores of items, or by how they predict left-out votes."""
    import crowdsift
    from crowdsift.lab import chosen_models

    chosen_models(methods, dimensions)
    options = read_options(
        encoding=encoding,
        columns=columns,
        format=format_,
        values=values,
        where=where,
        unique=unique,
        skip_bad=skip_bad,
        bad_rows=bad_rows,
        no_workers=no_workers,
        sides=sides,
        covariates=covariates,
        features=features,
        query=query,
        threads=threads,
    )
    read = read_shown(votes, options, quiet=quiet)
    with step_progress("Fitting", quiet=quiet) as progress:
        records = crowdsift.evaluate(
            read,
            truth,
            methods,
            classes=classes,
            items=item_features,
            item_text=item_text,
            item_features_missing=item_features_missing,
            tune=tune,
            dimensions=dimensions,
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
