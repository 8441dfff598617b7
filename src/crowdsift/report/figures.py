"""The figures of a report: described once in units of their data, drawn as SVG for any width.

A `Chart` has axes and layers; `draw` turns it into SVG, and `crowdsift.plots` into axes of matplotlib. Figures that
only a page shows have their own drawing functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any, Literal, NamedTuple

import numpy as np

from crowdsift.checks.joint import win_matrix
from crowdsift.checks.leftout import Calibration, Without
from crowdsift.fitting.refit import ranks_over_updates
from crowdsift.numeric import Indices, Vector
from crowdsift.numeric.distributions import Z90
from crowdsift.report.facts import MOST_ITEMS, VERDICTS, Facts, Population
from crowdsift.results.fit import Fit
from crowdsift.results.reasons import typical_reliability
from crowdsift.results.words import abbreviated, count, item_label, label, many, percent, shortened

Drawn = Callable[[float], str]  # SVG of a figure for a screen width

_MANY_DOTS = 5_000  # dots above which a cloud is drawn on a coarser grid
WIDTHS = {"wide": 970, "between": 660, "narrow": 360}  # by the class that shows it
_ALL_TIPS = 400  # most workers with separate circles and tips
_SLOPES = 15  # items in the picture of two rankings
_BAND = 400  # points of a band
_LEVELS_APART = 0.081  # share of the height above which the names of two levels do not overlap
_MATRIX_ITEMS = {True: 30, False: 10}  # items of the matrix on a wide screen and on a phone
_MATRIX_LABEL = {True: 30, False: 14}  # characters of their labels
_CELLS = {True: (24.0, 44.0), False: (18.0, 30.0)}  # least and largest width of a cell
_SHADES = 5
_LETTER = 6.7  # approximate width of a letter
_TIP = 300  # characters of a label in a tip


@dataclass(frozen=True)
class Chart:
    """A figure in units of its data; `draw` turns it into SVG, `crowdsift.plots` into axes of matplotlib.

    `title`: a description for those who cannot see the figure; `x`, `y`, `marks`: the axes and the layers; `height`,
    `left`, `right`: of the SVG, in pixels; the right margin of a wide and of a narrow screen; `square`: whether the SVG
    is as high as wide, and `height` at most.
    """

    title: str
    x: Axis
    y: Axis
    marks: list[Mark]
    height: float
    left: float = 46.0
    right: tuple[float, float] = (12.0, 12.0)
    square: bool = False


class Axis(NamedTuple):
    """The title and the ends of an axis, and its largest number of ticks."""

    title: str
    low: float
    high: float
    ticks: int = 6
    log: bool = False


class Mark(NamedTuple):
    """One layer of a chart, in units of its axes.

    `shape`: area (an outline), line, level (a line over the whole width), box (from y[0] to y[1]), dots, cloud (too
    many dots for tips), rays (lines from the origin), or names (the tips as labels). If there is no room for all names,
    the first ones are drawn; `x`, `y`: its points; `kind`: its meaning, which decides its colours; a class of the
    page's style; `name`, `tips`: the name of the layer, and a text for every dot; `size`: the radius of dots, in
    pixels.
    """

    shape: Literal["area", "line", "level", "box", "dots", "cloud", "rays", "names"]
    x: Vector
    y: Vector
    kind: str
    name: str = ""
    tips: Sequence[str] = ()
    size: float = 5.0


def draw(chart: Chart, width: float) -> str:
    """Return a chart as SVG: areas first, then the axes, then all other layers."""
    width = min(width, chart.height) if chart.square else width
    height = width if chart.square else chart.height
    left, right, top = chart.left, width - chart.right[width <= 500], 30.0
    bottom = height - (56.0 if chart.square else 48.0)
    picture = Drawing(width, height, chart.title)
    x = Scale(chart.x.low, chart.x.high, left, right, log=chart.x.log)
    y = Scale(chart.y.low, chart.y.high, bottom, top)
    for mark in chart.marks:
        if mark.shape == "area":
            points = zip(x(mark.x), y(mark.y), strict=True)
            picture.path(points, mark.kind, closed=True)
    picture.axis_x(x, top, bottom, chart.x.title, chart.x.ticks)
    picture.axis_y(y, left, right, chart.y.title, chart.y.ticks)
    for mark in chart.marks:
        if mark.shape == "level":
            at = y(float(mark.y[0]))
            picture.line(left, at, right, at, mark.kind)
            if width - right > 50:
                picture.label(right + 6, at + 4, mark.name)
            else:
                picture.label(right - 2, at - 5, mark.name, "note end")
        elif mark.shape == "rays":
            ends = zip(x(mark.x).tolist(), y(mark.y).tolist(), strict=True)
            picture.rays((x(0.0), y(0.0)), ends, f"ray {mark.kind}")
        elif mark.shape == "names":
            _draw_names(picture, mark, x(mark.x).tolist(), y(mark.y).tolist())
        elif mark.shape != "area":
            _draw_mark(picture, mark, x(mark.x).tolist(), y(mark.y))
    return picture.text()


def _draw_mark(picture: Drawing, mark: Mark, x: list[float], y: Vector) -> None:
    """Draw a layer whose points are in pixels."""
    if mark.shape == "line" and len(x) == 2:
        picture.line(x[0], y[0], x[1], y[1], mark.kind)
    elif mark.shape == "line":
        picture.path(zip(x, y.tolist(), strict=True), mark.kind)
    elif mark.shape == "cloud":
        picture.dots(x, y.tolist(), f"dots {mark.kind}")
    elif mark.shape == "box":
        for at, low, high in zip(x, *y.tolist(), strict=True):
            picture.rectangle(at - 6, high, 12, low - high, mark.kind)
    else:
        tips = mark.tips or [""] * len(x)
        for at, up, tip in zip(x, y.tolist(), tips, strict=True):
            picture.circle(at, up, mark.size, mark.kind, tip)


def _draw_names(picture: Drawing, mark: Mark, x: list[float], y: list[float]) -> None:
    """Write names beside their points, if they stay inside the picture and do not overlap."""
    taken = [(at - 5.0, up - 5.0, at + 5.0, up + 5.0) for at, up in zip(x, y, strict=True)]
    short = abbreviated(list(mark.tips), 24 if picture.width > 500 else 14)
    for at, up, name, tip in zip(x, y, short, mark.tips, strict=True):
        wide = _LETTER * len(name)
        for left in (at + 8.0, at - 8.0 - wide):
            box = (left, up - 8.0, left + wide, up + 6.0)
            free = not any(
                box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
            )
            if free and left > 2.0 and left + wide < picture.width - 2.0:
                taken.append(box)
                picture.label(left, up + 4.0, isolated(name), mark.kind, tip)
                break


def map_chart(fit: Fit) -> Chart | None:
    """Return the preference map: items as points and workers as rays in the first two dimensions.

    Weights are scaled so that the 98th percentile of their lengths reaches the outermost items. If there are many
    items, the outermost ones are shown. None with one dimension.
    """
    items, workers = fit.item_table, fit.worker_table
    if "position_2" not in items or "weight_2" not in workers:
        return None
    at = np.stack([items[name].astype(np.float64) for name in ("score", "position_2")])
    reach = 1.12 * float(np.abs(at).max()) or 1.0
    weight = np.stack([workers[name].astype(np.float64) for name in ("reliability", "weight_2")])
    length = np.hypot(*weight)
    unit = float(np.quantile(length, 0.98)) or 1.0
    weight = weight * (reach / np.maximum(length, unit))
    marks, few = [], workers.height <= _ALL_TIPS
    for word in [*VERDICTS[::-1], ""]:
        members = np.flatnonzero(workers["verdict"] == word)
        kind, (x, y), name = f"v-{word or 'none'}", weight[:, members], word or "no verdict"
        tips = [
            f"{isolated(shortened(label(workers['worker'][i]), 60))}: {name}" for i in (members.tolist() if few else ())
        ]
        if few:
            marks.append(Mark("rays", x, y, kind))
        marks.append(Mark("dots" if few else "cloud", x, y, f"dot {kind}", name, tips, 2.5))
    by, order = fit.summary.get("by"), np.argsort(-np.hypot(*at), kind="stable")[:_ALL_TIPS]
    names = [shortened(item_label(fit.labels[i], by), _TIP) for i in order]
    x, y = at[:, order]
    marks.append(Mark("dots", x, y, "dot item-dot", "items", names, 4.5))
    marks.append(Mark("names", x, y, "item", tips=names))
    called = fit.summary["dimension_names"][0]
    across = Axis("score", -reach, reach, 5)
    up = Axis(f"dimension 2{f': {called}' if called else ''}", -reach, reach, 5)
    title = "Preference map: items as points, workers as directions, in the first two dimensions"
    return Chart(title, across, up, marks, 620.0, left=50.0, right=(36.0, 36.0), square=True)


def workers_chart(fit: Fit, population: Population) -> Chart | None:
    """Return reliability against votes by verdict, in front of the distribution of all workers."""
    # None if the method estimates no reliabilities.
    reliability = fit.worker_table["reliability"].astype(np.float64)
    known = np.isfinite(reliability)
    if not known.any():
        return None
    level, votes = population.level, population.votes
    ends = np.append(reliability[known], level)
    air = 0.08 * float(np.ptp(ends)) or 0.5
    x = Axis("votes of the worker", max(votes.min() * 0.8, 0.5), votes.max() * 1.25, 5, log=True)
    y = Axis("reliability", float(ends.min()) - air, float(ends.max()) + air)
    marks = []
    if population.density is not None:
        at, tall = population.density
        inside = (at >= y.low) & (at <= y.high)
        if inside.any():
            reach = np.pad(0.45 * tall[inside] / tall.max(), 1)
            outline = np.pad(at[inside], 1, mode="edge")
            marks.append(Mark("area", x.low * (x.high / x.low) ** reach, outline, "population"))
    marks.append(_level(level, "zero", "clicks at random"))
    typical = typical_reliability(fit.worker_table, level) if population.judged else np.nan
    if abs(typical) > _LEVELS_APART * (y.high - y.low):
        marks.append(_level(typical + level, "typical", "typical worker"))
    names, few = fit.worker_table["worker"], len(reliability) <= _ALL_TIPS
    for word in [*VERDICTS, ""]:
        members = np.flatnonzero((population.verdict == word) & known)
        name, tips = word or "no verdict", []
        for i in members.tolist() if few else ():
            tip = f"{isolated(shortened(label(names[i]), 60))}: {name}, reliability "
            tips.append(f"{tip}{reliability[i]:.2f}, {many(votes[i], 'vote')}")
        marks.append(
            Mark(
                "dots" if few else "cloud", votes[members], reliability[members], f"dot v-{word or 'none'}", name, tips
            )
        )
    title = "Reliability of every worker against its number of votes"
    return Chart(title, x, y, marks, 400.0, right=(110.0, 12.0))  # room for names of levels


def _level(at: float, kind: str, name: str) -> Mark:
    return Mark("level", np.empty(0), np.array([at]), kind, name)


def scores_chart(fit: Fit) -> Chart:
    """Return all scores from the best to the worst, with their intervals as a band."""
    table = fit.shown_items
    score = table["score"].astype(np.float64)
    k = len(score)
    take = np.unique(np.linspace(0, k - 1, min(k, _BAND)).round().astype(np.int64))
    lower, upper = (_smooth(table[name].astype(np.float64), k)[take] for name in ("lower", "upper"))
    known = np.isfinite(lower) & np.isfinite(upper)
    ends = np.concatenate([score, lower[known], upper[known]])
    place = take[known] + 1.0
    outline = np.concatenate([upper[known], lower[known][::-1]])
    marks = [
        Mark("area", np.concatenate([place, place[::-1]]).astype(np.float64), outline, "band"),
        Mark("line", 1.0 + take.astype(np.float64), score[take], "curve"),
    ]
    x, y = Axis("rank", 1, k), Axis("score", float(ends.min()), float(ends.max()))
    title = "Scores of all items from the best to the worst"
    return Chart(title, x, y, marks, 300.0, right=(26.0, 26.0))


def _smooth(values: Vector, k: int) -> Vector:
    window = k // 100 | 1
    padded = np.pad(values, window // 2, mode="edge")
    total = np.cumsum(np.insert(padded, 0, 0.0))
    return np.asarray((total[window:] - total[:-window]) / window)


def calibration_chart(found: Calibration) -> Chart:
    """Return predicted against observed shares of left-out votes, with 90 % intervals."""
    predicted, observed = 100.0 * found.predicted, 100.0 * found.observed
    half = 100.0 * Z90 * np.sqrt(found.predicted * (1.0 - found.predicted) / found.votes)
    floor = min(50.0, float(observed.min()))
    expected = np.clip([predicted - half, predicted + half], floor, 100.0)
    tips = [
        f"predicted {percent(p)}, observed {percent(seen)}, {many(votes, 'vote')}"
        for p, seen, votes in zip(found.predicted, found.observed, found.votes, strict=True)
    ]
    marks = [
        Mark("line", np.array([50.0, 100.0]), np.array([50.0, 100.0]), "ideal"),
        Mark("box", predicted, expected, "expected"),
        Mark("dots", predicted, observed, "dot curve-dot", tips=tips),
    ]
    x = Axis("predicted, % for the favourite", 50.0, 100.0)
    y = Axis("observed, %", floor, 100.0)
    title = "Predicted and observed shares of left-out votes"
    return Chart(title, x, y, marks, 440.0, right=(14.0, 14.0), square=True)


def convergence_chart(method: str, trace: tuple[float, ...]) -> Chart:
    """Return the trace of a fit, iteration by iteration."""
    values, at = np.array(trace), np.arange(len(trace), dtype=np.float64)
    marks = [Mark("line", at, values, "curve")]
    if len(values) <= 60:
        marks.append(Mark("dots", at, values, "dot curve-dot", size=3.0))
    x = Axis("iteration", 0, len(values) - 1, min(len(values), 6))
    y = Axis(trace_name(method), float(values.min()), float(values.max()), 5)
    return Chart("Convergence of the calculation", x, y, marks, 220.0, left=76.0)


def trace_name(method: str) -> str:
    """Return the name of the quantity in the trace of a fit."""
    return "approximate log evidence" if method == "sift" else "objective, a vote"


class Slope(NamedTuple):
    """An item in two rankings: its row, its ranks (0 if unranked), its positions among those shown."""

    row: int
    before: int
    after: int
    places: tuple[int, int]

    @property
    def move(self) -> str:
        """Return how the item moves: "up", "down" or "same"; an item that loses all votes moves down."""
        if not self.after or self.after > self.before:
            return "down"
        return "up" if self.after < self.before else "same"


def slopes(fit: Fit, code: Indices, found: Without, best: int, most: int) -> list[Slope]:
    """Return at most `most` items of the first component that are among the best in either ranking."""
    component = fit.item_table["component"]
    before, rank = found.before[code], found.rank[code]
    after = np.where(rank > 0, rank, 10**9)
    best_of = np.minimum(before, after)
    rows = np.flatnonzero((component == component[0]) & (best_of <= best))
    rows = rows[np.argsort(best_of[rows], kind="stable")][:most]
    orders = (rows[np.lexsort((rows, ranks[rows]))].tolist() for ranks in (before, after))
    one, two = ({row: place for place, row in enumerate(order)} for order in orders)
    return [Slope(i, int(before[i]), int(rank[i]), (one[i], two[i])) for i in rows.tolist()]


def without_figure(facts: Facts) -> Drawn | None:
    """Draw the best items with all votes and without those of flagged workers."""
    found = facts.without
    if isinstance(found, str):
        return None
    names, by = facts.fit.labels, facts.fit.summary.get("by")
    shown = slopes(facts.fit, facts.code, found, _SLOPES, _SLOPES + 5)
    if len(shown) < 2:
        return None
    labels = [item_label(names[each.row], by) for each in shown]
    tips = [shortened(name, _TIP) for name in labels]

    def drawn(width: float) -> str:
        step, top, wide = 24.0, 44.0, width > 500
        left, right = (0.36 * width, 0.64 * width) if wide else (0.4 * width, 0.6 * width)
        picture = Drawing(width, top + step * len(shown), "Ranks with and without flagged workers")
        picture.label(left - 8, 18, "all votes", "name end")
        picture.label(right + 8, 18, "without flagged", "name")
        short = abbreviated(labels, 34 if wide else 15)
        for each, tip, name in zip(shown, tips, map(isolated, short), strict=True):
            one, two = (top + step * place for place in each.places)
            picture.line(left, one, right, two, f"slope {each.move}")
            picture.circle(left, one, 3.5, f"end-dot {each.move}")
            picture.circle(right, two, 3.5, f"end-dot {each.move}")
            picture.label(left - 8, one + 4, f"{name} {each.before}", "item end", tip)
            picture.label(right + 8, two + 4, f"{each.after or '–'} {name}", "item", tip)
        return picture.text()

    return drawn


def matrix_figure(facts: Facts) -> Drawn | None:
    """Draw the probability that the row's item is preferred to the column's, for the best items."""
    fit = facts.fit
    most = min(_MATRIX_ITEMS[True], fit.item_table.height)
    if fit.item_table.height > MOST_ITEMS or fit.summary.get("components") != 1 or most < 3:
        return None
    matrix, labels, by = win_matrix(fit), fit.labels, fit.summary.get("by")
    names = [item_label(labels[i], by) for i in range(most)]
    tips = [shortened(name, _TIP) for name in names]

    def drawn(width: float) -> str:
        wide = width > 500
        shown = min(_MATRIX_ITEMS[wide], most)
        short = abbreviated(names[:shown], _MATRIX_LABEL[wide])
        left = _LETTER * max(map(len, short)) + 38.0
        least, largest = _CELLS[wide]
        shown = min(shown, int((width - left - 4.0) / least))
        cell, top = min((width - left - 4.0) / shown, largest), 26.0
        picture = Drawing(width, top + cell * shown + 4.0, "Who is preferred to whom")
        for i in range(shown):
            middle = top + cell * (i + 0.5) + 4.0
            name = f"{isolated(short[i])} {i + 1}"
            picture.label(left - 8.0, middle, name, "item end", tips[i])
            picture.label(left + cell * (i + 0.5), top - 8.0, str(i + 1), "tick middle")
            for j, p in enumerate(matrix[i, :shown].tolist()):
                shade = min(int(abs(p - 0.5) * 2.0 * _SHADES), _SHADES - 1)
                kind = "same" if i == j else f"{'win' if p > 0.5 else 'loss'}{shade}"
                at = left + cell * j, top + cell * i
                picture.rectangle(*at, cell - 1.5, cell - 1.5, f"cell {kind}")
                if i != j:
                    middle_x = at[0] + 0.5 * cell - 0.75
                    picture.label(middle_x, middle, f"{100 * p:.0f}", "tick share middle")
        return picture.text()

    return drawn


def history_figure(facts: Facts) -> Drawn | None:
    """Draw the ranks of the items that are best now, from one update to the next."""
    votes, ranks = ranks_over_updates(facts.fit.summary.get("history") or [])
    if len(votes) < 2:
        return None
    names = list(ranks)
    lowest = max(max(place or 0 for place in places) for places in ranks.values())
    tips = [shortened(name, _TIP) for name in names]

    def drawn(width: float) -> str:
        wide = width > 500
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
            now = f"{ranks[name][-1]} {isolated(short[place])}"
            picture.label(right + 8.0, points[-1][1] + 4.0, now, "item", tips[place])
        return picture.text()

    return drawn


def verdict_shares(population: Population) -> list[tuple[str, int, float]]:
    """Return every verdict that occurs, with its number of workers and their share of votes."""
    total = max(float(population.votes.sum()), 1e-300)
    members = ((word, population.verdict == word) for word in VERDICTS)
    return [
        (word, int(mine.sum()), float(population.votes[mine].sum()) / total) for word, mine in members if mine.any()
    ]


def verdict_bar(population: Population) -> str:
    """Return the votes by the verdict on their workers, as one bar over the whole width."""
    parts, at = [], 0.0
    for word, workers, share in verdict_shares(population):
        parts.append(
            f'<rect x="{100 * at:.2f}%" width="{100 * share:.2f}%" height="100%" '
            f'class="fill v-{word}"><title>{word}: {count(workers)} workers, {percent(share)} of '
            "the votes</title></rect>"
        )
        at += share
    return (
        f'<svg class="share" width="100%" height="18" role="img" aria-label="Votes by verdict">{"".join(parts)}</svg>'
    )


class Drawing:
    """Build an SVG picture of this width and height; a unit is a pixel at full size."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height = width, height
        self._parts: list[str] = []
        self._title = title

    def text(self) -> str:
        """Return the picture as SVG."""
        title = escape(self._title)
        return (
            f'<svg viewBox="0 0 {number(self.width)} {number(self.height)}" width="{number(self.width)}" '
            f'height="{number(self.height)}" role="img" aria-label="{title}">' + "".join(self._parts) + "</svg>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Add a straight line."""
        self._parts.append(
            f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" class="{kind}"/>'
        )

    def circle(self, x: float, y: float, radius: float, kind: str, tip: str = "") -> None:
        """Add a circle, with a text that appears under the pointer."""
        self._parts.append(
            f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{kind}">{_title(tip)}</circle>'
        )

    def rectangle(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Add a rectangle."""
        self._parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(max(width, 0.0))}" '
            f'height="{number(max(height, 0.0))}" class="{kind}"></rect>'
        )

    def path(self, points: Iterable[tuple[float, float]], kind: str, closed: bool = False) -> None:
        """Add a line through points."""
        joined = "L".join(f"{number(x)} {number(y)}" for x, y in points)
        if joined:
            self._parts.append(f'<path d="M{joined}{"Z" if closed else ""}" class="{kind}"/>')

    def rays(self, origin: tuple[float, float], ends: Iterable[tuple[float, float]], kind: str) -> None:
        """Add lines from one point to many as one shape."""
        start = f"M{number(origin[0])} {number(origin[1])}"
        joined = "".join(f"{start}L{number(x)} {number(y)}" for x, y in ends)
        if joined:
            self._parts.append(f'<path d="{joined}" class="{kind}"/>')

    def dots(self, xs: list[float], ys: list[float], kind: str) -> None:
        """Add many dots as one shape: strokes of length 0 with round ends."""
        # Very many are drawn on a grid of two by two points, so that the picture stays small.
        at = np.array([xs, ys])
        if len(xs) > _MANY_DOTS:
            at = np.unique(2.0 * np.round(at / 2.0), axis=1)
        places = sorted({(number(x), number(y)) for x, y in at.T.tolist()})
        if places:
            joined = "".join(f"M{x} {y}h0" for x, y in places)
            self._parts.append(f'<path d="{joined}" class="{kind}"/>')

    def label(self, x: float, y: float, text: str, kind: str = "tick", tip: str = "") -> None:
        """Add text; its class decides anchor and size."""
        self._parts.append(f'<text x="{number(x)}" y="{number(y)}" class="{kind}">{escape(text)}{_title(tip)}</text>')

    def axis_x(self, scale: Scale, top: float, bottom: float, title: str, most: int = 6) -> None:
        """Add grid lines, tick labels and the title of a horizontal axis."""
        ticks = scale.ticks(most)
        for tick, result in zip(ticks, tick_labels(ticks), strict=True):
            self.line(scale(tick), top, scale(tick), bottom, "grid")
            self.label(scale(tick), bottom + 16, result, "tick middle")
        self.label(0.5 * (scale(scale.low) + scale(scale.high)), bottom + 36, title, "name middle")

    def axis_y(self, scale: Scale, left: float, right: float, title: str, most: int = 6) -> None:
        """Add grid lines, tick labels and, above them, the title of a vertical axis."""
        ticks = scale.ticks(most)
        for tick, result in zip(ticks, tick_labels(ticks), strict=True):
            self.line(left, scale(tick), right, scale(tick), "grid")
            self.label(left - 6, scale(tick) + 4, result, "tick end")
        self.label(4, 14, title, "name")


def _title(tip: str) -> str:
    """Return the text that appears under the pointer."""
    return f"<title>{escape(tip)}</title>" if tip else ""


def number(value: float) -> str:
    """Return a coordinate with one decimal and no trailing zero."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def isolated(text: str) -> str:
    """Return text that cannot change the direction of the text around it."""
    return f"\u2068{text}\u2069"


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return the labels of ticks, all with as many decimals as one of them needs."""
    decimals = next((n for n in range(7) if all(abs(t - round(t, n)) < 1e-9 * max(abs(t), 1) for t in ticks)), 7)
    return [f"{t:,.{decimals}f}".replace("-", "\u2212") for t in ticks]


class Scale:
    """A linear (or logarithmic) map from values to coordinates."""

    def __init__(self, low: float, high: float, begin: float, end: float, *, log: bool = False) -> None:
        self.log, self.low, self.high = log, low, high
        self._low, self._high = (log10(low), log10(high)) if log else (low, high)
        self._begin, self._end = begin, end

    def __call__(self, values: Any) -> Any:
        """Return the coordinate of a value, or of every value of an array."""
        at = np.log10(np.maximum(values, 1e-300)) if self.log else values
        width = self._high - self._low or 1.0
        return self._begin + (at - self._low) / width * (self._end - self._begin)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round values inside the scale."""
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
    """Return at most `most` round values from low to high."""
    if not high > low:
        return [low]
    raw = (high - low) / max(most - 1, 1)
    power = 10.0 ** floor(log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]
