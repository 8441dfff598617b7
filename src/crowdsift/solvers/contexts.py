"""Workers who are not quite the same in every context, tried by evidence.

The sites are those of an engine in which a worker in a context ("leaf") is a worker. Between passes
leaves of one worker exchange messages: each has for a prior what the others say of it.
"""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.grid import (
    NO_HABIT,
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
from crowdsift.solvers.context_points import ContextPoints
from crowdsift.solvers.context_sides import SideTree
from crowdsift.solvers.context_types import TypeTree, likelihoods
from crowdsift.solvers.convergence import CLEAR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.grid import GridSites
    from crowdsift.numeric import Vector
    from crowdsift.solvers.ep import Propagation

__all__ = ["MOST_NUMBERS", "ContextSites", "in_another", "with_contexts"]

MOST_NUMBERS = 20_000_000  # types of workers in contexts, for which there is room


class ContextSites:
    """`crowdsift.engines.grid.RunSites` of workers, over sites of workers in contexts.

    Parameters
    ----------
    leaves
        The sites of an engine in which every worker in a context is a worker.
    worker, context
        Which worker each of those is, and where; known workers, who follow, are not among them.
    n_workers, known
        How many workers there are, known ones included, and how many of the last are known.
    """

    def __init__(
        self,
        leaves: GridSites,
        worker: NDArray[np.int64],
        context: NDArray[np.int64],
        n_workers: int,
        habits: Habits,
        known: int = 0,
    ) -> None:
        self.leaves, self._whole, self._context, self._habits = leaves, worker, context, habits
        self._crowd = n_workers - known
        self.types, self.side = TypeTree(worker, n_workers, habits), SideTree(worker, n_workers)
        if not habits.sides:
            self.side.spread = 0.0
        self._priors: Vector | None = None  # of leaves; None before the first pass

    @property
    def reliability_spread(self) -> float:
        """κ: relative sd of a worker's reliability from context to context."""
        return self.types.spread

    @property
    def side_spread(self) -> float:
        """w: variance of a worker's side habit from context to context."""
        return self.side.spread

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
        """A pass over leaves, then messages among them; a step of EM unless `damping` is 0."""
        self._levels = levels
        if self._priors is None:
            self.side.start(side)
            self._priors = np.tile(prior, (len(self._whole), 1))
        before = self._priors
        self.leaves.set_worker_priors(self._leaf_priors())
        told = self.leaves.update(levels, prior, means, damping=damping, clip=clip, side=side)
        self.leaves.set_worker_priors(None)
        leaf = likelihoods(self.leaves, levels, self._habits, len(self._whole))
        if self._habits.sides:
            mean, variance = (x[: len(self._whole)] for x in self.leaves.sides())
            self.side.gather(mean, variance, side)
        self.types.gather(leaf, levels, self.side.bonus)
        q, log_messages = self.types.posterior(prior)
        log_messages += told.log_messages - float(np.log(np.sum(before * leaf, axis=1)).sum())
        self._priors = self.types.leaf_priors(prior)
        counts, regular = self._counted(q)
        if damping:
            self.types.learn(prior)
            if self._habits.sides:
                self.side.learn(regular)
        held, G, V = regular * self.types.voted, self.side.mean, self.side.variance
        sums = SideSums(0.0, 0.0, 0.0)
        if self._habits.sides:
            sums = SideSums(float(held.sum()), float(held @ G), float(held @ (G**2 + V)))
        return told._replace(counts=counts, log_messages=log_messages, sides=sums)

    def type_counts(self, prior: Vector) -> Vector:
        """Counts of types; see the protocol."""
        return self._counted(self.types.posterior(prior)[0])[0]

    def posteriors(self, prior: Vector, begin: int, end: int) -> TypePosteriors:
        """Posterior over types of workers, on the common levels; see the protocol."""
        points = np.tile(mirrored(self._levels), (end - begin, 1))
        masses = self.types.posterior(prior)[0]
        masses[self._crowd :] = 0.0
        masses[self._crowd :, points.shape[1] - 1] = 1.0  # most reliable, of the least width
        return TypePosteriors(points, masses[begin:end])

    def sides(self) -> tuple[Vector, Vector]:
        """η of every worker; see the protocol."""
        return self.side.mean.copy(), self.side.variance.copy()

    def known(self, points: WorkerPoints) -> ContextPoints:
        """Points of the leaves, known workers not among them, with whose they are."""
        own = WorkerPoints(*(column[: len(self._whole)] for column in points))
        return ContextPoints(self._whole, self._context, own)

    def in_contexts(self) -> GridSites:
        """The leaves, with the priors that their workers give them."""
        self.leaves.set_worker_priors(self._leaf_priors())
        return self.leaves

    def refine(self) -> int:
        """Own levels of leaves; see the protocol."""
        return self.leaves.refine()

    def reset(self, variance: float) -> None:
        """Sites 0; see the protocol."""
        self._priors = None
        self.leaves.reset(variance)

    def suspend(self) -> None:
        """Less memory until `refresh`; see the protocol."""
        self.leaves.suspend()

    def flip(self) -> Vector:
        """Scores of the other sign; see the protocol."""
        self._priors = None
        return self.leaves.flip()

    def copy(self) -> ContextSites:
        """The same sites once more; see the protocol."""
        twin = copy(self)
        twin.leaves = self.leaves.copy()
        twin.types, twin.side = deepcopy(self.types), deepcopy(self.side)
        return twin

    @property
    def n_votes(self) -> int:
        """Votes with a site; see the protocol."""
        return self.leaves.n_votes

    def vote_sites(self) -> VoteSites:
        """Votes and sites, of leaves; see the protocol."""
        return self.leaves.vote_sites()

    @property
    def n_pairs(self) -> int:
        """Pairs that are compared; see the protocol."""
        return self.leaves.n_pairs

    def set_pair_variances(self, variances: Vector) -> None:
        """Variances of pairs; see the protocol."""
        self.leaves.set_pair_variances(variances)

    def set_pair_effect(self, variance: float) -> Vector:
        """A common effect of votes on a pair; see the protocol."""
        return self.leaves.set_pair_effect(variance)

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """Differences of pairs; see the protocol."""
        return self.leaves.pair_posteriors(means)

    def pair_variances(self, *, exact: bool) -> PairVariances:
        """Variances of compared pairs; see the protocol."""
        return self.leaves.pair_variances(exact=exact)

    def refresh(self) -> Vector:
        """The Laplacian of n·A; see the protocol."""
        return self.leaves.refresh()

    def drop_negative(self) -> Vector:
        """A at least 0; see the protocol."""
        return self.leaves.drop_negative()

    def rescale(self, factor: float) -> None:
        """Sites in other units; see the protocol."""
        self.leaves.rescale(factor)

    def hold_scale(self, factor: float, rhs: Vector) -> Vector:
        """Sites alone in other units; see the protocol."""
        return self.leaves.hold_scale(factor, rhs)

    def _leaf_priors(self) -> WorkerPriors:
        if self._priors is None:
            raise RuntimeError("no pass yet")
        return WorkerPriors(self._priors, self.side.leaf_mean, self.side.leaf_variance)

    def _counted(self, q: Vector) -> tuple[Vector, Vector]:
        """Σ_s q_s(t) over workers with votes, and the probability of each to be regular."""
        regular = len(self._habits.widths) * (2 * len(self._levels) + 1)
        return q[self.types.voted].sum(axis=0), q[:, :regular].sum(axis=1)


def in_another(points: WorkerPoints, told: ContextSites) -> WorkerPoints:
    """Points of workers in a context in which they were not seen.

    Reliabilities are spread by quantiles of N(1, κ²), each a point's own, in an order that has
    nothing to do with that of the points.
    """
    count = points.reliability.shape[1]
    at = (np.arange(count) * 0.6180339887498949 + 0.5 / count) % 1.0
    normal = np.array([NormalDist().inv_cdf(p) for p in (np.argsort(at) + 0.5) / count])
    return points._replace(
        reliability=points.reliability * (1.0 + told.reliability_spread * normal),
        side_variance=points.side_variance + told.side_spread * (points.side_variance > 0.0),
    )


def with_contexts(run: Propagation) -> Propagation:
    """The run with workers who differ by context where that has clearly more evidence.

    It goes on from the scores and the crowd of the run, over an engine of its own.
    """
    apart = run.engine.by_context()
    if apart is None:
        return run
    engine, worker, context = apart
    habits, n_workers = run.prior.habits, run.engine.n_workers
    several = len(worker) > len(np.unique(worker))
    if not several or len(worker) * len(run.prior.masses) > MOST_NUMBERS:
        return run
    sites = ContextSites(
        engine.grid_sites(habits), worker, context, n_workers, habits, run.engine.known_workers
    )
    sites.reset(2.0)
    first, second = sites.pair_posteriors(run.means)[:2]
    sites.set_pair_variances(run.variances[first] + run.variances[second])
    rule = replace(run.rule, history=[], converged=False)
    trial = replace(run, engine=engine, sites=sites, rule=rule, evidence=[], done=False, clip=True,
                    damping=1.0, last_step=None, swings=0, unclipped=0, scale_steps=0,
                    exact=False, indefinite=False)  # fmt: skip
    while not trial.done:
        trial.iterate()
    trial.finish()
    run.engine.passes += engine.passes
    upside_down = run.engine.known_workers and trial.known_margin < 0.0
    gain = trial.evidence[-1] - run.evidence[-1]
    if trial.settled and not upside_down and gain > CLEAR:
        trial.rule.history[:0] = run.rule.history
        trial.evidence[:0] = run.evidence
        return trial
    run.resume()
    return run
