"""The pictures of a report, each for a wide and for a narrow screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.numeric.distributions import Z90
from crowdsift.report.leftout import Calibration, Without
from crowdsift.report.population import VERDICTS
from crowdsift.report.svg import Drawing, Scale, isolated
from crowdsift.results.reasons import typical_reliability
from crowdsift.results.words import (
    abbreviated,
    count,
    item_label,
    label,
    many,
    percent,
    shortened,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.report.facts import Facts

__all__ = [
    "WIDTHS",
    "calibration_figure",
    "convergence_figure",
    "scores_figure",
    "trace_name",
    "verdict_bar",
    "without_figure",
    "workers_figure",
]

WIDTHS = {"wide": 970, "between": 660, "narrow": 360}  # by the class that shows it
_ALL_TIPS = 400  # workers up to which each has a circle of its own, with a tip
_SLOPES = 15  # items in the picture of two rankings
_BAND = 400  # points of a band
_TIP = 300  # characters of a label under the pointer


def workers_figure(facts: Facts, width: float) -> str:
    """Reliability against votes, coloured by verdict, the crowd's distribution behind it."""
    table, population = facts.fit.worker_table, facts.population
    reliability = table["reliability"].astype(np.float64)
    if not len(reliability) or not np.isfinite(reliability).any():
        return ""
    margin = 110.0 if width > 500 else 12.0  # room for the names of levels
    height, left, right, top, bottom = 400.0, 46.0, width - margin, 30.0, 352.0
    picture = Drawing(width, height, "Reliability of every worker against its number of votes")
    low, high = _reliability_range(facts)
    fewest, most = float(population.votes.min()), float(population.votes.max())
    x = Scale(max(fewest * 0.8, 0.5), most * 1.25, left, right, log=True)
    y = Scale(low, high, bottom, top)
    if population.density is not None:
        at, tall = population.density
        inside = (at >= low) & (at <= high)
        reach = left + tall[inside] / tall.max() * 0.45 * (right - left)
        shape = list(zip(reach.tolist(), y.many(at[inside]).tolist(), strict=True))
        if shape:
            picture.path(
                [(left, shape[0][1]), *shape, (left, shape[-1][1])], "population", closed=True
            )
    picture.axis_x(x, top, bottom, "votes of the worker", 5)
    picture.axis_y(y, left, right, "reliability")
    _levels(picture, facts, y, left, right, width)
    drawn = np.isfinite(reliability)
    for word in [*VERDICTS, ""]:
        members = np.flatnonzero((population.verdict == word) & drawn)
        xs = x.many(population.votes[members])
        ys = y.many(np.clip(reliability[members], low, high))
        kind = f"dot v-{word or 'none'}"
        if len(reliability) > _ALL_TIPS:
            picture.dots(xs.tolist(), ys.tolist(), f"dots {kind}")
            continue
        for i, cx, cy in zip(members.tolist(), xs, ys, strict=True):
            name = isolated(shortened(label(table["worker"][i]), 60))
            tip = f"{name}: {word or 'no verdict'}, reliability {reliability[i]:.2f}, "
            picture.circle(cx, cy, 5, kind, tip + many(population.votes[i], "vote"))
    return picture.text()


def _reliability_range(facts: Facts) -> tuple[float, float]:
    """From the lowest to the highest estimate, 0 included, with some air."""
    values = facts.fit.worker_table["reliability"].astype(np.float64)
    values = np.append(values[np.isfinite(values)], facts.population.level)
    low, high = float(values.min()), float(values.max())
    air = 0.08 * (high - low) or 0.5
    return low - air, high + air


def _levels(
    picture: Drawing, facts: Facts, y: Scale, left: float, right: float, width: float
) -> None:
    """The lines that verdicts measure by, named beside the picture where there is room."""
    level = facts.population.level
    lines = [(level, "zero", "clicks at random")]
    typical = (
        typical_reliability(facts.fit.worker_table, level) if facts.population.judged else np.nan
    )
    if np.isfinite(typical) and abs(y(typical + level) - y(level)) > 26:
        lines.append((typical + level, "typical", "typical worker"))
    for at, kind, name in lines:
        picture.line(left, y(at), right, y(at), kind)
        if width - right > 50:
            picture.label(right + 6, y(at) + 4, name)
        else:
            picture.label(right - 2, y(at) - 5, name, "note end")


def scores_figure(facts: Facts, width: float) -> str:
    """All scores from the best to the worst, with their intervals as a band."""
    table = facts.fit.shown_items
    score = table["score"].astype(np.float64)
    k = len(score)
    height, left, right, top, bottom = 300.0, 46.0, width - 26.0, 30.0, 252.0
    picture = Drawing(width, height, "Scores of all items from the best to the worst")
    take = np.unique(np.linspace(0, k - 1, min(k, _BAND)).round().astype(np.int64))
    lower, upper = (_smooth(table[name].astype(np.float64), k)[take] for name in ("lower", "upper"))
    known = np.isfinite(lower) & np.isfinite(upper)
    ends = [score.min(), score.max()]
    if known.any():
        ends += [float(lower[known].min()), float(upper[known].max())]
    x = Scale(1, k, left, right)
    y = Scale(min(ends), max(ends), bottom, top)
    picture.axis_x(x, top, bottom, "rank", 6)
    picture.axis_y(y, left, right, "score")
    place = x.many(take[known] + 1.0)
    up, down = y.many(upper[known]), y.many(lower[known])
    outline = [*zip(place, up, strict=True), *zip(place[::-1], down[::-1], strict=True)]
    picture.path(outline, "band", closed=True)
    picture.path(zip(x.many(take + 1.0), y.many(score[take]), strict=True), "curve")
    return picture.text()


def _smooth(values: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """A running mean over a hundredth of the items: a band one can read."""
    window = k // 100 | 1
    padded = np.pad(values, window // 2, mode="edge")
    total = np.cumsum(np.insert(padded, 0, 0.0))
    return np.asarray((total[window:] - total[:-window]) / window)


def without_figure(facts: Facts, found: Without, width: float) -> str:
    """The best items with all votes and without those of flagged workers."""
    names, by = facts.fit.labels, facts.fit.summary.get("by")
    shown = _slopes(facts, found)
    if len(shown) < 2:
        return ""
    best = {side: {i: place for place, i in enumerate(order)} for side, order in (
        ("before", sorted(shown, key=lambda i: (found.before[facts.code[i]], i))),
        ("after", sorted(shown, key=lambda i: (found.rank[facts.code[i]] or 10**9, i))),
    )}  # fmt: skip
    step, top = 24.0, 44.0
    wide = width > 500
    left, right = (0.36 * width, 0.64 * width) if wide else (0.4 * width, 0.6 * width)
    picture = Drawing(width, top + step * len(shown), "Ranks with and without flagged workers")
    picture.label(left - 8, 18, "all votes", "name end")
    picture.label(right + 8, 18, "without flagged", "name")
    most = 34 if wide else 15
    labels = [item_label(names[i], by) for i in shown]
    for i, name, short in zip(shown, labels, abbreviated(labels, most), strict=True):
        rank = int(found.rank[facts.code[i]])
        before = int(found.before[facts.code[i]])
        one, two = (top + step * best[side][i] for side in ("before", "after"))
        short, name = isolated(short), shortened(name, _TIP)
        move = "up" if 0 < rank < before else "down" if rank > before or not rank else "same"
        picture.line(left, one, right, two, f"slope {move}")
        picture.circle(left, one, 3.5, f"end-dot {move}")
        picture.circle(right, two, 3.5, f"end-dot {move}")
        picture.label(left - 8, one + 4, f"{short} {before}", "item end", name)
        picture.label(right + 8, two + 4, f"{rank or '–'} {short}", "item", name)
    return picture.text()


def _slopes(facts: Facts, found: Without) -> list[int]:
    """Rows of the items that are among the best in either ranking; one component only."""
    first = facts.fit.item_table["component"] == facts.fit.item_table["component"][0]
    before, after = found.before[facts.code], found.rank[facts.code]
    after = np.where(after > 0, after, 10**9)
    best = (before <= _SLOPES) | (after <= _SLOPES)
    rows = np.flatnonzero(first & best)
    order = np.argsort(np.minimum(before, after)[rows], kind="stable")
    return [int(i) for i in rows[order][: _SLOPES + 5]]


def calibration_figure(found: Calibration, width: float) -> str:
    """Predicted against observed shares of left-out votes, with 90 % intervals."""
    size = min(width, 440.0)
    left, right, top, bottom = 46.0, size - 14.0, 30.0, size - 56.0
    picture = Drawing(size, size, "Predicted and observed shares of left-out votes")
    error = Z90 * np.sqrt(found.predicted * (1.0 - found.predicted) / found.votes)
    floor = 100.0 * min(0.5, float(np.min(found.observed)))
    x, y = Scale(50, 100, left, right), Scale(min(50.0, floor), 100, bottom, top)
    picture.axis_x(x, top, bottom, "predicted, % for the favourite", 6)
    picture.axis_y(y, left, right, "observed, %")
    picture.line(x(50), y(50), x(100), y(100), "ideal")
    for p, half in zip(found.predicted, error, strict=True):
        ends = [y(100.0 * min(max(p + side * half, floor / 100), 1.0)) for side in (-1, 1)]
        picture.rectangle(x(100 * p) - 6, ends[1], 12, ends[0] - ends[1], "expected")
    for p, seen, votes in zip(found.predicted, found.observed, found.votes, strict=True):
        tip = f"predicted {percent(p)}, observed {percent(seen)}, {many(votes, 'vote')}"
        picture.circle(x(100 * p), y(100 * seen), 5, "dot curve-dot", tip)
    return picture.text()


def trace_name(method: str) -> str:
    """What the trace of a fit holds.

    Examples
    --------
    >>> from crowdsift.report.figures import trace_name
    >>> trace_name("sift")
    'approximate log evidence'
    """
    return "approximate log evidence" if method == "sift" else "objective, a vote"


def convergence_figure(method: str, trace: tuple[float, ...], width: float) -> str:
    """The trace of a fit, iteration by iteration."""
    values = np.array(trace)
    if len(values) < 2 or not np.isfinite(values).all() or values.min() == values.max():
        return ""
    height, left, right, top, bottom = 220.0, 76.0, width - 12.0, 30.0, 172.0
    picture = Drawing(width, height, "Convergence of the calculation")
    x = Scale(0, len(values) - 1, left, right)
    y = Scale(float(values.min()), float(values.max()), bottom, top)
    picture.axis_x(x, top, bottom, "iteration", 6 if len(values) > 6 else len(values))
    picture.axis_y(y, left, right, trace_name(method), 5)
    points = list(zip(x.many(np.arange(len(values)) * 1.0), y.many(values), strict=True))
    picture.path(points, "curve")
    if len(points) <= 60:
        for at_x, at_y in points:
            picture.circle(at_x, at_y, 3, "dot curve-dot")
    return picture.text()


def verdict_bar(facts: Facts) -> str:
    """The votes by the verdict on who gave them, as one bar over the whole width."""
    population = facts.population
    total = max(float(population.votes.sum()), 1e-300)
    parts, at = [], 0.0
    for word in VERDICTS:
        members = population.verdict == word
        share = float(population.votes[members].sum()) / total
        if share <= 0.0:
            continue
        tip = f"{word}: {count(int(members.sum()))} workers, {percent(share)} of the votes"
        parts.append(
            f'<rect x="{100 * at:.2f}%" width="{100 * share:.2f}%" height="100%" '
            f'class="fill v-{word}"><title>{tip}</title></rect>'
        )
        at += share
    return (
        '<svg class="share" width="100%" height="18" role="img" '
        f'aria-label="Votes by verdict">{"".join(parts)}</svg>'
    )
