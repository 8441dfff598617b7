"""The stopping rule of all solvers, and the history of its measure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Called once per iteration with its number and the measure that must fall below the tolerance.
Progress = Callable[[int, float], None]


@dataclass
class StoppingRule:
    """Stop when a measure is at most `tolerance`, or after `most` iterations."""

    measure: str
    tolerance: float
    most: int
    progress: Progress | None = None
    history: list[float] = field(default_factory=list)
    converged: bool = False
    iterate: Callable[[], Mapping[str, Any]] | None = None  # returns what a later run needs to continue

    @property
    def iterations(self) -> int:
        """Return the number of iterations so far."""
        return len(self.history)

    def begin(self, value: float) -> bool:
        """Return whether the start has already converged; this counts no iteration."""
        self.converged = value <= self.tolerance
        return self.converged

    def stop(self, value: float) -> bool:
        """Record the measure of an iteration and return whether to stop."""
        self.history.append(value)
        if self.progress is not None:
            keep = getattr(self.progress, "keep", None)  # set by `crowdsift.fitting.start`
            if keep is not None and self.iterate is not None:
                keep(self.iterations, self.iterate)
            self.progress(self.iterations, value)
        self.converged = value <= self.tolerance
        return self.converged or self.iterations >= self.most
