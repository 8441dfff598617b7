"""What the posterior over types says of a worker: mean, limits, sides of zero, quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from crowdsift.engines import Vector
    from crowdsift.engines.grid import GridSites, TypePosteriors

__all__ = ["TypeSummary", "quantiles", "summarise"]

_CHUNK = 20_000  # workers at a time, so that no array over workers and types is large
_LEVELS = (0.05, 0.95)


class TypeSummary(NamedTuple):
    """Per worker: mean, sd, limits of the 90 % interval, P(β > 0), P(β < 0), and `spread`.

    `spread` has one row a worker: quantiles of equal probability that stand for the posterior.
    """

    mean: Vector
    sd: Vector
    lower: Vector
    upper: Vector
    positive: Vector
    negative: Vector
    spread: Vector

    def flipped(self) -> TypeSummary:
        """The summary of -β."""
        return TypeSummary(-self.mean, self.sd, -self.upper, -self.lower, self.negative,
                           self.positive, -self.spread[:, ::-1])  # fmt: skip

    def scaled(self, factor: float) -> TypeSummary:
        """The summary of β·factor, for a positive factor."""
        return self._replace(mean=self.mean * factor, sd=self.sd * factor,
                             lower=self.lower * factor, upper=self.upper * factor,
                             spread=self.spread * factor)  # fmt: skip


def summarise(sites: GridSites, prior: Vector, n_workers: int, points: int = 16) -> TypeSummary:
    """Summaries of all workers after the last pass."""
    at = [*_LEVELS, *((np.arange(points) + 0.5) / points)]
    parts = []
    for begin in range(0, n_workers, _CHUNK):
        found = sites.posteriors(prior, begin, min(begin + _CHUNK, n_workers))
        mean = np.sum(found.points * found.masses, axis=1)
        square = np.sum((found.points - mean[:, None]) ** 2 * found.masses, axis=1)
        limits = quantiles(found, np.array(at))
        positive = np.sum(found.masses * (found.points > 0), axis=1)
        negative = np.sum(found.masses * (found.points < 0), axis=1)
        parts.append(TypeSummary(mean, np.sqrt(square), limits[:, 0], limits[:, 1], positive,
                                 negative, limits[:, 2:]))  # fmt: skip
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return TypeSummary(*map(np.ascontiguousarray, columns))


def quantiles(posterior: TypePosteriors, levels: Vector) -> Vector:
    """Quantiles by linear interpolation of the cumulated masses over cell edges.

    Examples
    --------
    >>> import numpy as np
    >>> from crowdsift.engines.grid import TypePosteriors
    >>> even = TypePosteriors(np.array([[-1.0, 0.0, 1.0]]), np.full((1, 3), 1 / 3))
    >>> quantiles(even, np.array([0.0, 0.5, 1.0])).round(6).tolist()
    [[-1.5, 0.0, 1.5]]
    """
    points, masses = posterior
    middle = 0.5 * (points[:, 1:] + points[:, :-1])
    first = 2.0 * points[:, :1] - middle[:, :1]
    last = 2.0 * points[:, -1:] - middle[:, -1:]
    edges = np.concatenate([first, middle, last], axis=1)
    reached = np.cumsum(masses, axis=1)
    reached /= reached[:, -1:]
    result = np.empty((len(points), len(levels)))
    rows = np.arange(len(points))
    for column, level in enumerate(levels):
        cell = np.minimum((reached < level).sum(axis=1), points.shape[1] - 1)
        before = np.where(cell > 0, reached[rows, cell - 1], 0.0)
        inside = np.maximum(reached[rows, cell] - before, 1e-300)
        share = np.clip((level - before) / inside, 0.0, 1.0)
        result[:, column] = edges[rows, cell] + share * (edges[rows, cell + 1] - edges[rows, cell])
    return result
