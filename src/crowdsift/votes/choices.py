"""Rankings and best-worst answers as choices: one alternative of several, by a worker.

A ranking is a sequence of choices: the best of all items, the best of the rest, and so on (Plackett 1975, Luce 1959).
Alternatives of a ranking are items. A best-worst answer is one choice among all ordered pairs of its items (max-diff:
Marley and Louviere 2005).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError
from crowdsift.numeric import Indices, Labels, Mask, Vector
from crowdsift.votes.comparisons import Comparisons, EncodedVotes
from crowdsift.votes.graph import for_lower

Ranking = tuple[tuple[int, float], ...]  # items with their ranks, the best first

_DIRECT = 1e-3  # least share of the probability of a best-worst answer for the pair of its best and worst item
NOT_RANKED = inf  # the rank of an item that was shown and is below all ranked ones


@dataclass(frozen=True, eq=False)
class Choices:
    """Choices of workers, each of one alternative among several; the chosen one comes first.

    `plus` and `minus` are the items of every alternative: its utility is the score of `plus`, less that of `minus`
    where it is not -1. `tied` says whether an alternative was ranked as equal to the chosen one. `offsets` has the
    first alternative of every choice, and the end; `worker` and `weight` have an entry per choice. Tied items stand for
    the mean over their orders, whose weights add to 1.
    """

    plus: Indices
    minus: Indices
    tied: Mask
    offsets: Indices
    worker: Indices
    weight: Vector

    @classmethod
    def of_pairs(
        cls,
        record: NDArray[np.integer],
        pair: tuple[NDArray[np.integer], NDArray[np.integer]],
        ranks: Vector,
        worker: NDArray[np.integer] | None,
        max_diff: bool,
        weight: NDArray[np.floating[Any]] | None = None,
    ) -> Choices:
        """Return the choices of rankings, given the pairs of every record with their ranks."""
        own: dict[int, dict[int, float]] = {}
        who = np.zeros(len(record), np.int64) if worker is None else worker
        often = np.ones(len(record)) if weight is None else weight
        of: dict[int, tuple[int, float]] = {}
        rows = zip(*(x.tolist() for x in (record, *pair, ranks, who, often)), strict=True)
        for number, one, two, (first, second), by, times in rows:
            own.setdefault(number, {}).update({one: first, two: second})
            of[number] = by, times
        counts: dict[tuple[int, Ranking], float] = defaultdict(float)
        for number, known in own.items():
            by, times = of[number]
            counts[by, tuple(sorted(known.items(), key=lambda each: each[::-1]))] += times
        alternatives, choices = list[tuple[int, int, bool]](), list[tuple[int, int, float]]()
        for (by, ranking), count in sorted(counts.items()):
            for found, share in (_max_diff if max_diff else _stages)(ranking):
                alternatives += found
                choices.append((len(alternatives), by, count * share))
        plus, minus, tied = np.array(alternatives, np.int64).T
        ends, workers, weights = np.array(choices).T
        return cls(
            plus, minus, tied.astype(bool), np.append(0, ends).astype(np.int64), workers.astype(np.int64), weights
        )

    @classmethod
    def of_plain(cls, votes: EncodedVotes) -> Choices:
        """Return votes on pairs as rankings of two items; a tie is half of each order."""
        if not np.isin(votes.outcome, (0.0, 0.5, 1.0)).all():
            raise InputError("rankings and soft outcomes cannot be combined", source=votes.source)
        ranks, pair = np.column_stack([1.0 - votes.outcome, votes.outcome]), (votes.first, votes.second)
        return cls.of_pairs(np.arange(len(votes)), pair, ranks, votes.worker_codes(), False, votes.weight)

    def rankings(self) -> Iterator[tuple[int, Ranking, bool, float]]:
        """Yield rankings with these choices: the worker, the ranks, whether best-worst, and how often."""
        at, choice = 0, np.split(np.arange(len(self.plus)), self.offsets[1:-1])
        while at < len(self):
            worker, first, ranks = int(self.worker[at]), choice[at][0], dict[int, float]()
            rest, often = set(self.plus[choice[at]].tolist()), 0.0
            if self.minus[first] >= 0:
                ranks = dict.fromkeys(rest, 1.0) | {int(self.plus[first]): 0.0, int(self.minus[first]): 2.0}
                yield worker, tuple(sorted(ranks.items(), key=lambda each: each[1])), True, float(self.weight[at])
                at += 1
                continue
            while at < len(self) and self.worker[at] == worker and set(self.plus[choice[at]].tolist()) == rest:
                rows = choice[at]
                group = self.plus[rows[self.tied[rows] | (rows == rows[0])]].tolist()
                orders = len(_orders(group))
                if often and abs(often - orders * self.weight[at]) > 1e-9 * often:
                    break
                often = orders * float(self.weight[at])
                ranks |= dict.fromkeys(group, float(len(ranks)))
                at += orders * min(len(group), len(rest) - 1)
                rest -= set(group)
            ranks |= dict.fromkeys(rest, NOT_RANKED)
            yield worker, tuple(ranks.items()), False, often

    def __len__(self) -> int:
        return len(self.worker)

    @property
    def choice(self) -> Indices:
        """The choice of every alternative."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def select(self, keep: Mask) -> Choices:
        inside, ends = np.repeat(keep, np.diff(self.offsets)), np.append(0, np.cumsum(np.diff(self.offsets)[keep]))
        parts = self.plus[inside], self.minus[inside], self.tied[inside]
        return Choices(*parts, ends, self.worker[keep], self.weight[keep])

    def recoded(self, items: NDArray[np.integer] | None = None, workers: NDArray[np.integer] | None = None) -> Choices:
        """Return the choices with other codes for items, or for workers."""
        found = self
        if items is not None:
            codes = np.append(items.astype(np.int64), -1)
            found = replace(found, plus=codes[self.plus], minus=codes[self.minus])
        if workers is not None:
            found = replace(found, worker=workers.astype(np.int64)[self.worker])
        return found

    def joined(self, other: Choices) -> Choices:
        """Return these choices together with others that have the same codes."""
        names = ("plus", "minus", "tied", "worker", "weight")
        both = {name: np.concatenate([getattr(x, name) for x in (self, other)]) for name in names}
        return Choices(**both, offsets=np.append(self.offsets, self.offsets[-1] + other.offsets[1:]))

    def probabilities(self, scores: Vector, slopes: Vector | None = None) -> tuple[Vector, Vector]:
        """Return the probability of every alternative, and the log probability of every choice made."""
        padded = np.append(scores, 0.0)
        utility = padded[self.plus] - padded[self.minus]
        if slopes is not None:
            utility = utility * slopes[self.worker][self.choice]
        start, choice = self.offsets[:-1], self.choice
        utility = utility - np.maximum.reduceat(utility, start)[choice]
        mass = np.exp(utility)
        total = np.add.reduceat(mass, start)
        return mass / total[choice], utility[start] - np.log(total)

    def pair_weights(self, votes: Comparisons, scores: Vector, slopes: Vector) -> Vector:
        """Return weights for the pairs of votes that give them the information of these choices."""
        # The gradient of log P(i) of a choice i among several is Σ_j (p_i + p_j)·∇ log σ(r_i - r_j): with the weights
        # p_i + p_j the pairs of the chosen item have the gradient of the choice. Averaged over the possible choices
        # they also have its information p_i p_j. Both hold for the worker's slope as well. Votes that belong to no
        # choice, such as gold, keep their weights.
        p, _ = self.probabilities(scores, slopes)
        k, choice = votes.n_items, self.choice
        first = self.offsets[:-1][choice]
        single = (self.minus < 0) & (np.arange(len(p)) != first)
        every = (self.plus[first], self.plus, self.worker[choice], self.tied, self.weight[choice] * (p + p[first]))
        columns = [tuple(column[single] for column in every), *self._max_diff_pairs(p, scores, slopes)]
        winner, loser, worker, tied, weight = (np.concatenate(x) for x in zip(*columns, strict=True))
        outcome = np.where(tied, 0.5, 1.0)
        wanted = _keys(winner, loser, outcome, worker, k)
        who = votes.worker_codes().astype(np.int64)
        known = _keys(votes.first, votes.second, votes.outcome.astype(np.float64), who, k)
        order = np.argsort(known, kind="stable")
        row = order[np.minimum(np.searchsorted(known[order], wanted), len(order) - 1)]
        there = known[row] == wanted
        summed = np.bincount(row[there], weight[there], len(known))
        hit = np.bincount(row[there], minlength=len(known)) > 0
        return np.where(hit, summed, votes.weight.astype(np.float64))

    def _max_diff_pairs(self, p: Vector, scores: Vector, slopes: Vector) -> Iterator[tuple[NDArray[Any], ...]]:
        """Yield the pairs of best-worst answers with their weights; answers with equally many items come together."""
        # With p_k and q_k the probabilities of k to be the best and the worst, the gradient of i best and j worst is
        # that of the pairs i over k and k over j with weights (p_k + c_k)/σ(r_k - r_i) and (q_k + c_k)/σ(r_j - r_k),
        # for any c with Σc_k = p_j + q_i over the other items k. The pair i over j gets almost none of this sum: then,
        # at equal scores, the pairs also have the information of the answer.
        size, start = np.diff(self.offsets), self.offsets[:-1]
        answers = self.minus[start] >= 0
        for count in np.unique(size[answers]).tolist():
            n = round(0.5 + np.sqrt(0.25 + count))
            chosen = np.flatnonzero(answers & (size == count))
            at = start[chosen][:, None] + np.arange(count)
            one, two = (np.array(x) for x in zip(*_ordered(n), strict=True))
            joint = np.zeros((len(chosen), n, n))
            joint[:, one, two] = p[at]
            best, worst = joint.sum(axis=2), joint.sum(axis=1)
            items = np.zeros((len(chosen), n), np.int64)
            items[:, one], items[:, two] = self.plus[at], self.minus[at]
            score = scores[items] * slopes[self.worker[chosen]][:, None]
            inner, ends = slice(1, n - 1), (slice(0, 1), slice(n - 1, n))
            either, rest = best[:, inner] + worst[:, inner], best[:, -1:] + worst[:, :1]
            spare = (1.0 - _DIRECT) * rest * either / either.sum(axis=1, keepdims=True)
            for above, below, mass in (
                (ends[0], inner, best[:, inner] + spare),
                (inner, ends[1], worst[:, inner] + spare),
                (ends[0], ends[1], _DIRECT * rest),
            ):
                odds = np.exp(np.clip(score[:, above] - score[:, below], -500.0, 500.0))
                weight = self.weight[chosen][:, None] * mass * (1.0 + odds)
                known = items[:, above], items[:, below], self.worker[chosen][:, None]
                yield (
                    *(np.broadcast_to(x, weight.shape).ravel() for x in known),
                    np.zeros(weight.size, bool),
                    weight.ravel(),
                )


def _keys(first: NDArray[Any], second: NDArray[Any], outcome: Vector, worker: Indices, k: int) -> Indices:
    low, high = (f(first, second).astype(np.int64) for f in (np.minimum, np.maximum))
    three = np.rint(2.0 * for_lower(first, second, outcome)).astype(np.int64)
    return np.asarray(((worker * k + low) * k + high) * 3 + three)


def _stages(ranking: Ranking) -> Iterator[tuple[list[tuple[int, int, bool]], float]]:
    """Yield the choices of a ranking with their weights; ties are the mean over orders."""
    left = [item for item, _ in ranking]
    for rank in sorted({rank for _, rank in ranking if rank != NOT_RANKED}):
        group = [item for item, own in ranking if own == rank]
        orders = _orders(group)
        for order in orders:
            rest = list(left)
            for item in order:
                others = [other for other in rest if other != item]
                if others:
                    tie = set(group)
                    rows = [(item, -1, False), *((other, -1, other in tie) for other in others)]
                    yield rows, 1.0 / len(orders)
                rest = others
        left = [item for item in left if item not in group]


def _orders(group: list[int]) -> list[tuple[int, ...]]:
    """Return the rotations of tied items and their reverses: all orders of up to three."""
    turned = [group[i:] + group[:i] for i in range(len(group))]
    return sorted({tuple(each[::side]) for each in turned for side in (1, -1)})


def _ordered(n: int) -> list[tuple[int, int]]:
    """Return all ordered pairs of n places, beginning with (first, last)."""
    pairs = [(one, two) for one in range(n) for two in range(n) if one != two]
    return sorted(pairs, key=lambda pair: pair != (0, n - 1))


def _max_diff(ranking: Ranking) -> Iterator[tuple[list[tuple[int, int, bool]], float]]:
    """Yield the choice of a best-worst answer; its first item is the best, its last the worst."""
    items = [item for item, _ in ranking]
    if len(items) == 2:
        yield from _stages(ranking)
        return
    yield [(items[one], items[two], False) for one, two in _ordered(len(items))], 1.0


def ranked_pairs(
    ranking: Iterable[tuple[Any, float]], max_diff: bool = False
) -> Iterator[tuple[Any, Any, float, float, tuple[float, float]]]:
    """Return first, second, outcome, weight and ranks of every pair of a ranking; the lowest rank is best."""
    # Unranked items, and those between the best and the worst, are not compared with each other.
    items = list(ranking)
    for (one, first), (two, second) in combinations(items, 2):
        if first != second or not (max_diff or first == NOT_RANKED):
            outcome = 0.5 * (1 + (first < second) - (first > second))
            yield one, two, outcome, 2.0 / len(items), (first, second)


def votes_of_rankings(
    rankings: Iterable[Ranking], worker: Iterable[int], labels: tuple[Labels, Labels], max_diff: bool = False
) -> Comparisons:
    """Return rankings as votes on pairs and as choices; `labels` are those of items and of workers."""
    rows = [
        (number, who, *pair)
        for number, (ranking, who) in enumerate(zip(rankings, worker, strict=True))
        for pair in ranked_pairs(ranking, max_diff)
    ]
    record, by, first, second, outcome, weight, ranks = (np.array(column) for column in zip(*rows, strict=True))
    codes = [column.astype(np.uint32) for column in (first, second, by)]
    votes = Comparisons.from_codes(
        *codes[:2], worker=codes[2], outcome=outcome, weight=weight, items=labels[0], workers=labels[1]
    )
    return replace(votes, choices=Choices.of_pairs(record, (first, second), ranks, by, max_diff))
