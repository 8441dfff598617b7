"""The sites of one run of expectation propagation, on a device."""

from collections.abc import Iterator
from copy import copy
from typing import Self

import numpy as np
import torch
from torch import Tensor

from crowdsift.engines.fused import ReliabilitySummary
from crowdsift.engines.grid import (
    LEAST_DENOMINATOR,
    Messages,
    PairPosteriors,
    PairVariances,
    SidePrior,
    SitePass,
    SiteSystem,
    SiteUpdate,
    TypePosteriors,
    VoteSites,
    WorkerPoints,
    WorkerPriors,
    WorkerTypes,
)
from crowdsift.engines.torch.device import memory_errors
from crowdsift.engines.torch.pairs import PairState
from crowdsift.engines.torch.rows import SiteRows
from crowdsift.engines.torch.sums import exact_sum
from crowdsift.engines.torch.triton_grid import GridPasses, SiteState
from crowdsift.engines.torch.types import TypeState
from crowdsift.engines.torch.vectors import to_device, to_host, to_solver
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import LOGISTIC_SMOOTHING
from crowdsift.numeric.threads import available_threads

_NUMBERS = 1 << 25  # numbers of workers and types processed at a time


def quantiles(points: Vector, masses: Vector, levels: Vector, atom: Vector, device: torch.device) -> Vector:
    """Return quantiles as `solvers.ep.summaries.quantiles`, which is the specification."""
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


def _posteriors(types: TypeState, prior: Vector) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield reliabilities and their masses, for some workers at a time."""
    count, n_types = types.messages.shape
    workers = torch.arange(count, device=types.messages.device)
    each = max(_NUMBERS // n_types, 1)
    for begin in range(0, count, each):
        rows = slice(begin, min(begin + each, count))
        yield types.reliabilities(workers[rows]), types.posterior(prior, None, rows=rows)[0]


class TorchSites:
    """`crowdsift.engines.grid.GridSites` on tensors; sites are in single precision.

    Tensors are replaced, never changed, so that copies share them.
    """

    def __init__(self, votes: VoteTensors, rows: SiteRows, types: WorkerTypes, variance: float) -> None:
        self._votes, self._rows, self._before_gold = votes, rows, votes.n_workers - votes.n_gold
        self._types = TypeState(types, votes.n_workers, votes.n_gold, votes.device, rows.rooms)
        self._pairs = PairState(rows, votes.n_items, variance)
        zeros = torch.zeros(len(rows), dtype=torch.float32, device=votes.device)
        self._tau = self._nu = zeros
        self._side_tau = self._side_nu = zeros if types.sides else zeros[:0]
        self.n_votes, self.n_pairs = float(len(rows)), float(self._pairs.count)
        self.pairs_held = self.n_pairs

    def update(self, given: SitePass) -> SiteUpdate:
        with memory_errors(self._votes.device, len(self._rows)):
            return self._updated(given)

    def _updated(self, given: SitePass) -> SiteUpdate:
        levels, prior, means, side, damping, clip, own, workers = given
        rows, types, votes = self._rows, self._types, self._votes
        types.set_levels(levels)
        marked = rows.everyone
        if workers is not None:
            marked = torch.tensor(workers, device=votes.device)
        share = 1.0 if workers is None else float((rows.held * marked).sum()) / max(len(rows), 1)
        votes.counter.passes += share
        state, family = self._state(votes.numbers(means), side, own)
        passes = GridPasses(rows, types, self._before_gold)
        messages, log_sites = passes.messages(state, marked)
        sides = types.shape.sides
        types.set_messages(messages)
        if own is None:
            q, among, logs, _, regular = types.common_posterior(family if sides else None, prior)
        else:
            plain = types.points().regular
            types.set_messages(messages + plain * family[:, None])
            q, logs = types.posterior(prior, own)
            among = types.posterior(prior, own, plain)[0] if sides else None
            regular = q @ plain
        if damping:
            new = passes.move(state, q, among, marked, damping, clip)
            self._tau, self._nu, self._side_tau, self._side_nu = new
        counted = marked & rows.counted(self._before_gold)
        some = rows.counted(self._before_gold, numbers=True) if workers is None else counted.double()
        counts = types.counts(prior, some, self._own(prior, own))
        sums = torch.stack([torch.where(marked, logs, 0.0).sum(), log_sites])
        found = to_host(torch.cat([counts, sums]))
        side_tau, side_nu = (to_solver(x) if sides else np.zeros(len(x)) for x in self._side_sums())
        return SiteUpdate(
            found[:-2],
            float(found[-2]),
            float(found[-1]),
            types.gold_margin(marked),
            to_solver(torch.where(counted, regular, 0.0)),
            side_tau,
            side_nu,
        )

    def type_counts(self, prior: Vector) -> Vector:
        workers = self._rows.counted(self._before_gold, numbers=True)
        found = self._types.recorded_counts(prior, workers)
        return to_host(self._types.counts(prior, workers)) if found is None else found

    def posteriors(self, prior: Vector, rows: slice, own: WorkerPriors | None = None) -> TypePosteriors:
        numbers = torch.arange(self._votes.n_workers, device=self._votes.device)[rows]
        masses, _ = self._types.posterior(prior, own, rows=rows)
        return TypePosteriors(to_host(self._types.reliabilities(numbers)), to_host(masses))

    def quantiles(self, points: Vector, masses: Vector, levels: Vector, atom: Vector) -> Vector:
        """Return quantiles of posteriors over types if there are many workers."""
        return quantiles(points, masses, levels, atom, self._votes.device)

    def summary(self, prior: Vector, levels: Vector) -> ReliabilitySummary | None:
        types = self._types
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

    def class_masses(self, prior: Vector, zone: float) -> Vector | None:
        types = self._types
        if not types.reliability_only():
            return None
        parts = []
        for points, masses in _posteriors(types, prior):
            below, above = points < -zone, points > zone
            kinds = (below, ~(below | above), above)
            parts.append(torch.stack([(masses * kind).sum(dim=1) for kind in kinds], dim=1).cpu())
        return torch.cat(parts).numpy() if parts else None

    def idle_threads(self) -> int:
        """Return all threads while a GPU works."""
        return available_threads() if self._votes.device.type == "cuda" else 1

    def refine(self) -> float:
        return float(self._types.refine())

    def pair_sums(self) -> Vector:
        """Return nothing: this engine is never a shard, so no pairs are shared."""
        return np.zeros((0, 2))

    def system(self, shared: Vector, pair_effect: float = 0.0) -> SiteSystem:
        return self._pairs.system(self._tau, self._nu, pair_effect)

    def loopy_bp(self, tolerance: float, sweeps: int, *, fresh: bool) -> PairVariances | None:
        """Run belief propagation to its end without synchronising with the host; None if impossible."""
        return self._pairs.loopy_bp(tolerance, sweeps, fresh)

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        return self._pairs.pair_posteriors(self._votes.numbers(means))

    def set_pair_variances(self, variances: Vector | None = None, shared: Vector | None = None) -> None:
        self._pairs.set_variances(variances)

    def propagate(self, precision: Vector, settled: Vector, *, fresh: bool = False, last: bool = False) -> Messages:
        numbers = self._votes.numbers
        return self._pairs.propagate(numbers(precision), numbers(settled), fresh, last)

    def transform(self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False) -> None:
        self._tau, self._nu = self._tau * scale**2, self._nu * (-scale if flip else scale)
        self._tau = self._tau.clamp(min=0.0) if clip else self._tau
        self._pairs.rescale(scale)
        if grids:
            self._types.rescale(scale)

    def copy(self) -> Self:
        clone = copy(self)
        clone._pairs, clone._types = self._pairs.copy(), self._types.copy()
        return clone

    def suspend(self) -> None:
        self._pairs.suspend()
        self._types.suspend()

    def vote_sites(self) -> VoteSites:
        rows, index = self._rows, self._rows.pairs
        low, high = (x.index_select(0, rows.pair) for x in (index.low, index.high))
        won = rows.sign > 0
        ends = torch.where(won, low, high), torch.where(won, high, low)
        winner, loser = (x.cpu().numpy().view(np.uint32) for x in ends)
        sites = [x.cpu().numpy() for x in (self._tau, self._nu, self._side_tau, self._side_nu)]
        if not self._types.shape.sides:
            sites[2:] = [np.zeros(len(rows), np.float32)] * 2
        ends_of = (to_host(x) for x in (self._types.low, self._types.high))
        held = rows.held.cpu().numpy()
        return VoteSites(held, winner, loser, rows.kind.cpu().numpy(), *sites, *ends_of)

    def set_vote_sites(self, sites: VoteSites, half: int) -> None:
        device = self._votes.device
        given = [torch.tensor(x, dtype=torch.float32, device=device) for x in sites[4:8]]
        self._tau, self._nu = given[:2]
        if self._types.shape.sides:
            self._side_tau, self._side_nu = given[2:]
        self._types.set_ends(self._votes.numbers(sites.low), self._votes.numbers(sites.high))

    def pair_likelihood(self, differences: Vector, variances: Vector, points: WorkerPoints) -> float:
        rows, numbers = self._rows, self._votes.numbers
        d, v, total = numbers(differences), numbers(variances), self._votes.zero()
        columns = [numbers(column) for column in points]
        for part in rows.parts(8 * columns[0].shape[1]):
            beta, width, bias, spread = (x.index_select(0, rows.worker[part]) for x in columns)
            pair = rows.pair[part]
            signed = d.index_select(0, pair) * rows.sign[part]
            variance = beta * beta * v.index_select(0, pair)[:, None] + spread
            k = torch.rsqrt(1.0 + LOGISTIC_SMOOTHING * variance)
            z = beta * signed[:, None] + rows.side(part, self._before_gold)[:, None] * bias
            Z = _probability(k * z, k * width, rows.kind[part] == 2)
            total = total + (rows.n[part] * torch.log(Z.mean(dim=1).clamp(min=1e-300))).sum()
        return float(total)

    def _state(self, means: Tensor, side: SidePrior, own: WorkerPriors | None) -> tuple[SiteState, Tensor]:
        E, V = self._pairs.posteriors(means)
        sites = self._tau, self._nu, self._side_tau, self._side_nu
        rows, m = self._rows, self._votes.n_workers
        nothing = torch.zeros(m, dtype=torch.float64, device=self._votes.device)
        if not self._types.shape.sides:
            return SiteState(E, V, *sites, None), nothing
        g0, t2 = nothing + side.mean, nothing + side.variance
        if own is not None:
            g0[: self._before_gold] = self._votes.numbers(own.side_mean)
            t2[: self._before_gold] = self._votes.numbers(own.side_variance)
        tau, nu = self._side_sums()
        D = 1.0 + t2 * tau
        evidence = -0.5 * torch.log(D) + 0.5 * (t2 * nu**2 + 2.0 * g0 * nu - g0**2 * tau) / D
        sides = (g0 + t2 * nu) / D, t2 / D
        state = SiteState(E, V, *sites, sides)
        logs = torch.zeros(len(rows), dtype=torch.float64, device=self._votes.device)
        for part in rows.parts():
            E, V = (x.index_select(0, rows.worker[part]) for x in sides)
            t, h = state.side_tau[part].double(), state.side_nu[part].double()
            rest = torch.clamp(1.0 - t * V, min=LEAST_DENOMINATOR)  # denominator of the cavity of γ
            log_site = 0.5 * torch.log(rest) + 0.5 * (2.0 * E * h - t * E * E - V * h * h) / rest
            logs[part] = rows.n[part] * log_site
        return state, evidence - exact_sum(rows.worker, logs, m, rows.most_of_worker)

    def _side_sums(self) -> tuple[Tensor, Tensor]:
        rows, m = self._rows, self._votes.n_workers
        if not self._types.shape.sides:
            none = torch.zeros(m, dtype=torch.float64, device=self._votes.device)
            return none, none
        sums = [
            exact_sum(rows.worker, rows.n.double() * values, m, rows.most_of_worker)
            for values in (self._side_tau, self._side_nu)
        ]
        return sums[0], sums[1]

    def _own(self, prior: Vector, own: WorkerPriors | None) -> Tensor | None:
        """Return the priors of all workers, gold included, from those given per worker."""
        if own is None:
            return None
        common = self._votes.numbers(prior).expand(self._votes.n_gold, -1)
        return torch.cat([self._votes.numbers(own.masses), common])


def _probability(z: Tensor, width: Tensor, tied: Tensor) -> Tensor:
    p1, p2 = torch.sigmoid(z - width), torch.sigmoid(-z - width)
    tie = torch.expm1((2.0 * width).clamp(max=700.0)) * p1 * p2
    return torch.where(tied[:, None], tie, p1)
