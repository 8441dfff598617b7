"""The specification of the grid passes in plain NumPy, one line an equation."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import (
    LEAST_DENOMINATOR,
    SMOOTHING,
    PairPosteriors,
    PairVariances,
    SiteUpdate,
    TypePosteriors,
    mirrored,
)
from crowdsift.likelihoods import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines import Vector
    from crowdsift.engines.reference import ReferenceLaplacian

__all__ = ["ReferenceGridSites"]

# A worker is refined where its posterior is narrower than NARROW cells of its grid; its own levels
# span SPAN standard deviations to each side, and move when an end would by this share of them.
NARROW, SPAN, SLACK = 1.0, 7.0, 0.15


class ReferenceGridSites:
    """`crowdsift.engines.grid.GridSites` over dense arrays, in double precision."""

    def __init__(
        self,
        laplacian: ReferenceLaplacian,
        first: NDArray[np.uint32],
        second: NDArray[np.uint32],
        worker: NDArray[np.uint32],
        outcome: Vector,
        weight: Vector,
        n_workers: int,
        sides_known: bool,
    ) -> None:
        self._laplacian = laplacian
        self._n_items, self._n_workers = len(laplacian.matrix), n_workers
        won, lost = outcome > 0, outcome < 1
        self._winner = np.concatenate([first[won], second[lost]])
        self._loser = np.concatenate([second[won], first[lost]])
        self._worker = np.concatenate([worker[won], worker[lost]])
        self._n = np.concatenate([(weight * outcome)[won], (weight * (1 - outcome))[lost]])
        self._rows = (first, second, worker)
        self._weight = weight
        self._e = _centred_votes(worker, outcome, weight, n_workers, sides_known)
        ends = np.sort(np.stack([self._winner, self._loser], axis=1), axis=1)
        self._pairs, pair = np.unique(ends, axis=0, return_inverse=True)
        self._pair = pair.ravel()
        self._sign = np.where(self._winner < self._loser, 1.0, -1.0)
        self.reset(2.0)

    def reset(self, variance: float) -> None:
        """Sites 0; see the protocol."""
        self._A, self._h = np.zeros(len(self._n)), np.zeros(len(self._n))
        self._V = np.full(len(self._n), variance)
        self._own: dict[int, Vector] = {}
        self._effect, self._log_pairs = 0.0, 0.0
        self._D, self._H = np.ones(len(self._pairs)), np.zeros(len(self._pairs))

    def copy(self) -> ReferenceGridSites:
        """The same sites once more; see the protocol."""
        twin = copy(self)
        twin._A, twin._h, twin._V = self._A.copy(), self._h.copy(), self._V.copy()
        twin._own = dict(self._own)
        return twin

    def set_pair_effect(self, variance: float) -> Vector:
        """A common effect of votes on a pair; see the protocol."""
        self._effect = variance
        return self.refresh()

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """Differences of pairs; see the protocol."""
        low, high = (np.ascontiguousarray(x) for x in self._pairs.T)
        s, a, H = self._effect, self._by_pair(self._n * self._A), self._H
        V_r = np.zeros(len(low))
        V_r[self._pair] = self._V
        E = (means[low] - means[high] + s * H) / self._D
        V = V_r / self._D**2 + s / self._D
        return PairPosteriors(low, high, E, V, 0.5 * float(np.sum((H - a * E) ** 2 + a**2 * V - a)))

    def update(
        self, levels: Vector, prior: Vector, means: Vector, *, damping: float, clip: bool
    ) -> SiteUpdate:
        """Messages and sites; see the protocol."""
        self._levels = levels
        told = self.pair_posteriors(means)
        E, V = self._sign * told.mean[self._pair], told.variance[self._pair]
        log_pairs = self._log_pairs
        rest = np.maximum(1.0 - self._A * V, LEAST_DENOMINATOR)
        v, m = V / rest, (E - V * self._h) / rest
        log_site = 0.5 * np.log(rest) + 0.5 * (
            (2.0 * E * self._h - self._A * E**2 - V * self._h**2) / rest
        )
        beta = self._points()[self._worker]
        slope = beta / np.sqrt(1.0 + SMOOTHING * beta**2 * v[:, None])
        eta = slope * m[:, None]
        messages = np.zeros((self._n_workers, len(prior)))
        np.add.at(messages, self._worker, self._n[:, None] * -np.logaddexp(0.0, -eta))
        self._messages = messages
        counts = self.type_counts(prior)
        posterior, log_messages = self._posterior(prior)
        q, Z = posterior[self._worker], sigmoid(eta)
        alpha = np.sum(q * (1 - Z) * slope, axis=1)
        nu = alpha**2 - np.sum(q * (1 - Z) * (1 - 2 * Z) * slope**2, axis=1)
        nu = np.maximum(nu, 0.0) if clip else nu
        bottom = np.maximum(1.0 - nu * v, LEAST_DENOMINATOR)
        self._A += damping * (nu / bottom - self._A)
        self._h += damping * ((alpha + nu * m) / bottom - self._h)
        return SiteUpdate(counts, log_messages, float(self._n @ log_site), log_pairs,
                          self.refresh())  # fmt: skip

    def type_counts(self, prior: Vector) -> Vector:
        """Counts of types; see the protocol."""
        q, _ = self._posterior(prior)
        counts = np.zeros_like(prior)
        grid = mirrored(self._levels)
        for s in np.unique(self._worker):
            if s in self._own:
                counts += _deposit(grid, mirrored(self._own[s]), q[s])
            else:
                counts += q[s]
        return counts

    def posteriors(self, prior: Vector, begin: int, end: int) -> TypePosteriors:
        """Posterior over types; see the protocol."""
        return TypePosteriors(self._points()[begin:end], self._posterior(prior)[0][begin:end])

    def refine(self) -> int:
        """Levels of their own for workers with narrow likelihoods; see the protocol."""
        moved = 0
        for s in range(self._n_workers):
            own = self._own.get(s)
            likelihood = np.exp(self._messages[s] - self._messages[s].max())
            levels = refined_levels(self._levels, own, likelihood)
            moved += levels is not own
            if levels is None:
                self._own.pop(s, None)
            else:
                self._own[s] = levels
        return moved

    def pair_variances(self, *, exact: bool) -> PairVariances:
        """By a dense inverse; see the protocol."""
        precision = self._laplacian.matrix + np.eye(self._n_items)
        try:
            factor = np.linalg.cholesky(precision)
        except np.linalg.LinAlgError:
            return PairVariances(np.ones(self._n_items), 0.0, False)
        S = np.linalg.inv(precision)
        one, two = self._winner, self._loser
        self._V = S[one, one] + S[two, two] - 2.0 * S[one, two]
        return PairVariances(np.diag(S).copy(), 2.0 * float(np.log(np.diag(factor)).sum()), True)

    def refresh(self) -> Vector:
        """The Laplacian of n·A, the signed sums of n·h; see the protocol."""
        s, a = self._effect, self._by_pair(self._n * self._A)
        self._H = self._by_pair(self._sign * self._n * self._h)
        self._D = np.maximum(1.0 + s * a, LEAST_DENOMINATOR)
        self._log_pairs = 0.5 * float(np.sum(s * self._H**2 / self._D - np.log(self._D)))
        D = self._D[self._pair]
        self._laplacian.refresh(self._winner, self._loser, self._n * self._A / D)
        return self._to_items(self._winner, self._loser, self._n * self._h / D)

    def drop_negative(self) -> Vector:
        """A at least 0; see the protocol."""
        self._A = np.maximum(self._A, 0.0)
        return self.refresh()

    def rescale(self, factor: float, *, levels: bool) -> None:
        """Sites in other units; see the protocol."""
        self._A *= factor**2
        self._h *= factor
        self._V /= factor**2
        if levels:
            self._own = {s: own * factor for s, own in self._own.items()}
            self._effect /= factor**2

    def correlate(self, x: Vector) -> Vector:
        """(XᵀX - L(e²)) x; see the protocol."""
        first, second, worker = self._rows
        d = x[first] - x[second]
        product = np.bincount(worker, self._weight * self._e * d, self._n_workers)[worker]
        return self._to_items(first, second, self._weight * (self._e * product - self._e**2 * d))

    def correlation_degrees(self) -> Vector:
        """The diagonal of L(e²); see the protocol."""
        first, second, _ = self._rows
        degrees = self._weight * self._e**2
        return self._to_items(first, second, degrees, -degrees)

    def mixture_likelihood(self, scores: Vector, variances: Vector, points: Vector) -> float:
        """Predictive log-likelihood; see the protocol."""
        d = scores[self._winner] - scores[self._loser]
        v = variances[self._winner] + variances[self._loser]
        return self._likelihood(d, v, points)

    def pair_likelihood(self, differences: Vector, variances: Vector, points: Vector) -> float:
        """Predictive log-likelihood by pair; see the protocol."""
        return self._likelihood(self._sign * differences[self._pair], variances[self._pair], points)

    def _likelihood(self, d: Vector, v: Vector, points: Vector) -> float:
        beta = points[self._worker]
        Z = sigmoid(beta * d[:, None] / np.sqrt(1.0 + SMOOTHING * beta**2 * v[:, None]))
        return float(self._n @ np.log(np.maximum(Z.mean(axis=1), 1e-300)))

    def _by_pair(self, values: Vector) -> Vector:
        return np.bincount(self._pair, values, len(self._pairs)).astype(np.float64)

    def _points(self) -> Vector:
        points = np.tile(mirrored(self._levels), (self._n_workers, 1))
        for s, levels in self._own.items():
            points[s] = mirrored(levels)
        return points

    def _posterior(self, prior: Vector) -> tuple[Vector, float]:
        """q_s(t), and Σ_s log Σ_t prior_t exp(message_st)."""
        priors = np.tile(prior, (self._n_workers, 1))
        for s, levels in self._own.items():
            priors[s] = interpolated_prior(self._levels, prior, levels)
        top = self._messages.max(axis=1, keepdims=True)
        joint = priors * np.exp(self._messages - top)
        total = joint.sum(axis=1, keepdims=True)
        return joint / total, float((np.log(total) + top).sum())

    def _to_items(
        self,
        first: NDArray[np.uint32],
        second: NDArray[np.uint32],
        values: Vector,
        other: Vector | None = None,
    ) -> Vector:
        sums = np.zeros(self._n_items)
        np.add.at(sums, first, values)
        np.add.at(sums, second, -values if other is None else -other)
        return sums


def refined_levels(common: Vector, own: Vector | None, likelihood: Vector) -> Vector | None:
    """Levels that resolve a worker's likelihood of types, or None where the common ones do.

    A worker gets levels of its own where the likelihood of |β| (not the posterior: a narrow prior
    is the same for all) is narrower than `NARROW` cells of the common grid, and keeps them unless
    they become twice as coarse. They are evenly spaced over mean ± `SPAN` sd, within the common
    grid; since a likelihood in one cell shows no width, never over less than 1.5 cells to each
    side: refinement goes in steps. Levels whose ends would move little stay.
    """
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
    """The distance of the two levels about a place, or of the nearest two."""
    at = int(np.clip(np.searchsorted(levels, place), 1, len(levels) - 1))
    return float(levels[at] - levels[at - 1])


def interpolated_prior(common: Vector, prior: Vector, own: Vector) -> Vector:
    """The prior's masses on a worker's own mirrored levels.

    The density prior/width is linear between the common levels; the mass at 0 stays at 0.
    """
    half = len(common)
    widths = np.gradient(mirrored(common))
    density = prior / widths
    own_widths = np.gradient(own)
    up = np.interp(own, common, density[half + 1 :]) * own_widths
    down = np.interp(own, common, density[:half][::-1]) * own_widths
    return np.concatenate([down[::-1], [prior[half]], up])


def _deposit(grid: Vector, points: Vector, masses: Vector) -> Vector:
    """Masses at points as masses on the grid, each shared by its two neighbours linearly."""
    place = np.clip(np.searchsorted(grid, points, side="right") - 1, 0, len(grid) - 2)
    share = np.clip((points - grid[place]) / (grid[place + 1] - grid[place]), 0.0, 1.0)
    result = np.zeros(len(grid))
    np.add.at(result, place, masses * (1 - share))
    np.add.at(result, place + 1, masses * share)
    return result


def _centred_votes(
    worker: NDArray[np.uint32], outcome: Vector, weight: Vector, n_workers: int, sides_known: bool
) -> Vector:
    """2y - 1, less the worker's mean answer where sides are known: one-sided workers vanish."""
    signed = 2.0 * outcome - 1.0
    if sides_known:
        total = np.bincount(worker, weight, n_workers)
        mean = np.bincount(worker, weight * signed, n_workers) / np.maximum(total, 1e-300)
        signed = signed - mean[worker]
    return np.asarray(signed, dtype=np.float64)
