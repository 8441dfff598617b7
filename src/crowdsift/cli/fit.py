"""`crowdsift fit`."""

# Annotations are read by typer when the command is registered.
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from crowdsift.cli import options as opt
from crowdsift.cli.interrupts import raise_if_seen
from crowdsift.cli.item_options import ItemFeaturesFile, ItemTextFile, MissingFeatures
from crowdsift.cli.options import anchors, hyper_parameters
from crowdsift.cli.reading import read_for_fit, read_options
from crowdsift.cli.terminal import (
    command_line,
    fit_progress,
    log_to_stderr,
    print_text,
    say,
    step_progress,
    to_json,
    warn,
)
from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift import Fit

Shown = Literal["json", "tables", "nothing"]


def fit(
    votes: opt.Votes,
    method: opt.Method = None, settings: opt.Settings = None, tune: opt.Tune = False,
    format_: opt.FormatName = "auto", columns: opt.Columns = None, values: opt.Values = None,
    where: opt.Where = None, unique: opt.Unique = None,
    skip_bad: opt.SkipBad = False, bad_rows: opt.BadRows = None,
    covariates: opt.Covariates = None, features: opt.OldFeatures = None,
    classes: opt.Classes = None,
    item_features: ItemFeaturesFile = None, item_text: ItemTextFile = None,
    item_features_missing: MissingFeatures = "error", gold: opt.Gold = None, by: opt.By = None,
    out: opt.OutFolder = None, report: opt.ReportFile = None, table: opt.TableFile = None,
    scale: opt.Scale = "standard", anchor: opt.Anchors = None, level: opt.Level = 0.9,
    dependent_by: opt.DependentBy = None, time: opt.TimeColumn = None,
    robustness: opt.Robustness = False, statistics: opt.Statistics = False,
    mturk_review: opt.MturkReview = None, excel_safe: opt.ExcelSafe = None,
    as_json: opt.AsJson = False,
    no_workers: opt.NoWorkers = False, sides: opt.Sides = None,
    hide_workers: opt.HideWorkers = False,
    partitions: opt.Partitions = False, query: opt.Query = None, to_table: opt.ToTable = None,
    start: opt.Start = None, checkpoint: opt.Checkpoint = None,
    engine: opt.EngineName = "auto", device: opt.Device = None, scheduler: opt.Scheduler = None,
    shards: opt.Shards = None, memory: opt.Memory = None,
    threads: opt.Threads = None, seed: opt.Seed = 0, quiet: opt.Quiet = False,
) -> None:  # fmt: skip
    """Fit votes: scores and ranks of items, reliability and verdict of workers."""
    import crowdsift

    given = hyper_parameters(settings or [])
    model = None if method is None else crowdsift.model(method, **given)
    _require_targets(out, report, table, excel_safe, votes, to_table)
    options = read_options(
        columns=columns, format=format_, values=values, where=where, unique=unique, by=by,
        skip_bad=skip_bad, bad_rows=bad_rows, no_workers=no_workers, sides=sides, memory=memory,
        covariates=covariates, features=features, query=query, threads=threads,
        partitions=partitions,
    )  # fmt: skip
    resources: dict[str, Any] = {"scheduler": scheduler, "shards": shards, "device": device,
                                 "checkpoint": checkpoint}  # fmt: skip
    needs_rows = bool(classes or gold or tune) or not (model is None or model.by_worker)
    with step_progress("Reading the votes", quiet=quiet):
        read, rows = read_for_fit(votes, options, dependent_by, time, (engine, resources),
                                  needs_rows=needs_rows, quiet=quiet)  # fmt: skip
    model = model or crowdsift.model("sift" if read.has_workers else "bt", **given)
    _refuse_unused(model, covariates, classes, tune, item_features or item_text)
    title = f"Fitting {model.name}"
    with log_to_stderr(quiet), fit_progress(title, model, quiet=quiet) as progress:
        result = crowdsift.fit(
            read, model, classes=classes, items=item_features, item_text=item_text,
            item_features_missing=item_features_missing, gold=gold, tune=tune, start=start,
            scale=scale, anchor=anchors(anchor), level=level, dependent_by=rows, engine=engine,
            threads=threads, seed=seed, progress=progress,
            engine_options=resources, memory=memory or "",
        )  # fmt: skip
    result = _checked(result, robustness, statistics, gold, threads, quiet)
    result = _for_workers(result, votes, mturk_review, hide_workers, excel_safe, quiet)
    shown = _shown(as_json, quiet, out, report, table, to_table, mturk_review, excel_safe)
    _show(result, out, report, table, (votes, to_table), shown=shown, threads=threads, quiet=quiet)


def _shown(as_json: bool, quiet: bool, *written: Path | str | None) -> "Shown":
    """What is printed; `--quiet` leaves out tables that a file has."""
    return "json" if as_json else "nothing" if quiet and any(written) else "tables"


def _refuse_unused(
    model: Any, covariates: str | None, classes: str | None, tune: bool, items: list[str] | None
) -> None:
    """Refuse options that the method would ignore; the votes are read already."""
    from crowdsift.models.unused import refuse_unused

    refuse_unused(
        model,
        True,
        covariates=bool(covariates),
        classes=bool(classes),
        tune=tune,
        items=bool(items),
    )


def _checked(
    result: "Fit",
    robustness: bool,
    statistics: bool,
    gold: str | None,
    threads: int | None,
    quiet: bool,
) -> "Fit":
    """The fit with robustness and statistics where these options are given."""
    if robustness:
        with step_progress("Searching for votes that the leader hangs on", quiet=quiet):
            result = result.with_robustness(gold=gold, threads=threads)
    if statistics:
        with step_progress("Halving the workers for statistics", quiet=quiet):
            result = result.with_statistics(halves=5, gold=gold, threads=threads)
    raise_if_seen()
    return result


def _for_workers(
    result: "Fit",
    votes: str,
    review: Path | None,
    hide_workers: bool,
    excel_safe: Path | None,
    quiet: bool,
) -> "Fit":
    """The fit with times of work where they are known; review and sheets; pseudonyms."""
    from crowdsift.io.mturk_review import median_seconds, write_review

    if result.worker_table.height and (seconds := median_seconds(votes)):
        result = result.with_seconds(seconds)
    if review is not None:
        decided = result.decisions()
        rows = zip(decided["worker"], decided["suggestion"], decided["reason"], strict=True)
        done = write_review(votes, {who: (what, why) for who, what, why in rows}, review)
        if not quiet:
            found = ", ".join(f"{count} {word}" for word, count in done.items())
            say(f"Written: {review} ({found})")
    result = result.hide_workers() if hide_workers else result
    if excel_safe is not None:
        from crowdsift.results.excel import write_excel_safe

        write_excel_safe(result, excel_safe)
        if not quiet:
            say(f"Written: {excel_safe}/items.csv, workers.csv, decisions.csv for spreadsheets")
    return result


def _require_targets(
    out: Path | None,
    report: Path | None,
    table: Path | None,
    excel_safe: Path | None,
    votes: str,
    to_table: str | None,
) -> None:
    """Refuse what cannot be written before any work is done."""
    from crowdsift.io.files import require_file, require_folder, require_other

    require_other(votes, report, table)
    if out is not None:
        from crowdsift.results.store import require_target

        require_folder(out)
        require_target(out, votes)
        if excel_safe is not None and out.resolve() == excel_safe.resolve():
            raise RequestError(f"--out and --excel-safe are both {out}; give each its own folder")
    if report is not None:
        require_file(report)
    if to_table is not None:
        from crowdsift.io.database_tables import require_table

        require_table(votes, to_table)
    if table is not None:
        from crowdsift.results.leaderboard import form_of

        form_of(table)
        require_file(table)


def _show(
    result: "Fit",
    out: Path | None,
    report: Path | None,
    table: Path | None,
    target: tuple[str, str | None],
    *,
    shown: Shown,
    threads: int | None,
    quiet: bool,
) -> None:
    """Write the files, then print the tables, the JSON or nothing."""
    text = to_json(result.to_json()) if shown == "json" else ""
    page: Any = None
    if report is not None:
        with step_progress("Testing the fit for the report", quiet=quiet):
            page = result.report(command=command_line(), threads=threads)
    if out is not None:
        result.save(out)
    if page is not None:
        page.save(report)
    if table is not None:
        from crowdsift.results.leaderboard import write_leaderboard

        write_leaderboard(result, table)
    written = _to_database(result, *target)
    warn(result.warnings)
    if shown == "json":
        print_text(text)
        return
    if shown == "tables":
        from crowdsift.report import terminal as console

        console.show_fit(result)
    if out is not None:
        tables = ("items", "workers", "decisions", "overall", "coefficients")
        there = [f"{name}.csv" for name in tables if (out / f"{name}.csv").exists()]
        written += [f"{out}/{', '.join([*there, 'summary.json'])}"]
    written += [str(path) for path in (report, table) if path is not None]
    for each in written if not quiet else []:
        say(f"Written: {each}")


def _to_database(result: "Fit", votes: str, name: str | None) -> list[str]:
    """Write the tables into the database that the votes came from; what was written."""
    if name is None:
        return []
    from crowdsift.io.database_tables import write_tables

    tables = {"items": result.shown_items.to_arrow()}
    if result.worker_table.height:
        tables["workers"] = result.worker_table.to_arrow()
    if result.overall_ranking is not None:
        tables["overall"] = result.overall_ranking.shown_items.to_arrow()
    return [f"the table {each}" for each in write_tables(votes, name, tables)]
