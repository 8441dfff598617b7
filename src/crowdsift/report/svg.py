"""SVG primitives: shapes and axes as text, everything escaped, coloured by CSS classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Drawing", "Scale", "isolated", "nice_ticks", "number"]

_MANY_DOTS = 5_000


def number(value: float) -> str:
    """A coordinate: one decimal, no trailing zero.

    Examples
    --------
    >>> from crowdsift.report.svg import number
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
    >>> from crowdsift.report.svg import Scale
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
    >>> from crowdsift.report.svg import nice_ticks
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
    >>> from crowdsift.report.svg import Drawing
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
    >>> from crowdsift.report.svg import tick_labels
    >>> tick_labels([0.0, 0.5, 1.0]), tick_labels([1.0, 10.0, 1000.0])
    (['0.0', '0.5', '1.0'], ['1', '10', '1,000'])
    """
    decimals = next(
        (n for n in range(7) if all(abs(t - round(t, n)) < 1e-9 * max(abs(t), 1) for t in ticks)), 7
    )
    return [f"{t:,.{decimals}f}".replace("-", "\u2212") for t in ticks]
