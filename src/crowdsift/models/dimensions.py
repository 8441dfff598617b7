"""Positions of items and weights of workers, for votes with more than one dimension."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Indices, Vector
from crowdsift.solvers.ep.terms.dimensions import Trial as Trial


@dataclass(frozen=True)
class DimensionEstimate:
    """P(i over j | s) = σ(a_s·(x_i - x_j)), x_i ~ N(0, I), a_s ~ N(μ, Σ), in the reported basis.

    Axis 0 is the direction of the reported score: `positions[:, 0]` are the scores and `weights[:, 0]` the
    reliabilities. The other axes are ordered by the variance they explain.

    `positions`, `position_covariance`: x of every item about the mean of its component (items x D), and its covariance;
    `weights`, `weight_covariance`: a of every worker (workers x D), and its covariance; `mean`, `mean_covariance`,
    `covariance`: μ with its uncertainty, and Σ; `direction`: what defines axis 0: "common" (μ), "gold" or "trusted";
    `has_common`: False if the 90 % interval of μ contains 0: voters agree on no direction; `trials`: every number of
    dimensions that was tried, kept or not; `distinct`: the probability that most of what explains a worker's votes lies
    outside axis 0, by the spread of the positions over the pairs that it judged; `component_size`: the number of items
    in every item's component.
    """

    positions: Vector
    position_covariance: Vector
    weights: Vector
    weight_covariance: Vector
    mean: Vector
    mean_covariance: Vector
    covariance: Vector
    direction: str
    has_common: bool
    trials: tuple[Trial, ...]
    distinct: Vector
    component_size: Indices

    @property
    def count(self) -> int:
        return int(self.positions.shape[1])

    def of(self, count: int) -> Self:
        return self.by_worker(slice(count))

    def by_worker(self, rows: slice | NDArray[np.intp]) -> Self:
        """Return the estimate with these rows of workers, in the given order."""
        names = ("weights", "weight_covariance", "distinct")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def recoded(self, item: NDArray[np.intp], worker: NDArray[np.intp]) -> Self:
        """Return the estimate with these rows of items and workers; -1 stands for one without votes."""
        found = self.with_strangers().by_worker(worker)
        names = ("positions", "position_covariance", "component_size")
        return replace(found, **{name: getattr(found, name)[item] for name in names})

    def with_strangers(self) -> Self:
        """Return the estimate with an added last worker and last item without votes, of code -1."""
        own, D = self.weights[:1], self.count
        more = {
            "positions": np.zeros((1, D)),
            "position_covariance": np.eye(D)[None],
            "weights": np.broadcast_to(self.mean, own.shape),
            "weight_covariance": (self.covariance + self.mean_covariance)[None],
            "distinct": np.full(1, 0.5),
            "component_size": np.full(1, len(self.positions) + 1),
        }
        joined: dict[str, Any] = {name: np.concatenate([getattr(self, name), row]) for name, row in more.items()}
        return replace(self, **joined)

    def mirrored(self) -> Self:
        """Return the estimate with the sign of axis 0 reversed."""
        sign = np.ones(self.count)
        sign[0] = -1.0
        both = np.outer(sign, sign)
        return replace(
            self,
            positions=self.positions * sign,
            position_covariance=self.position_covariance * both,
            weights=self.weights * sign,
            weight_covariance=self.weight_covariance * both,
            mean=self.mean * sign,
            mean_covariance=self.mean_covariance * both,
            covariance=self.covariance * both,
        )

    def offsets(
        self, worker: NDArray[np.integer] | int, first: NDArray[np.integer] | int, second: NDArray[np.integer] | int
    ) -> tuple[Vector, Vector]:
        """Return mean and variance of what the axes after 0 add to log odds, Σ a_k (x_first,k - x_second,k)."""
        # Errors of positions are treated as independent, except that components are centred.
        a, V = self.weights[worker, 1:], self.weight_covariance[worker, 1:, 1:]
        d = self.positions[first, 1:] - self.positions[second, 1:]
        size = np.maximum(self.component_size[first], 2)
        C = self.position_covariance[first, 1:, 1:] + self.position_covariance[second, 1:, 1:]
        C = C * (size / (size - 1.0))[..., None, None]
        variance = (
            np.einsum("...i,...ij,...j->...", d, V, d)
            + np.einsum("...i,...ij,...j->...", a, C, a)
            + np.einsum("...ij,...ij->...", V, C)
        )
        return np.einsum("...i,...i->...", a, d), np.asarray(variance)
