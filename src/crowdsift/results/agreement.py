"""Agreement of workers with the order that the votes of others imply.

The scores are those of all votes. To leave a worker's own votes out, one Newton step is made from
them: with Λ the curvature of the objective in a component, Λ_s and g_s what the worker's votes add
to it and to the gradient, scores of the others are m - (Λ - Λ_s)⁻¹ g_s. Votes on pairs that no
chain of the others' votes connects do not count. Where components are too large for that, and for
methods that do not tell workers apart, the order is that of all votes, and pairs with an item that
nobody else has judged do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift._core import judged_by_one
from crowdsift.numeric.likelihoods import sigmoid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.results.build import FitBuilder

    Codes = NDArray[np.int64]

_LARGEST = 64  # items of a component in which a worker's votes are left out
_MOST_WORK = 1e8  # multiplications in all
_NUMBERS = 2_000_000  # of matrices at a time
_ROWS = 1 << 22  # votes in files that are read for it
_EQUAL = 1e-9  # a difference of scores that is no order


class _Votes(NamedTuple):
    """Votes: who on what, what they add to Λ, and to g."""

    worker: Codes
    first: Codes
    second: Codes
    sign: Vector  # of the outcome for the first, 0 for a tie
    weight: Vector
    curvature: Vector
    residual: Vector


def agreement(fitted: FitBuilder) -> Vector:
    """Of every worker the share of decided votes that agree with the order by others' votes.

    NaN where no vote of a worker can be compared.

    Examples
    --------
    >>> import crowdsift
    >>> rows = {"winner": ["a", "a", "a", "b", "x"], "loser": ["b", "b", "b", "a", "y"],
    ...         "worker": ["ann", "bob", "cid", "eve", "ann"]}
    >>> crowdsift.fit(rows, "bt").workers["agreement"].tolist()  # only ann judged x and y
    [1.0, 1.0, 1.0, 0.0]
    """
    votes = fitted.votes
    if votes.elsewhere is not None or (votes.on_disk and len(votes) > _ROWS):
        return fitted.counted.agreement  # of all votes: its rows are not in memory
    component = fitted.component.astype(np.int64)
    sizes = np.bincount(component)
    alone = judged_by_one(votes.first, votes.second, votes.offsets, votes.n_items) > 0
    small_ones = fitted.model.uses_workers and bool((sizes[sizes > 1] <= _LARGEST).any())
    if not small_ones and not alone.any():
        return fitted.counted.agreement
    rows, count = _votes(fitted), votes.n_workers
    gap = fitted.estimate.scores[rows.first] - fitted.estimate.scores[rows.second]
    order = np.where(np.abs(gap) > _EQUAL, np.sign(gap), 0.0)
    order[alone[rows.first] | alone[rows.second]] = 0.0
    if small_ones:
        # The votes of a worker in a component are one problem.
        key = rows.worker * len(sizes) + component[rows.first]
        problems, of_vote = np.unique(key, return_inverse=True)
        work = sizes[problems % len(sizes)].astype(np.float64) ** 3
        by_work = np.argsort(work, kind="stable")
        small = np.empty(len(work), bool)
        small[by_work] = np.cumsum(work[by_work]) <= _MOST_WORK
        small &= sizes[problems % len(sizes)] <= _LARGEST
        _leave_out(fitted, rows, problems, of_vote, small, order)
    counts = rows.weight * (rows.sign != 0) * (order != 0)
    agreed = np.bincount(rows.worker, counts * (rows.sign == order), count)
    total = np.bincount(rows.worker, counts, count)
    share = np.full(count, np.nan)
    np.divide(agreed, total, out=share, where=total > 0)
    return share


def _votes(fitted: FitBuilder) -> _Votes:
    votes, result = fitted.votes, fitted.estimate.workers
    first, second = votes.first.astype(np.int64), votes.second.astype(np.int64)
    worker = votes.worker_codes().astype(np.int64)
    weight, outcome = votes.weight.astype(np.float64), votes.outcome.astype(np.float64)
    beta = np.ones(votes.n_workers)
    if result.reliability is not None:
        beta = result.reliability - result.random_level
    slope, scores = beta[worker], fitted.estimate.scores
    p = sigmoid(slope * (scores[first] - scores[second]))
    return _Votes(
        worker, first, second, np.sign(outcome - 0.5), weight,
        weight * slope**2 * p * (1.0 - p), weight * slope * (outcome - p),
    )  # fmt: skip


def _leave_out(
    fitted: FitBuilder,
    votes: _Votes,
    problems: Codes,
    of_vote: NDArray[np.intp],
    small: NDArray[np.bool_],
    order: Vector,
) -> None:
    """Fill in the orders of small problems, those of one size together."""
    component = fitted.component.astype(np.int64)
    sizes = np.bincount(component)
    by_component = np.argsort(component, kind="stable")
    start = np.cumsum(sizes) - sizes
    place = np.empty(len(component), np.int64)
    place[by_component] = np.arange(len(component)) - np.repeat(start, sizes)
    which = problems % len(sizes)
    by_problem = np.argsort(of_vote, kind="stable")
    ends = np.cumsum(np.bincount(of_vote, minlength=len(problems)))
    precision = fitted.estimate.precision
    shift = 1.0 if precision is None else precision.shift * precision.size**2
    whole = _Laplacians(votes, component, place, sizes, shift)
    for k in np.unique(sizes[which[small]]).tolist():
        chosen = np.flatnonzero(small & (sizes[which] == k))
        step = max(_NUMBERS // (k * k), 1)
        for begin in range(0, len(chosen), step):
            some = chosen[begin : begin + step]
            rows = _runs(by_problem, ends, some)
            problem = np.searchsorted(some, of_vote[rows])
            one, two = place[votes.first[rows]], place[votes.second[rows]]
            left, gone = whole.without(which[some], rows, problem, one, two)
            items = by_component[start[which[some]][:, None] + np.arange(k)]
            scores = fitted.estimate.scores[items]
            ends_of = np.concatenate([problem * k + one, problem * k + two])
            residual = np.concatenate([votes.residual[rows], -votes.residual[rows]])
            gradient = np.bincount(ends_of, residual, len(some) * k).reshape(len(some), k)
            try:
                scores = scores - np.linalg.solve(left, gradient[:, :, None])[:, :, 0]
            except np.linalg.LinAlgError:  # slopes beyond all sizes: no order is known
                continue
            gap = scores[problem, one] - scores[problem, two]
            known = gone[problem, one, two] & (np.abs(gap) > _EQUAL)
            order[rows] = np.where(known, np.sign(gap), 0.0)


class _Laplacians:
    """Curvatures of components and counts of their votes, a pair by its smaller place first."""

    def __init__(
        self, votes: _Votes, component: Codes, place: Codes, sizes: Codes, shift: float
    ) -> None:
        self._votes, self._sizes, self._shift = votes, sizes, shift
        small = sizes <= _LARGEST
        self._start = np.cumsum(np.where(small, sizes**2, 0)) - np.where(small, sizes**2, 0)
        used = small[component[votes.first]]
        where = component[votes.first[used]]
        one, two = place[votes.first[used]], place[votes.second[used]]
        at = self._start[where] + np.minimum(one, two) * sizes[where] + np.maximum(one, two)
        length = int(np.where(small, sizes**2, 0).sum())
        self._weight = np.asarray(np.bincount(at, votes.curvature[used], length), np.float64)
        self._count = np.bincount(at, minlength=length)

    def without(
        self, which: Codes, rows: Codes, problem: Codes, one: Codes, two: Codes
    ) -> tuple[Vector, NDArray[np.bool_]]:
        """Λ - Λ_s of components of one size, and what others' votes connect."""
        k = int(self._sizes[which[0]])
        each, row = np.unique(which, return_inverse=True)
        begin = self._start[each][:, None] + np.arange(k * k)
        weight, linked = self._weight[begin], self._count[begin]
        weight, linked = weight.reshape(-1, k, k), linked.reshape(-1, k, k)
        matrix: Vector = -(weight + weight.transpose(0, 2, 1))[row]
        joined = (linked + linked.transpose(0, 2, 1) > 0)[row]
        # What a worker's own pairs are without them; all others stay.
        key = (problem * k + np.minimum(one, two)) * k + np.maximum(one, two)
        pairs, of_pair = np.unique(key, return_inverse=True)
        problem, one, two = pairs // (k * k), pairs // k % k, pairs % k
        at = begin[row[problem], one * k + two]
        others = self._count[at] > np.bincount(of_pair)
        left = self._weight[at] - np.bincount(of_pair, self._votes.curvature[rows])
        left = np.where(others & (left > 0), left, 0.0)
        matrix[problem, one, two] = matrix[problem, two, one] = -left
        joined[problem, one, two] = joined[problem, two, one] = others
        items = np.arange(k)
        matrix[:, items, items] = self._shift - matrix.sum(axis=2)
        joined[:, items, items] = True
        return matrix, _connected(joined)


def _connected(linked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which items of graphs are connected by a chain; every item is linked with itself."""
    n, k, _ = linked.shape
    step = linked.astype(np.float32)
    found = step[:, :1, :]
    reached, before = int(np.count_nonzero(found)), 0
    while reached > before:  # most graphs are whole: one row of each tells
        found = (found @ step > 0).astype(np.float32)
        reached, before = int(np.count_nonzero(found)), reached
    connected = np.ones((n, k, k), bool)
    apart = np.flatnonzero(~found.all(axis=(1, 2)))
    reach = step[apart]
    for _ in range(int(np.ceil(np.log2(max(k - 1, 1)))) if len(apart) else 0):
        reach = (reach @ reach > 0).astype(np.float32)
    connected[apart] = reach > 0
    return connected


def _runs(order: Codes, ends: Codes, some: Codes) -> Codes:
    """The votes of some problems, which lie in runs of the order."""
    begin = np.where(some > 0, ends[some - 1], 0)
    length = ends[some] - begin
    offset = np.repeat(begin - (np.cumsum(length) - length), length)
    return np.asarray(order[np.arange(int(length.sum())) + offset])
