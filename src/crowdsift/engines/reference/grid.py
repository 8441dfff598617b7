"""The specification of the grid passes in plain NumPy, one line an equation."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import (
    LEAST_DENOMINATOR,
    NO_HABIT,
    PLAIN,
    SMOOTHING,
    Habits,
    PairPosteriors,
    PairVariances,
    SidePrior,
    SideSums,
    SiteUpdate,
    TypePosteriors,
    VoteSites,
    WorkerPoints,
    WorkerPriors,
    mirrored,
)
from crowdsift.engines.own_levels import deposit, interpolated_prior, refined_levels
from crowdsift.engines.site_moments import cavity, centred_votes, moved, outcome_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.reference import ReferenceLaplacian
    from crowdsift.numeric import Vector

__all__ = ["ReferenceGridSites"]


class ReferenceGridSites:
    """`crowdsift.engines.grid.GridSites` over dense arrays, in double precision.

    The last `known` workers are right as a rule: of the largest reliability and the least width,
    without a side habit, and not counted among the crowd.
    """

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
        habits: Habits = PLAIN,
        known: int = 0,
    ) -> None:
        self._laplacian, self._habits = laplacian, habits
        self._n_items, self._n_workers = len(laplacian.matrix), n_workers
        self._crowd = n_workers - known
        tied = (outcome == 0.5) & habits.ties
        won, lost = (outcome > 0) & ~tied, (outcome < 1) & ~tied
        self._winner = np.concatenate([first[won], second[lost], first[tied]])
        self._loser = np.concatenate([second[won], first[lost], second[tied]])
        self._worker = np.concatenate([worker[won], worker[lost], worker[tied]])
        n = (weight * outcome)[won], (weight * (1 - outcome))[lost], weight[tied]
        self._n = np.concatenate(n)
        self._tied = np.repeat([False, False, True], [len(part) for part in n])
        side = np.repeat([1.0, -1.0, 1.0], [len(part) for part in n])
        self._kind = np.where(self._tied, 2, side).astype(np.int8)
        self._x = np.where(self._worker < self._crowd, side, 0.0)
        self._rows = (first, second, worker)
        self._weight = weight
        self._e = centred_votes(worker, outcome, weight, n_workers, sides_known)
        ends = np.sort(np.stack([self._winner, self._loser], axis=1), axis=1)
        self._pairs, pair = np.unique(ends, axis=0, return_inverse=True)
        self._pair = pair.ravel()
        self._sign = np.where(self._winner < self._loser, 1.0, -1.0)
        self.reset(2.0)

    def reset(self, variance: float) -> None:
        """Sites 0; see the protocol."""
        votes = len(self._n)
        self._A, self._h = np.zeros(votes), np.zeros(votes)
        self._A_side, self._h_side = np.zeros(votes), np.zeros(votes)
        self._V = np.full(len(self._pairs), variance)
        self._own: dict[int, Vector] = {}
        self._priors: WorkerPriors | None = None
        self._effect, self._log_pairs = 0.0, 0.0
        self._D, self._H = np.ones(len(self._pairs)), np.zeros(len(self._pairs))

    def suspend(self) -> None:
        """Less memory until `refresh`; see the protocol."""
        self._V = np.full(len(self._pairs), np.nan)

    def set_pair_variances(self, variances: Vector) -> None:
        """Variances of pairs; see the protocol."""
        self._V = variances.copy()

    @property
    def n_votes(self) -> int:
        """Votes with a site; see the protocol."""
        return len(self._n)

    @property
    def n_pairs(self) -> int:
        """Pairs that are compared; see the protocol."""
        return len(self._pairs)

    def vote_sites(self) -> VoteSites:
        """Votes and sites; see the protocol."""
        ends = np.full((2, self._n_workers), np.nan)
        for s, levels in self._own.items():
            ends[:, s] = levels[[0, -1]]
        sites = (self._A, self._h, self._A_side, self._h_side)
        told = [values.astype(np.float32) for values in sites]
        return VoteSites._make([self._worker, self._winner, self._loser, self._kind, *told, *ends])

    def set_vote_sites(self, given: VoteSites, half: int) -> None:
        """Sites and own levels; see the protocol."""
        self._A, self._h = given.precision.astype(np.float64), given.pull.astype(np.float64)
        self._A_side = given.side_precision.astype(np.float64)
        self._h_side = given.side_pull.astype(np.float64)
        known = np.flatnonzero(np.isfinite(given.low))
        self._own = {int(s): np.linspace(given.low[s], given.high[s], half) for s in known}

    def copy(self) -> ReferenceGridSites:
        """The same sites once more; see the protocol."""
        twin = copy(self)
        for name in ("_A", "_h", "_A_side", "_h_side", "_V"):
            setattr(twin, name, getattr(self, name).copy())
        twin._own = dict(self._own)
        return twin

    def flip(self) -> Vector:
        """Scores of the other sign; see the protocol."""
        self._h = -self._h
        return self.refresh()

    def set_pair_effect(self, variance: float) -> Vector:
        """A common effect of votes on a pair; see the protocol."""
        self._effect = variance
        return self.refresh()

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """Differences of pairs; see the protocol."""
        low, high = (np.ascontiguousarray(x) for x in self._pairs.T)
        s, a, H = self._effect, self._by_pair(self._n * self._A), self._H
        E = (means[low] - means[high] + s * H) / self._D
        V = self._V / self._D**2 + s / self._D
        return PairPosteriors(low, high, E, V, 0.5 * float(np.sum((H - a * E) ** 2 + a**2 * V - a)))

    def update(
        self,
        levels: Vector,
        prior: Vector,
        means: Vector,
        *,
        damping: float,
        clip: bool,
        side: SidePrior = NO_HABIT,
    ) -> SiteUpdate:
        """Messages and sites; see the protocol."""
        self._levels = levels
        told = self.pair_posteriors(means)
        log_pairs = self._log_pairs
        E, V = self._sign * told.mean[self._pair], told.variance[self._pair]
        m, v, log_site = cavity(E, V, self._A, self._h)
        family = self._side_posteriors(side)
        s, x = self._worker, self._x
        G, W = self._G[s], self._W[s]
        m_side, v_side, log_side = cavity(G, W, self._A_side, self._h_side)
        family -= np.bincount(s, self._n * log_side, self._n_workers)
        if not self._habits.sides:
            m_side, v_side = np.zeros_like(m), np.zeros_like(v)
        m_side, v_side = m_side * np.abs(x), v_side * np.abs(x)  # none of known workers

        beta, width, pure, regular = self._types()
        k = 1.0 / np.sqrt(1.0 + SMOOTHING * (beta[s] ** 2 * v[:, None] + regular * v_side[:, None]))
        z = beta[s] * m[:, None] + x[:, None] * (regular * m_side[:, None] + pure)
        log_Z, e, f = outcome_terms(k * z, k * width, self._tied[:, None])
        messages = np.zeros((self._n_workers, len(prior)))
        np.add.at(messages, s, self._n[:, None] * log_Z)
        messages += regular * family[:, None]
        self._messages = messages
        counts = self.type_counts(prior)
        q, log_messages = self._posterior(prior)

        slope = beta[s] * k
        alpha = np.sum(q[s] * e * slope, axis=1)
        nu = alpha**2 - np.sum(q[s] * f * slope**2, axis=1)
        self._A, self._h = moved(self._A, self._h, alpha, nu, m, v, damping, clip)
        if self._habits.sides:
            given, _ = self._posterior(prior, regular)
            alpha = x * np.sum(given[s] * e * k, axis=1)
            nu = np.abs(x) * (alpha**2 - np.sum(given[s] * f * k**2, axis=1))
            self._A_side, self._h_side = moved(
                self._A_side, self._h_side, alpha, nu, m_side, v_side, damping, True
            )
        types, gold = 2 * len(levels) + 1, messages[self._crowd :]
        margin = float(np.sum(gold[:, types - 1] - gold[:, 0]))
        voted = np.unique(s[s < self._crowd])
        omega, G, W = q[voted] @ regular, self._G[voted], self._W[voted]
        sums = SideSums(float(omega.sum()), float(omega @ G), float(omega @ (G**2 + W)))
        sums = sums if self._habits.sides else SideSums(0.0, 0.0, 0.0)
        return SiteUpdate(counts, log_messages, float(self._n @ log_site), log_pairs,
                          self.refresh(), margin, sums)  # fmt: skip

    def update_some(self, workers: NDArray[np.bool_], levels: Vector, prior: Vector, means: Vector,
                    *, clip: bool, side: SidePrior = NO_HABIT) -> Vector:  # fmt: skip
        """A pass over all workers, of which some are kept; see the protocol."""
        names, moves = ("_A", "_h", "_A_side", "_h_side"), workers[self._worker]
        before = [getattr(self, name) for name in names]
        self.update(levels, prior, means, damping=1.0, clip=clip, side=side)
        for name, values in zip(names, before, strict=True):
            setattr(self, name, np.where(moves, getattr(self, name), values))
        return self.refresh()

    def sides(self) -> tuple[Vector, Vector]:
        """Side habits; see the protocol."""
        return np.array(self._G), np.array(self._W)

    def set_worker_priors(self, priors: WorkerPriors | None) -> None:
        """Priors of workers' own; see the protocol."""
        self._priors = priors

    def type_counts(self, prior: Vector) -> Vector:
        """Counts of types; see the protocol."""
        q, _ = self._posterior(prior)
        counts = np.zeros_like(prior)
        grid, reliabilities = mirrored(self._levels), self._n_regular()
        for s in np.unique(self._worker[self._worker < self._crowd]):
            if s in self._own:
                masses = q[s, :reliabilities].reshape(-1, len(grid))
                points = mirrored(self._own[s])
                told = [deposit(grid, points, row) for row in masses]
                counts += np.concatenate([*told, q[s, reliabilities:]])
            else:
                counts += q[s]
        return counts

    def posteriors(self, prior: Vector, begin: int, end: int) -> TypePosteriors:
        """Posterior over types; see the protocol."""
        return TypePosteriors(self._points()[begin:end], self._posterior(prior)[0][begin:end])

    def refine(self) -> int:
        """Levels of their own for workers with narrow likelihoods; see the protocol."""
        moved, half = 0, len(self._levels)
        for s in range(self._crowd):
            own = self._own.get(s)
            likelihood = np.exp(np.maximum(self._messages[s] - self._messages[s].max(), -55.0))
            slices = likelihood[: self._n_regular()].reshape(-1, 2 * half + 1)
            levels = refined_levels(self._levels, own, slices.sum(axis=0))
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
        one, two = self._pairs.T
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

    def rescale(self, factor: float) -> None:
        """All in other units; see the protocol."""
        self._A, self._h = self._A * factor**2, self._h * factor
        self._V = self._V / factor**2
        self._own = {s: own * factor for s, own in self._own.items()}
        self._effect /= factor**2

    def hold_scale(self, factor: float, rhs: Vector) -> Vector:
        """Sites alone in other units; see the protocol."""
        self._A, self._h = self._A * factor**2, self._h * factor
        self._V = self._V / factor**2
        return self.refresh()

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

    def pair_likelihood(
        self, differences: Vector, variances: Vector, points: WorkerPoints
    ) -> float:
        """Predictive log-likelihood; see the protocol."""
        beta, width, side, side_variance = (column[self._worker] for column in points)
        d, v = self._sign * differences[self._pair], variances[self._pair]
        k = 1.0 / np.sqrt(1.0 + SMOOTHING * (beta**2 * v[:, None] + side_variance))
        z = beta * d[:, None] + self._x[:, None] * side
        Z = np.exp(outcome_terms(k * z, k * width, self._tied[:, None])[0])
        return float(self._n @ np.log(np.maximum(Z.mean(axis=1), 1e-300)))

    def _by_pair(self, values: Vector) -> Vector:
        return np.bincount(self._pair, values, len(self._pairs)).astype(np.float64)

    def _side_posteriors(self, side: SidePrior) -> Vector:
        """Keep G and V of γ; return ½log(V/t²) + ½G²/V - ½g0²/t²."""
        s, m = self._worker, self._n_workers
        mean, variance = np.full(m, side.mean), np.full(m, side.variance)
        if self._priors is not None:
            mean[: self._crowd], variance[: self._crowd] = self._priors[1:]
        precision = 1.0 / variance + np.bincount(s, self._n * self._A_side, m)
        pull = mean / variance + np.bincount(s, self._n * self._h_side, m)
        self._W, self._G = 1.0 / precision, pull / precision
        return np.asarray(
            0.5 * np.log(self._W / variance) + 0.5 * pull * self._G - 0.5 * mean**2 / variance
        )

    def _n_regular(self) -> int:
        return len(self._habits.widths) * (2 * len(self._levels) + 1)

    def _types(self) -> tuple[Vector, Vector, Vector, Vector]:
        """β (a row a worker), δ, γ of pure types, and whether a type is regular."""
        widths, pure_sides, pure_widths, _ = self._habits
        points = self._points()
        beta = np.tile(points, (1, len(widths)))
        none = np.zeros((self._n_workers, len(pure_sides)))
        regular = np.arange(beta.shape[1] + len(pure_sides)) < beta.shape[1]
        return (
            np.concatenate([beta, none], axis=1),
            np.concatenate([np.repeat(widths, points.shape[1]), pure_widths]),
            np.concatenate([np.zeros(beta.shape[1]), pure_sides]),
            regular.astype(np.float64),
        )

    def _points(self) -> Vector:
        points = np.tile(mirrored(self._levels), (self._n_workers, 1))
        for s, levels in self._own.items():
            points[s] = mirrored(levels)
        return points

    def _posterior(self, prior: Vector, among: Vector | float = 1.0) -> tuple[Vector, float]:
        """q_s(t), and Σ_s log Σ_t prior_t exp(message_st); `among` some types, where 1."""
        priors = np.tile(prior, (self._n_workers, 1))
        if self._priors is not None:
            priors[: self._crowd] = self._priors.masses
        priors = priors * among
        regular, types = self._n_regular(), 2 * len(self._levels) + 1
        for s, levels in self._own.items():
            for at in range(0, regular, types):
                part = priors[s, at : at + types]
                priors[s, at : at + types] = interpolated_prior(self._levels, part, levels)
        priors[self._crowd :] = 0.0
        priors[self._crowd :, types - 1] = 1.0
        top = np.where(priors > 0, self._messages, -np.inf).max(axis=1, keepdims=True)
        joint = priors * np.exp(np.minimum(self._messages - top, 0.0))
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
