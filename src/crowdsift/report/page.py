"""The page: facts and pictures into the template, tables as compact JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.report import figures
from crowdsift.report.checks import run_checks
from crowdsift.report.columns import (
    FIRST_ROWS,
    LONGEST_NAME,
    as_json,
    item_columns,
    overall_columns,
    scale_words,
    worker_columns,
)
from crowdsift.report.follows import what_is_followed
from crowdsift.report.leftout import PARTS, Calibration, Without
from crowdsift.report.population import VERDICTS
from crowdsift.report.top import BADGES, history_figure, matrix_figure, top_sentences
from crowdsift.report.verdict import overall
from crowdsift.results.reasons import SHORT
from crowdsift.results.scales import level_text
from crowdsift.results.words import (
    chance,
    count,
    decimal,
    interval_text,
    item_label,
    many,
    percent,
    shortened,
)

if TYPE_CHECKING:
    from jinja2 import Environment

    from crowdsift.report.facts import Facts

__all__ = ["bar", "environment", "render"]

MOST_GROUPS = 50  # of a menu; more are searched
_OVERVIEW = 40  # items from which on the picture of all scores helps
_MOVERS = 8


@cache
def environment() -> Environment:
    """The templates; everything that goes in is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(facts: Facts, *, title: str, command: str) -> str:
    """The whole report as one HTML page.

    Parameters
    ----------
    facts
        What to show.
    title
        What the votes are about, or where they came from.
    command
        What makes the report again.
    """
    from markupsafe import Markup

    templates = environment()
    style, script = (
        (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
        for name in ("report.css", "report.js")
    )
    checks = run_checks(facts)
    state, answer, sentence = overall(checks)
    items, workers = item_columns(facts), worker_columns(facts)
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
        top=top_sentences(facts),
        items=items,
        **scale_words(facts),
        whole=overall_columns(facts),
        followed=what_is_followed(facts.fit),
        workers=workers,
        first_rows=FIRST_ROWS,
        trace_name=figures.trace_name(facts.fit.method),
        verdicts=_verdict_counts(facts),
        without=_without(facts),
        disputes=_disputes(facts),
        calibration=None if isinstance(facts.calibration, str) else facts.calibration,
        parts=PARTS,
        pictures={name: Markup(text) for name, text in _pictures(facts).items()},
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=Markup(
            as_json({"items": items, "workers": workers, "reasons": SHORT, "badges": BADGES})
        ),
        BADGES=BADGES,
        interval_text=interval_text,
        count=count,
        most_groups=MOST_GROUPS,
        many=many,
        percent=percent,
        chance=chance,
        decimal=decimal,
        bar=bar,
    )


def bar(
    value: float | None, low: float | None, high: float | None, scale: list[float]
) -> list[str]:
    """Where a dot and the ends of its interval stand, in per cent of the width.

    Examples
    --------
    >>> from crowdsift.report.page import bar
    >>> bar(0.5, 0.0, 1.0, [0.0, 2.0])
    ['25.0', '0.0', '50.0']
    """
    width = (scale[1] - scale[0]) or 1.0
    ends = [value if end is None else end for end in (low, high)]
    return [decimal(100 * ((at or 0.0) - scale[0]) / width, 1) for at in (value, *ends)]


def _pictures(facts: Facts) -> dict[str, str]:
    """Every picture for every width of a screen."""
    calibration, without = facts.calibration, facts.without
    overview = facts.fit.item_table.height > _OVERVIEW and facts.fit.summary["components"] == 1
    drawn: dict[str, Callable[[float], str]] = {
        "scores": lambda width: figures.scores_figure(facts, width) if overview else "",
        "history": lambda width: history_figure(facts, width),
        "matrix": lambda width: matrix_figure(facts, width),
        "workers": lambda width: figures.workers_figure(facts, width),
        "without": lambda width: (
            figures.without_figure(facts, without, width) if isinstance(without, Without) else ""
        ),
        "calibration": lambda width: (
            figures.calibration_figure(calibration, width)
            if isinstance(calibration, Calibration)
            else ""
        ),
        "convergence": lambda width: figures.convergence_figure(
            facts.fit.method, facts.fit.trace, width
        ),
    }
    sized = {}
    for name, draw in drawn.items():
        made = {kind: draw(width) for kind, width in figures.WIDTHS.items()}
        sized[name] = "".join(
            f'<div class="{kind}">{text}</div>' for kind, text in made.items() if text
        )
    return sized | {"share": figures.verdict_bar(facts) if facts.population.judged else ""}


def _verdict_counts(facts: Facts) -> list[dict[str, Any]]:
    population = facts.population
    total = max(float(population.votes.sum()), 1e-300)
    found = []
    for word in VERDICTS:
        members = population.verdict == word
        if members.any():
            share = float(population.votes[members].sum()) / total
            found.append({"word": word, "workers": int(members.sum()), "share": share})
    return found


def _without(facts: Facts) -> dict[str, Any]:
    """The two rankings in words, and the items that move most."""
    found = facts.without
    if isinstance(found, str):
        return {"why_not": found}
    before, after = found.before[facts.code], found.rank[facts.code]
    move = np.where(after > 0, before - after, 0)
    order = np.lexsort((before, -np.abs(move)))[:_MOVERS]
    names, by = facts.fit.labels, facts.fit.summary.get("by")
    best = {side: set(np.flatnonzero((ranks > 0) & (ranks <= 10)).tolist()) for side, ranks in (
        ("before", before), ("after", after))}  # fmt: skip
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
    """Divided pairs with the names and the fit's own view of them."""
    found = facts.disputes
    if isinstance(found, str):
        return {"why_not": found, "pairs": []}
    if not found:
        return {
            "why_not": "No pair has four votes with some on each side, so no dispute can be seen.",
            "pairs": [],
        }
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


def _better(facts: Facts, ones: list[Any], twos: list[Any]) -> list[float | None]:
    """How sure the fit is that the first is truly better; None where it does not say."""
    try:
        return [float(p) for p in np.atleast_1d(facts.fit.better(ones, twos))]
    except RequestError:
        return [None] * len(ones)


def _hash(text: str) -> str:
    """What allows exactly this text in the page's content security policy."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()
