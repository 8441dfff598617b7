"""The fewest votes, and the fewest workers, whose removal reverses the order of two items.

A path of removals follows from influence (see `influence`). Along it the smallest number is found by fitting the
remaining votes, so every number is verified by a fit and is an upper bound.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.checks.influence import ScoreModel
from crowdsift.errors import CrowdsiftError, RequestError
from crowdsift.fitting.refit import Nearby, Rescored, refitter
from crowdsift.models.diagnostics import Kind
from crowdsift.numeric import Indices, Vector
from crowdsift.results.fit import Fit
from crowdsift.results.query import model_of, positions
from crowdsift.results.tables import Table
from crowdsift.results.words import item_label
from crowdsift.votes.comparisons import Comparisons

Refit = Callable[[Comparisons], Fit]
Margin = Callable[[Vector], float]

MOST_ITEMS = 1_000  # most items whose Hessian is inverted
_CHALLENGERS = 3  # challengers that are searched: those that seem to need the fewest votes
_ALL = 8  # most items with a search over every challenger
_LEAST_OF_GUESS = 0.5  # smallest true need as a share of the first guess, which is too large
_FEW = 24  # votes below which first guesses are not trusted
_REFITS = 5  # fits for one pair, for votes and for workers each
_CHEAP = 40  # the same for a method whose refits are fast


@dataclass(frozen=True)
class Reversal:
    """The fewest votes, and workers, whose removal reverses the order of two items.

    `above` and `below` are the items in the order of the fit. `votes` is the smallest number of votes found, verified
    by fitting the others, or None; `removed` lists these votes with worker, first, second, outcome and number.
    `workers` is the smallest set of workers found. For a leader, workers and votes may put different items above it.
    """

    above: Any
    below: Any
    votes: float | None = None
    removed: Table | None = None
    workers: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Robustness:
    """How many votes the place of the leader, or of neighbours, depends on.

    `leader` is what reverses the order of the leader and the item closest to taking its place, `neighbours` the same
    for every item and the next, if requested. `total_votes` and `total_workers` are the numbers in the fit, `refits` is
    the number of fits to remaining votes. `note` says why there was nothing to search or to remove, or is empty.
    """

    leader: Reversal
    total_votes: float
    total_workers: int
    refits: int
    neighbours: tuple[Reversal, ...] = field(default=())
    note: str = ""

    def __str__(self) -> str:
        reversal = self.leader
        above, below = (item_label(each, isinstance(each, tuple)) for each in (reversal.above, reversal.below))
        if reversal.votes is None:
            found = f"No set of votes was found whose removal puts another item above {above}"
            return self.note or found
        text = f"Without at most {reversal.votes:,g} of the {self.total_votes:,g} votes {below} would be above {above}"
        if reversal.workers is not None:
            many = f"{len(reversal.workers):,} of the {self.total_workers:,} workers"
            text += f"; without at most {many} some other item would be"
        return f"{text}; {self.note}" if self.note else text

    def to_json(self) -> dict[str, Any]:
        """Return the figures in the form of `summary.json`."""
        reversal = self.leader
        workers = None if reversal.workers is None else [str(each) for each in reversal.workers]
        return {
            "leader": str(reversal.above),
            "challenger": str(reversal.below),
            "votes": reversal.votes,
            "total_votes": self.total_votes,
            "workers": workers,
            "total_workers": self.total_workers,
            "neighbours": [
                {
                    "above": str(each.above),
                    "below": str(each.below),
                    "votes": each.votes,
                    "workers": None if each.workers is None else len(each.workers),
                }
                for each in self.neighbours
            ],
            "note": self.note,
        }


def robustness(fit: Fit, *, neighbours: bool = False, gold: Any = None, threads: int | None = None) -> Robustness:
    """Return the fewest votes and workers; see `Fit.robustness`."""
    search = _Search(fit, gold, threads)
    if any(each.kind is Kind.INFORMATION for each in fit.diagnostics):
        return search.nothing("Nothing was learned from these votes, so no order depends on them")
    if search.votes.total_weight <= 1.0:
        return search.nothing("There is one vote only: without it nothing would be left")
    leader = search.leader()
    pairs = search.neighbours() if neighbours else []
    return Robustness(
        leader,
        search.votes.total_weight,
        search.votes.n_workers if search.votes.has_workers else 0,
        search.refits,
        tuple(search.reversal(above, below) for above, below in pairs),
        "without the only worker nothing would be left" if search.one_worker else "",
    )


class _Search:
    """The search on the votes of one fit; items are codes of these votes."""

    def __init__(self, fit: Fit, gold: Any = None, threads: int | None = None) -> None:
        if fit.votes is None:
            raise RequestError("a loaded fit does not hold its votes; fit them again to test the robustness")
        special = (fit.votes.features, fit.votes.item_class, fit.votes.panels)
        if any(each is not None for each in special):
            raise RequestError(
                f"{fit.method} also depends on features, classes or panels of the votes, of which the influence is not "
                "known; use sift or bt without them for the robustness"
            )
        if fit.votes.choices is not None and model_of(fit).rankings != "pairs":
            raise RequestError(
                "the robustness removes votes on single pairs, and these votes are rankings; fit them without some of "
                "the workers and compare the leaders"
            )
        if fit.votes.n_items > MOST_ITEMS:
            raise RequestError(f"{fit.votes.n_items:,} items are too many for the robustness, at most {MOST_ITEMS:,}")
        self.fit, self.votes, self.refits = fit, fit.votes, 0
        self._refit, near = refitter(fit, gold, threads, warm=True), Nearby(fit, gold, threads)
        self._near = near if near.possible else None  # finds scores with less work
        row = positions(fit.votes.items, fit.labels)
        self.score = fit.item_table["score"].astype(np.float64)[row]
        self.component = fit.item_table["component"][row]
        self.counted = fit.item_table["comparisons"][row] > 0
        self.order = np.argsort(row, kind="stable")  # the codes in the order of the table
        self.model = ScoreModel.of(fit, fit.votes)
        self.weight = fit.votes.weight.astype(np.float64)
        self.base = self.model.scores(self.weight, self.score)

    @property
    def one_worker(self) -> bool:
        """Return whether no worker can be left out."""
        return self.votes.has_workers and self.votes.n_workers == 1

    def nothing(self, note: str) -> Robustness:
        """Return the result when there is nothing to search."""
        first, second = (self.votes.items[code] for code in self.order[:2])
        workers = self.votes.n_workers if self.votes.has_workers else 0
        return Robustness(Reversal(first, second), self.votes.total_weight, workers, 0, note=note)

    def leader(self) -> Reversal:
        """Return the challenger of the first component that needs the fewest votes."""
        group = self.component == self.component[self.order[0]]
        inside = [code for code in self.order if group[code] and self.counted[code]]
        if len(inside) < 2:
            raise RequestError("one item alone has no challenger")
        leader, others = inside[0], inside[1:]
        needs = np.array([self._first_guess(leader, other) for other in others])
        order = np.argsort(needs, kind="stable")[: _CHALLENGERS if len(others) >= _ALL else None]
        others = [others[i] for i in order]
        found = self._by_votes(leader, others, needs[order])
        return replace(found, workers=self._by_workers(leader, others))

    def neighbours(self) -> list[tuple[int, int]]:
        """Return the reversals of every item and the next one of its component."""
        held = [code for code in self.order if self.counted[code]]
        return [(a, b) for a, b in pairwise(held) if self.component[a] == self.component[b]]

    def reversal(self, above: int, below: int) -> Reversal:
        """Return the fewest votes for one pair, and the fewest workers."""
        found = self._by_votes(above, [below], np.zeros(1))
        return replace(found, workers=self._by_workers(above, [below]))

    def _by_votes(self, above: int, others: list[int], needs: Vector) -> Reversal:
        """Return the fewest votes that put one of the others above; the likeliest one is tried first."""
        # `needs` are the first guesses of how many votes each needs.
        items = self.votes.items
        best = Reversal(items[above], items[others[0]])
        for below in others:
            if self.score[above] <= self.score[below]:  # equal scores: no vote is needed
                nothing = self._listed(np.zeros_like(self.weight))
                return Reversal(items[above], items[below], 0.0, nothing)
        for below, need in zip(others, needs.tolist(), strict=True):
            if best.votes is not None and _LEAST_OF_GUESS * need >= max(best.votes, _FEW):
                continue
            path = VotePath(self.model, self.weight, self.base, (above, below), self._gap(above, below))
            if best.votes is not None and path.guess >= best.votes:
                continue
            taken = path.fewest(*self._margins(above, below), self._budget)
            if taken is not None and (best.votes is None or taken.sum() < best.votes):
                listed = self._listed(taken)
                best = Reversal(items[above], items[below], float(taken.sum()), listed)
        return best

    def _by_workers(self, above: int, others: list[int]) -> tuple[Any, ...] | None:
        """Return the smallest set of workers that puts one of the others above."""
        if not self.votes.has_workers or self.one_worker:
            return None
        best: list[int] | None = None
        worker = self.votes.worker_codes().astype(np.int64)
        for below in others:
            most = len(worker) if best is None else len(best) - 1
            path = WorkerPath(self.model, self.weight, self.base, (above, below), self._gap(above, below), worker, most)
            if best is None or path.guess < len(best):
                found = path.fewest(*self._margins(above, below), self._budget)
                if found is not None and (best is None or len(found) < len(best)):
                    best = found
        return None if best is None else tuple(self.votes.workers[best].tolist())

    @property
    def _budget(self) -> int:
        return _CHEAP if self.fit.method == "bt" else _REFITS

    def _gap(self, above: int, below: int) -> float:
        """Return by how much the gap of two scores in the fit differs from their gap in the approximation."""
        own = self.score[above] - self.score[below]
        return float(own - (self.base[above] - self.base[below]))

    def _first_guess(self, above: int, below: int) -> float:
        """Return how many votes are needed if influences add up; infinity if all votes do not suffice."""
        effects = self.model.effects(self.base, self.weight, above, below)[0]
        order = np.argsort(effects, kind="stable")
        reach = np.cumsum(np.minimum(effects[order], 0.0) * self.weight[order])
        place = int(np.searchsorted(-reach, self.score[above] - self.score[below]))
        return float("inf") if place == len(order) else float(self.weight[order][:place].sum())

    def _margins(self, above: int, below: int) -> tuple[Callable[[Vector], float], Callable[[Vector], float] | None]:
        if self._near is None:
            return lambda left: self._margin(left, above, below), None
        series = self._near.series()

        def by(scores: Callable[[Comparisons], Rescored | None]) -> Callable[[Vector], float]:
            return lambda left: self._near_margin(left, above, below, scores)

        return by(series.whole), by(series.quick)

    def _margin(self, left: Vector, above: int, below: int) -> float:
        # Infinite if they cannot be compared any more: then nothing is reversed.
        if not (left > 0.0).any():
            return float("inf")
        self.refits += 1
        try:
            fit = self._refit(self._votes_left(left))
        except CrowdsiftError:
            return float("inf")
        one, two = positions([self.votes.items[above], self.votes.items[below]], fit.labels)
        table = fit.item_table
        apart = table["component"][one] != table["component"][two]
        if apart or not table["comparisons"][one] or not table["comparisons"][two]:
            return float("inf")
        return float(table["score"][one] - table["score"][two])

    def _near_margin(
        self, left: Vector, above: int, below: int, scores: Callable[[Comparisons], Rescored | None]
    ) -> float:
        """Return `_margin`, computed from the closest start."""
        if not (left > 0.0).any():
            return float("inf")
        votes = self._votes_left(left)
        found = scores(votes)
        if found is None:
            return self._margin(left, above, below)
        self.refits += 1
        pair = np.array([above, below])
        seen = np.isin(pair, votes.first) | np.isin(pair, votes.second)
        if not seen.all() or found.component[above] != found.component[below]:
            return float("inf")
        return float(found.scores[above] - found.scores[below])

    def _votes_left(self, left: Vector) -> Comparisons:
        return replace(self.votes, weight=left.astype(np.float32)).select(left > 0.0)

    def _listed(self, taken: Vector) -> Table:
        rows, votes = np.flatnonzero(taken > 0.0), self.votes
        return Table(
            {
                "worker": votes.workers[votes.worker_codes()[rows]],
                "first": votes.items[votes.first[rows]],
                "second": votes.items[votes.second[rows]],
                "outcome": votes.outcome[rows].astype(np.float64),
                "votes": taken[rows],
            }
        )


_SINGLY = 24  # votes that are removed one by one; of more, an eighth of those still needed at a time
_SHARE = 8
_BEYOND = 0.6  # share of the margin by which the path goes past the reversal, for methods that react more slowly
_MAX_REMOVALS = 1e6  # most parts into which all votes are divided
_TRIED = 6  # workers with the largest influence whose removal is computed


class VotePath:
    """Choose votes to remove one after the other, until two scores change their order."""

    def __init__(self, model: ScoreModel, weight: Vector, scores: Vector, pair: tuple[int, int], gap: float) -> None:
        merged, held, self._place = model.pooled(weight)
        self._weight, self._cells = weight, len(held)
        self._units, self._amounts, ends = _path(merged, held, scores, pair, gap)
        self.start, self.length = gap + float(scores[pair[0]] - scores[pair[1]]), len(ends)
        turned = np.flatnonzero(ends < 0.0)
        self.guess = int(turned[0]) + 1 if len(turned) else self.length + 1

    def taken(self, number: int) -> Vector:
        """Return the weight that the first `number` removals take from every row."""
        cells = np.bincount(self._units[:number], self._amounts[:number], self._cells)
        return _taken_by_row(cells.astype(np.float64), self._weight, self._place)

    def fewest(self, margin: Margin, quick: Margin | None, refits: int) -> Vector | None:
        """Return the weight taken from every row; None if no set was found."""
        # `margin` is the method's difference of the two scores for other weights, `quick` a cheaper approximation; each
        # may be called `refits` times.
        if not self.length:
            return None

        def without(measure: Margin) -> Callable[[int], float]:
            return lambda number: measure(self._weight - self.taken(number))

        found = _verified(
            without(margin), None if quick is None else without(quick), self.start, self.guess, self.length, refits
        )
        if found is None:
            return None
        return _pruned(self.taken(found), self._weight, margin, refits)


class WorkerPath:
    """Choose at most `most` workers to remove one after the other; rows are sorted by worker."""

    def __init__(
        self,
        model: ScoreModel,
        weight: Vector,
        scores: Vector,
        pair: tuple[int, int],
        gap: float,
        worker: Indices,
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

    def _next(self, model: ScoreModel, left: Vector, at: Vector, pair: tuple[int, int], now: float) -> list[int]:
        """Return who lowers the difference most, among the workers with the largest summed influence."""
        # If many are still needed, an eighth of them at once, by influence alone.
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
        """Return the codes of the workers; None if no set was found."""
        if not self.order:
            return None

        def without(measure: Margin) -> Callable[[int], float]:
            return lambda number: measure(np.where(np.isin(self._worker, self.order[:number]), 0.0, self._weight))

        found = _verified(
            without(margin), None if quick is None else without(quick), self.start, self.guess, len(self.order), refits
        )
        return None if found is None else self.order[:found]


def _path(
    model: ScoreModel, held: Vector, scores: Vector, pair: tuple[int, int], gap: float
) -> tuple[Indices, Vector, Vector]:
    """Return the cells from which votes are taken, how much each time, and the difference after each."""
    # A removal takes one vote, or a millionth of all votes if that is more, so that the cost does not grow with
    # weights. Scores and influences are computed again after every removal, or after every eighth of the removals that
    # still seem to be needed. The path goes on past the reversal, since methods other than bt may react more slowly.
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
    if count < len(values) // 4:
        places = np.argpartition(values, count)[:count]
        return places[np.lexsort((places, values[places]))]
    return np.argsort(values, kind="stable")[:count]


def _verified(
    margin: Callable[[int], float],
    quick: Callable[[int], float] | None,
    start: float,
    guess: int,
    most: int,
    refits: int,
) -> int | None:
    # Otherwise the search continues from there by `margin` alone.
    if quick is not None:
        near = _smallest(quick, start, guess, most, refits)
        if near is not None and margin(near) < 0.0:
            return near
        guess = guess if near is None else near + 1
    return _smallest(margin, start, guess, most, refits)


def _smallest(margin: Callable[[int], float], start: float, guess: int, most: int, refits: int) -> int | None:
    """Return the smallest number of removals with a negative margin, by at most `refits` fits."""
    # By linear interpolation between the largest number that does not reverse the order and the smallest that does; if
    # none is known yet, by extrapolation.
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
        if high > most:  # half more than the slope suggests, so that the reversal is passed
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
    """Return the removals without those that can be given back, one vote at a time; for small sets."""
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


def _taken_by_row(cells: Vector, weight: Vector, place: Indices) -> Vector:
    order = np.argsort(place, kind="stable")
    reached = np.cumsum(weight[order])
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    before = np.repeat(reached[starts] - weight[order][starts], np.diff([*starts, len(order)]))
    taken = np.zeros(len(weight))
    taken[order] = np.clip(cells[place[order]] - (reached - weight[order] - before), 0.0, weight[order])
    return taken
