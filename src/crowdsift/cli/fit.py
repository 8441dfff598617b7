"""The command `crowdsift fit`."""

# typer reads the annotations when the command is registered.
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdsift.cli import options as opt
from crowdsift.cli.interrupts import raise_if_seen
from crowdsift.cli.options import (
    ItemFeaturesFile,
    ItemTextFile,
    MissingFeatures,
    anchors,
    hyper_parameters,
    trusted_panel,
)
from crowdsift.cli.reading import read_for_fit, reads_votes
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
from crowdsift.errors import CrowdsiftError, RequestError

if TYPE_CHECKING:
    from crowdsift import Fit
    from crowdsift.fitting import VoteRows
    from crowdsift.io import ReadOptions
    from crowdsift.votes.intake import Intake


_RESOURCES = ("scheduler", "shards", "device", "checkpoint")


@reads_votes("covariates", "by", "hide_workers", "hide_key", "style_control", "memory")
def fit(
    votes: opt.Votes,
    *,
    method: opt.Method = None,
    settings: opt.Settings = None,
    tune: opt.Tune = False,
    dimensions: opt.Dimensions = None,
    reading: "ReadOptions",
    classes: opt.Classes = None,
    item_features: ItemFeaturesFile = None,
    item_text: ItemTextFile = None,
    item_features_missing: MissingFeatures = "error",
    gold: opt.Gold = None,
    pooling: opt.Pooling = None,
    trusted: opt.Trusted = None,
    out: opt.OutFolder = None,
    report: opt.ReportFile = None,
    table: opt.TableFile = None,
    scale: opt.Scale = "standard",
    anchor: opt.Anchors = None,
    level: opt.Level = 0.9,
    dependent_by: opt.DependentBy = None,
    time: opt.TimeColumn = None,
    robustness: opt.Robustness = False,
    statistics: opt.Statistics = False,
    mturk_review: opt.MturkReview = None,
    excel_safe: opt.ExcelSafe = None,
    as_json: opt.AsJson = False,
    to_table: opt.ToTable = None,
    start: opt.Start = None,
    checkpoint: opt.Checkpoint = None,
    engine: opt.EngineName = "auto",
    device: opt.Device = None,
    scheduler: opt.Scheduler = None,
    shards: opt.Shards = None,
    decimal_comma: opt.DecimalComma = False,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Fit votes: scores and ranks of items, reliability and verdict of workers."""
    import crowdsift
    from crowdsift.fitting import refuse_unused

    given, panel = hyper_parameters(settings or []), trusted_panel(trusted, robustness)
    model = _named_model(method, given, dimensions, pooling, bool(reading.by), panel)
    on_scale = anchors(anchor)
    _refuse_targets(
        votes,
        table,
        to_table,
        mturk_review if reading.hide_workers else None,
        scale,
        decimal_comma=decimal_comma and excel_safe is None,
    )
    resources = dict(zip(_RESOURCES, (scheduler, shards, device, checkpoint), strict=True))
    needs_rows = bool(classes or gold or tune) or not (model is None or model.by_worker)
    with step_progress("Reading the votes", quiet=quiet):
        read, rows = read_for_fit(
            votes,
            reading,
            dependent_by or next(iter(panel or [None])),
            time,
            quiet=quiet,
            engine=(engine, resources),
            needs_rows=needs_rows,
            batch=bool(mturk_review),
        )
    chosen = model or crowdsift.model("sift" if read.has_workers else "bt", **given)
    known = {
        "covariates": bool(reading.covariates),
        "classes": bool(classes),
        "items": bool(item_features or item_text),
    }
    refuse_unused(chosen, True, tune=tune, **known)
    _refuse_robustness(chosen, read if robustness else None)
    steps, title = _Steps(reading.threads, quiet), f"Fitting {chosen.name}"
    with log_to_stderr(quiet), fit_progress(title, chosen, quiet=quiet) as progress:
        result = crowdsift.fit(
            read,
            chosen if method or given else None,
            classes=classes,
            items=item_features,
            item_text=item_text,
            item_features_missing=item_features_missing,
            gold=gold,
            tune=tune,
            dimensions=dimensions,
            start=start,
            scale=scale,
            anchor=on_scale,
            level=level,
            dependent_by=rows,
            pooling=pooling,
            engine=engine,
            threads=reading.threads,
            engine_options=resources,
            seed=seed,
            progress=progress,
            memory=reading.memory,
            trusted=panel,
        )
    result = _completed(result, steps, read.intake, robustness, statistics, gold)
    _write_folders(result, steps, out, excel_safe, decimal_comma)
    _write_review(result, rows, mturk_review, steps)
    _write_files(result, steps, report, table)
    _show(_write_tables(result, steps, votes, to_table), steps, as_json)


class _Steps:
    """The steps after a fit: a failure does not stop the others, and is reported at the end."""

    def __init__(self, threads: int | None, quiet: bool) -> None:
        self.threads, self.quiet = threads, quiet
        self.written: list[str] = []
        self.failed: list[str] = []

    @contextmanager
    def step(self, option: str, title: str = "", stages: Sequence[str] = ()) -> Iterator[Callable[[str], None] | None]:
        """Run a block; record its error and continue, so that no finished fit is lost."""
        try:
            with step_progress(title, stages, quiet=self.quiet or not title) as progress:
                yield progress
            raise_if_seen()
        except Exception as error:
            raise_if_seen()  # a library may have turned the signal into another error
            if os.environ.get("CROWDSIFT_DEBUG"):
                raise
            known = isinstance(error, CrowdsiftError | OSError | MemoryError)
            kind = "" if known else f"internal error, {type(error).__name__}: "
            text = str(error) or "not enough memory"
            self.failed.append(f"{option}: {kind}{text}")


def _refuse_robustness(model: Any, votes: Any) -> None:
    if getattr(votes, "choices", None) is not None and model.rankings != "pairs":
        raise RequestError(
            "--robustness removes votes on single pairs, and these votes are "
            "rankings; leave it out, or leave out workers and compare"
        )


def _named_model(
    method: str | None, given: dict[str, Any], dimensions: str | None, pooling: str | None, by: bool, panel: Any
) -> Any:
    """Return the model of a named method; raise an error for settings that it cannot have."""
    import crowdsift
    from crowdsift.fitting import refuse_shared
    from crowdsift.models import as_model

    model = None if method is None else crowdsift.model(method, **given)
    if dimensions is not None:
        as_model(model or "sift", dimensions)
    shared = crowdsift.model("sift", pooling=pooling or "auto")
    refuse_shared(model or shared, pooling, panel, by)
    return model


def _refuse_targets(
    votes: str, table: Path | None, to_table: str | None, hidden_review: Path | None, scale: str, *, decimal_comma: bool
) -> None:
    """Raise an error for tables of unknown kind, scale or database, and for a review of hidden workers."""
    # `decimal_comma` needs the tables for spreadsheets.
    from crowdsift.results import require_scale

    require_scale(scale)
    if decimal_comma:
        raise RequestError("--decimal-comma is for the tables of --excel-safe FOLDER; give both")
    if hidden_review is not None:
        raise RequestError(
            "--mturk-review writes the batch as Amazon needs it, worker ids included, which "
            "--hide-workers forbids; run fit twice, once with each"
        )
    if table is not None:
        from crowdsift.results import form_of

        form_of(table)
    if to_table is not None:
        from crowdsift.io import require_table

        require_table(votes, to_table)


def _completed(
    result: "Fit", steps: _Steps, intake: "Intake | None", robustness: bool, statistics: bool, gold: str | None
) -> "Fit":
    if intake is not None and intake.work_seconds and result.worker_table.height:
        result = result.with_seconds(intake.work_seconds)
    if robustness:
        with steps.step("--robustness", "Searching for votes that the leader depends on"):
            result = result.with_robustness(gold=gold, threads=steps.threads)
    if statistics:
        with steps.step("--statistics", "Halving the workers for statistics"):
            result = result.with_statistics(halves=5, gold=gold, threads=steps.threads)
    return result


def _write_folders(
    result: "Fit", steps: _Steps, out: Path | None, excel_safe: Path | None, decimal_comma: bool
) -> None:
    """Write the folder of the fit before all other outputs, and the folder for spreadsheets."""
    if out is not None:
        with steps.step("--out"):
            result.save(out)
            tables = ("items", "workers", "decisions", "overall", "coefficients", "panel_bias")
            there = [f"{name}.csv" for name in tables if (out / f"{name}.csv").exists()]
            steps.written.append(f"{out}/{', '.join([*there, 'summary.json'])}")
    if excel_safe is not None:
        from crowdsift.results import write_excel_safe

        with steps.step("--excel-safe"):
            write_excel_safe(result, excel_safe, decimal_comma=decimal_comma)
            steps.written.append(f"{excel_safe}/items.csv, workers.csv, decisions.csv for spreadsheets")


def _write_review(result: "Fit", rows: "VoteRows | None", path: Path | None, steps: _Steps) -> None:
    if path is None or rows is None or rows.batch is None:
        return
    from crowdsift.io import write_review

    with steps.step("--mturk-review"):
        decided = result.decisions()
        found = zip(decided["worker"], decided["suggestion"], decided["reason"], strict=True)
        done = write_review(rows.batch, {who: (what, why) for who, what, why in found}, path)
        counts = ", ".join(f"{count} {word}" for word, count in done.items())
        steps.written.append(f"{path} ({counts})")


def _write_files(result: "Fit", steps: _Steps, report: Path | None, table: Path | None) -> None:
    if report is not None:
        from crowdsift.report import STAGES, make_report

        with steps.step("--report", "Report:", STAGES) as progress:
            make_report(result, path=report, command=command_line(), threads=steps.threads, progress=progress)
            steps.written.append(str(report))
    if table is not None:
        from crowdsift.results import write_leaderboard

        with steps.step("--table"):
            write_leaderboard(result, table)
            steps.written.append(str(table))


def _write_tables(result: "Fit", steps: _Steps, votes: str, name: str | None) -> "Fit":
    if name is None:
        return result
    from crowdsift.io import write_tables

    with steps.step("--to-table"):
        tables = {"items": result.shown_items.to_arrow()}
        if result.worker_table.height:
            tables["workers"] = result.worker_table.to_arrow()
        if result.overall_ranking is not None:
            tables["overall"] = result.overall_ranking.shown_items.to_arrow()
        steps.written += [f"the table {each}" for each in write_tables(votes, name, tables)]
    return result


def _show(result: "Fit", steps: _Steps, as_json: bool) -> None:
    """Print the tables or the JSON, and the files written; raise an error if a step failed."""
    warn(result.warnings)
    if as_json:
        print_text(to_json(result.to_json()))
    elif not (steps.quiet and steps.written):  # otherwise a file has the tables
        from crowdsift.report import terminal as console

        console.show_fit(result)
    if steps.failed:
        done = f"Written: {'; '.join(steps.written)}" if steps.written else "Nothing was written"
        raise CrowdsiftError(f"the fit is finished, but {'; '.join(steps.failed)}. {done}")
    for each in steps.written if not (steps.quiet or as_json) else ():
        say(f"Written: {each}")
