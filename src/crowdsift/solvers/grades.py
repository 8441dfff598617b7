"""Graded answers (better, much better) by cumulative logits with symmetric cut points.

P(at least grade k for an item) = σ(η - c_k) with η = βd and c_1 < c_2 < ...; c_1 is half the width of a tie, 0 without
ties. Since σ(η - a) - σ(η - b) = σ(η - a) σ(b - η) (1 - exp(a - b)), grade k is a win at the cut c_k and a loss at the
next one, but for a constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.numeric.likelihoods import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector

_STEPS, _CLOSE, _FAR = 30, 1e-7, 0.5  # of Newton's method: how many, when done, how far at most
_DIFFERENCE = 1e-4  # for derivatives


class Graded(NamedTuple):
    """Votes as cumulative logits take them: for ties η of either item, else of the winner.

    `level` is the grade, 0 for a tie; `variance` is that of η in the posterior.
    """

    eta: Vector
    level: NDArray[np.int64]
    weight: Vector
    variance: Vector


def fit_cuts(votes: Graded, start: Vector | None = None) -> tuple[Vector, Vector]:
    """Return the cut points c_1, c_2, ... and their standard errors, 0 for c_1 without ties."""
    # They maximise the expected log-likelihood under the posterior of η, to second order. A factor of all η is
    # estimated beside them, so that their errors include that of the scale.
    count, ties = int(votes.level.max()), bool((votes.level == 0).any())
    cuts = np.append(0.3 * ties, 1.5 * np.arange(1, count)) if start is None else start
    point = np.append(cuts, 0.0)
    free = np.arange(0 if ties else 1, count + 1)
    for _ in range(_STEPS):
        gradient, curvature = _derivatives(votes, point, free)
        step = np.clip(np.linalg.solve(curvature, gradient), -_FAR, _FAR)
        point[free] -= step
        if np.abs(step).max() < _CLOSE:
            break
    errors = np.zeros(count + 1)
    errors[free] = np.sqrt(np.maximum(np.diag(np.linalg.inv(-_derivatives(votes, point, free)[1])), 0))
    return point[:-1], errors[:-1]


def grade_weights(eta: Vector, level: NDArray[np.int64], cuts: Vector, weight: Vector) -> tuple[Vector, Vector]:
    """Return weights of wins, and of losses or ties, with the gradients of grades at η and c_1."""
    # A grade is a win and, for what it is not, a part of a loss, both at the cut ±c_1. This asks for fewer ties than
    # there are, so ties have a larger weight, and wins of the item that is ahead undo what that does to η. All weights
    # have a common factor with which the information is that of the grades.
    above, tie, c = np.append(cuts, np.inf)[level], level == 0, cuts[0]
    win = sigmoid(cuts[np.maximum(level, 1) - 1] - eta) / np.maximum(sigmoid(c - eta), 1e-300)
    loss = np.where(np.isinf(above), 0.0, sigmoid(eta - above)) / sigmoid(eta + c)
    if tie.any():
        ahead = np.abs(eta[tie])
        pull = weight[tie] * (sigmoid(ahead - c) - sigmoid(-ahead - c))
        wider = weight[tie] * (sigmoid(-ahead - c) + sigmoid(ahead - c) + 2.0 / np.expm1(2.0 * c))
        narrower = weight * np.where(tie, 0.0, win * sigmoid(c - eta) + loss * sigmoid(eta + c))
        left = max(float(wider.sum() - pull.sum()), 1e-9)
        factor = max((float(narrower.sum()) - float(pull.sum())) / left, 1.0)
        win[tie] = (factor - 1.0) * pull / weight[tie] / np.maximum(sigmoid(c - ahead), 1e-300)
        loss[tie] = factor
    win, loss = win * weight, loss * weight
    eta = np.where(tie, np.abs(eta), eta)
    at_cut, below = _bend(eta - c), _bend(eta + c)
    held = float(win @ at_cut + loss @ (below + np.where(tie, at_cut, 0.0)))
    low = np.where(tie, -c, cuts[np.maximum(level, 1) - 1])
    share = float(weight @ (_bend(eta - low) + _bend(eta - above))) / max(held, 1e-300)
    return win * share, loss * share


def _bend(eta: Vector) -> Vector:
    """Return σ(1 - σ)."""
    p = sigmoid(eta)
    return np.asarray(p * (1.0 - p))


def log_probabilities(eta: Vector, level: NDArray[np.int64], cuts: Vector) -> Vector:
    """Return the logarithm of the probability of every grade; η is that of the winner."""
    low = np.where(level == 0, -cuts[0], cuts[np.maximum(level, 1) - 1])
    high = np.append(cuts, np.inf)[level]
    gap = np.log(-np.expm1(-np.maximum(high - low, 1e-9)))
    return np.asarray(gap - np.logaddexp(0.0, low - eta) - np.logaddexp(0.0, eta - high))


def _expected(votes: Graded, point: Vector) -> float:
    cuts, scale = point[:-1], float(np.exp(point[-1]))
    if (np.diff(np.append(-cuts[0] - 1e-12, cuts)) < 0.0).any():
        return -np.inf
    eta = scale * votes.eta
    value = log_probabilities(eta, votes.level, cuts)
    low = np.where(votes.level == 0, -cuts[0], cuts[np.maximum(votes.level, 1) - 1])
    bend = _bend(eta - low) + _bend(eta - np.append(cuts, np.inf)[votes.level])
    return float(votes.weight @ (value - 0.5 * scale**2 * votes.variance * bend))


def _derivatives(votes: Graded, point: Vector, free: NDArray[np.intp]) -> tuple[Vector, Vector]:
    """Return gradient and Hessian of the expected log-likelihood by central differences."""
    moves, n = np.eye(len(point))[free] * _DIFFERENCE, len(free)
    ends = [[_expected(votes, point + side * each) for side in (1, -1)] for each in moves]
    gradient = np.array([(up - down) / (2.0 * _DIFFERENCE) for up, down in ends])
    hessian = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            corners = [
                one * two * _expected(votes, point + one * moves[i] + two * moves[j])
                for one in (1, -1)
                for two in (1, -1)
            ]
            hessian[i, j] = hessian[j, i] = sum(corners) / (4.0 * _DIFFERENCE**2)
    return gradient, hessian
