"""The pictures of a report, each for a wide and for a narrow screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric.distributions import Z90
from crowdsift.report.facts import MOST_ITEMS, VERDICTS
from crowdsift.report.leftout import Calibration, Without
from crowdsift.results.history import ranks_over_updates
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

_MANY_DOTS = 5_000


def number(value: float) -> str:
    """A coordinate: one decimal, no trailing zero.

    Examples
    --------
    >>> from crowdsift.report.figures import number
    >>> number(3.0), number(2.26)
    ('3', '2.3')
    """
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def isolated(text: str) -> str:
    """Text that cannot turn its surroundings around, whatever direction it is written in."""
    return f"\u2068{text}\u2069"


class Scale:
    """A linear (or logarithmic) map from values to coordinates.

    Examples
    --------
    >>> from crowdsift.report.figures import Scale
    >>> Scale(0, 10, 100, 200)(5)
    150.0
    """

    def __init__(
        self, low: float, high: float, begin: float, end: float, *, log: bool = False
    ) -> None:
        self.log, self.low, self.high = log, low, high
        self._low, self._high = (log10(low), log10(high)) if log else (low, high)
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        at = log10(max(value, 1e-300)) if self.log else value
        width = self._high - self._low or 1.0
        return self._begin + (at - self._low) / width * (self._end - self._begin)

    def many(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """The coordinates of many values."""
        at = np.log10(np.maximum(values, 1e-300)) if self.log else values
        width = self._high - self._low or 1.0
        return np.asarray(self._begin + (at - self._low) / width * (self._end - self._begin))

    def ticks(self, most: int = 6) -> list[float]:
        """Round values inside the scale."""
        if not self.log:
            return nice_ticks(self.low, self.high, most)
        powers = range(floor(self._low), ceil(self._high) + 1)
        decades = self._high - self._low
        steps = tuple(range(1, 10)) if decades < 0.7 else (1, 2, 5) if decades < 3 else (1,)
        return [
            step * 10.0**power
            for power in powers
            for step in steps
            if self.low * 0.999 <= step * 10.0**power <= self.high * 1.001
        ]


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most so many round values from low to high.

    Examples
    --------
    >>> from crowdsift.report.figures import nice_ticks
    >>> nice_ticks(0, 1, 6)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / max(most - 1, 1)
    power = 10.0 ** floor(log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


class Drawing:
    """An SVG picture under construction.

    Parameters
    ----------
    width, height
        Of the picture, in its own units; one is a pixel at full size.
    title
        What the picture shows, for those who cannot see it.

    Examples
    --------
    >>> from crowdsift.report.figures import Drawing
    >>> picture = Drawing(10, 10, "A <line>")
    >>> picture.line(0, 0, 10, 10, "axis")
    >>> "&lt;line&gt;" in picture.text() and "<line " in picture.text()
    True
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height = width, height
        self._parts: list[str] = []
        self._title = title

    def text(self) -> str:
        """The finished picture."""
        title = escape(self._title)
        return (
            f'<svg viewBox="0 0 {number(self.width)} {number(self.height)}" '
            f'width="{number(self.width)}" height="{number(self.height)}" role="img" '
            f'aria-label="{title}">' + "".join(self._parts) + "</svg>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self._parts.append(
            f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" '
            f'class="{kind}"/>'
        )

    def circle(self, x: float, y: float, radius: float, kind: str, tip: str = "") -> None:
        """A circle, with a text that appears under the pointer."""
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self._parts.append(
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{kind}">'
            f"{inner}</circle>"
        )

    def rectangle(
        self, x: float, y: float, width: float, height: float, kind: str, tip: str = ""
    ) -> None:
        """A rectangle."""
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self._parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(max(width, 0.0))}" '
            f'height="{number(max(height, 0.0))}" class="{kind}">{inner}</rect>'
        )

    def path(self, points: Iterable[tuple[float, float]], kind: str, closed: bool = False) -> None:
        """A broken line through points."""
        joined = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        if joined:
            self._parts.append(f'<path d="M{joined}{"Z" if closed else ""}" class="{kind}"/>')

    def dots(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """Many dots as one shape: strokes of no length with round ends.

        Of very many only one in two by two points is drawn, so that the picture stays small.
        """
        at: Iterable[tuple[float, float]] = zip(xs, ys, strict=True)
        if len(xs) > _MANY_DOTS:
            at = ((2.0 * round(x / 2.0), 2.0 * round(y / 2.0)) for x, y in at)
        places = sorted({(number(x), number(y)) for x, y in at})
        if places:
            joined = "".join(f"M{x} {y}h0" for x, y in places)
            self._parts.append(f'<path d="{joined}" class="{kind}"/>')

    def label(self, x: float, y: float, text: str, kind: str = "tick", tip: str = "") -> None:
        """Text; its anchor and size are the class's."""
        inner = f"<title>{escape(tip)}</title>" if tip else ""
        self._parts.append(
            f'<text x="{number(x)}" y="{number(y)}" class="{kind}">{escape(text)}{inner}</text>'
        )

    def axis_x(self, scale: Scale, top: float, bottom: float, title: str, most: int = 6) -> None:
        """Grid lines, figures and the title of a horizontal axis."""
        ticks = scale.ticks(most)
        for tick, result in zip(ticks, tick_labels(ticks), strict=True):
            self.line(scale(tick), top, scale(tick), bottom, "grid")
            self.label(scale(tick), bottom + 16, result, "tick middle")
        self.label(0.5 * (scale(scale.low) + scale(scale.high)), bottom + 36, title, "name middle")

    def axis_y(self, scale: Scale, left: float, right: float, title: str, most: int = 6) -> None:
        """Grid lines, figures and, above them, the title of a vertical axis."""
        ticks = scale.ticks(most)
        for tick, result in zip(ticks, tick_labels(ticks), strict=True):
            self.line(left, scale(tick), right, scale(tick), "grid")
            self.label(left - 6, scale(tick) + 4, result, "tick end")
        self.label(4, 14, title, "name")


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """The figures of an axis, all with as many decimals as one of them needs.

    Examples
    --------
    >>> from crowdsift.report.figures import tick_labels
    >>> tick_labels([0.0, 0.5, 1.0]), tick_labels([1.0, 10.0, 1000.0])
    (['0.0', '0.5', '1.0'], ['1', '10', '1,000'])
    """
    decimals = next(
        (n for n in range(7) if all(abs(t - round(t, n)) < 1e-9 * max(abs(t), 1) for t in ticks)), 7
    )
    return [f"{t:,.{decimals}f}".replace("-", "\u2212") for t in ticks]


WIDTHS = {"wide": 970, "between": 660, "narrow": 360}  # by the class that shows it
_ALL_TIPS = 400  # workers up to which each has a circle of its own, with a tip
_SLOPES = 15  # items in the picture of two rankings
_BAND = 400  # points of a band
_MATRIX_ITEMS = {True: 30, False: 10}  # items of the matrix on a wide screen and on a phone
_MATRIX_LABEL = {True: 30, False: 14}  # characters of their labels
_CELLS = {True: (24.0, 44.0), False: (18.0, 30.0)}  # the least and the most of a cell's width
_SHADES = 5
_LETTER = 6.7  # the width of a letter, roughly
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


def matrix_figure(facts: Facts, width: float) -> str:
    """Probability that the row's item is preferred to the column's, for the best items."""
    fit = facts.fit
    if fit.item_table.height > MOST_ITEMS or fit.summary.get("components") != 1:
        return ""
    wide = width > 500
    shown = min(_MATRIX_ITEMS[wide], fit.item_table.height)
    if shown < 3:
        return ""
    matrix = facts.win_matrix[:shown, :shown]
    names = [item_label(fit.labels[i], fit.summary.get("by")) for i in range(shown)]
    short = abbreviated(names, _MATRIX_LABEL[wide])
    left = _LETTER * max(map(len, short)) + 38.0
    least, most = _CELLS[wide]
    shown = min(shown, int((width - left - 4.0) / least))
    cell = min((width - left - 4.0) / shown, most)
    top = 26.0
    picture = Drawing(width, top + cell * shown + 4.0, "Who is preferred to whom")
    for i in range(shown):
        middle = top + cell * (i + 0.5) + 4.0
        tip = shortened(names[i], _TIP)
        picture.label(left - 8.0, middle, f"{isolated(short[i])} {i + 1}", "item end", tip)
        picture.label(left + cell * (i + 0.5), top - 8.0, str(i + 1), "tick middle")
        for j in range(shown):
            p = float(matrix[i, j])
            shade = min(int(abs(p - 0.5) * 2.0 * _SHADES), _SHADES - 1)
            kind = "same" if i == j else f"{'win' if p > 0.5 else 'loss'}{shade}"
            at = left + cell * j, top + cell * i
            picture.rectangle(*at, cell - 1.5, cell - 1.5, f"cell {kind}")
            if i != j:
                text = f"{100 * p:.0f}"
                picture.label(at[0] + 0.5 * cell - 0.75, middle, text, "tick share middle")
    return picture.text()


def history_figure(facts: Facts, width: float) -> str:
    """Ranks of the items that are the best now, from one update to the next."""
    votes, ranks = ranks_over_updates(facts.fit.summary.get("history") or [])
    if len(votes) < 2:
        return ""
    names, wide = list(ranks), width > 500
    lowest = max(max(place or 0 for place in places) for places in ranks.values())
    right = width - (220.0 if wide else 120.0)
    left, top, bottom = 36.0, 30.0, 40.0 + 20.0 * min(max(lowest, 4), 18)
    picture = Drawing(width, bottom + 44.0, "Ranks of the best items over updates")
    x = Scale(votes[0], votes[-1], left, right)
    y = Scale(1, max(lowest, 2), top + 8.0, bottom - 8.0)
    picture.axis_x(x, top, bottom, "votes", 5 if wide else 3)
    picture.label(4, 14, "rank", "name")
    short = abbreviated(names, 30 if wide else 14)
    for place, name in enumerate(names):
        points = [(x(v), y(at)) for v, at in zip(votes, ranks[name], strict=True) if at]
        kind = "same" if place else "up"
        picture.path(points, f"history {kind}")
        for at in points:
            picture.circle(*at, 3, f"end-dot {kind}", f"{name}")
        now = ranks[name][-1]
        picture.label(right + 8.0, points[-1][1] + 4.0, f"{now} {isolated(short[place])}", "item",
                      shortened(name, _TIP))  # fmt: skip
    return picture.text()
