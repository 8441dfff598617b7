"""The passes of expectation propagation over a grid of worker types.

A regular worker is of a type (β, δ): its reliability is a point of a symmetric grid of 2H + 1
points, told by the H positive levels; its tie width is one of D widths. Where sides are used it
also has a side habit γ ~ N(g0, t²), and there are types that see nothing but the side ("pure").
A prior over types has D·(2H + 1) + P entries: for every width the reliabilities in rising order,
then the pure types.

With d = score of the winner less that of the loser, x = +1 if the winner stood first, else -1,
and z = βd + xγ (pure types: z = xγ_t), a vote for the winner has the probability σ(z - δ), one
for the loser σ(-z - δ), a tie the rest (Rao and Kupper 1967). For a tie "winner" is the first
item. Without ties δ is 0.

Every vote has a Gaussian site exp(-A d²/2 + h d) on d and, where sides are used, one on γ; sites
and what is needed to form cavities live in the engine, only vectors over items, workers and types
travel. A vote of weight n stands for n equal votes with equal sites, so n·A, n·h and n·log Z count
and a cavity removes one of them. Where ties are no outcome, a y strictly between 0 and 1 is a win
of weight n·y and a loss of weight n·(1 - y), each with a site of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

__all__ = [
    "NO_HABIT",
    "PLAIN",
    "GridSites",
    "Habits",
    "PairPosteriors",
    "PairVariances",
    "RunSites",
    "SidePrior",
    "SideSums",
    "SiteUpdate",
    "TypePosteriors",
    "VoteSites",
    "WorkerPoints",
    "WorkerPriors",
    "mirrored",
]

# Denominators 1 - AV and 1 - νv are at least this; below, EP would leave the proper Gaussians.
LEAST_DENOMINATOR = 0.05


class Habits(NamedTuple):
    """What workers may have beside a reliability: the shape of the grid of types.

    `widths` are the tie widths δ, a single 0 where ties are no outcome; `pure_sides` and
    `pure_widths` are γ and δ of the pure types; `sides` says whether regular workers have a γ.
    """

    widths: Vector
    pure_sides: Vector
    pure_widths: Vector
    sides: bool

    @property
    def ties(self) -> bool:
        """Whether a tie is an outcome."""
        return bool(self.widths[0] > 0.0)

    def n_types(self, levels: Vector) -> int:
        """How many types there are for these positive levels of reliability."""
        return len(self.widths) * (2 * len(levels) + 1) + len(self.pure_sides)


PLAIN = Habits(np.zeros(1), np.empty(0), np.empty(0), False)


class SidePrior(NamedTuple):
    """The side habit of regular workers: γ ~ N(mean, variance)."""

    mean: float = 0.0
    variance: float = 0.25


NO_HABIT = SidePrior()


class WorkerPriors(NamedTuple):
    """A prior of its own for every worker but known ones: over types, and of the side habit."""

    masses: Vector  # workers x types
    side_mean: Vector
    side_variance: Vector


class SideSums(NamedTuple):
    """Over workers with votes, ω the probability of being regular: Σω, ΣωG, Σω(G² + V)."""

    weight: float
    first: float
    second: float


class SiteUpdate(NamedTuple):
    """What a pass over all votes says.

    `counts` is Σ_s q_s(t) over the workers with votes, `log_messages` is
    Σ_s log Σ_t prior_t Π_i Z_it, `log_sites` is Σ_i log Z̃_i of the sites before the update,
    `log_pairs` what the pair effect adds to the evidence before it, `rhs` the signed sums of h per
    item after it, `known_margin` the log-odds
    that known workers are right and not reversed, `sides` what side habits add up to.
    """

    counts: Vector
    log_messages: float
    log_sites: float
    log_pairs: float
    rhs: Vector
    known_margin: float
    sides: SideSums


class PairVariances(NamedTuple):
    """Diagonal of (L + I)⁻¹, log|L + I|, and whether the matrix was positive definite."""

    items: Vector
    log_determinant: float
    definite: bool


class PairPosteriors(NamedTuple):
    """Posterior of the difference, first less second item, of compared pairs, effect included.

    `slope` is the derivative of the evidence in the variance of the pair effect.
    """

    first: NDArray[np.uint32]
    second: NDArray[np.uint32]
    mean: Vector
    variance: Vector
    slope: float


class TypePosteriors(NamedTuple):
    """Posterior over types of some workers: each has its own levels where it was refined.

    `points` (workers x (2H + 1)) are the reliabilities, `masses` (workers x types) the posterior
    probabilities of the types.
    """

    points: Vector
    masses: Vector


class WorkerPoints(NamedTuple):
    """Posteriors of workers told by points of equal probability, one row a worker each.

    Reliability β, tie width δ, and mean and variance of the side habit γ.
    """

    reliability: Vector
    width: Vector
    side: Vector
    side_variance: Vector


class VoteSites(NamedTuple):
    """The sites of votes, and the votes themselves, one entry a vote; own levels by worker.

    `kind` is 1 where the first item won, -1 where the second did, 2 for a tie. `precision` and
    `pull` are A and h of the difference, `side_precision` and `side_pull` those of γ, 0 where there
    is none. A worker's own levels are evenly spaced from `low` to `high`, NaN where it has none.
    """

    worker: NDArray[np.uint32]
    winner: NDArray[np.uint32]
    loser: NDArray[np.uint32]
    kind: NDArray[np.int8]
    precision: NDArray[np.float32]
    pull: NDArray[np.float32]
    side_precision: NDArray[np.float32]
    side_pull: NDArray[np.float32]
    low: Vector
    high: Vector


class RunSites(Protocol):
    """The sites of one run of expectation propagation and the passes that move them."""

    def reset(self, variance: float) -> None:
        """All sites 0, the variance of every compared pair as given, no worker refined.

        There is no pair effect, and no worker has a prior of its own.
        """

    def suspend(self) -> None:
        """Give back memory that can be filled again.

        Before the next pass: `refresh`, then `pair_variances` or `set_pair_variances`.
        """

    def set_pair_variances(self, variances: Vector) -> None:
        """Variances of the compared pairs, in the order of `pair_posteriors`."""

    @property
    def n_pairs(self) -> int:
        """How many pairs of items are compared."""

    def flip(self) -> Vector:
        """The sites for scores of the other sign, then `refresh`."""

    def copy(self) -> Self:
        """The same sites once more; the Laplacian is shared."""

    def set_pair_effect(self, variance: float) -> Vector:
        """Add u ~ N(0, s) to the difference of every pair, one u a pair, then `refresh`.

        With a = Σ n·A, H = Σ ±n·h of a pair and D = 1 + s·a, at least `LEAST_DENOMINATOR`: the
        Laplacian gets a/D, rhs the signed H/D; cavities start from E = (E_r + s·H)/D and
        V = V_r/D² + s/D, where E_r and V_r are those of the scores alone; the evidence gains
        Σ ½(s·H²/D - log D).
        """

    def pair_posteriors(self, means: Vector) -> PairPosteriors:
        """E and V of every pair; the slope is ½Σ[(H - a·E)² + a²·V - a]."""

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
        """Messages of workers to their types and from types to sites, in one pass over votes.

        Cavities v = V/(1 - AV), m = (E - Vh)/(1 - AV) from the pairs' variances V and the
        differences E of `means`; those of γ alike, from V = 1/(1/t² + Σ n·A_γ) and
        G = V(g0/t² + Σ n·h_γ). With k = 1/√(1 + c(β²v + v_γ)) and z = βm + x·m_γ (pure types:
        k = 1, z = xγ_t), p1 = σ(k(z - δ)) and p2 = σ(k(-z - δ)): Z = p1 for a win and
        (e^{2kδ} - 1) p1 p2 for a tie. q(t) ∝ prior_t Π Z^n; regular types gain the evidence of γ,
        ½log(V/t²) + ½G²/V - ½g0²/t² - Σ n log Z̃_γ.

        e = 1 - p1 and f = (1 - p1)(1 - 2p1) for a win, e = p2 - p1 and
        f = e² - p1(1 - p1) - p2(1 - p2) for a tie; α = Σ q e βk, ν = α² - Σ q f (βk)²; the new
        site is A = ν/(1 - νv), h = (α + νm)/(1 - νv), of which `damping` is taken and the rest
        kept. With `clip` ν is at least 0. For γ the same with k instead of βk, q given that the
        worker is regular, the sign x, and ν always at least 0. Refreshes the Laplacian with n·A.
        Keeps Π Z^n.
        """

    def type_counts(self, prior: Vector) -> Vector:
        """`counts` for another prior and the messages of the last pass."""

    def posteriors(self, prior: Vector, begin: int, end: int) -> TypePosteriors:
        """Posterior over types of the workers from `begin` to `end`, after the last pass."""

    def sides(self) -> tuple[Vector, Vector]:
        """G and V of every worker's side habit, as the last pass found them."""

    def refine(self) -> int:
        """Give workers whose likelihood is narrower than the grid levels of their own.

        Returns how many workers' levels moved.
        """

    def pair_variances(self, *, exact: bool) -> PairVariances:
        """Variances of compared pairs under the precision L + I, kept for the next update.

        `exact` asks for a factorisation where one is possible in reasonable time; otherwise one
        is used only where it is cheap, and belief propagation elsewhere.
        """

    def refresh(self) -> Vector:
        """Put the sites into the Laplacian once more; return their `rhs`."""

    def drop_negative(self) -> Vector:
        """Raise negative precisions of sites to 0, then `refresh`."""

    def rescale(self, factor: float) -> None:
        """All for scores divided by the factor: A·factor², h·factor, variances alike.

        Own levels of workers and the pair effect follow. Then `refresh`.
        """

    def hold_scale(self, factor: float, rhs: Vector) -> Vector:
        """Sites and variances for scores divided by the factor, nothing else; then `refresh`.

        The Laplacian is that of these sites and `rhs` theirs, so there is less to do.
        """

    @property
    def n_votes(self) -> int:
        """How many votes have a site: a soft outcome counts as two, equal votes as one."""

    def vote_sites(self) -> VoteSites:
        """The sites as they stand, in single precision, in the engine's order of votes."""


class GridSites(RunSites, Protocol):
    """Sites of an engine: they can be set, searched for a start, and given priors by worker."""

    def set_vote_sites(self, given: VoteSites, half: int) -> None:
        """Sites in the order of `vote_sites`, own levels of `half` points; then `refresh`."""

    def update_some(self, workers: NDArray[np.bool_], levels: Vector, prior: Vector, means: Vector,
                    *, clip: bool, side: SidePrior = NO_HABIT) -> Vector:  # fmt: skip
        """`update` for the votes of these workers alone, undamped; returns `rhs` of all.

        Messages of the others are then not those of these sites: a whole pass must follow. It
        counts as the share of a pass that these votes are of all.
        """

    def set_worker_priors(self, priors: WorkerPriors | None) -> None:
        """Priors that workers have of their own from now on; None: the common ones again.

        `update` and `posteriors` then use them in place of those they are given, which must still
        fit; `type_counts` is for a common prior only.
        """

    def correlate(self, x: Vector) -> Vector:
        """(XᵀX - L(e²)) x: the row of X of a worker is Σ_i n_i e_i (first - second as units).

        e_i = 2y - 1, less its mean over the worker's votes where sides are known. Taking L(n e²)
        away leaves the products of different votes only.
        """

    def correlation_degrees(self) -> Vector:
        """The diagonal of L(n e²)."""

    def pair_likelihood(self, differences: Vector, variances: Vector, points: WorkerPoints
                        ) -> float:  # fmt: skip
        """Σ n log of the mean of Z over a worker's points.

        For differences and variances of the pairs, in the order of `pair_posteriors`.
        """


def mirrored(levels: Vector) -> Vector:
    """The signed grid of positive levels: their negatives, 0, and themselves."""
    return np.concatenate([-levels[::-1], [0.0], levels])
