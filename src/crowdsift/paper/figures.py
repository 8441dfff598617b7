"""Figures as SVG and PNG: equal records give equal bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from crowdsift.paper.summary import Cell

# Each method has one colour and marker in all figures, chosen to be distinct for colour-blind readers.
_STYLES = {
    "sift": ("#000000", "o"),
    "bora-em": ("#d55e00", "s"),
    "hbtl": ("#0072b2", "^"),
    "htcv": ("#56b4e9", "v"),
    "crowd-bt": ("#009e73", "D"),
    "factor-bt": ("#cc79a7", "P"),
    "barp": ("#999999", "x"),
    "bt": ("#7a5c00", "+"),
    "rank-centrality": ("#e69f00", "."),
    "oracle": ("#bbbbbb", ""),
}
_SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "crowdsift",  # the names of parts inside an SVG
    "svg.fonttype": "none",  # text stays text, which is small
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Line:
    """One method in a panel, with x values and figures."""

    method: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None


def mean_line(method: str, points: Sequence[tuple[float, Cell]], figure: str) -> Line:
    """Return the means of a figure, with their deviations where there are several seeds."""
    own = [cell for _, cell in points]
    errors = [cell.sd(figure) if cell.seeds > 1 else 0.0 for cell in own]
    return Line(method, [x for x, _ in points], [cell.mean(figure) for cell in own], errors)


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    across: str
    up: str
    lines: Sequence[Line]
    logarithmic: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels in rows of `columns`, under one name."""

    name: str
    panels: Sequence[Panel]
    columns: int = 3

    def files(self) -> dict[str, list[bytes]]:
        """Return the content of the SVG and the PNG by file name."""
        require_matplotlib()
        import matplotlib
        from matplotlib.figure import Figure as Canvas

        rows = -(-len(self.panels) // self.columns)
        with matplotlib.rc_context():
            matplotlib.rcdefaults()  # ignores the user's settings
            matplotlib.rcParams.update(cast(Any, _SETTINGS))
            canvas = Canvas(figsize=(3.3 * self.columns, 2.5 * rows + 0.4), layout="constrained")
            axes = canvas.subplots(rows, self.columns, squeeze=False).ravel()
            known: dict[str, Any] = {}
            for place, panel in zip(axes, self.panels, strict=False):
                known |= _draw(place, panel)
            for place in axes[len(self.panels) :]:
                place.set_axis_off()
            names = [name for name in _STYLES if name in known]
            canvas.legend(
                [known[name] for name in names],
                names,
                loc="outside lower center",
                ncols=min(len(names), 10),
                frameon=False,
            )
            vector, pixels = io.BytesIO(), io.BytesIO()
            canvas.savefig(vector, format="svg", metadata={"Date": None})
            canvas.savefig(pixels, format="png", dpi=90, metadata={"Software": None})
        return {f"{self.name}.svg": [vector.getvalue()], f"{self.name}.png": [_fewer_colours(pixels)]}


def require_matplotlib() -> None:
    """Raise an error, before long work, if figures cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise RequestError("figures need matplotlib; install it with: pip install 'crowdsift[reproduce]'") from None


def _fewer_colours(png: io.BytesIO) -> bytes:
    """Return the picture in 64 colours, a third of the size."""
    from PIL import Image

    with Image.open(png) as picture:
        small = picture.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    content = io.BytesIO()
    small.save(content, format="png", optimize=True)
    return content.getvalue()


def _draw(axes: Axes, panel: Panel) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for line in panel.lines:
        colour, marker = _STYLES[line.method]
        known[line.method] = axes.errorbar(
            line.x,
            line.y,
            yerr=line.error,
            color=colour,
            marker=marker,
            markersize=3.0,
            linewidth=1.6 if line.method == "sift" else 0.9,
            elinewidth=0.5,
            capsize=0,
            zorder=3 if line.method == "sift" else 2,
        )
    if panel.logarithmic:
        axes.set_xscale("log")
        axes.minorticks_off()
        ticks = _ticks(sorted({value for line in panel.lines for value in line.x}))
        axes.set_xticks(ticks, [f"{value:,}" if value >= 1 else f"{value:g}" for value in ticks])
    axes.set_title(panel.title)
    axes.set_xlabel(panel.across)
    axes.set_ylabel(panel.up)
    return known


def _ticks(values: list[float]) -> list[float]:
    """Return values far enough from each other to be written side by side."""
    if not values or values[0] <= 0:
        return values
    step = (values[-1] / values[0]) ** (1 / 5)
    chosen = [values[-1]]
    for value in reversed(values[:-1]):
        if value * step <= chosen[-1] * 1.0001:
            chosen.append(value)
    return chosen[::-1]
