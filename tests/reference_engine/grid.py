"""The specification of expectation propagation over worker types: one line per equation."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.dense import DenseOperator, TypeTable
from crowdsift.engines.grid import (
    PairPosteriors,
    SidePrior,
    SiteSystem,
    SiteUpdate,
    TypePosteriors,
    VoteSites,
    WorkerPoints,
    WorkerPriors,
    WorkerTypes,
)
from crowdsift.numeric.dense import inverse_root
from crowdsift.numeric.likelihoods import smoothing
from reference_engine.building_blocks import laplacian, outcome_terms
from reference_engine.moments import cavity, centred_votes, moved
from reference_engine.pairs import PairTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.grid import Factoriser, Messages, SitePass
    from crowdsift.engines.shards import SharedPairs
    from crowdsift.numeric import Vector
    from reference_engine.votes import VoteColumns


class ReferenceGrid:
    """Sites over dense arrays, in double precision."""

    def __init__(self, votes: VoteColumns, shared: SharedPairs | None = None) -> None:
        self._votes, self._shared = votes, shared

    def sites(self, types: WorkerTypes, variance: float) -> ReferenceSites:
        """New sites; see the protocol."""
        return ReferenceSites(self._votes, self._shared, types, variance)

    def correlations(self) -> ReferenceCorrelations:
        """Correlations of votes; see the protocol."""
        return ReferenceCorrelations(self._votes)

    def factoriser(self, low: NDArray[np.uint32], high: NDArray[np.uint32], n_items: int, most: float) -> Factoriser:
        """By a dense inverse, whatever it takes; see the protocol."""
        one = np.eye(n_items)

        def variances(weight: Vector) -> tuple[Vector, Vector, float, bool]:
            precision = laplacian(n_items, low, high, weight).multiply(one) + one
            try:
                root, log_determinant = inverse_root(precision)
            except np.linalg.LinAlgError:
                return np.ones(n_items), np.ones(len(weight)), 0.0, False
            S = root.T @ root
            items = np.diag(S).copy()
            return items, items[low] + items[high] - 2.0 * S[low, high], log_determinant, True

        return variances


class ReferenceCorrelations(DenseOperator):
    """XᵀX - L(n e²)."""

    def __init__(self, votes: VoteColumns) -> None:
        e = centred_votes(votes)
        X = np.zeros((votes.n_workers, votes.n_items))
        np.add.at(X, (votes.worker, votes.first), votes.n * e)
        np.subtract.at(X, (votes.worker, votes.second), votes.n * e)
        degrees = laplacian(votes.n_items, votes.first, votes.second, votes.n * e**2)
        square = degrees.multiply(np.eye(votes.n_items))
        super().__init__(X.T @ X - square, degrees.diagonal())


class ReferenceSites:
    """`crowdsift.engines.grid.GridSites` over dense arrays.

    Gold is right as a rule: of the largest reliability and the least width, without a side bias, and not counted among
    the workers.
    """

    def __init__(self, votes: VoteColumns, shared: SharedPairs | None, types: WorkerTypes, variance: float) -> None:
        self._votes, self._types = votes, TypeTable(types, votes.n_workers, votes.n_gold)
        self._before_gold = votes.n_workers - votes.n_gold
        tied = (votes.y == 0.5) & types.ties
        won, lost = (votes.y > 0) & ~tied, (votes.y < 1) & ~tied
        rows = np.concatenate([np.flatnonzero(kind) for kind in (won, lost, tied)])
        kind = np.repeat(np.array([1, -1, 2], np.int8), [won.sum(), lost.sum(), tied.sum()])
        order = np.argsort(votes.worker[rows], kind="stable")
        rows, self._kind = rows[order], kind[order]
        self._worker, back = votes.worker[rows], self._kind == -1
        self._winner = np.where(back, votes.second[rows], votes.first[rows])
        self._loser = np.where(back, votes.first[rows], votes.second[rows])
        self._tied, y = self._kind == 2, votes.y[rows]
        self._n = votes.n[rows] * np.where(self._tied, 1.0, np.where(back, 1.0 - y, y))
        side = np.where(back, -1.0, 1.0)
        self._x = np.where(self._worker < self._before_gold, side, 0.0)
        self._pairs = PairTable(self._winner, self._loser, self._n, votes.n_items, shared, variance)
        self._tau, self._nu, self._side_tau, self._side_nu = np.zeros((4, len(rows)))
        self.n_votes, self.n_pairs = float(len(rows)), float(self._pairs.n_owned)
        self.pairs_held = float(len(self._pairs.low))

    def update(self, given: SitePass) -> SiteUpdate:
        """Messages and sites; see the protocol."""
        levels, prior, means, side, damping, clip, own, workers = given
        s, x, n, types = self._worker, self._x, self._n, self._types
        marked = np.ones(self._votes.n_workers, bool) if workers is None else workers
        self._votes.counter.passes += float(marked[s].sum() / max(len(s), 1))
        types.levels = levels
        E, V = self._pairs.posteriors(means)
        m, v, log_site = cavity(E, V, self._tau, self._nu)
        m_side, v_side, family = self._side_cavities(side, own)
        beta, width, only, regular = types.points()
        variance = beta[s] ** 2 * v[:, None] + regular * v_side[:, None]
        k = smoothing(variance)
        z = beta[s] * m[:, None] + x[:, None] * (regular * m_side[:, None] + only)
        log_Z, e, f = outcome_terms(k * z, k * width, self._tied[:, None])
        messages = np.zeros((self._votes.n_workers, len(prior)))
        np.add.at(messages, s, n[:, None] * log_Z)
        types.messages = messages + regular * family[:, None]
        q, log_messages = types.posterior(prior, own)

        slope = beta[s] * k
        alpha = np.sum(q[s] * e * slope, axis=1)
        curvature = alpha**2 - np.sum(q[s] * f * slope**2, axis=1)
        new = moved(self._tau, self._nu, alpha, curvature, m, v, damping, clip)
        self._tau, self._nu = (np.where(marked[s], a, b) for a, b in zip(new, (self._tau, self._nu), strict=True))
        if types.shape.sides:
            among, _ = types.posterior(prior, own, regular)
            alpha = x * np.sum(among[s] * e * k, axis=1)
            curvature = np.abs(x) * (alpha**2 - np.sum(among[s] * f * k**2, axis=1))
            old = self._side_tau, self._side_nu
            new = moved(*old, alpha, curvature, m_side, v_side, damping, True)
            self._side_tau, self._side_nu = (np.where(marked[s], a, b) for a, b in zip(new, old, strict=True))
        voted = np.bincount(s, minlength=len(marked)) > 0
        counted = marked & voted & (np.arange(len(marked)) < self._before_gold)
        return SiteUpdate(
            types.counts(q, counted),
            float(log_messages[marked].sum()),
            float(n @ (log_site * marked[s])),
            types.gold_margin(marked),
            np.where(counted, q @ regular, 0.0),
            np.bincount(s, n * self._side_tau, len(marked)).astype(np.float64),
            np.bincount(s, n * self._side_nu, len(marked)).astype(np.float64),
        )

    def type_counts(self, prior: Vector) -> Vector:
        """Counts of types; see the protocol."""
        q, _ = self._types.posterior(prior, None)
        voted = np.bincount(self._worker, minlength=len(q)) > 0
        return self._types.counts(q, voted & (np.arange(len(q)) < self._before_gold))

    def posteriors(self, prior: Vector, rows: slice, own: WorkerPriors | None = None) -> TypePosteriors:
        """Posterior over types; see the protocol."""
        masses, _ = self._types.posterior(prior, own)
        return TypePosteriors(self._types.reliabilities()[rows], masses[rows])

    def refine(self) -> float:
        """Adaptive grids for workers with narrow likelihoods; see the protocol."""
        return self._types.refine()

    def pair_sums(self) -> Vector:
        """Sums of shared pairs; see the protocol."""
        return self._pairs.shared_sums(self._tau, self._nu)

    def system(self, shared: Vector, pair_effect: float = 0.0) -> SiteSystem:
        """The Laplacian and the right-hand side; see the protocol."""
        return self._pairs.system(self._tau, self._nu, shared, pair_effect)

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """Differences of pairs; see the protocol."""
        return self._pairs.pair_posteriors(means)

    def set_pair_variances(self, variances: Vector | None = None, shared: Vector | None = None) -> None:
        """Variances of pairs; see the protocol."""
        self._pairs.set_variances(variances, shared)

    def propagate(self, precision: Vector, settled: Vector, *, fresh: bool = False, last: bool = False) -> Messages:
        """A sweep of belief propagation; see the protocol."""
        if fresh:
            self._pairs.forget()
        return self._pairs.propagate(precision, settled, last)

    def transform(self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False) -> None:
        """Sites in other units; see the protocol."""
        self._tau, self._nu = self._tau * scale**2, self._nu * (-scale if flip else scale)
        self._tau = np.maximum(self._tau, 0.0) if clip else self._tau
        self._pairs.rescale(scale)
        if grids:
            self._types.rescale(scale)

    def copy(self) -> ReferenceSites:
        """The same sites once more; arrays are replaced, never changed."""
        clone = copy(self)
        clone._pairs, clone._types = copy(self._pairs), copy(self._types)
        clone._types.adaptive = dict(self._types.adaptive)
        return clone

    def suspend(self) -> None:
        """Less memory: variances are gone; see the protocol."""
        self._pairs.set_variances(np.full(len(self._pairs.low), np.nan), None)

    def vote_sites(self) -> VoteSites:
        """Votes and sites; see the protocol."""
        m = self._votes.n_workers
        ends = np.full((2, m), np.nan)
        for s, levels in self._types.adaptive.items():
            ends[:, s] = levels[[0, -1]]
        sites = (self._tau, self._nu, self._side_tau, self._side_nu)
        count = np.bincount(self._worker, minlength=m)
        codes = (self._winner, self._loser, self._kind)
        single = [values.astype(np.float32) for values in sites]
        return VoteSites._make([count, *codes, *single, *ends])

    def set_vote_sites(self, sites: VoteSites, half: int) -> None:
        """Sites and adaptive grids; see the protocol."""
        self._tau, self._nu, self._side_tau, self._side_nu = (values.astype(np.float64) for values in sites[4:8])
        self._types.adaptive = {
            int(s): np.linspace(sites.low[s], sites.high[s], half) for s in np.flatnonzero(np.isfinite(sites.low))
        }

    def pair_likelihood(self, differences: Vector, variances: Vector, points: WorkerPoints) -> float:
        """Predictive log-likelihood; see the protocol."""
        beta, width, side, side_variance = (column[self._worker] for column in points)
        pair, sign = self._pairs.pair, self._pairs.sign
        variance = beta**2 * variances[pair][:, None] + side_variance
        k = smoothing(variance)
        z = beta * (sign * differences[pair])[:, None] + self._x[:, None] * side
        Z = np.exp(outcome_terms(k * z, k * width, self._tied[:, None])[0])
        return float(self._n @ np.log(np.maximum(Z.mean(axis=1), 1e-300)))

    def _side_cavities(self, side: SidePrior, own: WorkerPriors | None) -> tuple[Vector, Vector, Vector]:
        """Cavity of γ for every vote, and the evidence of γ of every worker."""
        s, n, m = self._worker, self._n, self._votes.n_workers
        g0, t2 = np.full(m, side.mean), np.full(m, side.variance)
        if own is not None:
            g0[: self._before_gold], t2[: self._before_gold] = own.side_mean, own.side_variance
        tau = np.bincount(s, n * self._side_tau, m)
        nu = np.bincount(s, n * self._side_nu, m)
        D = 1.0 + t2 * tau
        evidence = -0.5 * np.log(D) + 0.5 * (t2 * nu**2 + 2.0 * g0 * nu - g0**2 * tau) / D
        mean, variance, log_site = cavity(((g0 + t2 * nu) / D)[s], (t2 / D)[s], self._side_tau, self._side_nu)
        evidence -= np.bincount(s, n * log_site, m)
        used = np.abs(self._x) * self._types.shape.sides  # gold has none
        return mean * used, variance * used, evidence
