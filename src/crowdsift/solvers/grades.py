"""Graded answers (better, much better) by cumulative logits with symmetric cut points.

P(at least grade k for an item) = σ(η - κc_k) with η = βd and c_1 < c_2 < ...; κc_1 is half the width of a tie, 0
without ties. κ = exp(k) is the worker's own scale, k ~ N(0, s²) with s learned: a worker with noisier answers, or one
who prefers extreme grades, has narrower cut points. Since σ(η - a) - σ(η - b) = σ(η - a) σ(b - η) (1 - exp(a - b)),
grade k is a win at the cut κc_k and a loss at the next one, but for a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.numeric.random_effects import RandomEffects

if TYPE_CHECKING:
    from crowdsift.numeric import Vector


_STEPS, _CLOSE, _VARIANCE = 60, 1e-5, 0.1  # Newton's method: most steps, tolerance, and the initial variance of k
_NODES, _MASS = np.array([-1.0, 0.0, 1.0]) * 3.0**0.5, np.array([1.0, 4.0, 1.0]) / 6.0  # Gauss-Hermite quadrature


class Graded(NamedTuple):
    """Votes for cumulative logits: for ties η of either item, otherwise of the winner.

    `level` is the grade, 0 for a tie; `variance` is that of η in the posterior.
    """

    eta: Vector
    level: NDArray[np.int64]
    weight: Vector
    variance: Vector
    worker: NDArray[np.int64]


class Cuts(NamedTuple):
    """Cut points of a typical worker with their standard errors, log scales of workers, and their variance."""

    points: Vector
    sd: Vector
    log_scale: Vector
    variance: float = 0.0

    def of(self, worker: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cut points of these workers, one row each."""
        return np.asarray(np.exp(self.log_scale[worker])[:, None] * self.points)


def fit_cuts(votes: Graded, n_workers: int, start: Cuts | None = None) -> Cuts:
    """Return the cut points c_1, c_2, ... and the scales of workers; c_1 is 0 without ties."""
    # They maximise the expected log-likelihood under the posterior of η, by Newton's method with Levenberg-Marquardt
    # damping. A factor of all η is estimated as well, so that their errors include that of the scale.
    count, ties = int(votes.level.max()), bool((votes.level == 0).any())
    cuts = np.append(0.3 * ties, 1.5 * np.arange(1, count)) if start is None else start.points
    k, variance = (np.zeros(n_workers), _VARIANCE) if start is None else (start.log_scale, start.variance)
    point, free = np.append(cuts, 0.0), np.arange(0 if ties else 1, count + 1)
    damping, before = 0.1, _derivatives(votes, point, k)
    for _ in range(_STEPS):
        _, slope, curvature = before
        own, across = -curvature[:, -1, -1], curvature[:, -1, free]
        found = RandomEffects.of_messages(own * k + slope[:, -1], own, np.ones(n_workers), _VARIANCE).variance
        moved, variance = abs(found - variance), found
        held = variance / (1.0 + own * variance)  # variance of k given its votes
        pull = held * slope[:, -1] - k / (1.0 + own * variance)
        left = -curvature[:, free[:, None], free].sum(axis=0) - (across * held[:, None]).T @ across
        damped = left + damping * np.diag(np.abs(np.diag(left)))
        change = np.zeros(count + 1)
        change[free] = np.linalg.solve(damped, slope[:, free].sum(axis=0) + pull @ across)
        new = k + (pull + held * (across @ change[free])) / (1.0 + damping)
        after = _derivatives(votes, point + change, new)
        gain = after[0] - before[0] - 0.5 * float(new @ new - k @ k) / max(variance, 1e-9)
        if gain < -1e-9 * abs(before[0]) or not np.isfinite(gain):
            damping = max(10.0 * damping, 1e-3)
            continue
        middle = float(new.mean())  # this part belongs to the cut points
        point, k = point + change, new - middle
        point[:-1] *= np.exp(middle)
        damping, before = 0.1 * damping, after
        if np.abs(change).max() < _CLOSE and moved < _CLOSE:
            break
    errors = np.zeros(count + 1)
    errors[free] = np.sqrt(np.maximum(np.diag(np.linalg.inv(left)), 0.0))
    return Cuts(point[:-1], errors[:-1], k, variance)


def grade_weights(
    eta: Vector, level: NDArray[np.int64], cuts: NDArray[np.float64], weight: Vector, worker: NDArray[np.int64]
) -> tuple[Vector, Vector]:
    """Return weights of wins, losses and ties with the same gradients as the grades at η and c_1."""
    # `cuts` are those of every vote. A grade is replaced by a win and, for the rest, a part of a loss, both at the cut
    # ±c_1. This alone would imply fewer ties than a worker has, so ties get a larger weight, and the leading item a few
    # more wins to restore η. All weights have a common factor that makes the information equal to that of the grades.
    tie, c = level == 0, cuts[:, 0]
    low, high = _ends(level, cuts)
    win = np.where(tie, 0.0, sigmoid(low - eta) / np.maximum(sigmoid(c - eta), 1e-300))
    loss = np.where(np.isinf(high), 0.0, sigmoid(eta - high)) / sigmoid(eta + c)
    if tie.any():
        count, who = int(worker.max()) + 1, worker[tie]
        ahead = np.abs(eta[tie])
        pull = weight[tie] * (sigmoid(ahead - c[tie]) - sigmoid(-ahead - c[tie]))
        wider = weight[tie] * (sigmoid(-ahead - c[tie]) + sigmoid(ahead - c[tie]) + 2.0 / np.expm1(2.0 * c[tie]))
        narrower = weight * np.where(tie, 0.0, win * sigmoid(c - eta) + loss * sigmoid(eta + c))
        left = np.maximum(np.bincount(who, wider - pull, count), 1e-9)
        wanted = np.bincount(worker, narrower, count) - np.bincount(who, pull, count)
        factor = np.maximum(wanted / left, 1.0)[who]
        win[tie] = (factor - 1.0) * pull / weight[tie] / np.maximum(sigmoid(c[tie] - ahead), 1e-300)
        loss[tie] = factor
    win, loss = win * weight, loss * weight
    eta = np.where(tie, np.abs(eta), eta)
    at_cut, below = _bend(eta - c), _bend(eta + c)
    held = float(win @ at_cut + loss @ (below + np.where(tie, at_cut, 0.0)))
    share = float(weight @ (_bend(eta - low) + _bend(eta - high))) / max(held, 1e-300)
    return win * share, loss * share


def _ends(level: NDArray[np.int64], cuts: NDArray[np.float64]) -> tuple[Vector, Vector]:
    """Return the cut points on both sides of every grade."""
    row = np.arange(len(level))
    padded = np.column_stack([cuts, np.full(len(level), np.inf)])
    return np.where(level == 0, -cuts[:, 0], cuts[row, np.maximum(level, 1) - 1]), padded[row, level]


def _bend(eta: Vector) -> Vector:
    """Return σ(1 - σ)."""
    p = sigmoid(eta)
    return np.asarray(p * (1.0 - p))


def log_probabilities(eta: Vector, level: NDArray[np.int64], cuts: NDArray[np.float64]) -> Vector:
    """Return the log probability of every grade; η is that of the winner, `cuts` those of every vote."""
    low, high = _ends(level, cuts)
    gap = np.log(-np.expm1(-np.maximum(high - low, 1e-9)))
    return np.asarray(gap - np.logaddexp(0.0, low - eta) - np.logaddexp(0.0, eta - high))


def _derivatives(
    votes: Graded, point: Vector, log_scale: Vector
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """Return the expected log-likelihood, and the gradient and curvature of every worker's part of it."""
    # The parameters are c_1, c_2, ..., the log of η's scale, and k. The curvature is that of Gauss and Newton, which is
    # never positive: second derivatives of the ends are left out.
    count, n = len(point) - 1, len(log_scale)
    cuts = Cuts(point[:-1], point[:-1], log_scale).of(votes.worker)
    low, high = _ends(votes.level, cuts)
    if not (high > low).all():
        return -np.inf, np.zeros(0), np.zeros(0)
    total = 0.0
    top, tie, scale = np.isinf(high), votes.level == 0, np.exp(log_scale[votes.worker])
    growth = np.exp(np.minimum(np.where(top, 1.0, high - low), 700.0))
    gap = np.where(top, 0.0, 1.0 / np.maximum(growth - 1.0, 1e-12))  # derivative of the log of 1 - exp(low - high)
    first, second = np.zeros((n, count + 2)), np.zeros((n, count + 2, count + 2))
    # Derivatives of the ends (low, high, η) in every parameter: linear in c and exponential in the logs.
    ends = np.zeros((3, count + 2, len(votes.eta)))
    row = np.arange(len(votes.eta))
    ends[0, np.maximum(votes.level, 1) - 1, row] = np.where(tie, -scale, scale)
    ends[1, np.minimum(votes.level, count - 1), row] = np.where(top, 0.0, scale)
    finite = np.where(top, 0.0, high)
    ends[0, -1], ends[1, -1] = low, finite
    for node, mass in zip(_NODES, _MASS, strict=True):
        eta = np.exp(point[-1]) * (votes.eta + node * np.sqrt(np.maximum(votes.variance, 0.0)))
        ends[2, -2] = eta
        total += mass * float(votes.weight @ log_probabilities(eta, votes.level, cuts))
        one, two = sigmoid(low - eta), np.where(top, 0.0, sigmoid(eta - finite))
        slope = np.array([-gap - one, gap + two, one - two])
        bend = [one * (1.0 - one), two * (1.0 - two), -gap * (1.0 + gap)]
        curvature = np.array(
            [
                [bend[2] - bend[0], -bend[2], bend[0]],
                [-bend[2], bend[2] - bend[1], bend[1]],
                [bend[0], bend[1], -bend[0] - bend[1]],
            ]
        )
        bent = np.einsum("efn,fqn->eqn", curvature, ends)
        for p in range(count + 2):
            first[:, p] += np.bincount(votes.worker, mass * votes.weight * (slope * ends[:, p]).sum(axis=0), n)
            for q in range(p + 1):
                value = (ends[:, p] * bent[:, q]).sum(axis=0)
                second[:, p, q] += np.bincount(votes.worker, mass * votes.weight * value, n)
    return total, first, second + np.tril(second, -1).transpose(0, 2, 1)
