"""Choose the next question of a judge; questions are signed, so that no table of them is needed.

The background process ranks the pairs of items by value for the goal. This module takes the best of them that the judge
may see; gold, and pairs that other judges have answered, come at given rates.
"""

from __future__ import annotations

import hmac
import json
import random
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from itertools import chain, combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from crowdsift.ask.store import Judge, Store

SHARED_RATE = 0.2  # share of the questions on pairs that another judge has answered, which show how judges differ
_TRIES = 60  # random pairs that are tried if the ranked ones are used up
_MAX_AGE = 7 * 24 * 3600.0  # seconds for which a question can be answered


class Question(NamedTuple):
    """A question to a judge: contents on the left and on the right."""

    judge: int
    left: int
    right: int
    number: str
    issued: int

    @property
    def pair(self) -> tuple[int, int]:
        """Return the two contents, in either order of sides."""
        return min(self.left, self.right), max(self.left, self.right)

    def signed(self, key: str) -> str:
        """Return the question as text that only the server can create."""
        body = urlsafe_b64encode(json.dumps(self).encode()).decode()
        return f"{body}.{signature(key, body)}"


def signature(key: str, body: str) -> str:
    """Return a code that only the owner of the key can compute."""
    return hmac.new(key.encode(), body.encode(), "sha256").hexdigest()


def opened(text: str, key: str) -> Question | None:
    """Return a signed question; None if it is forged, damaged or too old."""
    body, _, given = text.partition(".")
    if not text.isascii() or not hmac.compare_digest(given, signature(key, body)):
        return None
    question = Question(*json.loads(urlsafe_b64decode(body)))
    return question if time.time() - question.issued < _MAX_AGE else None


class Chooser:
    """Give out questions in the order of their value."""

    def __init__(self, store: Store, seed: int | None = None) -> None:
        self._store, self._random = store, random.Random(seed)
        self._by_item: dict[tuple[int, str], int] = {
            (item, store.contents[code].prompt): code for code, item in enumerate(store.item_of)
        }
        self._prompts: list[set[str]] = [set() for _ in store.items]
        for item, prompt in self._by_item:
            self._prompts[item].add(prompt)
        self._ranked: deque[tuple[int, int]] = deque()
        self._answered: dict[tuple[int, int], None] = {}  # pairs of contents, the latest last
        for judge in store.judges.values():
            for pair in judge.seen:
                self._answered[pair] = None

    def rank(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Replace the pairs of items worth asking, the best first."""
        self._ranked = deque(pairs)

    def note(self, pair: tuple[int, int]) -> None:
        """Record an answered pair of contents, for second opinions."""
        self._answered.pop(pair, None)
        self._answered[pair] = None

    def choose(self, judge: Judge, waiting: Iterable[tuple[int, int]] = ()) -> Question | None:
        """Return the next question for a judge; None if this judge has seen every pair."""
        # `waiting` has the pairs of contents that the judge's page already shows.
        settings = self._store.settings
        taken = set(waiting) if settings.get("repeat") else {*judge.seen, *waiting}
        gold = bool(self._store.gold) and self._random.random() < settings.get("gold_rate", 0.1)
        found = self._gold(taken) if gold else None
        if found is None and self._random.random() < SHARED_RATE:
            found = self._shared(taken)
        found = found or self._valued(taken) or self._any(taken)
        if found is None:
            return None
        left, right = found if self._random.random() < 0.5 else found[::-1]
        return Question(judge.code, left, right, secrets.token_hex(8), int(time.time()))

    def _contents(self, a: int, b: int, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        """Return contents of two items for one prompt whose pair is not taken."""
        prompts = sorted(self._prompts[a] & self._prompts[b])
        self._random.shuffle(prompts)
        for prompt in prompts:
            one, two = self._by_item[a, prompt], self._by_item[b, prompt]
            if (pair := (min(one, two), max(one, two))) not in taken:
                return pair
        return None

    def _gold(self, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        pairs = self._random.sample(self._store.gold, len(self._store.gold))
        return next((found for a, b in pairs if (found := self._contents(a, b, taken))), None)

    def _shared(self, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        """Return a pair that another judge answered recently; gold has another rate."""
        free = (pair for pair in reversed(self._answered) if pair not in taken)
        return next((pair for pair in free if self._store.gold_winner(*pair) is None), None)

    def _valued(self, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        """Return the most valuable pair, and move its items to the end of the queue."""
        for place, (a, b) in enumerate(self._ranked):
            if found := self._contents(a, b, taken):
                del self._ranked[place]
                self._ranked.append((a, b))
                return found
        return None

    def _any(self, taken: set[tuple[int, int]]) -> tuple[int, int] | None:
        """Return any pair: a random one or, if those tried were seen, the first unseen one."""
        n = len(self._store.items)
        some = (self._random.sample(range(n), 2) for _ in range(_TRIES))
        pairs = chain(((a, b) for a, b in some), combinations(range(n), 2))
        return next((found for a, b in pairs if (found := self._contents(a, b, taken))), None)
