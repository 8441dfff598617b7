"""How far a run is and how long it will take, on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from crowdsift.paper.runner import Progress


@contextmanager
def shown(title: str) -> Iterator[Progress]:
    """Yield a function that shows the settings done, the time since the start and the time left.

    The time left is estimated from what settings are expected to cost, not from their number.
    """
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]} of {task.fields[settings]} settings"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=600.0,
    )
    with bar:
        task = bar.add_task(title, total=None, count=0, settings="?")

        def report(done: float, total: float, count: int, settings: int) -> None:
            bar.update(task, completed=done, total=total, count=count, settings=settings)

        yield report
