"""The command `crowdsift simulate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdsift.cli.options import READS, Seed, Votes, Writes
from crowdsift.cli.reading import reads_votes
from crowdsift.cli.terminal import say
from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift.io import ReadOptions


@reads_votes()
def simulate(
    *,
    items: Annotated[int, typer.Option(help="How many items.")],
    comparisons: Annotated[int, typer.Option(help="How many votes.")],
    out: Annotated[
        Path,
        Writes(lambda: ("votes.csv", "items.csv", "workers.csv")),
        typer.Option(help="Folder for votes.csv, items.csv, workers.csv."),
    ],
    workers: Annotated[int | None, typer.Option(help="How many workers; with --like default as many as there.")] = None,
    reliability: Annotated[str | None, typer.Option(help="Draw reliabilities from LOW,HIGH, as -1,1.")] = None,
    model: Annotated[
        str,
        typer.Option(
            help="The model that votes are drawn from: bora-em, bt, rank-centrality, hbtl, htcv, "
            "crowd-bt, factor-bt or barp."
        ),
    ] = "bora-em",
    like: Annotated[
        str | None, READS, typer.Option(help="A file of votes: each worker votes as often as one in it.")
    ] = None,
    set_size: Annotated[int, typer.Option(help="Items to show at once; answers to more than two are rankings.")] = 2,
    reading: "ReadOptions",
    seed: Seed = 0,
) -> None:
    """Draw votes from a model with known scores and workers."""
    import crowdsift
    from crowdsift.io import read_votes

    loads = None
    if like is not None:
        votes = read_votes(like, reading)
        loads = votes.worker_loads()
        workers = len(loads) if workers is None else workers
    if workers is None:
        raise RequestError("say how many workers with --workers, or take them --like VOTES")
    drawn = crowdsift.simulate(
        items,
        workers,
        comparisons,
        reliability=None if reliability is None else _interval(reliability),
        model=model,
        loads=loads,
        seed=seed,
        set_size=set_size,
    )
    drawn.write(out)
    say(f"Written: {out}/votes.csv, items.csv, workers.csv ({comparisons} {'votes' if set_size == 2 else 'rankings'})")


def _interval(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise RequestError(f"--reliability takes LOW,HIGH, such as -1,1, not {text!r}") from None
    return low, high


@reads_votes()
def spam(
    votes: Votes,
    *,
    kind: Annotated[str, typer.Option(help="random, left, right, adversarial or combined (a quarter each).")],
    percent: Annotated[float, typer.Option(help="Spammers to add, in percent of the workers.")],
    out: Annotated[
        Path, Writes(), typer.Option(help="CSV file: left,right,winner,worker; for rankings worker,task,item,rank.")
    ],
    reading: "ReadOptions",
    seed: Seed = 0,
) -> None:
    """Add spammers to votes, to test how a method copes with them."""
    import crowdsift
    from crowdsift.io import read_votes
    from crowdsift.lab import write_votes

    comparisons = read_votes(votes, reading)
    spammed = crowdsift.add_spammers(comparisons, kind, percent, seed)
    write_votes(spammed, out)
    if spammed.sides_known and not comparisons.sides_known:
        say("crowdsift: the votes have no sides; every pair was given one fixed random side")
    added = spammed.n_workers - comparisons.n_workers
    say(f"Written: {out} ({spammed.total_weight:g} votes, {added} spammers added)")


def demo(
    out: Annotated[Path, Writes(tuple), typer.Option(help="Folder for the votes and the fit.")] = Path("demo-output"),
    seed: Seed = 0,
) -> None:
    """Simulate a crowd with spammers, fit it, and show what was found."""
    from crowdsift.lab import demonstrate

    demonstrate(out, seed)
