"""Contexts: workers whose reliability and side bias differ from context to context.

The sites belong to an engine that treats a worker in a context as a separate worker. Between passes the contexts of one
worker exchange messages: each has for a prior the message of the others. A regular worker of reliability β has N(β,
(κβ)²) in a context, on the grid of types, and the side bias N(γ, w); tie widths and side-only types are the same
everywhere.
"""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.base import ContextEngine, required
from crowdsift.engines.fused import FusedSites
from crowdsift.engines.grid import (
    GridSites,
    PairVariances,
    SidePrior,
    SitePass,
    SiteUpdate,
    TypePosteriors,
    WorkerPoints,
    WorkerPriors,
    WorkerTypes,
    mirrored,
)
from crowdsift.numeric import Indices, Vector
from crowdsift.numeric.distributions import deposit
from crowdsift.numeric.random_effects import best_variance, log_mean, within_reach
from crowdsift.solvers.ep.items import Factorisation
from crowdsift.solvers.ep.state import Propagation, Settings
from crowdsift.solvers.ep.terms.base import Exclusion, Term

MAX_CONTEXT_NUMBERS = 20_000_000  # most types of workers in contexts
_MIN_VOTES = 3.0  # votes of a worker in a context: fewer carry too little information
_MIN_GAIN = 0.25  # nats in the screening pass; terms that gain 3 nats in the end gain .3 or more here
_MIN_SPREAD, MAX_SPREAD = 0.02, 2.0  # range of κ
_PROBE, _FARTHEST = 0.02, 0.5  # in log κ: step of numerical derivatives, and largest change at a time
_TRIED = (0.05, 0.1, 0.2, 0.4, 0.8)  # spreads tried in the screening pass
_PRIOR_SPREAD = 0.1  # scale of the prior of κ, which counts as one observation
_TINY = 1e-300
_FLOOR = 1e-30  # smallest prior in single precision: votes of a context may contradict all others
_SIDE_SPREAD_START = 0.1  # initial √w


class Contexts(Term):
    """Let reliability and side bias of a worker differ from context to context."""

    name = "contexts"
    subject = "workers who differ by context"
    option = "--by"
    way_out = "take workers to be the same in all: --set contexts=false (Sift(contexts=False))"
    adds = "β(1 + κε) and γ + η for every worker in a context, ε ~ N(0, 1), η ~ N(0, w)"
    variance = "κ and w, by maximum evidence, one step per pass"
    excludes = (
        Exclusion("features", "The prior by features is tried over whole workers only.", True),
        Exclusion("covariates", "Coefficients of a worker are the same in all contexts.", True),
    )

    def switched_off(self, settings: Settings) -> Settings:
        return replace(settings, contexts=False)

    def applies(self, run: Propagation) -> bool:
        return run.settings.contexts

    def begin(self, run: Propagation) -> Propagation | None:
        """Return the run on an engine in which a worker in a context is a separate worker."""
        # The term is not tried if workers have only a vote or two in a context, or if one pass at the scores of the run
        # finds no gain.
        apart = run.engine.by_context(_MIN_VOTES)
        if apart is None or len(apart.worker) * len(run.prior.masses) > MAX_CONTEXT_NUMBERS:
            return None
        rows = _informative(apart, run.engine.facts.n_workers)
        if not len(rows) or _gain(run, _sites(run, apart), apart.worker, rows) < _MIN_GAIN:
            return None
        return _trial(run, apart)

    def attempt(self, run: Propagation) -> Propagation:
        """Return the better run, as the base class does; a trial keeps the history of the run before it."""
        kept = super().attempt(run)
        if kept is not run:
            kept.rule.history[:0] = run.rule.history
            kept.evidence[:0] = run.evidence
        return kept


class ContextSites:
    """`crowdsift.engines.grid.GridSites` of workers, over sites of workers in contexts.

    The passes between votes and items are those of the sites below.

    `by_context`: the sites of an engine in which every worker in a context is a worker; `worker`, `context`: which
    worker each of those is, and where; gold, which follows, is not among them; `n_workers`, `n_gold`: how many workers
    there are, gold included, and how many of the last are gold.
    """

    def __init__(
        self,
        by_context: GridSites,
        worker: Indices,
        context: Indices,
        n_workers: int,
        types: WorkerTypes,
        n_gold: int = 0,
    ) -> None:
        self._pass_on(by_context)
        self._whole, self._context, self._shape = worker, context, types
        self._n, self._before_gold = n_workers, n_workers - n_gold
        several = np.bincount(worker, minlength=n_workers) > 1
        self._apart, self._alone = np.flatnonzero(several[worker]), np.flatnonzero(~several[worker])
        self._several, place = np.unique(worker[self._apart], return_inverse=True)
        self.types, self.side = (TypeTree(place, len(self._several), types), SideTree(worker, n_workers))
        if not types.sides:
            self.side.spread = 0.0
        self._priors: Vector | None = None  # one per context; None before the first pass

    def _pass_on(self, sites: GridSites) -> None:
        """Share everything with these sites that does not concern the types of workers."""
        self.by_context = sites
        self.n_votes, self.n_pairs, self.pairs_held = sites.n_votes, sites.n_pairs, sites.pairs_held
        self.refine, self.suspend, self.pair_sums, self.system = (
            sites.refine,
            sites.suspend,
            sites.pair_sums,
            sites.system,
        )
        self.pair_posteriors, self.set_pair_variances = sites.pair_posteriors, sites.set_pair_variances
        self.propagate, self.pair_likelihood = sites.propagate, sites.pair_likelihood
        self.vote_sites, self.set_vote_sites = sites.vote_sites, sites.set_vote_sites

    @property
    def reliability_spread(self) -> float:
        """Return κ, the relative sd of a worker's reliability between contexts."""
        return self.types.spread

    @property
    def side_spread(self) -> float:
        """Return w, the variance of a worker's side bias between contexts."""
        return self.side.spread

    def update(self, given: SitePass) -> SiteUpdate:
        """Pass over workers in contexts, then exchange messages between the contexts of each worker."""
        # κ and w are updated unless `damping` is 0. Priors of single workers, and partial updates, are handled by the
        # contexts and not passed on.
        levels, prior, _, side, damping, *_ = given
        if given.own is not None or given.workers is not None:
            raise ValueError("sites of contexts are updated together, with the common prior")
        self._levels = levels
        self.types.at(levels)
        blurred = self.types.blurred(prior)
        if self._priors is None:
            self.side.start(side)
            self._priors = np.tile(blurred, (len(self._whole), 1))
        self._priors[self._alone] = blurred
        before = self._priors[self._apart]
        found = self.by_context.update(given._replace(own=self.context_priors()))
        likelihood = likelihoods(self.by_context, levels, self._shape, self._apart)
        if self._shape.sides:
            rows = slice(len(self._whole))
            self.side.gather(found.side_tau[rows], found.side_nu[rows], side)
        self.types.gather(likelihood, levels, self.side.bonus[self._several])
        q, log_messages = self.types.posterior(prior)
        log_messages += found.log_messages - float(np.log(np.sum(before * likelihood, axis=1)).sum())
        self._priors[self._apart] = self.types.context_priors(prior)
        regular = np.zeros(self._n)
        regular[self._whole[self._alone]] = found.regular[self._alone]
        regular[self._several] = q[:, : self._n_regular()].sum(axis=1)
        counts = self.type_counts(prior)
        if damping:
            self.types.learn(prior)
            if self._shape.sides:
                self.side.learn(regular)
        return found._replace(
            counts=counts, log_messages=log_messages, regular=regular, side_tau=self.side.tau, side_nu=self.side.nu
        )

    def type_counts(self, prior: Vector) -> Vector:
        # Counts of all contexts as if each were alone, less those of workers who have several, plus the counts of these
        # workers.
        blurred = self.types.blurred(prior)
        alone = self.by_context.type_counts(blurred) - self.types.context_counts(blurred)
        return self.types.sharpened(prior, alone) + self.types.counts(prior)

    def posteriors(self, prior: Vector, rows: slice, own: WorkerPriors | None = None) -> TypePosteriors:
        # On the common levels.
        grid = mirrored(self._levels)
        begin, end, _ = rows.indices(self._n)
        masses = np.tile(prior, (max(end - begin, 0), 1))  # workers without votes
        alone = self._alone[_within(self._whole[self._alone], begin, end)]
        if len(alone):
            likelihood = likelihoods(self.by_context, self._levels, self._shape, alone)
            masses[self._whole[alone] - begin] = prior * self.types.through(likelihood)
        several = _within(self._several, begin, end)
        masses[self._several[several] - begin] = self.types.posterior(prior)[0][several]
        masses /= masses.sum(axis=1, keepdims=True)
        gold = slice(max(self._before_gold - begin, 0), None)
        masses[gold] = 0.0
        masses[gold, len(grid) - 1] = 1.0  # the highest reliability with the narrowest ties
        return TypePosteriors(np.tile(grid, (len(masses), 1)), masses)

    def known(self, points: WorkerPoints) -> ContextPoints:
        """Return the grid points of each (worker, context) pair, without gold, with worker and context."""
        # Pairs of a worker with several contexts at once are left out: there the worker is treated as in a context
        # without its votes.
        one = np.flatnonzero(self._context >= 0)
        own = WorkerPoints(*(column[one] for column in points))
        return ContextPoints(self._whole[one], self._context[one], own)

    def context_priors(self) -> WorkerPriors:
        """Return the prior of each worker in each context, given its other contexts."""
        if self._priors is None:
            raise RuntimeError("no pass yet")
        return WorkerPriors(self._priors, self.side.context_mean, self.side.context_variance)

    def context_sides(self, gold: int, mean_variance: float) -> tuple[Vector, Vector]:
        """Return mean and variance of γ in every context; the rows of gold are zero."""
        mean, variance = self.side.context_posteriors(mean_variance)
        none = np.zeros(gold)
        return np.append(mean, none), np.append(variance, none)

    def transform(self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False) -> None:
        """Rescale the sites; messages between contexts restart if the sign changes."""
        self._priors = None if flip else self._priors
        self.by_context.transform(scale=scale, flip=flip, clip=clip, grids=grids)

    def copy(self) -> ContextSites:
        twin = copy(self)
        twin._pass_on(self.by_context.copy())
        twin.types, twin.side = deepcopy(self.types), deepcopy(self.side)
        twin._priors = deepcopy(self._priors)
        return twin

    def loopy_bp(self, tolerance: float, sweeps: int, *, fresh: bool) -> PairVariances | None:
        if not isinstance(self.by_context, FusedSites):
            return None
        return self.by_context.loopy_bp(tolerance, sweeps, fresh=fresh)

    def quantiles(self, points: Vector, masses: Vector, levels: Vector, atom: Vector) -> Vector | None:
        if not isinstance(self.by_context, FusedSites):
            return None
        return self.by_context.quantiles(points, masses, levels, atom)

    def idle_threads(self) -> int:
        return self.by_context.idle_threads() if isinstance(self.by_context, FusedSites) else 1

    def summary(self, prior: Vector, levels: Vector) -> None:
        """Return None: posteriors combine several contexts, so the solver summarises them."""

    def class_masses(self, prior: Vector, zone: float) -> None:
        """Return None, as `summary`."""

    def _n_regular(self) -> int:
        return len(self._shape.widths) * (2 * len(self._levels) + 1)


def _within(values: Indices, begin: int, end: int) -> NDArray[np.intp]:
    """Return which values are in the range."""
    return np.flatnonzero((values >= begin) & (values < end))


def in_another(points: WorkerPoints, sites: ContextSites) -> WorkerPoints:
    """Return the points of workers in a context in which they have no votes."""
    # Reliabilities are spread by quantiles of N(1, κ²). Each point has one quantile, in an order that is unrelated to
    # that of the points.
    count = points.reliability.shape[1]
    at = (np.arange(count) * 0.6180339887498949 + 0.5 / count) % 1.0
    normal = np.array([NormalDist().inv_cdf(p) for p in (np.argsort(at) + 0.5) / count])
    return points._replace(
        reliability=points.reliability * (1.0 + sites.reliability_spread * normal),
        side_variance=points.side_variance + sites.side_spread * (points.side_variance > 0.0),
    )


def _informative(apart: ContextEngine, n_workers: int) -> NDArray[np.intp]:
    """Return the rows that stand for a single context, for workers with more than one such row."""
    one = apart.context >= 0
    contexts = np.bincount(apart.worker, one, n_workers)
    return np.flatnonzero(one & (contexts[apart.worker] > 1))


def _sites(run: Propagation, apart: ContextEngine) -> GridSites:
    sites = required(apart.engine.grid).sites(run.prior.types, 2.0)
    first, second = sites.pair_posteriors(run.means)[:2]
    sites.set_pair_variances(run.variances[first] + run.variances[second])
    return sites


def _gain(run: Propagation, sites: GridSites, worker: Indices, rows: NDArray[np.intp]) -> float:
    """Return by how many nats one pass raises the evidence if workers may differ between contexts."""
    # The gain from updated scores is not included, so the threshold is below that of the evidence.
    prior, side, types = run.prior, run.sides.prior, run.prior.types
    found = sites.update(SitePass(prior.levels, prior.masses, run.means, side, 1.0, True))
    known, whole = np.unique(worker[rows], return_inverse=True)
    tree = TypeTree(whole, len(known), types)
    likelihood = likelihoods(sites, prior.levels, types, rows)
    tree.gather(likelihood, prior.levels, np.zeros(len(known)))
    gain = tree.gain(prior.masses)
    if types.sides:
        regular = len(types.widths) * (2 * len(prior.levels) + 1)
        sides = SideTree(whole, len(known))
        sides.gather(found.side_tau[rows], found.side_nu[rows], side)
        gain += sides.gain(tree.posterior(prior.masses)[0][:, :regular].sum(axis=1))
    return gain


def _trial(run: Propagation, apart: ContextEngine) -> Propagation:
    """Return the run over workers in contexts, before its first pass."""
    facts, types = run.engine.facts, run.prior.types
    sites: GridSites = ContextSites(
        _sites(run, apart), apart.worker, apart.context, facts.n_workers, types, facts.n_gold
    )
    trial = Propagation.of(
        run.name,
        apart.engine,
        sites,
        run.prior,
        run.means,
        run.settings,
        run.rule.progress,
        Factorisation(apart.engine),
        variances=run.variances,
        sides=run.sides,
        item_prior=run.own_item_prior(),
    )
    trial.rule.iterate = run.rule.iterate
    return trial


def spread_kernel(points: Vector, spread: float) -> Vector:
    """Return the distribution N(β, (κβ)²) as masses on the grid, a row for every β; 0 stays 0."""
    sd = np.maximum(spread * np.abs(points), 1e-9)[:, None]
    z = (points[None, :] - points[:, None]) / sd
    masses = np.exp(-0.5 * np.minimum(z**2, 1400.0)) * np.gradient(points)
    return np.asarray(masses / masses.sum(axis=1, keepdims=True), dtype=np.float64)


def likelihoods(sites: GridSites, levels: Vector, types: WorkerTypes, workers: NDArray[np.intp]) -> Vector:
    """Return the likelihood of every type for each worker, on the common grid, at most 1."""
    # The likelihood on an adaptive grid is distributed over the nearest common levels, so its product with a prior
    # equals that on the adaptive grid. `workers` are in ascending order.
    grid, widths = mirrored(levels), len(types.widths)
    flat = np.concatenate([np.tile(np.gradient(grid), widths), np.ones(len(types.side_only))])
    result = np.empty((len(workers), len(flat)))
    ends = np.flatnonzero(np.diff(workers, prepend=-2, append=-2) != 1)
    for begin, end in pairwise(ends):  # neighbours are handled in one slice
        rows = slice(int(workers[begin]), int(workers[end - 1]) + 1)
        points, masses = sites.posteriors(flat, rows)
        regular = masses[:, : widths * len(grid)].reshape(-1, widths, len(grid))
        for s in np.flatnonzero((points != grid).any(axis=1)):
            regular[s] = _shared(levels, points[s], regular[s])
        np.divide(masses, flat, out=result[begin:end])
    result /= result.max(axis=1, keepdims=True)
    return result


def _shared(levels: Vector, points: Vector, masses: Vector) -> Vector:
    """Move masses at points to the grid of these levels; mass at 0 stays at 0."""
    # One row per tie width.
    half = len(levels)
    own = points[half + 1 :]
    up = deposit(levels, own, masses[:, half + 1 :])
    down = deposit(levels, own, masses[:, :half][:, ::-1])
    return np.concatenate([down[:, ::-1], masses[:, half : half + 1], up], axis=1)


def _summed(values: Vector, place: Indices, count: int) -> Vector:
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    result = np.zeros((count, values.shape[1]))
    result[place[order][starts]] = np.add.reduceat(values[order], starts, axis=0)
    return result


class TypeTree:
    """Types of workers who have several contexts, and of each in each of its contexts.

    After `gather`: m_g(t) = Σ_t' K(t'|t) L_g(t') of a context, K the kernel, and the log message Σ_g log m_g(t) of a
    worker, plus `bonus` for regular types. A worker of one context needs no tree: it has the prior
    `blurred`, and `sharpened` gives its counts.
    """

    def __init__(self, whole: Indices, n_workers: int, types: WorkerTypes) -> None:
        self._whole, self._n, self._types = whole, n_workers, types
        self.spread = 0.3

    def at(self, levels: Vector) -> None:
        """Compute the kernel on these levels for the current spread."""
        self._points = mirrored(levels)
        self._kernel = spread_kernel(self._points, self.spread)

    def blurred(self, prior: Vector) -> Vector:
        """Return Σ_t prior_t K(t'|t): the prior of a worker's type in a context."""
        return np.asarray(self._through(prior[None], self._kernel)[0])

    def sharpened(self, prior: Vector, counts: Vector) -> Vector:
        """Return counts of types of workers with one context, from the counts in that context."""
        share = np.maximum(counts, 0.0) / np.maximum(self.blurred(prior), _TINY)
        return np.asarray(prior * self.through(share[None])[0])

    def through(self, likelihood: Vector) -> Vector:
        """Return Σ_t' K(t'|t) L(t'), the likelihood of a worker's type by its votes in a context, a row for each."""
        return self._through(likelihood, self._kernel.T)

    def gather(self, likelihood: Vector, levels: Vector, bonus: Vector) -> None:
        """Send messages from contexts to their workers."""
        self.at(levels)
        self._likelihood, self._bonus = likelihood, bonus
        self._log, self._messages = self._logs(self._kernel)
        self._top = self._messages.max(axis=1, keepdims=True)
        self._shape = np.exp(self._messages - self._top)  # computed once for all priors

    def posterior(self, prior: Vector) -> tuple[Vector, float]:
        """Return the posterior q_s(t) of types, and the evidence Σ_s log Σ_t prior_t exp(message_st)."""
        joint = prior * self._shape
        total = joint.sum(axis=1, keepdims=True)
        return joint / total, float((np.log(total) + self._top).sum())

    def counts(self, prior: Vector) -> Vector:
        """Return the expected number of workers of each type, Σ_s q_s(t), by two products and without storing q_s."""
        return np.asarray(prior * ((1.0 / (self._shape @ prior)) @ self._shape))

    def context_counts(self, prior: Vector) -> Vector:
        """Return the expected number of workers of each type if each worker in a context were a separate worker."""
        return np.asarray(prior * ((1.0 / (self._likelihood @ prior)) @ self._likelihood))

    def context_priors(self, prior: Vector) -> Vector:
        """Return the priors in contexts: the message of the worker without the context in question."""
        log = self._messages[self._whole] - self._log
        log -= log.max(axis=1, keepdims=True)
        cavity = prior * np.exp(log, out=log)
        cavity /= cavity.sum(axis=1, keepdims=True)
        found = np.maximum(self._through(cavity, self._kernel), _FLOOR)
        found /= found.sum(axis=1, keepdims=True)
        return np.asarray(found, dtype=np.float64)

    def learn(self, prior: Vector) -> None:
        """Move log κ to the maximum of the parabola through three values of the evidence."""
        # A prior with the weight of one observation is included. (EM has the same maximum, but each of its steps
        # shrinks the error by less than 1 %.)
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
        bounds = np.log(_MIN_SPREAD), np.log(MAX_SPREAD)
        ahead = np.clip(at + np.clip(step, -_FARTHEST, _FARTHEST), *bounds)
        self.spread = float(np.exp(ahead))

    def gain(self, prior: Vector) -> float:
        """Return by how much the best of some values of κ raises the evidence over the smallest."""
        none = self._evidence(prior, _MIN_SPREAD)
        return max(0.0, *(self._evidence(prior, spread) - none for spread in _TRIED))

    def _evidence(self, prior: Vector, spread: float) -> float:
        """Return the evidence Σ_s log Σ_t prior_t exp(message_st) if κ is this spread."""
        messages = self._logs(spread_kernel(self._points, spread))[1]
        top = messages.max(axis=1, keepdims=True)
        messages -= top
        return float(np.log(np.exp(messages, out=messages) @ prior).sum() + top.sum())

    def _logs(self, kernel: Vector) -> tuple[Vector, Vector]:
        """Return log messages m_g(t) of contexts about a worker's type, and their sums by worker, for a kernel."""
        log = np.maximum(self._through(self._likelihood, kernel.T), _TINY)
        np.log(log, out=log)
        messages = _summed(log, self._whole, self._n)
        messages[:, : self._regular] += self._bonus[:, None]
        return log, messages

    @property
    def _regular(self) -> int:
        return len(self._types.widths) * len(self._points)

    def _through(self, values: Vector, matrix: Vector) -> Vector:
        """Multiply the regular types at every tie width by the matrix; side-only types stay as they are."""
        regular = values[:, : self._regular].reshape(-1, len(self._points)) @ matrix
        rest = values[:, self._regular :]
        return np.concatenate([regular.reshape(len(values), -1), rest], axis=1)


class SideTree:
    """Side biases of workers, and of each worker in each of its contexts.

    γ of a worker in a context is N(η, w), η of the worker N(g0, t²). With τ and ν the sums of its sites in the context
    and D = 1 + w·τ, its message to the worker is exp(-(τ/D)η²/2 + (ν/D)η), times exp(½(w·ν²/D - log D)). No formula
    divides by w or t², so both may be 0.

    After `gather`, `tau` and `nu` are the sums of the messages that a worker receives; `context_mean` and
    `context_variance` those of γ in a context given all other contexts.
    """

    def __init__(self, whole: Indices, n_workers: int) -> None:
        self._whole, self._n = whole, n_workers
        self.spread = _SIDE_SPREAD_START  # w
        self._tau = self._nu = np.zeros(len(whole))
        self.start(SidePrior())

    def start(self, side: SidePrior) -> None:
        """Set the priors before any votes."""
        count = len(self._whole)
        self.context_mean = np.full(count, side.mean)
        self.context_variance = np.full(count, side.variance + self.spread)
        self.bonus = self.tau = self.nu = np.zeros(self._n)
        self._share = np.ones(count)  # weight of g0 in the mean of a worker in a context
        self._side = side

    def gather(self, tau: Vector, nu: Vector, side: SidePrior) -> None:
        """Exchange messages from the sums τ and ν of the sites of every worker in a context."""
        # `bonus` is the difference between a worker's evidence and the sum of those of its contexts alone.
        whole, w, t2 = self._whole, self.spread, side.variance
        self._tau, self._nu, self._side = tau, nu, side
        D = 1.0 + w * tau
        tau, nu = tau / D, nu / D
        self.tau, self.nu = self._to_workers(tau), self._to_workers(nu)
        rest, others = np.maximum(self.tau[whole] - tau, 0.0), self.nu[whole] - nu
        without = 1.0 + t2 * rest
        centre, width = (side.mean + t2 * others) / without, t2 / without
        self.context_mean, self.context_variance, self._share = centre, width + w, 1.0 / without
        total = log_mean(self.nu, self.tau, side.mean, t2)
        self.bonus = total - self._to_workers(log_mean(nu, tau, centre, width))

    def context_posteriors(self, mean_variance: float) -> tuple[Vector, Vector]:
        """Return mean and variance of γ in every context; `mean_variance` is that of g0."""
        D = 1.0 + self.context_variance * self._tau
        mean = (self.context_mean + self.context_variance * self._nu) / D
        return mean, self.context_variance / D + mean_variance * (self._share / D) ** 2

    def learn(self, regular: Vector) -> None:
        """Maximise the evidence over w, given g0, t² and the probabilities of regular workers."""
        held = regular[self._whole]
        found = best_variance(lambda w: self.slope(held, w), self.spread)
        self.spread = within_reach(found, self.spread)

    def gain(self, regular: Vector) -> float:
        """Return the largest evidence over w less that of w = 0."""
        held = regular[self._whole]
        best = best_variance(lambda w: self.slope(held, w), self.spread)
        return self.evidence(regular, best) - self.evidence(regular, 0.0)

    def slope(self, weight: Vector, w: float) -> float:
        """Return the derivative in w of the evidence, weighted by context, with the prior of w."""
        # That of a worker in a context given η is ½[((ν - τη)/D)² - τ/D], which is averaged over the posterior N(G, V)
        # of η; √w is half normal of scale 1, as the spread of workers is.
        tau, side = self._tau, self._side
        D = 1.0 + w * tau
        to_worker, linear = self._to_workers(tau / D), self._to_workers(self._nu / D)
        own = 1.0 + side.variance * to_worker
        G, V = (side.mean + side.variance * linear) / own, side.variance / own
        left = (self._nu - tau * G[self._whole]) / D
        each = left**2 + (tau / D) ** 2 * V[self._whole] - tau / D
        return 0.5 * (float(weight @ each) - 1.0)

    def evidence(self, weight: Vector, w: float) -> float:
        """Return the evidence of the sites of all contexts, weighted by worker."""
        D = 1.0 + w * self._tau
        apart = self._to_workers(0.5 * (w * self._nu**2 / D - np.log(D)))
        tau, nu = self._to_workers(self._tau / D), self._to_workers(self._nu / D)
        total = apart + log_mean(nu, tau, self._side.mean, self._side.variance)
        return float(weight @ total) - 0.5 * w

    def _to_workers(self, values: Vector) -> Vector:
        return np.bincount(self._whole, values, self._n).astype(np.float64)


class ContextPoints(NamedTuple):
    """Posteriors of workers in contexts, by the codes of both; one row of points each."""

    worker: Indices
    context: Indices
    points: WorkerPoints

    def below(self, common: WorkerPoints) -> WorkerPoints:
        """Append these rows to the rows for contexts in which workers had no votes."""
        return WorkerPoints(*(np.concatenate(both) for both in zip(common, self.points, strict=True)))

    def rows(self, worker: NDArray[np.integer], context: NDArray[np.integer], n_workers: int) -> Indices:
        """Return the rows of `below` for a worker in a context, if it voted there."""
        count = int(max(self.context.max(initial=0), context.max(initial=0))) + 1
        known, query = self.worker * count + self.context, worker * count + context
        order = np.argsort(known)
        place = order[np.minimum(np.searchsorted(known[order], query), len(known) - 1)]
        return np.where(known[place] == query, n_workers + place, worker)
