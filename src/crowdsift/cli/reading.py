"""How commands read votes: options become one record, and a line says what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdsift.cli.interrupts import raise_if_seen
from crowdsift.cli.options import BAD_ROWS, mapping, names
from crowdsift.cli.terminal import say, warn

if TYPE_CHECKING:
    from crowdsift import Comparisons
    from crowdsift.fitting import VoteRows
    from crowdsift.io import ReadOptions


def read_options(**given: Any) -> ReadOptions:
    """Return the record of reading from the texts of options, those not given left out."""
    from crowdsift.errors import RequestError
    from crowdsift.io import ReadOptions

    if given.get("features"):
        raise RequestError("--features is now --covariates, for every method that takes some")
    known: dict[str, Any] = {
        "columns": mapping(given.get("columns"), "--columns", "winner=chosen"),
        "values": mapping(given.get("values"), "--values", "A=left"),
        "format": given.get("format") or "auto",
        "where": given.get("where") or "",
        "unique": names(given.get("unique")),
        "workers": not given.get("no_workers", False),
        "sides": given.get("sides"),
        "covariates": names(given.get("covariates")),
        "by": given.get("by") or "",
        "memory": given.get("memory") or "",
        "query": given.get("query") or "",
        "encoding": given.get("encoding") or "",
        "partitions": given.get("partitions", False),
        "worker_from_path": {None: False, "auto": True}.get(path := given.get("worker_from_path"), path),
        "worker_columns": names(given.get("worker_columns")),
        "style_control": given.get("style_control", False),
        "threads": given.get("threads"),
        "hide_workers": given.get("hide_workers"),
    }
    if given.get("skip_bad"):
        known["skip_bad"] = given.get("bad_rows") or BAD_ROWS
    return ReadOptions(**known)


def read_shown(votes: str, options: ReadOptions, *, quiet: bool = False) -> Comparisons:
    """Read votes, and say on standard error what became of every row."""
    from crowdsift.io import read_votes

    comparisons = read_votes(votes, options)
    say_intake(comparisons, options, quiet=quiet)
    return comparisons


def read_for_fit(
    votes: str,
    options: ReadOptions,
    group: str | None,
    time: str | None,
    engine: tuple[str, dict[str, Any]],
    *,
    needs_rows: bool,
    batch: bool = False,
    quiet: bool = False,
) -> tuple[Comparisons, VoteRows | None]:
    """Read votes as `read_shown` does, with what later steps need of their rows."""
    # `group`, `time`: the columns that say which votes go together, and when each was given; `engine`, `needs_rows`: a
    # name and options; the engine reads the votes where it can, unless rows are needed here; `batch`: whether all rows
    # are kept, to be written back to Mechanical Turk.
    from crowdsift.fitting import Resources, read_rows, votes_for_fit

    comparisons: Comparisons
    rows: VoteRows | None
    if batch:
        comparisons, rows = read_rows(votes, options, group=group, time=time, batch=True)
    else:
        comparisons, rows = votes_for_fit(votes, options, group, time, Resources(*engine), needs_rows)
    say_intake(comparisons, options, quiet=quiet)
    return comparisons, rows


def say_intake(comparisons: Comparisons, options: ReadOptions, *, quiet: bool) -> None:
    """Say on standard error what became of every row."""
    raise_if_seen()
    intake = comparisons.intake
    if intake is None:
        return
    if not quiet:
        say(str(intake))
        if options.skip_bad and intake.reasons:
            say(f"Written: {options.skip_bad} (the rows set aside, with reasons)")
    warn(intake.notes)
