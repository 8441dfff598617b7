"""`crowdsift export`."""

from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import Columns, NoWorkers, Sides, Threads, Votes, mapping
from crowdsift.cli.terminal import fit_progress, say, warn


def export(
    votes: Votes,
    out: Annotated[Path, typer.Option(help="FILE.jsonl or FILE.parquet.")],
    method: Annotated[str | None, typer.Option(help="sift (default), bora-em, hbtl or bt.")] = None,
    trl: Annotated[
        bool,
        typer.Option(
            "--trl",
            help="Add chosen and rejected, the item more probably better and the other, and tell "
            "probability, margin and soft_label for these.",
        ),
    ] = False,
    texts: Annotated[
        str | None,
        typer.Option(help="What chosen and rejected hold, as ITEMS.csv:COLUMN; default labels."),
    ] = None,
    columns: Columns = None,
    no_workers: NoWorkers = False,
    sides: Sides = None,
    by: Annotated[str, typer.Option(help="A column of contexts, as in fit.")] = "",
    threads: Threads = None,
) -> None:
    """Write every vote with a soft label, margin and weight, to train on."""
    import crowdsift
    from crowdsift.models import DEFAULT

    chosen = crowdsift.model(method or ("bt" if no_workers else DEFAULT))
    with fit_progress(f"Fitting {chosen.name}", chosen) as progress:
        done = crowdsift.export_votes(
            votes,
            out,
            method=chosen.name,
            trl=trl,
            texts=texts,
            columns=mapping(columns),
            workers=not no_workers,
            sides=sides,
            by=by,
            threads=threads,
            progress=progress,
        )
    warn(done.fit.warnings)
    say(f"Written: {out} ({done.rows} votes; added {', '.join(done.columns)})")
