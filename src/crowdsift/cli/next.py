"""The command `crowdsift next`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdsift.cli import options as opt
from crowdsift.cli.options import READS, Writes
from crowdsift.cli.reading import load_or_read, reads_votes
from crowdsift.cli.terminal import say, show_table
from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift.io import ReadOptions

Askable = Annotated[
    str | None,
    READS,
    typer.Option(
        help="Who may be asked: a file with the column worker and optionally capacity (the "
        "most questions for each), or all. Without it anyone may answer."
    ),
]
Items = Annotated[str | None, READS, typer.Option(help="A file with the column item: items that may have no vote yet.")]
KeepIslands = Annotated[
    bool, typer.Option("--keep-islands", help="Ask only within components; by default components are connected first.")
]
Reask = Annotated[
    bool,
    typer.Option(
        "--reask",
        help="Choose pairs that need a second opinion: judged pairs whose order, or whose worker, is least certain.",
    ),
]


@reads_votes()
def next_(
    votes: opt.VotesOrFolder,
    *,
    pairs: Annotated[int, typer.Option(help="How many comparisons.", min=1)] = 10,
    workers: Askable = None,
    items: Items = None,
    keep_islands: KeepIslands = False,
    reask: Reask = False,
    goal: opt.GoalText = "ranking",
    set_size: Annotated[int, typer.Option(help="Items to show at once, for rankings and the best of several.")] = 2,
    price: opt.Price = None,
    out: Annotated[Path | None, Writes(), typer.Option(help="CSV file for the questions.")] = None,
    reading: "ReadOptions",
    as_json: opt.AsJson = False,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Choose the comparisons worth asking next, and whom to ask."""
    from crowdsift import next_pairs, second_opinions
    from crowdsift.io import read_capacities, read_labels

    given = load_or_read(votes, reading, quiet=quiet)
    if reask and set_size != 2:
        raise RequestError("--reask asks for pairs; leave --set-size out")
    if reask:
        queries = second_opinions(given, pairs, threads=reading.threads)
    else:
        queries = next_pairs(
            given,
            pairs,
            workers=workers if workers in (None, "all") else read_capacities(workers),
            items=read_labels(items) if items else (),
            islands="keep" if keep_islands else "connect",
            goal=goal,
            prices=opt.prices(price, workers),
            set_size=set_size,
            seed=seed,
            threads=reading.threads,
        )
    if queries.height < pairs:
        say(f"crowdsift: only {queries.height} of {pairs}: there is no more to ask")
    show_table(queries, out, as_json=as_json, quiet=quiet)
