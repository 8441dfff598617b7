"""The exact posterior of a difference given the votes on its own pair.

If all votes on a pair agree, the posterior is skewed, with a thin tail on the other side. The other votes imply a
cavity distribution of the difference d that is nearly a Gaussian N(m, v). Multiplied by the likelihoods of the pair's
own votes it is a posterior in one dimension, which is integrated here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.numeric import Mask, Vector
from crowdsift.numeric.likelihoods import log_sigmoid, normal_cdf, sigmoid, smoothing

_NODES = 20  # Gauss-Legendre nodes on either side of 0
_GAUSS = np.polynomial.legendre.leggauss(_NODES)
_REACH = 7.0  # standard deviations to the end of the integral
_LEAST = 0.05  # smallest 1 - τV, as in the fit
_FAR = np.float32(-60.0)  # arguments of σ are at least this, so that logarithms are finite
_NUMBERS = 400_000  # numbers of votes, nodes and points at a time, which fit into the cache


class OwnVotes(NamedTuple):
    """Votes on pairs; the votes on a pair are contiguous and begin at `starts`.

    `sign` is 1 for the first item of the pair, -1 for the second; `tie` marks ties; `times` is the number of equal
    votes; `shown` is 1 if the first item was on the left, -1 if the second was, 0 if unknown. `tau` and `nu` are the
    site of each vote on the difference, first minus second. `who` are rows of the points that represent workers:
    reliability β, tie width δ, mean and variance of the side bias γ, and weights that add up to 1.
    """

    starts: NDArray[np.intp]
    sign: Vector
    tie: Mask
    times: Vector
    shown: Vector
    tau: Vector
    nu: Vector
    who: NDArray[np.intp]
    reliability: Vector
    width: Vector
    side: Vector
    side_variance: Vector
    weight: Vector

    def of_pairs(self, begin: int, end: int) -> OwnVotes:
        """Return the votes of a range of pairs, each with separate points."""
        last = int(self.starts[end]) if end < len(self.starts) else len(self.sign)
        rows = slice(int(self.starts[begin]), last)
        votes: list[Any] = [part[rows] for part in self[1:7]]
        who = self.who[rows]
        points: list[Any] = [part[who] for part in self[8:]]
        points[2] = self.shown[rows][:, None] * points[2]
        starts = self.starts[begin:end] - rows.start
        return OwnVotes._make([starts, *votes, np.arange(len(who)), *points])

    def rows(self, chosen: Mask) -> OwnVotes:
        """Return the chosen votes, to be evaluated one by one and not by pair."""
        if chosen.all():
            return self
        parts: list[Any] = [part[chosen] for part in self[1:]]
        return OwnVotes._make([self.starts[:0], *parts])


def chances_of_sign(mean: Vector, variance: Vector, votes: OwnVotes, effect: float = 0.0) -> Vector:
    """Return P(d < 0) and P(d > 0) of pairs; `effect` is the variance of a pair's own effect."""
    result = np.empty((2, len(mean)))
    ends = np.append(votes.starts[1:], len(votes.sign))
    most = max(_NUMBERS // (2 * _NODES * votes.weight.shape[1]), 1)
    begin = 0
    while begin < len(mean):
        end = int(np.searchsorted(ends, votes.starts[begin] + most, side="right"))
        end = min(max(end, begin + 1), len(mean))
        part = slice(begin, end)
        result[:, part] = _chances(mean[part], variance[part], votes.of_pairs(begin, end), effect)
        begin = end
    return result


def few_points(values: Vector, count: int) -> tuple[Vector, Vector]:
    """Return Gauss points and weights for distributions given by points of equal probability."""
    # One row per distribution. 2·count moments are preserved.
    rows, n = values.shape
    if n <= count:
        return values, np.full(values.shape, 1.0 / n)
    centre, spread = values.mean(axis=1), np.maximum(values.std(axis=1), 1e-12)
    x = (values - centre[:, None]) / spread[:, None]
    jacobi = np.zeros((rows, count, count))
    before, now, size = np.zeros_like(x), np.full_like(x, n**-0.5), np.zeros(rows)
    for k in range(count):  # Lanczos: polynomials that are orthogonal over the points
        following = x * now
        jacobi[:, k, k] = np.sum(following * now, axis=1)
        following -= jacobi[:, k, k, None] * now + size[:, None] * before
        size = np.sqrt(np.sum(following**2, axis=1))
        size[size < 1e-6] = 0.0  # the distribution has fewer points than requested
        if k + 1 < count:
            jacobi[:, k, k + 1] = jacobi[:, k + 1, k] = size
        before, now = now, following / np.where(size > 0.0, size, 1.0)[:, None]
        now[size == 0.0] = 0.0
    points, vectors = np.linalg.eigh(jacobi)
    return centre[:, None] + spread[:, None] * points, vectors[:, 0, :] ** 2


class _Cavities(NamedTuple):
    """The posterior of pairs without votes.

    `mean` and `variance` are of d plus the pair's effect, `own_mean` and `own_variance` (one per vote) of the same
    without that vote, and `rest_mean` and `rest_variance` of d without all votes on the pair.
    """

    mean: Vector
    variance: Vector
    own_mean: Vector
    own_variance: Vector
    rest_mean: Vector
    rest_variance: Vector


def _chances(mean: Vector, variance: Vector, votes: OwnVotes, effect: float) -> Vector:
    """Return `chances_of_sign` for one block of pairs."""
    known = _cavities(mean, variance, votes, effect)
    at, weights = _nodes(known.mean, np.sqrt(known.variance))
    m, v = known.rest_mean[:, None], known.rest_variance[:, None]
    logs = np.add.reduceat(_log_likelihoods(at, votes, known), votes.starts, axis=0)
    logs -= 0.5 * (at - m) ** 2 / (v + effect)
    density = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
    if effect == 0.0:
        both = density.reshape(len(mean), 2, _NODES).sum(axis=2).T
    else:  # given d + u, d is Gaussian again
        share = v / (v + effect)
        z = (m + share * (at - m)) / np.sqrt(share * effect)
        both = np.array([(density * normal_cdf(sign * z)).sum(axis=1) for sign in (-1.0, 1.0)])
    return np.asarray(both / both.sum(axis=0))


def _nodes(mean: Vector, sd: Vector) -> tuple[Vector, Vector]:
    """Return Gauss-Legendre nodes and weights below and above 0, one row per pair."""
    # If all relevant mass is on one side, the next standard deviation beyond 0 represents the other side.
    nodes, weights = _GAUSS
    low, high = mean - _REACH * sd, mean + _REACH * sd
    ends = (
        (np.where(low < 0.0, low, -sd), np.where(low < 0.0, np.minimum(high, 0.0), 0.0)),
        (np.where(high > 0.0, np.maximum(low, 0.0), 0.0), np.where(high > 0.0, high, sd)),
    )
    half = [0.5 * (end - begin)[:, None] for begin, end in ends]
    middle = [0.5 * (end + begin)[:, None] for begin, end in ends]
    at = [m + h * nodes for m, h in zip(middle, half, strict=True)]
    return np.concatenate(at, axis=1), np.concatenate([h * weights for h in half], axis=1)


def _cavities(mean: Vector, variance: Vector, votes: OwnVotes, effect: float) -> _Cavities:
    """Return the cavities without each vote, and without all votes on its pair."""
    starts, times = votes.starts, votes.times
    a, H = (np.add.reduceat(times * part, starts) for part in (votes.tau, votes.nu))
    D = np.maximum(1.0 + effect * a, _LEAST)
    E, V = (mean + effect * H) / D, variance / D**2 + effect / D
    pair = np.repeat(np.arange(len(mean)), np.diff(np.append(starts, len(times))))
    kept = np.maximum(1.0 - votes.tau * V[pair], _LEAST)
    own = (E[pair] - V[pair] * votes.nu) / kept, V[pair] / kept
    count = np.add.reduceat(times, starts)
    left = np.maximum(1.0 / variance - a / D, _LEAST / (1.0 + count) / variance)
    return _Cavities(E, V, *own, (mean / variance - H / D) / left, 1.0 / left)


def _log_likelihoods(at: Vector, votes: OwnVotes, known: _Cavities) -> Vector:
    """Return log likelihoods of votes at the nodes of their pairs, one row per vote."""
    # A worker's posterior includes this vote, so each point has its weight divided by Z of the vote.
    pair = np.repeat(np.arange(len(at)), np.diff(np.append(votes.starts, len(votes.sign))))
    spread = votes.reliability**2 * known.own_variance[:, None]
    log_z = _log_outcome(known.own_mean[:, None, None], votes, spread)[:, 0, :]
    with np.errstate(divide="ignore"):
        weight = np.log(votes.weight) - votes.times[:, None] * log_z
    top = weight.max(axis=1, keepdims=True)
    weight, where = np.exp(weight - top), at[pair][:, :, None]
    power = votes.times != 1.0
    result = np.empty((len(pair), at.shape[1]))
    if not power.all():
        result[~power] = _outcome(where[~power], votes.rows(~power), weight[~power])
    if power.any():
        some = votes.rows(power)
        logs = some.times[:, None, None] * _log_outcome(where[power], some)
        most = logs.max(axis=2, keepdims=True)
        terms = np.exp(logs - most) @ weight[power][:, :, None]
        result[power] = np.log(terms[:, :, 0]) + most[:, :, 0]
    return result


def _log_outcome(d: Vector, votes: OwnVotes, spread: Vector | float = 0.0) -> Vector:
    """Return log likelihoods of the outcomes at differences d and every point of their worker."""
    k = smoothing(spread + votes.side_variance)[:, None, :]
    z = votes.sign[:, None, None] * (votes.reliability[:, None, :] * d + votes.side[:, None, :])
    width = votes.width[:, None, :]
    result = log_sigmoid(k * (z - width))
    if votes.tie.any():
        t = votes.tie
        result[t] += np.log(np.expm1(2.0 * k[t] * width[t]))
        result[t] += log_sigmoid(-k[t] * (z[t] + width[t]))
    return np.asarray(result)


def _outcome(d: Vector, votes: OwnVotes, weight: Vector) -> Vector:
    """Return logarithms of the mean likelihood of single votes, computed in single precision."""
    k = smoothing(votes.side_variance)
    slope = (votes.sign[:, None] * k * votes.reliability).astype(np.float32)[:, None, :]
    shift = k * (votes.sign[:, None] * votes.side - votes.width)
    z = d.astype(np.float32) * slope + shift.astype(np.float32)[:, None, :]
    p = sigmoid(np.maximum(z, _FAR))
    if votes.tie.any():
        t, margin = votes.tie, 2.0 * (k * votes.width)[votes.tie]
        p[t] *= sigmoid(np.maximum(-z[t] - margin.astype(np.float32)[:, None, :], _FAR))
        weight = weight.copy()
        weight[t] *= np.expm1(margin)
    return np.log((p @ weight.astype(np.float32)[:, :, None])[:, :, 0].astype(np.float64))
