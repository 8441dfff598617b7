"""Reliabilities of a worker that differ from context to context: messages over the grid of types.

In a context a regular worker of reliability β has a reliability of its own, N(β, (κβ)²) on the grid
of types; tie widths and side-only types are the same everywhere. κ, the spread, is learned by
maximum evidence.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import mirrored
from crowdsift.numeric.distributions import deposit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.grid import GridSites, WorkerTypes
    from crowdsift.numeric import Vector

__all__ = ["MOST_SPREAD", "TypeTree", "likelihoods", "spread_kernel"]

_LEAST_SPREAD, MOST_SPREAD = 0.02, 2.0
_PROBE, _FARTHEST = 0.02, 0.5  # in log κ: to see the evidence bend, and to go at a time
_TRIED = (0.05, 0.1, 0.2, 0.4, 0.8)  # spreads, to see whether any is better than none
_PRIOR_SPREAD = 0.1  # of one worker in one context, before any votes
_TINY = 1e-300
_FLOOR = 1e-30  # of a prior, in the single precision of passes: a leaf may contradict the others


def spread_kernel(points: Vector, spread: float) -> Vector:
    """Masses on the grid of N(β, (κβ)²), a row for every β; 0 stays 0.

    Examples
    --------
    >>> import numpy as np
    >>> spread_kernel(np.array([-1.0, 0.0, 1.0]), 0.1).round(6).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    sd = np.maximum(spread * np.abs(points), 1e-9)[:, None]
    z = (points[None, :] - points[:, None]) / sd
    masses = np.exp(-0.5 * np.minimum(z**2, 1400.0)) * np.gradient(points)
    return np.asarray(masses / masses.sum(axis=1, keepdims=True), dtype=np.float64)


def likelihoods(
    sites: GridSites, levels: Vector, types: WorkerTypes, workers: NDArray[np.intp]
) -> Vector:
    """The likelihood of every type for each of the workers, on the common grid, at most 1.

    That of a worker with levels of its own is shared by the common levels about them, so that its
    product with a prior is what the worker's adaptive grid would give. `workers` rise.
    """
    grid, widths = mirrored(levels), len(types.widths)
    flat = np.concatenate([np.tile(np.gradient(grid), widths), np.ones(len(types.side_only))])
    result = np.empty((len(workers), len(flat)))
    ends = np.flatnonzero(np.diff(workers, prepend=-2, append=-2) != 1)
    for begin, end in pairwise(ends):  # those next to each other at once
        rows = slice(int(workers[begin]), int(workers[end - 1]) + 1)
        points, masses = sites.posteriors(flat, rows)
        regular = masses[:, : widths * len(grid)].reshape(-1, widths, len(grid))
        for s in np.flatnonzero((points != grid).any(axis=1)):
            regular[s] = _shared(levels, points[s], regular[s])
        np.divide(masses, flat, out=result[begin:end])
    result /= result.max(axis=1, keepdims=True)
    return result


def _shared(levels: Vector, points: Vector, masses: Vector) -> Vector:
    """Masses at points as masses on the grid of these levels; what is at 0 stays, alone.

    A row a tie width.
    """
    half = len(levels)
    own = points[half + 1 :]
    up = deposit(levels, own, masses[:, half + 1 :])
    down = deposit(levels, own, masses[:, :half][:, ::-1])
    return np.concatenate([down[:, ::-1], masses[:, half : half + 1], up], axis=1)


def _summed(values: Vector, place: NDArray[np.int64], count: int) -> Vector:
    """Sums of rows by their place."""
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    result = np.zeros((count, values.shape[1]))
    result[place[order][starts]] = np.add.reduceat(values[order], starts, axis=0)
    return result


class TypeTree:
    """Types of workers who have several contexts, and of each in each of its contexts ("leaf").

    After `gather`: m_g(t) = Σ_t' K(t'|t) L_g(t') of a leaf, K the kernel, and the log message
    Σ_g log m_g(t) of a worker, which for regular types gains what `bonus` says. A worker of one
    leaf needs no tree: it has the prior `blurred`, and `sharpened` gives its counts.
    """

    def __init__(self, whole: NDArray[np.int64], n_workers: int, types: WorkerTypes) -> None:
        self._whole, self._n, self._types = whole, n_workers, types
        self.spread = 0.3

    def at(self, levels: Vector) -> None:
        """The kernel on these levels, for the spread as it stands."""
        self._points = mirrored(levels)
        self._kernel = spread_kernel(self._points, self.spread)

    def blurred(self, prior: Vector) -> Vector:
        """Σ_t prior_t K(t'|t): the prior of a leaf of which nothing else is known."""
        return np.asarray(self._through(prior[None], self._kernel)[0])

    def sharpened(self, prior: Vector, counts: Vector) -> Vector:
        """Counts of the types of workers from those of their only leaves under `blurred`."""
        share = np.maximum(counts, 0.0) / np.maximum(self.blurred(prior), _TINY)
        return np.asarray(prior * self.through(share[None])[0])

    def through(self, leaf_likelihoods: Vector) -> Vector:
        """Σ_t' K(t'|t) L(t'), a row a leaf."""
        return self._through(leaf_likelihoods, self._kernel.T)

    def gather(self, leaf_likelihoods: Vector, levels: Vector, bonus: Vector) -> None:
        """Messages of leaves to their workers."""
        self.at(levels)
        self._leaf, self._bonus = leaf_likelihoods, bonus
        self._log, self._messages = self._logs(self._kernel)
        self._top = self._messages.max(axis=1, keepdims=True)
        self._shape = np.exp(self._messages - self._top)  # once, however many priors are asked for

    def posterior(self, prior: Vector) -> tuple[Vector, float]:
        """q_s(t), and Σ_s log Σ_t prior_t exp(message_st)."""
        joint = prior * self._shape
        total = joint.sum(axis=1, keepdims=True)
        return joint / total, float((np.log(total) + self._top).sum())

    def counts(self, prior: Vector) -> Vector:
        """Σ_s q_s(t), by two products and without the q_s."""
        return np.asarray(prior * ((1.0 / (self._shape @ prior)) @ self._shape))

    def leaf_counts(self, prior: Vector) -> Vector:
        """The counts of leaves, were each a worker of its own with this prior."""
        return np.asarray(prior * ((1.0 / (self._leaf @ prior)) @ self._leaf))

    def leaf_priors(self, prior: Vector) -> Vector:
        """The prior of a leaf: the message of its worker without this leaf."""
        log = self._messages[self._whole] - self._log
        log -= log.max(axis=1, keepdims=True)
        cavity = prior * np.exp(log, out=log)
        cavity /= cavity.sum(axis=1, keepdims=True)
        found = np.maximum(self._through(cavity, self._kernel), _FLOOR)
        found /= found.sum(axis=1, keepdims=True)
        return np.asarray(found, dtype=np.float64)

    def learn(self, prior: Vector) -> None:
        """A step in log κ to the top of the parabola through three values of the evidence.

        With one observation of prior. (Steps of EM are for the same maximum, but shrink by less
        than a hundredth each.)
        """
        if not self._n:
            return

        def value(log: float) -> float:
            spread = float(np.exp(log))
            evidence = self._evidence(prior, spread) if log != at else self.posterior(prior)[1]
            return evidence - log - 0.5 * (_PRIOR_SPREAD / spread) ** 2

        at = float(np.log(self.spread))
        below, here, above = (value(at + step) for step in (-_PROBE, 0.0, _PROBE))
        slope, bend = (above - below) / (2.0 * _PROBE), (above - 2.0 * here + below) / _PROBE**2
        step = -slope / bend if bend < 0.0 else np.sign(slope) * _FARTHEST
        bounds = np.log(_LEAST_SPREAD), np.log(MOST_SPREAD)
        ahead = np.clip(at + np.clip(step, -_FARTHEST, _FARTHEST), *bounds)
        self.spread = float(np.exp(ahead))

    def gain(self, prior: Vector) -> float:
        """The largest evidence over some values of κ less that of the smallest, at least 0."""
        none = self._evidence(prior, _LEAST_SPREAD)
        return max(0.0, *(self._evidence(prior, spread) - none for spread in _TRIED))

    def _evidence(self, prior: Vector, spread: float) -> float:
        """Σ_s log Σ_t prior_t exp(message_st) at this κ."""
        messages = self._logs(spread_kernel(self._points, spread))[1]
        top = messages.max(axis=1, keepdims=True)
        messages -= top
        return float(np.log(np.exp(messages, out=messages) @ prior).sum() + top.sum())

    def _logs(self, kernel: Vector) -> tuple[Vector, Vector]:
        """Logarithms of m_g(t) of leaves, and the messages of workers, with this kernel."""
        log = np.maximum(self._through(self._leaf, kernel.T), _TINY)
        np.log(log, out=log)
        messages = _summed(log, self._whole, self._n)
        messages[:, : self._regular] += self._bonus[:, None]
        return log, messages

    @property
    def _regular(self) -> int:
        return len(self._types.widths) * len(self._points)

    def _through(self, values: Vector, matrix: Vector) -> Vector:
        """Regular types times the matrix, at every tie width; side-only types as they are."""
        regular = values[:, : self._regular].reshape(-1, len(self._points)) @ matrix
        rest = values[:, self._regular :]
        return np.concatenate([regular.reshape(len(values), -1), rest], axis=1)
