"""Pólya-Gamma expectation maximisation on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdsift.engines.base import ItemSystem
from crowdsift.engines.torch.operators import PairLaplacian
from crowdsift.engines.torch.triton_em import MStep, e_step, item_system, regressed
from crowdsift.engines.torch.vectors import to_host

if TYPE_CHECKING:
    from torch import Tensor

    from crowdsift.engines.torch.votes import VoteTensors
    from crowdsift.numeric import Vector

__all__ = ["TorchEM", "TorchEStep"]

# Up to these sizes an M-step spends its time launching kernels, so it is recorded as a graph.
_MAX_RECORDED_VOTES, _MAX_RECORDED_ITEMS = 24_000_000, 1 << 18


class TorchEM:
    """`crowdsift.engines.base.EM` on tensors."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes

    def e_step(self, scores: Vector, slopes: Vector, *, resolution: float = 0.0) -> TorchEStep:
        """Run the E-step; see the protocol."""
        return TorchEStep(self._votes, scores, slopes)


class TorchEStep:
    """n·E[ω] of every vote, kept on the device, and the M-step given it."""

    system: ItemSystem

    def __init__(self, votes: VoteTensors, scores: Vector, slopes: Vector) -> None:
        self._votes = votes
        votes.passes += 1
        r, s = votes.numbers(scores), votes.numbers(slopes)
        self._slopes, self._held = s, slopes
        self._omega, found = e_step(votes, r, s)
        self.log_likelihood, self.precision = found.tolist()

    def __getattr__(self, name: str) -> ItemSystem:
        if name != "system":
            raise AttributeError(name)
        self.system = self._system(self._slopes)  # built on first use: whole M-steps need none
        return self.system

    def alternate(
        self, scores: Vector, alternations: int, shift: float, ridge: float, tolerance: float
    ) -> tuple[Vector, Vector, bool] | None:
        """Run a whole M-step on the device; return None if passes one by one are faster."""
        votes = self._votes
        if len(votes) > _MAX_RECORDED_VOTES or votes.n_items > _MAX_RECORDED_ITEMS:
            return None
        if votes.m_step is None:
            votes.m_step = MStep(votes)
        step: MStep = votes.m_step
        votes.passes += alternations
        return step.alternate(
            self._omega, scores, self._held, alternations, shift, ridge, tolerance
        )

    def regress(self, scores: Vector, ridge: float) -> tuple[Vector, ItemSystem]:
        """Return the workers' slopes and their item system; see the protocol."""
        self._votes.passes += 1
        slopes = regressed(self._votes, self._omega, self._votes.numbers(scores), ridge)
        return to_host(slopes), self._system(slopes)

    def _system(self, s: Tensor) -> ItemSystem:
        votes = self._votes
        weight, rhs = item_system(votes, self._omega, s)
        laplacian = PairLaplacian(
            votes.n_items, votes.first, votes.second, weight, votes.most_of_item, votes.solvers
        )
        return ItemSystem(laplacian, to_host(rhs))
