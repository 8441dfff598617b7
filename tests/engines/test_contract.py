"""One contract for every engine of the registry, whole and in shards: what the reference gives.

Scenarios are in `engine_scenarios`; a pass of a protocol that none of them uses is a failure here.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest
from context_votes import draw_votes
from engine_scenarios import SCENARIOS, contexts
from grid_scenarios import adaptive_grids, belief_propagation, site_updates
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_engine import ReferenceEngine
from scenario_results import EXACT, Slack
from strategies import comparisons

from crowdsift import Comparisons, simulate
from crowdsift.engines import CAPABILITIES, ENGINES, MAPS, base, dimensions, fused, grid, kinds, offers, opened_engine
from crowdsift.engines.sharded import Form, attributes, sharded_engine, signature


class Variant(NamedTuple):
    """An engine of the registry, in so many shards; 0: as it is."""

    name: str
    shards: int

    @contextmanager
    def __call__(self, votes: Comparisons, threads: int = 1) -> Iterator[Any]:
        if self.name in MAPS:
            with opened_engine(self.name, votes, threads, "grid", self.options()) as made:
                yield made
            return
        module = import_module(ENGINES[self.name])
        if not self.shards:
            yield module.engine(votes, threads)
            return
        yield sharded_engine(votes, lambda part, shared: module.engine(part, threads, shared), self.shards)

    def options(self) -> dict[str, Any]:
        """Of an engine whose shards are elsewhere."""
        if self.name == "dask":
            return {"scheduler": cluster().scheduler_address, "shards": self.shards}
        return {"memory": "400B"}  # room for one vote at a time: a shard a worker

    def taken(self, votes: Comparisons) -> Comparisons:
        """The votes as the engine takes them: those in files have no features."""
        return dataclasses.replace(votes, features=None) if self.name == "disk" else votes


@cache
def cluster() -> Any:
    """Two workers of Dask in threads of this process; `test_dask.py` has real ones."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, memory_limit=0, dashboard_address=":0", silence_logs=50
    )


# "sharded" is made of others already; the reference by itself is what all are held against.
SHARDS = {"sharded": (0,), "torch": (0,), "disk": (0,), "dask": (2,)}
VARIANTS = [
    Variant(name, shards)
    for name in (*ENGINES, *MAPS)
    for shards in SHARDS.get(name, (0, 1, 2, 3, 5))
    if (name, shards) != ("reference", 0)
]
no_torch = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("triton") is None, reason="PyTorch or Triton is not installed"
)
no_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed")
MARKS: dict[str, Any] = {"torch": no_torch, "dask": no_dask}


def engines(variants: list[Variant]) -> Any:
    return pytest.mark.parametrize(
        "make",
        [pytest.param(make, marks=MARKS.get(make.name, ())) for make in variants],
        ids=lambda make: f"{make[0]}-{make[1]}",
    )


every_engine = engines(VARIANTS)
# Conjugate gradients and sums in another order: what is left between engines in double precision.
ROUNDING = Slack(1e-8, 1e-8)


@st.composite
def cases(draw):
    """Votes of up to seven workers, the last of them gold or not, with features or without."""
    votes = draw(comparisons(workers=7))
    seed = draw(st.integers(0, 2**32 - 1))
    features = draw(st.integers(0, 3))
    x = np.random.default_rng(seed).choice([-1.0, 0.0, 1.0], (len(votes), features))
    gold = draw(st.integers(0, 1)) if votes.n_workers > 1 else 0
    given = x.astype(np.float32) if features else None
    return dataclasses.replace(votes, features=given, n_gold=gold), seed


def check(make, capabilities, scenario, votes, seed, threads=1):
    """A scenario on an engine gives what it gives on the reference."""
    check_all([make], capabilities, scenario, votes, seed, threads)


def check_all(variants, capabilities, scenario, votes, seed, threads):
    """The same on several, with one run of the reference."""
    wanted: dict[bool, list[Any]] = {}
    for make in variants:
        taken = make.taken(votes)
        with make(taken, threads) as engine:
            if not {*capabilities} <= {*offers(engine)}:
                pytest.skip(f"{make.name} does not offer {', '.join(capabilities)}")
            results = list(scenario(engine, seed))
        whole = taken is votes
        if whole not in wanted:
            wanted[whole] = list(scenario(ReferenceEngine(taken), seed))
        for found, expected in zip(results, wanted[whole], strict=True):
            agree(f"{make.name}-{make.shards} {scenario.__name__}", make.name, found, expected)


def agree(title, engine, found, wanted):
    """Two results are as near as their kind allows."""
    assert found.name == wanted.name
    slack = wanted.slack
    if engine == "reference" and slack != EXACT:
        slack = ROUNDING
    ours, theirs = (np.asarray(each.value, np.float64) for each in (found, wanted))
    size = np.abs(np.where(np.isfinite(theirs), theirs, 0.0)).max(initial=0.0)
    np.testing.assert_allclose(
        ours, theirs, rtol=slack.relative, atol=slack.absolute * (1.0 + size), err_msg=f"{title}: {found.name}"
    )


every_scenario = pytest.mark.parametrize(
    ("capability", "scenario"),
    [(capability, scenario) for capability, group in SCENARIOS.items() for scenario in group],
    ids=lambda each: getattr(each, "__name__", ""),
)


@pytest.mark.parametrize("name", [name for name in ENGINES if name != "torch"])
@every_scenario
@settings(max_examples=settings.default.max_examples // 6)
@given(case=cases(), threads=st.integers(1, 3))
def test_passes(name, capability, scenario, case, threads):
    """Whole and in all numbers of shards: one example serves them all."""
    votes, seed = case
    variants = [each for each in VARIANTS if each.name == name]
    check_all(variants, [capability], scenario, votes, seed, threads)


def few_votes(*, soft: bool) -> Comparisons:
    """Votes of three workers, the last of them gold, with ties, or with shares and weights."""
    rng = np.random.default_rng(4)
    first = rng.integers(0, 5, 24)
    votes = Comparisons.from_arrays(
        first,
        (first + rng.integers(1, 5, 24)) % 5,
        worker=rng.integers(0, 3, 24),
        outcome=rng.choice([0.0, 0.3 if soft else 0.5, 1.0], 24),
        weight=rng.choice([1.0, 2.5], 24) if soft else None,
        sides_known=True,
    )
    features = rng.choice([-1.0, 0.0, 1.0], (len(votes), 1)).astype(np.float32)
    return dataclasses.replace(votes, features=features, n_gold=1)


@no_torch
@pytest.mark.parametrize(
    ("soft", "capability", "scenario"),
    [
        (soft, capability, scenario)
        for soft in (False, True)
        for capability, group in SCENARIOS.items()
        if not soft or capability in ("grid", "dimensions")  # shares, weights and ties matter there
        for scenario in group
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_passes_of_torch(soft, capability, scenario):
    """The same by Triton's kernels, on one example: the interpreter takes a second for it.

    Seeds differ so that all kinds of worker types occur.
    """
    seed = SCENARIOS[capability].index(scenario) + 3 * soft
    check(Variant("torch", 0), [capability], scenario, few_votes(soft=soft), seed)


@engines([each for each in VARIANTS if each.name in MAPS])
@every_scenario
def test_passes_elsewhere(make, capability, scenario):
    """The same where shards are in files or other processes, on one example."""
    check(make, [capability], scenario, context_votes(), 5)


@every_engine
def test_adaptive_grids(make):
    votes = simulate(12, 4, 6000, reliability=(0.3, 1.5), seed=2).comparisons()
    check(make, ["grid"], adaptive_grids, votes, 0)


def context_votes(workers: int = 7, contexts: int = 3, items: int = 4) -> Comparisons:
    votes = draw_votes(0.3, 0.8, seed=3, each=6, workers=workers, contexts=contexts, items=items)
    items = votes.items.tolist()
    same = [(a, b) for a in items for b in items if a[0] == b[0] and a < b][:5]
    codes = np.array([[items.index(a), items.index(b)] for a, b in same], np.uint32).T
    return votes.with_gold(*codes)


@every_engine
@pytest.mark.parametrize("gold", [False, True])
def test_contexts(make, gold):
    votes = context_votes(3, 2, 3) if make.name == "torch" else context_votes()
    if not gold:
        votes = votes.select(votes.worker_codes() < votes.n_workers - 1)
    check(make, CAPABILITIES, contexts, votes, 3)


@every_engine
def test_no_contexts(make):
    with make(simulate(5, 4, 40, seed=1).comparisons()) as engine:
        assert engine.by_context() is None


# --- that nothing is left out --------------------------------------------------------------------


def protocols(*modules: Any) -> dict[str, type]:
    """The protocols of passes, as the modules of the waist state them."""
    found = {
        name: each
        for module in modules or (base, dimensions, grid, kinds)
        for name, each in vars(module).items()
        if inspect.isclass(each) and getattr(each, "_is_protocol", False) and each.__module__ == module.__name__
    }
    parts = {part for each in found.values() for part in each.__mro__[1:]}  # of a larger protocol
    known = {name: each for name, each in found.items() if each not in parts}
    return {name: each for name, each in known.items() if name not in ("Protocol", "Engine")}


def members(protocol: type) -> set[str]:
    """Its passes, and what it holds."""
    parts = [part for part in protocol.__mro__ if getattr(part, "_is_protocol", False)]
    passes = {name for part in parts for name, each in vars(part).items() if inspect.isfunction(each)}
    return {name for name in passes if not name.startswith("_")} | set(attributes(protocol))


class Recorded:
    """Something of a protocol that notes what is used of it, and of all that its passes return."""

    def __init__(self, protocol: type, of: Any, used: set[tuple[str, str]]) -> None:
        self._protocol, self._of, self._used = protocol, of, used
        for name, each in protocols(fused).items():  # where `isinstance` finds what is optional
            if isinstance(of, each):
                for member in members(each):
                    self.__dict__[member] = partial(self._optional, name, member)

    def _optional(self, protocol: str, name: str, *given: Any, **named: Any) -> Any:
        self._used.add((protocol, name))
        return getattr(self._of, name)(*given, **named)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        self._used.add((self._protocol.__name__, name))
        if name in attributes(self._protocol):
            return self._watched(attributes(self._protocol)[name], value)
        result = signature(self._protocol, name).result
        return lambda *given, **named: self._watched(result, value(*given, **named))

    def _watched(self, form: Form, value: Any) -> Any:
        if form.protocol is not None:
            return Recorded(form.protocol, value, self._used)
        if form.record is not None and form.record is not tuple:
            parts = zip(form.parts, value, strict=True)
            return form.record(*(self._watched(part, entry) for part, entry in parts))
        if form.record is tuple:
            parts = zip(form.parts, value, strict=True)
            return tuple(self._watched(part, entry) for part, entry in parts)
        return value


class RecordedEngine:
    """An engine whose capabilities note what is used of them."""

    def __init__(self, engine: Any, used: set[tuple[str, str]]) -> None:
        self.facts = engine.facts
        for name in CAPABILITIES:
            protocol = protocols()["EM" if name == "em" else name.capitalize()]
            setattr(self, name, Recorded(protocol, getattr(engine, name), used))


def test_every_pass_is_in_a_scenario():
    """A pass that is new, or a new protocol, has a scenario before it has a user."""
    votes = simulate(8, 4, 200, seed=2).comparisons()
    features = np.ones((len(votes), 1), np.float32)
    engine = ReferenceEngine(dataclasses.replace(votes, features=features))
    used: set[tuple[str, str]] = set()
    for group in SCENARIOS.values():
        for scenario in group:
            assert list(scenario(RecordedEngine(engine, used), 3))
    narrow = simulate(12, 4, 6000, reliability=(0.3, 1.5), seed=2).comparisons()
    assert list(adaptive_grids(RecordedEngine(ReferenceEngine(narrow), used), 0))
    assert used == stated(protocols())


def stated(of: dict[str, type]) -> set[tuple[str, str]]:
    return {(name, each) for name, protocol in of.items() for each in members(protocol)}


@no_torch
def test_what_is_optional_is_in_a_scenario():
    """What is done in one call where an engine can is held against its passes."""
    votes = simulate(5, 3, 30, seed=2).comparisons()
    used: set[tuple[str, str]] = set()
    for name in ("cpu", "torch"):
        with Variant(name, 0)(votes) as engine:
            for scenario in (*SCENARIOS["em"], site_updates, belief_propagation):
                for seed in (0, 3):  # reliabilities alone, and all kinds of types
                    assert list(scenario(RecordedEngine(engine, used), seed))
    assert stated(protocols(fused)) - used == set()
