"""`crowdsift spam`."""

from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import Columns, Query, Seed, Votes, mapping
from crowdsift.cli.targets import Writes
from crowdsift.cli.terminal import say


def spam(
    votes: Votes,
    kind: Annotated[
        str, typer.Option(help="random, left, right, adversarial or combined (a quarter each).")
    ],
    percent: Annotated[float, typer.Option(help="Spammers to add, in percent of the workers.")],
    out: Annotated[Path, Writes(), typer.Option(help="CSV file: left,right,winner,worker.")],
    columns: Columns = None,
    query: Query = None,
    seed: Seed = 0,
) -> None:
    """Add spammers to votes, to see what a method makes of them."""
    import crowdsift
    from crowdsift.lab.spam import write_votes

    comparisons = crowdsift.read(votes, columns=mapping(columns), query=query or "")
    spammed = crowdsift.add_spammers(comparisons, kind, percent, seed)
    write_votes(spammed, out)
    if not comparisons.sides_known:
        say("crowdsift: the votes have no sides; every pair was given one fixed random side")
    added = spammed.n_workers - comparisons.n_workers
    say(f"Written: {out} ({spammed.total_weight:g} votes, {added} spammers added)")
