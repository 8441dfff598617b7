"""Choose one batch of questions: which pair is next, and who is asked."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from crowdsift.active.beliefs import Belief, answer, answers, vote_precision
from crowdsift.models.dimensions import DimensionEstimate
from crowdsift.numeric import Indices, Mask, Vector
from crowdsift.votes.graph import pair_keys

TYPES = 16  # points that represent the distribution of a reliability
_DRAWS = 100  # draws of a reliability, whose mean decides who is asked
_TRIAL = 12  # votes before a worker's reliability is informative
_POOL, _POOL_SHARE = 20_000, 40  # candidates kept, at least and per wanted question
# Variance by which the log odds of a pair differ from the difference of its scores. So n votes on one pair have the
# information 1 / (variance + 4/n) on that difference, and not n/4. Without it a goal at the top asks about one close
# pair thousands of times, and mistakes the pair's own effect for the order of its items.
_LACK_OF_FIT = 0.1


@dataclass
class State:
    """The present belief: scores, islands, and every worker's reliability as probabilities of types."""

    belief: Belief
    component: Indices
    population: Vector  # equally probable types of an unknown worker
    types: Vector  # one row per worker
    share: Vector
    votes: Vector  # votes of every worker
    dimensions: DimensionEstimate | None = None  # with a last worker, who stands for any worker
    on_pair: Vector | None = None  # votes on every pair; not kept for thousands of items

    def offset(self, worker: int, a: Any, b: Any) -> tuple[Any, Any]:
        """Return mean and variance of the other dimensions' effect on a worker's vote (-1: any worker)."""
        return (0.0, 0.0) if self.dimensions is None else self.dimensions.offsets(worker, a, b)

    def absorb(self, a: int, b: int, s: int, outcome: float) -> None:
        """Update the belief by a vote of worker s on items a and b, whose islands are then joined."""
        variance = float(self.belief.variance(np.array([a]), np.array([b]))[0])
        difference = float(self.belief.mean[a] - self.belief.mean[b])
        step, shrink, self.share[s] = answer(
            difference, variance, outcome, self.types[s], self.share[s], self.offset(s, a, b)
        )
        self.votes[s] += 1
        self._move(a, b, step, shrink, 1)

    def absorb_all(self, a: int, b: int, won: int, votes: int) -> None:
        """Learn from votes without workers on items a and b, of which a won some."""
        variance = float(self.belief.variance(np.array([a]), np.array([b]))[0])
        step, shrink = answers(float(self.belief.mean[a] - self.belief.mean[b]), variance, won, votes)
        self._move(a, b, step, shrink, votes)

    def _move(self, a: int, b: int, step: float, shrink: float, votes: int) -> None:
        self.belief.move(a, b, step, shrink)
        _join(self.component, a, b)
        if self.on_pair is not None:
            self.on_pair[[a, b], [b, a]] += votes


class Question(NamedTuple):
    """A pair, the worker to ask (-1: any), the expected gain, and whether it joins islands."""

    a: int
    b: int
    worker: int
    gain: float
    connects: bool


class ThompsonSampler:
    """Choose the worker to ask by Thompson sampling: the largest draw from the workers' posteriors wins.

    A worker is asked more often the more likely it is the best; the mean of several draws prefers workers who are known
    to be good. A new worker gets a few questions in a row, since fewer contain no information about it.
    """

    def __init__(
        self, state: State, codes: Indices, capacity: Indices, random: np.random.Generator, price: Vector | None = None
    ) -> None:
        self.codes, self.left = codes, capacity.copy()
        # The precision of a vote grows with the square of the reliability, so its value per price is largest where
        # reliability / sqrt(price) is.
        self._scale = np.ones(len(codes)) if price is None else 1.0 / np.sqrt(price)
        self._random = random
        types, share = state.types[codes], state.share[codes]
        self._mean = (share * types).sum(axis=1)
        spread = (share * (types - self._mean[:, None]) ** 2).sum(axis=1)
        self._sd = np.sqrt(spread / _DRAWS)  # of the mean of the draws, which is nearly normal
        self._votes = state.votes[codes].copy()
        self._on_trial = -1

    def draw(self) -> int | None:
        """Return the index of the next worker; None if none is left."""
        current = self._on_trial
        if current >= 0 and self.left[current] > 0 and self._votes[current] < _TRIAL:
            return current
        free = np.flatnonzero(self.left > 0)
        if not len(free):
            return None
        drawn = self._mean[free] + self._sd[free] * self._random.standard_normal(len(free))
        self._on_trial = int(free[(drawn * self._scale[free]).argmax()])
        return self._on_trial

    def query(self, place: int) -> None:
        """Count a question for the worker at that index."""
        self.left[place] -= 1
        self._votes[place] += 1


class BatchSelection:
    """Choose questions one by one, as if each were answered; `top` > 0 counts only the best items."""

    def __init__(
        self,
        state: State,
        a: Indices,
        b: Indices,
        seen: Callable[[int], Indices],
        wanted: int,
        keep_islands: bool,
        top: int = 0,
    ) -> None:
        self._state, self._seen, self._top = state, seen, top
        self._component = state.component.copy()
        islands = state.component if keep_islands else None
        self._a, self._b = a, b
        self._on_pair = np.zeros(len(a))
        if top and state.on_pair is not None:
            self._on_pair = state.on_pair[a, b]
        self._batch = state.belief.batch(a, b, islands, top)
        self._by_anyone = self._precision(state.population, np.full(TYPES, 1.0 / TYPES))
        most = max(_POOL, _POOL_SHARE * wanted)
        if len(a) > 2 * most:
            keep = self._most_valuable(most)
            self._a, self._b, self._by_anyone = a[keep], b[keep], self._by_anyone[keep]
            self._on_pair = self._on_pair[keep]
            self._batch = state.belief.batch(self._a, self._b, islands, top)
        self._times_chosen = np.zeros(len(self._a), np.int64)
        self._by_worker: dict[int, Vector] = {}

    def choose(self, wanted: int, sampler: ThompsonSampler | None) -> list[Question]:
        """Return the best questions; fewer if no worker has capacity left."""
        chosen: list[Question] = []
        while len(chosen) < wanted:
            if sampler is None:
                chosen.append(self._next(self._by_anyone, -1))
                continue
            place = sampler.draw()
            if place is None:
                break
            who = int(sampler.codes[place])
            precision = self._of_worker(who)
            if not precision.any():  # this worker has seen all pairs that may be asked
                sampler.left[place] = 0
                continue
            chosen.append(self._next(precision, who))
            sampler.query(place)
        return chosen

    def _next(self, precision: Vector, who: int) -> Question:
        """Return the pair of largest gain among those chosen least often; pairs that join islands come first."""
        gain = self._gain(precision)
        allowed = precision > 0.0
        fresh = allowed
        if not self._top:  # for a goal at the top some pairs deserve many votes
            fresh = allowed & (self._times_chosen == self._times_chosen[allowed].min())
        links = fresh & (self._component[self._a] != self._component[self._b])
        connects = bool(links.any())
        place = int(np.where(links if connects else fresh, gain, -1.0).argmax())
        a, b = int(self._a[place]), int(self._b[place])
        question = Question(a, b, who, float(gain[place]), connects)
        self._batch.take(place, float(precision[place]))
        self._times_chosen[place] += 1
        self._on_pair[place] += bool(self._top)
        if who >= 0:
            self._by_worker[who][place] = 0.0
        _join(self._component, a, b)
        return question

    def _gain(self, precision: Vector) -> Vector:
        more = precision / (1.0 + 0.25 * _LACK_OF_FIT * self._on_pair) ** 2
        return more / (1.0 + precision * self._batch.variance) * self._batch.worth

    def _most_valuable(self, most: int) -> Mask:
        """Return the initially most valuable candidates, among all and among those that join islands."""
        gain = self._gain(self._by_anyone)
        keep = np.zeros(len(gain), bool)
        links = self._component[self._a] != self._component[self._b]
        for part in (np.flatnonzero(links), np.arange(len(gain))):
            if top := min(most, len(part)):
                keep[part[np.argpartition(-gain[part], top - 1)[:top]]] = True
        return keep

    def _precision(self, types: Vector, share: Vector, worker: int = -1) -> Vector:
        mean, offset = self._state.belief.mean, self._state.offset(worker, self._a, self._b)
        difference = mean[self._a] - mean[self._b]
        return vote_precision(difference, self._batch.variance, types, share, offset)

    def _of_worker(self, s: int) -> Vector:
        """Return the precision of a vote of this worker; 0 on pairs that it has judged."""
        if s not in self._by_worker:
            precision = self._precision(self._state.types[s], self._state.share[s], s)
            keys = pair_keys(self._a, self._b, len(self._component))
            precision[np.isin(keys, self._seen(s))] = 0.0
            self._by_worker[s] = precision
        return self._by_worker[s]


def neighbours(mean: Vector, component: Indices) -> tuple[Indices, Indices]:
    """Return pairs of items 1, 2, 4, 8 and so on places apart by score, and a star between islands."""
    order = np.argsort(-mean, kind="stable")
    gaps = 2 ** np.arange(int(np.log2(len(mean) - 1)) + 1)
    one, two = [order[:-gap] for gap in gaps], [order[gap:] for gap in gaps]
    islands, first = np.unique(component, return_index=True)
    if len(islands) > 1:
        hub = first[np.searchsorted(islands, np.bincount(component).argmax())]
        one.append(np.full(len(first) - 1, hub))
        two.append(first[first != hub])
    return np.concatenate(one), np.concatenate(two)


def _join(component: Indices, a: int, b: int) -> None:
    if component[a] != component[b]:
        component[component == component[b]] = component[a]
