"""Quantiles and summaries of the posteriors over types of many workers, on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdsift.engines.fused import ReliabilitySummary
from crowdsift.engines.torch.vectors import to_device, to_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from crowdsift.engines.torch.types import TypeState
    from crowdsift.numeric import Vector

__all__ = ["class_masses", "quantiles", "summary"]

_NUMBERS = 1 << 25  # of workers and types, at a time


def quantiles(
    points: Vector, masses: Vector, levels: Vector, atom: Vector, device: torch.device
) -> Vector:
    """As `solvers.ep.type_summary.quantiles`, which is the specification, has them."""
    x, mass, held, at = (to_device(values, device) for values in (points, masses, atom, levels))
    return to_host(_quantiles(x, mass, at, held[:, None]))


def _quantiles(x: Tensor, mass: Tensor, levels: Tensor, held: Tensor) -> Tensor:
    middle = 0.5 * (x[:, 1:] + x[:, :-1])
    first, last = 2.0 * x[:, :1] - middle[:, :1], 2.0 * x[:, -1:] - middle[:, -1:]
    edges = torch.cat([first, middle, last], dim=1)
    reached = torch.cumsum(mass, dim=1)
    zero = x.shape[1] // 2
    whole = (reached[:, -1:] + held).clamp(min=1e-300)
    below = reached[:, zero : zero + 1] - 0.5 * mass[:, zero : zero + 1]
    target = levels * whole
    inside = (target > below) & (target < below + held)
    target = torch.where(target >= below + held, target - held, target)
    cell = torch.searchsorted(reached, target - 1e-12 * whole).clamp(max=x.shape[1] - 1)
    before = torch.where(cell > 0, reached.gather(1, (cell - 1).clamp(min=0)), 0.0)
    share = (target - before) / mass.gather(1, cell).clamp(min=1e-300)
    low, high = edges.gather(1, cell), edges.gather(1, cell + 1)
    found: Tensor = low + share.clamp(0.0, 1.0) * (high - low)
    return torch.where(inside, 0.0, found)


def summary(types: TypeState, prior: Vector, levels: Vector) -> ReliabilitySummary | None:
    """See `engines.fused.FusedSites`."""
    if not types.reliability_only():
        return None
    at, columns = to_device(levels, types.levels.device), []
    for points, masses in _posteriors(types, prior):
        mean = (points * masses).sum(dim=1)
        square = (points * points * masses).sum(dim=1)
        sd = (square - mean * mean).clamp(min=0.0).sqrt()
        none = torch.zeros_like(mean[:, None])
        limits = _quantiles(points, masses, at, none)
        columns.append([x.cpu() for x in (mean, sd, limits)])
    whole = (torch.cat(column).numpy() for column in zip(*columns, strict=True))
    return ReliabilitySummary(*whole) if columns else None


def class_masses(types: TypeState, prior: Vector, zone: float) -> Vector | None:
    """See `engines.fused.FusedSites`."""
    if not types.reliability_only():
        return None
    parts = []
    for points, masses in _posteriors(types, prior):
        below, above = points < -zone, points > zone
        kinds = (below, ~(below | above), above)
        parts.append(torch.stack([(masses * kind).sum(dim=1) for kind in kinds], dim=1).cpu())
    return torch.cat(parts).numpy() if parts else None


def _posteriors(types: TypeState, prior: Vector) -> Iterator[tuple[Tensor, Tensor]]:
    """Reliabilities and their masses, of some workers at a time."""
    count, n_types = types.messages.shape
    workers = torch.arange(count, device=types.messages.device)
    each = max(_NUMBERS // n_types, 1)
    for begin in range(0, count, each):
        rows = slice(begin, min(begin + each, count))
        yield types.reliabilities(workers[rows]), types.posterior(prior, None, rows=rows)[0]
