"""Workers who are not quite the same in every context, tried by evidence.

The sites are those of an engine in which a worker in a context ("leaf") is a worker. Between passes
leaves of one worker exchange messages: each has for a prior the message of the others.
"""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.base import required
from crowdsift.engines.grid import (
    SidePrior,
    SiteUpdate,
    TypePosteriors,
    WorkerPoints,
    WorkerPriors,
    mirrored,
)
from crowdsift.solvers.convergence import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.context_points import ContextPoints
from crowdsift.solvers.ep.context_sides import SideTree
from crowdsift.solvers.ep.context_types import TypeTree, likelihoods
from crowdsift.solvers.ep.leaf_sites import LeafSites
from crowdsift.solvers.ep.variances import Factorisation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.base import ContextEngine
    from crowdsift.engines.grid import GridSites, WorkerTypes
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep.state import Propagation

__all__ = ["MOST_NUMBERS", "ContextSites", "in_another", "with_contexts"]

MOST_NUMBERS = 20_000_000  # types of workers in contexts, for which there is room
_MIN_VOTES = 3.0  # of a worker in a context: with fewer there is nothing to learn from
_MIN_GAIN = 0.25  # nats of the screening pass; where 3 are found in the end it is .3 and more
# From so many passes on a trial ends where so many times its last rise would not lift it enough.
_PATIENCE, _LOOKAHEAD = 6, 10.0


class ContextSites(LeafSites):
    """`crowdsift.engines.grid.GridSites` of workers, over sites of workers in contexts.

    What is between votes and items is left to the leaves.

    Parameters
    ----------
    leaves
        The sites of an engine in which every worker in a context is a worker.
    worker, context
        Which worker each of those is, and where; gold, which follows, is not among them.
    n_workers, n_gold
        How many workers there are, gold included, and how many of the last are gold.
    """

    def __init__(
        self,
        leaves: GridSites,
        worker: NDArray[np.int64],
        context: NDArray[np.int64],
        n_workers: int,
        types: WorkerTypes,
        n_gold: int = 0,
    ) -> None:
        super().__init__(leaves)
        self._whole, self._context, self._shape = worker, context, types
        self._n, self._before_gold = n_workers, n_workers - n_gold
        several = np.bincount(worker, minlength=n_workers) > 1
        self._apart, self._alone = np.flatnonzero(several[worker]), np.flatnonzero(~several[worker])
        self._several, place = np.unique(worker[self._apart], return_inverse=True)
        self.types, self.side = (
            TypeTree(place, len(self._several), types),
            SideTree(worker, n_workers),
        )
        if not types.sides:
            self.side.spread = 0.0
        self._priors: Vector | None = None  # of leaves; None before the first pass

    @property
    def reliability_spread(self) -> float:
        """κ: relative sd of a worker's reliability from context to context."""
        return self.types.spread

    @property
    def side_spread(self) -> float:
        """w: variance of a worker's side bias from context to context."""
        return self.side.spread

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
        """A pass over leaves, then messages among them; a step of EM unless `damping` is 0.

        Priors of workers' own, and updates of some alone, are what leaves have here.
        """
        if own is not None or workers is not None:
            raise ValueError("sites of contexts are updated together, with the common prior")
        self._levels = levels
        self.types.at(levels)
        blurred = self.types.blurred(prior)
        if self._priors is None:
            self.side.start(side)
            self._priors = np.tile(blurred, (len(self._whole), 1))
        self._priors[self._alone] = blurred
        before = self._priors[self._apart]
        found = self.leaves.update(
            levels, prior, means, damping=damping, clip=clip, side=side, own=self.leaf_priors()
        )
        leaf = likelihoods(self.leaves, levels, self._shape, self._apart)
        if self._shape.sides:
            leaves = slice(len(self._whole))
            self.side.gather(found.side_tau[leaves], found.side_nu[leaves], side)
        self.types.gather(leaf, levels, self.side.bonus[self._several])
        q, log_messages = self.types.posterior(prior)
        log_messages += found.log_messages - float(np.log(np.sum(before * leaf, axis=1)).sum())
        self._priors[self._apart] = self.types.leaf_priors(prior)
        regular = np.zeros(self._n)
        regular[self._whole[self._alone]] = found.regular[self._alone]
        regular[self._several] = q[:, : self._n_regular()].sum(axis=1)
        counts = self.type_counts(prior)
        if damping:
            self.types.learn(prior)
            if self._shape.sides:
                self.side.learn(regular)
        return found._replace(
            counts=counts,
            log_messages=log_messages,
            regular=regular,
            side_tau=self.side.tau,
            side_nu=self.side.nu,
        )

    def type_counts(self, prior: Vector) -> Vector:
        """Counts of types; see the protocol.

        Of all leaves as if alone, less those that are not, and of workers of several leaves.
        """
        blurred = self.types.blurred(prior)
        alone = self.leaves.type_counts(blurred) - self.types.leaf_counts(blurred)
        return self.types.sharpened(prior, alone) + self.types.counts(prior)

    def posteriors(
        self, prior: Vector, rows: slice, own: WorkerPriors | None = None
    ) -> TypePosteriors:
        """Posterior over types of workers, on the common levels; see the protocol."""
        grid = mirrored(self._levels)
        begin, end, _ = rows.indices(self._n)
        masses = np.tile(prior, (max(end - begin, 0), 1))  # of those without votes
        alone = self._alone[_within(self._whole[self._alone], begin, end)]
        if len(alone):
            leaf = likelihoods(self.leaves, self._levels, self._shape, alone)
            masses[self._whole[alone] - begin] = prior * self.types.through(leaf)
        several = _within(self._several, begin, end)
        masses[self._several[several] - begin] = self.types.posterior(prior)[0][several]
        masses /= masses.sum(axis=1, keepdims=True)
        gold = slice(max(self._before_gold - begin, 0), None)
        masses[gold] = 0.0
        masses[gold, len(grid) - 1] = 1.0  # most reliable, of the least width
        return TypePosteriors(np.tile(grid, (len(masses), 1)), masses)

    def known(self, points: WorkerPoints) -> ContextPoints:
        """Points of the leaves, gold not among them, with whose they are and where.

        Not of those that are several contexts: there a worker is as where it was not seen.
        """
        one = np.flatnonzero(self._context >= 0)
        own = WorkerPoints(*(column[one] for column in points))
        return ContextPoints(self._whole[one], self._context[one], own)

    def leaf_priors(self) -> WorkerPriors:
        """The priors that workers give to their leaves."""
        if self._priors is None:
            raise RuntimeError("no pass yet")
        return WorkerPriors(self._priors, self.side.leaf_mean, self.side.leaf_variance)

    def leaf_sides(self, gold: int, mean_variance: float) -> tuple[Vector, Vector]:
        """Mean and variance of γ of every leaf, and of so many rows of gold."""
        mean, variance = self.side.leaf_posteriors(mean_variance)
        none = np.zeros(gold)
        return np.append(mean, none), np.append(variance, none)

    def transform(
        self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False
    ) -> None:
        """Sites in other units; messages among leaves begin anew where the sign changes."""
        self._priors = None if flip else self._priors
        self.leaves.transform(scale=scale, flip=flip, clip=clip, grids=grids)

    def copy(self) -> ContextSites:
        """The same sites once more; see the protocol."""
        twin = copy(self)
        twin.leaves = self.leaves.copy()
        twin.types, twin.side = deepcopy(self.types), deepcopy(self.side)
        twin._priors = deepcopy(self._priors)
        return twin

    def _n_regular(self) -> int:
        return len(self._shape.widths) * (2 * len(self._levels) + 1)


def _within(values: NDArray[np.int64], begin: int, end: int) -> NDArray[np.intp]:
    """Which are in the range."""
    return np.flatnonzero((values >= begin) & (values < end))


def in_another(points: WorkerPoints, sites: ContextSites) -> WorkerPoints:
    """Points of workers in a context in which they were not seen.

    Reliabilities are spread by quantiles of N(1, κ²), each a point's own, in an order that has
    nothing to do with that of the points.
    """
    count = points.reliability.shape[1]
    at = (np.arange(count) * 0.6180339887498949 + 0.5 / count) % 1.0
    normal = np.array([NormalDist().inv_cdf(p) for p in (np.argsort(at) + 0.5) / count])
    return points._replace(
        reliability=points.reliability * (1.0 + sites.reliability_spread * normal),
        side_variance=points.side_variance + sites.side_spread * (points.side_variance > 0.0),
    )


def with_contexts(run: Propagation) -> Propagation:
    """The run with workers who differ by context where that has clearly more evidence.

    Not tried where workers have a vote or two in a context, nor where one pass over workers in
    contexts finds nothing in favour; given up where the evidence is still below that of the run
    and no longer rises by enough. It goes on from the scores and the worker types of the run, over
    an engine of its own.
    """
    apart = run.engine.by_context(_MIN_VOTES)
    if apart is None or len(apart.worker) * len(run.prior.masses) > MOST_NUMBERS:
        return run
    rows = _informative(apart, run.engine.facts.n_workers)
    if not len(rows):
        return run
    leaves = _leaves(run, apart)
    if _gain(run, leaves, apart.worker, rows) < _MIN_GAIN:
        return run
    trial = _trial(run, apart)
    wanted = run.evidence[-1] + MIN_LOG_BAYES_FACTOR
    while not trial.done:
        trial.iterate()
        if len(trial.evidence) >= _PATIENCE:
            rise = max(trial.evidence[-1] - trial.evidence[-2], 0.0)
            if trial.evidence[-1] + _LOOKAHEAD * rise < wanted:
                return run
    trial.finish()
    upside_down = run.engine.facts.n_gold and trial.gold_margin < 0.0
    if trial.settled and not upside_down and trial.evidence[-1] > wanted:
        trial.rule.history[:0] = run.rule.history
        trial.evidence[:0] = run.evidence
        return trial
    return run


def _informative(apart: ContextEngine, n_workers: int) -> NDArray[np.intp]:
    """Leaves that are one context, of workers who have more than one such leaf."""
    one = apart.context >= 0
    leaves = np.bincount(apart.worker, one, n_workers)
    return np.flatnonzero(one & (leaves[apart.worker] > 1))


def _leaves(run: Propagation, apart: ContextEngine) -> GridSites:
    """New sites of workers in contexts, with the variances of the run."""
    sites = required(apart.engine.grid).sites(run.prior.types, 2.0)
    first, second = sites.pair_posteriors(run.means)[:2]
    sites.set_pair_variances(run.variances[first] + run.variances[second])
    return sites


def _gain(
    run: Propagation, leaves: GridSites, worker: NDArray[np.int64], rows: NDArray[np.intp]
) -> float:
    """Nats by which one pass, at the scores of the run, is for workers who differ by context.

    What re-fitted scores would add is not in it, hence a bar below that of the evidence.
    """
    prior, side, types = run.prior, run.sides.prior, run.prior.types
    found = leaves.update(prior.levels, prior.masses, run.means, damping=1.0, clip=True, side=side)
    known, whole = np.unique(worker[rows], return_inverse=True)
    tree = TypeTree(whole, len(known), types)
    leaf = likelihoods(leaves, prior.levels, types, rows)
    tree.gather(leaf, prior.levels, np.zeros(len(known)))
    gain = tree.gain(prior.masses)
    if types.sides:
        regular = len(types.widths) * (2 * len(prior.levels) + 1)
        sides = SideTree(whole, len(known))
        sides.gather(found.side_tau[rows], found.side_nu[rows], side)
        gain += sides.gain(tree.posterior(prior.masses)[0][:, :regular].sum(axis=1))
    return gain


def _trial(run: Propagation, apart: ContextEngine) -> Propagation:
    """The state of the run over workers in contexts, before its first pass."""
    types, facts, leaves = run.prior.types, run.engine.facts, _leaves(run, apart)
    who = apart.worker, apart.context, facts.n_workers
    sites: GridSites = ContextSites(leaves, *who, types, facts.n_gold)
    rule = replace(run.rule, history=[], converged=False)
    return replace(run, engine=apart.engine, sites=sites, system=sites.system(sites.pair_sums()),
                   factorisation=Factorisation(apart.engine), messages=None, rule=rule,
                   evidence=[], done=False, clip=True, damping=1.0, last_step=None, swings=0,
                   unclipped=0, scale_steps=0, exact=False, indefinite=False)  # fmt: skip
