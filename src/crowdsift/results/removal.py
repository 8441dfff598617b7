"""Searches for few votes, or few workers, without which two scores change their order.

A path of removals is laid by influence; along it the smallest number is found by fitting what is
left, which is what `margin` does: the difference of the two scores without the removed weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.results.influence import ScoreModel

    Margin = Callable[[Vector], float]

__all__ = ["VotePath", "WorkerPath"]

_SINGLY = 24  # votes that are taken one by one; of more, an eighth of what lacks at a time
_SHARE = 8
_BEYOND = 0.6  # of the margin: how far the path leads past the turn, for methods that lag behind
_MAX_REMOVALS = 1e6  # into which all votes are divided at most
_TRIED = 6  # workers whose removal is computed, of those with the largest influence


class VotePath:
    """Votes to remove one after the other, so that two scores change their order.

    Parameters
    ----------
    model, weight, scores
        The model that stands for the fit, the weights of its rows, and its scores.
    pair
        The item above and the item below.
    gap
        What the method's own difference is above that of the model.
    """

    def __init__(
        self, model: ScoreModel, weight: Vector, scores: Vector, pair: tuple[int, int], gap: float
    ) -> None:
        merged, held, self._place = model.pooled(weight)
        self._weight, self._cells = weight, len(held)
        self._units, self._amounts, ends = _path(merged, held, scores, pair, gap)
        self.start, self.length = gap + float(scores[pair[0]] - scores[pair[1]]), len(ends)
        turned = np.flatnonzero(ends < 0.0)
        self.guess = int(turned[0]) + 1 if len(turned) else self.length + 1

    def taken(self, number: int) -> Vector:
        """The weight that the first so many removals take from every row."""
        cells = np.bincount(self._units[:number], self._amounts[:number], self._cells)
        return _taken_by_row(cells.astype(np.float64), self._weight, self._place)

    def fewest(self, margin: Margin, quick: Margin | None, refits: int) -> Vector | None:
        """The weight taken from every row; None where no set was found.

        `margin` is the method's difference of the two scores for other weights, `quick` one that
        costs less and is about the same; each may be asked for `refits` times.
        """
        if not self.length:
            return None

        def without(measure: Margin) -> Callable[[int], float]:
            return lambda number: measure(self._weight - self.taken(number))

        found = _verified(
            without(margin), None if quick is None else without(quick),
            self.start, self.guess, self.length, refits,
        )  # fmt: skip
        if found is None:
            return None
        return _pruned(self.taken(found), self._weight, margin, refits)


class WorkerPath:
    """Workers to remove one after the other, at most `most`; see `VotePath`.

    `worker` is that of every row, and rises.
    """

    def __init__(
        self,
        model: ScoreModel,
        weight: Vector,
        scores: Vector,
        pair: tuple[int, int],
        gap: float,
        worker: NDArray[np.int64],
        most: int,
    ) -> None:
        self._weight, self._worker = weight, worker
        above, below = pair
        left, at = weight.copy(), scores
        merged, _, place = model.pooled(weight)
        self._runs = np.searchsorted(worker, np.arange(int(worker.max()) + 2))
        self.order: list[int] = []
        self.start = now = gap + float(scores[above] - scores[below])
        known, known_at, turn = [now], [0], 0
        most = min(most, int(worker.max()))
        while now > -_BEYOND * self.start and len(self.order) < most:
            chosen = self._next(model, left, at, pair, now)[: most - len(self.order)]
            if not chosen:
                break
            for who in chosen:
                left[self._runs[who] : self._runs[who + 1]] = 0.0
            held = np.bincount(place, left, len(merged.first)).astype(np.float64)
            at = merged.scores(held, at)
            now = gap + float(at[above] - at[below])
            self.order += chosen
            known.append(now)
            known_at.append(len(self.order))
            if now < 0.0 and not turn:
                turn = len(self.order)
                most = min(most, 2 * turn + 2)
        ends = np.interp(np.arange(1, len(self.order) + 1), known_at, known)
        turned = np.flatnonzero(ends < 0.0)
        self.guess = int(turned[0]) + 1 if len(turned) else len(self.order) + 1

    def _next(
        self, model: ScoreModel, left: Vector, at: Vector, pair: tuple[int, int], now: float
    ) -> list[int]:
        """Who lowers the difference most, of the workers of the largest summed influence.

        Where many are lacking, an eighth of them at once, by influence alone.
        """
        _, plain, hessian = model.effects(at, left, *pair)
        summed = np.bincount(self._worker, plain * left)
        order = np.argsort(summed, kind="stable")
        order = order[summed[order] < 0.0]
        if not len(order) or left.sum() <= left[self._worker == order[0]].sum():
            return []
        lacking = abs(now) / -float(summed[order[0]])
        if lacking > _SINGLY:
            return [int(who) for who in order[: int(lacking / _SHARE)]]
        tried, ends = order[:_TRIED].tolist(), []
        for who in tried:
            rows = np.arange(self._runs[who], self._runs[who + 1])
            scores = model.without(at, left, rows, hessian)
            ends.append(scores[pair[0]] - scores[pair[1]])
        return [int(tried[int(np.argmin(ends))])]

    def fewest(self, margin: Margin, quick: Margin | None, refits: int) -> list[int] | None:
        """The codes of the workers; None where no set was found."""
        if not self.order:
            return None

        def without(measure: Margin) -> Callable[[int], float]:
            return lambda number: measure(
                np.where(np.isin(self._worker, self.order[:number]), 0.0, self._weight)
            )

        found = _verified(
            without(margin), None if quick is None else without(quick),
            self.start, self.guess, len(self.order), refits,
        )  # fmt: skip
        return None if found is None else self.order[:found]


def _path(
    model: ScoreModel, held: Vector, scores: Vector, pair: tuple[int, int], gap: float
) -> tuple[NDArray[np.int64], Vector, Vector]:
    """Return the cells to take votes from, how much each time, and the difference after that.

    A removal takes one vote, or a millionth of all votes where they are more, so that the cost
    does not grow with weights. Scores and influences are computed anew after every removal, or
    after every eighth of what seems to be lacking. The path goes on beyond the turn, since other
    methods than bt may follow more slowly.
    """
    unit = float(np.ceil(max(held.sum() / _MAX_REMOVALS, 1.0)))
    above, below = pair
    left, at = held.copy(), scores
    cells: list[int] = []
    amounts: list[float] = []
    start = now = gap + float(at[above] - at[below])
    known, known_at, turn = [now], [0], 0
    while now > -_BEYOND * start and left.sum() > unit:
        effects, *_ = model.effects(at, left, above, below)
        effects = np.where(left > 0.0, effects, 0.0)
        strongest = float(effects.min())
        if strongest >= 0.0 or (turn and len(cells) > 2 * turn + 4):
            break
        lacking = now / -strongest / unit if now > 0.0 else float(turn)
        batch = max(int(lacking / _SHARE), 1) if lacking > _SINGLY else 1
        for cell in _lowest(effects, batch).tolist():
            while batch and left[cell] > 0.0 and effects[cell] < 0.0:
                amount = min(left[cell], unit)
                left[cell] -= amount
                batch -= 1
                cells.append(cell)
                amounts.append(amount)
        at = model.scores(left, at)
        now = gap + float(at[above] - at[below])
        known.append(now)
        known_at.append(len(cells))
        turn = turn or (len(cells) if now < 0.0 else 0)
    ends = np.interp(np.arange(1, len(cells) + 1), known_at, known)
    return np.array(cells, np.int64), np.array(amounts), ends


def _lowest(values: Vector, count: int) -> NDArray[np.intp]:
    """The places of the lowest values, in their order."""
    if count < len(values) // 4:
        places = np.argpartition(values, count)[:count]
        return places[np.lexsort((places, values[places]))]
    return np.argsort(values, kind="stable")[:count]


def _verified(
    margin: Callable[[int], float], quick: Callable[[int], float] | None,
    start: float, guess: int, most: int, refits: int,
) -> int | None:  # fmt: skip
    """The smallest number that `quick` found, if `margin` says the same of it.

    Otherwise the search goes on from there by `margin` alone.
    """
    if quick is not None:
        near = _smallest(quick, start, guess, most, refits)
        if near is not None and margin(near) < 0.0:
            return near
        guess = guess if near is None else near + 1
    return _smallest(margin, start, guess, most, refits)


def _smallest(
    margin: Callable[[int], float], start: float, guess: int, most: int, refits: int
) -> int | None:
    """The smallest number of removals with a negative margin that so many fits have found.

    By linear interpolation between the largest number that does not turn the order and the
    smallest that does; where none is known yet, by extrapolation.
    """
    low, at_low, high, at_high = 0, start, most + 1, -np.inf
    number = min(max(guess, 1), most)
    for _ in range(refits):
        found = margin(number)
        if found < 0.0:
            high, at_high = number, found
        else:
            low, at_low = number, found
        if high - low <= 1:
            break
        if high > most:  # half of what lacks more than the slope says, so that the turn is met
            slope = (start - at_low) / low
            more = at_low / slope if slope > 0.0 and np.isfinite(at_low) else 0.25 * low
            number = min(low + int(np.ceil(1.5 * more)), most)
        elif np.isfinite(at_low):
            number = low + int((high - low) * at_low / (at_low - at_high))
        else:
            number = (low + high) // 2
        number = min(max(number, low + 1), high - 1)
    return None if high > most else high


def _pruned(taken: Vector, weight: Vector, margin: Margin, refits: int) -> Vector:
    """What was taken, less what can be given back, one vote at a time; for small sets."""
    if taken.sum() > min(refits, _SINGLY):
        return taken
    for row in np.flatnonzero(taken > 0.0).tolist():
        while taken[row] > 0.0:
            fewer = taken.copy()
            fewer[row] -= min(1.0, taken[row])
            if margin(weight - fewer) >= 0.0:
                break
            taken = fewer
    return taken


def _taken_by_row(cells: Vector, weight: Vector, place: NDArray[np.int64]) -> Vector:
    """What is taken of cells, taken of their rows one after the other."""
    order = np.argsort(place, kind="stable")
    reached = np.cumsum(weight[order])
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    before = np.repeat(reached[starts] - weight[order][starts], np.diff([*starts, len(order)]))
    taken = np.zeros(len(weight))
    taken[order] = np.clip(
        cells[place[order]] - (reached - weight[order] - before), 0.0, weight[order]
    )
    return taken
