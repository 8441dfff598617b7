"""Dense building blocks in NumPy: operators, and the table of worker types.

The reference engine and the sites of votes with covariates use them.
"""

import numpy as np

from crowdsift.engines.grid import WorkerPriors, WorkerTypes, mirrored
from crowdsift.engines.kinds import Solution, WeightedPairs
from crowdsift.numeric import Mask, Vector
from crowdsift.numeric.distributions import deposit


class DenseOperator:
    """A symmetric matrix; its diagonal for preconditioning and its pairs may be given separately."""

    def __init__(self, matrix: Vector, diagonal: Vector | None = None, pairs: WeightedPairs | None = None) -> None:
        self._matrix, self._pairs = matrix, pairs
        self._diagonal = np.diag(matrix).copy() if diagonal is None else diagonal

    def multiply(self, v: Vector) -> Vector:
        return np.asarray(self._matrix @ v)

    def diagonal(self) -> Vector:
        return self._diagonal

    def pairs(self) -> WeightedPairs:
        if self._pairs is None:
            raise TypeError("the matrix is no Laplacian of pairs")
        return self._pairs

    def solve(self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000) -> Solution:
        x = np.linalg.solve(self._matrix + shift * np.eye(len(rhs)), rhs)
        return Solution(np.asarray(x, dtype=np.float64), 1, 0.0, True)


class TypeTable:
    """The grid of types, workers' adaptive grids, and the messages of the last pass."""

    def __init__(self, shape: WorkerTypes, n_workers: int, n_gold: int) -> None:
        self.shape, self._n, self._before_gold = shape, n_workers, n_workers - n_gold
        self.levels: Vector = np.empty(0)
        self.messages: Vector = np.empty((0, 0))
        self.adaptive: dict[int, Vector] = {}

    def points(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Return β (a row per worker), tie widths δ, side biases γ of side-only types, and which types are regular."""
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
        """Return the signed grid of every worker, one row each."""
        points = np.tile(mirrored(self.levels), (self._n, 1))
        for s, levels in self.adaptive.items():
            points[s] = mirrored(levels)
        return points

    def posterior(self, prior: Vector, own: WorkerPriors | None, among: Vector | float = 1.0) -> tuple[Vector, Vector]:
        """Return the posterior q_s(t), and log Σ_t prior_t exp(message_st); `among` marks the types to include."""
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

    def counts(self, q: Vector, workers: Mask) -> Vector:
        """Return the expected number of workers of each type, Σ_s q_s(t), on the common grid."""
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
        """Give adaptive grids to workers with narrow likelihoods, except gold; return the number of changes."""
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
        """Return the likelihood of a worker's reliabilities, summed over widths and at most 1."""
        relative = np.exp(np.maximum(self.messages[s] - self.messages[s].max(), -55.0))
        slices = relative[: self._n_regular()].reshape(-1, 2 * len(self.levels) + 1)
        return np.asarray(slices.sum(axis=0))

    def gold_margin(self, marked: Mask) -> float:
        """Return the log-odds that marked gold has the largest reliability, against the smallest."""
        gold = self.messages[self._before_gold :][marked[self._before_gold :]]
        return float(np.sum(gold[:, 2 * len(self.levels)] - gold[:, 0]))

    def rescale(self, factor: float) -> None:
        """Multiply the adaptive grids by the factor."""
        self.adaptive = {s: levels * factor for s, levels in self.adaptive.items()}

    def _n_regular(self) -> int:
        return len(self.shape.widths) * (2 * len(self.levels) + 1)


# A worker gets an adaptive grid if its likelihood is narrower than NARROW cells of its grid. The adaptive grid spans
# SPAN standard deviations to each side, and moves when an end would move by a share SLACK of it.
NARROW, SPAN, SLACK = 1.0, 7.0, 0.15


def refined_levels(common: Vector, own: Vector | None, likelihood: Vector) -> Vector | None:
    """Return levels that resolve a worker's likelihood of types, or None if the common ones do."""
    # A worker gets an adaptive grid if the likelihood of |β| (not the posterior, since a narrow prior is the same for
    # all) is narrower than `NARROW` cells of the common grid, and keeps it unless it becomes twice as coarse. The
    # levels are evenly spaced over mean ± `SPAN` sd, within the common grid. They extend at least 1.5 cells to each
    # side, since a likelihood inside one cell has no visible width: grids are refined in steps. Levels whose ends would
    # hardly move stay.
    levels = common if own is None else own
    half = len(levels)
    size = (likelihood[half + 1 :] + likelihood[:half][::-1]) * np.gradient(levels)
    mean = float(levels @ size / size.sum())
    sd = float(np.sqrt(max(levels**2 @ size / size.sum() - mean**2, 0.0)))
    if own is None and sd >= NARROW * _cell_at(common, mean):
        return None
    reach = max(SPAN * sd, 1.5 * _cell_at(levels, mean))
    low, high = max(mean - reach, 0.0), min(mean + reach, float(common[-1]))
    if high - low > 2 * half * _cell_at(common, mean):
        return None
    new = np.linspace(0.0, high, half + 1)[1:] if low == 0.0 else np.linspace(low, high, half)
    slack = SLACK * (high - low)
    if own is not None and abs(new[0] - own[0]) <= slack and abs(high - own[-1]) <= slack:
        return own
    return np.asarray(new, dtype=np.float64)


def _cell_at(levels: Vector, place: float) -> float:
    """Return the distance between the two levels around a place, or between the nearest two."""
    at = int(np.clip(np.searchsorted(levels, place), 1, len(levels) - 1))
    return float(levels[at] - levels[at - 1])


def interpolated_prior(common: Vector, prior: Vector, own: Vector) -> Vector:
    """Return the prior's masses on a worker's own mirrored levels."""
    # The density prior/width is linear between the common levels; the mass at 0 stays at 0.
    half = len(common)
    widths = np.gradient(mirrored(common))
    density = prior / widths
    own_widths = np.gradient(own)
    up = np.interp(own, common, density[half + 1 :]) * own_widths
    down = np.interp(own, common, density[:half][::-1]) * own_widths
    return np.concatenate([down[::-1], [prior[half]], up])
