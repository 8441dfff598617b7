"""The command `crowdsift evaluate`."""

from typing import TYPE_CHECKING, Annotated

import typer

from crowdsift.cli import options as opt
from crowdsift.cli.options import READS, ItemFeaturesFile, ItemTextFile, MissingFeatures
from crowdsift.cli.reading import read_shown, reads_votes
from crowdsift.cli.terminal import print_text, step_progress, to_json

if TYPE_CHECKING:
    from crowdsift.io import ReadOptions


@reads_votes("covariates")
def evaluate(
    votes: opt.Votes,
    *,
    truth: Annotated[
        str | None,
        READS,
        typer.Option(help="File with the columns item and score; without it left-out votes are predicted."),
    ] = None,
    methods: Annotated[str, typer.Option(help="all, or names separated by commas.")] = "all",
    tune: opt.Tune = False,
    dimensions: opt.Dimensions = None,
    reading: "ReadOptions",
    classes: opt.Classes = None,
    item_features: ItemFeaturesFile = None,
    item_text: ItemTextFile = None,
    item_features_missing: MissingFeatures = "error",
    as_json: opt.AsJson = False,
    engine: opt.EngineName = "auto",
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Compare methods by the true scores of items, or by how they predict left-out votes."""
    import crowdsift
    from crowdsift.lab import chosen_models

    chosen_models(methods, dimensions)
    read = read_shown(votes, reading, quiet=quiet)
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
            threads=reading.threads,
            seed=seed,
            progress=progress,
        )
    if as_json:
        print_text(to_json(records))
        return
    from crowdsift.report import terminal as console

    console.show_evaluation(records)
