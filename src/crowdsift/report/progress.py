"""Progress bars for a terminal or a notebook: the stage, its progress, the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import import_module
from math import isfinite, log
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar

    from crowdsift.solvers.convergence import Progress

_UPDATE = 0.2  # seconds between two updates of a notebook
_WINDOW = 6  # iterations from which the rate of convergence is estimated


class Forecast:
    """Estimate the progress of a fit and its time left from the rate of the last measures."""

    def __init__(self, tolerance: float | None) -> None:
        self._tolerance = tolerance if tolerance and tolerance > 0.0 else None
        self._seen: list[tuple[int, float, float]] = []
        self.runs = 0  # runs from several starts, or with further terms of the model

    def add(self, iteration: int, measure: float, seconds: float) -> None:
        """Count an iteration; a number that does not exceed the last one begins another run."""
        if not self._seen or iteration <= self._seen[-1][0]:
            self._seen, self.runs = [], self.runs + 1
        self._seen.append((iteration, measure, seconds))

    @property
    def share(self) -> float | None:
        """Return the share of the way, in logarithms of the measure; None if unknown."""
        if self._tolerance is None or not self._seen:
            return None
        first, now = self._seen[0][1], self._seen[-1][1]
        if not (isfinite(first) and isfinite(now) and first > self._tolerance and now > 0.0):
            return None
        return round(min(max(log(first / now) / log(first / self._tolerance), 0.0), 1.0), 6)

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until the tolerance is reached, at the rate of the last iterations."""
        if self._tolerance is None or len(self._seen) < 3:
            return None
        (one, high, begun), (two, low, ended) = self._seen[-_WINDOW:][0], self._seen[-1]
        if not (isfinite(high) and isfinite(low) and 0.0 < low < high and two > one):
            return None
        needed = max(log(low / self._tolerance), 0.0) / (log(high / low) / (two - one))
        return round(needed * (ended - begun) / (two - one), 6)


def _text(iteration: int, measure: float, left: float | None) -> str:
    text = f"iteration {iteration:,}, {measure:.1e}"
    if left is None:
        return text
    return f"{text}, about {left / 60:.0f} min left" if left > 90 else f"{text}, about {left:.0f} s left"


def _bar(console: Console | None) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[status]}"),
        TimeElapsedColumn(),
        console=console or Console(stderr=True),
        transient=True,
    )


@contextmanager
def fit_progress(title: str, tolerance: float | None, console: Console | None = None) -> Iterator[Progress]:
    """Yield a function that shows stage, iteration and time left, on standard error."""
    forecast, begun = Forecast(tolerance), time.monotonic()
    with _bar(console) as bar:
        task = bar.add_task(title, total=None, status="")

        def report(iteration: int, measure: float) -> None:
            forecast.add(iteration, measure, time.monotonic() - begun)
            stage = f"{title}, run {forecast.runs}" if forecast.runs > 1 else title
            status, share = _text(iteration, measure, forecast.seconds_left), forecast.share
            if tolerance is not None and measure <= tolerance:  # the steps after it have no iterations
                stage, status, share = (f"{title}: intervals and tables", f"{iteration:,} iterations", None)
            total = None if share is None else 1.0
            bar.update(task, description=stage, status=status, total=total, completed=share or 0.0)

        yield report


@contextmanager
def progress_bar(title: str = "Fitting", tolerance: float | None = None) -> Iterator[Progress]:
    """Show a progress bar for `fit`, in a notebook or at a terminal.

    Parameters
    ----------
    title
        The title of the bar.
    tolerance
        The tolerance of the method, for an estimate of the time left; by default that of the default method, 1e-4.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=9, workers=8, comparisons=800, seed=3).comparisons()
    >>> with crowdsift.progress_bar() as progress:
    ...     fit = crowdsift.fit(votes, progress=progress)
    """
    from rich.console import Console

    from crowdsift.models import model

    known = getattr(model("sift"), "tolerance", None) if tolerance is None else tolerance
    console = Console(stderr=True)
    if console.is_jupyter:
        yield from _notebook_bar(title, known)
    elif console.is_terminal:
        with fit_progress(title, known, console) as report:
            yield report
    else:  # a log file needs no bar
        yield lambda iteration, measure: None


def _notebook_bar(title: str, tolerance: float | None) -> Iterator[Progress]:
    shown: Any = import_module("IPython.display")
    forecast, begun = Forecast(tolerance), time.monotonic()
    handle = shown.display(shown.HTML(escape(title)), display_id=True)
    last = [-_UPDATE]

    def report(iteration: int, measure: float) -> None:
        now = time.monotonic() - begun
        forecast.add(iteration, measure, now)
        if now - last[0] < _UPDATE:
            return
        last[0] = now
        share = forecast.share
        value = "" if share is None else f' value="{share:.3f}"'
        text = f"{title}: {_text(iteration, measure, forecast.seconds_left)}"
        handle.update(shown.HTML(f"<progress{value}></progress> {escape(text)}"))

    try:
        yield report
    finally:
        handle.update(shown.HTML(escape(f"{title}: {time.monotonic() - begun:.1f} s")))


@contextmanager
def step_progress(
    title: str, stages: Sequence[str] = (), console: Console | None = None
) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step, and its place if `stages` lists all of them."""
    with _bar(console) as bar:
        task = bar.add_task(title, total=len(stages) or None, status="")

        def report(step: str) -> None:
            done = stages.index(step) if step in stages else 0
            bar.update(task, description=f"{title} {step}", completed=done)

        yield report
