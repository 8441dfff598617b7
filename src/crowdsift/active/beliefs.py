"""Gaussian beliefs about scores, and what they imply for the order.

Two items with a difference d ~ N(m, s²) end in the wrong order with a probability that, once the remaining uncertainty
is f, averages ∫ p(d) Φ(-|d|/f) dd ≈ p(0) f √(2/π). Its derivative by f² is w = p(0) / (√(2π) s) at f = s: the value of
removing a unit of variance from that pair. A vote on (a, b) of precision A reduces the variance of the pair with
contrast u by A (uᵀ Σ x)² / (1 + A V), where x = e_a - e_b and V = xᵀ Σ x; over all pairs the value is A / (1 + A V) ·
xᵀ Σ L Σ x, L the Laplacian of the weights w. That is the expected number of pairs put right, to first order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, tanh
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Indices, Mask, Vector
from crowdsift.numeric.likelihoods import sigmoid, smoothing

_LEVEL = 1.0  # prior variance of the level of an island, equal to that of a score
_SAMPLED = 4_000  # items that represent all in sums over pairs
_TINY = 1e-12


class Batch(Protocol):
    """Candidate pairs while a batch is chosen: variances V and values xᵀΣLΣx, kept up to date."""

    variance: Vector
    worth: Vector

    def take(self, place: int, precision: float) -> None:
        """Update the candidates for a vote of that precision on one of them."""
        ...


class Belief(Protocol):
    """Means of scores with a representation of their covariance."""

    mean: Vector

    def variance(self, a: Indices, b: Indices) -> Vector:
        """Return variances of differences."""
        ...

    def move(self, a: int, b: int, step: float, shrink: float) -> None:
        """Move the mean by step·Σx and the covariance by -shrink·Σx xᵀΣ."""
        ...

    def batch(self, a: Indices, b: Indices, islands: Indices | None, top: int = 0) -> Batch:
        """Return candidates; if islands are given, pairs across islands have value 0."""
        # With `top` only the order between the best `top` items and the others counts.
        ...


@dataclass
class Joint:
    """A belief with all covariances."""

    mean: Vector
    covariance: Vector

    @staticmethod
    def of(mean: Vector, centred: Vector, component: Indices) -> Joint:
        """Return the belief from a covariance about the means of components, whose levels are unknown."""
        together = component[:, None] == component[None, :]
        return Joint(mean.copy(), centred + _LEVEL * together)

    def variance(self, a: Indices, b: Indices) -> Vector:
        """Return variances of differences."""
        s = self.covariance
        diagonal = np.diagonal(s)
        return np.asarray(np.maximum(diagonal[a] + diagonal[b] - 2.0 * s[a, b], _TINY))

    def move(self, a: int, b: int, step: float, shrink: float) -> None:
        """Move the mean by step·Σx and the covariance by -shrink·Σx xᵀΣ."""
        x = self.covariance[:, a] - self.covariance[:, b]
        self.mean += step * x
        self.covariance -= shrink * np.outer(x, x)

    def batch(self, a: Indices, b: Indices, islands: Indices | None, top: int = 0) -> _JointBatch:
        """Return candidates."""
        return _JointBatch(self, a, b, islands, top)


class _JointBatch:
    """Candidates whose V and xᵀΣLΣx get rank-one updates, so that no K x K matrix is updated."""

    def __init__(self, belief: Joint, a: Indices, b: Indices, islands: Indices | None, top: int) -> None:
        s = belief.covariance
        diagonal = np.diagonal(s)
        spread = np.maximum(diagonal[:, None] + diagonal[None, :] - 2.0 * s, _TINY)
        weight = _weights(belief.mean[:, None] - belief.mean[None, :], spread)
        np.fill_diagonal(weight, 0.0)
        if islands is not None:
            weight[islands[:, None] != islands[None, :]] = 0.0
        if top:
            best = _is_best(belief.mean, top)
            weight[best[:, None] == best[None, :]] = 0.0
        laplacian = np.diag(weight.sum(axis=1)) - weight
        self._response = s @ laplacian @ s
        self._belief, self._a, self._b = belief, a, b
        self.variance = belief.variance(a, b)
        own = np.diagonal(self._response)
        self.worth = np.maximum(own[a] + own[b] - 2.0 * self._response[a, b], 0.0)
        self._count = 0
        self._x, self._y = np.empty((2, 16, len(belief.mean)))
        self._c, self._q = np.empty((2, 16))  # c and xᵀ y of every vote so far

    def take(self, place: int, precision: float) -> None:
        """Update the candidates for a vote of that precision on one of them."""
        a, b = int(self._a[place]), int(self._b[place])
        n = self._count
        before, after, c, q = self._x[:n], self._y[:n], self._c[:n], self._q[:n]
        along, across = c * (before[:, a] - before[:, b]), c * (after[:, a] - after[:, b])
        s, g = self._belief.covariance, self._response
        x = s[:, a] - s[:, b] - along @ before
        y = g[:, a] - g[:, b] - (across - c * q * along) @ before - along @ after
        taken = precision / (1.0 + precision * max(x[a] - x[b], _TINY))
        dx, dy = x[self._a] - x[self._b], y[self._a] - y[self._b]
        both = float(y[a] - y[b])
        self.variance = np.maximum(self.variance - taken * dx * dx, _TINY)
        self.worth = np.maximum(self.worth - 2.0 * taken * dx * dy + taken * taken * both * dx * dx, 0.0)
        self._remember(x, y, taken, both)

    def _remember(self, x: Vector, y: Vector, c: float, q: float) -> None:
        if self._count == len(self._c):
            self._x, self._y = (np.concatenate([v, np.empty_like(v)]) for v in (self._x, self._y))
            self._c, self._q = (np.concatenate([v, np.empty_like(v)]) for v in (self._c, self._q))
        self._x[self._count], self._y[self._count] = x, y
        self._c[self._count], self._q[self._count] = c, q
        self._count += 1


@dataclass
class Independent:
    """A belief with variances only: errors of items are independent, nearly true for thousands of items."""

    mean: Vector
    own: Vector  # variances about the mean of the component
    component: Indices

    def variance(self, a: Indices, b: Indices) -> Vector:
        """Return variances of differences."""
        apart = 2.0 * _LEVEL * (self.component[a] != self.component[b])
        return np.asarray(np.maximum(self.own[a] + self.own[b] + apart, _TINY))

    def move(self, a: int, b: int, step: float, shrink: float) -> None:
        """Update the two items after a vote: the means by step·Σx, the variances by -shrink·(Σx)²."""
        for item, sign in ((a, 1.0), (b, -1.0)):
            before = self.own[item]
            self.mean[item] += sign * step * before
            self.own[item] = max(before - shrink * before * before, _TINY)
        self.component[self.component == self.component[b]] = self.component[a]

    def batch(self, a: Indices, b: Indices, islands: Indices | None, top: int = 0) -> _IndependentBatch:
        """Return candidates."""
        return _IndependentBatch(self, a, b, islands, top)


class _IndependentBatch:
    """Candidates of independent items, with xᵀΣLΣx = σ_a⁴ L_aa + σ_b⁴ L_bb - 2 σ_a² σ_b² L_ab."""

    def __init__(self, belief: Independent, a: Indices, b: Indices, islands: Indices | None, top: int) -> None:
        self._own, self._a, self._b = belief.own.copy(), a, b
        self._apart = belief.variance(a, b) - belief.own[a] - belief.own[b]
        self._degree = _degrees(belief, islands, top)
        direct = _weights(belief.mean[a] - belief.mean[b], belief.variance(a, b))
        if top:
            best = _is_best(belief.mean, top)
            direct = direct * (best[a] != best[b])
        self._direct = direct if islands is None else direct * (islands[a] == islands[b])
        both = np.concatenate([a, b])
        self._order = np.argsort(both, kind="stable")
        self._start = np.searchsorted(both[self._order], np.arange(len(belief.mean) + 1))
        self.variance, self.worth = np.empty(len(a)), np.empty(len(a))
        self._refresh(np.arange(len(a)))

    def take(self, place: int, precision: float) -> None:
        """Update the candidates for a vote of that precision on one of them."""
        c = precision / (1.0 + precision * self.variance[place])
        for item in (self._a[place], self._b[place]):
            self._own[item] = max(self._own[item] - c * self._own[item] ** 2, _TINY)
            touched = self._order[self._start[item] : self._start[item + 1]] % len(self._a)
            self._refresh(touched)

    def _refresh(self, at: NDArray[np.intp]) -> None:
        a, b = self._a[at], self._b[at]
        one, two = self._own[a], self._own[b]
        self.variance[at] = np.maximum(one + two + self._apart[at], _TINY)
        self.worth[at] = one**2 * self._degree[a] + two**2 * self._degree[b] + 2.0 * one * two * self._direct[at]


def _is_best(mean: Vector, top: int) -> Mask:
    best = np.zeros(len(mean), bool)
    best[np.argsort(-mean, kind="stable")[:top]] = True
    return best


def _degrees(belief: Independent, islands: Indices | None, top: int) -> Vector:
    """Return every item's sum of weights with all others, or with a sample of many items."""
    order = np.argsort(belief.mean, kind="stable")
    step = max(1, -(-len(order) // _SAMPLED)) if not top else 1
    some = order[step // 2 :: step]
    best = _is_best(belief.mean, top)
    share = len(order) / len(some)
    result = np.empty(len(order))
    for begin in range(0, len(order), 1_000):
        rows = np.arange(begin, min(begin + 1_000, len(order)))
        a, b = rows[:, None], some[None, :]
        weight = _weights(belief.mean[a] - belief.mean[b], belief.variance(a, b))
        weight[a == b] = 0.0
        if islands is not None:
            weight[islands[a] != islands[b]] = 0.0
        if top:
            weight[best[a] == best[b]] = 0.0
        result[rows] = share * weight.sum(axis=1)
    return result


def _weights(difference: Vector, variance: Vector) -> Vector:
    """Return the value of removing a unit of variance from each pair, W = φ(m/s) / (√(2π) s²)."""
    return np.asarray(np.exp(-0.5 * difference**2 / variance) / (2.0 * pi * variance))


def vote_precision(
    difference: Vector,
    variance: Vector,
    types: Vector,
    share: Vector,
    offset: tuple[Vector | float, Vector | float] = (0.0, 0.0),
) -> Vector:
    """Return the expected precision of a vote about N(difference, variance): E[β² σ'(βd + o)]."""
    # `offset` is mean and variance of o, the effect of further dimensions.
    total = np.zeros_like(difference)
    for beta in np.unique(types):  # one pass if all types are equal, as for votes without workers
        part = share[types == beta].sum()
        flat = smoothing(beta * beta * variance + offset[1])
        chance = sigmoid(flat * (beta * difference + offset[0]))
        total += part * beta * beta * flat * chance * (1.0 - chance)
    return total


def answer(
    difference: float,
    variance: float,
    outcome: float,
    types: Vector,
    share: Vector,
    offset: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, float, Vector]:
    """Return the step and shrinkage of the difference by an answer, and the worker's new probabilities."""
    # One step of assumed-density filtering: the first two derivatives of the log probability of the answer by the mean
    # of d, at outcome 1 for the first item, 0 for the second, ½ for a tie.
    flat = smoothing(types**2 * variance + offset[1])
    slope = types * flat
    chance = np.clip(sigmoid(slope * difference + flat * offset[0]), _TINY, 1.0 - _TINY)
    likely = outcome * np.log(chance) + (1.0 - outcome) * np.log1p(-chance)
    after = share * np.exp(likely - likely.max())
    after /= after.sum()
    left = outcome - chance
    step = float(after @ (left * slope))
    curved = float(after @ ((left**2 - chance * (1.0 - chance)) * slope**2))
    # A vote of a worker of unknown sign may widen the belief; between two fits it then counts as no information.
    shrink = min(max(step * step - curved, 0.0), 0.95 / variance)
    return step, shrink, after


def answers(difference: float, variance: float, won: int, votes: int) -> tuple[float, float]:
    """Return step and shrinkage of the difference after votes on one pair, by Laplace's approximation at the mode."""
    mode = difference
    for _ in range(50):
        chance = 0.5 + 0.5 * tanh(0.5 * mode)
        slope = won - votes * chance - (mode - difference) / variance
        move = slope / (votes * chance * (1.0 - chance) + 1.0 / variance)
        mode += min(max(move, -1.0), 1.0)
        if abs(move) < 1e-9:
            break
    precision = votes * chance * (1.0 - chance)
    return (mode - difference) / variance, precision / (1.0 + precision * variance)
