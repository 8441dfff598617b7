"""Cells of votes, effects of pairs of items, and the chance of a likelihood ratio for copies.

A cell holds the votes of one worker on one pair of items. Everybody may judge a pair of items
otherwise than its scores imply: then all who voted on it are alike, and nobody has copied. So every
pair of items has an effect u ~ N(0, s²) on the logit, s² from all votes, which is estimated for two
workers from the votes of the others.

Where two workers take answers from one source, a pair of items has an opinion o of which each of
their votes is a copy with probability a, and else their own. Against independent workers the
log ratio log(Σ_o P(o) Q(k|o) Q'(l|o)) - log(P(k) P'(l)) of k and l votes for the first item is the
most powerful statistic there is, for that a; disagreement counts against it, and agreement on what
nobody expected counts most. Under independence a worker may hold to an opinion of its own: with
probability ρ all its votes on a pair are one. It is careful or not, as likely the one as the other:
without slips two workers agree on what is clear more often, with them on what nobody expects.
"""

from __future__ import annotations

from math import exp, lgamma, log, log1p
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.numeric.saddle_point import saddle_point, saddle_points
from crowdsift.votes.graph import for_lower, pair_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.votes.comparisons import Comparisons

MARGIN = 0.1  # residuals are those of probabilities no surer than this: anybody may slip
SLIP = 0.01  # nor are the probabilities themselves surer than this
_MAX_EFFECT = 3.0  # of an effect of a pair of items, in logits
MAX_VOTES = 100.0  # of a cell: tables of its outcomes must not grow with weights
_COPIED = 0.5**0.5  # of the answers of each are copies: every second one of both is from the source
_EXPLAINED = 0.6  # correlation of two honest workers' unexpected answers, at most


class Cells(NamedTuple):
    """Decided votes of one worker on one pair of items: how many, how many for the first, and p."""

    unit: NDArray[np.int64]
    worker: NDArray[np.int64]
    votes: Vector
    wins: Vector
    p: Vector


def cells_of(votes: Comparisons, p: Vector) -> Cells:
    """Return the decided votes by pair of items and worker, in the order of pairs.

    Votes beyond `MAX_VOTES` of a cell are scaled down to it, with the same share of wins.
    """
    decided = np.flatnonzero((votes.outcome == 0.0) | (votes.outcome == 1.0))
    first, second = votes.first[decided], votes.second[decided]
    y, q = (for_lower(first, second, x[decided]) for x in (votes.outcome, p))
    worker = votes.worker_codes().astype(np.int64)[decided]
    weight = votes.weight.astype(np.float64)[decided]
    pair = pair_codes(first, second, votes.n_items)[1]
    key, cell = np.unique(pair * votes.n_workers + worker, return_inverse=True)
    cell = cell.reshape(-1)
    count, wins, total = (
        np.bincount(cell, v, len(key)).astype(np.float64) for v in (weight, weight * y, weight * q)
    )
    p = total / np.maximum(count, 1e-300)
    scale = np.minimum(MAX_VOTES / np.maximum(count, 1e-300), 1.0)
    unit, who = key // votes.n_workers, key % votes.n_workers
    return Cells(unit, who, scale * count, scale * wins, p)


def careful(p: Vector) -> Vector:
    """Return probabilities bounded by `MARGIN`, since every worker slips at times."""
    return np.clip(p, MARGIN, 1.0 - MARGIN)


def residuals(wins: Vector, votes: Vector, p: Vector) -> Vector:
    """Return the sum of the residuals of a cell, each of variance 1."""
    return np.asarray((wins - votes * p) / np.sqrt(p * (1.0 - p)))


class Effects:
    """Effects of pairs of items, by the votes of all but one or two workers.

    With S = Σ(y - p) and I = Σp(1-p) over the others the estimate is s²S/(1 + s²I), its variance
    s²/(1 + s²I), one step of Newton's method. E S² = I + s²I² over all votes of a pair gives s².

    Parameters
    ----------
    cells
        The votes.
    repeated
        What the votes of a cell count as one of, for workers who hold to an opinion of their own.
    outside
        The cells that count; by default all do.

    Attributes
    ----------
    variance
        s².
    """

    def __init__(
        self, cells: Cells, repeated: Vector, outside: NDArray[np.bool_] | None = None
    ) -> None:
        self._cells = cells
        share = 1.0 / repeated if outside is None else np.where(outside, 1.0 / repeated, 0.0)
        p = careful(cells.p)
        self._residual = share * (cells.wins - cells.votes * p)
        self._weight = share * cells.votes * p * (1.0 - p)
        self._residual_sum, self._weight_sum = (
            np.bincount(cells.unit, each) for each in (self._residual, self._weight)
        )
        excess = float((self._residual_sum**2 - self._weight_sum).sum())
        self.variance = max(excess / max(float((self._weight_sum**2).sum()), 1e-300), 0.0)

    def without(self, *cells: NDArray[np.int64]) -> tuple[tuple[Vector, ...], Vector]:
        """Return probabilities of cells given votes of others on their pair, and the variance left.

        The cells are of one pair of items row by row; what all of them hold is left out.
        """
        unit = self._cells.unit[cells[0]]
        residual: Vector = self._residual_sum[unit].astype(np.float64)
        weight: Vector = self._weight_sum[unit].astype(np.float64)
        for at in cells:
            residual, weight = residual - self._residual[at], weight - self._weight[at]
        left = self.variance / (1.0 + self.variance * np.maximum(weight, 0.0))
        effect = np.clip(left * residual, -_MAX_EFFECT, _MAX_EFFECT)
        moved = []
        for at in cells:
            p = self._cells.p[at]
            p = sigmoid(np.log(p / (1.0 - p)) + effect)
            moved.append(np.clip(p, SLIP, 1.0 - SLIP))
        return tuple(moved), left


class Outcomes(NamedTuple):
    """Of every cell and 0 to n votes for the first item: chances and log chances given o.

    `alone` are those of a worker who copies nobody, `first` and `second` of one whose source
    prefers the first item, or the second; 0 beyond the n votes of a cell. `seen` is how many votes
    for the first item there are.
    """

    alone: Vector
    first: Vector
    second: Vector
    seen: NDArray[np.int64]


def outcomes(cells: Cells, at: NDArray[np.int64], win: Vector, rho: Vector) -> Outcomes:
    """Return the outcomes of cells whose worker prefers the first item with probability `win`."""
    n, p, same = np.round(cells.votes[at])[:, None], win[:, None], rho[cells.worker[at]]
    k = np.minimum(np.arange(int(n.max()) + 1.0), n)
    there = np.arange(k.shape[1]) <= n
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, k.shape[1])))])
    ways = factorial[n.astype(int)] - factorial[k.astype(int)] - factorial[(n - k).astype(int)]

    def binomial(q: Vector) -> Vector:
        return np.asarray(there * np.exp(ways + k * np.log(q) + (n - k) * np.log1p(-q)))

    alone = binomial(p) * (1.0 - same)[:, None]
    alone[:, 0] += same * (1.0 - p[:, 0])
    alone[np.arange(len(at)), n[:, 0].astype(int)] += same * p[:, 0]
    own = (1.0 - _COPIED) * p
    seen = np.minimum(np.round(cells.wins[at]), n[:, 0]).astype(np.int64)
    return Outcomes(alone, binomial(_COPIED + own), binomial(own), seen)


def ratio_z(
    cells: Cells, at: tuple[NDArray[np.int64], NDArray[np.int64]], p: tuple[Vector, Vector],
    left: Vector, rho: Vector, common: float, member: NDArray[np.int64],
) -> Vector:  # fmt: skip
    """Return the z of the log ratios of pairs of workers, each summed over shared pairs of items.

    Parameters
    ----------
    cells, at
        The votes, and the cells of two workers, row by row of one pair of items.
    p, left
        Their probabilities, and the variance of what others leave open of the pair's effect.
    rho
        How much the votes of a worker on a pair are one opinion.
    common
        The share of answers that any two workers of the crowd have from one source.
    member
        The pair of workers of every row, from 0.
    """
    slow = careful(p[0]), careful(p[1])
    one, two = (outcomes(cells, where, q, rho) for where, q in zip(at, slow, strict=True))
    prior = 0.5 * (slow[0] + slow[1])[:, None, None]
    same = prior * _outer(one.first, two.first) + (1.0 - prior) * _outer(one.second, two.second)
    apart = _outer(one.alone, two.alone)
    value = np.log(np.maximum(same, 1e-300)) - np.log(np.maximum(apart, 1e-300))
    value = np.where(apart > 0.0, value, 0.0)
    likely = [_by_chance(cells, at, each, left, rho) for each in (slow, p)]
    chance = (1.0 - common) * np.mean(likely, axis=0) + common * same
    rows = np.arange(len(at[0]))
    seen = np.bincount(member, value[rows, one.seen, two.seen]).astype(np.float64)
    value, chance = (np.reshape(table, (len(rows), -1)) for table in (value, chance))
    return saddle_points(value, chance, seen, member)


def _by_chance(
    cells: Cells, at: tuple[NDArray[np.int64], NDArray[np.int64]], p: tuple[Vector, Vector],
    left: Vector, rho: Vector,
) -> Vector:  # fmt: skip
    """Return chances of all outcomes of two cells, over two points of the effect of their pair."""
    tables: list[Vector] = []
    for step in (np.sqrt(left), -np.sqrt(left)) if left.any() else (np.zeros(1),):
        moved = [sigmoid(np.log(q / (1.0 - q)) + step) for q in p]
        pair = [outcomes(cells, w, q, rho).alone for w, q in zip(at, moved, strict=True)]
        tables.append(_outer(*pair))
    chance = np.mean(tables, axis=0)
    return np.asarray(chance / chance.sum(axis=(1, 2), keepdims=True))


def ratio_with_group(
    cells: Cells, mine: NDArray[np.int64], others: NDArray[np.int64], p: Vector, rho: Vector
) -> float:
    """Return the z of one worker's log ratios given the answers of a group on shared pairs.

    The others of the group tell what the source prefers: P(o) becomes P(o | their votes). Given
    these the worker's own votes are as if alone, whoever of the group is alike.

    Parameters
    ----------
    cells, mine, others
        The votes, the worker's cells, one a pair of items, and those of the others in the group.
    p
        The probability of every cell.
    """
    odds = np.zeros(int(cells.unit.max()) + 1)
    met = np.zeros(len(odds), bool)
    if not len(others):
        return 0.0
    slow = careful(p)
    group = outcomes(cells, others, slow[others], rho)
    rows = np.arange(len(others))
    given = (each[rows, group.seen] for each in (group.first, group.second))
    first, second = (np.log(np.maximum(each, 1e-300)) for each in given)
    np.add.at(odds, cells.unit[others], first - second)
    met[cells.unit[others]] = True
    mine = mine[met[cells.unit[mine]]]
    if not len(mine):
        return 0.0
    own, sure = (outcomes(cells, mine, each[mine], rho) for each in (slow, p))
    source = sigmoid(np.log(slow[mine] / (1.0 - slow[mine])) + odds[cells.unit[mine]])[:, None]
    copied = source * own.first + (1.0 - source) * own.second
    value = np.log(np.maximum(copied, 1e-300)) - np.log(np.maximum(own.alone, 1e-300))
    value = np.where(own.alone > 0.0, value, 0.0)
    seen = float(value[np.arange(len(mine)), own.seen].sum())
    return saddle_point(value, 0.5 * (own.alone + sure.alone), seen)


def _outer(one: Vector, two: Vector) -> Vector:
    return np.asarray(one[:, :, None] * two[:, None, :])


def identical_z(cells: Cells, one: NDArray[np.int64], two: NDArray[np.int64], p: Vector) -> float:
    """Return the z of identical answers of two workers.

    The chance of identical answers is bounded from above, whatever effects pairs of items have:
    in a cell with one answer only, by an answer that agrees as if its residual had a correlation
    of `_EXPLAINED` with the other; in a cell with both answers, by the effect that makes this
    count most likely. So no other worker is needed to explain the pair of items.

    Parameters
    ----------
    cells, one, two
        The votes, and the cells of the two workers, row by row of one pair of items.
    p
        The calibrated probability of every cell.
    """
    n, k = cells.votes[one], cells.wins[one]
    same = (n == cells.votes[two]) & (k == cells.wins[two])
    answer = np.minimum(*(np.where(k > 0.0, p[at], 1.0 - p[at]) for at in (one, two)))
    likely = answer + _EXPLAINED * (1.0 - answer)
    mixed = np.flatnonzero((k > 0.0) & (k < n))
    likely[mixed] = [_most_likely(float(n[at]), float(k[at])) for at in mixed]
    copied = _COPIED + (1.0 - _COPIED) * likely
    chance = np.stack([1.0 - likely, likely], axis=1)
    value = np.log(np.stack([1.0 - copied, copied], axis=1) / np.maximum(chance, 1e-300))
    rows = np.arange(len(one))
    return saddle_point(value, chance, float(value[rows, same.astype(int)].sum()))


def _most_likely(n: float, k: float) -> float:
    """Return the largest probability of k of n votes that any probability of a vote gives."""
    ways = lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
    return min(exp(ways + k * log(k / n) + (n - k) * log1p(-k / n)), 1.0)
