"""Pólya-Gamma expectation maximisation on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from crowdsift.engines.base import ItemSystem
from crowdsift.engines.torch.device import uses_triton
from crowdsift.engines.torch.links import logistic, polya_gamma_mean
from crowdsift.engines.torch.operators import PairLaplacian
from crowdsift.engines.torch.vectors import to_host

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.votes import VoteTensors
    from crowdsift.numeric import Vector

__all__ = ["TorchEM", "TorchEStep"]

# Up to so many votes and items an M-step is a matter of starting kernels, and is recorded.
_SMALL, _FEW_ITEMS = 24_000_000, 1 << 18


class TorchEM:
    """`crowdsift.engines.base.EM` on tensors."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes

    def e_step(self, scores: Vector, slopes: Vector, *, resolution: float = 0.0) -> TorchEStep:
        """The E-step; see the protocol."""
        return TorchEStep(self._votes, scores, slopes)


class TorchEStep:
    """n·E[ω] of every vote, kept on the device, and the M-step given it."""

    system: ItemSystem

    def __init__(self, votes: VoteTensors, scores: Vector, slopes: Vector) -> None:
        self._votes = votes
        votes.passes += 1
        r, s = votes.numbers(scores), votes.numbers(slopes)
        self._slopes, self._held = s, slopes
        if uses_triton(votes.device):
            from crowdsift.engines.torch.triton_em import e_step

            self._omega, found = e_step(votes, r, s)
            self.log_likelihood, self.precision = found.tolist()
            return
        self._omega = torch.empty(len(votes), dtype=torch.float64, device=votes.device)
        value, precision = votes.zero(), votes.zero()
        for part in votes.parts():
            eta = s.index_select(0, part.worker) * part.differences(r)
            omega = part.n * polya_gamma_mean(eta)
            value = value + (part.n * logistic(eta, part.y)[0]).sum()
            precision = precision + omega.sum()
            self._omega[part.rows] = omega
        self.log_likelihood, self.precision = float(value), float(precision)

    def __getattr__(self, name: str) -> ItemSystem:
        if name != "system":
            raise AttributeError(name)
        self.system = self._system(self._slopes)  # made when asked for: whole M-steps need none
        return self.system

    def alternate(
        self, scores: Vector, alternations: int, shift: float, ridge: float, tolerance: float
    ) -> tuple[Vector, Vector, bool] | None:
        """A whole M-step without a word to the host; None where it is better done pass by pass."""
        votes = self._votes
        if not uses_triton(votes.device) or len(votes) > _SMALL or votes.n_items > _FEW_ITEMS:
            return None
        from crowdsift.engines.torch.triton_em import MStep

        if votes.m_step is None:
            votes.m_step = MStep(votes)
        step: MStep = votes.m_step
        votes.passes += alternations
        return step.alternate(
            self._omega, scores, self._held, alternations, shift, ridge, tolerance
        )

    def regress(self, scores: Vector, ridge: float) -> tuple[Vector, ItemSystem]:
        """Slopes of workers and their item system; see the protocol."""
        votes = self._votes
        votes.passes += 1
        r = votes.numbers(scores)
        if uses_triton(votes.device):
            from crowdsift.engines.torch.triton_em import regressed

            slopes = regressed(votes, self._omega, r, ridge)
            return to_host(slopes), self._system(slopes)
        most = 2.0 * r.abs().max()
        top = votes.worker_sums(votes.heaviest * 0.5 * most)
        bottom = votes.worker_sums(votes.heaviest * 0.25 * most * most)
        for part in votes.parts():
            d = part.differences(r)
            top.add(part.worker, part.n * (part.y - 0.5) * d)
            bottom.add(part.worker, self._omega[part.rows] * d * d)
        below = bottom.total() + ridge
        slopes = torch.where(below > 0.0, top.total() / below, 0.0)
        return to_host(slopes), self._system(slopes)

    def _system(self, s: Tensor) -> ItemSystem:
        votes = self._votes
        if uses_triton(votes.device):
            from crowdsift.engines.torch.triton_em import item_system

            weight, rhs = item_system(votes, self._omega, s)
        else:
            weight, rhs = self._plain_system(s)
        laplacian = PairLaplacian(
            votes.n_items, votes.first, votes.second, weight, votes.most_of_item, votes.solvers
        )
        return ItemSystem(laplacian, to_host(rhs))

    def _plain_system(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Weights of votes, and the right-hand side of items."""
        votes = self._votes
        weight = torch.empty_like(self._omega)
        rhs = votes.item_sums(votes.heaviest * 0.5 * s.abs().max())
        for part in votes.parts():
            t = s.index_select(0, part.worker)
            weight[part.rows] = t * t * self._omega[part.rows]
            rhs.between(part, t * part.n * (part.y - 0.5))
        return weight, rhs.total()
