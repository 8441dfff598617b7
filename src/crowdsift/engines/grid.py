"""Expectation propagation over a grid of worker types: what an engine offers.

A regular worker is of a type (β, δ): its reliability is a point of a symmetric grid of 2H + 1 points, given by the H
positive levels; its tie width is one of D widths. Where sides are used it also has a side bias γ ~ N(g0, t²), and there
are side-only types, which do not depend on the items. A prior over types has D·(2H + 1) + P entries: for every width
the reliabilities in rising order, then the side-only types.

Let d be the score of the winner less that of the loser, x = +1 if the winner stood first, else -1, and z = βd + xγ
(side-only types: z = xγ_t). A vote for the winner has the probability σ(z - δ), one for the loser σ(-z - δ), a tie the
rest (Rao and Kupper 1967). For a tie "winner" is the first item. Without ties δ is 0.

Every vote has a Gaussian site exp(-τd²/2 + νd) on d (precision τ, precision-mean ν) and, where sides are used, one on
γ; sites and what is needed to form cavities live in the engine. A vote of weight n stands for n equal votes with equal
sites, so n·τ, n·ν and n·log Z count and a cavity removes one of them. Where ties are no outcome, a y strictly between 0
and 1 is a win of weight n·y and a loss of weight n·(1 - y), each with a separate site.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from crowdsift.engines.kinds import (
    Items,
    Operator,
    PairCodes,
    Pairs,
    Rows,
    Shared,
    Total,
    Totals,
    VoteCodes,
    Votes,
    WorkerCounts,
    WorkerMask,
    Workers,
    changes,
    first_shard,
)
from crowdsift.numeric import Vector

# Denominators 1 - τV and 1 - λv are at least this; below it there is no proper Gaussian.
LEAST_DENOMINATOR = 0.05
# A dense factorisation of this many items takes a tenth of a second, and a sparse one of this many multiplications too.
MAX_DENSE_ITEMS, MAX_FACTOR_WORK = 1_200, 5e7


class WorkerTypes(NamedTuple):
    """The shape of the grid of types: the parameters of a worker besides its reliability.

    `widths` are the tie widths δ, a single 0 where ties are no outcome; `side_only` and `side_only_widths` are γ and δ
    of the side-only types; `sides` says whether regular workers have a γ.
    """

    widths: Vector
    side_only: Vector
    side_only_widths: Vector
    sides: bool

    @property
    def ties(self) -> bool:
        """Return whether a tie is an outcome."""
        return bool(self.widths[0] > 0.0)

    def n_types(self, levels: Vector) -> int:
        """Return the number of types for these positive levels of reliability."""
        return len(self.widths) * (2 * len(levels) + 1) + len(self.side_only)


RELIABILITY_ONLY = WorkerTypes(np.zeros(1), np.empty(0), np.empty(0), False)


class SidePrior(NamedTuple):
    """The side bias of regular workers: γ ~ N(mean, variance); a variance of 0 is allowed."""

    mean: float = 0.0
    variance: float = 0.25


class WorkerPriors(NamedTuple):
    """A separate prior for every worker except gold: over types, and of the side bias."""

    masses: Workers  # workers x types
    side_mean: Workers
    side_variance: Workers


class SitePass(NamedTuple):
    """The input of a pass over all votes: the positive levels, the prior over types, the scores of items.

    `side` is the prior of the side bias, `damping` the share of the new sites that is taken, `clip` whether precisions
    stay nonnegative. `own` replaces the prior and that of the side for every worker but gold. With `workers` the sites
    of those that are not marked stay, and the results are of the marked ones alone.
    """

    levels: Vector
    prior: Vector
    means: Items
    side: SidePrior
    damping: float
    clip: bool
    own: WorkerPriors | None = None
    workers: WorkerMask | None = None


class SiteUpdate(NamedTuple):
    """The result of a pass over all votes.

    `counts` is Σ_s q_s(t) over the workers with votes, `log_messages` is Σ_s log Σ_t prior_t Π_i Z_it, `log_sites` is
    Σ_i log Z̃_i of the sites before the update, `gold_margin` the log-odds that gold is right and not reversed. Of
    every worker: `regular`, the probability of being of a regular type (0 without votes and for gold), `side_tau` and
    `side_nu`, Σ n·τ and Σ n·ν of the sites of γ after the update.
    """

    counts: Totals
    log_messages: Total
    log_sites: Total
    gold_margin: Total
    regular: Workers
    side_tau: Workers
    side_nu: Workers


class SiteSystem(NamedTuple):
    """The system of the items from the sites: the Laplacian of n·τ, the signed sums of n·ν per item.

    `log_pairs` is the part of the pair effect in the evidence.
    """

    laplacian: Operator
    rhs: Items
    log_pairs: Total


class PairPosteriors(NamedTuple):
    """Posterior of the difference, first less second item, of compared pairs, effect included.

    `slope` is the derivative of the evidence in the variance of the pair effect, `information` the expected decrease of
    the slope, ignoring information between pairs.
    """

    first: PairCodes
    second: PairCodes
    mean: Pairs
    variance: Pairs
    slope: Total
    information: Total


class Messages(NamedTuple):
    """A sweep of belief propagation: new messages, their sums per item, and convergence.

    `unsettled` is how many messages moved by more than the tolerance, `improper` how many pairs had no proper Gaussian.
    Of a last sweep also the pairs' part of log|L + I|, the number of pairs of every item, and the variances of pairs
    that several shards have.
    """

    sums: Items
    unsettled: Total
    improper: Total
    log_determinant: Total
    degrees: Items
    shared: Shared


class PairVariances(NamedTuple):
    """Diagonal of (L + I)⁻¹, log|L + I|, and whether the matrix was positive definite."""

    items: Vector
    log_determinant: float
    definite: bool


class TypePosteriors(NamedTuple):
    """Posterior over types of some workers: each has its adaptive grid where it was refined.

    `points` (workers x (2H + 1)) are the reliabilities, `masses` (workers x types) the posterior probabilities of the
    types.
    """

    points: Workers
    masses: Workers


class WorkerPoints(NamedTuple):
    """Posteriors of workers given by points of equal probability, one row per worker each.

    Reliability β, tie width δ, and mean and variance of the side bias γ.
    """

    reliability: Workers
    width: Workers
    side: Workers
    side_variance: Workers


class VoteSites(NamedTuple):
    """The sites of votes, and the votes themselves, ordered by worker.

    `held` is the number of votes of each worker. `kind` is 1 where the first item won, -1 where the second did, 2 for a
    tie. `tau` and `nu` are those of the difference, `side_tau` and `side_nu` of γ, 0 where there is none. A worker's
    adaptive grid is evenly spaced from `low` to `high`, NaN where it has none.
    """

    held: WorkerCounts
    winner: VoteCodes
    loser: VoteCodes
    kind: Votes
    tau: Votes
    nu: Votes
    side_tau: Votes
    side_nu: Votes
    low: Workers
    high: Workers


class TypeSites(Protocol):
    """The passes between votes and the types of their workers."""

    @changes
    def update(self, given: SitePass) -> SiteUpdate:
        """Return messages of workers to their types and from types to sites, in one pass over votes.

        Cavities v = V/(1 - τV), m = (E - Vν)/(1 - τV) from the pairs' posterior means E and variances V; those of γ
        alike, from D = 1 + t²Σnτ_γ, V = t²/D and G = (g0 + t²Σnν_γ)/D. With c = π/8, k = 1/√(1 + c(β²v + v_γ)) and z =
        βm + x·m_γ (side-only types: k = 1, z = xγ_t), p1 = σ(k(z - δ)) and p2 = σ(k(-z - δ)): Z = p1 for a win and
        (e^{2kδ} - 1) p1 p2 for a tie. q(t) ∝ prior_t Π Z^n; regular types gain the evidence of γ, -½log D + ½(t²ν² +
        2g0ν - g0²τ)/D - Σ n log Z̃_γ with τ, ν the worker's sums.

        e = 1 - p1 and f = (1 - p1)(1 - 2p1) for a win, e = p2 - p1 and f = e² - p1(1 - p1) - p2(1 - p2) for a tie; α =
        Σ q e βk, λ = α² - Σ q f (βk)²; the new site is τ = λ/(1 - λv), ν = (α + λm)/(1 - λv), of which `damping` is
        taken and the rest kept. With `clip` λ is at least 0. For γ the same with k instead of βk, q given that the
        worker is regular, the sign x, and λ always at least 0. Π Z^n is kept for `type_counts` and `posteriors`.

        """

    def type_counts(self, prior: Vector) -> Totals:
        """Return `counts` for another common prior and the messages of the last pass."""

    def posteriors(self, prior: Vector, rows: Rows, own: WorkerPriors | None = None) -> TypePosteriors:
        """Return posterior over types of a range of workers, after the last pass."""

    @changes
    def refine(self) -> Total:
        """Give an adaptive grid to workers whose likelihood is narrower than the common grid.

        Returns how many workers' grids moved.
        """


class RunSites(TypeSites, Protocol):
    """The sites of one run of expectation propagation: the passes, and the system of the items."""

    n_votes: Total  # votes with a site: a soft outcome counts as two, equal votes count as one
    n_pairs: Total  # compared pairs of items
    pairs_held: Total  # the same including those that another shard owns

    def pair_sums(self) -> Shared:
        """Return Σ n·τ and Σ ±n·ν of pairs that several shards have, a row per pair."""

    @changes
    def system(self, shared: Shared, pair_effect: float = 0.0) -> SiteSystem:
        """Return the items' system from the current sites and the `pair_sums` of all shards.

        Every pair's difference also has an effect u ~ N(0, s), where s is `pair_effect`. With a = Σ n·τ, H = Σ ±n·ν of
        a pair and D = 1 + s·a, at least `LEAST_DENOMINATOR`, the Laplacian gets a/D and rhs the signed H/D. Later
        cavities start from E = (E_r + s·H)/D and V = V_r/D² + s/D, where E_r and V_r are those of the scores alone. The
        evidence gains Σ ½(s·H²/D - log D).
        """

    @changes
    def transform(self, *, scale: float = 1.0, flip: bool = False, clip: bool = False, grids: bool = False) -> None:
        """Convert the sites to scores divided by `scale`, reversed by `flip`, with τ ≥ 0 by `clip`.

        The pair effect of the last `system` and, with `grids`, adaptive grids take up the scale.
        """

    def copy(self) -> Self:
        """Return an independent copy."""

    @changes
    def suspend(self) -> None:
        """Release memory that can be filled again: messages, and variances of pairs."""


class PairSites(Protocol):
    """Posteriors of the differences of compared pairs, which cavities start from."""

    def pair_posteriors(self, means: Items) -> PairPosteriors:
        """Return E and V of every pair; the slope is ½Σ[(H - a·E)² + a²·V - a].

        The information is ½Σ(a - a²·V)²: but for its own votes a pair's difference has the variance C = V/(1 - a·V),
        the pair effect included, and a/(1 + a·C) is a - a²·V.
        """

    @changes
    def set_pair_variances(self, variances: Pairs | None = None, shared: Shared | None = None) -> None:
        """Set the variances of differences, in the order of `pair_posteriors`, or of shared pairs only."""

    @changes
    def propagate(self, precision: Items, settled: Items, *, fresh: bool = False, last: bool = False) -> Messages:
        """Sweep belief propagation over the pairs of the last `system`, for `loopy_bp`.

        With W the weight of a pair and M its messages to its ends, l = precision + M is the precision of an end without
        the pair, and the new messages are W²/l of the other end. `settled` is the largest change of a message that
        counts as converged. A fresh sweep starts from no messages, any other from those of the sweep before. The last
        sweep leaves messages as they are and sets the variances of pairs to (l_a + l_b - 2W)/(l_a l_b - W²); its
        `log_determinant` is Σ log(l_a l_b - W²).
        """


@runtime_checkable
class GridSites(RunSites, PairSites, Protocol):
    """The sites that an engine makes; the sites of single votes can be read and replaced."""

    def vote_sites(self) -> VoteSites:
        """Return the current sites, in single precision."""

    @changes
    def set_vote_sites(self, sites: VoteSites, half: int) -> None:
        """Replace the sites, in the order of `vote_sites`, and set grids of `half` positive points."""

    def pair_likelihood(self, differences: Pairs, variances: Pairs, points: WorkerPoints) -> Total:
        """Return Σ n log of the mean of Z over a worker's points.

        For differences and variances of the pairs, in the order of `pair_posteriors`.
        """


# A function from weights of pairs to the variances of items and of pairs under L + I, its log-determinant, and whether
# it is positive definite.
Factoriser = Callable[["Vector"], tuple["Vector", "Vector", float, bool]]


class Grid(Protocol):
    """Expectation propagation."""

    def sites(self, types: WorkerTypes, variance: float) -> GridSites:
        """Create sites, all 0, with that variance of the difference of every compared pair."""

    def correlations(self) -> Operator:
        """Return XᵀX - L(n e²), for a start that needs no guess of who is reliable.

        The row of X of a worker is Σ_i n_i e_i (first - second as units), e_i = 2y - 1, less its mean over the worker's
        votes where sides are known. Taking L(n e²) away leaves the products of different votes only. The stated
        diagonal is that of L(n e²).
        """

    @first_shard
    def factoriser(self, low: Vector, high: Vector, n_items: int, most: float) -> Factoriser | None:
        """Return a factorisation that gives exact variances under L + I for any weights of these pairs.

        Return None if that takes more than `most` multiplications. A pair may occur more than once.
        """


def mirrored(levels: Vector) -> Vector:
    """Return the signed grid of positive levels: their negatives, 0, and themselves."""
    return np.concatenate([-levels[::-1], [0.0], levels])
