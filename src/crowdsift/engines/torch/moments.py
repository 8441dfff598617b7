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
    from collections.abc import Iterator

    from torch import Tensor

    from crowdsift.engines.torch.rows import SiteRows
    from crowdsift.engines.torch.types import TypeState

__all__ = ["Cavities", "NewSites", "SiteState", "TorchPasses", "cavity", "moved", "side_cavity"]

# A log Z below this tells no more: sums of fixed point must not overflow.
_LEAST_LOG = -16_000.0


class SiteState(NamedTuple):
    """Where a pass starts: E and V of every pair, the sites, and γ of every worker.

    `sides` are mean and variance of γ, None where sides are not used; its sites are empty then.
    """

    mean: Tensor
    variance: Tensor
    tau: Tensor
    nu: Tensor
    side_tau: Tensor
    side_nu: Tensor
    sides: tuple[Tensor, Tensor] | None


class NewSites(NamedTuple):
    """The sites after a pass."""

    tau: Tensor
    nu: Tensor
    side_tau: Tensor
    side_nu: Tensor


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


def side_cavity(
    rows: SiteRows, state: SiteState, sides: tuple[Tensor, Tensor], part: slice
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of γ without the site, for some rows, and the site's log-normaliser."""
    mean, variance = (value.index_select(0, rows.worker[part]) for value in sides)
    return cavity(mean, variance, state.side_tau[part].double(), state.side_nu[part].double())


class TorchPasses:
    """The two sweeps of a pass over votes and types: messages of workers, then the sites."""

    kernels = False  # whether workers and types are a matter of kernels, too

    def __init__(self, rows: SiteRows, types: TypeState, before_gold: int) -> None:
        self._rows, self._types, self._before_gold = rows, types, before_gold
        self._points = types.points()

    def messages(self, state: SiteState, marked: Tensor) -> tuple[Tensor, Tensor]:
        """Σ n·log Z of every worker and type, and Σ n·log Z̃ over the votes of marked workers."""
        rows, total = self._rows, self._rows.votes.zero()
        shape = (rows.votes.n_workers, self._types.n_types())
        sums = ExactSum(shape, rows.most_of_worker, rows.heaviest * -_LEAST_LOG)
        for part in self._parts():
            at, log_site = self._cavities(part, state)
            n, worker = rows.n[part].double(), rows.worker[part]
            total = total + (n * log_site * marked.index_select(0, worker)).sum()
            z, width, _ = self._arguments(part, at)
            log_Z, _, _ = _outcomes(z, width, rows.kind[part] == 2, self._types.shape.ties)
            sums.add(worker, n[:, None] * log_Z.clamp(min=_LEAST_LOG))
        return sums.total(), total

    def move(
        self, state: SiteState, q: Tensor, given: Tensor | None, marked: Tensor, damping: float,
        clip: bool,
    ) -> NewSites:  # fmt: skip
        """The sites of marked workers, `damping` of the way to those of the moments.

        Moments are under the types' posterior q, those of the side under `given`, of regular types.
        """
        old = state.tau, state.nu, state.side_tau, state.side_nu
        new = NewSites(*(torch.empty_like(x) for x in old))
        for part in self._parts():
            at, _ = self._cavities(part, state)
            moving = marked.index_select(0, self._rows.worker[part])
            alpha, kappa, side_alpha, side_kappa = self._moments(part, at, q, given)
            was = [x[part].double() for x in old[: 2 if given is None else 4]]
            m, v = at.mean, at.variance
            now = [*moved(was[0], was[1], alpha, kappa, m, v, damping, clip)]
            if given is not None:
                m, v = at.side * at.side_mean, at.side_variance
                now += moved(was[2], was[3], side_alpha, side_kappa, m, v, damping, True)
            for out, one, two in zip(new, now, was, strict=False):
                out[part] = torch.where(moving, one, two)
        return new

    def _parts(self) -> Iterator[slice]:
        return self._rows.parts(8 * self._types.n_types())

    def _cavities(self, part: slice, state: SiteState) -> tuple[Cavities, Tensor]:
        """Cavities of some rows, and log-normalisers of their sites."""
        rows, pair = self._rows, self._rows.pair[part]
        E = state.mean.index_select(0, pair).double() * rows.sign[part]
        V = state.variance.index_select(0, pair).double()
        m, v, log_site = cavity(E, V, state.tau[part].double(), state.nu[part].double())
        x, none = rows.side(part, self._before_gold), torch.zeros_like(m)
        if state.sides is None:
            return Cavities(m, v, x, none, none), log_site
        m_side, v_side, _ = side_cavity(rows, state, state.sides, part)
        return Cavities(m, v, x, x * m_side, x.abs() * v_side), log_site

    def _moments(
        self, part: slice, at: Cavities, q: Tensor, given: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """First and second derivatives of log Z, in the difference and in the side bias."""
        rows, regular = self._rows, self._points.regular
        z, width, k = self._arguments(part, at)
        _, e, f = _outcomes(z, width, rows.kind[part] == 2, self._types.shape.ties)
        worker = rows.worker[part]
        slope, own = self._beta(part) * k, q.index_select(0, worker)
        alpha = (own * e * slope).sum(dim=1)
        kappa = alpha * alpha - (own * f * slope * slope).sum(dim=1)
        if given is None:
            return alpha, kappa, alpha, kappa
        among, x = given.index_select(0, worker) * regular, at.side
        side_alpha = x * (among * e * k).sum(dim=1)
        side_second = (among * f * k * k).sum(dim=1)
        return alpha, kappa, side_alpha, x.abs() * (side_alpha * side_alpha - side_second)

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
