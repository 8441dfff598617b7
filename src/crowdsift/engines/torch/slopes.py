"""The logistic model with a slope for every worker, on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdsift.engines.base import Profile, ScoreCurvature, SlopePrior
from crowdsift.engines.torch.device import uses_triton
from crowdsift.engines.torch.links import logistic
from crowdsift.engines.torch.operators import PairLaplacian, TorchOperator
from crowdsift.engines.torch.sums import FixedPoint
from crowdsift.engines.torch.vectors import to_solver

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.votes import VoteTensors
    from crowdsift.numeric import Vector

__all__ = ["TorchSlopes"]

_MOST_STEPS = 60  # Newton steps of a slope; bisection alone would be at its end
# Beyond so many votes what the Hessian keeps of each is in single precision.
_DOUBLE = 50_000_000


class TorchSlopes:
    """`crowdsift.engines.base.Slopes` on tensors, always in double precision."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        """Log-likelihood; see the protocol."""
        votes = self._votes
        votes.passes += 1
        r, s, value = votes.numbers(scores), votes.numbers(slopes), votes.zero()
        for part in votes.parts():
            eta = s.index_select(0, part.worker) * part.differences(r)
            value = value + (part.n * logistic(eta, part.y)[0]).sum()
        return float(value)

    def profile(
        self, scores: Vector, slopes: Vector, prior: SlopePrior | None = None, *,
        resolution: float = 0.0,
    ) -> Profile:  # fmt: skip
        """Value, gradient and Hessian with slopes eliminated; see the protocol."""
        votes = self._votes
        votes.passes += 1
        r, s = votes.numbers(scores), votes.numbers(slopes)
        if uses_triton(votes.device) and len(votes):
            return self._by_kernels(r, s, prior)
        curvature = torch.full_like(s, torch.inf)
        if prior is not None:
            s = self._settled(r, s, prior)
        hessian = SlopeHessian(votes)
        value, gradient = votes.zero(), votes.item_sums(votes.heaviest * s.abs().max())
        information = votes.worker_sums(votes.heaviest * 0.25 * _square(2.0 * r.abs().max()))
        for part in votes.parts():
            d, t = part.differences(r), s.index_select(0, part.worker)
            at, first, second = logistic(t * d, part.y)
            value = value + (part.n * at).sum()
            gradient.between(part, part.n * first * t)
            information.add(part.worker, -part.n * second * d * d)
            hessian.keep(part.rows, -part.n * second * t * t, -part.n * (first + second * t * d))
        if prior is not None:
            curvature = information.total() + prior.precision
        hessian.finish(curvature)
        return Profile(
            float(value), to_solver(gradient.total()), to_solver(s), to_solver(curvature), hessian
        )

    def _by_kernels(self, r: Tensor, s: Tensor, prior: SlopePrior | None) -> Profile:
        """The same by kernels, in three sweeps over the votes and Newton's."""
        from crowdsift.engines.torch.triton_slopes import derivatives, settled

        votes = self._votes
        curvature = torch.full_like(s, torch.inf)
        if prior is not None:
            s, curvature = settled(votes, r, s, prior)
        hessian = SlopeHessian(votes)
        at = derivatives(votes, r, s, hessian.a, hessian.b)
        hessian.finish(curvature, at.a_most, at.b_most)
        return Profile(
            float(at.value), to_solver(at.gradient), to_solver(s), to_solver(curvature), hessian
        )

    def curvature(self, scores: Vector, slopes: Vector) -> ScoreCurvature:
        """Derivatives in the scores; see the protocol."""
        votes = self._votes
        votes.passes += 1
        r, s, value = votes.numbers(scores), votes.numbers(slopes), votes.zero()
        gradient = votes.item_sums(votes.heaviest * s.abs().max())
        information = votes.worker_sums(votes.heaviest * 0.25 * _square(2.0 * r.abs().max()))
        weight = torch.empty(len(votes), dtype=torch.float64, device=votes.device)
        for part in votes.parts():
            d, t = part.differences(r), s.index_select(0, part.worker)
            at, first, second = logistic(t * d, part.y)
            value = value + (part.n * at).sum()
            gradient.between(part, part.n * first * t)
            information.add(part.worker, -part.n * second * d * d)
            weight[part.rows] = -part.n * second * t * t
        return ScoreCurvature(
            float(value), to_solver(gradient.total()), to_solver(information.total()),
            PairLaplacian(votes.n_items, votes.first, votes.second, weight, votes.most_of_item),
        )  # fmt: skip

    def _settled(self, r: Tensor, s: Tensor, prior: SlopePrior) -> Tensor:
        """Every slope at its optimum, by Newton steps inside what is known to hold it.

        The gradient falls in the slope, so its sign says on which side the optimum is. A step that
        would leave what is left, or is more than half of the one before, is replaced by the middle.
        """
        votes = self._votes
        low, high = torch.full_like(s, -torch.inf), torch.full_like(s, torch.inf)
        before = high
        largest = 2.0 * r.abs().max()
        for _ in range(_MOST_STEPS):
            slope = votes.worker_sums(votes.heaviest * largest)
            information = votes.worker_sums(votes.heaviest * 0.25 * _square(largest))
            for part in votes.parts():
                d = part.differences(r)
                _, first, second = logistic(s.index_select(0, part.worker) * d, part.y)
                slope.add(part.worker, part.n * first * d)
                information.add(part.worker, -part.n * second * d * d)
            gradient = slope.total() - prior.precision * (s - prior.mean)
            hessian = information.total() + prior.precision
            low = torch.where(gradient > 0.0, s, low)
            high = torch.where(gradient < 0.0, s, high)
            new, middle = s + gradient / hessian, 0.5 * (low + high)
            slow = (new < low) | (new > high) | ((new - s).abs() > 0.5 * before)
            new = torch.where(slow & torch.isfinite(middle), middle, new)
            size, before = torch.maximum(s.abs(), hessian.rsqrt()), (new - s).abs()
            s = new
            far = (before > prior.last_step * size).any()
            if not bool(far):
                break
        return s


class SlopeHessian(TorchOperator):
    """A - B D⁻¹ B', held as the numbers a and b of every vote."""

    def __init__(self, votes: VoteTensors) -> None:
        super().__init__(votes.device)
        kind = torch.float64 if len(votes) <= _DOUBLE else torch.float32
        self._votes = votes
        self.a, self.b = (
            torch.empty(len(votes), dtype=kind, device=votes.device) for _ in range(2)
        )
        self._inverse = self._a_most = self._b_most = votes.zero()

    def keep(self, rows: slice, a: Tensor, b: Tensor) -> None:
        """What belongs to some votes."""
        self.a[rows], self.b[rows] = a, b
        self._a_most = torch.maximum(self._a_most, a.abs().max())
        self._b_most = torch.maximum(self._b_most, b.abs().max())

    def finish(
        self, curvature: Tensor, a_most: Tensor | None = None, b_most: Tensor | None = None
    ) -> None:
        """D of every worker, infinite where slopes were given; the largest |a| and |b|."""
        self._inverse = 1.0 / curvature
        self._a_most = self._a_most if a_most is None else a_most
        self._b_most = self._b_most if b_most is None else b_most

    def product(self, v: Tensor) -> Tensor:
        """The product with a tensor, in two sweeps over votes."""
        votes, most = self._votes, 2.0 * v.abs().max()
        votes.passes += 1
        if uses_triton(votes.device) and len(votes):
            from crowdsift.engines.torch.triton_slopes import reduced_product

            largest = self._a_most, self._b_most
            return reduced_product(votes, self.a, self.b, largest, self._inverse, v)
        coupled = votes.worker_sums(self._b_most * most)
        for part in votes.parts():
            coupled.add(part.worker, self.b[part.rows] * part.differences(v))
        u = coupled.total() * self._inverse
        result = votes.item_sums(self._a_most * most + self._b_most * u.abs().max())
        for part in votes.parts():
            back = self.b[part.rows] * u.index_select(0, part.worker)
            result.between(part, self.a[part.rows] * part.differences(v) - back)
        return result.total()

    def diagonal_there(self) -> Tensor:
        """The diagonal of A; no entry of it is negative."""
        votes = self._votes
        if uses_triton(votes.device) and len(votes):
            from crowdsift.engines.torch.triton_pairs import laplacian_diagonal

            scale = FixedPoint(self._a_most, votes.most_of_item)
            return laplacian_diagonal(votes.first, votes.second, self.a, votes.n_items, scale)
        sums = votes.item_sums(self._a_most)
        for part in votes.parts():
            sums.add(part.first, self.a[part.rows])
            sums.add(part.second, self.a[part.rows])
        return sums.total()


def _square(x: Tensor) -> Tensor:
    return x * x
