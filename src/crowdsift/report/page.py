"""The page: facts and figures in a template, tables as compact JSON; and the view of a fit in a notebook."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.checks.leftout import PARTS
from crowdsift.errors import RequestError
from crowdsift.report import figures
from crowdsift.report.checks import (
    BADGES,
    first_badges,
    first_place,
    headline,
    is_preferences,
    overall,
    parts_of,
    run_checks,
    top_sentences,
)
from crowdsift.report.facts import VERDICTS, Facts
from crowdsift.results.dimensions import dimension_sentences, direction_sentence
from crowdsift.results.fit import Fit
from crowdsift.results.reasons import OTHERS, SHORT
from crowdsift.results.scales import level_text, scale_text, score_name
from crowdsift.results.summary import gold_sentence
from crowdsift.results.tables import Table
from crowdsift.results.words import (
    chance,
    count,
    decimal,
    interval_text,
    item_label,
    label,
    many,
    percent,
    shortened,
    texts,
)
from crowdsift.votes.labels import as_column

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_PARTS = 50  # most entries of a menu; more are searched
_OVERVIEW = 40  # items from which on the picture of all scores is shown
_MOVERS = 8
MOST_ROWS = 100_000  # most rows of a table; the CSV files have all
MOST_BYTES = 2_000_000  # most bytes of a table, so that a page stays below 5 MB with labels of any length
_SAMPLE, _KEEP = 2_000, 0.8  # preferences in the sample, and the limit of their probability
FIRST_ROWS = 25  # rows in the page itself, for readers without scripts; also the rows of a page
LONGEST_NAME = 300  # characters of a label in a table that is too large
_MOST_ESCAPED = 6  # most bytes of a character in JSON
_NUMBER_BYTES, _REASON_BYTES = 9, 50  # bytes of a value, and of the reasons of a worker
_FOLLOWED = 10  # workers with the most votes, and best items, that are listed
_NOTEBOOK_ROWS = 10
_NOTEBOOK_LABEL = 60


def render(facts: Facts, *, title: str, command: str) -> str:
    """Return the whole report as one HTML page; `command` is the command that makes it again."""
    from markupsafe import Markup

    templates = environment()
    style, script = (
        (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8") for name in ("report.css", "report.js")
    )
    checks = run_checks(facts)
    state, answer, sentence = overall(checks)
    named = score_name(facts.fit)
    items, workers, whole = item_columns(facts), worker_columns(facts), overall_columns(facts)
    shown = {
        "items": _texts(items, "score", items["digits"], 0.0),
        "whole": whole and _texts(whole, "score", items["digits"], 0.0),
        "workers": _texts(workers, "reliability", 2, workers["level"]),
    }
    return templates.get_template("report.html").render(
        title=title,
        summary=facts.fit.summary,
        parameters=facts.fit.parameters,
        command=command,
        level=level_text(facts.fit.level),
        facts=facts,
        state=state,
        answer=answer,
        sentence=sentence,
        checks=checks,
        **_sentences(facts),
        items=items,
        score_name=named[0].upper() + named[1:],
        scale_text=scale_text(facts.fit),
        whole=whole,
        texts=shown,
        followed=what_is_followed(facts.fit),
        workers=workers,
        first_rows=FIRST_ROWS,
        trace_name=figures.trace_name(facts.fit.method),
        verdicts=figures.verdict_shares(facts.population),
        without=_without(facts),
        disputes=_disputes(facts),
        calibration=None if isinstance(facts.calibration, str) else facts.calibration,
        parts=PARTS,
        pictures={name: Markup(text) for name, text in _pictures(facts).items()},
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=Markup(as_json({"items": items, "workers": workers, "reasons": SHORT, "badges": BADGES})),
        BADGES=BADGES,
        count=count,
        most_parts=MOST_PARTS,
        many=many,
        percent=percent,
        chance=chance,
    )


@cache
def environment() -> Environment:
    """Return the environment of the templates, which escapes all values."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def bar(value: float | None, low: float | None, high: float | None, scale: list[float]) -> list[str]:
    """Return the positions of a value and the ends of its interval, in percent of the width."""
    width = (scale[1] - scale[0]) or 1.0
    ends = [value if end is None else end for end in (low, high)]
    return [f"{100 * ((at or 0.0) - scale[0]) / width:.1f}" for at in (value, *ends)]


def _pictures(facts: Facts) -> dict[str, str]:
    fit, population, calibration = facts.fit, facts.population, facts.calibration
    overview = fit.item_table.height > _OVERVIEW and fit.summary["components"] == 1
    trace = fit.trace if np.isfinite(fit.trace).all() and len(set(fit.trace)) > 1 else ()
    charts = {
        "scores": figures.scores_chart(fit) if overview else None,
        "workers": figures.workers_chart(fit, population),
        "map": figures.map_chart(fit),
        "calibration": None if isinstance(calibration, str) else figures.calibration_chart(calibration),
        "convergence": figures.convergence_chart(fit.method, trace) if trace else None,
    }
    drawn: dict[str, figures.Drawn | None] = {
        "history": figures.history_figure(facts),
        "matrix": figures.matrix_figure(facts),
        "without": figures.without_figure(facts),
    }
    for name, chart in charts.items():
        drawn[name] = None if chart is None else partial(figures.draw, chart)
    made = {"share": figures.verdict_bar(population) if population.judged else ""}
    for name, draw in drawn.items():
        sizes = {kind: draw(width) for kind, width in figures.WIDTHS.items()} if draw else {}
        made[name] = "".join(f'<div class="{kind}">{svg}</div>' for kind, svg in sizes.items())
    return made


def _without(facts: Facts) -> dict[str, Any]:
    found = facts.without
    if isinstance(found, str):
        return {"why_not": found}
    before, after = found.before[facts.code], found.rank[facts.code]
    move = np.where(after > 0, before - after, 0)
    order = np.lexsort((before, -np.abs(move)))[:_MOVERS]
    names, by = facts.fit.labels, facts.fit.summary.get("by")
    best = {
        side: set(np.flatnonzero((ranks > 0) & (ranks <= 10)).tolist())
        for side, ranks in (("before", before), ("after", after))
    }
    return {
        "why_not": "",
        "tau": found.tau,
        "lost": found.lost,
        "components": found.components,
        "kept_best": len(best["before"] & best["after"]),
        "best": len(best["before"]),
        "same_first": bool((before == 1)[after == 1].any()),
        "moved": int((move != 0).sum()),
        "movers": [
            {
                "name": shortened(item_label(names[i], by), LONGEST_NAME),
                "before": int(before[i]),
                "after": int(after[i]),
            }
            for i in order.tolist()
            if move[i]
        ],
    }


def _disputes(facts: Facts) -> dict[str, Any]:
    """Return divided pairs with their names and the probability of their order."""
    found = facts.disputes
    if isinstance(found, str):
        return {"why_not": found, "pairs": []}
    if not found:
        return {"why_not": "No pair has four votes with some on each side, so no dispute can be seen.", "pairs": []}
    assert facts.votes is not None
    names, by = facts.votes.items, facts.votes.by
    row = np.empty(len(facts.code), np.int64)
    row[facts.code] = np.arange(len(facts.code))
    score = facts.fit.item_table["score"]
    ordered = []
    for one, two, for_one, for_two in found:
        if score[row[one]] < score[row[two]]:
            one, two, for_one, for_two = two, one, for_two, for_one
        ordered.append((one, two, for_one, for_two))
    ones, twos = [names[pair[0]] for pair in ordered], [names[pair[1]] for pair in ordered]
    sure = _better(facts, ones, twos)
    pairs = [
        {
            "first": shortened(item_label(names[one], by), LONGEST_NAME),
            "second": shortened(item_label(names[two], by), LONGEST_NAME),
            "votes_first": for_one,
            "votes_second": for_two,
            "sure": chance,
        }
        for (one, two, for_one, for_two), chance in zip(ordered, sure, strict=True)
    ]
    return {"why_not": "", "pairs": pairs}


def _sentences(facts: Facts) -> dict[str, Any]:
    fit = facts.fit
    return {
        "top": top_sentences(facts),
        "headline": headline(fit, first_place(facts)),
        "training": _training(facts) if is_preferences(fit) else "",
        "within": parts_of(fit),
        "ranking": fit.summary.get("has_common", True),
        "direction": direction_sentence(fit),
        "dimensions": dimension_sentences(fit),
        "about_gold": gold_sentence(fit.summary),
        "others": OTHERS[fit.summary.get("direction", "common")],
    }


def _training(facts: Facts) -> str:
    """Return how many preferences are probably right, from a sample of them; "" if unknown."""
    if (votes := facts.votes) is None:
        return ""
    rows = np.flatnonzero(votes.outcome != 0.5)
    rows = rows[:: 1 + len(rows) // _SAMPLE]
    first, second = (votes.items[code[rows]].tolist() for code in (votes.first, votes.second))
    found = _better(facts, first, second)
    if not found or None in found:
        return ""
    better = np.array(found, np.float64)
    right = np.where(votes.outcome[rows] > 0.5, better, 1.0 - better)
    mean, kept = (float(np.average(each, weights=votes.weight[rows])) for each in (right, right >= _KEEP))
    return (
        f"{percent(mean)} of the votes are expected to be right, and {percent(kept)} are right with a probability of "
        f"{percent(_KEEP)} or more. crowdsift export --keep {_KEEP} keeps those; without --keep every vote gets its "
        "probability, a soft label and a weight."
    )


def _better(facts: Facts, ones: list[Any], twos: list[Any]) -> list[float | None]:
    """Return the probabilities that the first items are better; None if unknown."""
    try:
        return [float(p) for p in np.atleast_1d(facts.fit.better(ones, twos))]
    except RequestError:
        return [None] * len(ones)


def _texts(table: dict[str, Any], value: str, digits: int, level: float) -> dict[str, Any]:
    # `level` is the value of a line and, for workers, the value without information.
    scale, score = table["scale"], partial(decimal, digits=digits)
    nothing = level if value == "reliability" else None
    columns: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
        value: (score, (value,)),
        "rank": (count, ("rank",)),
        "ranks": ("{:,.0f}–{:,.0f}".format, ("rank_lower", "rank_upper")),
        "votes": (count, ("votes",)),
        "agreement": (percent, ("agreement",)),
        "left": (percent, ("left",)),
        "side_bias": (partial(decimal, digits=1), ("side_bias",)),
    }
    found: dict[str, Any] = {
        name: texts(write, *(table[each][:FIRST_ROWS] for each in names))
        for name, (write, names) in columns.items()
        if names[0] in table
    }
    limits = [table[name][:FIRST_ROWS] for name in ("lower", "upper")]
    found["ends"] = [interval_text(low, high, digits, nothing) for low, high in zip(*limits, strict=True)]
    rows = zip(table[value][:FIRST_ROWS], *limits, strict=True)
    found["bars"] = [[] if at is None else bar(at, low, high, scale) for at, low, high in rows]
    inside = scale[0] < level < scale[1]
    found["zero"] = bar(level, level, level, scale)[0] if inside else ""
    return found


def item_columns(facts: Facts) -> dict[str, Any]:
    """Return the leaderboard as columns."""
    table = facts.fit.shown_items
    columns = _ranking(table)
    if by := facts.fit.context_columns:
        values = zip(*(table[name] for name in by), strict=True)
        columns["context"] = as_column([", ".join(map(label, value)) for value in values])
    result = _columns(columns)
    result["scale"] = value_range(table["score"], table["lower"], table["upper"])
    result["digits"] = 0 if facts.fit.summary.get("scale") == "elo" else 2
    joint = facts.evidence.joint
    if not facts.fit.summary.get("has_common", True):
        nothing = [None] * len(result["name"])
        result |= dict.fromkeys(("rank", "rank_lower", "rank_upper"), nothing)
    elif joint is not None:
        result["badge"] = first_badges(facts.fit, joint).tolist()[: len(result["name"])]
    result["parts"] = len(set(result.get("context", result["component"])))
    return result


def worker_columns(facts: Facts) -> dict[str, Any]:
    """Return the workers as columns, flagged ones first, then by votes."""
    table, population = facts.fit.worker_table, facts.population
    place = {word: len(VERDICTS) - i for i, word in enumerate(VERDICTS)}
    severity = np.array([place.get(word, 99) for word in population.verdict.tolist()])
    order = np.lexsort((np.arange(table.height), -population.votes, severity))
    columns = {
        "verdict": population.verdict,
        "name": table["worker"],
        "reliability": table["reliability"],
        "lower": table["lower"],
        "upper": table["upper"],
        "votes": table["comparisons"],
        "agreement": table["agreement"],
    }
    if np.isfinite(table["side_bias"].astype(np.float64)).any():
        columns["side_bias"] = table["side_bias"]
    if np.isfinite(population.left_share).any():
        columns["left"] = population.left_share
    result = _columns({name: column[order] for name, column in columns.items()})
    result["why"] = [
        [[reason.code, *reason.figures] for reason in population.reasons[i] if SHORT[reason.code]]
        for i in order[: len(result["name"])].tolist()
    ]
    result["why_text"] = [
        "; ".join(SHORT[code].format(*given) for code, *given in why) for why in result["why"][:FIRST_ROWS]
    ]
    result["flagged"] = min(int(population.flagged.sum()), len(result["name"]))
    result["scale"] = value_range(table["reliability"], table["lower"], table["upper"], population.level)
    result["level"] = population.level
    return result


def overall_columns(facts: Facts) -> dict[str, Any] | None:
    """Return the best items over all contexts; None without such a ranking."""
    if facts.fit.overall_ranking is None:
        return None
    table = facts.fit.overall_ranking.shown_items
    result = _columns({name: column[:FIRST_ROWS] for name, column in _ranking(table).items()})
    result["scale"] = value_range(table["score"], table["lower"], table["upper"])
    return {**result, "total": table.height}


def _ranking(table: Table) -> dict[str, NDArray[Any]]:
    return {
        "rank": table["rank"],
        "name": table["item"],
        "score": table["score"],
        "lower": table["lower"],
        "upper": table["upper"],
        "rank_lower": table["rank_lower"],
        "rank_upper": table["rank_upper"],
        "votes": table["comparisons"],
        "component": table["component"],
    }


def _columns(columns: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return columns as lists: labels as texts, numbers to six digits, None for missing values."""
    result: dict[str, Any] = {"total": len(next(iter(columns.values())))}
    texts = {
        name: [label(value) for value in column[:MOST_ROWS]]
        for name, column in columns.items()
        if name in ("name", "context")
    }
    others = _NUMBER_BYTES * len(columns) + _REASON_BYTES
    rows = _rows_within(texts, others)
    if rows < min(result["total"], MOST_ROWS):  # shorter labels leave room for more rows
        for name, long in texts.items():
            texts[name] = [shortened(text, LONGEST_NAME) for text in long]
        rows = _rows_within(texts, others)
    for name, column in columns.items():
        values = column[:rows]
        if name in texts:
            result[name] = texts[name][:rows]
        elif values.dtype.kind == "f":
            result[name] = [float(f"{v:.6g}") if v - v == 0 else None for v in values.tolist()]
        else:
            result[name] = values.tolist()
    return result


def _rows_within(texts: dict[str, list[str]], others: int) -> int:
    """Return how many rows fit into `MOST_BYTES`; a row takes its texts and `others` further bytes."""
    rows = list(zip(*texts.values(), strict=True))
    if sum(_MOST_ESCAPED * len("".join(row)) + 2 * len(row) + others for row in rows) < MOST_BYTES:
        return len(rows)
    sizes = [sum(len(as_json(text).encode()) for text in row) for row in rows]
    return int(np.searchsorted(np.cumsum(np.array(sizes, np.int64) + others), MOST_BYTES))


def value_range(*columns: Any) -> list[float]:
    """Return the limits of all values with a small margin."""
    values = np.concatenate([np.atleast_1d(np.asarray(c, np.float64)) for c in columns])
    values = values[np.isfinite(values)]
    if not len(values):
        return [0.0, 1.0]
    low, high = float(values.min()), float(values.max())
    air = 0.02 * (high - low) or 0.5
    return [float(f"{low - air:.5g}"), float(f"{high + air:.5g}")]


def as_json(value: Any) -> str:
    """Return JSON that no HTML parser can take for markup."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark, code in (("<", "003c"), (">", "003e"), ("&", "0026"), ("\u2028", "2028"), ("\u2029", "2029")):
        text = text.replace(mark, f"\\u{code}")
    return text


def what_is_followed(fit: Fit) -> dict[str, Any] | None:
    """Return the content of the section on covariates and features of items; None if the fit uses neither."""
    covariates = [each for each in fit.summary.get("covariates") or () if each["used"]]
    features = fit.summary.get("item_features") or {"used": False}
    if not covariates and not features["used"]:
        return None
    return {
        "covariates": covariates,
        "judges": _judges(fit) if covariates else [],
        "scores": _both_scores(fit) if covariates else [],
        "features": features if features["used"] else None,
    }


def _judges(fit: Fit) -> list[dict[str, Any]]:
    table = fit.coefficient_table
    if table is None:
        return []
    votes = dict(zip(fit.worker_table["worker"], fit.worker_table["comparisons"], strict=True))
    best = sorted(votes, key=lambda who: -votes[who])[:_FOLLOWED]
    place = {who: at for at, who in enumerate(best)}
    rows = [row for row in table.records() if row["worker"] in place]
    rows.sort(key=lambda row: place[row["worker"]])
    return [{**row, "worker": label(row["worker"])} for row in rows]


def _both_scores(fit: Fit) -> list[dict[str, Any]]:
    items = fit.item_table
    if "score_as_is" not in items:
        return []
    as_is = items["score_as_is"]
    rank = np.empty(len(as_is), np.int64)
    rank[np.argsort(-as_is, kind="stable")] = np.arange(1, len(as_is) + 1)
    best = np.argsort(-items["score"], kind="stable")[:_FOLLOWED]
    return [
        {
            "name": label(items["item"][row]),
            "score": float(items["score"][row]),
            "as_is": float(as_is[row]),
            "rank_as_is": int(rank[row]),
        }
        for row in best
    ]


def fit_html(fit: Fit) -> str:
    """Return the top of the leaderboard and the outcome of the fit, as HTML for a notebook."""
    table, verdict = fit.shown_items, fit.worker_table["verdict"].astype(str)
    counts = [(word, int((verdict == word).sum())) for word in VERDICTS]
    shown = min(table.height, _NOTEBOOK_ROWS)
    scale = value_range(*(table[name][:shown] for name in ("score", "lower", "upper")))
    return (
        environment()
        .get_template("fit.html")
        .render(
            method=fit.method,
            summary=fit.summary,
            level=level_text(fit.level),
            verdicts=[entry for entry in counts if entry[1]],
            rows=[_notebook_row(fit, i, scale) for i in range(shown)],
            more=table.height - shown,
            count=count,
            many=many,
        )
    )


def _notebook_row(fit: Fit, i: int, scale: list[float]) -> dict[str, Any]:
    table = fit.shown_items
    score, low, high = (float(table[name][i]) for name in ("score", "lower", "upper"))
    known = bool(np.isfinite([low, high]).all())
    return {
        "rank": int(table["rank"][i]),
        "name": shortened(item_label(fit.labels[i], fit.summary.get("by")), _NOTEBOOK_LABEL),
        "score": score,
        "at": bar(score, low, high, scale) if known else [],
        "interval": f"{low:.2f} to {high:.2f}",
        "votes": float(table["comparisons"][i]),
    }
