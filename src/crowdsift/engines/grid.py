"""The passes of expectation propagation over a grid of worker types.

A worker is of a type t: its reliability is a point β_t of a symmetric grid of 2H + 1 points, told
by the H positive levels. A prior over types has 2H + 1 entries in the order of rising β. Every
vote has a Gaussian site exp(-A d²/2 + h d) on the difference d = score of its winner less that
of its loser; sites and what is needed to form cavities live in the engine, only vectors over
items, workers and types travel.

A vote of weight n stands for n equal votes with equal sites, so n·A, n·h and n·log Z count and a
cavity removes one of them. An outcome y strictly between 0 and 1 is a win of weight n·y and a loss
of weight n·(1 - y), each with a site of its own: a tie is half a win and half a loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines import Vector

__all__ = [
    "SMOOTHING",
    "GridSites",
    "PairPosteriors",
    "PairVariances",
    "SiteUpdate",
    "TypePosteriors",
    "mirrored",
]

# E[σ(βd)] ≈ σ(βm/√(1 + c β² v)) for d ~ N(m, v), with c = π/8.
SMOOTHING = 3.14159 / 8.0
# Denominators 1 - AV and 1 - νv are at least this; below, EP would leave the proper Gaussians.
LEAST_DENOMINATOR = 0.05


class SiteUpdate(NamedTuple):
    """What a pass over all votes says.

    `counts` is Σ_s q_s(t) over the workers with votes, `log_messages` is
    Σ_s log Σ_t prior_t Π_i Z_it, `log_sites` is Σ_i log Z̃_i of the sites before the update,
    `log_pairs` what the pair effect adds to the evidence before it, `rhs` the signed sums of h per
    item after it.
    """

    counts: Vector
    log_messages: float
    log_sites: float
    log_pairs: float
    rhs: Vector


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

    `points` (workers x types) are the reliabilities, `masses` their posterior probabilities.
    """

    points: Vector
    masses: Vector


class GridSites(Protocol):
    """The sites of one run of expectation propagation and the passes that move them."""

    def reset(self, variance: float) -> None:
        """All sites 0, the variance of every compared pair as given, no worker refined.

        There is no pair effect.
        """

    def copy(self) -> GridSites:
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
        self, levels: Vector, prior: Vector, means: Vector, *, damping: float, clip: bool
    ) -> SiteUpdate:
        """Messages of workers to their types and from types to sites, in one pass over votes.

        Cavities v = V/(1 - AV), m = (E - Vh)/(1 - AV) from the pairs' variances V and the
        differences E of `means`. With k = 1/√(1 + cβ²v) and Z = σ(kβm), q(t) ∝ prior_t Π Z^n;
        α = Σ q (1 - Z) βk, ν = α² - Σ q (1 - Z)(1 - 2Z)(βk)²; the new site is
        A = ν/(1 - νv), h = (α + νm)/(1 - νv), of which `damping` is taken and the rest kept.
        With `clip` ν is at least 0. Refreshes the Laplacian with n·A. Keeps Π Z^n.
        """

    def type_counts(self, prior: Vector) -> Vector:
        """`counts` for another prior and the messages of the last pass."""

    def posteriors(self, prior: Vector, begin: int, end: int) -> TypePosteriors:
        """Posterior over types of the workers from `begin` to `end`, after the last pass."""

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

    def rescale(self, factor: float, *, levels: bool) -> None:
        """Sites for scores divided by the factor: A·factor², h·factor, variances alike.

        `levels` says whether the own levels of refined workers are multiplied, too.
        """

    def correlate(self, x: Vector) -> Vector:
        """(XᵀX - L(e²)) x: the row of X of a worker is Σ_i n_i e_i (first - second as units).

        e_i = 2y - 1, less its mean over the worker's votes where sides are known. Taking L(n e²)
        away leaves the products of different votes only.
        """

    def correlation_degrees(self) -> Vector:
        """The diagonal of L(n e²)."""

    def mixture_likelihood(self, scores: Vector, variances: Vector, points: Vector) -> float:
        """Σ n log of the mean over a worker's points β of σ(βd/√(1 + cβ²v)).

        v is the sum of the variances of the two items; `points` has one row a worker.
        """

    def pair_likelihood(self, differences: Vector, variances: Vector, points: Vector) -> float:
        """The same for differences and variances of the pairs, as `pair_posteriors` has them."""


def mirrored(levels: Vector) -> Vector:
    """The signed grid of positive levels: their negatives, 0, and themselves."""
    return np.concatenate([-levels[::-1], [0.0], levels])
