"""Options about features of items."""

from typing import Annotated

import typer

from crowdsift.cli.targets import READS

__all__ = ["ItemFeaturesFile", "ItemTextFile", "MissingFeatures"]

ItemFeaturesFile = Annotated[
    list[str] | None,
    READS,
    typer.Option(
        "--item-features",
        help="Features of items, as FILE or FILE:COLUMN,...: columns of numbers or of lists "
        "(embeddings), beside a column item. May be given several times; for sift and bora-map.",
    ),
]
ItemTextFile = Annotated[
    list[str] | None,
    READS,
    typer.Option(
        "--item-text",
        help="Texts of items, as FILE:COLUMN, from which features are made; for sift and bora-map.",
    ),
]
MissingFeatures = Annotated[
    str,
    typer.Option(
        "--item-features-missing",
        help="Items without features: error, mean (they count as average) or drop (votes on them "
        "are left out).",
    ),
]
