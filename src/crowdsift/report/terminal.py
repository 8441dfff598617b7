"""Tables of fits and evaluations for a terminal."""

import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crowdsift.models.diagnostics import Kind
from crowdsift.report.checks import headline, is_preferences
from crowdsift.results import words
from crowdsift.results.fit import Fit
from crowdsift.results.query import model_of
from crowdsift.results.reasons import random_level
from crowdsift.results.scales import level_text, score_name
from crowdsift.results.summary import gold_sentence
from crowdsift.results.tables import Table as _Rows

_NO_WIDTH = 100_000  # in a pipe nothing is wrapped or cut
_LEAST_LABEL = 16  # least characters of a label, however narrow the terminal is
_MOST_LABEL = 60
_LONGEST_LABEL = 120  # most characters in a pipe
_SHOWN = 10
_STYLES = {
    "reliable": "green",
    "weak": "yellow",
    "distinct": "cyan",
    "random": "red",
    "adversarial": "bold red",
    "one-sided": "magenta",
    "undecided": "dim",
}


def _console() -> Console:
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console() if terminal else Console(width=_NO_WIDTH)


def show_fit(fit: Fit) -> None:
    """Print the leaderboard, the workers that need attention, and the outcome of the fit."""
    console = _console()
    if any(each.kind is Kind.INFORMATION for each in fit.diagnostics):
        console.print("Nothing was learned from these votes (see the warning): no tables.")
    else:
        for line in headline(fit):
            console.print(Text(_plain(line)))
        for title, table in _tables(fit, console.width):
            console.print(Text(title, style="italic"))
            if table.row_count:
                console.print(table)
    s = fit.summary
    state = "converged" if fit.converged else "NOT converged"
    console.print(
        f"{fit.method}: {words.many(s['items'], 'item')}, {words.many(s['workers'], 'worker')}, "
        f"{words.many(s['votes'], 'vote')}; {state} in {words.many(s['iterations'], 'iteration')}, "
        f"{s['seconds']:.2f} s; mean log-likelihood {s['mean_log_likelihood']:.5f}",
        highlight=False,
    )
    if (features := s.get("item_features")) and features["used"]:
        console.print(
            f"Features of items explain {features['explained']:.0%} of the scores' variance; "
            f"evidence {features['evidence_gain']:+.1f} nats.",
            highlight=False,
        )
    for sentence in (*fit.panel_sentences, *_dimensions(fit), gold_sentence(s)):
        if sentence:
            console.print(Text(_plain(sentence)))
    if s.get("robustness"):
        console.print(Text(s["robustness"]["text"] + "."))
    for line in _statistics(fit):
        console.print(Text(line))


def _statistics(fit: Fit) -> list[str]:
    found = fit.summary.get("statistics")
    if not found:
        return []
    lines = []
    known = {
        f"{fit.method}'s own": found["separation_reliability"],
        "scale separation as published for comparative judgement": found["scale_separation_reliability"],
        "split halves": found["split_half_reliability"],
    }
    figures = [f"{value:.3f} ({name})" for name, value in known.items() if value is not None]
    if figures:
        lines.append(f"Reliability of the scores: {', '.join(figures)}.")
    if found["alpha"] is not None:
        ends = _span(found["alpha_lower"], found["alpha_upper"], "{:z.2f}")
        alpha = f"{found['alpha']:z.2f} ({ends})"
        lines.append(f"Agreement on the same pair, Krippendorff's alpha: {alpha}.")
    if (triads := found["triads"]) is not None:
        sd = "" if triads["sd"] is None else f" ± {triads['sd']:.1f}"
        lines.append(
            f"{words.count(triads['intransitive'])} of {words.count(triads['triads'])} triads go round in a circle; "
            f"the model expects {triads['expected']:.1f}{sd}."
        )
    for kind in ("worker", "item") if fit.worker_table.height else ("item",):
        named = found[f"misfitting_{kind}s"]
        listed = ", ".join(map(_plain, named[:_SHOWN])) + (", ..." if len(named) > _SHOWN else "")
        some = f"{words.many(len(named), kind)} misfit{'s' if len(named) == 1 else ''}: {listed}"
        lines.append(f"{some if named else f'No {kind} misfits'} (infit in {kind}s.csv).")
    return lines


def _dimensions(fit: Fit) -> list[str]:
    if fit.summary.get("dimensions", 1) == 1:
        return []
    from crowdsift.results.dimensions import dimension_sentences, direction_sentence

    return [direction_sentence(fit), *dimension_sentences(fit)]


def _tables(fit: Fit, width: int) -> list[tuple[str, Table]]:
    tables = [] if is_preferences(fit) else [_leaderboard(fit, width)]
    if fit.overall_ranking is not None:
        title, table = _leaderboard(fit.overall_ranking, width)
        tables.insert(0, (f"{title}, over all contexts", table))
    if fit.worker_table.height and (fit.worker_table["verdict"] != "").any():
        tables.append(_worker_table(fit, width))
    if any(each["used"] for each in fit.summary.get("covariates") or ()):
        tables.append(_covariate_table(fit))
    return tables


def _covariate_table(fit: Fit) -> tuple[str, Table]:
    table = Table()
    heads = ("crowd", f"{level_text(fit.level)} interval", "workers differ by", "evidence")
    for name in ("covariate", *heads):
        table.add_column(name, justify="left" if name == "covariate" else "right", no_wrap=True)
    for each in fit.summary["covariates"]:
        if not each["used"]:
            continue
        crowd = "" if each["crowd"] is None else f"{each['crowd']:+z.3f}"
        table.add_row(
            Text(_plain(each["name"])),
            crowd,
            _span(each["lower"], each["upper"], "{:+z.2f}"),
            f"{each['spread']:.3f}",
            f"{each['evidence_gain']:+.1f}",
        )
    return "Covariates, log-odds a unit; those of every worker in coefficients.csv", table


def show_evaluation(records: list[dict[str, Any]]) -> None:
    """Print one row per method."""
    if records and "left_out" in records[0]:
        _show_left_out(records)
        return
    table = Table()
    table.add_column("method")
    for name in ("accuracy", "weighted", "tau", "accuracy ±", "tau ±", "seconds"):
        table.add_column(name, justify="right")
    keys = ("accuracy", "weighted_accuracy", "kendall_tau", "accuracy_up_to_sign", "kendall_tau_up_to_sign")
    for record in records:
        figures = ["" if record[key] is None else f"{record[key]:.4f}" for key in keys]
        seconds = "" if record["seconds"] is None else f"{record['seconds']:.3f}"
        table.add_row(record["method"], *figures, seconds)
    console = _console()
    console.print(Text("Against the truth; ± is up to the sign of all scores", style="italic"))
    console.print(table)
    console.print(
        "accuracy: share of pairs of items in the right order; weighted: a pair counts by how far "
        "apart it truly is; tau: Kendall's",
        highlight=False,
    )
    for record in records:
        if record["note"]:
            console.print(Text(f"{record['method']}: {record['note']}"))


def _show_left_out(records: list[dict[str, Any]]) -> None:
    table = Table()
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
    console = _console()
    console.print(Text("Predictions of left-out votes; a coin has a log loss of 0.693", style="italic"))
    console.print(table)
    console.print(
        "left out: votes at random, all votes of some workers, or all on some pairs; behind: log loss above that of "
        "the best, ± standard error; calib.: predicted less observed shares, mean distance",
        highlight=False,
    )
    for note in dict.fromkeys(f"{r['method']}: {r['note']}" for r in records if r["note"]):
        console.print(Text(note))


def _leaderboard(fit: Fit, width: int) -> tuple[str, Table]:
    items, by = fit.shown_items, fit.context_columns
    best = np.lexsort((items["component"], items["rank"]))[:_SHOWN]
    shown = _Rows({name: column[best] for name, column in items.items()}).records()
    figures = _item_figures(fit, shown)
    room = width - 1 - sum(max(map(len, [name, *texts])) + 3 for name, texts in figures.items())
    labels = {name: [_plain(row[name]) for row in shown] for name in (*by, "item")}
    for name, texts in list(labels.items()):  # a context column, if there is one, gets a third
        most = (room // 3 if name in by else room) - 3
        cut = words.abbreviated(
            texts, max(min(most, _MOST_LABEL if width < _NO_WIDTH else _LONGEST_LABEL), _LEAST_LABEL)
        )
        labels[name] = cut
        room -= max(map(len, [_plain(name), *cut])) + 3
    table, ranks = Table(), {"rank": figures.pop("rank")}
    if not fit.summary.get("has_common", True):
        ranks.clear()
    for name in ranks:
        table.add_column(name, justify="right", no_wrap=True)
    for name in labels:
        table.add_column(Text(_plain(name)), overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    columns = [*ranks.values(), *labels.values(), *figures.values()]
    for row in zip(*columns, strict=True):
        table.add_row(*map(Text, row))
    apart = fit.summary["components"] > 1
    best_of = f"the best of each {', '.join(map(_plain, by)) or 'component'} first, " if apart else ""
    what = f"{_SHOWN} of {words.count(items.height)}"
    if not fit.summary.get("has_common", True):
        return f"Items{f', {what}' if items.height > _SHOWN else ''}; no common ranking", table
    more = f", {best_of or 'the best '}{what}" if items.height > _SHOWN else ""
    return f"Items{more}", table


def _item_figures(fit: Fit, shown: list[dict[str, Any]]) -> dict[str, list[str]]:
    items, by = fit.shown_items, fit.context_columns
    points = fit.summary.get("scale") == "elo"
    form, ends = ("{:z.0f}", 0) if points else ("{:z.3f}", 2)
    figures = {
        "rank": [words.count(row["rank"]) for row in shown],
        score_name(fit): [form.format(row["score"]) for row in shown],
        f"{level_text(fit.level)} interval": [_interval(row["lower"], row["upper"], ends) for row in shown],
    }
    if "score_as_is" in items and fit.shown is None:
        figures["as is"] = [form.format(row["score_as_is"]) for row in shown]
    if fit.summary.get("has_common", True):
        figures["ranks"] = [_span(row["rank_lower"], row["rank_upper"], "{:,.0f}") for row in shown]
    figures["votes"] = [words.count(row["comparisons"]) for row in shown]
    # If every context is one component, the column of contexts already shows it.
    contexts = len(set(zip(*(items[name].tolist() for name in by), strict=True))) if by else 1
    if fit.summary["components"] > contexts:
        figures["component"] = [words.count(row["component"]) for row in shown]
    # Some methods, and fits with very many items, have no intervals.
    return {name: texts for name, texts in figures.items() if any(texts)}


def _worker_table(fit: Fit, width: int) -> tuple[str, Table]:
    """Return the workers that need attention; other columns are left out before names are cut."""
    kept = ("reliable", "undecided")  # they need no attention
    level = random_level(model_of(fit))
    rows = [row for row in fit.worker_table.records() if row["verdict"] not in kept]
    counts: dict[str, int] = {}
    for verdict in fit.worker_table["verdict"]:
        counts[verdict] = counts.get(verdict, 0) + 1
    result = ", ".join(f"{words.count(counts[verdict])} {verdict}" for verdict in _STYLES if verdict in counts)
    result = result.replace(" undecided", " undecided (their votes count)")
    more = f"; {_SHOWN} of the {words.count(len(rows))} to look at" if len(rows) > _SHOWN else ""
    # The harm that a worker can do grows with the number of votes; the length of the weights is what they tell.
    severity = {"adversarial": 0, "one-sided": 1, "random": 2, "distinct": 3, "weak": 4}
    rows.sort(key=lambda row: (severity[row["verdict"]], -row["comparisons"], -round(row.get("weight_length", 0.0), 3)))
    rows = rows[:_SHOWN]
    columns = {
        "worker": [_plain(row["worker"]) for row in rows],
        "reliability": [f"{row['reliability']:z.3f}" for row in rows],
        f"{level_text(fit.level)} interval": [_interval(row["lower"], row["upper"], 2, level) for row in rows],
        "all weights": [f"{row['weight_length']:.2f}" if "weight_length" in row else "" for row in rows],
        "votes": [words.count(row["comparisons"]) for row in rows],
        "agreement": ["" if row["agreement"] is None else words.percent(row["agreement"]) for row in rows],
        "gold": ["" if row.get("gold_agreement") is None else words.percent(row["gold_agreement"]) for row in rows],
        "verdict": [row["verdict"] for row in rows],
    }
    columns = {name: texts for name, texts in columns.items() if any(texts)}
    for name in ("gold", "agreement", "all weights", f"{level_text(fit.level)} interval", "reliability"):
        wide = 1 + sum(max(map(len, [head, *texts])) + 3 for head, texts in columns.items())
        if wide > width and name in columns:
            del columns[name]
    table = Table()
    for name in columns:
        aside = name in ("worker", "verdict")
        table.add_column(name, justify="left" if aside else "right", no_wrap=not aside, overflow="fold")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, row[:-1]), Text(row[-1], style=_STYLES[row[-1]]))
    return f"Workers: {result}{more}", table


def _plain(value: Any) -> str:
    """Return a label as one line of text without escape sequences."""
    return words.label(" ".join(str(value).split()))


def _interval(lower: float | None, upper: float | None, digits: int, nothing: float | None = None) -> str:
    if (lower is None or upper is None) and nothing is None:
        return ""
    return words.interval_text(lower, upper, digits, nothing).replace("−", "-")  # any locale has this minus sign


def _span(lower: float | None, upper: float | None, form: str) -> str:
    return "" if lower is None or upper is None else f"{form.format(lower)} to {form.format(upper)}"
