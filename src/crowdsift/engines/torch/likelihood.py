"""Likelihoods with parameters of workers, on a device."""

import torch
from torch import Tensor

from crowdsift.engines.base import Curvature
from crowdsift.engines.torch.links import LIKELIHOODS, Derivatives
from crowdsift.engines.torch.operators import PairLaplacian, TorchOperator
from crowdsift.engines.torch.sums import exact_sum
from crowdsift.engines.torch.vectors import to_host
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.numeric import Vector

_AT_ONCE = 1024  # workers whose second derivatives are decomposed in one call


class TorchLikelihood:
    """`crowdsift.engines.base.Likelihood` on tensors."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes

    def derivatives(self, likelihood: str, scores: Vector, theta: Vector) -> Curvature:
        votes = self._votes
        votes.counter.passes += 1
        n = votes.n.to(torch.float64)
        at = self._at(likelihood, votes.numbers(scores), votes.numbers(theta))
        flow = n * at.d
        items = exact_sum(
            torch.cat([votes.first, votes.second]), torch.cat([flow, -flow]), votes.n_items, votes.most_of_item
        )
        return Curvature(
            float((n * at.value).sum()),
            to_host(items),
            to_host(self._to_workers(n[:, None] * at.t)),
            to_host(self._to_workers(-n[:, None, None] * at.tt)),
            TorchSchur(votes, -n * at.dd, -n[:, None] * at.dt),
        )

    def fit_workers(
        self,
        likelihood: str,
        scores: Vector,
        theta: Vector,
        *,
        centre: Vector,
        penalty: float,
        bounds: tuple[float, float],
        tolerance: float = 1e-9,
    ) -> Vector:
        """Return every worker's parameters given the scores, by damped Newton steps of all at once."""
        votes, (m, p) = self._votes, theta.shape
        r, now, middle = (votes.numbers(v) for v in (scores, theta, centre))
        damping = torch.zeros(m, dtype=torch.float64, device=votes.device)
        value, gradient, hessian = self._problems(likelihood, r, now, middle, penalty)
        for _ in range(200):
            held = ((now <= bounds[0]) & (gradient > 0)) | ((now >= bounds[1]) & (gradient < 0))
            slope = torch.where(held, 0.0, gradient)
            if m == 0 or p == 0:
                break
            # Converged workers stay where they are, and so do those with infinite values.
            known = torch.isfinite(hessian).flatten(1).all(dim=1)
            open_ = known & (slope.abs().amax(dim=1) > tolerance)
            if not bool(open_.any()):
                break
            hessian = torch.where(known[:, None, None], hessian, 1.0)
            trial = (now - _newton_step(hessian, damping, slope)).clamp(*bounds)
            ahead = self._problems(likelihood, r, trial, middle, penalty)
            better = open_ & (ahead[0] <= value + 1e-14 * (1.0 + value.abs()))
            now = torch.where(better[:, None], trial, now)
            value = torch.where(better, ahead[0], value)
            gradient = torch.where(better[:, None], ahead[1], gradient)
            hessian = torch.where(better[:, None, None], ahead[2], hessian)
            scale = hessian.abs().reshape(m, -1).max(dim=1).values
            damping = torch.where(better, 0.1 * damping, 4.0 * damping + 0.01 * scale)
        votes.counter.passes += 1
        return to_host(now)

    def _at(self, likelihood: str, r: Tensor, theta: Tensor) -> Derivatives:
        votes = self._votes
        d = r.index_select(0, votes.first) - r.index_select(0, votes.second)
        own = theta.index_select(0, votes.worker)
        return LIKELIHOODS[likelihood](d, own, votes.x, votes.y.to(torch.float64))

    def _to_workers(self, values: Tensor) -> Tensor:
        votes = self._votes
        return exact_sum(votes.worker, values, votes.n_workers, votes.most_of_worker)

    def _problems(
        self, likelihood: str, r: Tensor, theta: Tensor, centre: Tensor, penalty: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return value, gradient and Hessian of every worker's own problem."""
        n = self._votes.n.to(torch.float64)
        at, drift = self._at(likelihood, r, theta), theta - centre
        value = 0.5 * penalty * (drift * drift).sum(dim=1) - self._to_workers(n * at.value)
        gradient = penalty * drift - self._to_workers(n[:, None] * at.t)
        hessian = self._to_workers(-n[:, None, None] * at.tt)
        unit = torch.eye(theta.shape[1], dtype=torch.float64, device=theta.device)
        return value, gradient, hessian + penalty * unit


def _newton_step(hessian: Tensor, damping: Tensor, slope: Tensor) -> Tensor:
    """Return |H + damping|⁻¹ slope of every worker, eigenvalues taken as positive."""
    if hessian.shape[1] == 1:
        size = hessian[:, :, 0].abs().clamp(min=1e-8) + damping[:, None]
        return slope / size
    if hessian.shape[1] == 2:
        return _newton_step_of_two(hessian, damping, slope)
    # The library's workspace is half a megabyte per matrix: too much for all workers at once.
    parts = zip(*(each.split(_AT_ONCE) for each in (hessian, damping, slope)), strict=True)
    return torch.cat([_newton_step_of_many(*part) for part in parts])


def _newton_step_of_two(hessian: Tensor, damping: Tensor, slope: Tensor) -> Tensor:
    """Return `_newton_step` for two parameters, from the mean and difference of the two eigenvalues."""
    middle = 0.5 * (hessian[:, 0, 0] + hessian[:, 1, 1])
    half = torch.hypot(0.5 * (hessian[:, 0, 0] - hessian[:, 1, 1]), hessian[:, 0, 1])
    low, high = (1.0 / (each.abs().clamp(min=1e-8) + damping) for each in (middle - half, middle + half))
    turn = torch.where(half > 0.0, 0.5 * (high - low) / half, 0.0)
    unit = torch.eye(2, dtype=torch.float64, device=hessian.device)
    off = hessian - middle[:, None, None] * unit
    inner: Tensor = (off * slope[:, None, :]).sum(dim=2)
    return 0.5 * (high + low)[:, None] * slope + turn[:, None] * inner


def _newton_step_of_many(hessian: Tensor, damping: Tensor, slope: Tensor) -> Tensor:
    """Return `_newton_step` for any number of parameters."""
    eigenvalues, vectors = torch.linalg.eigh(hessian)
    size = eigenvalues.abs().clamp(min=1e-8) + damping[:, None]
    inner = torch.einsum("skj,sk->sj", vectors, slope) / size
    return torch.einsum("sij,sj->si", vectors, inner)


class TorchSchur:
    """Second derivatives a (in d) and b (in d and θ) of every vote, in single precision.

    The CPU engine uses the same precision: if a likelihood has many maxima, both take the same steps.
    """

    def __init__(self, votes: VoteTensors, a: Tensor, b: Tensor) -> None:
        self._votes, self._a, self._b = votes, a.to(torch.float32), b.to(torch.float32)

    def reduced(self, inverse: Vector | None) -> TorchOperator:
        votes = self._votes
        if inverse is None:
            return PairLaplacian(votes.n_items, votes.first, votes.second, self._a, votes.most_of_item)
        return Reduced(votes, self._a, self._b, votes.numbers(inverse))


class Reduced(TorchOperator):
    """A - B·inverse·B', by products over votes."""

    def __init__(self, votes: VoteTensors, a: Tensor, b: Tensor, inverse: Tensor) -> None:
        super().__init__(votes.device)
        self._votes, self._a, self._b, self._inverse = votes, a, b, inverse

    def product(self, v: Tensor) -> Tensor:
        votes = self._votes
        votes.counter.passes += 1
        d = v.index_select(0, votes.first) - v.index_select(0, votes.second)
        coupled = exact_sum(votes.worker, self._b * d[:, None], votes.n_workers, votes.most_of_worker)
        u = torch.einsum("spq,sq->sp", self._inverse, coupled).index_select(0, votes.worker)
        return self._to_items(self._a * d - (self._b * u).sum(dim=1), -1.0)

    def diagonal_there(self) -> Tensor:
        return self._to_items(self._a.abs(), 1.0)

    def _to_items(self, flow: Tensor, sign: float) -> Tensor:
        votes = self._votes
        return exact_sum(
            torch.cat([votes.first, votes.second]), torch.cat([flow, sign * flow]), votes.n_items, votes.most_of_item
        )
