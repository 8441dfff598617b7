"""How well kinds of workers explain each worker's own votes, for methods without worker types.

With the scores held fixed, a type is a reliability β on a grid, or a preference for one side that
ignores the items. The share of every type in the crowd is learned by EM, as `sift` does, and b is
the median of its positive part. Types are adversarial for β < -b/4, random for |β| ≤ b/4,
informative for β > b/4, and one-sided. The methods themselves judge a worker with one vote by a
normal approximation around it; here one vote is one factor of a likelihood.

Only decided votes count: a tie is no evidence against anybody. A vote is a slip in 2 % of the
cases, so that no single vote accuses, and differences shrink by what their error leaves open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.numeric.likelihoods import LOGISTIC_SMOOTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.results.build import FitBuilder

    Codes = NDArray[np.integer]

_STEPS = 2.0 ** np.arange(-3.0, 2.0, 0.5)  # reliabilities of types, in units of a first guess of b
_SIDES = np.array([0.8, 0.9, 0.97, 0.2, 0.1, 0.03])  # P(left) of one-sided types
_SHARES = (0.1, 0.17, 0.7, 0.03)  # of the classes before any vote
_PRIOR_WORKERS = 20.0  # how many workers these shares count for
_SLIPS = 0.02
_BINS = 257  # of differences
_NUMBERS = 8_000_000  # of an array over workers and bins at a time
_ROWS = 1 << 20  # votes at a time
_LEARNED_FROM = 20_000  # workers; the shares of more are learned from a part of them
_ITERATIONS = 60
_NORMAL_FROM = 20.0  # votes from which on a normal approximation may stand for them
_MOST_VOTES = 1e6  # of a worker, so that no sum of weights overflows


class VoteEvidence(NamedTuple):
    """A row per worker, columns adversarial, random, informative and, with sides, one-sided.

    `evidence` holds logarithms of averaged likelihoods, up to a constant a worker, `posterior`
    the probabilities of the classes by what the crowd is like; `typical` is b.
    """

    evidence: Vector
    posterior: Vector
    typical: float


def vote_evidence(fitted: FitBuilder) -> VoteEvidence | None:
    """Return the evidence of every worker's votes; None where no worker can be measured by."""
    votes, result = fitted.votes, fitted.estimate.workers
    assert result.reliability is not None
    beta = result.reliability - result.random_level
    sure = np.abs(beta) > 0.0
    guess = float(np.median(np.abs(beta[sure]))) if sure.any() else 0.0
    if not 0.0 < guess < np.inf:
        return None
    levels = guess * np.concatenate([-_STEPS[::-1], [0.0], _STEPS])
    if votes.elsewhere is None:
        logs = _log_likelihoods(fitted, levels)
    else:  # the rows are on other machines
        assert result.reliability_sd is not None
        distance = (levels - beta[:, None]) / np.maximum(result.reliability_sd, 1e-12)[:, None]
        logs = np.where(fitted.votes.loads[:, None] < _NORMAL_FROM, 0.0, -0.5 * distance**2)
    sides = logs.shape[1] - len(levels)
    weights = _learned(logs, levels, guess)
    up, down = weights[: len(levels)][levels > 0], weights[: len(levels)][levels < 0][::-1]
    chosen = up if up.sum() >= down.sum() else down
    reached = np.cumsum(chosen) - 0.5 * chosen
    typical = float(np.interp(0.5 * chosen.sum(), reached, guess * _STEPS))
    of_class = np.append(_classes(levels, typical), np.full(sides, 3))
    joint = np.exp(logs - logs.max(axis=1, keepdims=True)) * weights
    held = [of_class == number for number in range(4 if sides else 3)]
    masses = np.stack([joint[:, mine].sum(axis=1) for mine in held], axis=1)
    shares = np.array([max(float(weights[mine].sum()), 1e-300) for mine in held])
    evidence = np.log(np.maximum(masses / shares, 1e-300))
    return VoteEvidence(evidence, masses / masses.sum(axis=1, keepdims=True), typical)


def _classes(levels: Vector, typical: float) -> Vector:
    zone = 0.25 * typical
    return np.where(levels < -zone, 0, np.where(levels > zone, 2, 1))


def _learned(logs: Vector, levels: Vector, guess: float) -> Vector:
    """Return the share of every type in the crowd, by EM with the prior shares."""
    of_class = np.append(_classes(levels, guess), np.full(logs.shape[1] - len(levels), 3))
    prior = np.array(_SHARES)[of_class] / np.bincount(of_class, minlength=4)[of_class]
    prior /= prior.sum()
    some = logs[:: -(-len(logs) // _LEARNED_FROM)]
    likelihood = np.exp(some - some.max(axis=1, keepdims=True))
    weights = prior
    for _ in range(_ITERATIONS):
        counts = weights * (likelihood.T @ (1.0 / (likelihood @ weights)))
        weights = (counts + _PRIOR_WORKERS * prior) / (len(some) + _PRIOR_WORKERS)
    return np.asarray(weights)


def _log_likelihoods(fitted: FitBuilder, levels: Vector) -> Vector:
    """Return the log-likelihood of every worker's decided votes under every type.

    Votes are counted in bins of the difference in favour of the chosen item.
    """
    votes, level = fitted.votes, fitted.estimate.workers.random_level
    probability = fitted.model.probability
    far = max(float(np.ptp(fitted.estimate.scores)), 1e-12)
    at = np.linspace(-far, far, _BINS)
    grid = np.stack([probability(at, np.full(_BINS, level + each)) for each in levels], axis=1)
    table = np.log((1.0 - _SLIPS) * np.clip(grid, 0.0, 1.0) + 0.5 * _SLIPS)
    differences = _differences(fitted, float(levels[-1]) / _STEPS[-1])
    sided = votes.sides_known
    result = np.zeros((votes.n_workers, len(levels) + (len(_SIDES) if sided else 0)))
    step = max(_NUMBERS // _BINS, 1)
    for begin in range(0, votes.n_workers, step):
        end = min(begin + step, votes.n_workers)
        counts, left = np.zeros((end - begin) * _BINS), np.zeros((2, end - begin))
        last = int(votes.offsets[end])
        for start in range(int(votes.offsets[begin]), last, _ROWS):
            rows = slice(start, min(start + _ROWS, last))
            lean = votes.weight[rows] * (2.0 * votes.outcome[rows].astype(np.float64) - 1.0)
            ends = np.clip(votes.offsets[begin : end + 1], rows.start, rows.stop)
            worker = np.repeat(np.arange(end - begin), np.diff(ends))
            gap = np.sign(lean) * differences(votes.first[rows], votes.second[rows])
            place = np.rint((gap + far) * ((_BINS - 1) / (2.0 * far))).astype(np.int64)
            counts += np.bincount(worker * _BINS + place, np.abs(lean), len(counts))
            for row, mine in enumerate((np.maximum(lean, 0.0), np.maximum(-lean, 0.0))):
                left[row] += np.bincount(worker, mine, end - begin)
        total = np.maximum(left.sum(axis=0), 1e-300)
        scale = np.minimum(1.0, _MOST_VOTES / total)
        part = result[begin:end]
        part[:, : len(levels)] = (counts.reshape(-1, _BINS) * scale[:, None]) @ table
        if sided:
            part[:, len(levels) :] = (left * scale).T @ np.log([_SIDES, 1.0 - _SIDES])
    return result


def _differences(fitted: FitBuilder, reliability: float) -> Callable[[Codes, Codes], Vector]:
    """Return a function of two arrays of items: differences of scores, shrunk by their error.

    E[σ(bd)] for d ~ N(m, v) is close to σ(b'm) with b' = b/√(1 + b²vπ/8).
    """
    scores, sd = fitted.estimate.scores, fitted.score_sd
    if sd is None:
        return lambda first, second: scores[first] - scores[second]
    step, level = np.array([0.01, -0.01]), fitted.estimate.workers.random_level
    up, down = fitted.model.probability(step, np.full(2, level + reliability))
    slope = float(up - down) / 0.005  # in logits a unit of score
    variance = np.where(np.isfinite(sd), sd, 0.0) ** 2 * (LOGISTIC_SMOOTHING * slope**2)

    def shrunk(first: Codes, second: Codes) -> Vector:
        spread = np.sqrt(1.0 + variance[first] + variance[second])
        return np.asarray((scores[first] - scores[second]) / spread)

    return shrunk
