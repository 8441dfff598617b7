"""Graded answers (better, much better) by cumulative logits with symmetric cut points.

P(at least grade k for an item) = σ(η - κc_k) with η = βd and c_1 < c_2 < ...; κc_1 is half the width of a tie, 0
without ties. κ = exp(k) is the worker's own scale, k ~ N(0, s²) with s learned: a worker with noisier answers, or one
who prefers extreme grades, has narrower cut points. Since σ(η - a) - σ(η - b) = σ(η - a) σ(b - η) (1 - exp(a - b)),
grade k is a win at the cut κc_k and a loss at the next one, but for a constant.
"""

from typing import NamedTuple

import numpy as np

from crowdsift.numeric import Indices, Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.numeric.random_effects import RandomEffects

_STEPS, _CLOSE, _VARIANCE = 60, 1e-5, 0.1  # Newton's method: most steps, tolerance, and the initial variance of k
_STIFF = 25.0  # precision of the prior of the log factor of a worker's η
_NODES, _MASS = np.array([-1.0, 0.0, 1.0]) * 3.0**0.5, np.array([1.0, 4.0, 1.0]) / 6.0  # Gauss-Hermite quadrature


class Graded(NamedTuple):
    """Votes for cumulative logits: for ties η of either item, otherwise of the winner.

    `level` is the grade, 0 for a tie; `variance` is that of η in the posterior.
    """

    eta: Vector
    level: Indices
    weight: Vector
    variance: Vector
    worker: Indices


class Cuts(NamedTuple):
    """Cut points of a typical worker with their standard errors, log scales of workers, and their variance.

    `factor` is the logarithm of what each worker's η is multiplied by.
    """

    points: Vector
    sd: Vector
    log_scale: Vector
    variance: float
    factor: Vector

    def of(self, worker: Indices) -> Vector:
        """Return the cut points of these workers, one row each."""
        return np.asarray(np.exp(self.log_scale[worker])[:, None] * self.points)


def fit_cuts(votes: Graded, n_workers: int, start: Cuts | None = None) -> Cuts:
    """Return the cut points c_1, c_2, ... and the scales of workers; c_1 is 0 without ties."""
    # They maximise the expected log-likelihood under the posterior of η, by Newton's method with Levenberg-Marquardt
    # damping. A factor of each worker's η is estimated as well, since κ and slope of a worker depend on each other:
    # without it many more fits would be needed.
    count, ties = int(votes.level.max()), bool((votes.level == 0).any())
    cuts = np.append(0.3 * ties, 1.5 * np.arange(1, count))
    if start is not None and len(start.points) == count and (start.points[0] > 0.0) == ties:
        cuts = start.points
    k, variance = (np.zeros(n_workers), _VARIANCE) if start is None else (start.log_scale, start.variance)
    f, free = np.zeros(n_workers), np.arange(0 if ties else 1, count)
    damping, before = 0.1, _derivatives(votes, cuts, f, k)
    for _ in range(_STEPS):
        _, slope, curvature = before
        # Factors are eliminated first, then scales.
        stiff = (_STIFF - curvature[:, -2, -2]) * (1.0 + damping)
        ratio, step = curvature[:, -2] / stiff[:, None], (slope[:, -2] - _STIFF * f) / stiff
        slope = slope + step[:, None] * curvature[:, -2]
        curvature = curvature + ratio[:, :, None] * curvature[:, -2, None, :]
        own, across = -curvature[:, -1, -1], curvature[:, -1, free]
        found = RandomEffects.of_messages(own * k + slope[:, -1], own, np.ones(n_workers), _VARIANCE).variance
        moved, variance = abs(found - variance), found
        held = variance / (1.0 + own * variance)  # variance of k given its votes
        pull = held * slope[:, -1] - k / (1.0 + own * variance)
        left = -curvature[:, free[:, None], free].sum(axis=0) - (across * held[:, None]).T @ across
        damped = left + damping * np.diag(np.abs(np.diag(left)))
        change = np.zeros(count)
        change[free] = np.linalg.solve(damped, slope[:, free].sum(axis=0) + pull @ across)
        new = k + (pull + held * (across @ change[free])) / (1.0 + damping)
        turned = f + step + ratio[:, :-2] @ change + ratio[:, -1] * (new - k)
        after = _derivatives(votes, cuts + change, turned, new)
        gain = after[0] - before[0] - 0.5 * _STIFF * float(turned @ turned - f @ f)
        gain -= 0.5 * float(new @ new - k @ k) / max(variance, 1e-9)
        if gain < -1e-9 * abs(before[0]) or not np.isfinite(gain):
            damping = max(10.0 * damping, 1e-3)
            continue
        middle = float(new.mean())  # this part belongs to the cut points
        cuts, f, k = (cuts + change) * np.exp(middle), turned, new - middle
        damping, before = 0.1 * damping, after
        if np.abs(change).max() < _CLOSE and moved < _CLOSE:
            break
    errors = np.zeros(count)
    errors[free] = np.sqrt(np.maximum(np.diag(np.linalg.inv(left)), 0.0))
    return Cuts(cuts, errors, k, variance, f)


def grade_weights(eta: Vector, level: Indices, cuts: Vector, half: Vector, weight: Vector, worker: Indices) -> Vector:
    """Return weights of wins, losses and ties, a row each, with the same gradients as the grades at η.

    `cuts` and `half`, half the width of a tie in the present fit, have a row per vote. Wins are those of the winner, or
    of the leading item of a tie.
    """
    tie, c = level == 0, cuts[:, 0]
    low, high = _ends(level, cuts)
    ahead = np.where(tie, np.abs(eta), eta)
    # A grade is replaced by a win and, for the rest, a part of a loss.
    win = np.where(tie, 0.0, sigmoid(low - eta) / np.maximum(sigmoid(half - eta), 1e-300))
    loss = np.where(tie | np.isinf(high), 0.0, sigmoid(eta - high) / sigmoid(eta + half))
    drawn = tie.astype(np.float64)
    if tie.any():
        # These alone would imply fewer ties than a worker has. So a part of the losses becomes ties with the same
        # gradient in η. If that is not enough, ties get a larger weight, and the leading item wins that restore η.
        def total(values: Vector) -> Vector:
            return np.asarray(np.bincount(worker, weight * values))

        pull, held = (sigmoid(ahead - h) - sigmoid(-ahead - h) for h in (c, half))  # of a tie, on η
        wider = sigmoid(-ahead - c) + sigmoid(ahead - c) + 2.0 / np.expm1(2.0 * c)
        asked = total(win * sigmoid(c - eta) + loss * sigmoid(eta + c) - drawn * wider)
        swap = np.where(eta > 0.0, loss, 0.0)
        fewer = held / sigmoid(ahead + half)  # losses for a tie
        most = total(swap * (wider + fewer * sigmoid(ahead + c)))
        part = swap * np.clip(asked / np.maximum(most, 1e-300), 0.0, 1.0)[worker]
        loss -= part * fewer
        left = asked - total(part * (wider + fewer * sigmoid(ahead + c)))
        factor = 1.0 + np.maximum(left / np.maximum(total(drawn * (wider - pull)), 1e-9), 0.0)[worker]
        factor = np.maximum(factor, pull / np.maximum(held, 1e-300))
        win = np.where(tie, np.maximum(factor * held - pull, 0.0) / np.maximum(sigmoid(half - ahead), 1e-300), win)
        drawn = np.where(tie, factor, part)
    found = np.stack([win, loss, drawn]) * weight
    # All weights have a common factor that makes the information equal to that of the grades.
    at_cut, below = _bend(ahead - half), _bend(ahead + half)
    own = float((found * np.stack([at_cut, below, at_cut + below])).sum())
    return np.asarray(found * (float(weight @ (_bend(eta - low) + _bend(eta - high))) / max(own, 1e-300)))


def _ends(level: Indices, cuts: Vector) -> tuple[Vector, Vector]:
    """Return the cut points on both sides of every grade."""
    row = np.arange(len(level))
    padded = np.column_stack([cuts, np.full(len(level), np.inf)])
    return np.where(level == 0, -cuts[:, 0], cuts[row, np.maximum(level, 1) - 1]), padded[row, level]


def _bend(eta: Vector) -> Vector:
    """Return σ(1 - σ) at η, the derivative of σ."""
    p = sigmoid(eta)
    return np.asarray(p * (1.0 - p))


def log_probabilities(eta: Vector, level: Indices, cuts: Vector) -> Vector:
    """Return the log probability of every grade; η belongs to the winner, and `cuts` has a row per vote."""
    low, high = _ends(level, cuts)
    gap = np.log(-np.expm1(-np.maximum(high - low, 1e-9)))
    return np.asarray(gap - np.logaddexp(0.0, low - eta) - np.logaddexp(0.0, eta - high))


def _derivatives(votes: Graded, point: Vector, factor: Vector, log_scale: Vector) -> tuple[float, Vector, Vector]:
    """Return the expected log-likelihood, and the gradient and curvature of every worker's part of it."""
    # The parameters are c_1, c_2, ..., the log of the factor of η, and k. The curvature is that of Gauss and Newton,
    # which is never positive: second derivatives of the ends are left out.
    count, n = len(point), len(log_scale)
    cuts = np.exp(log_scale[votes.worker])[:, None] * point
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
        eta = np.exp(factor[votes.worker]) * (votes.eta + node * np.sqrt(np.maximum(votes.variance, 0.0)))
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
