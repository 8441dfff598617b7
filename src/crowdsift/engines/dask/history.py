"""What was left behind with a shard, and the calls that would rebuild it elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from crowdsift.engines.dask.shard import ENGINE, Call, Recipe
from crowdsift.engines.grid import GridSites

__all__ = ["ShardRecord"]

_CHANGING = {name for name, each in vars(GridSites).items() if getattr(each, "changes", False)}


@dataclass
class _Origin:
    """How an object of a shard came to be: its calls, and the object that they were made on."""

    parent: int
    calls: list[Call]
    children: int = 0
    alive: bool = True


@dataclass
class ShardRecord:
    """A shard: how it is made, where it lives, and what was left behind there."""

    at: int
    recipe: Recipe
    worker: str = ""
    next_number: int = ENGINE + 1
    unused: list[int] = field(default_factory=list)
    kept: dict[int, _Origin] = field(default_factory=lambda: {ENGINE: _Origin(-1, [])})

    def free(self) -> tuple[int, ...]:
        """Numbers that nobody needs any more, forgotten here."""
        numbers = []
        while self.unused:
            number = self.unused.pop()
            numbers.append(number)
            if number in self.kept:
                self.kept[number].alive = False
                self._forget(number)
        return tuple(numbers)

    def _forget(self, number: int) -> None:
        record = self.kept.get(number)
        if record is None or record.alive or record.children:
            return  # something made of it is still needed
        del self.kept[number]
        if record.parent in self.kept:
            self.kept[record.parent].children -= 1
            self._forget(record.parent)

    def remember(self, call: Call, left: list[int]) -> None:
        """Remember a call that left something behind, or changed what it was made on."""
        call = replace(call, free=())
        self.next_number += len(left)
        for number in left:
            self.kept[number] = _Origin(call.number, [call])
            self.kept[call.number].children += 1
        if call.name in _CHANGING:
            self.kept[call.number].calls.append(call)

    def history(self) -> tuple[list[Call], set[int]]:
        """The calls to be repeated on a new shard, in order, and what is needed of what they leave.

        Calls of one pass have one number; a shard has one call of each.
        """
        calls = {call.order: call for record in self.kept.values() for call in record.calls}
        alive = {number for number, record in self.kept.items() if record.alive}
        return [calls[order] for order in sorted(calls)], alive
