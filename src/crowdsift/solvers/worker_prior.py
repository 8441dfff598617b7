"""The distribution of worker types, learned from the crowd.

π = (n + 50 p0)/(M + 50) with n the expected counts of types and p0 a mixture
ρ₊N(μ, τ²) + ρ₋N(-μ, τ²) + ρ₀δ₀ fitted to them: reliable workers, adversaries as able as they are,
and workers who click at random. With few workers p0 speaks, with many the crowd.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import mirrored

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdsift.engines import Vector

__all__ = ["WorkerPrior", "gaussian_on", "power_grid"]

_PRIOR_WORKERS = 50.0  # how many workers p0 counts for
_SHARES = np.array([0.7, 0.1, 0.2])  # of reliable, adversarial and random workers before any vote
_SHARE_WORKERS, _SPREAD_WORKERS = 5.0, 20.0  # how many workers the shares and μ/2 count for
_LEAST_SPREAD = 0.05
_FAR = 6.0


def power_grid(points: int) -> Vector:
    """The positive levels of the symmetric grid 6(k/h)^1.5, h of them for 2h + 1 points.

    Examples
    --------
    >>> from crowdsift.solvers.worker_prior import power_grid
    >>> power_grid(5).round(3).tolist()
    [2.121, 6.0]
    """
    half = (points - 1) // 2
    return np.asarray(_FAR * (np.arange(1, half + 1) / half) ** 1.5, dtype=np.float64)


def gaussian_on(points: Vector, mean: float, sd: float) -> Vector:
    """Density times cell width (central differences), normalised."""
    z = (points - mean) / sd
    masses = np.exp(-0.5 * (z**2 - np.min(z**2))) * np.gradient(points)
    return np.asarray(masses / masses.sum(), dtype=np.float64)


@dataclass(frozen=True)
class WorkerPrior:
    """The grid of types, their distribution π, and the mixture p0 behind it.

    `centre` and `spread` are μ and τ, None before the first counts; `shares` are ρ₊, ρ₋ and ρ₀.
    """

    levels: Vector
    masses: Vector
    centre: float | None = None
    spread: float = 1.0
    shares: Vector = field(default_factory=_SHARES.copy)

    @staticmethod
    def start(levels: Vector, mean: float, sd: float) -> WorkerPrior:
        """N(mean, sd²) mixed with 3 % of uniform."""
        points = mirrored(levels)
        masses = 0.97 * gaussian_on(points, mean, sd) + 0.03 / len(points)
        return WorkerPrior(levels, masses)

    def learned(
        self, counts: Callable[[Vector], Vector], n_workers: int, steps: int
    ) -> WorkerPrior:
        """So many steps of counting types under π and learning π from the counts."""
        prior = self
        for _ in range(steps):
            prior = prior.updated(counts(prior.masses), n_workers)
        return prior

    def updated(self, counts: Vector, n_workers: int) -> WorkerPrior:
        """π from the counts, by three steps of EM for p0."""
        points, total = mirrored(self.levels), float(counts.sum())
        centre, spread, shares = self.centre, self.spread, self.shares
        if centre is None:
            centre = float(points @ counts) / total
            spread = float(np.sqrt(max((points - centre) ** 2 @ counts / total, 0.0)))
            spread = max(spread, _LEAST_SPREAD)
        for _ in range(3):
            centre, spread, shares = _mixture_step(points, counts, centre, spread, shares)
        p0 = _components(points, centre, spread, shares).sum(axis=0)
        masses = (counts + _PRIOR_WORKERS * p0) / (n_workers + _PRIOR_WORKERS)
        return WorkerPrior(self.levels, masses, centre, spread, shares)

    def rescaled(self, factor: float) -> WorkerPrior:
        """The same distribution of β·factor."""
        centre = None if self.centre is None else self.centre * factor
        return replace(
            self, levels=self.levels * factor, centre=centre, spread=self.spread * factor
        )


def _components(points: Vector, centre: float, spread: float, shares: Vector) -> Vector:
    """The three components of p0 on the grid, one row each, times their shares."""
    random = np.where(points == 0.0, 1.0, 0.0)
    parts = [gaussian_on(points, centre, spread), gaussian_on(points, -centre, spread), random]
    return np.asarray(shares[:, None] * np.stack(parts), dtype=np.float64)


def _mixture_step(
    points: Vector, counts: Vector, centre: float, spread: float, shares: Vector
) -> tuple[float, float, Vector]:
    """One step of EM for p0 given the counts of types."""
    parts = _components(points, centre, spread, shares)
    parts = counts * parts / np.maximum(parts.sum(axis=0), 1e-300)
    held = parts.sum(axis=1)
    if held[1] > held[0]:  # + is the majority's side
        parts[[0, 1]], held[[0, 1]] = parts[[1, 0]], held[[1, 0]]
        centre = -centre
    shares = (held + _SHARE_WORKERS * _SHARES) / (counts.sum() + _SHARE_WORKERS)
    able = max(float(held[0] + held[1]), 1e-12)
    centre = float(points @ (parts[0] - parts[1])) / able
    squares = float((points - centre) ** 2 @ parts[0] + (points + centre) ** 2 @ parts[1])
    variance = (squares + _SPREAD_WORKERS * (0.5 * centre) ** 2) / (able + _SPREAD_WORKERS)
    return centre, max(float(np.sqrt(variance)), _LEAST_SPREAD), shares
