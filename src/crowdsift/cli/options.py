"""Options that several commands share, and what their texts mean."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from crowdsift.errors import RequestError

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
Gold = Annotated[
    str | None,
    typer.Option(
        help="Pairs of known order, columns winner,loser (and that of --by): they settle which end "
        "of the scores is up."
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        help="A column of contexts (topic, prompt, scene): one ranking for each value, with the "
        "same workers."
    ),
]
Tune = Annotated[
    bool, typer.Option("--tune", help="Choose the method's penalty by left-out votes first.")
]
EngineName = Annotated[str, typer.Option("--engine", help="auto, cpu or reference.")]
Threads = Annotated[int | None, typer.Option(help="How many threads; default all cores.")]
Scale = Annotated[
    str,
    typer.Option(
        help="The scale of scores: standard (the method's own), elo, logit or winrate; for a "
        "worker of typical reliability."
    ),
]
Anchors = Annotated[
    list[str] | None,
    typer.Option("--anchor", help="An item and its value on the scale, as GPT-4=1200."),
]
Level = Annotated[float, typer.Option(help="The level of intervals, above 0.5 and below 1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]


def mapping(text: str | None) -> dict[str, str] | None:
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


def names(text: str | None) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",")) if text else ()


def anchors(texts: list[str] | None) -> dict[str, float] | None:
    """Items and their values on a scale; an item may hold an equals sign itself."""
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
            raise RequestError(f"--anchor wants ITEM=VALUE, as GPT-4=1200, not {text!r}")
    return values


def hyper_parameters(texts: list[str]) -> dict[str, Any]:
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
