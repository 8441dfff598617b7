"""What the grid passes compute of votes and types, in plain torch.

The Triton kernels of `triton_grid` compute the same in one sweep each; this is what runs where
there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from crowdsift.engines.grid import LEAST_DENOMINATOR
from crowdsift.engines.torch.sums import ExactSum
from crowdsift.numeric.likelihoods import PROBIT_SMOOTHING

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.rows import SiteRows
    from crowdsift.engines.torch.types import TypeState

__all__ = ["Cavities", "Moments", "PlainPasses", "cavity", "moved"]

# A log Z below this tells no more: sums of fixed point must not overflow.
_LEAST_LOG = -16_000.0


class Cavities(NamedTuple):
    """Of some rows: mean and variance of the difference and of the side bias without the site.

    `side_mean` has the sign of the side on which the winner stood; both are 0 for gold and where
    sides are not used.
    """

    mean: Tensor
    variance: Tensor
    side: Tensor
    side_mean: Tensor
    side_variance: Tensor


class Moments(NamedTuple):
    """First and second derivatives of log Z of some rows, in the difference and in the bias."""

    alpha: Tensor
    kappa: Tensor
    side_alpha: Tensor | None
    side_kappa: Tensor | None


def cavity(E: Tensor, V: Tensor, tau: Tensor, nu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance without one site, and the log-normaliser of that site."""
    rest = torch.clamp(1.0 - tau * V, min=LEAST_DENOMINATOR)
    log_site = 0.5 * torch.log(rest) + 0.5 * (2.0 * E * nu - tau * E * E - V * nu * nu) / rest
    return (E - V * nu) / rest, V / rest, log_site


def moved(
    tau: Tensor, nu: Tensor, alpha: Tensor, kappa: Tensor, m: Tensor, v: Tensor, damping: float,
    clip: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The sites, `damping` of the way to those of the moments."""
    kappa = kappa.clamp(min=0.0) if clip else kappa
    bottom = torch.clamp(1.0 - kappa * v, min=LEAST_DENOMINATOR)
    return (
        tau + damping * (kappa / bottom - tau),
        nu + damping * ((alpha + kappa * m) / bottom - nu),
    )


class PlainPasses:
    """The two sweeps of a pass over votes and types: messages of workers, moments of sites."""

    name = "torch"

    def __init__(self, rows: SiteRows, types: TypeState) -> None:
        self._rows, self._types, self._points = rows, types, types.points()
        n_types = types.n_types()
        bound = rows.heaviest * -_LEAST_LOG
        shape = (rows.votes.n_workers, n_types)
        self._messages = ExactSum(shape, rows.most_of_worker, bound)

    def parts(self) -> list[slice]:
        """The rows, some at a time."""
        return list(self._rows.parts(8 * self._types.n_types()))

    def add_messages(self, part: slice, at: Cavities) -> None:
        """n·log Z of every row and type, to the row's worker."""
        rows = self._rows
        z, width, _ = self._arguments(part, at)
        log_Z, _, _ = _outcomes(z, width, rows.kind[part] == 2, self._types.shape.ties)
        n = rows.n[part].to(torch.float64)
        self._messages.add(rows.worker[part], n[:, None] * log_Z.clamp(min=_LEAST_LOG))

    def messages(self) -> Tensor:
        """Sums of all rows, a row a worker."""
        return self._messages.total()

    def moments(self, part: slice, at: Cavities, q: Tensor, given: Tensor | None) -> Moments:
        """Moments under the types' posterior; those of the side under `given`, of regular ones."""
        rows, regular = self._rows, self._points.regular
        z, width, k = self._arguments(part, at)
        _, e, f = _outcomes(z, width, rows.kind[part] == 2, self._types.shape.ties)
        worker = rows.worker[part]
        slope, own = self._beta(part) * k, q.index_select(0, worker)
        alpha = (own * e * slope).sum(dim=1)
        kappa = alpha * alpha - (own * f * slope * slope).sum(dim=1)
        if given is None:
            return Moments(alpha, kappa, None, None)
        among, x = given.index_select(0, worker) * regular, at.side
        side = x * (among * e * k).sum(dim=1)
        bend = x.abs() * (side * side - (among * f * k * k).sum(dim=1))
        return Moments(alpha, kappa, side, bend)

    def _beta(self, part: slice) -> Tensor:
        """The reliability of every type for every row."""
        types = self._types
        workers, place = torch.unique_consecutive(self._rows.worker[part], return_inverse=True)
        grid = types.reliabilities(workers).repeat(1, len(types.shape.widths))
        none = torch.zeros((len(workers), len(types.shape.side_only)), dtype=grid.dtype)
        beta: Tensor = torch.cat([grid, none.to(grid.device)], dim=1).index_select(0, place)
        return beta

    def _arguments(self, part: slice, at: Cavities) -> tuple[Tensor, Tensor, Tensor]:
        """k·z, k·δ and k of every row and type."""
        width, only, regular = self._points
        beta = self._beta(part)
        variance = beta * beta * at.variance[:, None] + regular * at.side_variance[:, None]
        k = torch.rsqrt(1.0 + PROBIT_SMOOTHING * variance)
        z = beta * at.mean[:, None] + regular * at.side_mean[:, None] + only * at.side[:, None]
        return k * z, k * width, k


def _outcomes(z: Tensor, width: Tensor, tied: Tensor, ties: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Log Z and its first two derivatives in z, the second as f: e² + (log Z)''."""
    up = z - width
    p1 = torch.sigmoid(up)
    log_p1 = torch.nn.functional.logsigmoid(up)
    e, f = torch.sigmoid(-up), torch.sigmoid(-up) * (1.0 - 2.0 * p1)
    if not ties:
        return log_p1, e, f
    down = -z - width
    p2, tie = torch.sigmoid(down), tied[:, None]
    log_tie = torch.log(torch.expm1((2.0 * width).clamp(max=700.0)))
    log_tie = log_tie + log_p1 + torch.nn.functional.logsigmoid(down)
    e_tie = p2 - p1
    f_tie = e_tie * e_tie - p1 * (1.0 - p1) - p2 * (1.0 - p2)
    return torch.where(tie, log_tie, log_p1), torch.where(tie, e_tie, e), torch.where(tie, f_tie, f)
