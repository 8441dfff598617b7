"""The logistic model with a slope for every worker, on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdsift.engines.base import Profile, ScoreCurvature, SlopePrior
from crowdsift.engines.torch.links import logistic
from crowdsift.engines.torch.operators import PairLaplacian, TorchOperator
from crowdsift.engines.torch.sums import FixedPoint
from crowdsift.engines.torch.triton_pairs import laplacian_diagonal
from crowdsift.engines.torch.triton_slopes import derivatives, reduced_product, settled
from crowdsift.engines.torch.vectors import to_solver

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.votes import VoteTensors
    from crowdsift.numeric import Vector

__all__ = ["TorchSlopes"]

# With more votes than this the Hessian keeps its numbers in single precision.
_MAX_DOUBLE_VOTES = 50_000_000


class TorchSlopes:
    """`crowdsift.engines.base.Slopes` on tensors, always in double precision."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        """Return the log-likelihood; see the protocol."""
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
        """Return value, gradient and Hessian with slopes eliminated; see the protocol."""
        votes = self._votes
        votes.passes += 1
        r, s = votes.numbers(scores), votes.numbers(slopes)
        curvature = torch.full_like(s, torch.inf)
        if prior is not None:
            s, curvature = settled(votes, r, s, prior)
        kind = torch.float64 if len(votes) <= _MAX_DOUBLE_VOTES else torch.float32
        a, b = (torch.empty(len(votes), dtype=kind, device=votes.device) for _ in range(2))
        at = derivatives(votes, r, s, a, b)
        hessian = SlopeHessian(votes, a, b, at.a_most, at.b_most, 1.0 / curvature)
        return Profile(
            float(at.value), to_solver(at.gradient), to_solver(s), to_solver(curvature), hessian
        )

    def curvature(self, scores: Vector, slopes: Vector) -> ScoreCurvature:
        """Return the derivatives in the scores; see the protocol."""
        votes = self._votes
        votes.passes += 1
        r, s, value = votes.numbers(scores), votes.numbers(slopes), votes.zero()
        gradient = votes.item_sums(votes.heaviest * s.abs().max())
        information = votes.worker_sums(votes.heaviest * r.abs().max() ** 2)
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


class SlopeHessian(TorchOperator):
    """A - B D⁻¹ B', held as the numbers a and b of every vote.

    `a_most` and `b_most` are the largest |a| and |b|; `inverse` is D⁻¹ of every worker, 0 where
    slopes were given.
    """

    def __init__(
        self, votes: VoteTensors, a: Tensor, b: Tensor, a_most: Tensor, b_most: Tensor,
        inverse: Tensor,
    ) -> None:  # fmt: skip
        super().__init__(votes.device)
        self._votes, self._a, self._b, self._inverse = votes, a, b, inverse
        self._a_most, self._b_most = a_most, b_most

    def product(self, v: Tensor) -> Tensor:
        """Return the product with a tensor, in two sweeps over votes."""
        self._votes.passes += 1
        largest = self._a_most, self._b_most
        return reduced_product(self._votes, self._a, self._b, largest, self._inverse, v)

    def diagonal_there(self) -> Tensor:
        """Return the diagonal of A; no entry of it is negative."""
        votes = self._votes
        scale = FixedPoint(self._a_most, votes.most_of_item)
        return laplacian_diagonal(votes.first, votes.second, self._a, votes.n_items, scale)
