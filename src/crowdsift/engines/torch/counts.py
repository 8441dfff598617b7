"""Tallies of votes on a device."""

from __future__ import annotations

import torch
from torch import Tensor

from crowdsift.engines.base import Tally
from crowdsift.engines.torch.operators import TorchOperator
from crowdsift.engines.torch.vectors import to_host
from crowdsift.engines.torch.votes import VoteTensors
from crowdsift.numeric import Vector


class TorchCounts:
    """`crowdsift.engines.base.Counts` on tensors."""

    def __init__(self, votes: VoteTensors) -> None:
        self._votes = votes

    def tally(self, rank: Vector) -> Tally:
        votes = self._votes
        votes.counter.passes += 1
        place = votes.numbers(rank)
        bound = votes.heaviest
        agreed, ranked, decided, leaning, loads = (votes.worker_sums(bound) for _ in range(5))
        appearances, wins, losses = (votes.item_sums(bound) for _ in range(3))
        for part in votes.parts():
            lean, n = 2.0 * part.y - 1.0, part.n
            above = torch.sign(-part.differences(place))
            settled = n * (lean != 0.0)
            agreed.add(part.worker, n * (lean * above > 0.0))
            ranked.add(part.worker, settled * (above != 0.0))
            decided.add(part.worker, settled)
            leaning.add(part.worker, n * lean)
            loads.add(part.worker, n)
            won, lost = n * part.y, n * (1.0 - part.y)
            for sums, one, two in ((appearances, n, n), (wins, won, lost), (losses, lost, won)):
                sums.add(part.first, one)
                sums.add(part.second, two)
        columns = (agreed, ranked, decided, leaning, loads, appearances, wins, losses)
        return Tally(*(to_host(sums.total()) for sums in columns))

    def margins(self, prior: float) -> TorchMargins:
        return TorchMargins(self._votes, prior)


class TorchMargins(TorchOperator):
    """The antisymmetric matrix of smoothed margins."""

    def __init__(self, votes: VoteTensors, prior: float) -> None:
        super().__init__(votes.device)
        self._votes, self._prior = votes, prior

    def product(self, v: Tensor) -> Tensor:
        votes = self._votes
        votes.counter.passes += 1
        sums = votes.item_sums(0.5 * v.abs().max())
        for part in votes.parts():
            c = (part.n * part.y + self._prior) / (part.n + 2 * self._prior) - 0.5
            sums.add(part.first, c * v.index_select(0, part.second))
            sums.add(part.second, c * v.index_select(0, part.first), sign=-1)
        return sums.total()

    def diagonal_there(self) -> Tensor:
        """Return None: there is no diagonal."""
        return torch.zeros(self._votes.n_items, dtype=torch.float64, device=self._votes.device)
