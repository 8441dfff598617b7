"""The grid passes over the compiled core."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from crowdsift import _core
from crowdsift.engines.grid import (
    NO_HABIT,
    PLAIN,
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
)
from crowdsift.numeric.dense import inverse_root

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines import Engine
    from crowdsift.numeric import Vector

__all__ = ["CpuGridSites"]

# Belief propagation: messages settled to this times the diagonal, in at most so many sweeps.
_BELIEF_TOLERANCE, _BELIEF_SWEEPS = 1e-5, 30
# Multiplications of a sparse factorisation that take milliseconds, and a tenth of a second.
_CHEAP_WORK, _MOST_WORK = 4e6, 5e7
# Up to this size a dense factorisation takes a tenth of a second.
_DENSE_ITEMS = 1_200


class CpuGridSites:
    """`crowdsift.engines.grid.GridSites` in single precision on the core."""

    _sites: _core.GridSites | _core.HabitSites

    def __init__(self, engine: Engine, core: _core.Core, habits: Habits = PLAIN) -> None:
        self._engine, self._core, self._habits = engine, core, habits
        known = engine.known_workers
        if habits.sides or habits.ties:
            widths, sides, pure_widths, sided = habits
            self._sites = core.habit_sites(
                widths.tolist(), sides.tolist(), pure_widths.tolist(), sided, known
            )
        else:
            self._sites = core.grid_sites(known)

    def reset(self, variance: float) -> None:
        """Sites 0; see the protocol."""
        self._sites.reset(variance)

    def suspend(self) -> None:
        """Less memory until `refresh`; see the protocol."""
        self._sites.suspend()

    def set_pair_variances(self, variances: Vector) -> None:
        """Variances of pairs; see the protocol."""
        self._sites.set_pair_variances(variances.astype(np.float32))

    @property
    def n_votes(self) -> int:
        """Votes with a site; see the protocol."""
        return self._sites.n_votes()

    @property
    def n_pairs(self) -> int:
        """Pairs that are compared; see the protocol."""
        return self._sites.n_pairs()

    def vote_sites(self) -> VoteSites:
        """Votes and sites; see the protocol."""
        told = self._sites.sites()
        none = np.zeros(len(told[0]), np.float32)
        side = (none, none)
        if self._habits.sides and isinstance(self._sites, _core.HabitSites):
            side = self._sites.side_sites()
        return VoteSites(*told, *side, *self._sites.own_levels())

    def set_vote_sites(self, given: VoteSites, half: int) -> None:
        """Sites and own levels; see the protocol."""
        self._sites.set_sites(given.precision, given.pull)
        if self._habits.sides and isinstance(self._sites, _core.HabitSites):
            self._sites.set_side_sites(given.side_precision, given.side_pull)
        for s in np.flatnonzero(np.isfinite(given.low)):
            self._sites.set_own_levels(int(s), np.linspace(given.low[s], given.high[s], half))

    def flip(self) -> Vector:
        """Scores of the other sign; see the protocol."""
        return self._sites.flip()

    def copy(self) -> CpuGridSites:
        """The same sites once more; see the protocol."""
        twin = copy(self)
        twin._sites = self._sites.copy()
        return twin

    def set_pair_effect(self, variance: float) -> Vector:
        """A common effect of votes on a pair; see the protocol."""
        return self._sites.set_pair_effect(variance)

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """Differences of pairs; see the protocol."""
        low, high, _ = self._core.weighted_pairs()
        return PairPosteriors(low, high, *self._sites.pair_posteriors(means))

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
        """Messages and sites in one pass; see the protocol."""
        self._engine.passes += 1
        if isinstance(self._sites, _core.HabitSites):
            told = self._sites.update(levels, prior, means, damping, clip, side.mean, side.variance)
            return SiteUpdate(*told[:6], SideSums(*told[6:]))
        plain = self._sites.update(levels, prior, means, damping, clip)
        return SiteUpdate(*plain, SideSums(0.0, 0.0, 0.0))

    def update_some(self, workers: NDArray[np.bool_], levels: Vector, prior: Vector, means: Vector,
                    *, clip: bool, side: SidePrior = NO_HABIT) -> Vector:  # fmt: skip
        """A pass over some workers; see the protocol."""
        passes, share = self._engine.passes, self._sites.set_moving(workers.astype(np.uint8))
        rhs = self.update(levels, prior, means, damping=1.0, clip=clip, side=side).rhs
        self._sites.set_moving(np.empty(0, np.uint8))
        self._engine.passes = passes + share
        return rhs

    def sides(self) -> tuple[Vector, Vector]:
        """Side habits; see the protocol."""
        if isinstance(self._sites, _core.HabitSites):
            return self._sites.sides()
        return np.zeros(self._engine.n_workers), np.ones(self._engine.n_workers)

    def set_worker_priors(self, priors: WorkerPriors | None) -> None:
        """Priors of workers' own; see the protocol."""
        none = np.empty(0)
        masses, mean, variance = priors or (np.empty((0, 0)), none, none)
        self._sites.set_worker_priors(masses)
        if self._habits.sides:
            self._sites.set_worker_sides(mean, variance)

    def type_counts(self, prior: Vector) -> Vector:
        """Counts of types; see the protocol."""
        return self._sites.type_counts(prior)

    def posteriors(self, prior: Vector, begin: int, end: int) -> TypePosteriors:
        """Posterior over types; see the protocol."""
        return TypePosteriors(*self._sites.posteriors(prior, begin, end))

    def refine(self) -> int:
        """Levels of their own for workers with narrow likelihoods; see the protocol."""
        return self._sites.refine()

    def pair_variances(self, *, exact: bool) -> PairVariances:
        """By a sparse factorisation, a dense one, or belief propagation.

        `exact` asks for a factorisation where it takes a fraction of a second; otherwise only
        one that is as fast as belief propagation is used.
        """
        if self._sites.is_sparse(_MOST_WORK if exact else _CHEAP_WORK):
            return PairVariances(*self._sites.factorise())
        if not exact or self._engine.n_items > _DENSE_ITEMS:
            return PairVariances(*self._sites.believe(_BELIEF_TOLERANCE, _BELIEF_SWEEPS))
        k = self._engine.n_items
        low, high, weight = self._core.weighted_pairs()
        precision = np.zeros((k, k))
        precision[low, high] = precision[high, low] = -weight
        precision[np.diag_indices(k)] = self._core.diagonal() + 1.0
        try:
            root, log_determinant = inverse_root(precision)
        except np.linalg.LinAlgError:
            return PairVariances(np.ones(k), 0.0, False)
        S = root.T @ root
        items = np.ascontiguousarray(np.diag(S))
        pairs = items[low] + items[high] - 2.0 * S[low, high]
        self._sites.set_pair_variances(pairs.astype(np.float32))
        return PairVariances(items, log_determinant, True)

    def refresh(self) -> Vector:
        """The Laplacian of n·A, the signed sums of n·h; see the protocol."""
        return self._sites.refresh()

    def drop_negative(self) -> Vector:
        """A at least 0; see the protocol."""
        return self._sites.drop_negative()

    def rescale(self, factor: float) -> None:
        """Sites in other units; see the protocol."""
        self._sites.rescale(factor)

    def hold_scale(self, factor: float, rhs: Vector) -> Vector:
        """Sites alone in other units; see the protocol."""
        return self._sites.hold_scale(factor, rhs)

    def correlate(self, x: Vector) -> Vector:
        """(XᵀX - L(e²)) x; see the protocol."""
        return self._sites.correlate(self._engine.sides_known, x)

    def correlation_degrees(self) -> Vector:
        """The diagonal of L(n e²); see the protocol."""
        return self._sites.correlation_degrees(self._engine.sides_known)

    def pair_likelihood(
        self, differences: Vector, variances: Vector, points: WorkerPoints
    ) -> float:
        """Predictive log-likelihood by pair; see the protocol."""
        return self._sites.pair_likelihood(differences, variances, *points)
