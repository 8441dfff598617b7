"""`crowdsift.engines.grid.GridSites` of votes with covariates, in NumPy.

z = βd + c·γ_s, γ_s ~ N(g, T) with T diagonal, beside a worker's type. Every vote has a site on
(d, η), η = c·γ_s, since what lengthens an answer may also make it better: scores and coefficients
have one joint Gaussian (`joint`). A type's coefficients are its own (`laplace`): a worker that
cares less for quality may care more for length, and its votes alone do not settle which.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.engines.covariates.joint import Elimination, JointPosterior, eliminate
from crowdsift.engines.covariates.laplace import (
    NumpyPasses,
    Passes,
    Types,
    TypeVotes,
    WorkerLaplace,
    start,
    worker_messages,
)
from crowdsift.engines.covariates.planes import cavities, positive, sites_of_moments
from crowdsift.engines.grid import PairVariances, SiteSystem, SiteUpdate, TypePosteriors
from crowdsift.engines.reference.types import TypeTable
from crowdsift.votes.pairs import pair_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from crowdsift.engines.grid import SidePrior, WorkerPriors, WorkerTypes
    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["CovariateSites", "Effects"]

_SMALL = 1e-6  # of a variance in T, below which workers do not differ
# Types of a lower posterior than this are passed over, but for the first and every few passes.
_LEAST, _EVERY, _FIRST = 1e-12, 8, 3
_FACTOR = 4.0  # by which a variance may move in one pass


class Effects(NamedTuple):
    """The population of coefficients: γ ~ N(mean, variance), covariates of unit mean square."""

    mean: Vector
    variance: Vector


class CovariateSites:
    """Sites of one run; see the module.

    Parameters
    ----------
    votes
        Whose features are the covariates in favour of the first item, scaled.
    types
        The worker types; side-only ones depend on the order of items alone.
    free
        Which covariates may have a mean in the crowd: one that is constant for an item may not.
    passes
        Makes the passes over votes and types.
    """

    def __init__(
        self,
        votes: Comparisons,
        types: WorkerTypes,
        variance: float,
        free: NDArray[np.bool_],
        passes: Callable[[TypeVotes], Passes] = NumpyPasses,
    ) -> None:
        y, worker = votes.outcome.astype(np.float64), votes.worker_codes().astype(np.int64)
        tied = (y == 0.5) & types.ties
        won, lost = (y > 0) & ~tied, (y < 1) & ~tied
        rows = np.concatenate([np.flatnonzero(kind) for kind in (won, lost, tied)])
        back = np.repeat([False, True, False], [won.sum(), lost.sum(), tied.sum()])
        order = np.argsort(worker[rows], kind="stable")
        rows, back = rows[order], back[order]
        n = votes.weight[rows] * np.where(tied[rows], 1.0, np.where(back, 1.0 - y[rows], y[rows]))
        assert votes.features is not None
        turn = np.where(back, -1.0, 1.0)
        C = votes.features[rows].astype(np.float64) * turn[:, None]
        self._before_gold, self._gold = votes.n_workers - votes.n_gold, votes.n_gold
        side = np.where(worker[rows] < self._before_gold, turn, 0.0)
        starts = np.searchsorted(worker[rows], np.arange(votes.n_workers + 1))
        self._votes = TypeVotes(worker[rows], starts, C, n, tied[rows], side)
        self._winner = np.where(back, votes.second[rows], votes.first[rows]).astype(np.int64)
        self._loser = np.where(back, votes.first[rows], votes.second[rows]).astype(np.int64)
        self._n_items, self._free = votes.n_items, free
        self.types = TypeTable(types, votes.n_workers, votes.n_gold)
        P = C.shape[1]
        self.effects = Effects(np.zeros(P), np.full(P, 0.1))
        self._over = passes(self._votes)
        self._A, self._h = np.zeros((len(rows), 3)), np.zeros((len(rows), 2))
        spread = np.sum(C**2 * self.effects.variance, axis=1)
        self._V = np.stack([np.full(len(rows), variance), np.zeros(len(rows)), spread], axis=1)
        self._passes = 0
        self._near: NDArray[np.bool_] = np.ones((votes.n_workers, 0), bool)
        self.laplace: WorkerLaplace | None = None
        self._eliminated: Elimination | None = None
        self.joint: JointPosterior | None = None
        self.n_votes, self.n_pairs = float(len(rows)), float(self._count_pairs())
        self.pairs_held = self.n_pairs

    def set_item_variances(self, variances: Vector) -> None:
        """Variances of differences from those of items, to begin with."""
        self._V = self._V.copy()
        self._V[:, 0] = variances[self._winner] + variances[self._loser]

    def _count_pairs(self) -> int:
        return len(np.unique(pair_keys(self._winner, self._loser, self._n_items)))

    def update(
        self,
        levels: Vector,
        prior: Vector,
        means: Vector,
        *,
        damping: float,
        clip: bool,
        side: SidePrior,
        own: WorkerPriors | None = None,
        workers: NDArray[np.bool_] | None = None,
    ) -> SiteUpdate:
        """Messages of types with their own coefficients, and sites on (d, η)."""
        votes, types = self._votes, self.types
        types.levels = levels
        E = self._posterior_means(means)
        m, V = cavities(E, self._V, self._A, self._h)
        table = Types(*types.points())
        root = np.sqrt(self.effects.variance)
        g, count = self.effects.mean, len(votes.starts) - 1
        wanted: NDArray[np.bool_] = np.ones((count, len(prior)), bool)
        self._passes += 1
        if self.laplace is None:
            self.laplace = start(count, len(prior), g)
        elif damping and self._passes % _EVERY and self._passes > _FIRST:
            wanted = self._near
        found = worker_messages(self._over, table, m[:, 0], V[:, 0], g, root, self.laplace, wanted)
        self.laplace, types.messages = found, found.messages
        q, log_messages = types.posterior(prior, None)
        self._near = q > _LEAST
        log_sites = self._log_sites(m[:, 0], V[:, 0], root)
        regular = q @ table.regular
        if damping:
            given = q * table.regular / np.maximum(regular, 1e-300)[:, None]
            shift = found.mean - np.einsum("st,stp->sp", given, found.mean)[:, None]
            alpha, kappa = self._over.moments(table, m, V, shift, given)
            kappa = positive(kappa) if clip else kappa
            A, h = sites_of_moments(alpha, kappa, m, V)
            # Side-only types say nothing of either: the site counts as far as they are not it.
            share = regular[votes.worker][:, None]
            A, h = share * A, share * h
            self._A = self._A + damping * (A - self._A)
            self._h = self._h + damping * (h - self._h)
            self._learn(given, regular)
        counted = (np.diff(votes.starts) > 0) & (np.arange(len(q)) < self._before_gold)
        none = np.zeros(len(q))
        return SiteUpdate(
            self._counts(q, counted), float(log_messages.sum()), log_sites,
            types.gold_margin(np.ones(len(q), bool)), np.where(counted, regular, 0.0), none, none,
        )  # fmt: skip

    def _posterior_means(self, means: Vector) -> Vector:
        """Of (d, η), winner less loser; g is taken over on the way."""
        d = means[self._winner] - means[self._loser]
        if self._eliminated is None:
            return np.stack([d, self._votes.C @ self.effects.mean], axis=1)
        g, gamma = self._eliminated.coefficients(means)
        self.effects = self.effects._replace(mean=g)
        self.gamma = gamma
        eta = np.einsum("ip,ip->i", self._votes.C, gamma[self._votes.worker])
        return np.stack([d, eta], axis=1)

    def _log_sites(self, m: Vector, v: Vector, root: Vector) -> float:
        """Σ_s log ∫ N(γ; g, T) Π_i ∫ N(d; m, v) site_i(d, c·γ): of the sites before the update."""
        votes, (A, B, D), (hd, he) = self._votes, self._A.T, self._h.T
        a = 1.0 + A * v
        constant = -0.5 * np.log(a) + 0.5 * (v * hd**2 + 2.0 * m * hd - A * m**2) / a
        bend, slope = D - v * B**2 / a, he - B * (m + v * hd) / a
        n, C, count = votes.n, votes.C, len(votes.starts) - 1
        P = C.shape[1]
        F = np.stack([
            np.stack([np.bincount(votes.worker, n * bend * C[:, p] * C[:, q], count)
                      for q in range(P)], axis=1) for p in range(P)], axis=1)  # fmt: skip
        f = np.stack([np.bincount(votes.worker, n * slope * C[:, p], count) for p in range(P)], 1)
        g = self.effects.mean
        Fg = F @ g
        level = float(n @ constant) + float(np.sum(f @ g)) - 0.5 * float(np.sum(Fg @ g))
        linear, inner = root * (f - Fg), np.eye(P) + root[:, None] * F * root
        log_determinant = np.linalg.slogdet(inner)[1]
        solved = np.linalg.solve(inner, linear[..., None])[..., 0]
        return level + 0.5 * float(np.sum(linear * solved)) - 0.5 * float(log_determinant.sum())

    def _learn(self, given: Vector, regular: Vector) -> None:
        """T by maximum evidence, a fixed-point step (MacKay 1992), t half normal of scale 1.

        With ε the deviations of workers from g, of posterior mean e and variance V, the evidence
        has no slope in T where T = Σe²/(Σ(1 - V/T) + T), sums over the workers that are regular.
        """
        assert self.laplace is not None
        T, (_, mean, covariance, _) = self.effects.variance, self.laplace
        voted = (np.diff(self._votes.starts) > 0) & (np.arange(len(regular)) < self._before_gold)
        weight = regular * voted
        about = mean - self.effects.mean
        first = np.einsum("st,stp->sp", given, about)
        second = np.einsum("st,stp->sp", given, about**2)
        second += np.einsum("st,stpp->sp", given, covariance)
        spread = np.maximum(second - first**2, 0.0)
        squares = weight @ first**2
        determined = weight @ np.maximum(1.0 - spread / np.maximum(T, 1e-300), 0.0)
        new = np.divide(squares, determined + T, out=T.copy(), where=determined + T > 1e-9)
        new = np.clip(new, T / _FACTOR, np.maximum(T * _FACTOR, _SMALL))
        self.effects = self.effects._replace(variance=np.maximum(new, _SMALL))

    def _counts(self, q: Vector, workers: NDArray[np.bool_]) -> Vector:
        """Counts of types; only workers with adaptive grids one by one."""
        own = np.zeros(len(q), bool)
        own[list(self.types.adaptive)] = True
        plain = q[workers & ~own].sum(axis=0)
        return np.asarray(plain + self.types.counts(q, workers & own))

    def type_counts(self, prior: Vector) -> Vector:
        """Counts of types; see the protocol."""
        q, _ = self.types.posterior(prior, None)
        voted = (np.diff(self._votes.starts) > 0) & (np.arange(len(q)) < self._before_gold)
        return self._counts(q, voted)

    def posteriors(
        self, prior: Vector, rows: slice, own: WorkerPriors | None = None
    ) -> TypePosteriors:
        """Posterior over types; see the protocol."""
        masses, _ = self.types.posterior(prior, None)
        return TypePosteriors(self.types.reliabilities()[rows], masses[rows])

    def refine(self) -> float:
        """Adaptive grids for workers with narrow likelihoods; see the protocol."""
        return self.types.refine()

    def pair_sums(self) -> Vector:
        """Nothing is shared."""
        return np.empty((0, 2))

    def system(self, shared: Vector, pair_effect: float = 0.0) -> SiteSystem:
        """What items receive once coefficients are eliminated; a pair effect is not known here."""
        votes = self._votes
        self._eliminated = eliminate(
            self._A, self._h, votes.n, votes.C, votes.worker, len(votes.starts) - 1,
            self._winner, self._loser, self._n_items, self.effects.variance, self._free,
        )  # fmt: skip
        return SiteSystem(*self._eliminated.items())

    def joint_variances(self, log_determinant: float) -> PairVariances:
        """The joint posterior: covariances of (d, η) of every vote are kept."""
        assert self._eliminated is not None
        found, K = self._eliminated.posterior(), self._n_items
        if found is None:
            return PairVariances(np.ones(K), 0.0, False)
        S, w, x, votes = found.covariance, self._winner, self._loser, self._votes
        items = np.diag(S)[:K].copy()
        dd = items[w] + items[x] - 2.0 * S[w, x]
        s = votes.worker
        cross = found.with_coefficients[s, w] - found.with_coefficients[s, x]
        de = np.einsum("ip,ip->i", votes.C, cross)
        ee = np.einsum("ip,ipq,iq->i", votes.C, found.coefficients[s], votes.C)
        self._V, self.joint = np.stack([dd, de, ee], axis=1), found
        return PairVariances(items, log_determinant, bool((dd > 0.0).all()))

    def transform(
        self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False
    ) -> None:
        """Sites in other units; see the protocol."""
        factor = -scale if flip else scale
        self._A = self._A * np.array([factor**2, factor, 1.0])
        self._h = self._h * np.array([factor, 1.0])
        self._V = self._V / np.array([factor**2, factor, 1.0])
        self._A = positive(self._A) if clip else self._A
        if self._eliminated is not None:
            self._eliminated = self._eliminated.transformed(factor)
        self.laplace = None if flip else self.laplace
        if grids:
            self.types.rescale(scale)

    def copy(self) -> CovariateSites:
        """The same sites once more; arrays are replaced, never changed."""
        clone = copy(self)
        clone.types = copy(self.types)
        clone.types.adaptive = dict(self.types.adaptive)
        return clone

    def suspend(self) -> None:
        """Nothing that is worth giving back."""
