"""Engines hold the votes and offer passes over them; solvers hold the iterate.

A solver does not know where the arithmetic runs, an engine does not know any model. Arrays over votes never leave an
engine. A pass that leaves state behind returns it as an object with further passes; there is no hidden state.

Throughout d = scores[first] - scores[second] and p = σ(slope·d); an outcome y with weight n counts as n·y wins and n·(1
- y) losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from crowdsift.engines.dimensions import Dimensions
from crowdsift.engines.grid import Grid
from crowdsift.engines.kinds import Items, Operator, Total, Workers
from crowdsift.errors import RequestError
from crowdsift.numeric import Codes, Indices, Vector
from crowdsift.votes.comparisons import Comparisons

CAPABILITIES = ("counts", "slopes", "em", "likelihood", "grid", "dimensions")


@dataclass(frozen=True)
class Facts:
    """Facts about the votes of an engine that need no pass.

    `component` is the number of each item's connected component; the last `n_gold` workers are gold, of known
    reliability; `ties` says whether one half is a separate outcome; `sides_known` whether `first` is where an item was
    shown; `loads` are the numbers of votes of every worker, weights counted.
    """

    n_items: int
    n_workers: int
    n_features: int
    total_weight: float
    sides_known: bool
    ties: bool
    n_gold: int
    component: Codes
    loads: Vector

    @classmethod
    def of(
        cls, comparisons: Comparisons, component: Codes, total_weight: float | None = None, ties: bool | None = None
    ) -> Facts:
        """Return the facts of comparisons, given their components and what an engine knows."""
        features = comparisons.features
        return cls(
            n_items=comparisons.n_items,
            n_workers=comparisons.n_workers,
            n_features=0 if features is None else features.shape[1],
            total_weight=comparisons.total_weight if total_weight is None else total_weight,
            sides_known=comparisons.sides_known,
            ties=comparisons.ties_are_outcomes if ties is None else ties,
            n_gold=comparisons.n_gold,
            component=component,
            loads=comparisons.loads,
        )


class PassCount:
    """Counter of the passes over all votes."""

    passes: float = 0.0


class CountedVotes:
    """Votes that count the passes over them."""

    def __init__(self, counted_with: CountedVotes | None = None) -> None:
        self.counter: PassCount = PassCount() if counted_with is None else counted_with.counter


class Tally(NamedTuple):
    """Counts of votes, weights included.

    Of every worker: `agreed`, decided votes (y not ½) for the item of better rank; `ranked`, decided votes between
    items of different rank; `decided`; `leaning`, those for the first item less those for the second; `loads`, all
    votes. Of every item: `appearances`, all votes, `wins` and `losses`, a tie counting half in each.
    """

    agreed: Workers
    ranked: Workers
    decided: Workers
    leaning: Workers
    loads: Workers
    appearances: Items
    wins: Items
    losses: Items


class Counts(Protocol):
    """Tallies of votes, which every method needs."""

    def tally(self, rank: Items) -> Tally:
        """Count votes, and those that agree with the ranks (1 is best; equal: no order)."""

    def margins(self, prior: float) -> Operator:
        """Return the antisymmetric matrix of smoothed margins, for one comparison per pair.

        A comparison with c = (n·y + prior)/(n + 2·prior) - ½ adds c·x[second] to first and takes c·x[first] from
        second.
        """


class SlopePrior(NamedTuple):
    """Slopes are N(mean, 1/precision); Newton steps end when one is at most `last_step` long.

    That length is relative to the slope or, if votes determine it poorly, to its standard deviation. The remaining
    error is of the order of its square.
    """

    mean: float
    precision: float
    last_step: float


class Profile(NamedTuple):
    """The logistic log-likelihood as a function of the scores alone.

    `gradient` is that in the scores. `curvature` is that of the slopes, prior included; it is infinite if slopes were
    given. `hessian` is A - B D⁻¹ B' of the negative Hessian [A B; B' D], slopes eliminated; its diagonal is that of A.
    """

    value: Total
    gradient: Items
    slopes: Workers
    curvature: Workers
    hessian: Operator


class ScoreCurvature(NamedTuple):
    """Log-likelihood, gradient in the scores, Σ n·p(1 - p)·d², Laplacian of slope²·n·p(1 - p)."""

    value: Total
    gradient: Items
    information: Workers
    laplacian: Operator


class Slopes(Protocol):
    """The logistic model with a slope for every worker."""

    def log_likelihood(self, scores: Items, slopes: Workers) -> Total:
        """Return the log-likelihood of all votes, Σ n·log p."""

    def profile(
        self, scores: Items, slopes: Workers, prior: SlopePrior | None = None, *, resolution: float = 0.0
    ) -> Profile:
        """Return the log-likelihood with the slopes given or, with a prior, each at its optimum.

        Each then minimises -log-likelihood + ½·precision·(slope - mean)², from the one given. `resolution` is the
        smallest step of a score that the gradient must resolve: where it is large an engine may add up in single
        precision. Without a prior all slopes are equal.
        """

    def curvature(self, scores: Items, slopes: Workers) -> ScoreCurvature:
        """Return derivatives in the scores at these slopes, and the information on each slope."""


class ItemSystem(NamedTuple):
    """The linear system of an M-step for the scores: the Laplacian of slope²·n·E[ω], and b_j = Σ ± slope·n·(y - ½)."""

    laplacian: Operator
    rhs: Items


class EStep(Protocol):
    """The Pólya-Gamma E-step at scores and slopes: n·E[ω] = n·tanh(η/2)/(2η) of every vote."""

    log_likelihood: Total
    precision: Total  # Σ n·E[ω]
    system: ItemSystem  # of the slopes of the E-step

    def regress(self, scores: Items, ridge: float) -> tuple[Workers, ItemSystem]:
        """Return ridge regression of every worker, and the item system of the new slopes, in one call.

        Slopes are Σ n(y - ½)d / (Σ n·E[ω]·d² + ridge).
        """


class EM(Protocol):
    """Pólya-Gamma expectation maximisation of the logistic model."""

    def e_step(self, scores: Items, slopes: Workers, *, resolution: float = 0.0) -> EStep:
        """Return the E-step; the M-step uses the arrays over votes that it keeps.

        `resolution` is the smallest step of a score that the M-step must resolve: where it is large an engine may keep
        E[ω] in single precision.
        """


class Schur(Protocol):
    """The second derivatives of a likelihood: blocks A (items), B (mixed) and D (workers)."""

    def reduced(self, inverse: Workers | None) -> Operator:
        """Return A - B·inverse·B', with a p x p block per worker; A, a Laplacian, for None.

        Its diagonal is that of the Laplacian of |a|, a preconditioner.
        """


class Curvature(NamedTuple):
    """A log-likelihood with parameters of workers: value, gradients, worker blocks.

    `items` is the gradient in the scores, `workers` (M x p) that in the workers' parameters, `blocks` (M x p x p) the
    negative Hessian in them.
    """

    value: Total
    items: Items
    workers: Workers
    blocks: Workers
    hessian: Schur


class Likelihood(Protocol):
    """Likelihoods with p parameters per worker; `tests/reference_engine/links.py` specifies them."""

    def derivatives(self, likelihood: str, scores: Items, theta: Workers) -> Curvature:
        """Return value and derivatives in scores and workers' parameters."""

    def fit_workers(
        self,
        likelihood: str,
        scores: Items,
        theta: Workers,
        *,
        centre: Vector,
        penalty: float,
        bounds: tuple[float, float],
        tolerance: float = 1e-9,
    ) -> Workers:
        """Return every worker's parameters at the maximum of the worker's penalised likelihood.

        Each minimises -log-likelihood + ½·penalty·‖θ - centre‖² within the bounds, for these scores, from `theta`,
        until no entry of its gradient is above the tolerance.
        """


class ContextEngine(NamedTuple):
    """An engine that treats a worker in a context as a worker, with the worker and the context of each.

    Gold is the same in all contexts, and has no entry.
    """

    engine: Engine
    worker: Indices
    context: Indices


class Engine(Protocol):
    """Votes, and the capabilities that an engine offers over them; None for those that it lacks."""

    @property
    def facts(self) -> Facts:
        """Return facts about the votes."""

    @property
    def passes(self) -> float:
        """Return the number of passes over all votes so far."""

    @property
    def counts(self) -> Counts:
        """Return the tallies, which every engine offers."""

    @property
    def slopes(self) -> Slopes | None:
        """Return the logistic model with slopes of workers."""

    @property
    def em(self) -> EM | None:
        """Return Pólya-Gamma EM."""

    @property
    def likelihood(self) -> Likelihood | None:
        """Return likelihoods with parameters of workers."""

    @property
    def grid(self) -> Grid | None:
        """Return expectation propagation over a grid of worker types."""

    @property
    def dimensions(self) -> Dimensions | None:
        """Return variational Bayes with weights of workers in several dimensions."""

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        """Split every worker by context; return None without contexts.

        A worker with fewer than `enough` votes in all contexts but one is not split. Contexts in which a worker has
        fewer votes are joined as the context -1.
        """


Capability = TypeVar("Capability")


def required(capability: Capability | None) -> Capability:
    """Return a capability; raise an error if the engine lacks it."""
    if capability is None:
        raise RequestError("this engine does not offer what the method needs; use engine 'cpu'")
    return capability
