"""How commands read votes: options become one record, and a line reports what was read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from crowdsift.cli import options as opt
from crowdsift.cli.interrupts import raise_if_seen
from crowdsift.cli.terminal import say, warn

if TYPE_CHECKING:
    from crowdsift import Comparisons, Fit
    from crowdsift.fitting import VoteRows
    from crowdsift.io import ReadOptions

# The options of every command that reads votes, with their defaults.
_COMMON: dict[str, tuple[Any, Any]] = {
    "format_": (opt.FormatName, "auto"),
    "columns": (opt.Columns, None),
    "values": (opt.Values, None),
    "where": (opt.Where, None),
    "unique": (opt.Unique, None),
    "encoding": (opt.Encoding, None),
    "skip_bad": (opt.SkipBad, False),
    "bad_rows": (opt.BadRows, None),
    "sides": (opt.Sides, None),
    "no_workers": (opt.NoWorkers, False),
    "worker_from_path": (opt.WorkerFromPath, None),
    "worker_columns": (opt.WorkerColumns, None),
    "partitions": (opt.Partitions, False),
    "query": (opt.Query, None),
    "threads": (opt.Threads, None),
}
# Further options of some commands.
_FURTHER: dict[str, tuple[Any, Any]] = {
    "covariates": (opt.Covariates, None),
    "by": (opt.By, None),
    "memory": (opt.Memory, None),
    "style_control": (opt.StyleControl, False),
    "hide_workers": (opt.HideWorkers, False),
    "hide_key": (opt.HideKey, None),
}
_OPTIONS = _COMMON | _FURTHER


def reads_votes(*further: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of reading to a command, with their record in its parameter `reading`.

    `further` names options that not every command has. An option that the command declares itself is passed to it too.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = {each.name: each for each in signature.parameters.values()}
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in {**_COMMON, **{name: _FURTHER[name] for name in further}}.items()
            if name not in own
        ]
        parameters = [part for each in own.values() for part in (added if each.name == "reading" else (each,))]

        def run(**given: Any) -> None:
            reading = read_options(**{name: value for name, value in given.items() if name in _OPTIONS})
            command(reading=reading, **{name: value for name, value in given.items() if name in own})

        update_wrapper(run, command)
        del run.__wrapped__  # type: ignore[attr-defined]  # or its signature would be that of the command
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": None}
        return run

    return decorate


def read_options(**given: Any) -> ReadOptions:
    """Return the record of reading from the texts of options, without those not given."""
    from crowdsift.io import ReadOptions

    pattern = given.get("worker_from_path")
    known: dict[str, Any] = {
        "columns": opt.mapping(given.get("columns"), "--columns", "winner=chosen"),
        "values": opt.mapping(given.get("values"), "--values", "A=left"),
        "format": given.get("format_") or "auto",
        "workers": not given.get("no_workers", False),
        "worker_from_path": {None: False, "auto": True}.get(pattern, pattern),
        "hide_workers": given.get("hide_key") or given.get("hide_workers"),
        "skip_bad": given.get("skip_bad", False) and (given.get("bad_rows") or opt.BAD_ROWS),
    }
    known |= {name: opt.names(given.get(name)) for name in ("unique", "covariates", "worker_columns")}
    known |= {name: given.get(name) or "" for name in ("where", "by", "memory", "query", "encoding")}
    known |= {name: given.get(name, False) for name in ("partitions", "style_control")}
    return ReadOptions(sides=given.get("sides"), threads=given.get("threads"), **known)


def read_shown(votes: str, options: ReadOptions, *, quiet: bool = False) -> Comparisons:
    """Read votes, and report on standard error how every row was used."""
    from crowdsift.io import read_votes

    comparisons = read_votes(votes, options)
    say_intake(comparisons, options, quiet=quiet)
    return comparisons


def load_or_read(votes: str, options: ReadOptions, *, quiet: bool = False) -> Fit | Comparisons:
    """Load the fit of a folder, or read votes."""
    import crowdsift
    from crowdsift.errors import RequestError
    from crowdsift.io import is_fit_folder

    if not is_fit_folder(votes):
        return read_shown(votes, options, quiet=quiet)
    if changed := options.changed():
        named = ", ".join(f"--{name.replace('_', '-')}" if name != "workers" else "--no-workers" for name in changed)
        raise RequestError(
            f"{named}: {votes} is the folder of a fit, whose votes are read already; name a file of votes"
        )
    return crowdsift.load(votes)


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
    """Read votes as `read_shown` does, with everything that later steps need from their rows."""
    # `group` and `time` are the columns of dependence and of time; `engine`, a name with options, reads the votes if it
    # can, unless `needs_rows` is set; `batch` keeps all rows, to be written back to Mechanical Turk.
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
    """Report on standard error how every row was used."""
    raise_if_seen()
    intake = comparisons.intake
    if intake is None:
        return
    if not quiet:
        say(str(intake))
        if options.skip_bad and intake.reasons:
            say(f"Written: {options.skip_bad} (the rows set aside, with reasons)")
    warn(intake.notes)
