"""An engine made of others, each with some of the workers.

It knows no pass by name: the kinds of arguments and results, which every pass declares, say how to split and to join
them. A worker's parameters are local to its shard; arrays over items are sent to all shards and their sums added. Pairs
of items that several shards compare have one owner, which adds up their weights, so that belief propagation sees one
edge; only such pairs travel.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Protocol, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from crowdsift.engines.base import EM, ContextEngine, Counts, Engine, Facts, Likelihood, Slopes
from crowdsift.engines.dimensions import Dimensions
from crowdsift.engines.grid import Grid
from crowdsift.engines.kinds import Kind, Operator, Solution, WeightedPairs
from crowdsift.engines.shards import SharedPairs, merged_components, of_workers, shared_pairs, worker_ranges
from crowdsift.numeric import Vector
from crowdsift.numeric.conjugate_gradient import solve
from crowdsift.votes.comparisons import Comparisons


class Map(Protocol):
    """How shards are called: in this process, on disk, on a cluster."""

    def call(self, parts: Sequence[Any], name: str, calls: Sequence[_Call]) -> list[Any]:
        """Call the named method of every part with the part's arguments."""

    def get(self, parts: Sequence[Any], name: str) -> list[Any]:
        """Return the named attribute of every part."""


class InProcess:
    """Shards in this process, one after the other."""

    def call(self, parts: Sequence[Any], name: str, calls: Sequence[_Call]) -> list[Any]:
        return [getattr(part, name)(**arguments) for part, arguments in zip(parts, calls, strict=True)]

    def get(self, parts: Sequence[Any], name: str) -> list[Any]:
        return [getattr(part, name) for part in parts]


_Call = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The distribution of votes: bounds of the shards' workers, and places of their shared pairs.

    `shared` has, for every shard, the places of its shared pairs in the list of all shared pairs.
    """

    bounds: tuple[int, ...]
    shared: tuple[Any, ...]
    n_shared: int
    map: Map = field(default_factory=InProcess)

    def split(self, form: Form, value: Any, parts: Sequence[Any]) -> list[Any]:
        """Return an argument as each shard receives it."""
        count = len(self.bounds) - 1
        if value is None or (form.kind in (Kind.SAME, Kind.ITEMS, Kind.TOTAL) and not form.record):
            return [value] * count
        if form.record is not None:
            columns = [self.split(part, entry, parts) for part, entry in zip(form.parts, value, strict=True)]
            return [_made(form.record, row) for row in zip(*columns, strict=True)]
        if form.kind is Kind.WORKERS:
            # Gold, at the end of the last shard, may have no row.
            return [value[a:b] for a, b in zip(self.bounds, self.bounds[1:], strict=False)]
        if form.kind is Kind.ROWS:
            start, stop, _ = value.indices(self.bounds[-1])
            return [
                slice(min(max(start - a, 0), b - a), min(max(stop - a, 0), b - a)) for a, b in pairwise(self.bounds)
            ]
        if form.kind is Kind.SHARED:
            return [value[places] for places in self.shared]
        held = "pairs_held" if form.kind is Kind.PAIRS else "n_votes"
        ends = np.cumsum([int(length) for length in self.map.get(parts, held)])
        return np.split(value, ends[:-1])

    def join(self, form: Form, values: list[Any]) -> Any:
        """Return the joined results of all shards."""
        if values[0] is None:
            return None
        if form.protocol is not None:
            return sharded(form.protocol, values, self)
        if form.record is not None:
            columns = zip(*values, strict=True)
            joined = [self.join(part, list(column)) for part, column in zip(form.parts, columns, strict=True)]
            return _made(form.record, joined)
        if form.kind in (Kind.ITEMS, Kind.TOTAL):
            return reduce(lambda one, two: one + two, values)
        if form.kind is Kind.SHARED:
            total = np.zeros((self.n_shared, *np.shape(values[0])[1:]))
            for places, value in zip(self.shared, values, strict=True):
                total[places] += value
            return total
        return values[0] if form.kind is Kind.SAME else np.concatenate(values)


def _made(record: type, entries: Sequence[Any]) -> Any:
    return tuple(entries) if record is tuple else record(*entries)


class Sharded:
    """Parts that live with the shards, used as one object."""

    def __init__(self, protocol: type, parts: Sequence[Any], plan: Plan) -> None:
        self._protocol, self._parts, self._plan = protocol, parts, plan

    def __getattr__(self, name: str) -> Any:
        held = attributes(self._protocol)
        if name in held:
            return self._plan.join(held[name], self._plan.map.get(self._parts, name))
        if name.startswith("_") or not hasattr(self._protocol, name):
            raise AttributeError(f"{self._protocol.__name__} has no {name!r}")
        made = self._pass(name)
        self.__dict__[name] = made
        return made

    def _pass(self, name: str) -> Callable[..., Any]:
        form = signature(self._protocol, name)

        def call(*given: Any, **named: Any) -> Any:
            arguments = dict(zip(form.names, given, strict=False)) | named
            if form.first:
                return self._plan.map.call(self._parts[:1], name, [arguments])[0]
            parts = {key: self._plan.split(form.arguments[key], value, self._parts) for key, value in arguments.items()}
            calls = [{key: values[at] for key, values in parts.items()} for at in range(len(self._parts))]
            return self._plan.join(form.result, self._plan.map.call(self._parts, name, calls))

        return call


class ShardedOperator(Sharded):
    """A sum of operators; solves need only its products and its diagonal."""

    def solve(self, rhs: Vector, start: Vector, *, shift: float, tolerance: float, most: int = 10_000) -> Solution:
        # Conjugate gradients run here and products in the shards. If shards are remote and pairs few, all pairs are
        # fetched once and products are computed here.
        multiply = self.multiply
        if getattr(self._plan.map, "gathers", lambda parts: False)(self._parts):
            multiply = _laplacian(self.pairs(), len(rhs))
        return Solution(*solve(multiply, self.diagonal(), rhs, start, shift, tolerance, most))


def _laplacian(pairs: WeightedPairs, n_items: int) -> Callable[[Vector], Vector]:
    """Return the product with a Laplacian that is given by its pairs."""
    low, high, weight = pairs.low.astype(np.int64), pairs.high.astype(np.int64), pairs.weight

    def multiply(v: Vector) -> Vector:
        flow = weight * (v[low] - v[high])
        out: Vector = np.zeros(n_items)
        out += np.bincount(low, flow, n_items)
        out -= np.bincount(high, flow, n_items)
        return out

    return multiply


def sharded(protocol: type, parts: Sequence[Any], plan: Plan) -> Any:
    """Return parts of a protocol as one object."""
    made = ShardedOperator if protocol is Operator else Sharded
    return made(protocol, parts, plan)


def _capability(name: str, protocol: type) -> Any:
    """Return a property: the capability of all shards as one, or None if a shard lacks it."""

    def found(engine: ShardedEngine) -> Any:
        parts = [getattr(shard, name) for shard in engine._shards]
        return None if None in parts else sharded(protocol, parts, engine._plan)

    return property(found)


class ShardedEngine:
    """Engines over some of the workers each, used as one engine."""

    def __init__(self, shards: Sequence[Engine], plan: Plan, *, ties: bool) -> None:
        self._shards, self._plan = shards, plan
        facts = [shard.facts for shard in shards]
        self.facts = Facts(
            n_items=facts[0].n_items,
            n_workers=sum(each.n_workers for each in facts),
            n_features=facts[0].n_features,
            total_weight=sum(each.total_weight for each in facts),
            sides_known=facts[0].sides_known,
            ties=ties,
            n_gold=sum(each.n_gold for each in facts),
            component=merged_components([each.component for each in facts]),
            loads=np.concatenate([each.loads for each in facts]),
        )
        self._share = [each.total_weight / self.facts.total_weight for each in facts]

    @property
    def passes(self) -> float:
        pairs = zip(self._share, self._shards, strict=True)
        return sum(share * shard.passes for share, shard in pairs)

    counts: Counts = _capability("counts", Counts)
    slopes: Slopes | None = _capability("slopes", Slopes)
    em: EM | None = _capability("em", EM)
    likelihood: Likelihood | None = _capability("likelihood", Likelihood)
    grid: Grid | None = _capability("grid", Grid)
    dimensions: Dimensions | None = _capability("dimensions", Dimensions)

    def by_context(self, enough: float = 0.0) -> ContextEngine | None:
        found = [shard.by_context(enough) for shard in self._shards]
        apart = [each for each in found if each is not None]
        if len(apart) < len(found):
            return None
        sizes = [each.engine.facts.n_workers for each in apart]
        plan = replace(self._plan, bounds=(0, *np.cumsum(sizes).tolist()))
        starts = self._plan.bounds
        return ContextEngine(
            ShardedEngine([each.engine for each in apart], plan, ties=self.facts.ties),
            np.concatenate([each.worker + at for each, at in zip(apart, starts, strict=False)]),
            np.concatenate([each.context for each in apart]),
        )


def sharded_engine(
    comparisons: Comparisons, make: Callable[[Comparisons, SharedPairs], Engine], shards: int
) -> ShardedEngine:
    """Return the votes in this number of shards in this process; fewer if there are fewer workers."""
    bounds = worker_ranges(comparisons.offsets, shards)
    ranges = list(pairwise(bounds))
    parts = [of_workers(comparisons, begin, end) for begin, end in ranges]
    lists, places, count = shared_pairs(parts)
    engines = [make(part, shared) for part, shared in zip(parts, lists, strict=True)]
    plan = Plan(bounds, tuple(places), count)
    return ShardedEngine(engines, plan, ties=comparisons.ties_are_outcomes)


def engine(comparisons: Comparisons, threads: int) -> ShardedEngine:
    """Return two shards of the CPU engine; for tests."""
    from crowdsift.engines import cpu

    return sharded_engine(comparisons, lambda part, shared: cpu.engine(part, threads, shared), shards=2)


@dataclass(frozen=True)
class Form:
    """The structure of an argument or result.

    It is a `kind`, or the parts of a record (a named tuple, or a tuple if `record` is `tuple`), or a `protocol`: an
    object that stays with the votes and has further passes.
    """

    kind: Kind = Kind.SAME
    record: type | None = None
    parts: tuple[Form, ...] = ()
    protocol: type | None = None


@dataclass(frozen=True)
class PassSignature:
    """The forms of a pass; `first` says that only the first shard performs it."""

    names: tuple[str, ...]
    arguments: dict[str, Form] = field(hash=False)
    result: Form
    first: bool


@cache
def signature(protocol: type, name: str) -> PassSignature:
    """Return the forms of a method of a protocol."""
    method = getattr(protocol, name)
    hints = _hints(method, protocol)
    result = _form(hints.pop("return", None), protocol)
    arguments = {key: _form(hint, protocol) for key, hint in hints.items()}
    names = tuple(inspect.signature(method).parameters)[1:]
    return PassSignature(names, arguments, result, getattr(method, "first_shard", False))


@cache
def attributes(protocol: type) -> dict[str, Form]:
    """Return the forms of the attributes of a protocol."""
    return {key: _form(hint, protocol) for key, hint in _hints(protocol, protocol).items()}


class _Names(dict[str, Any]):
    """The names of a module; those that exist only for type checkers have no kind."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def _hints(of: Any, protocol: type) -> dict[str, Any]:
    names = _Names(vars(sys.modules[protocol.__module__]))
    return get_type_hints(of, globalns={}, localns=names, include_extras=True)


def _form(hint: Any, protocol: type) -> Form:
    """Return the form of an annotation: its kind, or the record or protocol that it names."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
        return _form(hint, protocol)
    if origin is Annotated:
        return Form(next(part for part in get_args(hint) if isinstance(part, Kind)))
    if origin is tuple:
        return Form(record=tuple, parts=tuple(_form(part, protocol) for part in get_args(hint)))
    if hint is Self:
        return Form(protocol=protocol)
    if isinstance(hint, type) and getattr(hint, "_is_protocol", False):
        return Form(protocol=hint)
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        parts = _hints(hint, hint)
        return Form(record=hint, parts=tuple(_form(parts[name], hint) for name in hint._fields))
    return Form()
