"""The figures of the report drawn with matplotlib, for notebooks and papers.

Needs matplotlib: ``pip install crowdsift[plots]``. Every function draws into the axes `ax`, or into new ones, and
returns them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.checks.leftout import calibrate, fit_without
from crowdsift.errors import RequestError
from crowdsift.fitting.estimate import Resources
from crowdsift.io.files import replace_file
from crowdsift.io.items import read_gold
from crowdsift.numeric import Vector
from crowdsift.report.facts import ABSENT, codes, describe_population, has_gold, refit_model
from crowdsift.report.figures import Chart, calibration_chart, convergence_chart, map_chart, slopes, workers_chart
from crowdsift.results.scales import level_text
from crowdsift.results.words import item_label, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdsift.checks.comparing import Comparison
    from crowdsift.results.fit import Fit
    from crowdsift.votes.comparisons import Comparisons

__all__ = [
    "calibration",
    "comparison",
    "convergence",
    "leaderboard",
    "preference_map",
    "save",
    "without_flagged",
    "workers",
]

_BLUE, _GREY, _RED = "#1f66b5", "#97a3b0", "#c53d1c"
_COLOURS = {
    "population": _BLUE,
    "curve": _BLUE,
    "dot curve-dot": _BLUE,
    "expected": "#cddcf1",
    "zero": "#5a6775",
    "typical": "#5a6775",
    "ideal": "#5a6775",
    "up": _BLUE,
    "same": _GREY,
    "down": _RED,
    "dot v-reliable": _BLUE,
    "dot v-weak": "#5fa3d9",
    "dot v-undecided": _GREY,
    "dot v-distinct": "#1f8a5b",
    "dot v-random": "#d98500",
    "dot v-one-sided": "#8a55b3",
    "dot v-adversarial": _RED,
    "dot v-none": "#5a6775",
    "dot item-dot": "#1c2733",
}
_LONGEST = 36
_ENDINGS = (".pdf", ".svg", ".png")


def leaderboard(fit: Fit, top: int = 20, *, ranks: bool = False, ax: Axes | None = None) -> Axes:
    """Draw the best `top` items with the intervals of their scores, or of their ranks.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report import plots
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> plots.leaderboard(crowdsift.fit(votes), top=5).get_xlabel()
    'score, 90 % interval'
    """
    table = fit.shown_items
    shown = slice(0, min(top, table.height))
    names = ("rank", "rank_lower", "rank_upper") if ranks else ("score", "lower", "upper")
    value, low, high = (table[name][shown].astype(np.float64) for name in names)
    ax = _axes(ax, height=0.9 + 0.28 * len(value))
    at = np.arange(len(value))[::-1]
    reach = np.stack([value - low, high - value])
    ax.errorbar(
        value,
        at,
        xerr=np.nan_to_num(np.maximum(reach, 0.0)),
        fmt="o",
        ms=5,
        color=_BLUE,
        ecolor="#9dbde2",
        elinewidth=3,
    )
    ax.set_yticks(at, [_text(fit, i) for i in range(len(value))], parse_math=False)
    ax.set_xlabel(f"{names[0]}, {level_text(fit.level)} interval")
    ax.grid(axis="x", alpha=0.3)
    return _plain(ax)


def workers(fit: Fit, *, ax: Axes | None = None) -> Axes:
    """Draw reliability against votes by verdict, in front of the distribution of all workers.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report import plots
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> plots.workers(crowdsift.fit(votes)).get_xscale()
    'log'
    """
    chart = workers_chart(fit, describe_population(fit, None))
    if chart is None:
        raise RequestError(f"{fit.method} estimates no reliabilities; use the method sift")
    ax = _draw(chart, _axes(ax, height=4.5))
    ax.legend(frameon=False, fontsize="small")
    return ax


def preference_map(fit: Fit, *, ax: Axes | None = None) -> Axes:
    """Draw items as points and workers as directions, coloured by verdict, in two dimensions."""
    chart = map_chart(fit)
    if chart is None:
        raise RequestError("this fit has one dimension; workers() and leaderboard() draw it")
    ax = _draw(chart, _axes(ax, height=7.0))
    ax.set_aspect("equal")
    ax.legend(frameon=False, fontsize="small")
    return ax


def calibration(fit: Fit, votes: Comparisons | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw predicted against observed shares of left-out votes, in %; costs one more fit.

    `votes` are needed for a loaded fit that did not keep them.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report import plots
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> plots.calibration(crowdsift.fit(votes)).get_ylabel()
    'observed, %'
    """
    votes = _votes(fit, votes)
    codes(fit, votes)  # raises an error for votes of another fit
    seed = int(fit.summary.get("seed", 0))
    found = calibrate(votes, refit_model(fit), seed=seed, resources=Resources.of(fit))
    if isinstance(found, str):
        raise RequestError(found)
    return _draw(calibration_chart(found), _axes(ax, height=4.5))


def without_flagged(fit: Fit, votes: Comparisons | None = None, top: int = 15, *, ax: Axes | None = None) -> Axes:
    """Draw the best `top` items with all votes and without flagged workers; costs one more fit.

    `votes` are needed for a loaded fit that did not keep them.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report import plots
    >>> from crowdsift.lab.demonstration import crowd_with_spammers
    >>> fit = crowdsift.fit(crowd_with_spammers().comparisons())
    >>> len(plots.without_flagged(fit, top=5).lines)
    5
    """
    votes = _votes(fit, votes)
    code, scores = codes(fit, votes)
    flagged = describe_population(fit, votes).flagged
    found = fit_without(
        votes,
        refit_model(fit),
        flagged,
        scores,
        mirror=has_gold(fit),
        gold=read_gold(fit.gold, votes),
        resources=Resources.of(fit),
    )
    if isinstance(found, str):
        raise RequestError(found)
    shown = slopes(fit, code, found, top, top)
    ax = _axes(ax, height=0.9 + 0.28 * len(shown))
    for each in shown:
        ax.plot([0, 1], each.places, "o-", color=_COLOURS[each.move], ms=4)
        name, (start, end) = _text(fit, each.row), each.places
        ax.annotate(
            f"{name} {each.before}",
            (0, start),
            (-8, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize="small",
            parse_math=False,
        )
        ax.annotate(
            f"{each.after or '–'} {name}",
            (1, end),
            (8, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
            parse_math=False,
        )
    ax.invert_yaxis()
    ax.set_xlim(-1.2, 2.2)
    ax.set_xticks([0, 1], ["all votes", "without flagged"])
    ax.set_yticks([])
    return _plain(ax)


def convergence(fit: Fit, *, ax: Axes | None = None) -> Axes:
    """Draw the approximate evidence (sift) or the objective, iteration by iteration.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report import plots
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> fit = crowdsift.fit(votes)
    >>> len(plots.convergence(fit).lines[0].get_xdata()) == len(fit.trace)
    True
    """
    return _draw(convergence_chart(fit.method, fit.trace), _axes(ax, height=3.0))


def comparison(found: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw the two scores of `crowdsift.compare` against each other, items that differ in red with their names.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.report import plots
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> found = crowdsift.compare(crowdsift.fit(votes, "bt"), crowdsift.fit(votes, "sift"))
    >>> plots.comparison(found).get_xlabel()
    'first fit, true standard deviations'
    """
    table = found.items
    x, y, apart = table["first"], table["second"], table["differs"]
    ax = _axes(ax, height=6.0)
    ends = np.array([min(x.min(), y.min()), max(x.max(), y.max())])
    ax.plot(ends, ends, "--", color=_COLOURS["ideal"], lw=1)
    for chosen, colour in ((~apart, _BLUE), (apart, _RED)):
        ax.scatter(x[chosen], y[chosen], s=18, color=colour, zorder=3)
    for row in np.flatnonzero(apart):
        ax.annotate(
            shortened(str(table["item"][row]), _LONGEST),
            (x[row], y[row]),
            (4, 4),
            textcoords="offset points",
            fontsize="small",
            parse_math=False,
        )
    ax.set_xlabel("first fit, true standard deviations")
    ax.set_ylabel("second fit, true standard deviations")
    return _plain(ax)


def require_ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of the file of a plot; raise an error for an unsupported one."""
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise RequestError(f"{path}: a plot is written as .pdf, .svg or .png, not as {ending!r}")
    return ending


def save(ax: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure of a plot as PDF, SVG or PNG, by the file's ending, and close it.

    Examples
    --------
    >>> import crowdsift, tempfile
    >>> from crowdsift.report import plots
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> drawn = plots.leaderboard(crowdsift.fit(votes), top=5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plots.save(drawn, f"{folder}/board.pdf")
    """
    from matplotlib import pyplot

    figure, ending = ax.get_figure(root=True), require_ending(path)
    assert figure is not None
    with replace_file(Path(path)) as temporary, pyplot.rc_context({"svg.fonttype": "none"}):
        figure.savefig(temporary, format=ending[1:], dpi=200)
    pyplot.close(figure)


def _draw(chart: Chart, ax: Axes) -> Axes:
    if chart.x.log:
        ax.set_xscale("log")
        _whole_numbers(ax, np.array([chart.x.low, chart.x.high]))
    for mark in chart.marks:
        if mark.shape == "names":
            for x, y, name in zip(mark.x, mark.y, mark.tips, strict=True):
                ax.annotate(
                    shortened(name, _LONGEST),
                    (x, y),
                    (6, 0),
                    "data",
                    "offset points",
                    va="center",
                    fontsize="small",
                    zorder=4,
                    parse_math=False,
                )
            continue
        colour = _COLOURS[f"dot {mark.kind}" if mark.shape == "rays" else mark.kind]
        if mark.shape == "area":
            ax.fill(mark.x, mark.y, color=colour, alpha=0.13, lw=0)
        elif mark.shape == "line":
            ax.plot(mark.x, mark.y, "--" if mark.kind == "ideal" else "-", color=colour)
        elif mark.shape == "level":
            ax.axhline(mark.y[0], color=colour, lw=1, ls="-" if mark.kind == "zero" else "--")
        elif mark.shape == "rays":
            ends = (np.stack([np.zeros_like(at), at]) for at in (mark.x, mark.y))
            ax.plot(*ends, color=colour, lw=0.8, alpha=0.5)
        elif mark.shape == "box":
            ax.vlines(mark.x, *mark.y, color=colour, lw=8)
        elif len(mark.x):
            label = f"{mark.name} ({len(mark.x)})" if mark.name else None
            ax.scatter(
                mark.x, mark.y, s=mark.size**2, color=colour, edgecolors="white", linewidths=0.5, zorder=3, label=label
            )
    ax.set_xlabel(chart.x.title)
    ax.set_ylabel(chart.y.title)
    return _plain(ax)


def _votes(fit: Fit, votes: Comparisons | None) -> Comparisons:
    known = fit.votes if votes is None else votes
    if known is None:
        raise RequestError(ABSENT)
    return known


def _axes(ax: Axes | None, height: float) -> Axes:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise RequestError("the plots need matplotlib: pip install 'crowdsift[plots]'") from None
    return pyplot.subplots(figsize=(7.0, height), layout="constrained")[1]


def _whole_numbers(ax: Axes, values: Vector) -> None:
    """Label a logarithmic axis with plain numbers; a short axis also at minor ticks."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    plain = FuncFormatter(lambda value, _: f"{value:,.0f}")
    narrow = values.max() < 20.0 * max(values.min(), 1e-300)
    ax.xaxis.set_major_formatter(plain)
    ax.xaxis.set_minor_formatter(plain if narrow else NullFormatter())


def _text(fit: Fit, row: int) -> str:
    return shortened(item_label(fit.labels[row], fit.summary.get("by")), _LONGEST)


def _plain(ax: Axes) -> Axes:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax
