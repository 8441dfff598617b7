"""Adaptive grids of workers whose likelihood is narrower than the common grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import mirrored

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["interpolated_prior", "refined_levels"]

# A worker is refined where its posterior is narrower than NARROW cells of its grid; its adaptive
# grid spans SPAN standard deviations to each side, and moves when an end would by SLACK of it.
NARROW, SPAN, SLACK = 1.0, 7.0, 0.15


def refined_levels(common: Vector, own: Vector | None, likelihood: Vector) -> Vector | None:
    """Levels that resolve a worker's likelihood of types, or None where the common ones do.

    A worker gets levels of its own where the likelihood of |β| (not the posterior: a narrow prior
    is the same for all) is narrower than `NARROW` cells of the common grid, and keeps them unless
    they become twice as coarse. They are evenly spaced over mean ± `SPAN` sd, within the common
    grid; since a likelihood in one cell shows no width, never over less than 1.5 cells to each
    side: refinement goes in steps. Levels whose ends would move little stay.
    """
    levels = common if own is None else own
    half = len(levels)
    size = (likelihood[half + 1 :] + likelihood[:half][::-1]) * np.gradient(levels)
    mean = float(levels @ size / size.sum())
    sd = float(np.sqrt(max(levels**2 @ size / size.sum() - mean**2, 0.0)))
    if own is None and sd >= NARROW * _cell_at(common, mean):
        return None
    reach = max(SPAN * sd, 1.5 * _cell_at(levels, mean))
    low, high = max(mean - reach, 0.0), min(mean + reach, float(common[-1]))
    if high - low > 2 * half * _cell_at(common, mean):
        return None
    new = np.linspace(0.0, high, half + 1)[1:] if low == 0.0 else np.linspace(low, high, half)
    slack = SLACK * (high - low)
    if own is not None and abs(new[0] - own[0]) <= slack and abs(high - own[-1]) <= slack:
        return own
    return np.asarray(new, dtype=np.float64)


def _cell_at(levels: Vector, place: float) -> float:
    """The distance of the two levels about a place, or of the nearest two."""
    at = int(np.clip(np.searchsorted(levels, place), 1, len(levels) - 1))
    return float(levels[at] - levels[at - 1])


def interpolated_prior(common: Vector, prior: Vector, own: Vector) -> Vector:
    """The prior's masses on a worker's own mirrored levels.

    The density prior/width is linear between the common levels; the mass at 0 stays at 0.
    """
    half = len(common)
    widths = np.gradient(mirrored(common))
    density = prior / widths
    own_widths = np.gradient(own)
    up = np.interp(own, common, density[half + 1 :]) * own_widths
    down = np.interp(own, common, density[:half][::-1]) * own_widths
    return np.concatenate([down[::-1], [prior[half]], up])
