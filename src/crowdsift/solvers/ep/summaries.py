"""Summaries of the posterior over types: reliability, tie width, side bias, points, classes.

With b the typical reliability, the median of the positive part of the learned distribution, a type is adversarial for β
< -b/4, random for |β| ≤ b/4 and informative for β > b/4; a type whose votes depend on the side alone is one-sided. The
likelihood of a worker's votes, scores from the votes of others, is averaged over the types of a class as the learned
distribution has them within it. How common a class is among workers does not enter: a verdict is about a worker's own
votes.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.fused import FusedSites, ReliabilitySummary, SummedSites, TypeMarginals
from crowdsift.engines.grid import TypeSites, WorkerPoints, WorkerPriors, WorkerTypes, mirrored
from crowdsift.numeric import Vector
from crowdsift.solvers.ep.workers import WorkerPrior

_NUMBERS = 4_000_000  # numbers in an array over workers and types at a time
_BLOCK = 200_000  # numbers summarised at a time
_WORKERS = 20_000  # workers whose marginals are computed at a time
_POINTS = 64  # points that represent a worker's posterior
_MANY = 2_000  # workers from which on quantiles are computed on the device
# Quantiles: the 90 % interval, then the points that represent the posterior.
_QUANTILES = np.array([0.05, 0.95, *((np.arange(16) + 0.5) / 16)])
_SIDE_ONLY_SPREAD = 1.0 / 3.0  # relative spread of the sides that one side-only type represents
SMALLEST = 1e-300  # smallest posterior mass whose logarithm is taken


class TypeSummary(NamedTuple):
    """Mean, sd, limits of the 90 % interval and more of every worker.

    `spread` has one row per worker: quantiles of equal probability that stand for the posterior of β. `p_side_only` is
    the probability of a side-only type, `width` the mean tie width, `side` and `side_sd` mean and sd of the side bias;
    `points` stand for the joint posterior.
    """

    mean: Vector
    sd: Vector
    lower: Vector
    upper: Vector
    spread: Vector
    p_side_only: Vector
    width: Vector
    side: Vector
    side_sd: Vector
    points: WorkerPoints

    def scaled(self, factor: float) -> Self:
        """Return the summary of β·factor, for a positive factor."""
        spread, reliability = self.spread * factor, self.points.reliability
        same = reliability is self.spread
        points = self.points._replace(reliability=spread if same else reliability * factor)
        scaled = {name: getattr(self, name) * factor for name in ("mean", "sd", "lower", "upper")}
        return self._replace(**scaled, spread=spread, points=points)


def summarise(
    sites: TypeSites, prior: WorkerPrior, sides: tuple[Vector, Vector], own: WorkerPriors | None = None
) -> TypeSummary:
    """Summarise all workers after the last pass; `sides` are means and variances of γ."""
    n_workers = len(sides[0])
    if isinstance(sites, FusedSites) and own is None and n_workers >= _MANY:
        whole = sites.summary(prior.masses, _QUANTILES)
        if whole is not None:
            return _of_reliabilities(whole)
    parts = []
    for rows in _ranges(sites, prior, n_workers):
        found = _marginals(sites, prior.masses, prior.types, rows, 0 if _plain(prior) else _POINTS, own)
        parts.append(_summary(prior, found, sides[0][rows], sides[1][rows], _limits(sites, found)))
    points = WorkerPoints(*_joined([part.points for part in parts]))
    return TypeSummary._make([*_joined([part[:-1] for part in parts]), points])


def _ranges(sites: TypeSites, prior: WorkerPrior, n_workers: int) -> list[slice]:
    """Return ranges of workers whose posteriors fit into memory at once."""
    size = _WORKERS if isinstance(sites, SummedSites) else max(_NUMBERS // len(prior.masses), 1)
    return [slice(begin, min(begin + size, n_workers)) for begin in range(0, n_workers, size)]


def _marginals(
    sites: TypeSites, masses: Vector, types: WorkerTypes, rows: slice, chosen: int, own: WorkerPriors | None = None
) -> TypeMarginals:
    """Return marginals of the posteriors of some workers, from the engine if it offers them."""
    if isinstance(sites, SummedSites):
        return sites.marginals(masses, rows, chosen, own)
    posteriors = sites.posteriors(masses, rows, own)
    return TypeMarginals(*_joined(_by_blocks(sites, posteriors, partial(_of_types, len(types.widths), chosen))))


def _of_types(widths: int, count: int, points: Vector, masses: Vector) -> TypeMarginals:
    regular = widths * points.shape[1]
    by_width = masses[:, :regular].reshape(len(points), -1, points.shape[1])
    chosen = chosen_types(masses, count) if count else np.zeros((len(points), 0), np.int64)
    return TypeMarginals(points, by_width.sum(axis=1), by_width.sum(axis=2), masses[:, regular:], chosen)


def _limits(sites: TypeSites, found: TypeMarginals) -> Vector:
    """Return the quantiles of reliabilities, from the engine if it is faster."""
    at = found.points, found.reliability, found.side_only.sum(axis=1)
    limits = None
    if isinstance(sites, SummedSites) or (isinstance(sites, FusedSites) and len(at[0]) >= _MANY):
        limits = sites.quantiles(at[0], at[1], _QUANTILES, at[2])
    if limits is None:
        limits = np.concatenate(
            _by_blocks(sites, at, lambda points, *held: quantiles(points, held[0], _QUANTILES, held[1]))
        )
    return limits


def _of_reliabilities(found: ReliabilitySummary) -> TypeSummary:
    """Return the summary of workers whose types have only a reliability."""
    spread, none = np.ascontiguousarray(found.quantiles[:, 2:]), np.zeros(len(found.mean))
    nothing = np.zeros_like(spread)
    return TypeSummary(
        mean=found.mean,
        sd=found.sd,
        lower=found.quantiles[:, 0].copy(),
        upper=found.quantiles[:, 1].copy(),
        spread=spread,
        p_side_only=none,
        width=none,
        side=none,
        side_sd=none,
        points=WorkerPoints(spread, nothing, nothing, nothing),
    )


def _by_blocks(sites: TypeSites, columns: Sequence[Vector], work: Callable[..., Any]) -> list[Any]:
    """Apply `work` to blocks of rows that are small enough to stay in a cache."""
    # Use several threads if the engine leaves the host's cores idle.
    rows = max(_BLOCK // columns[0].shape[1], 1)
    blocks = [[column[begin : begin + rows] for column in columns] for begin in range(0, len(columns[0]), rows)]
    threads = min(sites.idle_threads() if isinstance(sites, FusedSites) else 1, len(blocks))
    if threads <= 1:
        return [work(*block) for block in blocks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda block: work(*block), blocks))


def _joined(parts: list[Any]) -> Iterator[Any]:
    return (np.ascontiguousarray(np.concatenate(column)) for column in zip(*parts, strict=True))


def _plain(prior: WorkerPrior) -> bool:
    return len(prior.types.widths) == 1 and not len(prior.types.side_only)


def _summary(
    prior: WorkerPrior, found: TypeMarginals, side_mean: Vector, side_variance: Vector, limits: Vector
) -> TypeSummary:
    widths, side_only, side_only_widths, sided = prior.types
    masses, side_masses = found.reliability, found.side_only
    p_side_only = side_masses.sum(axis=1)
    mean = np.sum(found.points * masses, axis=1)
    square = np.sum(found.points**2 * masses, axis=1)
    width = found.width @ widths + side_masses @ side_only_widths
    side, side_sd = np.zeros(len(mean)), np.zeros(len(mean))
    if sided:
        side = (1.0 - p_side_only) * side_mean + side_masses @ side_only
        second = (1.0 - p_side_only) * (side_mean**2 + side_variance)
        second = second + side_masses @ (side_only**2 * (1.0 + _SIDE_ONLY_SPREAD**2))
        side_sd = np.sqrt(np.maximum(second - side**2, 0.0))
    if _plain(prior):
        reliability = limits[:, 2:]
        spread = WorkerPoints(reliability, *(np.zeros_like(reliability) for _ in range(3)))
    else:
        spread = _points(found, prior, side_mean, side_variance)
    return TypeSummary(
        mean=mean,
        sd=np.sqrt(np.maximum(square - mean**2, 0.0)),
        lower=limits[:, 0],
        upper=limits[:, 1],
        spread=limits[:, 2:],
        p_side_only=p_side_only,
        width=width,
        side=side,
        side_sd=side_sd,
        points=spread,
    )


def _points(found: TypeMarginals, prior: WorkerPrior, side_mean: Vector, side_variance: Vector) -> WorkerPoints:
    widths, side_only, side_only_widths, sided = prior.types
    rows, types = found.points.shape
    regular = len(widths) * types
    chosen = found.chosen
    is_regular = chosen < regular
    row = np.arange(rows)[:, None]
    padded = np.append(side_only, 0.0)
    place = np.where(is_regular, len(side_only), chosen - regular)
    own_side, own_variance = side_mean[:, None], side_variance[:, None]
    return WorkerPoints(
        np.where(is_regular, found.points[row, chosen % types], 0.0),
        np.append(np.repeat(widths, types), side_only_widths)[chosen],
        np.where(is_regular, own_side if sided else 0.0, padded[place]),
        np.where(is_regular, own_variance if sided else 0.0, 0.0),
    )


def chosen_types(masses: Vector, count: int) -> NDArray[np.intp]:
    """Return each worker's types at evenly spaced quantiles of its masses, in order."""
    reached = np.cumsum(masses, axis=1)
    wanted = (np.arange(count) + 0.5) / count * reached[:, -1:]
    chosen = np.stack([np.searchsorted(row, w) for row, w in zip(reached, wanted, strict=True)])
    return np.asarray(np.minimum(chosen, masses.shape[1] - 1), dtype=np.intp)


def quantiles(points: Vector, masses: Vector, levels: Vector, atom: Vector | None = None) -> Vector:
    """Return quantiles by linear interpolation of the cumulated masses over cell edges."""
    # One row per worker. `atom` is probability at exactly 0, beside the masses.
    middle = 0.5 * (points[:, 1:] + points[:, :-1])
    first = 2.0 * points[:, :1] - middle[:, :1]
    last = 2.0 * points[:, -1:] - middle[:, -1:]
    edges = np.concatenate([first, middle, last], axis=1)
    reached = np.cumsum(masses, axis=1)
    total = reached[:, -1]
    rows, zero = np.arange(len(points)), points.shape[1] // 2
    held = np.zeros(len(points)) if atom is None else atom
    whole = np.maximum(total + held, 1e-300)
    below = reached[:, zero] - 0.5 * masses[:, zero]  # of the masses below 0
    result = np.empty((len(points), len(levels)))
    for column, level in enumerate(levels):
        target = level * whole
        inside = (target > below) & (target < below + held)
        target = np.where(target >= below + held, target - held, target)
        cell = np.minimum((reached < target[:, None] - 1e-12 * whole[:, None]).sum(axis=1), points.shape[1] - 1)
        before = np.where(cell > 0, reached[rows, cell - 1], 0.0)
        share = np.clip((target - before) / np.maximum(masses[rows, cell], 1e-300), 0.0, 1.0)
        found = edges[rows, cell] + share * (edges[rows, cell + 1] - edges[rows, cell])
        result[:, column] = np.where(inside, 0.0, found)
    return result


def typical_reliability(prior: WorkerPrior) -> float:
    """Return the median of the positive part, or of the negative one if that is larger."""
    points = mirrored(prior.levels)
    masses, half = prior.by_width(prior.masses).sum(axis=0), len(prior.levels)
    up, down = masses[half + 1 :], masses[:half][::-1]
    chosen = up if up.sum() >= down.sum() else down
    reached = np.cumsum(chosen) - 0.5 * chosen
    return float(np.interp(0.5 * chosen.sum(), reached, points[half + 1 :]))


def class_evidence(sites: TypeSites, prior: WorkerPrior, typical: float, n_workers: int) -> Vector:
    """Return log averaged likelihoods, up to a constant per worker, with a column per class."""
    # Columns are adversarial, random, informative and, where the prior has side-only types, one-sided. They are
    # posteriors under a prior that gives all classes the same mass.
    beta = np.tile(mirrored(prior.levels), len(prior.types.widths))
    classes = np.full(len(prior.masses), 3)
    classes[: len(beta)] = _class_of(beta, typical)
    held = np.bincount(classes, prior.masses)
    even = prior.masses / (len(held) * np.maximum(held, SMALLEST))[classes]
    if isinstance(sites, FusedSites):
        whole = sites.class_masses(even, 0.25 * typical)
        if whole is not None:
            return np.asarray(np.log(np.maximum(whole, SMALLEST)))
    parts: list[Vector] = []
    for rows in _ranges(sites, prior, n_workers):
        found = _marginals(sites, even, prior.types, rows, 0)
        parts += _by_blocks(sites, (found.points, found.reliability, found.side_only), partial(_masses, typical))
    return np.asarray(np.log(np.maximum(np.concatenate(parts), SMALLEST)))


def _masses(typical: float, points: Vector, masses: Vector, side_only: Vector) -> Vector:
    own = _class_of(points, typical)
    columns = [np.sum(masses * (own == number), axis=1) for number in range(3)]
    if side_only.shape[1]:
        columns.append(side_only.sum(axis=1))
    return np.stack(columns, axis=1)


def _class_of(beta: Vector, typical: float) -> Vector:
    zone = 0.25 * typical
    return np.where(beta < -zone, 0, np.where(beta > zone, 2, 1))
