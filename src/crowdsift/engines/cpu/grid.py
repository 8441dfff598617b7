"""Expectation propagation over a grid of worker types on the compiled core, in single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.engines.cpu.factoriser import Factorisers
from crowdsift.engines.cpu.operators import CpuLaplacian, CpuProducts, vector
from crowdsift.engines.fused import TypeMarginals
from crowdsift.engines.grid import (
    Messages,
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

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift import _core
    from crowdsift.engines.cpu.operators import CpuVotes
    from crowdsift.engines.grid import Factoriser
    from crowdsift.numeric import Vector

__all__ = ["CpuGrid"]

_Priors = tuple["Vector", "Vector", "Vector"] | None


class CpuGrid:
    """Expectation propagation."""

    def __init__(self, votes: CpuVotes) -> None:
        self._votes, self._factorisers = votes, Factorisers()

    def sites(self, types: WorkerTypes, variance: float) -> CpuSites:
        """New sites; see the protocol."""
        inner = self._votes.core.sites(
            types.widths.tolist(),
            types.side_only.tolist(),
            types.side_only_widths.tolist(),
            types.sides,
            self._votes.facts.n_gold,
            variance,
        )
        return CpuSites(self._votes, inner)

    def correlations(self) -> CpuProducts:
        """Correlations of votes; see the protocol."""
        core, centred = self._votes.core, self._votes.facts.sides_known
        return CpuProducts(
            self._votes,
            lambda v: core.correlate(centred, v),
            lambda: core.correlation_degrees(centred),
        )

    def factoriser(
        self, low: NDArray[np.uint32], high: NDArray[np.uint32], n_items: int, most: float
    ) -> Factoriser | None:
        """Exact variances where they take a fraction of a second; see the protocol."""
        return self._factorisers.find(low, high, n_items, most)


class CpuSites:
    """The sites of one run, kept in the core."""

    def __init__(self, votes: CpuVotes, inner: _core.GridSites) -> None:
        self._votes, self._inner = votes, inner
        self.n_votes: float = inner.n_votes
        self.n_pairs: float = inner.n_pairs
        self.pairs_held: float = inner.pairs_held

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
        """Messages and sites in one pass; see the protocol."""
        marked = None if workers is None else np.ascontiguousarray(workers, np.uint8)
        found = self._inner.update(
            vector(levels), vector(prior), vector(means), damping, clip, side.mean, side.variance,
            _priors(own), marked,
        )  # fmt: skip
        self._votes.passes += 1.0 if marked is None else self._votes.share(marked)
        return SiteUpdate(*found)

    def type_counts(self, prior: Vector) -> Vector:
        """Counts of types; see the protocol."""
        return self._inner.type_counts(vector(prior))

    def posteriors(
        self, prior: Vector, rows: slice, own: WorkerPriors | None = None
    ) -> TypePosteriors:
        """Posterior over types; see the protocol."""
        begin, end, _ = rows.indices(self._votes.facts.n_workers)
        found = self._inner.posteriors(vector(prior), begin, max(begin, end), _priors(own))
        return TypePosteriors(*found)

    def marginals(
        self, prior: Vector, rows: slice, chosen: int, own: WorkerPriors | None = None
    ) -> TypeMarginals:
        """Marginals of posteriors over types; see `crowdsift.engines.fused`."""
        begin, end, _ = rows.indices(self._votes.facts.n_workers)
        found = self._inner.marginals(vector(prior), begin, max(begin, end), chosen, _priors(own))
        return TypeMarginals(*found)

    def quantiles(self, points: Vector, masses: Vector, levels: Vector, atom: Vector) -> Vector:
        """Quantiles by worker; see `crowdsift.engines.fused`."""
        return self._inner.quantiles(vector(points), vector(masses), vector(levels), vector(atom))

    def refine(self) -> int:
        """Adaptive grids for workers with narrow likelihoods; see the protocol."""
        return self._inner.refine()

    def pair_sums(self) -> Vector:
        """Sums of shared pairs; see the protocol."""
        return self._inner.pair_sums()

    def system(self, shared: Vector, pair_effect: float = 0.0) -> SiteSystem:
        """The Laplacian and the right-hand side; see the protocol."""
        laplacian, rhs, log_pairs = self._inner.system(vector(shared), pair_effect)
        return SiteSystem(CpuLaplacian(laplacian), rhs, log_pairs)

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """Differences of pairs; see the protocol."""
        return PairPosteriors(*self._inner.pair_posteriors(vector(means)))

    def set_pair_variances(
        self, variances: Vector | None = None, shared: Vector | None = None
    ) -> None:
        """Variances of pairs; see the protocol."""
        self._inner.set_pair_variances(
            None if variances is None else vector(variances),
            None if shared is None else vector(shared),
        )

    def propagate(
        self, precision: Vector, settled: Vector, *, fresh: bool = False, last: bool = False
    ) -> Messages:
        """A sweep of belief propagation; see the protocol."""
        found = self._inner.propagate(vector(precision), vector(settled), fresh, last)
        return Messages(*found)

    def transform(
        self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False
    ) -> None:
        """Sites in other units; see the protocol."""
        self._inner.transform(scale, flip, clip, grids)

    def copy(self) -> CpuSites:
        """The same sites once more; see the protocol."""
        return CpuSites(self._votes, self._inner.copy())

    def suspend(self) -> None:
        """Less memory; see the protocol."""
        self._inner.suspend()

    def vote_sites(self) -> VoteSites:
        """Votes and sites; see the protocol."""
        return VoteSites(*self._inner.vote_sites())

    def set_vote_sites(self, sites: VoteSites, half: int) -> None:
        """Sites and adaptive grids; see the protocol."""
        tau, nu, side_tau, side_nu = (
            np.ascontiguousarray(part, np.float32)
            for part in (sites.tau, sites.nu, sites.side_tau, sites.side_nu)
        )
        low, high = vector(sites.low), vector(sites.high)
        self._inner.set_vote_sites(tau, nu, side_tau, side_nu, low, high, half)

    def pair_likelihood(
        self, differences: Vector, variances: Vector, points: WorkerPoints
    ) -> float:
        """Predictive log-likelihood by pair; see the protocol."""
        reliability, width, side, side_variance = (vector(column) for column in points)
        return self._inner.pair_likelihood(
            vector(differences), vector(variances), reliability, width, side, side_variance
        )


def _priors(own: WorkerPriors | None) -> _Priors:
    """Priors of workers' own as the core takes them."""
    if own is None:
        return None
    return vector(own.masses), vector(own.side_mean), vector(own.side_variance)
