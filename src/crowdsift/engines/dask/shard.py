"""A shard in a worker process: an engine over some votes, and the objects that its passes leave.

Numbers and arrays travel; everything else (an engine, an operator, sites) stays here, and a handle with a number stands
for it. The caller gives the numbers, so that the same calls on a rebuilt shard give the same objects the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crowdsift.engines.base import Engine, Facts
from crowdsift.engines.cpu.engine import CpuLaplacian
from crowdsift.engines.shards import SharedPairs
from crowdsift.votes.comparisons import Comparisons

_DATA = (np.ndarray, np.generic, int, float, bool, str, slice, Facts, type(None))
ENGINE = 0  # number of the engine itself


@dataclass(frozen=True)
class Handle:
    """The number of an object that a shard holds and does not send."""

    number: int
    function: bool = False
    laplacian: bool = False


@dataclass(frozen=True)
class Call:
    """A method (or, without arguments, an attribute) of an object that a shard holds.

    Objects that the call leaves are numbered from `first`; `free` are numbers no longer needed.
    """

    number: int
    name: str
    arguments: dict[str, Any] | None
    first: int
    order: int
    free: tuple[int, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """How a shard is made: its votes without their labels, and the pairs that others have too.

    Without votes, use the `rows` votes that the worker's process has read.
    """

    votes: Comparisons | None
    shared: SharedPairs | None
    threads: int
    rows: int

    def engine(self, read: Comparisons | None = None) -> Engine:
        """Return the engine over the votes."""
        from crowdsift.engines import cpu

        votes = read if self.votes is None else self.votes
        assert votes is not None
        return cpu.engine(votes, self.threads, self.shared)


def without_labels(votes: Comparisons) -> Comparisons:
    """Return the votes as engines need them, without labels: only the number of items, and contexts as codes."""
    items = np.full(votes.n_items, None, dtype=object)
    if votes.by:
        items[:] = [(context, j) for j, context in enumerate(votes.item_contexts.tolist())]
    workers = np.full(votes.n_workers, None, dtype=object)
    return replace(votes, items=items, workers=workers, intake=None, item_class=None)


@dataclass
class Shard:
    """An engine and the objects that its passes left, by number."""

    held: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, recipe: Recipe, read: Comparisons | None = None) -> Shard:
        """Return a new shard."""
        return cls({ENGINE: recipe.engine(read)})

    def call(self, call: Call) -> Any:
        """Return the answer to a call; objects that stay here are replaced by a `Handle`."""
        for number in call.free:
            self.held.pop(number, None)
        found = getattr(self.held[call.number], call.name)
        if call.arguments is not None:
            given = dict(call.arguments)
            found = found(*given.pop("*", ()), **given)
        return self._answer(found, [call.first])

    def replay(self, calls: list[Call], needed: set[int]) -> None:
        """Repeat calls, and keep the results that are still needed."""
        for call in calls:
            self.call(call)
        self.held = {number: held for number, held in self.held.items() if number in needed}

    def _answer(self, value: Any, following: list[int]) -> Any:
        if isinstance(value, tuple):
            parts = [self._answer(part, following) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if isinstance(value, _DATA):
            return value
        number = following[0]
        following[0] += 1
        self.held[number] = value
        return Handle(number, callable(value), isinstance(value, CpuLaplacian))


def copied(value: Any, copies: dict[int, Any]) -> Any:
    """Return an argument that will not change; an array for all shards is copied once."""
    if isinstance(value, tuple):
        parts = [copied(part, copies) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray):
        return value
    if id(value) not in copies:
        copies[id(value)] = (value, value.copy())  # keeping the original keeps its id unique
    return copies[id(value)][1]


def handles_in(answer: Any) -> list[int]:
    """Return the numbers of the handles in an answer."""
    if isinstance(answer, Handle):
        return [answer.number]
    return [n for part in answer for n in handles_in(part)] if isinstance(answer, tuple) else []


def size(value: Any) -> int:
    """Return the bytes of arrays in a value."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(size, value.values()))
    return sum(map(size, value)) if isinstance(value, tuple) else 8
