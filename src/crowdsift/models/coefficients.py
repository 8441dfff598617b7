"""Coefficients of workers for covariates of votes, with their uncertainty."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from crowdsift.numeric import Vector
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.covariates import SIDE

_CHUNK = 4_096  # votes processed at a time


@dataclass(frozen=True)
class CovariateEstimate:
    """Coefficients in units of the covariates, a column each, those that the evidence supports.

    `names` are the covariates that are used, the side first if it is used. `crowd` is the population's mean g with the
    standard deviation `crowd_sd`, `spread` is √T, how much workers differ; `mean` and `sd` describe each worker's
    coefficients. `points` are a worker's coefficients at the points of its posterior, `covariance` is that about them.
    `item_values` are x̄ of items and `typical` is the reliability b: scores with actual covariates are r + g·x̄/b.
    `gains` are the nats that each given covariate adds to the evidence. `by_items` names covariates that are constant
    for an item, `nothing` those that are 0 everywhere.
    """

    names: tuple[str, ...]
    crowd: Vector
    crowd_sd: Vector
    spread: Vector
    mean: Vector
    sd: Vector
    points: Vector
    covariance: Vector
    item_values: Vector
    typical: float
    gains: dict[str, float]
    by_items: tuple[str, ...] = ()
    nothing: tuple[str, ...] = ()

    def of(self, count: int) -> Self:
        rows = ("mean", "sd", "points", "covariance")
        return replace(self, **{name: getattr(self, name)[:count] for name in rows})

    @property
    def others(self) -> list[int]:
        """Return the columns other than the side."""
        return [column for column, name in enumerate(self.names) if name != SIDE]

    def sides(self) -> tuple[Vector, Vector]:
        """Return mean and variance of every worker's side bias; 0 if the side is no covariate."""
        if SIDE not in self.names:
            return np.zeros(len(self.mean)), np.zeros(len(self.mean))
        return self.mean[:, 0], self.sd[:, 0] ** 2

    def as_they_are(self, scores: Vector) -> Vector:
        """Return scores plus the mean effect of an item's covariates: r + g·x̄/b."""
        return np.asarray(scores + self.item_values @ self.crowd / max(self.typical, 1e-9))

    def offsets(self, votes: Comparisons) -> tuple[Vector, Vector]:
        """Return the part c·γ of each vote's log odds at its worker's points, and its variance, without the side."""
        columns = self.others
        if not columns or votes.features is None:
            nothing = np.zeros((len(votes), 1))
            return nothing, nothing
        place = [votes.feature_names.index(self.names[column]) for column in columns]
        C, worker = votes.features[:, place].astype(np.float64), votes.worker_codes()
        offset = np.empty((len(votes), self.points.shape[1]))
        for begin in range(0, len(votes), _CHUNK):
            part = slice(begin, begin + _CHUNK)
            gamma = self.points[worker[part]][:, :, columns]
            offset[part] = np.einsum("ip,itp->it", C[part], gamma)
        covariance = self.covariance[:, columns][:, :, columns]
        variance = np.einsum("ip,ipq,iq->i", C, covariance[worker], C)
        return offset, variance[:, None]
