"""The command `crowdsift reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from crowdsift.cli.options import READS, Writes, names
from crowdsift.cli.terminal import on_terminal, say

_RUNS = Path("reproduce-output")
Experiment = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT", help="real, synthetic, spammers or ablations; or results, the page of all of them."
    ),
]


def reproduce(
    experiment: Experiment,
    quick: Annotated[bool, typer.Option("--quick", help="Two seeds and thinned grids, a few minutes.")] = False,
    data: Annotated[Path | None, READS, typer.Option(help="Folder to look for data sets in first.")] = None,
    out: Annotated[
        Path | None, Writes(tuple), typer.Option(help="Folder for tables, figures and the page; it can be resumed.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds; default 10. More can be added later.")] = None,
    tune: Annotated[bool, typer.Option("--tune", help="real: also with penalties chosen by left-out votes.")] = False,
    download: Annotated[
        bool, typer.Option("--download", help="real: fetch the full FaceAge where it is missing.")
    ] = False,
    redo: Annotated[
        str | None, typer.Option(help="Drop and repeat what these methods have done, such as sift,bt; or all.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="How many processes; default all cores.")] = None,
    runs: Annotated[
        Path, READS, typer.Option(help="results: the folder that holds the runs, one folder each.")
    ] = _RUNS,
) -> None:
    """Repeat an experiment of the paper: its tables and figures beside the published ones."""
    from crowdsift.paper import requested

    if experiment == "results":
        from crowdsift.paper.runner import write_results

        target = out or Path("docs/research")
        write_results(runs, target, data, fetch=download)
        say(f"Written: {target}/results.md and {target}/results/")
        return
    options = requested(quick=quick, seeds=seeds, tune=tune, data=data, fetch=download)
    target = out or _RUNS / experiment
    from crowdsift.cli.interrupts import Interrupted
    from crowdsift.paper.runner import reproduce as run
    from crowdsift.paper.runner import shown

    try:
        with on_terminal(lambda: shown(experiment)) as progress:
            files = run(experiment, target, options, jobs=jobs, redo=names(redo), progress=progress)
    except Interrupted:
        say(f"crowdsift: interrupted; what is finished is kept in {target}, and the same command goes on from there")
        raise typer.Exit(130) from None
    say(f"Written to {target}: {', '.join(files)}")
