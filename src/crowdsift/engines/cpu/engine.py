"""The engine on the compiled core."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crowdsift import _core
from crowdsift.engines.base import (
    ContextEngine,
    CountedVotes,
    Curvature,
    Facts,
    ItemSystem,
    Profile,
    ScoreCurvature,
    SlopePrior,
    Tally,
)
from crowdsift.engines.dimensions import Crowd, DimensionUpdate
from crowdsift.engines.fused import TypeMarginals
from crowdsift.engines.grid import (
    MAX_DENSE_ITEMS,
    MAX_FACTOR_WORK,
    Factoriser,
    Messages,
    PairPosteriors,
    SitePass,
    SiteSystem,
    SiteUpdate,
    TypePosteriors,
    VoteSites,
    WorkerPoints,
    WorkerPriors,
    WorkerTypes,
)
from crowdsift.engines.kinds import Solution, WeightedPairs
from crowdsift.numeric import Codes, Indices, Mask
from crowdsift.numeric.dense import inverse_of_root, inverse_root
from crowdsift.votes.contexts import by_context

if TYPE_CHECKING:
    from crowdsift.engines.shards import SharedPairs
    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

    Rows = NDArray[np.float32]


class CpuGrid:
    """Expectation propagation."""

    def __init__(self, votes: CpuVotes) -> None:
        self._votes, self._factorisers = votes, Factorisers()

    def sites(self, types: WorkerTypes, variance: float) -> CpuSites:
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
        core, centred = self._votes.core, self._votes.facts.sides_known
        return CpuProducts(self._votes, lambda v: core.correlate(centred, v), lambda: core.correlation_degrees(centred))

    def factoriser(self, low: Codes, high: Codes, n_items: int, most: float) -> Factoriser | None:
        return self._factorisers.find(low, high, n_items, most)


class CpuSites:
    """The sites of one run, kept in the core."""

    def __init__(self, votes: CpuVotes, inner: _core.GridSites) -> None:
        self._votes, self._inner = votes, inner
        self.n_votes: float = inner.n_votes
        self.n_pairs: float = inner.n_pairs
        self.pairs_held: float = inner.pairs_held

    def update(self, given: SitePass) -> SiteUpdate:
        levels, prior, means, side, damping, clip, own, workers = given
        marked = None if workers is None else workers.astype(np.uint8)
        found = self._inner.update(levels, prior, means, damping, clip, *side, own, marked)
        self._votes.counter.passes += 1.0 if workers is None else self._votes.share(workers)
        return SiteUpdate(*found)

    def type_counts(self, prior: Vector) -> Vector:
        return self._inner.type_counts(prior)

    def posteriors(self, prior: Vector, rows: slice, own: WorkerPriors | None = None) -> TypePosteriors:
        begin, end, _ = rows.indices(self._votes.facts.n_workers)
        return TypePosteriors(*self._inner.posteriors(prior, begin, max(begin, end), own))

    def marginals(self, prior: Vector, rows: slice, chosen: int, own: WorkerPriors | None = None) -> TypeMarginals:
        begin, end, _ = rows.indices(self._votes.facts.n_workers)
        return TypeMarginals(*self._inner.marginals(prior, begin, max(begin, end), chosen, own))

    def quantiles(self, points: Vector, masses: Vector, levels: Vector, atom: Vector) -> Vector:
        return self._inner.quantiles(points, masses, levels, atom)

    def refine(self) -> int:
        return self._inner.refine()

    def pair_sums(self) -> Vector:
        return self._inner.pair_sums()

    def system(self, shared: Vector, pair_effect: float = 0.0) -> SiteSystem:
        laplacian, rhs, log_pairs = self._inner.system(shared, pair_effect)
        return SiteSystem(CpuLaplacian(laplacian), rhs, log_pairs)

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        return PairPosteriors(*self._inner.pair_posteriors(means))

    def set_pair_variances(self, variances: Vector | None = None, shared: Vector | None = None) -> None:
        self._inner.set_pair_variances(variances, shared)

    def propagate(self, precision: Vector, settled: Vector, *, fresh: bool = False, last: bool = False) -> Messages:
        return Messages(*self._inner.propagate(precision, settled, fresh, last))

    def transform(self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False) -> None:
        self._inner.transform(scale, flip, clip, grids)

    def copy(self) -> CpuSites:
        return CpuSites(self._votes, self._inner.copy())

    def suspend(self) -> None:
        self._inner.suspend()

    def vote_sites(self) -> VoteSites:
        return VoteSites(*self._inner.vote_sites())

    def set_vote_sites(self, sites: VoteSites, half: int) -> None:
        self._inner.set_vote_sites(*sites[4:], half)

    def pair_likelihood(self, differences: Vector, variances: Vector, points: WorkerPoints) -> float:
        return self._inner.pair_likelihood(differences, variances, *points)


class Factorisers:
    """Find factorisers; the analysis of the last pairs is kept, even if they were refused."""

    def __init__(self) -> None:
        self._pairs: tuple[Codes, Codes, int] | None = None
        self._most = 0.0
        self._sparse: _core.Factoriser | None = None

    def find(self, low: Codes, high: Codes, n_items: int, most: float) -> Factoriser | None:
        """Return the cheapest factoriser within `most` multiplications; None if there is none."""
        low, high = np.ascontiguousarray(low, np.uint32), np.ascontiguousarray(high, np.uint32)
        if not self._known(low, high, n_items):
            self._pairs, self._most, self._sparse = (low, high, n_items), 0.0, None
        if self._sparse is None and most > self._most:
            found = _core.Factoriser(low, high, n_items, most)
            self._most, self._sparse = found.refused, found if found.possible else None
        if self._sparse is not None and self._sparse.work <= most:
            return self._sparse
        if n_items <= MAX_DENSE_ITEMS and most >= MAX_FACTOR_WORK:  # LAPACK multiplies much faster
            return _Dense(low, high, n_items)
        return None

    def _known(self, low: Codes, high: Codes, n_items: int) -> bool:
        if self._pairs is None or self._pairs[2] != n_items:
            return False
        return np.array_equal(self._pairs[0], low) and np.array_equal(self._pairs[1], high)


class _Dense:
    """A dense factorisation by LAPACK."""

    def __init__(self, low: Codes, high: Codes, n_items: int) -> None:
        self._low, self._high, self._n = low, high, n_items

    def __call__(self, weight: Vector) -> tuple[Vector, Vector, float, bool]:
        n, low, high = self._n, self._low, self._high
        # Only the lower triangle is read.
        place = np.maximum(low, high).astype(np.int64) * n + np.minimum(low, high)
        precision = -np.bincount(place, weight, n * n).astype(np.float64).reshape(n, n)
        ends = np.bincount(low, weight, n) + np.bincount(high, weight, n)
        precision[np.diag_indices(n)] = 1.0 + ends
        try:
            root, log_determinant = inverse_root(precision)
        except np.linalg.LinAlgError:
            return np.ones(n), np.ones(len(weight)), 0.0, False
        inverse = inverse_of_root(root)
        items = np.ascontiguousarray(np.diag(inverse))
        pairs = items[low] + items[high] - 2.0 * inverse[low, high]
        return items, pairs, log_determinant, bool((pairs > 0.0).all())


class CpuVotes(CountedVotes):
    """The votes in the core, and a counter of passes over them."""

    def __init__(self, core: _core.Core, facts: Facts, rows: Indices, counted_with: CpuVotes | None = None) -> None:
        self.core, self.facts, self._rows = core, facts, rows
        super().__init__(counted_with)

    def share(self, workers: Mask) -> float:
        """Return the share of the votes that these workers have."""
        return float(self._rows @ workers) / max(float(self._rows.sum()), 1.0)


class _Passes:
    """Base class of the engine's capabilities."""

    def __init__(self, votes: CpuVotes) -> None:
        self._votes = votes

    def _pass(self) -> _core.Core:
        """Count a pass over all votes and return the core, which performs it."""
        self._votes.counter.passes += 1
        return self._votes.core


class CpuProducts:
    """A matrix over items with products, each a pass over all votes, and a diagonal."""

    def __init__(self, votes: CpuVotes, product: Callable[[Vector], Vector], diagonal: Callable[[], Vector]) -> None:
        self._votes, self._product, self._diagonal = votes, product, diagonal

    def multiply(self, v: Vector) -> Vector:
        self._votes.counter.passes += 1
        return self._product(v)

    def diagonal(self) -> Vector:
        # The diagonal needs a separate pass.
        self._votes.counter.passes += 1
        return self._diagonal()

    def pairs(self) -> WeightedPairs:
        """Raise an error: the matrix is no Laplacian."""
        raise TypeError("the matrix is no Laplacian of pairs")

    def solve(self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000) -> Solution:
        """Raise an error: the matrix is not positive definite."""
        raise TypeError("the matrix is not positive definite")


class CpuOperator(CpuProducts):
    """A symmetric matrix over items whose products are passes over all votes."""

    def __init__(self, votes: CpuVotes, inner: _core.SlopeHessian | _core.Reduced) -> None:
        super().__init__(votes, inner.multiply, inner.diagonal)
        self._inner = inner

    def solve(self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000) -> Solution:
        found = Solution(*self._inner.solve(rhs, start, shift, tolerance, most))
        self._votes.counter.passes += found.iterations + 2
        return found


class CpuLaplacian:
    """A Laplacian over the compared pairs; its products go over pairs instead of votes."""

    def __init__(self, inner: _core.Laplacian) -> None:
        self._inner = inner

    def multiply(self, v: Vector) -> Vector:
        return self._inner.multiply(v)

    def diagonal(self) -> Vector:
        return self._inner.diagonal()

    def pairs(self) -> WeightedPairs:
        return WeightedPairs(*self._inner.pairs())

    def solve(self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000) -> Solution:
        return Solution(*self._inner.solve(rhs, start, shift, tolerance, most))

    def solve_rows(self, rhs: Rows, start: Rows, *, shift: float, tolerance: float, most: int = 1_000) -> Rows:
        return self._inner.solve_rows(rhs, start, shift, tolerance, most)

    def pair_distances(self, rows: Rows) -> Vector:
        return self._inner.pair_distances(rows)


class CpuLikelihood(_Passes):
    """Likelihoods with parameters of workers, in the core."""

    def derivatives(self, likelihood: str, scores: Vector, theta: Vector) -> Curvature:
        found = self._pass().derivatives(likelihood, scores, theta)
        return Curvature(*found[:-1], CpuSchur(self._votes, found[-1]))

    def fit_workers(
        self,
        likelihood: str,
        scores: Vector,
        theta: Vector,
        *,
        centre: Vector,
        penalty: float,
        bounds: tuple[float, float],
        tolerance: float = 1e-9,
    ) -> Vector:
        return self._pass().fit_workers(likelihood, scores, theta, centre, penalty, *bounds, tolerance)


class CpuSchur:
    """Second derivatives of every vote, held in the core."""

    def __init__(self, votes: CpuVotes, inner: _core.Schur) -> None:
        self._votes, self._inner = votes, inner

    def reduced(self, inverse: Vector | None) -> CpuOperator | CpuLaplacian:
        if inverse is None:
            self._votes.counter.passes += 1
            return CpuLaplacian(self._inner.laplacian())
        return CpuOperator(self._votes, self._inner.reduced(inverse))


class CpuDimensions(_Passes):
    """Passes over votes in several dimensions."""

    def update(
        self,
        positions: Vector,
        covariance: Vector,
        crowd: Crowd,
        weights: Vector,
        second: Vector,
        width: Vector,
        ties: bool,
        part: int,
        caution: float,
    ) -> DimensionUpdate:
        found = self._pass().update_dimensions(
            positions, covariance, *crowd, weights, second, width, self._n_gold, ties, part, caution
        )
        return DimensionUpdate(*found[:-1], CpuBlocks(self._votes, found[-1]))

    def residuals(
        self, positions: Vector, weights: Vector, width: Vector, taken: Vector, ties: bool, part: int
    ) -> CpuProducts:
        found = self._pass().dimension_residuals(positions, weights, width, taken, self._n_gold, ties, part)
        return CpuProducts(self._votes, found.multiply, found.diagonal)

    def log_probability(
        self,
        positions: Vector,
        covariance: Vector,
        weights: Vector,
        second: Vector,
        width: Vector,
        ties: bool,
        part: int,
    ) -> tuple[float, float]:
        return self._pass().dimension_loss(positions, covariance, weights, second, width, self._n_gold, ties, part)

    def class_evidence(
        self, positions: Vector, covariance: Vector, crowd: Crowd, weights: Vector, width: Vector, ties: bool
    ) -> Vector:
        return self._pass().dimension_classes(positions, covariance, *crowd, weights, width, self._n_gold, ties)

    def response(
        self, positions: Vector, crowd: Crowd, weights: Vector, shares: Vector, width: Vector, ties: bool, whole: bool
    ) -> Vector:
        none = np.zeros((*positions.shape, positions.shape[1]))
        return self._pass().dimension_response(
            positions, none, *crowd, weights, shares, width, self._n_gold, ties, whole
        )

    @property
    def _n_gold(self) -> int:
        return self._votes.facts.n_gold


class CpuBlocks(CpuProducts):
    """The matrix over items and dimensions that a pass returns."""

    def __init__(self, votes: CpuVotes, inner: _core.ItemBlocks) -> None:
        super().__init__(votes, inner.multiply, inner.diagonal)
        self._inner = inner

    def pairs(self) -> WeightedPairs:
        return WeightedPairs(*self._inner.pairs())


class CpuCounts(_Passes):
    """Tallies of votes, counted by the core."""

    def tally(self, rank: Vector) -> Tally:
        found = self._pass().tally(rank)
        appearances, wins = found[5:]
        return Tally(*found, appearances - wins)

    def margins(self, prior: float) -> CpuProducts:
        core, k = self._votes.core, self._votes.facts.n_items
        return CpuProducts(self._votes, lambda x: core.margin_flow(x, prior), lambda: np.zeros(k))


class CpuSlopes(_Passes):
    """The logistic model with a slope for every worker, in the core."""

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        return self._pass().log_likelihood(scores, slopes)

    def profile(
        self, scores: Vector, slopes: Vector, prior: SlopePrior | None = None, *, resolution: float = 0.0
    ) -> Profile:
        core = self._pass()
        if prior is None:
            if (slopes != slopes[0]).any():
                raise ValueError("without a prior all slopes must be equal")
            value, gradient, hessian = core.common_slope(scores, float(slopes[0]), resolution)
            curvature = np.full(len(slopes), np.inf)
        else:
            value, gradient, slopes, curvature, hessian = core.own_slopes(scores, slopes, *prior, resolution)
        return Profile(value, gradient, slopes, curvature, CpuOperator(self._votes, hessian))

    def curvature(self, scores: Vector, slopes: Vector) -> ScoreCurvature:
        found = self._pass().curvature(scores, slopes)
        return ScoreCurvature(*found[:-1], CpuLaplacian(found[-1]))


class CpuEM(_Passes):
    """Pólya-Gamma EM in the core."""

    def e_step(self, scores: Vector, slopes: Vector, *, resolution: float = 0.0) -> CpuEStep:
        inner, value, precision, laplacian, rhs = self._pass().e_step(scores, slopes, resolution)
        system = ItemSystem(CpuLaplacian(laplacian), rhs)
        return CpuEStep(self._votes, inner, value, precision, system)


class CpuEStep:
    """n·E[ω] of every vote, held in the core."""

    def __init__(
        self, votes: CpuVotes, inner: _core.EStep, log_likelihood: float, precision: float, system: ItemSystem
    ) -> None:
        self._votes, self._inner = votes, inner
        self.log_likelihood, self.precision, self.system = log_likelihood, precision, system

    def regress(self, scores: Vector, ridge: float) -> tuple[Vector, ItemSystem]:
        self._votes.counter.passes += 1
        slopes, laplacian, rhs = self._inner.regress(scores, ridge)
        return slopes, ItemSystem(CpuLaplacian(laplacian), rhs)


class CpuEngine:
    """All capabilities on threads of one machine."""

    def __init__(
        self,
        comparisons: Comparisons,
        threads: int,
        shared: SharedPairs | None = None,
        counted_with: CpuVotes | None = None,
    ) -> None:
        core = _core.Core(
            comparisons.first,
            comparisons.second,
            comparisons.outcome,
            comparisons.weight,
            comparisons.offsets,
            comparisons.features,
            comparisons.n_items,
            threads,
        )
        if shared is not None:
            core.set_shared(*shared)
        component = _core.components(comparisons.first, comparisons.second, comparisons.n_items)
        self.facts = Facts.of(comparisons, component)
        self._votes = votes = CpuVotes(core, self.facts, np.diff(comparisons.offsets), counted_with)
        self._comparisons, self.threads, self._shared = comparisons, threads, shared
        self.counts, self.slopes = CpuCounts(votes), CpuSlopes(votes)
        self.em, self.likelihood = CpuEM(votes), CpuLikelihood(votes)
        self.grid, self.dimensions = CpuGrid(votes), CpuDimensions(votes)

    @property
    def passes(self) -> float:
        return self._votes.counter.passes

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        found = by_context(self._comparisons, enough) if self._comparisons.by else None
        if found is None:
            return None
        # votes by context share the pairs and the counter of passes
        apart = CpuEngine(found.votes, self.threads, self._shared, self._votes)
        return ContextEngine(apart, found.worker, found.context)


def engine(comparisons: Comparisons, threads: int, shared: SharedPairs | None = None) -> CpuEngine:
    """Open the compiled core over votes; `shared` are the pairs that other shards have as well."""
    return CpuEngine(comparisons, threads, shared)


def spill_to(folder: str) -> None:
    """Put new large arrays of the core into files of a folder; "" puts them into memory."""
    _core.spill_to(folder)


def evict() -> int:
    """Release the memory of such files until they are used again; return the number of bytes."""
    return _core.evict()
