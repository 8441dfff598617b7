"""Passes over votes in several dimensions: z = a·(x_first - x_second) + γ.

Positions x are items x D. The weights of a worker are a and, where sides are used, γ after them: E numbers. The
covariance of positions is one matrix of (items x D) rows, or a D x D block per item. A vote has the outcomes of Rao and
Kupper with the tie width of its worker. Every pass takes a part of the votes: all, those kept, or those left out (one
of seven, by a hash; gold is never left out).
"""

from enum import IntEnum
from typing import NamedTuple, Protocol

from crowdsift.engines.kinds import Items, Operator, Total, Totals, Workers
from crowdsift.numeric import Vector

MAX_DIMENSIONS = 8


class Part(IntEnum):
    """A subset of the votes."""

    ALL = 0
    KEPT = 1
    LEFT_OUT = 2


class Crowd(NamedTuple):
    """The prior of weights: N(mean, precision⁻¹), mirrored (a, not γ), random (a = 0), one-sided.

    `log_shares` are the log probabilities of the four classes in this order; `one_sided` is the precision of γ of
    one-sided workers, `gold` that of the weights of gold.
    """

    mean: Vector
    precision: Vector
    log_shares: Vector
    one_sided: float
    gold: float


class DimensionUpdate(NamedTuple):
    """What a pass of variational Bayes over workers returns.

    It has the means and second moments of the weights of each worker, and the probabilities of its classes;
    `population` holds sums over workers: shares of the classes, then first and second moments of the weights of the
    population, mirrored ones reversed. `bound` is that of the evidence without the part of the items. Items receive
    `rhs` and the matrix `system`, whose diagonal is a D x D block per item.
    """

    weights: Workers
    second: Workers
    shares: Workers
    population: Totals
    bound: Total
    rhs: Items
    system: Operator


class Dimensions(Protocol):
    """Passes over votes in several dimensions."""

    def update(
        self,
        positions: Items,
        covariance: Items,
        crowd: Crowd,
        weights: Workers,
        second: Workers,
        width: Workers,
        ties: bool,
        part: int,
        caution: float,
    ) -> DimensionUpdate:
        """Update the weights of every worker, from its moments before.

        The curvature of a vote is the expected one, and with `caution` 1 that of the bound of Jaakkola and Jordan.
        """

    def residuals(
        self, positions: Items, weights: Workers, width: Workers, taken: Workers, ties: bool, part: int
    ) -> Operator:
        """Return Σ_s (u u' - Σ r² e e'), r the residuals of a worker's votes and u = Σ r e.

        Sums go over the workers whose entry in `taken` is not 0. In products with several columns half the votes are
        reversed in all columns but the first, to measure what arises by chance. The diagonal is that of Σ r² e e'.
        """

    def log_probability(
        self,
        positions: Items,
        covariance: Items,
        weights: Workers,
        second: Workers,
        width: Workers,
        ties: bool,
        part: int,
    ) -> tuple[Total, Total]:
        """Return the log-probability of votes, gold apart, and their weight."""

    def class_evidence(
        self, positions: Items, covariance: Items, crowd: Crowd, weights: Workers, width: Workers, ties: bool
    ) -> Workers:
        """Return log mean likelihoods of mirrored, random, population and one-sided weights.

        By Laplace's approximation; the last column is there if the weights have a side.
        """

    def response(
        self, positions: Items, crowd: Crowd, weights: Workers, shares: Workers, width: Workers, ties: bool, whole: bool
    ) -> Totals:
        """Return minus the second derivatives of the log-posterior, prior of positions apart.

        In the positions (items x D rows), μ with the mean side (E) and the weights of gold (D); the weights of the
        other workers are eliminated. If not `whole`, only the block of every item, (items x D) x D, with the weights
        of gold as they are.
        """
