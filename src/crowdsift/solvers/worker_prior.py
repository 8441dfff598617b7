"""The distribution of worker types, learned from the crowd.

π = (n + 50 p0)/(M + 50) with n the expected counts of types. For regular types p0 is the mixture
of `crowdsift.numeric.type_mixture` over reliabilities times a distribution of tie widths; side-only
types share the rest. All of p0 is fitted to the counts. With few workers π is close to p0, with
many to the counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import RELIABILITY_ONLY, WorkerTypes, mirrored
from crowdsift.numeric.extrapolation import squarem
from crowdsift.numeric.type_mixture import MIN_SPREAD, SHARES, update_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from crowdsift.numeric import Vector
    from crowdsift.numeric.type_mixture import TypeUpdate

    _Grid = tuple[Vector, Vector]

__all__ = ["TIE_WIDTHS", "WorkerPrior", "gaussian_on", "habits_of", "power_grid"]

# Tie widths from almost none to where nearly every vote is a tie.
TIE_WIDTHS = (.02, .06, .12, .2, .3, .42, .56, .75, 1.0, 1.3, 1.7, 2.3, 3.2, 4.5)  # fmt: skip
_PURE_SIDES = (-4.0, -2.0, -1.0, 1.0, 2.0, 4.0)  # log-odds of answering "first" of pure types

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


def habits_of(*, ties: bool, sides: bool) -> WorkerTypes:
    """The types beside reliabilities: tie widths, and pure types at every second width.

    Examples
    --------
    >>> from crowdsift.solvers.worker_prior import habits_of
    >>> habits_of(ties=False, sides=True).side_only.tolist()
    [-4.0, -2.0, -1.0, 1.0, 2.0, 4.0]
    """
    if not ties and not sides:
        return RELIABILITY_ONLY
    widths = np.array(TIE_WIDTHS) if ties else np.zeros(1)
    some = widths[::2] if sides else widths[:0]
    pure = np.tile(_PURE_SIDES, len(some))
    return WorkerTypes(widths, pure, np.repeat(some, len(_PURE_SIDES)), sides)


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
    shares: Vector = field(default_factory=lambda: np.array(SHARES))
    types: WorkerTypes = RELIABILITY_ONLY

    @staticmethod
    def start(
        levels: Vector, mean: float, sd: float, habits: WorkerTypes = RELIABILITY_ONLY
    ) -> WorkerPrior:
        """N(mean, sd²) at every tie width alike, mixed with 3 % of uniform over all types."""
        points, widths = mirrored(levels), len(habits.widths)
        types = habits.n_types(levels)
        masses = np.full(types, 0.03 / types)
        regular = np.tile(gaussian_on(points, mean, sd) / widths, widths)
        masses[: len(regular)] += 0.97 * regular
        return WorkerPrior(levels, masses, types=habits)

    def learned(
        self,
        counts: Callable[[Vector], Vector],
        cycles: int,
        tolerance: float,
        *,
        ahead: float,
        update: TypeUpdate = update_types,
    ) -> WorkerPrior:
        """π at rest under counting types and learning from the counts, as near as `cycles` bring.

        It is at rest where a step moves no more than `tolerance` of its mass and of p0.

        Plain steps creep along directions of which the votes imply little, and EP would creep with
        them: after every two steps `squarem` goes at most `ahead` times as far. `update` is
        `update_types` or the same by other means.
        """
        prior, grid = self, self._grid()
        for _ in range(cycles):
            one = prior._updated(grid, counts(prior.masses), update)
            if np.abs(one._vector() - prior._vector()).sum() <= tolerance:
                return one
            two = one._updated(grid, counts(one.masses), update)
            prior = _extrapolated(prior, one, two, ahead)
            for _ in range(2):  # what an extrapolation stirs up in other directions dies down
                prior = prior._updated(grid, counts(prior.masses), update)
        return prior

    def _vector(self) -> Vector:
        """μ, log τ, ρ and π in one vector, for extrapolation."""
        return np.concatenate([[self.centre or 0.0, np.log(self.spread)], self.shares, self.masses])

    def updated(self, counts: Vector) -> WorkerPrior:
        """π from the counts, by three steps of EM for p0."""
        return self._updated(self._grid(), counts, update_types)

    def _grid(self) -> _Grid:
        """The signed reliabilities, and logarithms of the widths of their cells."""
        points = mirrored(self.levels)
        return points, np.log(np.gradient(points))

    def by_width(self, masses: Vector) -> Vector:
        """What regular types hold, a row a tie width, a column a reliability."""
        points = 2 * len(self.levels) + 1
        return masses[: len(self.types.widths) * points].reshape(-1, points)

    def flipped(self) -> WorkerPrior:
        """The distribution of -β."""
        regular = self.by_width(self.masses)
        masses = np.concatenate([regular[:, ::-1].ravel(), self.masses[regular.size :]])
        centre = None if self.centre is None else -self.centre
        return replace(self, masses=masses, centre=centre)

    def _updated(self, grid: _Grid, counts: Vector, update: TypeUpdate) -> WorkerPrior:
        n_widths = len(self.types.widths)
        centre = np.nan if self.centre is None else self.centre
        masses, centre, spread, shares = update(
            *grid, n_widths, counts, centre, self.spread, self.shares
        )
        return WorkerPrior(self.levels, masses, centre, spread, shares, self.types)

    def rescaled(self, factor: float) -> WorkerPrior:
        """The distribution of β·factor, on the grid times the factor."""
        centre = None if self.centre is None else self.centre * factor
        return replace(
            self, levels=self.levels * factor, centre=centre, spread=self.spread * factor
        )


def _extrapolated(
    zero: WorkerPrior, one: WorkerPrior, two: WorkerPrior, most: float
) -> WorkerPrior:
    """Squared extrapolation of π and p0 from three iterates, by at most so many steps."""
    if zero.centre is None or one.centre is None or two.centre is None:
        return two
    if zero.centre * one.centre < 0 or one.centre * two.centre < 0:  # the majority changed sides
        return two
    found = squarem(zero._vector(), one._vector(), two._vector(), most)
    if found is None:
        return two
    # distributions stay distributions of the same support
    masses = np.maximum(found[5:], 0.1 * two.masses)
    shares = np.maximum(found[2:5], 0.1 * two.shares)
    return replace(
        two,
        masses=masses / masses.sum(),
        centre=float(found[0]),
        spread=max(float(np.exp(min(found[1], 3.0))), MIN_SPREAD),
        shares=shares / shares.sum(),
    )
