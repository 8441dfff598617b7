"""Engines hold the data and offer passes over it, named by their mathematics.

A solver holds the iterate and calls passes; it does not know where the arithmetic runs. An
engine does not know any model. Arrays over comparisons never leave an engine: only vectors over
items and workers travel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from crowdsift.errors import RequestError
from crowdsift.numeric.threads import thread_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from crowdsift.engines.grid import GridSites, Habits
    from crowdsift.engines.sides import SidePasses
    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

__all__ = [
    "ContextEngine",
    "Curvature",
    "Engine",
    "Laplacian",
    "Profile",
    "Solution",
    "choose_engine",
]


class Curvature(NamedTuple):
    """A log-likelihood with parameters of workers: value, gradients, worker blocks.

    `items` is the gradient in the scores, `workers` (M x p) that in the workers' parameters,
    `blocks` (M x p x p) the negative Hessian in them, `diagonal` the sums per item of the sizes
    of the entries of the negative Hessian in the scores, a preconditioner.
    """

    value: float
    items: Vector
    workers: Vector
    blocks: Vector
    diagonal: Vector


class Profile(NamedTuple):
    """The logistic log-likelihood as a function of the scores alone, the slopes settled.

    `gradient` is that in the scores; `slopes` and their `curvature`, prior included, one number a
    worker.
    """

    value: float
    gradient: Vector
    slopes: Vector
    curvature: Vector


class Solution(NamedTuple):
    """What a linear solve returns."""

    x: Vector
    iterations: int
    residual: float
    converged: bool


class ContextEngine(NamedTuple):
    """An engine in which a worker in a context is a worker: who that is, and in which context.

    Known workers are the same in all contexts, and have no entry.
    """

    engine: Engine
    worker: NDArray[np.int64]
    context: NDArray[np.int64]


class Laplacian(Protocol):
    """The graph Laplacian L with the weights of the last pass that refreshed it.

    An operator, never an array: on a cluster no machine holds all of it.
    """

    def multiply(self, x: Vector, shift: float = 0.0) -> Vector:
        """Return (L + shift I) x."""

    def diagonal(self) -> Vector:
        """Return the diagonal of L."""

    def solve(
        self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000
    ) -> Solution:
        """Solve (L + shift I) x = rhs to a residual of `tolerance` times the norm of rhs."""

    def pairs(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], Vector]:
        """The pairs of items with a weight, and the weights: what -L has beside its diagonal."""


class Engine(Protocol):
    """Passes over the comparisons of the logistic model.

    Throughout d = scores[first] - scores[second], eta = slopes[worker] * d and p = sigma(eta);
    an outcome y with weight n counts as n y wins and n (1 - y) losses.
    """

    n_items: int
    n_workers: int
    n_features: int
    total_weight: float
    passes: float
    sides_known: bool  # whether `first` is where an item was shown
    ties: bool  # whether one half is an outcome of its own, not a share of wins
    known_workers: int  # how many of the last workers are gold, of known reliability
    component: NDArray[np.uint32]  # of every item, the number of its connected component
    component_sizes: Vector  # for every item, the number of items connected with it

    @property
    def laplacian(self) -> Laplacian:
        """The Laplacian that the passes refresh."""

    def log_likelihood(self, scores: Vector, slopes: Vector) -> float:
        """Σ n·log p of the logistic model; nothing is kept."""

    def expect(self, scores: Vector, slopes: Vector) -> tuple[float, float]:
        """Pólya-Gamma E-step: keep n·E[ω] with E[ω] = tanh(η/2)/(2η) for every comparison.

        Returns the log-likelihood and the sum of the kept values.
        """

    def item_system(self, slopes: Vector) -> Vector:
        """Refresh the Laplacian with slope²·n·E[ω]; return b, b_j = Σ ± slope·n·(y - ½)."""

    def regress_workers(self, scores: Vector, ridge: float) -> tuple[Vector, Vector]:
        """Ridge regression of every worker, then `item_system` of the slopes, in one pass.

        Returns slopes Σ n(y - ½)d / (Σ n·E[ω]·d² + ridge), and b.
        """

    def score_derivatives(self, scores: Vector, slopes: Vector) -> tuple[float, Vector]:
        """Log-likelihood and its gradient in the scores.

        Refreshes the Laplacian with slope²·n·p(1 - p), the negative Hessian in the scores.
        """

    def slope_information(self, scores: Vector, slopes: Vector) -> Vector:
        """Σ n·p(1 - p)·d² of every worker."""

    def common_slope(self, scores: Vector, slope: float, finest: float = 0.0) -> Profile:
        """The log-likelihood with one slope for all; no curvatures of slopes.

        `finest` is the smallest step of a score that the gradient must tell: an engine may be
        quick where that is large. Keeps A, the items' block of the negative Hessian.
        """

    def own_slopes(
        self,
        scores: Vector,
        start: Vector,
        *,
        mean: float,
        precision: float,
        last_step: float,
        finest: float = 0.0,
    ) -> Profile:
        """The log-likelihood with every slope at the optimum of its votes and prior.

        Each minimises -log-likelihood + ½·precision·(slope - mean)² from `start`, by Newton steps
        of which the last is at most `last_step`·|slope| long, or, where the votes tell little of
        the slope, some times `last_step` of its standard deviations: the error is of the order of
        its square. Keeps A, B and D of the negative Hessian [A B; B' D]. `finest` as above.
        """

    def slope_diagonal(self) -> Vector:
        """The diagonal of A of the last `own_slopes` or `common_slope`."""

    def slope_product(self, v: Vector, shift: float = 0.0) -> Vector:
        """(S + shift I) v; S is A - B D⁻¹ B' of `own_slopes` or A of `common_slope`, the last."""

    def derivatives(self, likelihood: str, scores: Vector, theta: Vector) -> Curvature:
        """Derivatives of a likelihood of `crowdsift.numeric.likelihoods.LIKELIHOODS`.

        Keeps the second derivatives: with A, B and D the items', mixed and workers' blocks of the
        negative Hessian, `couple`, `spread` and `reduced` are products with B', B and A - B D⁻¹ B'.
        """

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
        """Every worker's parameters at the maximum of its own penalised likelihood.

        Each minimises -log-likelihood + ½·penalty·‖θ - centre‖² within the bounds, for these
        scores, from `theta`, until no entry of its gradient is above the tolerance.
        """

    def couple(self, v: Vector) -> Vector:
        """B' v, p numbers a worker."""

    def spread(self, u: Vector) -> Vector:
        """B u."""

    def reduced(self, v: Vector, inverse: Vector) -> Vector:
        """(A - B·inverse·B') v, the inverse given as a p x p block a worker."""

    def item_curvature(self) -> None:
        """Refresh the Laplacian with A."""

    def margin_flow(self, x: Vector, prior: float) -> Vector:
        """Product with the antisymmetric matrix of smoothed margins.

        A comparison with c = (n y + prior)/(n + 2 prior) - ½ adds c·x[second] to first and
        takes c·x[first] from second.
        """

    def side_totals(self) -> tuple[Vector, Vector]:
        """Σ n and Σ n(2y - 1) over the decided votes (y not ½) of every worker but known ones."""

    def grid_sites(self, habits: Habits = ...) -> GridSites:
        """New sites of expectation propagation over these votes; see `crowdsift.engines.grid`.

        By default a worker's type is its reliability alone.
        """

    def by_context(self) -> ContextEngine | None:
        """The same votes with a worker for every worker in each context; None without contexts."""

    def side_passes(self) -> SidePasses:
        """Passes of the model with a side term; see `crowdsift.engines.sides`."""


def choose_engine(name: str, comparisons: Comparisons, threads: int | None = None) -> Engine:
    """The engine of that name over the comparisons.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.engines import choose_engine
    >>> votes = Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    >>> choose_engine("auto", votes).n_items
    2
    """
    count = thread_count(threads)
    if name in ("auto", "cpu"):
        from crowdsift.engines.cpu import CpuEngine

        return CpuEngine(comparisons, count)
    if name == "reference":
        from crowdsift.engines.reference import ReferenceEngine

        return ReferenceEngine(comparisons)
    if name in ("torch", "dask"):
        raise RequestError(f"the engine {name!r} does not exist yet; use 'auto' or 'cpu'")
    raise RequestError(f"unknown engine {name!r}; the engines are auto, cpu and reference")
