"""`crowdsift predict`."""

from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import AsJson, FitFolder
from crowdsift.cli.targets import READS, Writes
from crowdsift.cli.terminal import print_text, say, to_json

Pairs = Annotated[
    str,
    READS,
    typer.Argument(
        metavar="PAIRS",
        help="A file with a pair a row: first and second (or left and right, winner and loser, "
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
    out: Annotated[
        Path | None, Writes(), typer.Option(help="CSV file for the predictions.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How a worker will vote on pairs, or scores of new items, from a saved fit, no fitting."""
    import crowdsift
    from crowdsift.io.files import replace_file
    from crowdsift.io.item_features import has_items
    from crowdsift.io.items import read_pair_queries
    from crowdsift.results.predict import predictions

    found = crowdsift.load(directory)
    if found.features is not None and has_items(pairs):
        result = found.score(pairs)
    else:
        query = read_pair_queries(
            pairs, found.labels, found.worker_table["worker"].tolist(), found.by
        )
        result = predictions(found, *query, unknown=unknown)
    if out is not None:
        with replace_file(out) as temporary:
            temporary.write_text(result.to_csv(), encoding="utf-8", newline="")
        say(f"Written: {out} ({result.height:,} rows)")
    if as_json:
        print_text(to_json(result.records()))
    elif out is None:
        print_text(result.to_csv())
