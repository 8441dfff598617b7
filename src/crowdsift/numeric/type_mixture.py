"""The mixture p0 behind the distribution of worker types, fitted to expected counts.

Over reliabilities p0 is ρ₊N(μ, τ²) + ρ₋N(-μ, τ²) + ρ₀δ₀ on a symmetric grid: reliable workers,
adversaries as able as they are, and workers who click at random. Every Gaussian on the grid is
density times cell width, normalised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

    # `update_types` by any other means, as an engine may offer it.
    TypeUpdate = Callable[
        [Vector, Vector, int, Vector, float, float, Vector], tuple[Vector, float, float, Vector]
    ]

__all__ = ["MIN_SPREAD", "SHARES", "update_types"]

SHARES = (0.7, 0.1, 0.2)  # ρ₊, ρ₋ and ρ₀ before any vote
MIN_SPREAD = 0.05  # of τ
_PRIOR_WORKERS = 50.0  # how many workers p0 counts for in π
_SHARE_WORKERS = 5.0  # ... the prior of ρ, and a uniform distribution of tie widths
_SPREAD_WORKERS = 20.0  # ... a spread of μ/2
_EM_STEPS = 3  # for p0, in one update of π


class _Grid:
    """The signed reliabilities, their squares, and logarithms of the widths of their cells."""

    def __init__(self, points: Vector, log_widths: Vector) -> None:
        self.points, self.squares, self.log_widths = points, points**2, log_widths
        self.zero = len(points) // 2


@dataclass(frozen=True)
class _Mixture:
    """μ, τ and (ρ₊, ρ₋, ρ₀); ρ₊ is the share of the majority's side."""

    centre: float
    spread: float
    shares: tuple[float, ...]

    @staticmethod
    def of_counts(grid: _Grid, counts: Vector, shares: tuple[float, ...]) -> _Mixture:
        """Mean and standard deviation of the first counts."""
        total = max(float(counts.sum()), 1e-12)
        mean = float(grid.points @ counts) / total
        square = float((grid.points - mean) ** 2 @ counts) / total
        return _Mixture(mean, max(square**0.5, MIN_SPREAD), shares)

    def masses(self, grid: _Grid) -> Vector:
        """p0 on the grid."""
        return self._total(self._able(grid), grid.zero)

    def _able(self, grid: _Grid) -> Vector:
        """N(μ, τ²) on the grid; that of -μ is its mirror image."""
        z = (grid.points - self.centre) / self.spread
        z *= z
        z *= -0.5
        z += grid.log_widths
        z -= z.max()
        able = np.exp(z, out=z)
        able /= able.sum()
        return able

    def _total(self, able: Vector, zero: int) -> Vector:
        plus, minus, none = self.shares
        total = plus * able
        total += minus * able[::-1]
        total[zero] += none
        return total

    def stepped(self, grid: _Grid, counts: Vector, everyone: float) -> _Mixture:
        """One step of EM.

        With n the counts and a the Gaussian of the majority, adversaries with their sign turned
        are counted with it: n'(β) = a(β)[ρ₊ n(β)/p0(β) + ρ₋ n(-β)/p0(-β)] has the sums of both.
        """
        plus, minus, _ = self.shares
        able = self._able(grid)
        ratio = counts / np.maximum(self._total(able, grid.zero), 1e-300)
        reliable, adversarial = plus * float(able @ ratio), minus * float(able @ ratio[::-1])
        joint = plus * ratio
        joint += minus * ratio[::-1]
        joint *= able
        both = max(reliable + adversarial, 1e-12)
        mean, square = float(grid.points @ joint) / both, float(grid.squares @ joint) / both
        if adversarial > reliable:  # + is the majority's side
            reliable, adversarial, mean = adversarial, reliable, -mean
        held = (reliable, adversarial, everyone - reliable - adversarial)
        shares = tuple(
            (own + _SHARE_WORKERS * before) / (everyone + _SHARE_WORKERS)
            for own, before in zip(held, SHARES, strict=True)
        )
        squares = both * max(square - mean**2, 0.0) + _SPREAD_WORKERS * 0.25 * mean**2
        spread = max((squares / (both + _SPREAD_WORKERS)) ** 0.5, MIN_SPREAD)
        return _Mixture(mean, spread, shares)


def update_types(
    points: Vector,
    log_widths: Vector,
    n_widths: int,
    counts: Vector,
    centre: float,
    spread: float,
    shares: Vector,
) -> tuple[Vector, float, float, Vector]:
    """π = (n + 50 p0)/(M + 50) from the counts n of types, and p0 after three steps of EM.

    Over tie widths p0 is their counts with five workers spread evenly; side-only types together
    have the share (n_side + ½)/(M + 1) of it, split equally.

    Parameters
    ----------
    points, log_widths
        The symmetric grid of reliabilities, and logarithms of the widths of its cells.
    n_widths, counts
        The number of tie widths; counts of as many rows of the grid, then of side-only types.
    centre, spread, shares
        μ, τ and ρ of p0 so far; where μ is not a number, μ and τ start from the counts.

    Returns
    -------
    masses, centre, spread, shares
        π, and μ, τ and ρ.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.numeric.type_mixture import SHARES, update_types
    >>> grid = np.array([-1.0, 0.0, 1.0])
    >>> counts = np.array([0.0, 10.0, 40.0])
    >>> masses, *_ = update_types(grid, np.zeros(3), 1, counts, np.nan, 1.0, np.array(SHARES))
    >>> masses.round(3)
    array([0.005, 0.198, 0.798])
    """
    grid, types = _Grid(points, log_widths), len(points)
    table = counts[: n_widths * types].reshape(n_widths, types)
    by_level = table.sum(axis=0) if n_widths > 1 else table[0]
    regular, n_sides = max(float(by_level.sum()), 1e-12), len(counts) - table.size
    if math.isnan(centre):
        mixture = _Mixture.of_counts(grid, by_level, tuple(shares.tolist()))
    else:
        mixture = _Mixture(centre, spread, tuple(shares.tolist()))
    for _ in range(_EM_STEPS):
        mixture = mixture.stepped(grid, by_level, regular)
    sides = float(counts[table.size :].sum())
    everyone = regular + sides
    share = (sides + 0.5) / (everyone + 1.0) if n_sides else 0.0
    widths = (table.sum(axis=1) + _SHARE_WORKERS / n_widths) / (regular + _SHARE_WORKERS)
    p0 = np.empty(len(counts))
    p0[: table.size] = np.outer((1.0 - share) * widths, mixture.masses(grid)).ravel()
    p0[table.size :] = share / max(n_sides, 1)
    masses = (counts + _PRIOR_WORKERS * p0) / (everyone + _PRIOR_WORKERS)
    return masses, mixture.centre, mixture.spread, np.array(mixture.shares)
