"""The command line: parses, calls the library, prints; no arithmetic here."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdsift.errors import CrowdsiftError, RequestError

if TYPE_CHECKING:
    from crowdsift.solvers.convergence import Progress

app = typer.Typer(
    name="crowdsift",
    help="Scores for items and a verdict on every worker, from pairwise votes alone.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Votes = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, JSONL or Parquet file (also .gz, also a glob in quotes), or - for "
        "standard input. Columns: winner,loser,worker; or left,right,winner,worker; or "
        "first,second,outcome,worker; and optionally weight."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Other column names, as winner=chosen,loser=rejected,worker=annotator."),
]
NoWorkers = Annotated[
    bool, typer.Option("--no-workers", help="The votes have no worker; pool them all.")
]
Sides = Annotated[
    bool | None,
    typer.Option(
        "--sides/--no-sides",
        help="Whether first/second (or left/right) is where the items were shown. Default: yes "
        "for left,right columns, no for others.",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(help="Further columns that may sway a vote towards the first item, as a,b."),
]
Classes = Annotated[
    str | None,
    typer.Option(help="The class of every item, as ITEMS.csv:COLUMN; for barp."),
]
Tune = Annotated[
    bool, typer.Option("--tune", help="Choose the method's penalty by left-out votes first.")
]
EngineName = Annotated[str, typer.Option("--engine", help="auto, cpu or reference.")]
Threads = Annotated[int | None, typer.Option(help="How many threads; default all cores.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]


def _version(wanted: bool) -> None:
    if wanted:
        from crowdsift._version import __version__

        print(f"crowdsift {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Scores for items and a verdict on every worker, from pairwise votes alone."""


@app.command()
def fit(
    votes: Votes,
    method: Annotated[
        str | None,
        typer.Option(
            help="sift (default), bora-em, bt, rank-centrality, crowd-bt, factor-bt, barp, htcv "
            "or hbtl."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A hyper-parameter of the method, as alternations=5."),
    ] = None,
    tune: Tune = False,
    columns: Columns = None,
    features: Features = None,
    classes: Classes = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for items.csv, workers.csv and summary.json."),
    ] = None,
    as_json: AsJson = False,
    no_workers: NoWorkers = False,
    sides: Sides = None,
    engine: EngineName = "auto",
    threads: Threads = None,
    seed: Seed = 0,
) -> None:
    """Fit votes: scores and ranks of items, reliability and verdict of workers."""
    import crowdsift
    from crowdsift.files import require_folder
    from crowdsift.models import DEFAULT

    chosen = crowdsift.model(method or DEFAULT, **_settings(settings or []))
    if out is not None:
        require_folder(out)
    with _progress(f"Fitting {chosen.name}", chosen) as progress:
        result = crowdsift.fit(
            votes,
            chosen,
            columns=_mapping(columns),
            workers=not no_workers,
            sides=sides,
            features=_names(features),
            classes=classes,
            tune=tune,
            engine=engine,
            threads=threads,
            seed=seed,
            progress=progress,
        )
    text = _json(result.to_json()) if as_json else ""
    if out is not None:
        result.save(out)
    _warn(result.warnings)
    if as_json:
        _print(text)
        return
    from crowdsift import console

    console.show_fit(result)
    if out is not None:
        _say(f"Written: {out}/items.csv, workers.csv, summary.json")


@app.command()
def evaluate(
    votes: Votes,
    truth: Annotated[str, typer.Option(help="File with the columns item and score.")],
    methods: Annotated[str, typer.Option(help="all, or names separated by commas.")] = "all",
    tune: Tune = False,
    columns: Columns = None,
    features: Features = None,
    classes: Classes = None,
    as_json: AsJson = False,
    no_workers: NoWorkers = False,
    sides: Sides = None,
    engine: EngineName = "auto",
    threads: Threads = None,
    seed: Seed = 0,
) -> None:
    """Compare methods on votes about items whose true scores are known."""
    import crowdsift

    with _steps("Fitting") as progress:
        records = crowdsift.evaluate(
            votes,
            truth,
            methods,
            columns=_mapping(columns),
            workers=not no_workers,
            sides=sides,
            features=_names(features),
            classes=classes,
            tune=tune,
            engine=engine,
            threads=threads,
            seed=seed,
            progress=progress,
        )
    if as_json:
        _print(_json(records))
        return
    from crowdsift import console

    console.show_evaluation(records)


@app.command()
def spam(
    votes: Votes,
    kind: Annotated[
        str, typer.Option(help="random, left, right, adversarial or combined (a quarter each).")
    ],
    percent: Annotated[float, typer.Option(help="Spammers to add, in percent of the workers.")],
    out: Annotated[Path, typer.Option(help="CSV file: left,right,winner,worker.")],
    columns: Columns = None,
    seed: Seed = 0,
) -> None:
    """Add spammers to votes, to see what a method makes of them."""
    import crowdsift
    from crowdsift.spam import write_votes

    comparisons = crowdsift.read(votes, columns=_mapping(columns))
    spammed = crowdsift.add_spammers(comparisons, kind, percent, seed)
    write_votes(spammed, out)
    if not comparisons.sides_known:
        _say("crowdsift: the votes know no sides; every pair was given one fixed random side")
    added = spammed.n_workers - comparisons.n_workers
    _say(f"Written: {out} ({spammed.total_weight:g} votes, {added} spammers added)")


@app.command()
def simulate(
    items: Annotated[int, typer.Option(help="How many items.")],
    comparisons: Annotated[int, typer.Option(help="How many votes.")],
    out: Annotated[Path, typer.Option(help="Folder for votes.csv, items.csv, workers.csv.")],
    workers: Annotated[
        int | None, typer.Option(help="How many workers; with --like default as many as there.")
    ] = None,
    reliability: Annotated[
        str | None, typer.Option(help="Draw reliabilities from LOW,HIGH, as -1,1.")
    ] = None,
    model: Annotated[str, typer.Option(help="The model that votes are drawn from.")] = "bora-em",
    like: Annotated[
        str | None, typer.Option(help="Votes whose workers' loads are taken over.")
    ] = None,
    columns: Columns = None,
    seed: Seed = 0,
) -> None:
    """Draw votes from a model with known scores and workers."""
    import crowdsift

    loads = None
    if like is not None:
        loads = crowdsift.read(like, columns=_mapping(columns)).worker_loads()
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
    )
    drawn.write(out)
    _say(f"Written: {out}/votes.csv, items.csv, workers.csv ({comparisons} votes)")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the votes and the fit.")] = Path(
        "demo-output"
    ),
    seed: Seed = 0,
) -> None:
    """Simulate a crowd with spammers, fit it, and show what was found."""
    from crowdsift import demonstration

    demonstration.run(out, seed)


class Interrupted(BaseException):
    """Ctrl-C, under a name that no library in between catches and turns into its own."""


def _interrupt(_signal: int, _frame: object) -> None:
    raise Interrupted


def main() -> None:
    """Entry point: errors of ours become one line and status 1, never a traceback."""
    signal.signal(signal.SIGINT, _interrupt)
    warnings.simplefilter("ignore")  # what the library warns of stands in the results, shown here
    try:
        app()
    except CrowdsiftError as error:
        _fail(str(error))
    except Interrupted:
        _say("crowdsift: interrupted; nothing was written")
        sys.exit(130)
    except OSError as error:  # our output cannot be written; `head` closes the pipe early
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        _fail(f"cannot write the output: {error.strerror or error}")
    except MemoryError:
        _fail("not enough memory for these votes")
    except Exception as error:
        if os.environ.get("CROWDSIFT_DEBUG"):
            raise
        _fail(
            f"internal error ({type(error).__name__}: {error}); this is a fault of crowdsift. "
            "Set CROWDSIFT_DEBUG=1 to see where it happened"
        )


def _fail(message: str) -> None:
    _say(f"crowdsift: error: {message}")
    sys.exit(1)


def _say(message: str) -> None:
    print(message, file=sys.stderr)


def _warn(notes: tuple[str, ...]) -> None:
    for note in notes:
        _say(f"crowdsift: warning: {note}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _print(text: str) -> None:
    """Print in UTF-8 whatever the terminal's own encoding is."""
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(text)


def _mapping(text: str | None) -> dict[str, str] | None:
    """Pairs of winner=...,loser=...; a name with a comma cannot be given here."""
    if text is None:
        return None
    pairs = {}
    for part in text.split(","):
        name, equals, column = part.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise RequestError(f"--columns wants OURS=YOURS,... as winner=chosen, not {part!r}")
        pairs[name.strip()] = column.strip()
    return pairs


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def _settings(texts: list[str]) -> dict[str, Any]:
    """Values of hyper-parameters: numbers where they look like numbers."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise RequestError(f"--set wants NAME=VALUE, as alternations=5, not {text!r}")
        try:
            values[name.replace("-", "_")] = json.loads(value)
        except json.JSONDecodeError:
            raise RequestError(f"--set {text}: {value!r} is not a number") from None
    return values


def _interval(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise RequestError(f"--reliability wants LOW,HIGH, as -1,1, not {text!r}") from None
    return low, high


@contextmanager
def _progress(title: str, model: Any) -> Iterator[Progress | None]:
    """A line on standard error that says how far a fit is; only on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from crowdsift import console

    with console.fit_progress(title, getattr(model, "tolerance", None)) as progress:
        yield progress


@contextmanager
def _steps(title: str) -> Iterator[Callable[[str], None] | None]:
    """A line on standard error that names what is being done; only on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from crowdsift import console

    with console.step_progress(title) as progress:
        yield progress
