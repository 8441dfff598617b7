"""`crowdsift demo`."""

from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import Seed
from crowdsift.cli.targets import Writes


def demo(
    out: Annotated[
        Path, Writes(tuple), typer.Option(help="Folder for the votes and the fit.")
    ] = Path("demo-output"),
    seed: Seed = 0,
) -> None:
    """Simulate a crowd with spammers, fit it, and show what was found."""
    from crowdsift.lab import demonstration

    demonstration.run(out, seed)
