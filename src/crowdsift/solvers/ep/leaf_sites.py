"""What sites of workers leave to sites of workers in contexts: all between votes and items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crowdsift.engines.fused import FusedSites

if TYPE_CHECKING:
    from crowdsift.engines.grid import (
        GridSites,
        Messages,
        PairPosteriors,
        PairVariances,
        SiteSystem,
        VoteSites,
        WorkerPoints,
    )
    from crowdsift.numeric import Vector

__all__ = ["LeafSites"]


class LeafSites:
    """The passes of `GridSites` that know no worker, and `FusedSites`, handed to the leaves.

    Parameters
    ----------
    leaves
        The sites of an engine in which every worker in a context is a worker.
    """

    def __init__(self, leaves: GridSites) -> None:
        self.leaves = leaves
        self.n_votes, self.n_pairs = leaves.n_votes, leaves.n_pairs
        self.pairs_held = leaves.pairs_held

    def refine(self) -> float:
        """Adaptive grids of leaves; see the protocol."""
        return self.leaves.refine()

    def pair_sums(self) -> Vector:
        """Sums of shared pairs; see the protocol."""
        return self.leaves.pair_sums()

    def system(self, shared: Vector, pair_effect: float = 0.0) -> SiteSystem:
        """What items receive; see the protocol."""
        return self.leaves.system(shared, pair_effect)

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """Differences of pairs; see the protocol."""
        return self.leaves.pair_posteriors(means)

    def set_pair_variances(
        self, variances: Vector | None = None, shared: Vector | None = None
    ) -> None:
        """Variances of pairs; see the protocol."""
        self.leaves.set_pair_variances(variances, shared)

    def propagate(
        self, precision: Vector, settled: Vector, *, fresh: bool = False, last: bool = False
    ) -> Messages:
        """A sweep of belief propagation; see the protocol."""
        return self.leaves.propagate(precision, settled, fresh=fresh, last=last)

    def suspend(self) -> None:
        """Give back memory; see the protocol."""
        self.leaves.suspend()

    def vote_sites(self) -> VoteSites:
        """The sites of votes, held by leaves; see the protocol."""
        return self.leaves.vote_sites()

    def set_vote_sites(self, sites: VoteSites, half: int) -> None:
        """Take over sites of votes, held by leaves; see the protocol."""
        self.leaves.set_vote_sites(sites, half)

    def pair_likelihood(
        self, differences: Vector, variances: Vector, points: WorkerPoints
    ) -> float:
        """The likelihood of votes given points of leaves; see the protocol."""
        return self.leaves.pair_likelihood(differences, variances, points)

    def loopy_bp(self, tolerance: float, sweeps: int, *, fresh: bool) -> PairVariances | None:
        """Belief propagation to its end, where leaves offer it; see `FusedSites`."""
        if not isinstance(self.leaves, FusedSites):
            return None
        return self.leaves.loopy_bp(tolerance, sweeps, fresh=fresh)

    def quantiles(
        self, points: Vector, masses: Vector, levels: Vector, atom: Vector
    ) -> Vector | None:
        """Quantiles of posteriors, where leaves offer them; see `FusedSites`."""
        if not isinstance(self.leaves, FusedSites):
            return None
        return self.leaves.quantiles(points, masses, levels, atom)

    def idle_threads(self) -> int:
        """Threads of the host without work; see `FusedSites`."""
        return self.leaves.idle_threads() if isinstance(self.leaves, FusedSites) else 1
