"""Options that several commands share, and the meaning of their texts."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from crowdsift.errors import RequestError

Target = str | os.PathLike[str]
Named = tuple[str, Target]  # an option and its path


@dataclass(frozen=True)
class Reads:
    """Mark a parameter that names files, a database or a saved fit that are read."""


@dataclass(frozen=True)
class Writes:
    """Mark a parameter that names a file, or a folder of files, that is written.

    `files` returns the names of the files that are written into a folder; it is None for a single file. `replaces` says
    whether the folder may also be read, since a fit is loaded before it is replaced. `place` finds the path in all
    values of the command, or None if nothing is written; by default the path is the value of the parameter.
    """

    files: Callable[[], tuple[str, ...]] | None = None
    replaces: bool = False
    place: Callable[[Mapping[str, Any]], Target | None] | None = None


READS = Reads()


def fit_files() -> tuple[str, ...]:
    """Return the names of all files that the folder of a saved fit may contain."""
    from crowdsift.results import FIT_FILES

    return FIT_FILES


def checkpoint_files() -> tuple[str, ...]:
    """Return the name of the file in a folder of --checkpoint."""
    from crowdsift.fitting.start import NAME

    return (NAME,)


_MARKS = (Reads, Writes)


@cache
def declared(command: Callable[..., None]) -> dict[str, Reads | Writes]:
    """Return the marks of a command's parameters by name."""
    hints = get_type_hints(command, include_extras=True)
    marks = {
        name: [each for each in getattr(hint, "__metadata__", ()) if isinstance(each, _MARKS)]
        for name, hint in hints.items()
    }
    return {name: found[0] for name, found in marks.items() if found}


def require_targets(command: Callable[..., None], given: Mapping[str, Any], options: Mapping[str, str]) -> None:
    """Raise an error for outputs that cannot be written, that are also read, or that are written twice."""
    from crowdsift.io import read_files, require_file, require_folder, require_separate
    from crowdsift.results import require_target

    marks = declared(command)
    read: list[Named] = []
    folders: list[Named] = []
    written: list[Named] = []
    replaced: list[Named] = []
    fits: list[Target] = []
    for name, mark in marks.items():
        if isinstance(mark, Reads):
            values = given[name] if isinstance(given[name], list | tuple) else (given[name],)
            for value in values if given[name] is not None else ():
                read += [(options[name], path) for path in read_files(value)]
                folders += [(options[name], value)] if os.path.isdir(value) else []
            continue
        path = given[name] if mark.place is None else mark.place(given)
        if path is None:
            continue
        if mark.files is None:
            require_file(path)
            written.append((options[name], path))
            continue
        require_folder(path)
        fits += [path] if mark.files is fit_files else []
        inside = [(options[name], os.path.join(path, each)) for each in mark.files()]
        (replaced if mark.replaces else written).extend(inside)
    if not written and not replaced:
        return
    require_separate(read, [*replaced, *written])
    if folders:
        names = (*fit_files(), *checkpoint_files())
        saved = [(name, os.path.join(path, each)) for name, path in folders for each in names]
        require_separate(saved, written)
    for path in fits:
        require_target(path)


BAD_ROWS = "bad-rows.csv"  # default of --bad-rows


def _bad_rows(given: Mapping[str, Any]) -> str | None:
    """Return the file for bad rows, which only --skip-bad writes."""
    return (given["bad_rows"] or BAD_ROWS) if given["skip_bad"] else None


def _excel_files() -> tuple[str, ...]:
    from crowdsift.results import EXCEL_FILES

    return EXCEL_FILES


Votes = Annotated[
    str,
    READS,
    typer.Argument(
        metavar="VOTES",
        help="CSV, TSV, JSON, JSONL or Parquet file (also .gz), a folder or a glob in quotes, or - for standard "
        "input. Columns: winner,loser,worker; or left,right,winner,worker; or first,second,outcome,worker; and "
        "optionally weight; or one of the formats of --format, which are recognised by their columns.",
    ),
]
FormatName = Annotated[
    str,
    typer.Option(
        "--format",
        help="auto (recognised by the columns), plain (winner,loser,worker and the like), alpaca-eval, arena-hard, "
        "pandalm, verdicts, comparative-judgement, arena, arena-rank, mtbench, mtbench-pairs, trl, mturk, toloka, "
        "crowd-kit, label-studio, argilla, rankings, ratings, best-worst, arena-n, evalica or pairs.",
    ),
]
Values = Annotated[str | None, typer.Option(help="What answers mean, such as A=left,B=right,C=tie,D=empty.")]
Where = Annotated[
    str | None,
    typer.Option(
        help="A condition in SQL on the columns, such as \"AssignmentStatus != 'Rejected'\"; other rows are left out."
    ),
]
Unique = Annotated[
    str | None, typer.Option(help="Columns that name a row, such as AssignmentId; of equal rows the first counts.")
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Set rows that cannot be used aside, into the file of --bad-rows, instead of stopping at the first.",
    ),
]
BadRows = Annotated[
    str | None,
    Writes(place=_bad_rows),
    typer.Option(help="File for the rows set aside and their reasons; default bad-rows.csv."),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="The encoding of text files of votes, such as cp1252 or utf-16; by default UTF-8, and "
        "Windows-1252 is recognised."
    ),
]
Partitions = Annotated[
    bool, typer.Option("--partitions", help="Folders named NAME=VALUE in the path are columns of their files.")
]
WorkerFromPath = Annotated[
    str | None,
    typer.Option(
        "--worker-from-path",
        metavar="[PATTERN]",
        help="The path of a file names its worker: its folder or its name, whichever differs, or "
        "{worker} in a pattern such as 'verdicts/{worker}/result.json'.",
    ),
]
WorkerColumns = Annotated[
    str | None,
    typer.Option(
        "--worker-columns",
        help="Columns of answers, one for each worker, such as annotator1,annotator2, or what their "
        "names begin with, such as annotator.",
    ),
]
StyleControl = Annotated[
    bool,
    typer.Option(
        "--style-control",
        help="Covariates of style, from conv_metadata of Chatbot Arena: tokens, headers, lists and bold text.",
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        help="Print warnings and errors only: no counts of rows, no progress, and tables only "
        "where no file is written that has the results.",
    ),
]
FitFolder = Annotated[Path, READS, typer.Argument(metavar="DIR", help="Folder of a fit, as written by fit --out.")]
VotesOrFolder = Annotated[
    str,
    READS,
    typer.Argument(metavar="VOTES", help="Votes, as for fit; or the folder of a saved fit, which is not refitted."),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="sift (default), bora-em, bora-map, bt (default without workers), rank-centrality, "
        "crowd-bt, factor-bt, barp, htcv or hbtl."
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A hyper-parameter of the method, such as tolerance=1e-6.")
]
OutFolder = Annotated[
    Path | None,
    Writes(fit_files, replaces=True),
    typer.Option(help="Folder for items.csv, workers.csv, decisions.csv and summary.json."),
]
ReportFile = Annotated[
    Path | None, Writes(), typer.Option(help="File for the report, one HTML page that needs no network.")
]
Start = Annotated[
    Path | None, READS, typer.Option(help="Folder of an earlier fit of a part of these votes, to start from.")
]
Columns = Annotated[
    str | None, typer.Option(help="Other column names, such as winner=chosen,loser=rejected,worker=annotator.")
]
NoWorkers = Annotated[bool, typer.Option("--no-workers", help="The votes have no worker; pool them all.")]
Sides = Annotated[
    bool | None,
    typer.Option(
        "--sides/--no-sides",
        help="Whether first/second (or left/right) is the side on which an item was shown. Default: yes "
        "for left,right columns, no for others.",
    ),
]
Covariates = Annotated[
    str | None,
    typer.Option(
        "--covariates",
        help="Columns that may influence a vote besides quality, such as chars,own. Each is a column in favour of the "
        "first item (numbers, or yes and no), or one column for each item (left_chars, right_chars). org=judge_org "
        "or org=VALUE compares the column org of each item with that. For sift and factor-bt.",
    ),
]
Classes = Annotated[str | None, READS, typer.Option(help="The class of every item: ITEMS.csv:COLUMN; for barp.")]
Gold = Annotated[
    str | None,
    READS,
    typer.Option(
        help="Pairs of known order: a file with winner and loser (and the column of --by). They settle which end is up."
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        help="A column of contexts (topic, prompt, scene). Each value gets a ranking, with the "
        "same workers, and all together get one. language,turn: a ranking for each combination."
    ),
]
Pooling = Annotated[
    str | None,
    typer.Option(
        help="How contexts of --by that share items learn from each other (sift): auto (default): "
        "as much as the votes imply; none: not at all; complete: as if they were one context."
    ),
]
Trusted = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=VALUE",
        help="The panel whose ranking is wanted, such as panel=human; repeat for several values. Votes "
        "of other panels, such as LLM judges, count as far as their biases allow (sift).",
    ),
]
Tune = Annotated[bool, typer.Option("--tune", help="Choose the method's penalty by left-out votes first.")]
EngineName = Annotated[str, typer.Option("--engine", help="auto, cpu, torch, disk or dask.")]
Device = Annotated[str | None, typer.Option(help="The GPU of engine torch: cuda:0, cuda:1, ...; by default the first.")]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Scheduler of a Dask cluster, such as tcp://host:8786, for --engine dask; without one "
        "processes of this machine are started."
    ),
]
Memory = Annotated[
    str | None, typer.Option(help="How much memory to use, such as 4GB; more votes are kept in files in TMPDIR.")
]
Shards = Annotated[
    int | None, typer.Option(help="Number of parts into which --engine dask divides votes; default one per process.")
]
Checkpoint = Annotated[
    Path | None,
    Writes(checkpoint_files, replaces=True),
    typer.Option(
        help="Folder for the state of the fit, written every ten seconds; --start FOLDER continues "
        "from it. With --engine dask it is also written if the cluster is lost."
    ),
]
Query = Annotated[
    str | None,
    typer.Option(
        help="One SELECT that returns votes; VOTES is then postgresql://..., "
        "sqlite:///FILE, duckdb:///FILE, or the path of such a file."
    ),
]
ToTable = Annotated[
    str | None,
    typer.Option(
        help="Write the tables NAME_items and NAME_workers, with --by NAME_overall, into the "
        "database that the votes came from, in one transaction."
    ),
]
Threads = Annotated[int | None, typer.Option(help="How many threads; default all cores.")]
Scale = Annotated[
    str,
    typer.Option(
        help="The scale of scores: standard (the method's own), elo, logit or winrate; for a "
        "worker of typical reliability."
    ),
]
Anchors = Annotated[
    list[str] | None, typer.Option("--anchor", help="An item and its value on the scale, such as GPT-4=1200.")
]
Dimensions = Annotated[
    str | None,
    typer.Option(
        help="How many dimensions sift has: auto (default: one, unless more predict left-out votes better), 1, 2, ..."
    ),
]
Level = Annotated[float, typer.Option(help="The level of intervals, above 0.5 and below 1.")]
Robustness = Annotated[
    bool,
    typer.Option("--robustness", help="Find the fewest votes, and workers, whose removal would change the leader."),
]
Statistics = Annotated[
    bool,
    typer.Option(
        "--statistics", help="Separation and split-half reliability, agreement, misfitting workers and items."
    ),
]
DependentBy = Annotated[
    str | None,
    typer.Option(
        help="A column (prompt, task, session) whose equal values mean that votes depend on each "
        "other: intervals then count groups, not votes."
    ),
]
TableFile = Annotated[
    Path | None, Writes(), typer.Option("--table", help="File for the leaderboard: .md, .tex or .csv.")
]
ExcelSafe = Annotated[
    Path | None,
    Writes(_excel_files),
    typer.Option(
        "--excel-safe",
        metavar="FOLDER",
        help="Folder for items, workers and decisions as CSV for spreadsheets. Labels that a spreadsheet "
        "would run as a formula get an apostrophe in front.",
    ),
]
DecimalComma = Annotated[
    bool,
    typer.Option(
        "--decimal-comma",
        help="With --excel-safe: commas in numbers and semicolons between columns, as spreadsheets "
        "in most of Europe and South America expect.",
    ),
]
MturkReview = Annotated[
    Path | None,
    Writes(),
    typer.Option(
        "--mturk-review", help="File for the Mechanical Turk batch with Approve or Reject filled in, for upload."
    ),
]
HideWorkers = Annotated[
    bool, typer.Option("--hide-workers", help="Write pseudonyms instead of the labels of workers, the same everywhere.")
]
HideKey = Annotated[
    Path | None,
    READS,
    typer.Option(
        "--hide-key",
        help="File with a secret key for the pseudonyms (openssl rand -hex 32 makes one). Without "
        "the key no one can match pseudonyms to a list of labels. Implies --hide-workers.",
    ),
]
TimeColumn = Annotated[
    str | None, typer.Option("--time", help="A column of times; a test then shows whose reliability changes.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]


def mapping(text: str | None, option: str = "--columns", example: str = "winner=chosen") -> dict[str, str] | None:
    """Return pairs from winner=...,loser=...; names with a comma cannot be given here."""
    if text is None:
        return None
    pairs = {}
    for part in text.split(","):
        name, equals, column = part.rpartition("=") if option == "--values" else part.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise RequestError(f"{option} takes NAME=NAME,... such as {example}, not {part!r}")
        pairs[name.strip()] = column.strip()
    return pairs


Price = Annotated[
    str | None,
    typer.Option(
        help="The price of a vote of each panel, such as human=1,llm=0.01; the file of --workers needs a column panel. "
        "next chooses who gives most information per price; in ask --budget is money."
    ),
]


def prices(text: str | None, workers: str | None) -> dict[Any, float] | None:
    """Return the price of every worker."""
    from crowdsift.io import read_prices

    if text is None:
        return None
    if workers in (None, "all"):
        raise RequestError("--price needs --workers FILE with the columns worker and panel")
    given = mapping(text, "--price", "human=1,llm=0.01") or {}
    try:
        found = {name: float(each) for name, each in given.items()}
    except ValueError:
        raise RequestError(f"--price takes numbers, such as human=1,llm=0.01, not {text!r}") from None
    return read_prices(workers, found)


def names(text: str | None) -> tuple[str, ...]:
    """Return names separated by commas."""
    return tuple(name.strip() for name in text.split(",")) if text else ()


def anchors(texts: list[str] | None) -> dict[str, float] | None:
    """Return items and their values on a scale; an item may contain an equals sign."""
    if not texts:
        return None
    values: dict[str, float] = {}
    for text in texts:
        item, equals, value = text.rpartition("=")
        try:
            values[item] = float(value)
        except ValueError:
            equals = ""
        if not equals or not item:
            raise RequestError(f"--anchor takes ITEM=VALUE, such as GPT-4=1200, not {text!r}")
    return values


def hyper_parameters(texts: list[str]) -> dict[str, Any]:
    """Return values of hyper-parameters: texts that look like numbers become numbers."""
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise RequestError(f"--set takes NAME=VALUE, such as alternations=5, not {text!r}")
        try:
            values[name.replace("-", "_")] = json.loads(value)
        except (ValueError, RecursionError):  # not JSON, or beyond what Python reads
            shown = f"{value[:60]}..." if len(value) > 60 else value
            raise RequestError(f"--set {name[:60]}: {shown!r} is not a number") from None
    return values


ItemFeaturesFile = Annotated[
    list[str] | None,
    READS,
    typer.Option(
        "--item-features",
        help="Features of items, such as FILE or FILE:COLUMN,...: columns of numbers or of lists "
        "(embeddings), beside a column item. May be given several times; for sift and bora-map.",
    ),
]
ItemTextFile = Annotated[
    list[str] | None,
    READS,
    typer.Option(
        "--item-text", help="Texts of items, such as FILE:COLUMN, from which features are made; for sift and bora-map."
    ),
]
MissingFeatures = Annotated[
    str,
    typer.Option(
        "--item-features-missing",
        help="Items without features: error, mean (they count as average) or drop (votes on them are left out).",
    ),
]
GoalText = Annotated[str, typer.Option("--goal", help="The goal: first, top-K (such as top-3) or ranking.")]


def trusted_panel(given: list[str] | None, robustness: bool) -> dict[str, list[str]] | None:
    """Return the column and values of --trusted; raise an error for several columns, or --robustness."""
    if not given:
        return None
    if robustness:
        raise RequestError(
            "--robustness does not know the influence of votes on the scores of a "
            "trusted panel; omit --robustness or --trusted"
        )
    pairs = [each.partition("=") for each in given]
    columns = {column for column, _, _ in pairs}
    if len(columns) != 1 or not all(all(pair) for pair in pairs):
        raise RequestError(f"--trusted takes COLUMN=VALUE, such as panel=human, of one column, not {', '.join(given)}")
    return {columns.pop(): [value for _, _, value in pairs]}
