"""`crowdsift next`."""

from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import AsJson, Columns, Seed, Threads, Votes, mapping
from crowdsift.cli.terminal import print_text, say, to_json


def next_(
    votes: Votes,
    pairs: Annotated[int, typer.Option(help="How many comparisons.", min=1)] = 10,
    workers: Annotated[
        str | None,
        typer.Option(
            help="Who may be asked: a file with the column worker and optionally capacity (the "
            "most questions for each), or all. Without it anyone may answer."
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(help="A file with the column item: items that may have no vote yet."),
    ] = None,
    keep_islands: Annotated[
        bool,
        typer.Option(
            "--keep-islands",
            help="Ask only within groups of items that are compared already; by default groups "
            "are connected first.",
        ),
    ] = False,
    out: Annotated[Path | None, typer.Option(help="CSV file for the questions.")] = None,
    columns: Columns = None,
    as_json: AsJson = False,
    threads: Threads = None,
    seed: Seed = 0,
) -> None:
    """Choose the comparisons worth asking next, and whom to ask."""
    from crowdsift.active.select import next_pairs
    from crowdsift.io.candidates import read_capacities, read_labels
    from crowdsift.io.files import replace_file

    asked = next_pairs(
        votes,
        pairs,
        workers=workers if workers in (None, "all") else read_capacities(workers),
        items=read_labels(items) if items else (),
        islands="keep" if keep_islands else "connect",
        columns=mapping(columns),
        seed=seed,
        threads=threads,
    )
    if asked.height < pairs:
        say(f"crowdsift: only {asked.height} of {pairs}: the workers may be asked no more")
    if out is not None:
        with replace_file(out) as temporary:
            temporary.write_text(asked.to_csv(), encoding="utf-8", newline="")
        say(f"Written: {out}")
    if as_json:
        print_text(to_json(asked.records()))
    elif out is None:
        print_text(asked.to_csv())
