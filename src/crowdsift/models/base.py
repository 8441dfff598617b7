"""What every model is, and the estimate that it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields, replace
from math import exp, lgamma
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Records of engines and solvers that an estimate contains are also named here, since `results` imports neither.
from crowdsift.engines.grid import PairPosteriors
from crowdsift.engines.grid import WorkerPoints as WorkerPoints
from crowdsift.errors import RequestError
from crowdsift.models.covariance import ComponentCovariance, ScorePrecision, difference_variance
from crowdsift.numeric import Codes, Vector
from crowdsift.numeric.distributions import Distribution, normal_distribution, quantile_distribution
from crowdsift.solvers.ep.state import SavedSites as SavedSites
from crowdsift.solvers.ep.terms.contexts import ContextPoints as ContextPoints
from crowdsift.solvers.ep.workers import mirrored_population
from crowdsift.votes.outcomes import Outcomes, half_win

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.models.coefficients import CovariateEstimate
    from crowdsift.models.diagnostics import Diagnostic
    from crowdsift.models.dimensions import DimensionEstimate
    from crowdsift.models.feature_weights import FeatureEstimate
    from crowdsift.solvers.convergence import Progress, StoppingRule
    from crowdsift.solvers.ep.terms.boards import Boards
    from crowdsift.votes.comparisons import Comparisons
    from crowdsift.votes.groups import GroupedVotes
    from crowdsift.votes.item_features import ItemFeatures
    from crowdsift.votes.panels import PanelVotes

# Prior of the share of honest workers among workers with a clear sign: Beta(3.5, 0.5), the 5·(.7, .1) pseudo-counts of
# the prior of `sift`.
_HONEST, _ADVERSARIAL = 3.5, 0.5
_ZONE = 0.25  # share of the typical reliability: a worker closer to 0 does not count
# A worker of reliability 2 orders five of six random pairs as the scores do. Workers who agree even more do not make
# others count less: adversaries who know the truth agree most of all.
_MAX_TYPICAL = 2.0


class SignSupport(NamedTuple):
    """Expected numbers of informative workers for and against the sign, among `workers`."""

    positive: float
    negative: float
    workers: int

    @property
    def log_odds(self) -> float:
        return sign_log_odds(self.positive, self.negative)

    @property
    def probability(self) -> float:
        return 1.0 / (1.0 + exp(-max(self.log_odds, -700.0)))

    @property
    def margin(self) -> float:
        """Return by how much the share of workers who support the sign exceeds the share of those who oppose it."""
        return (self.positive - self.negative) / max(self.workers, 1)

    def mirrored(self) -> SignSupport:
        """Return the support of the other sign."""
        return SignSupport(self.negative, self.positive, self.workers)


def sign_log_odds(reliable: float, adversarial: float) -> float:
    """Return the log odds that the sign is right, from the expected counts on either side."""
    # The share ρ of honest workers among those with a clear sign is Beta(3.5, 0.5) before the votes. With R workers for
    # the sign and A against it the evidence is B(3.5 + R, 0.5 + A) if it is right and B(3.5 + A, 0.5 + R) if all are
    # mirrored; for many workers the odds go to (R/A)³.
    a, b = _HONEST, _ADVERSARIAL
    return lgamma(a + reliable) + lgamma(b + adversarial) - lgamma(a + adversarial) - lgamma(b + reliable)


def sign_support(beta: Vector, below: Distribution, votes: Vector) -> SignSupport:
    """Count the informative workers for and against the sign."""
    # The typical reliability is the median of |β| over workers, weighted by information (β² times the number of votes),
    # and at most 2. A worker is for the sign with P(β > typical/4) and against it with P(β < -typical/4), so nearly
    # random workers do not count, however many there are.
    zone = _ZONE * min(weighted_median(np.abs(beta), beta**2 * votes), _MAX_TYPICAL)
    if zone == 0.0:
        return SignSupport(0.0, 0.0, len(beta))
    return SignSupport(float((1.0 - below(zone)).sum()), float(below(-zone).sum()), len(beta))


def weighted_median(values: Vector, weights: Vector) -> float:
    """Return the value below which half of the weight lies; 0 without weight."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    if not len(values) or not reached[-1] > 0.0:
        return 0.0
    return float(values[order][np.searchsorted(reached, 0.5 * reached[-1])])


# The types that a hyper-parameter can have, with their names and the check for isinstance.
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "bool": ("true or false", (bool,)),
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
}


@dataclass(frozen=True)
class WorkerEstimate:
    """The estimates of workers by a method; None for each quantity that it does not estimate.

    Limits of reliability come from `quantiles` where a method has a posterior (one row per worker, of quantiles of
    equal probability), else from the standard deviation. `random_level` is the reliability of a worker who clicks at
    random, `one_sided` the probability that votes depend on sides alone, and `extra` holds further parameters by name.
    `typical` is the reliability of a typical worker, and `class_evidence` the logarithms of how well classes of types
    explain a worker's own votes (adversarial, random, informative, one-sided): see `crowdsift.solvers.ep.summaries`.
    """

    reliability: Vector | None = None
    reliability_sd: Vector | None = None
    reliability_lower: Vector | None = None
    reliability_upper: Vector | None = None
    quantiles: Vector | None = None
    random_level: float = 0.0
    side_bias: Vector | None = None
    side_sd: Vector | None = None
    one_sided: Vector | None = None
    typical: float | None = None
    class_evidence: Vector | None = None
    extra: dict[str, Vector] = field(default_factory=dict)

    def sign_support(self, votes: Vector) -> SignSupport | None:
        """Count informative workers, without gold, for and against the sign; None if unknown."""
        if self.reliability is None or self.reliability_sd is None:
            return None
        some, level = slice(len(votes)), self.random_level
        beta = self.reliability[some] - level
        below = normal_distribution(beta, self.reliability_sd[some])
        if self.quantiles is not None:
            below = quantile_distribution(self.quantiles[some] - level)
        return sign_support(beta, below, votes)


class PanelEstimate(NamedTuple):
    """Draws of the biases of panels (draw, panel, item), in logits.

    `votes` is the number of trusted votes, `worth` the number of trusted votes that all others are worth, and
    `information` the precision that one trusted vote adds to a difference of scores.
    """

    names: tuple[str, ...]
    bias: Vector
    votes: float
    worth: float
    information: float


@dataclass(frozen=True)
class Estimate:
    """The estimate of a model, by code; `results` adds labels and makes tables.

    `theta` holds the workers' parameters as the likelihood takes them, one row per worker; `points` stand for their
    joint posterior where they have one. If workers differ by context, `points` are for a context without the worker's
    votes, and `in_context` for the others.
    """

    scores: Vector
    log_likelihood: float
    rule: StoppingRule
    trace: list[float]
    score_sd: Vector | None = None
    precision: ScorePrecision | None = None  # if some component is small
    theta: Vector = field(default_factory=lambda: np.empty((0, 0)))
    points: WorkerPoints | None = None
    in_context: ContextPoints | None = None
    workers: WorkerEstimate = field(default_factory=WorkerEstimate)
    evidence: float | None = None
    sign: SignSupport | None = None  # if the model chose the sign by its workers
    crowd_side: tuple[float, float] | None = None  # mean and sd of the bias of all workers to the left
    details: dict[str, float | None] = field(default_factory=dict)  # further entries of the summary
    pairs: PairPosteriors | None = None  # if votes on a pair depend on more than its scores
    population: dict[str, Any] | None = None  # the learned population of workers, for JSON
    sites: SavedSites | None = None  # one per vote, if a later fit can start from them
    diagnostics: tuple[Diagnostic, ...] = ()
    features: FeatureEstimate | None = None  # if features of items affect the scores
    covariates: CovariateEstimate | None = None  # if votes have covariates
    dimensions: DimensionEstimate | None = None  # if there are several
    component: Codes | None = None  # of items, if more than votes connects them
    common: Estimate | None = None  # of items in all contexts together, if contexts are pooled
    panels: PanelEstimate | None = None  # if a panel of judges is trusted

    def __post_init__(self) -> None:
        self.rule.iterate = None  # it refers to the engine with all its votes

    @property
    def covariance(self) -> ComponentCovariance | None:
        """Return the covariances of the scores in small components, computed once."""
        return None if self.precision is None else self.precision.covariance

    def difference_variance(self, first: NDArray[np.integer], second: NDArray[np.integer]) -> Vector | None:
        """Return variances of differences of scores; errors in large components count as independent."""
        return difference_variance(self.covariance, self.score_sd, first, second)


@dataclass(frozen=True)
class Start:
    """The end of an earlier fit, by code: scores, their variances, and the learned `population`.

    An item that is new has score 0 and variance 1. `sites` are those of earlier votes, where they were kept; `workers`
    the parameters of workers in the middle of a run that was cut short.
    """

    scores: Vector
    variances: Vector
    population: dict[str, Any]
    sites: SavedSites | None = None
    workers: Vector | None = None
    boards: Boards | None = None  # of the present votes, if contexts are pooled
    dimensions: DimensionEstimate | None = None


@dataclass(frozen=True)
class Model(ABC):
    """A frozen dataclass of hyper-parameters with assumptions and an estimate."""

    name: ClassVar[str]
    needs: ClassVar[str] = "likelihood"  # the capability of an engine that is needed besides counts
    uses_workers: ClassVar[bool] = True
    tuned: ClassVar[str] = "penalty"  # the hyper-parameter that left-out votes select
    of_any_sign: ClassVar[tuple[str, ...]] = ()  # hyper-parameters that may be negative or 0
    free_sign: ClassVar[bool] = True  # whether -r with mirrored workers is as probable as r
    takes_gold: ClassVar[bool] = False  # whether the fit itself uses the workers counted by `n_gold`
    takes_items: ClassVar[bool] = False  # whether it uses features of items
    takes_groups: ClassVar[bool] = False  # whether groups of votes may have an effect
    rankings: ClassVar[str] = "pairs"  # treatment of rankings: as "pairs", by "likelihood", or as "reweighted" pairs
    by_worker: ClassVar[bool] = True  # whether votes separated by worker, on many machines, suffice
    takes_covariates: ClassVar[bool] = False  # whether it learns coefficients for features of votes
    bytes_a_comparison: ClassVar[int] = 64  # memory besides the votes, at the peak

    def __post_init__(self) -> None:
        for entry in fields(self):
            kind = getattr(entry.type, "__name__", str(entry.type))  # a type, or its name if annotations are postponed
            if kind in _TYPES:  # others are the model's own to check
                object.__setattr__(self, entry.name, self._checked(entry.name, kind))

    def _checked(self, name: str, kind: str) -> Any:
        """Return a hyper-parameter as its type; raise an error for a wrong type or a value outside its range."""
        value, (wanted, types) = getattr(self, name), _TYPES[kind]
        fits = isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
        if not fits:
            raise RequestError(f"{self.name}: {name} must be {wanted}, not {value!r}")
        if kind == "bool":
            return value
        bound, right = "above 0", value > 0
        if name == "tolerance":
            bound, right = "at least 0", value >= 0
        elif name in self.of_any_sign:
            bound, right = "finite", True
        if not right or not abs(value) <= 1e308:
            raise RequestError(f"{self.name}: {name} must be {bound}, not {value}")
        return types[-1](value)

    def parameters(self) -> dict[str, Any]:
        """Return the hyper-parameters by name, as values that JSON can hold."""
        values = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons in the form the model needs; raise an error if something lacks."""
        return comparisons

    def in_one_dimension(self) -> Model:
        """Return the model for fits that need only scores and reliabilities."""
        return replace(self, dimensions=1) if hasattr(self, "dimensions") else self  # type: ignore[call-arg]

    def memory(self, comparisons: Comparisons) -> int:
        """Return the bytes that a fit needs besides the comparisons, at the peak."""
        return self.bytes_a_comparison * len(comparisons)

    def relax(self, comparisons: Comparisons) -> tuple[Model, str]:
        """Return the model in a form that these votes allow, and a note of what it leaves out."""
        return self, ""

    @abstractmethod
    def estimate(self, engine: Engine, progress: Progress | None = None, start: Start | None = None) -> Estimate:
        """Fit the model to the comparisons of the engine, from `start` if there is one."""

    def estimate_with_items(self, engine: Engine, features: ItemFeatures, progress: Progress | None = None) -> Estimate:
        """Fit the model with features of items, if it uses them."""
        raise RequestError(f"{self.name} has no use for features of items; sift and bora-map have")

    def refuse_votes(self, votes: Comparisons, *, dependent: bool = False) -> None:  # noqa: B027
        """Raise an error for votes whose terms the model cannot combine; `dependent` votes have groups."""

    def estimate_trusted(
        self,
        engine: Engine,
        panels: PanelVotes,
        open_engine: Callable[[Comparisons], AbstractContextManager[Engine]],
        progress: Progress | None = None,
    ) -> Estimate:
        """Estimate the scores of a trusted panel; `open_engine` holds votes by panel and judge."""
        raise RequestError(f"{self.name} has no trusted votes; sift has")

    def boards(self, votes: Comparisons) -> Boards | None:
        """Return the contexts of votes if the model lets them learn from each other."""
        return None

    def estimate_votes(self, engine: Engine, votes: Comparisons, progress: Progress | None = None) -> Estimate:
        """Fit the votes, with the features of votes or items if there are any and it takes them."""
        self.refuse_votes(votes)
        if votes.features is not None and self.takes_covariates:
            return self.estimate_with_covariates(engine, votes, progress)
        if votes.item_features is None or not self.takes_items:
            return self.estimate(engine, progress)
        return self.estimate_with_items(engine, votes.item_features, progress)

    def estimate_with_covariates(
        self, engine: Engine, votes: Comparisons, progress: Progress | None = None
    ) -> Estimate:
        """Fit the model with the features of the votes, if it learns coefficients for them."""
        raise RequestError(f"{self.name} has no coefficients of covariates; sift has")

    def resume(self, engine: Engine, start: Start, progress: Progress | None = None) -> Estimate:
        """Fit the model from the end of an earlier fit, or from an interrupted one."""
        return self.estimate(engine, progress, start)

    def rescore(self, engine: Engine, start: Start, *, decide: bool) -> tuple[Vector, Start] | None:
        """Score almost the same votes for a search; return where to continue, or None to fit from the beginning."""
        # Terms that the evidence keeps are decided again only if `decide` is set.
        return None

    def estimate_in_groups(
        self, engine: Engine, groups: GroupedVotes, whole: Engine, before: Estimate, progress: Progress | None = None
    ) -> Estimate | None:
        """Fit with an effect of groups of votes; return None if the evidence does not support one."""
        # In `engine` an item in a group is a separate item; `whole` and `before` are without groups.
        return None

    @abstractmethod
    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        """Return the log-likelihood of the engine's votes at an estimate from other votes."""

    def left_out_votes(self, engine: Engine, votes: Comparisons, estimate: Estimate) -> float:
        """Return `left_out` for votes whose covariates the estimate may need."""
        return self.left_out(engine, estimate)

    def mirrored(self, theta: Vector, level: float) -> Vector:
        """Return the workers' parameters for -r; `level` is the reliability of random clicks."""
        return 2.0 * level - theta

    @abstractmethod
    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        """Return P(first over second) for a difference of scores and a worker's reliability."""

    @property
    def tie_column(self) -> str:
        """Return the column of the workers' table that determines how often they tie."""
        return "tie_rate"

    def outcome_probabilities(
        self,
        difference: Vector,
        reliability: Vector,
        tie: Vector,
        side: Vector | float = 0.0,
        side_variance: Vector | float = 0.0,
        offset: Vector | float = 0.0,
    ) -> Outcomes:
        """Return P(win), P(tie) and P(loss) of the first item; arrays broadcast."""
        # `tie` is the workers' parameter in the column `tie_column`: in this class, where a tie is half a win, the rate
        # of ties. `side` and `side_variance` are the mean and variance of a side bias, and `offset` is the contribution
        # of other dimensions to the log odds; this class uses none of them. It is unknown which item stands on which
        # side: both placements are equally likely.
        return half_win(self.probability(difference, reliability), tie)


def mirror(model: Model, estimate: Estimate) -> Estimate:
    """Return the estimate with the sign of all scores, and of everything that depends on it, reversed."""
    pairs, points, apart = estimate.pairs, estimate.points, estimate.in_context
    population, sites, sign = estimate.population, estimate.sites, estimate.sign
    return replace(
        estimate,
        scores=0.0 - estimate.scores,
        theta=model.mirrored(estimate.theta, estimate.workers.random_level),
        points=None if points is None else _points(points),
        in_context=None if apart is None else apart._replace(points=_points(apart.points)),
        workers=_workers(estimate.workers),
        sign=None if sign is None else sign.mirrored(),
        pairs=None if pairs is None else pairs._replace(mean=0.0 - pairs.mean),
        population=None if population is None else mirrored_population(population),
        sites=None if sites is None else sites._replace(nu=-sites.nu),
        features=None if estimate.features is None else estimate.features.mirrored(),
        dimensions=None if estimate.dimensions is None else estimate.dimensions.mirrored(),
        common=None if estimate.common is None else mirror(model, estimate.common),
    )


def _points(points: WorkerPoints) -> WorkerPoints:
    return points._replace(reliability=0.0 - points.reliability)


def _workers(workers: WorkerEstimate) -> WorkerEstimate:
    """Return the workers with reliabilities mirrored about the random level, adversarial and informative exchanged."""

    def turned(values: Vector | None) -> Vector | None:
        return None if values is None else 2.0 * workers.random_level - values

    quantiles, classes = turned(workers.quantiles), workers.class_evidence
    n_classes = 0 if classes is None else classes.shape[1]
    return replace(
        workers,
        reliability=turned(workers.reliability),
        reliability_lower=turned(workers.reliability_upper),
        reliability_upper=turned(workers.reliability_lower),
        quantiles=None if quantiles is None else quantiles[:, ::-1].copy(),
        class_evidence=None if classes is None else classes[:, [2, 1, 0, *range(3, n_classes)]],
    )
