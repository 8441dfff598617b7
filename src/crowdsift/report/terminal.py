"""Tables and progress for a person at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from crowdsift.models.diagnostics import Kind
from crowdsift.results import words
from crowdsift.results.scales import level_text

if TYPE_CHECKING:
    from crowdsift.results.record import FitRecord
    from crowdsift.solvers.convergence import Progress as Report

__all__ = ["fit_progress", "show_evaluation", "show_fit", "step_progress"]

_LONGEST_LABEL = 48
_SHOWN = 10
_STYLES = {
    "reliable": "green",
    "weak": "yellow",
    "random": "red",
    "adversarial": "bold red",
    "one-sided": "magenta",
    "undecided": "dim",
}


def show_fit(fit: FitRecord) -> None:
    """Print the leaderboard, the workers that are not reliable, and how the fit went."""
    console = Console()
    if any(each.kind is Kind.INFORMATION for each in fit.diagnostics):
        console.print("Nothing was learned from these votes (see the warning): no tables.")
    else:
        console.print(_leaderboard(fit))
        if fit.worker_table.height and (fit.worker_table["verdict"] != "").any():
            console.print(_worker_table(fit))
    s = fit.summary
    state = "converged" if fit.converged else "NOT converged"
    console.print(
        f"{fit.method}: {s['items']} items, {s['workers']} workers, {s['votes']:g} votes; "
        f"{state} in {s['iterations']} iterations, {s['seconds']:.2f} s; "
        f"mean log-likelihood {s['mean_log_likelihood']:.5f}",
        highlight=False,
    )
    if s.get("robustness"):
        console.print(Text(s["robustness"]["text"] + "."))


def show_evaluation(records: list[dict[str, Any]]) -> None:
    """Print one row a method."""
    if records and "left_out" in records[0]:
        _show_left_out(records)
        return
    table = Table(
        title="Against the truth; ± is up to the sign of all scores", title_justify="left"
    )
    table.add_column("method")
    for name in ("accuracy", "weighted", "tau", "accuracy ±", "tau ±", "seconds"):
        table.add_column(name, justify="right")
    keys = (
        "accuracy",
        "weighted_accuracy",
        "kendall_tau",
        "accuracy_up_to_sign",
        "kendall_tau_up_to_sign",
    )
    for record in records:
        figures = ["" if record[key] is None else f"{record[key]:.4f}" for key in keys]
        seconds = "" if record["seconds"] is None else f"{record['seconds']:.3f}"
        table.add_row(record["method"], *figures, seconds)
    console = Console()
    console.print(table)
    for record in records:
        if record["note"]:
            console.print(Text(f"{record['method']}: {record['note']}"))


def _show_left_out(records: list[dict[str, Any]]) -> None:
    """Print one row a method and scheme, the best method first."""
    table = Table(title="Left-out votes foretold; a coin has a log loss of 0.693",
                  title_justify="left")  # fmt: skip
    table.add_column("left out")
    table.add_column("method")
    heads = ("log loss", "behind", "±", "Brier", "calib.", "accuracy")
    for name in heads:
        table.add_column(name, justify="right")
    schemes = list(dict.fromkeys(record["left_out"] for record in records))
    run = [record for record in records if record["log_loss"] is not None]
    for row in sorted(run, key=lambda row: (schemes.index(row["left_out"]), row["log_loss"])):
        table.add_row(
            row["left_out"],
            row["method"],
            f"{row['log_loss']:.4f}",
            *(f"{row[name]:.4f}" if row["behind"] else "" for name in ("behind", "behind_se")),
            *(f"{row[name]:.4f}" for name in ("brier", "calibration", "accuracy")),
        )
    console = Console()
    console.print(table)
    for note in dict.fromkeys(f"{r['method']}: {r['note']}" for r in records if r["note"]):
        console.print(Text(note))


@contextmanager
def fit_progress(title: str, tolerance: float | None) -> Iterator[Report]:
    """Yield a function that shows the iteration and the measure on standard error."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("iteration {task.fields[iteration]}, {task.fields[measure]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    goal = "" if tolerance is None else f" (until {tolerance:.0e})"
    with bar:
        task = bar.add_task(title, total=None, iteration=0, measure="")

        def report(iteration: int, measure: float) -> None:
            bar.update(task, iteration=iteration, measure=f"{measure:.2e}{goal}")

        yield report


@contextmanager
def step_progress(title: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows on standard error what is being done."""
    with Console(stderr=True).status(title) as status:
        yield lambda step: status.update(f"{title} {step}")


def _leaderboard(fit: FitRecord) -> Table:
    rows, interval = fit.shown_items.records(), f"{level_text(fit.level)} interval"
    islands = fit.summary["components"] > 1
    points = fit.summary.get("scale") == "elo"
    form = "{:z.0f}" if points else "{:z.3f}"
    title = f"Items, the best {_SHOWN} of {len(rows)}" if len(rows) > _SHOWN else "Items"
    table = Table(title=title, title_justify="left")
    table.add_column("rank", justify="right")
    context = fit.summary.get("by")
    if context:
        table.add_column(label(context))
    table.add_column("item")
    for name in (_score_name(fit), interval, "ranks", "votes"):
        table.add_column(name, justify="right")
    if islands:
        table.add_column("group", justify="right")
    for row in sorted(rows, key=lambda row: (row["rank"], row["component"]))[:_SHOWN]:
        group = [str(row["component"])] if islands else []
        table.add_row(
            str(row["rank"]),
            *([label(row[context])] if context else []),
            label(row["item"]),
            form.format(row["score"]),
            _span(row["lower"], row["upper"], "{:z.0f}" if points else "{:z.2f}"),
            _span(row["rank_lower"], row["rank_upper"], "{:.0f}"),
            f"{row['comparisons']:g}",
            *group,
        )
    return table


def _score_name(fit: FitRecord) -> str:
    scale = fit.summary.get("scale") or "standard"
    return {"standard": "score", "elo": "Elo", "winrate": "win rate"}.get(scale, scale)


def _worker_table(fit: FitRecord) -> Table:
    rows = [row for row in fit.worker_table.records() if row["verdict"] != "reliable"]
    counts: dict[str, int] = {}
    for verdict in fit.worker_table["verdict"]:
        counts[verdict] = counts.get(verdict, 0) + 1
    result = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _STYLES if verdict in counts)
    more = f"; {_SHOWN} of the {len(rows)} others below" if len(rows) > _SHOWN else ""
    table = Table(title=f"Workers: {result}{more}", title_justify="left")
    table.add_column("worker")
    for name in ("reliability", f"{level_text(fit.level)} interval", "votes", "agreement"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    # The harm a worker can do grows with the votes.
    gravity = {"adversarial": 0, "one-sided": 1, "random": 2, "weak": 3, "undecided": 4}
    rows.sort(key=lambda row: (gravity[row["verdict"]], -row["comparisons"]))
    for row in rows[:_SHOWN]:
        agreement = row["agreement"]
        table.add_row(
            label(row["worker"]),
            f"{row['reliability']:z.3f}",
            _span(row["lower"], row["upper"], "{:z.2f}"),
            f"{row['comparisons']:g}",
            "" if agreement is None else f"{agreement:.0%}",
            Text(row["verdict"], style=_STYLES[row["verdict"]]),
        )
    return table


def label(value: Any) -> Text:
    """A label as plain text: one line, no markup, not too long."""
    text = words.label(" ".join(str(value).split()))  # escape sequences must not reach it raw
    return Text(text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…")


def _span(lower: float | None, upper: float | None, form: str) -> str:
    if lower is None or upper is None:
        return ""
    return f"{form.format(lower)} to {form.format(upper)}"
