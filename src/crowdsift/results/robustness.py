"""The fewest votes, and the fewest workers, whose removal turns the order of two items.

Which votes is found by their influence (see `influence`), how many by fitting what is left: every
number that is told was verified so, and is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import CrowdsiftError, RequestError
from crowdsift.models.diagnostics import Kind
from crowdsift.results.influence import ScoreModel
from crowdsift.results.query import positions
from crowdsift.results.removal import VotePath, WorkerPath
from crowdsift.results.tables import Table
from crowdsift.results.words import label

if TYPE_CHECKING:
    from crowdsift.numeric import Vector
    from crowdsift.results.data import FitData
    from crowdsift.results.rescored import Nearby, Rescored
    from crowdsift.votes.comparisons import Comparisons

    Refit = Callable[[Comparisons], FitData]

__all__ = ["MOST_ITEMS", "Reversal", "Robustness", "robustness"]

MOST_ITEMS = 1_000  # whose Hessian is inverted
_CHALLENGERS = 3  # that are searched, those that seem to need the fewest votes
_ALL = 8  # items up to which every challenger is searched
_LEAST_OF_GUESS = 0.5  # of the first guess of a challenger it takes at least; it is too large
_FEW = 24  # votes, below which first guesses are not relied on
_REFITS = 5  # for one pair, of votes and of workers each
_CHEAP = 40  # of a method whose refits are fast


@dataclass(frozen=True)
class Reversal:
    """The fewest votes, and workers, whose removal reverses the order of two items.

    Attributes
    ----------
    above, below
        The labels of the items as the fit has them.
    votes
        The smallest number of votes found, verified by fitting the others; None where none was.
    removed
        These votes: worker, first, second, outcome and how many.
    workers
        The smallest set of workers found, likewise; None where none was. For a leader they may
        put another item above it than the votes do.
    """

    above: Any
    below: Any
    votes: float | None = None
    removed: Table | None = None
    workers: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Robustness:
    """How few votes the leader, or a neighbour, hangs on.

    Attributes
    ----------
    leader
        What reverses the order of the leader and the item that comes closest to taking its place.
    neighbours
        The same for every item and the next, where these were requested.
    total_votes, total_workers
        How many there are.
    refits
        How often the method was fitted to what is left.
    note
        Why there was nothing to search, or to remove; empty where there was.
    """

    leader: Reversal
    total_votes: float
    total_workers: int
    refits: int
    neighbours: tuple[Reversal, ...] = field(default=())
    note: str = ""

    def __str__(self) -> str:
        reversal = self.leader
        above, below = label(reversal.above), label(reversal.below)
        if reversal.votes is None:
            found = f"No set of votes was found whose removal puts another item above {above}"
            return self.note or found
        text = (
            f"Without at most {reversal.votes:,g} of the {self.total_votes:,g} votes "
            f"{below} would be above {above}"
        )
        if reversal.workers is not None:
            many = f"{len(reversal.workers):,} of the {self.total_workers:,} workers"
            text += f"; without at most {many} some other item would be"
        return f"{text}; {self.note}" if self.note else text

    def to_json(self) -> dict[str, Any]:
        """The figures, as `summary.json` holds them.

        Examples
        --------
        >>> from crowdsift.results.robustness import Robustness, Reversal
        >>> Robustness(Reversal("a", "b", 2.0), 30.0, 4, 1).to_json()["votes"]
        2.0
        """
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


def robustness(
    fit: FitData, refit: Refit, near: Nearby | None = None, *, neighbours: bool = False
) -> Robustness:
    """Search for the fewest votes and workers; see `Fit.robustness`.

    Parameters
    ----------
    fit
        The fit of all votes, with its votes.
    refit
        Fits the same method to fewer votes of the same items and workers.
    near
        Finds their scores with less work, where the method can go on from a fit.
    neighbours
        Whether every pair of neighbours is searched, too.
    """
    search = _Search(fit, refit, near)
    if any(each.kind is Kind.INFORMATION for each in fit.diagnostics):
        return search.nothing("Nothing was learned from these votes, so no order hangs on them")
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

    def __init__(self, fit: FitData, refit: Refit, near: Nearby | None = None) -> None:
        if fit.votes is None:
            raise RequestError(
                "a fit that was loaded does not hold its votes; fit them again to ask for the "
                "robustness"
            )
        if fit.votes.features is not None or fit.votes.item_class is not None:
            raise RequestError(
                f"{fit.method} also depends on features or classes of the votes, of which the "
                "influence is not known; use sift or bt for the robustness"
            )
        if fit.votes.n_items > MOST_ITEMS:
            raise RequestError(
                f"{fit.votes.n_items:,} items are too many for the robustness, at most "
                f"{MOST_ITEMS:,}"
            )
        self.fit, self.votes, self.refits = fit, fit.votes, 0
        self._refit = refit
        self._near = near if near is not None and near.possible else None
        row = positions(fit.votes.items, fit.labels)
        self.score = fit.item_table["score"].astype(np.float64)[row]
        self.component = fit.item_table["component"][row]
        self.counted = fit.item_table["comparisons"][row] > 0
        self.order = np.argsort(row, kind="stable")  # the codes, as they stand in the table
        self.model = ScoreModel.of(fit, fit.votes)
        self.weight = fit.votes.weight.astype(np.float64)
        self.base = self.model.scores(self.weight, self.score)

    @property
    def one_worker(self) -> bool:
        """Whether nobody can be left out."""
        return self.votes.has_workers and self.votes.n_workers == 1

    def nothing(self, note: str) -> Robustness:
        """The answer where there is nothing to search."""
        first, second = (self.votes.items[code] for code in self.order[:2])
        workers = self.votes.n_workers if self.votes.has_workers else 0
        return Robustness(Reversal(first, second), self.votes.total_weight, workers, 0, note=note)

    def leader(self) -> Reversal:
        """The challenger of the first component that needs the fewest votes."""
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
        """Every item and the next one of its component."""
        held = [code for code in self.order if self.counted[code]]
        return [(a, b) for a, b in pairwise(held) if self.component[a] == self.component[b]]

    def reversal(self, above: int, below: int) -> Reversal:
        """The fewest votes for one pair, and the fewest workers."""
        found = self._by_votes(above, [below], np.zeros(1))
        return replace(found, workers=self._by_workers(above, [below]))

    def _by_votes(self, above: int, others: list[int], needs: Vector) -> Reversal:
        """The fewest votes that put one of the others above; the likeliest comes first.

        `needs` are how many votes each seems to need, by its first guess.
        """
        items, best = (
            self.votes.items,
            Reversal(self.votes.items[above], self.votes.items[others[0]]),
        )
        for below in others:
            if self.score[above] <= self.score[below]:  # equal scores: nothing holds the order
                nothing = self._listed(np.zeros_like(self.weight))
                return Reversal(items[above], items[below], 0.0, nothing)
        for below, need in zip(others, needs.tolist(), strict=True):
            if best.votes is not None and _LEAST_OF_GUESS * need >= max(best.votes, _FEW):
                continue
            path = VotePath(self.model, self.weight, self.base, (above, below),
                            self._gap(above, below))  # fmt: skip
            if best.votes is not None and path.guess >= best.votes:
                continue
            taken = path.fewest(*self._margins(above, below), self._budget)
            if taken is not None and (best.votes is None or taken.sum() < best.votes):
                listed = self._listed(taken)
                best = Reversal(items[above], items[below], float(taken.sum()), listed)
        return best

    def _by_workers(self, above: int, others: list[int]) -> tuple[Any, ...] | None:
        """The smallest set of workers that puts one of the others above."""
        if not self.votes.has_workers or self.one_worker:
            return None
        best: list[int] | None = None
        worker = self.votes.worker_codes().astype(np.int64)
        for below in others:
            most = len(worker) if best is None else len(best) - 1
            path = WorkerPath(self.model, self.weight, self.base, (above, below),
                              self._gap(above, below), worker, most)  # fmt: skip
            if best is None or path.guess < len(best):
                found = path.fewest(*self._margins(above, below), self._budget)
                if found is not None and (best is None or len(found) < len(best)):
                    best = found
        return None if best is None else tuple(self.votes.workers[best].tolist())

    @property
    def _budget(self) -> int:
        return _CHEAP if self.fit.method == "bt" else _REFITS

    def _gap(self, above: int, below: int) -> float:
        """How far the method's own difference is beyond that of the model that stands for it."""
        own = self.score[above] - self.score[below]
        return float(own - (self.base[above] - self.base[below]))

    def _first_guess(self, above: int, below: int) -> float:
        """How many votes it takes if influences simply add up; infinity where all do not do."""
        effects = self.model.effects(self.base, self.weight, above, below)[0]
        order = np.argsort(effects, kind="stable")
        reach = np.cumsum(np.minimum(effects[order], 0.0) * self.weight[order])
        place = int(np.searchsorted(-reach, self.score[above] - self.score[below]))
        return float("inf") if place == len(order) else float(self.weight[order][:place].sum())

    def _margins(
        self, above: int, below: int
    ) -> tuple[Callable[[Vector], float], Callable[[Vector], float] | None]:
        """The difference in a fit of what is left, and in one that takes less work."""
        if self._near is None:
            return lambda left: self._margin(left, above, below), None
        series = self._near.series()

        def by(scores: Callable[[Comparisons], Rescored | None]) -> Callable[[Vector], float]:
            return lambda left: self._near_margin(left, above, below, scores)

        return by(series.whole), by(series.quick)

    def _margin(self, left: Vector, above: int, below: int) -> float:
        """The difference of two scores in a fit of the votes that are left.

        Infinite where they cannot be compared any more: then nothing is reversed.
        """
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
        """As `_margin`, from the start that is nearest."""
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
        """The votes that were taken away."""
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
