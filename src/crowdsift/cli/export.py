"""The command `crowdsift export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdsift.cli import options as opt
from crowdsift.cli.options import READS, Writes, hyper_parameters
from crowdsift.cli.reading import reads_votes
from crowdsift.cli.terminal import fit_progress, say, warn
from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift.io import ReadOptions

To = Annotated[
    str,
    typer.Option(
        "--to",
        help="plain: all new columns refer to the item that the vote prefers. trl: chosen and "
        "rejected are added, and all new columns refer to these.",
    ),
]
Flip = Annotated[
    str,
    typer.Option(
        help="With --to trl, when to choose the item that the vote did not prefer: never, "
        "sure (it is better with 95 %), always (it is probably better)."
    ),
]


Head = Annotated[
    Path | None,
    Writes(),
    typer.Option(
        help="FILE.safetensors for the linear head of a fit with features of items; VOTES is then "
        "the folder of the fit, and there is no --out."
    ),
]
Target = Annotated[Path | None, Writes(), typer.Option(help="FILE.jsonl, FILE.csv or FILE.parquet.")]
Method = Annotated[str | None, typer.Option(help="sift, bora-em, hbtl or bt. Default: sift; bt without workers.")]
Texts = Annotated[str | None, READS, typer.Option(help="Texts for chosen and rejected, such as ITEMS.csv:COLUMN.")]
Fitted = Annotated[Path | None, READS, typer.Option("--fit", help="Folder of a saved fit to use instead of fitting.")]


@reads_votes("by")
def export(
    votes: opt.VotesOrFolder,
    *,
    out: Target = None,
    method: Method = None,
    settings: opt.Settings = None,
    to: To = "plain",
    flip: Flip = "always",
    keep: Annotated[float, typer.Option(help="Drop rows less probable than this, such as 0.8.")] = 0.0,
    texts: Texts = None,
    fitted: Fitted = None,
    head: Head = None,
    reading: "ReadOptions",
) -> None:
    """Write every vote with a soft label, margin and weight, to train on."""
    import crowdsift
    from crowdsift.io import is_fit_folder

    if out is None:
        _write_head(fitted or Path(votes), head)
        return
    given = hyper_parameters(settings or [])
    name = method or ("sift" if given else None) if reading.workers else method or "bt"
    chosen = None if name is None else crowdsift.model(name, **given)
    saved = is_fit_folder(votes)
    if saved and name is not None:
        refused = "--method or --set" if given or method else "--no-workers"
        raise RequestError(f"{refused}: {votes} is the folder of a fit, which is taken as it is")
    with fit_progress("Fitting", chosen) as progress:
        done = crowdsift.export_votes(
            votes,
            out,
            method=chosen,
            to=to,
            flip=flip,
            keep=keep,
            texts=texts,
            fitted=fitted,
            threads=reading.threads,
            progress=progress,
            **{each: getattr(reading, each) for each in reading.changed()},
        )
    warn(done.fit.warnings)
    say(
        f"Written: {out} ({done.rows:,} {'rows' if saved else 'votes'}; added {', '.join(done.columns)}); "
        f"{done.rows:,} kept, {done.flipped:,} flipped, {done.dropped:,} dropped"
    )


def _write_head(folder: Path, head: Path | None) -> None:
    import crowdsift

    if head is None:
        raise RequestError("say where to write: --out FILE, or --head FILE.safetensors")
    crowdsift.load(folder).save_head(head)
    say(f"Written: {head} (weight, weight_sd, mean, scale and names of the features)")
