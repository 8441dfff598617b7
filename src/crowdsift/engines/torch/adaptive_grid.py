"""Adaptive grids of all workers at once; `engines.reference.adaptive_grid` is the specification.

The levels of a worker's grid are evenly spaced, so its two ends are all that is kept of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from crowdsift.engines.torch.sums import FixedPoint

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CONSTANTS",
    "Transfer",
    "adaptive_levels",
    "interpolated",
    "signed_widths",
    "transfer",
]  # fmt: skip

# NARROW, SPAN and SLACK of `engines.reference.adaptive_grid`.
CONSTANTS = 1.0, 7.0, 0.15


def adaptive_levels(low: Tensor, high: Tensor, half: int) -> Tensor:
    """The levels between the ends, a row per worker."""
    place = torch.arange(half, dtype=torch.float64, device=low.device) / max(half - 1, 1)
    levels: Tensor = low[:, None] + (high - low)[:, None] * place[None, :]
    return levels


def interpolated(common: Tensor, priors: Tensor, own: Tensor) -> Tensor:
    """Priors (workers x widths x types) on adaptive grids of workers; the mass at 0 stays."""
    half = len(common)
    density = priors / signed_widths(common)
    place, share = _places(common, own)
    widths = _gradient(own)[:, None, :]

    def at(side: Tensor) -> Tensor:
        shape = (*side.shape[:2], half)
        one = torch.gather(side, 2, place[:, None, :].expand(shape))
        two = torch.gather(side, 2, (place + 1)[:, None, :].expand(shape))
        found: Tensor = ((1.0 - share)[:, None, :] * one + share[:, None, :] * two) * widths
        return found

    up, down = at(density[:, :, half + 1 :]), at(density[:, :, :half].flip(2))
    result: Tensor = torch.cat([down.flip(2), priors[:, :, half : half + 1], up], dim=2)
    return result


class Transfer(NamedTuple):
    """What prior mass at a type and at its two neighbours adds to a type's share, a row per worker.

    Interpolating the prior to a worker's grid, weighing by the likelihood and sharing out among
    neighbours again couples a type of the common grid with its neighbours only.
    """

    same: Tensor
    above: Tensor  # mass of the next type up
    below: Tensor

    def total(self, prior: Tensor, size: int) -> Tensor:
        """Return the sum over types, of every worker; `prior` has a row per worker."""
        up, down = _neighbours(prior, size)
        total: Tensor = (self.same * prior + self.above * up + self.below * down).sum(dim=1)
        return total

    def counts(self, prior: Tensor, share: Tensor, size: int) -> Tensor:
        """Return the sum over workers, each times its share."""
        up, down = _neighbours(prior, size)
        counts: Tensor = (self.same * prior + self.above * up + self.below * down).T @ share
        return counts


def transfer(common: Tensor, own: Tensor, likelihood: Tensor) -> Transfer:
    """From likelihoods (workers x widths x types) on the workers' adaptive grids."""
    half, shape = len(common), likelihood.shape
    cell = signed_widths(common)[half:]  # of 0 and of the positive levels
    weight = _gradient(own)[:, None, :]
    up = _one_side(common, own, cell, likelihood[:, :, half + 1 :] * weight)
    down = _one_side(common, own, cell, likelihood[:, :, :half].flip(2) * weight)
    zero = likelihood[:, :, half : half + 1]
    same = torch.cat([down.same[:, :, 1:].flip(2), zero, up.same[:, :, 1:]], dim=2)
    above = torch.cat([down.below[:, :, 1:].flip(2), up.above], dim=2)
    below = torch.cat([down.above.flip(2), up.below[:, :, 1:]], dim=2)
    return Transfer(*(x.reshape(shape[0], -1).contiguous() for x in (same, above, below)))


def _one_side(common: Tensor, own: Tensor, cell: Tensor, mass: Tensor) -> Transfer:
    """The same for the levels of one sign, counted from 0 outwards; `above` is farther from 0."""
    place, share = _places(common, own)
    place = place + 1
    inside = own < common[0]  # between 0 and the first level, whose density holds there
    place = torch.where(inside, 0, place)
    to_upper = torch.where(inside, own / common[0], share)
    of_lower = torch.where(inside, 0.0, 1.0 - share) / cell[place]
    of_upper = torch.where(inside, 1.0, share) / cell[place + 1]
    bins = (*mass.shape[:2], len(common) + 1)
    at = place[:, None, :].expand(mass.shape)

    def gathered(*pieces: tuple[Tensor, Tensor]) -> Tensor:
        """Masses times factors by type, exactly whatever the order."""
        values = [mass * factor[:, None, :] for _, factor in pieces]
        bound = torch.stack([value.abs().max() for value in values]).max()
        scale = FixedPoint(bound, 2 * mass.shape[2])
        sums = torch.zeros(bins, dtype=torch.int64, device=mass.device)
        for (index, _), value in zip(pieces, values, strict=True):
            sums.scatter_add_(2, index, scale.whole(value))
        return scale.values(sums)

    return Transfer(
        gathered((at, (1.0 - to_upper) * of_lower), (at + 1, to_upper * of_upper)),
        gathered((at, (1.0 - to_upper) * of_upper)),
        gathered((at + 1, to_upper * of_lower)),
    )


def _neighbours(prior: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The prior of the next type up and of the next type down, 0 beyond a grid's ends."""
    grid = prior.reshape(*prior.shape[:-1], -1, size)
    none = torch.zeros_like(grid[..., :1])
    up = torch.cat([grid[..., 1:], none], dim=-1)
    down = torch.cat([none, grid[..., :-1]], dim=-1)
    return up.reshape(prior.shape), down.reshape(prior.shape)


def _gradient(x: Tensor) -> Tensor:
    """Central differences along rows, one-sided at the ends."""
    if x.shape[-1] < 2:
        return torch.ones_like(x)
    inner = 0.5 * (x[..., 2:] - x[..., :-2])
    first, last = x[..., 1:2] - x[..., :1], x[..., -1:] - x[..., -2:-1]
    found: Tensor = torch.cat([first, inner, last], dim=-1)
    return found


def signed_widths(common: Tensor) -> Tensor:
    """Widths of the cells of the signed grid."""
    return _gradient(torch.cat([-common.flip(0), torch.zeros_like(common[:1]), common]))


def _places(common: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """The common level below each own one, and how far it is on the way to the next."""
    place = torch.searchsorted(common, own.contiguous(), right=True) - 1
    place = place.clamp(0, len(common) - 2)
    step = common[place + 1] - common[place]
    return place, ((own - common[place]) / step).clamp(0.0, 1.0)
