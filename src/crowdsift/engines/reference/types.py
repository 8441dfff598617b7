"""Workers and their types: points of the grid, messages, and posteriors over types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import WorkerPriors, WorkerTypes, mirrored
from crowdsift.engines.reference.adaptive_grid import interpolated_prior, refined_levels
from crowdsift.numeric.distributions import deposit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = ["TypeTable"]


class TypeTable:
    """The grid of types, workers' adaptive grids, and the messages of the last pass."""

    def __init__(self, shape: WorkerTypes, n_workers: int, n_gold: int) -> None:
        self.shape, self._n, self._before_gold = shape, n_workers, n_workers - n_gold
        self.levels: Vector = np.empty(0)
        self.messages: Vector = np.empty((0, 0))
        self.adaptive: dict[int, Vector] = {}

    def points(self) -> tuple[Vector, Vector, Vector, Vector]:
        """β (a row per worker), δ, γ of side-only types, and whether a type is regular."""
        widths, side_only, side_only_widths, _ = self.shape
        own = self.reliabilities()
        beta = np.tile(own, (1, len(widths)))
        none = np.zeros((self._n, len(side_only)))
        regular = np.arange(beta.shape[1] + len(side_only)) < beta.shape[1]
        return (
            np.concatenate([beta, none], axis=1),
            np.concatenate([np.repeat(widths, own.shape[1]), side_only_widths]),
            np.concatenate([np.zeros(beta.shape[1]), side_only]),
            regular.astype(np.float64),
        )

    def reliabilities(self) -> Vector:
        """The signed grid of every worker, a row each."""
        points = np.tile(mirrored(self.levels), (self._n, 1))
        for s, levels in self.adaptive.items():
            points[s] = mirrored(levels)
        return points

    def posterior(
        self, prior: Vector, own: WorkerPriors | None, among: Vector | float = 1.0
    ) -> tuple[Vector, Vector]:
        """q_s(t), and log Σ_t prior_t exp(message_st); `among` some types, where 1."""
        priors = np.tile(prior, (self._n, 1))
        if own is not None:
            priors[: self._before_gold] = own.masses
        priors = priors * among
        types = 2 * len(self.levels) + 1
        for s, levels in self.adaptive.items():
            for at in range(0, self._n_regular(), types):
                part = priors[s, at : at + types]
                priors[s, at : at + types] = interpolated_prior(self.levels, part, levels)
        priors[self._before_gold :] = 0.0
        priors[self._before_gold :, types - 1] = 1.0
        top = np.where(priors > 0, self.messages, -np.inf).max(axis=1, keepdims=True)
        joint = priors * np.exp(np.minimum(self.messages - top, 0.0))
        total = joint.sum(axis=1, keepdims=True)
        return joint / total, (np.log(total) + top)[:, 0]

    def counts(self, q: Vector, workers: NDArray[np.bool_]) -> Vector:
        """Σ_s q_s(t) over some workers; masses of adaptive grids are shared by their neighbours."""
        grid, regular = mirrored(self.levels), self._n_regular()
        counts = np.zeros(q.shape[1])
        for s in np.flatnonzero(workers).tolist():
            if s not in self.adaptive:
                counts += q[s]
                continue
            points = mirrored(self.adaptive[s])
            masses = q[s, :regular].reshape(-1, len(grid))
            shared = [deposit(grid, points, row) for row in masses]
            counts += np.concatenate([*shared, q[s, regular:]])
        return counts

    def refine(self) -> int:
        """Adaptive grids for workers with narrow likelihoods, gold aside; how many changed."""
        changed = 0
        for s in range(self._before_gold):
            before = self.adaptive.get(s)
            levels = refined_levels(self.levels, before, self.likelihood(s))
            changed += levels is not before
            if levels is None:
                self.adaptive.pop(s, None)
            else:
                self.adaptive[s] = levels
        return changed

    def likelihood(self, s: int) -> Vector:
        """The likelihood of a worker's reliabilities, summed over widths, at most 1 each."""
        relative = np.exp(np.maximum(self.messages[s] - self.messages[s].max(), -55.0))
        slices = relative[: self._n_regular()].reshape(-1, 2 * len(self.levels) + 1)
        return np.asarray(slices.sum(axis=0))

    def gold_margin(self, marked: NDArray[np.bool_]) -> float:
        """Log-odds that marked gold is of the largest reliability, against the smallest."""
        gold = self.messages[self._before_gold :][marked[self._before_gold :]]
        return float(np.sum(gold[:, 2 * len(self.levels)] - gold[:, 0]))

    def rescale(self, factor: float) -> None:
        """Adaptive grids times the factor."""
        self.adaptive = {s: levels * factor for s, levels in self.adaptive.items()}

    def _n_regular(self) -> int:
        return len(self.shape.widths) * (2 * len(self.levels) + 1)
