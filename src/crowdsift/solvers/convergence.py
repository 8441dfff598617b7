"""One stopping rule for all solvers, with its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Called once an iteration with its number and the measure that must fall below the tolerance.
Progress = Callable[[int, float], None]


@dataclass
class StoppingRule:
    """Stops when a measure is at most `tolerance`, or after `most` iterations."""

    measure: str
    tolerance: float
    most: int
    progress: Progress | None = None
    history: list[float] = field(default_factory=list)
    converged: bool = False
    iterate: Callable[[], Mapping[str, Any]] | None = None  # what a later run needs to go on

    @property
    def iterations(self) -> int:
        """How many iterations were counted."""
        return len(self.history)

    def begin(self, value: float) -> bool:
        """Return whether the start is already good enough, which counts no iteration."""
        self.converged = value <= self.tolerance
        return self.converged

    def stop(self, value: float) -> bool:
        """Count an iteration with that measure; whether it was the last."""
        self.history.append(value)
        if self.progress is not None:
            keep = getattr(self.progress, "keep", None)  # of `crowdsift.fitting.start`
            if keep is not None and self.iterate is not None:
                keep(self.iterations, self.iterate)
            self.progress(self.iterations, value)
        self.converged = value <= self.tolerance
        return self.converged or self.iterations >= self.most
