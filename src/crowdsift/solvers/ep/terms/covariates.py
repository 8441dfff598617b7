"""Covariates: every worker has coefficients for the covariates of their votes.

z = βd + c·γ_s, γ_s ~ N(g, T) with T diagonal, beside a worker's type. Every vote has a site on (d, η), η = c·γ_s, since
what lengthens an answer may also make it better: scores and coefficients have one joint Gaussian (`Elimination`). Each
type has its coefficients (`WorkerLaplace`): a worker that cares less for quality may care more for length, and its
votes alone do not settle which.
"""

from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.covariates import CovariatePasses, CovariateVotes, TypeValues
from crowdsift.engines.dense import DenseOperator, TypeTable
from crowdsift.engines.grid import (
    LEAST_DENOMINATOR,
    GridSites,
    PairVariances,
    SitePass,
    SiteSystem,
    SiteUpdate,
    TypePosteriors,
    WorkerPriors,
    WorkerTypes,
)
from crowdsift.engines.kinds import Operator, WeightedPairs
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Mask, Vector
from crowdsift.numeric.dense import inverse_root
from crowdsift.solvers.ep.state import KeptCovariates, Propagation, Settings
from crowdsift.solvers.ep.terms.base import Exclusion, Term
from crowdsift.solvers.ep.workers import WorkerPrior
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.covariates import SIDE, Design
from crowdsift.votes.graph import pair_keys

_SMALL = 1e-6  # variance in T below which workers are treated as equal
# Types with a lower posterior are skipped, except in the first passes and every few passes.
_MIN_POSTERIOR, _EVERY, _FIRST = 1e-12, 8, 3
_MAX_FACTOR = 4.0  # factor by which a variance may change in one pass
_LONGEST = 1.0  # longest Newton step in γ; covariates have unit mean square


class Covariates(Term):
    """Give every worker coefficients γ ~ N(g, T) for the covariates c of its votes."""

    name = "covariates"
    subject = "covariates of votes"
    option = "--covariates"
    adds = "z = βd + c·γ: how workers respond to what is known of a vote"
    variance = "T, one variance per covariate, by MacKay's fixed point"
    excludes = (
        Exclusion("features", "Features and coefficients would need one joint Gaussian of items and workers.", True),
    )

    def given(self, settings: Settings) -> bool:
        return settings.covariates is not None

    def applies(self, run: Propagation) -> bool:
        """Return whether there are covariates besides the side."""
        given = run.settings.covariates
        return given is not None and bool(set(given.names) - {SIDE})

    def attempt(self, run: Propagation) -> Propagation:
        """Return the run with the covariates that the evidence clearly supports."""
        # All are tried at once. Then the one that adds least is removed, as long as it adds less than 3 nats. If only
        # the side is left, the run without covariates is returned.
        given = run.settings.covariates
        if given is None:
            return run
        if not self.applies(run):
            run.covariates = KeptCovariates(None, {})
            return run
        design, gains = given, dict.fromkeys(given.names, 0.0)
        constant = tuple(n for n, is_so in zip(given.names, given.by_items, strict=True) if is_so)
        trial = _trial(run, run, design)
        while True:
            without: dict[str, tuple[Propagation, Design]] = {}
            for column, name in enumerate(design.names):
                rest = design.without(column)  # the side alone is compared with worker types that have a side bias, too
                without[name] = (_trial(trial, run, rest) if rest.names else run), rest
                gains[name] = trial.evidence[-1] - without[name][0].evidence[-1]
            worst = min(design.names, key=lambda name: gains[name])
            if gains[worst] > MIN_LOG_BAYES_FACTOR:
                trial.covariates = KeptCovariates(design, gains, constant)
                return trial
            trial, design = without[worst]
            if not set(design.names) - {SIDE}:
                run.covariates = KeptCovariates(None, gains, constant)
                return run


def _trial(start: Propagation, base: Propagation, design: Design) -> Propagation:
    settings, engine = replace(base.settings, starts=("flat",)), base.engine
    types = settings.families[-1 if SIDE in design.names else 0]
    sites = CovariateSites(design.votes, types, 2.0, ~design.by_items, getattr(engine, "threads", None))
    trial = Propagation.of(
        "flat",
        engine,
        sites,
        _prior(start.prior, types),
        start.means.copy(),
        settings,
        base.rule.progress,
        sites,
        variances=np.ones(len(start.means)),
    )
    sites.set_item_variances(start.variances)
    trial.complete()
    return trial


def _prior(prior: WorkerPrior, types: WorkerTypes) -> WorkerPrior:
    """Return a distribution over these types, close to the given one."""
    if prior.types.sides == types.sides:
        return prior
    if not types.sides:
        return prior.without_sides(types)
    regular = prior.by_width(prior.masses).ravel()
    share = 1.0 / (2.0 + 2.0 * len(types.side_only))
    only = np.full(len(types.side_only), share)
    return replace(prior, masses=np.concatenate([regular * (1.0 - only.sum()), only]), types=types)


def within_reach(A: Vector, V: Vector) -> Vector:
    """Return A, reduced if needed so that no eigenvalue of VA exceeds 1 - `LEAST_DENOMINATOR`."""
    # Otherwise I - VA would not leave a proper Gaussian. The eigenvalues of the product of a covariance and a symmetric
    # matrix are real.
    trace = A[:, 0] * V[:, 0] + 2.0 * A[:, 1] * V[:, 1] + A[:, 2] * V[:, 2]
    determinant = _determinant(A) * _determinant(V)
    largest = 0.5 * (trace + np.sqrt(np.maximum(trace**2 - 4.0 * determinant, 0.0)))
    most = 1.0 - LEAST_DENOMINATOR
    return np.asarray(A * np.where(largest > most, most / np.maximum(largest, most), 1.0)[:, None])


def cavities(E: Vector, V: Vector, tau: Vector, nu: Vector) -> tuple[Vector, Vector]:
    """Return mean (I - Vτ)⁻¹(E - Vν) and covariance (V⁻¹ - τ)⁻¹ = (I - Vτ)⁻¹V without the site of each vote."""
    covariance, mean = _inflated(V, within_reach(tau, V), E - _times(V, nu))
    return mean, covariance


def sites_of_moments(alpha: Vector, curvature: Vector, m: Vector, V: Vector) -> tuple[Vector, Vector]:
    """Return precision λ(I - Vλ)⁻¹ and precision-mean (I - λV)⁻¹(α + λm) of sites."""
    # α is the gradient and -λ the Hessian of log Z in the mean of the cavity.
    curvature = within_reach(curvature, V)
    return _inflated(curvature, V, alpha + _times(curvature, m))


def _inflated(A: Vector, B: Vector, x: Vector) -> tuple[Vector, Vector]:
    """Return (I - AB)⁻¹A and (I - AB)⁻¹x for symmetric 2 x 2 matrices; the first is symmetric."""
    left = _identity_less(A, B)
    one, two = _solve(left, A[:, :2]), _solve(left, A[:, 1:])
    return np.stack([one[:, 0], 0.5 * (one[:, 1] + two[:, 0]), two[:, 1]], axis=1), _solve(left, x)


def positive(A: Vector) -> Vector:
    """Return the nearest positive semi-definite matrices."""
    middle, half = 0.5 * (A[:, 0] + A[:, 2]), 0.5 * (A[:, 0] - A[:, 2])
    spread = np.hypot(half, A[:, 1])
    high, low = np.maximum(middle + spread, 0.0), np.maximum(middle - spread, 0.0)
    share = np.divide(high - low, 2.0 * spread, out=np.zeros_like(spread), where=spread > 0.0)
    mean = 0.5 * (high + low)
    made = np.stack([mean + share * half, share * A[:, 1], mean - share * half], axis=1)
    return np.where((middle >= spread)[:, None], A, made)


def _determinant(A: Vector) -> Vector:
    return np.asarray(A[:, 0] * A[:, 2] - A[:, 1] ** 2)


def _times(A: Vector, x: Vector) -> Vector:
    first = A[:, 0] * x[:, 0] + A[:, 1] * x[:, 1]
    return np.stack([first, A[:, 1] * x[:, 0] + A[:, 2] * x[:, 1]], axis=1)


def _identity_less(A: Vector, B: Vector) -> Vector:
    """Return I - AB, rows (11, 12, 21, 22)."""
    return np.stack(
        [
            1.0 - A[:, 0] * B[:, 0] - A[:, 1] * B[:, 1],
            -A[:, 0] * B[:, 1] - A[:, 1] * B[:, 2],
            -A[:, 1] * B[:, 0] - A[:, 2] * B[:, 1],
            1.0 - A[:, 1] * B[:, 1] - A[:, 2] * B[:, 2],
        ],
        axis=1,
    )


def _solve(M: Vector, x: Vector) -> Vector:
    """Return M⁻¹x for general 2 x 2 matrices."""
    bottom = M[:, 0] * M[:, 3] - M[:, 1] * M[:, 2]
    first = (M[:, 3] * x[:, 0] - M[:, 1] * x[:, 1]) / bottom
    return np.stack([first, (M[:, 0] * x[:, 1] - M[:, 2] * x[:, 0]) / bottom], axis=1)


class PairOperator(DenseOperator):
    """A matrix whose rows add up to 0: a Laplacian over all pairs, of weights of any sign."""

    def pairs(self) -> WeightedPairs:
        low, high = np.triu_indices(len(self._matrix), 1)
        weight = -self._matrix[low, high]
        kept = weight != 0.0
        low, high = low[kept].astype(np.uint32), high[kept].astype(np.uint32)
        return WeightedPairs(low, high, weight[kept])


@dataclass(frozen=True)
class JointPosterior:
    """Covariances of the scores r with the population means g, and of workers' coefficients.

    `with_coefficients` holds Cov((r, g), γ_s), workers x (items + covariates) x covariates; `coefficients` Cov(γ_s) and
    `given` that given (r, g), workers x covariates x covariates.
    """

    covariance: Vector
    with_coefficients: Vector
    coefficients: Vector
    given: Vector


@dataclass(frozen=True)
class Elimination:
    """The joint precision with workers eliminated.

    `X` is workers x (items + covariates) x covariates, `M` workers x covariates x covariates.
    """

    precision: Vector  # of (r, g)
    rhs: Vector
    X: Vector
    M: Vector
    f: Vector  # workers x covariates
    root: Vector  # of the variances T
    free: Mask
    n_items: int
    log_workers: float
    proper: bool

    def items(self) -> tuple[PairOperator, Vector, float]:
        """Return the items' Laplacian, right-hand side and evidence, with the population means g eliminated as well."""
        K = self.n_items
        rr, rg, gg = self.precision[:K, :K], self.precision[:K, K:], self.precision[K:, K:]
        if not self.free.any():
            return PairOperator(rr - np.eye(K)), self.rhs[:K], self.log_workers
        try:
            root, log_determinant = inverse_root(gg)
        except np.linalg.LinAlgError:
            return PairOperator(np.full((K, K), np.nan)), self.rhs[:K], -np.inf
        part, side = root @ rg.T, root @ self.rhs[K:]
        log_pairs = self.log_workers + 0.5 * float(side @ side) - 0.5 * log_determinant
        matrix = rr - part.T @ part - np.eye(K)
        return PairOperator(matrix), self.rhs[:K] - part.T @ side, log_pairs

    def coefficients(self, means: Vector) -> tuple[Vector, Vector]:
        """Return the mean coefficients of the population and of every worker, given the means of the scores."""
        K, P = self.n_items, self.f.shape[1]
        g = np.zeros(P)
        if self.free.any():
            found = np.linalg.solve(self.precision[K:, K:], self.rhs[K:] - self.precision[K:, :K] @ means)
            g[self.free] = found
        whole = np.concatenate([means, g])
        inner = self.root * self.f - np.einsum("skp,k->sp", self.X, whole)
        return g, g + self.root * np.einsum("spq,sq->sp", self.M, inner)

    def posterior(self) -> JointPosterior | None:
        """Return all covariances; None if there is no proper Gaussian."""
        if not self.proper:
            return None
        try:
            root, _ = inverse_root(self.precision)
        except np.linalg.LinAlgError:
            return None
        K, P = self.n_items, self.f.shape[1]
        S = np.zeros((K + P, K + P))
        used = np.concatenate([np.ones(K, bool), self.free])
        S[np.ix_(used, used)] = root.T @ root
        J = -np.einsum("p,spq,skq->skp", self.root, self.M, self.X)  # transposed: (r, g) x γ
        J[:, K:] += np.eye(P)
        workers = len(J)
        flat = np.ascontiguousarray(J.transpose(1, 0, 2).reshape(K + P, workers * P))
        together = (S @ flat).reshape(K + P, workers, P).transpose(1, 0, 2)
        given = self.root[:, None] * self.M * self.root
        return JointPosterior(S, together, given + np.einsum("skp,skq->spq", J, together), given)

    def transformed(self, factor: float) -> Self:
        """Return the elimination for scores divided by the factor; a negative one reverses them."""
        K, precision, X = self.n_items, self.precision.copy(), self.X.copy()
        precision[:K, K:] *= factor
        precision[K:, :K] *= factor
        X[:, :K] *= factor
        return replace(self, precision=precision, X=X)


def eliminate(
    tau: Vector, nu: Vector, votes: CovariateVotes, n_items: int, variance: Vector, free: Mask
) -> Elimination:
    """Eliminate workers from the joint Gaussian of these sites."""
    worker, n, C, winner, loser = votes.worker, votes.n, votes.C, votes.winner, votes.loser
    n_workers, K, P, root = len(votes.starts) - 1, n_items, C.shape[1], np.sqrt(variance)
    F, f = _squares(worker, n * tau[:, 2], C, n_workers), _sums(worker, n * nu[:, 1], C, n_workers)
    X = np.zeros((n_workers, K + P, P))
    for p in range(P):
        cross = n * tau[:, 1] * C[:, p]
        place = worker.astype(np.int64) * K
        found = np.bincount(place + winner, cross, n_workers * K)
        X[:, :K, p] = (found - np.bincount(place + loser, cross, n_workers * K)).reshape(-1, K)
    X[:, K:] = F
    whole = np.zeros((K + P, K + P))
    weight = n * tau[:, 0]
    sums = np.bincount(pair_keys(winner, loser, K), weight, K * K).reshape(K, K)
    whole[:K, :K] = np.diag(sums.sum(axis=0) + sums.sum(axis=1) + 1.0) - sums - sums.T
    whole[:K, K:] = X[:, :K].sum(axis=0)
    whole[K:, :K] = whole[:K, K:].T
    whole[K:, K:] = F.sum(axis=0) + np.eye(P)
    linear = n * nu[:, 0]
    rhs = np.concatenate([np.bincount(winner, linear, K) - np.bincount(loser, linear, K), f.sum(axis=0)])
    X *= root
    inner = np.eye(P) + root[:, None] * F * root
    log_determinant = np.linalg.slogdet(inner)[1]
    proper = bool((np.linalg.eigvalsh(inner)[:, 0] > 0.0).all())
    M: Vector = np.tile(np.eye(P), (n_workers, 1, 1))
    M = np.asarray(np.linalg.inv(inner), np.float64) if proper else M
    XM = np.einsum("skp,spq->skq", X, M)
    flat, other = (each.transpose(1, 0, 2).reshape(K + P, -1) for each in (XM, X))
    whole -= flat @ other.T
    own = root * f
    rhs -= np.einsum("skp,sp->k", XM, own)
    log_workers = 0.5 * float(np.einsum("sp,spq,sq->", own, M, own)) - 0.5 * float(log_determinant.sum())
    used = np.concatenate([np.ones(K, bool), free])
    return Elimination(
        whole[np.ix_(used, used)], rhs[used], X, M, f, root, free, K, log_workers if proper else -np.inf, proper
    )


def _sums(worker: NDArray[np.integer], weight: Vector, C: Vector, count: int) -> Vector:
    """Return each worker's sum of weight·c over its votes."""
    columns = [np.bincount(worker, weight * C[:, p], count) for p in range(C.shape[1])]
    return np.stack(columns, axis=1).astype(np.float64)


def _squares(worker: NDArray[np.integer], weight: Vector, C: Vector, count: int) -> Vector:
    """Return each worker's sum of weight·ccᵀ over its votes."""
    return np.stack([_sums(worker, weight * C[:, p], C, count) for p in range(C.shape[1])], axis=1)


class Effects(NamedTuple):
    """The population of coefficients, γ ~ N(mean, variance), for covariates of unit mean square."""

    mean: Vector
    variance: Vector


class CovariateSites:
    """Sites of votes on scores and coefficients; the module describes the algorithm.

    `votes`: the covariates are their features in favour of the first item, scaled; `types`: the worker types, of which
    side-only ones depend on the order of items alone; `free`: the covariates that may have a mean in the population;
    one that is constant for each item may not.
    """

    def __init__(
        self, votes: Comparisons, types: WorkerTypes, variance: float, free: Mask, threads: int | None = None
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
        before_gold = votes.n_workers - votes.n_gold
        side = np.where(worker[rows] < before_gold, turn, 0.0)
        starts = np.searchsorted(worker[rows], np.arange(votes.n_workers + 1))
        self._voted = (np.diff(starts) > 0) & (np.arange(votes.n_workers) < before_gold)  # gold apart
        first, second = (codes[rows].astype(np.int64) for codes in (votes.first, votes.second))
        ends = np.where(back, second, first), np.where(back, first, second)
        self._votes = CovariateVotes(worker[rows], starts, C, n, tied[rows], side, *ends)
        self._n_items, self._free = votes.n_items, free
        self.types = TypeTable(types, votes.n_workers, votes.n_gold)
        P = C.shape[1]
        self.effects = Effects(np.zeros(P), np.full(P, 0.1))
        self._over = CovariatePasses(self._votes, threads)
        self._tau, self._nu = np.zeros((len(rows), 3)), np.zeros((len(rows), 2))
        spread = np.sum(C**2 * self.effects.variance, axis=1)
        self._V = np.stack([np.full(len(rows), variance), np.zeros(len(rows)), spread], axis=1)
        self._passes = 0
        self._near: Mask = np.ones((votes.n_workers, 0), bool)
        self.laplace: WorkerLaplace | None = None
        self._eliminated: Elimination | None = None
        self.joint: JointPosterior | None = None
        pairs = np.unique(pair_keys(self._votes.winner, self._votes.loser, self._n_items))
        self.n_votes, self.n_pairs = float(len(rows)), float(len(pairs))
        self.pairs_held = self.n_pairs

    def set_item_variances(self, variances: Vector) -> None:
        """Set the initial variances of differences from the variances of items."""
        self._V = self._V.copy()
        self._V[:, 0] = variances[self._votes.winner] + variances[self._votes.loser]

    def update(self, given: SitePass) -> SiteUpdate:
        """Update the sites on (d, η); return the messages of types, each with its own coefficients."""
        levels, prior, means, _, damping, clip, *_ = given
        votes, types = self._votes, self.types
        types.levels = levels
        E = self._posterior_means(means)
        m, V = cavities(E, self._V, self._tau, self._nu)
        table = TypeValues(*types.points())
        root = np.sqrt(self.effects.variance)
        g, count = self.effects.mean, len(votes.starts) - 1
        wanted: Mask = np.ones((count, len(prior)), bool)
        self._passes += 1
        if self.laplace is None:
            self.laplace = start(count, len(prior), g)
        elif damping and self._passes % _EVERY and self._passes > _FIRST:
            wanted = self._near
        found = worker_messages(self._over, table, m[:, 0], V[:, 0], g, root, self.laplace, wanted)
        self.laplace, types.messages = found, found.messages
        q, log_messages = types.posterior(prior, None)
        self._near = q > _MIN_POSTERIOR
        log_sites = self._log_sites(m[:, 0], V[:, 0], root)
        regular = q @ table.regular
        if damping:
            among = q * table.regular / np.maximum(regular, 1e-300)[:, None]
            shift = found.mean - np.einsum("st,stp->sp", among, found.mean)[:, None]
            alpha, curvature = self._over.moments(table, m, V, shift, among)
            curvature = positive(curvature) if clip else curvature
            tau, nu = sites_of_moments(alpha, curvature, m, V)
            # Side-only types contain no information on either: a site counts by the probability that its worker is of
            # another type.
            share = regular[votes.worker][:, None]
            self._tau = self._tau + damping * (share * tau - self._tau)
            self._nu = self._nu + damping * (share * nu - self._nu)
            self._learn(among, regular)
        none = np.zeros(len(q))
        return SiteUpdate(
            self._counts(q),
            float(log_messages.sum()),
            log_sites,
            types.gold_margin(np.ones(len(q), bool)),
            np.where(self._voted, regular, 0.0),
            none,
            none,
        )

    def _posterior_means(self, means: Vector) -> Vector:
        """Return the posterior means of each vote's difference d and covariate part η, and store the mean of g."""
        d = means[self._votes.winner] - means[self._votes.loser]
        if self._eliminated is None:
            return np.stack([d, self._votes.C @ self.effects.mean], axis=1)
        g, gamma = self._eliminated.coefficients(means)
        self.effects = self.effects._replace(mean=g)
        self.gamma = gamma
        eta = np.einsum("ip,ip->i", self._votes.C, gamma[self._votes.worker])
        return np.stack([d, eta], axis=1)

    def _log_sites(self, m: Vector, v: Vector, root: Vector) -> float:
        """Return Σ_s log ∫ N(γ; g, T) Π_i ∫ N(d; m, v) site_i(d, c·γ) for the sites before the update."""
        votes, (A, B, D), (hd, he) = self._votes, self._tau.T, self._nu.T
        a = 1.0 + A * v
        constant = -0.5 * np.log(a) + 0.5 * (v * hd**2 + 2.0 * m * hd - A * m**2) / a
        bend, slope = D - v * B**2 / a, he - B * (m + v * hd) / a
        n, count, g = votes.n, len(votes.starts) - 1, self.effects.mean
        F = _squares(votes.worker, n * bend, votes.C, count)
        f, Fg = _sums(votes.worker, n * slope, votes.C, count), F @ g
        level = float(n @ constant) + float(np.sum(f @ g)) - 0.5 * float(np.sum(Fg @ g))
        linear, inner = root * (f - Fg), np.eye(len(g)) + root[:, None] * F * root
        log_determinant = np.linalg.slogdet(inner)[1]
        solved = np.linalg.solve(inner, linear[..., None])[..., 0]
        return level + 0.5 * float(np.sum(linear * solved)) - 0.5 * float(log_determinant.sum())

    def _learn(self, given: Vector, regular: Vector) -> None:
        """Learn the spread of coefficients, T = diag(t²), by a fixed-point step of maximum evidence (MacKay 1992)."""
        # With ε the deviations of workers from g, with posterior mean e and variance V, the evidence is stationary in T
        # where T = Σe²/(Σ(1 - V/T) + T), sums over regular workers.
        assert self.laplace is not None
        T, (_, mean, covariance, _) = self.effects.variance, self.laplace
        weight = regular * self._voted
        about = mean - self.effects.mean
        first = np.einsum("st,stp->sp", given, about)
        second = np.einsum("st,stp->sp", given, about**2)
        second += np.einsum("st,stpp->sp", given, covariance)
        spread = np.maximum(second - first**2, 0.0)
        squares = weight @ first**2
        determined = weight @ np.maximum(1.0 - spread / np.maximum(T, 1e-300), 0.0)
        new = np.divide(squares, determined + T, out=T.copy(), where=determined + T > 1e-9)
        new = np.clip(new, T / _MAX_FACTOR, np.maximum(T * _MAX_FACTOR, _SMALL))
        self.effects = self.effects._replace(variance=np.maximum(new, _SMALL))

    def _counts(self, q: Vector) -> Vector:
        """Return the counts of types; only workers with adaptive grids are handled one by one."""
        own = np.zeros(len(q), bool)
        own[list(self.types.adaptive)] = True
        plain = q[self._voted & ~own].sum(axis=0)
        return np.asarray(plain + self.types.counts(q, self._voted & own))

    def type_counts(self, prior: Vector) -> Vector:
        return self._counts(self.types.posterior(prior, None)[0])

    def posteriors(self, prior: Vector, rows: slice, own: WorkerPriors | None = None) -> TypePosteriors:
        masses, _ = self.types.posterior(prior, None)
        return TypePosteriors(self.types.reliabilities()[rows], masses[rows])

    def refine(self) -> float:
        return self.types.refine()

    def pair_sums(self) -> Vector:
        return np.empty((0, 2))

    def system(self, shared: Vector, pair_effect: float = 0.0) -> SiteSystem:
        """Return the items' system after eliminating coefficients, without a pair effect."""
        self._eliminated = eliminate(self._tau, self._nu, self._votes, self._n_items, self.effects.variance, self._free)
        return SiteSystem(*self._eliminated.items())

    def variances(
        self, sites: GridSites | None, laplacian: Operator, *, exact: bool, factor: float = 1.0
    ) -> PairVariances:
        """Return variances of items from the joint Gaussian, and keep each vote's covariances of d and η."""
        assert self._eliminated is not None
        found, K, votes = self._eliminated.posterior(), self._n_items, self._votes
        improper = PairVariances(np.ones(K), 0.0, False)
        if found is None:
            return improper
        try:
            log_determinant = inverse_root(laplacian.multiply(np.eye(K)) + np.eye(K))[1]
        except np.linalg.LinAlgError:
            return improper
        S, w, x, s = found.covariance, self._votes.winner, self._votes.loser, votes.worker
        items = np.diag(S)[:K].copy()
        dd = items[w] + items[x] - 2.0 * S[w, x]
        cross = found.with_coefficients[s, w] - found.with_coefficients[s, x]
        de = np.einsum("ip,ip->i", votes.C, cross)
        ee = np.einsum("ip,ipq,iq->i", votes.C, found.coefficients[s], votes.C)
        self._V, self.joint = np.stack([dd, de, ee], axis=1), found
        return PairVariances(items, log_determinant, bool((dd > 0.0).all()))

    def possible(self, sites: GridSites | None, laplacian: Operator) -> bool:
        """Return True: the variances are always exact."""
        return True

    def transform(self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False) -> None:
        factor = -scale if flip else scale
        self._tau = self._tau * np.array([factor**2, factor, 1.0])
        self._nu = self._nu * np.array([factor, 1.0])
        self._V = self._V / np.array([factor**2, factor, 1.0])
        self._tau = positive(self._tau) if clip else self._tau
        if self._eliminated is not None:
            self._eliminated = self._eliminated.transformed(factor)
        self.laplace = None if flip else self.laplace
        if grids:
            self.types.rescale(scale)

    def copy(self) -> Self:
        """Return a copy that shares arrays, since arrays are replaced and never changed."""
        clone = copy(self)
        clone.types = copy(self.types)
        clone.types.adaptive = dict(self.types.adaptive)
        return clone

    def suspend(self) -> None:
        """Do nothing: these sites hold nothing that is worth releasing."""


class WorkerLaplace(NamedTuple):
    """Laplace's approximation per worker and type: log message, mean and covariance of γ.

    Given a type (β, δ) the votes of a worker have the likelihood Π Z(βm + c·γ), scores integrated over their cavities.
    With γ = g + T^½u, u ~ N(0, I), a Newton step from u has the gradient G = T^½Σ n·e·k·c - u and the precision H = I +
    T^½(Σ n·w·k²·ccᵀ)T^½, and the type the message log ∫ = Σ n log Z - ½u² + ½GᵀH⁻¹G - ½log|H|, exact to second order
    about u + H⁻¹G. Side-only types have γ = g.
    """

    messages: Vector
    mean: Vector
    covariance: Vector
    gamma: Vector  # where the next step starts


def start(workers: int, n_types: int, g: Vector) -> WorkerLaplace:
    """Set all coefficients to the population's mean, before the first pass."""
    P = len(g)
    gamma = np.tile(g, (workers, n_types, 1))
    return WorkerLaplace(np.zeros((workers, n_types)), gamma, np.zeros((workers, n_types, P, P)), gamma)


def worker_messages(
    passes: CovariatePasses,
    types: TypeValues,
    m: Vector,
    v: Vector,
    g: Vector,
    root: Vector,
    before: WorkerLaplace,
    wanted: Mask,
) -> WorkerLaplace:
    """Return a Newton step of the given workers and types; the others stay where they are."""
    log_z, G, H = passes.messages(types, m, v, before.gamma, wanted)
    messages, mean, covariance, gamma = (each.copy() for each in before)
    chosen = wanted & (types.regular > 0.0)
    u = (gamma[chosen] - g) / root
    G = root * G[chosen] - u
    H = root[:, None] * H[chosen] * root + np.eye(len(g))
    inverse = np.linalg.inv(H)
    step = np.einsum("ipq,iq->ip", inverse, G)
    size = np.sqrt(np.sum((root * step) ** 2, axis=1, keepdims=True))
    part = np.minimum(1.0, _LONGEST / np.maximum(size, 1e-12))
    step = part * step
    messages[wanted] = log_z[wanted]
    # The gain of a partial step; a full step gains (1 - ½)GᵀH⁻¹G.
    gain = (1.0 - 0.5 * part[:, 0]) * np.sum(G * step, axis=1)
    messages[chosen] += gain - 0.5 * np.sum(u**2, axis=1) - 0.5 * np.linalg.slogdet(H)[1]
    gamma[chosen] = mean[chosen] = g + root * (u + step)
    covariance[chosen] = root[:, None] * inverse * root
    return WorkerLaplace(messages, mean, covariance, gamma)
