"""Quantiles of posteriors over types of many workers, on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdsift.engines.torch.votes import to_device, to_host

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["quantiles"]


def quantiles(
    points: Vector, masses: Vector, levels: Vector, atom: Vector, device: torch.device
) -> Vector:
    """As `solvers.ep.type_summary.quantiles`, which is the specification, has them."""
    x, mass, held = (to_device(values, device) for values in (points, masses, atom))
    middle = 0.5 * (x[:, 1:] + x[:, :-1])
    first, last = 2.0 * x[:, :1] - middle[:, :1], 2.0 * x[:, -1:] - middle[:, -1:]
    edges = torch.cat([first, middle, last], dim=1)
    reached = torch.cumsum(mass, dim=1)
    zero = x.shape[1] // 2
    whole = (reached[:, -1] + held).clamp(min=1e-300)
    below = reached[:, zero] - 0.5 * mass[:, zero]
    columns = []
    for level in levels.tolist():
        target = level * whole
        inside = (target > below) & (target < below + held)
        target = torch.where(target >= below + held, target - held, target)
        cell = (reached < (target - 1e-12 * whole)[:, None]).sum(dim=1, keepdim=True)
        cell = cell.clamp(max=x.shape[1] - 1)
        before = torch.where(cell > 0, reached.gather(1, (cell - 1).clamp(min=0)), 0.0)
        share = (target[:, None] - before) / mass.gather(1, cell).clamp(min=1e-300)
        low, high = edges.gather(1, cell), edges.gather(1, cell + 1)
        found = low + share.clamp(0.0, 1.0) * (high - low)
        columns.append(torch.where(inside, 0.0, found[:, 0]))
    return to_host(torch.stack(columns, dim=1))
