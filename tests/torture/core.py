"""The entry points of the compiled core in any order, with arguments of all sizes and values.

Nobody calls them but the engines; still no call may crash, hang or read what is not there. An answer has the shapes
that it should have, and what is refused is refused as an exception. Under the sanitizers (`make torture-sanitized`) a
read beyond an array is a finding even where it does no harm.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from crowdsift import _core
from torture.words import result

REFUSED = (ValueError, TypeError, MemoryError, OverflowError)
LIKELIHOODS = ("scaled-logit", "scaled-probit", "shifted-logit", "flipped-logit", "led-logit", "x")
STRANGE = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 1e-30, -1.0)


def case(seed: int, folder: Path) -> None:
    """Some objects of the core, and calls of them in any order."""
    world = World(random.Random(seed), seed)
    for _ in range(40):
        world.step()


class World:
    """What has been made so far, and calls that are chosen by lot."""

    def __init__(self, rng: random.Random, seed: int) -> None:
        self.rng, self.numbers = rng, np.random.default_rng(seed)
        self.wrong = rng.choice((0.0, 0.02, 0.1))  # how often an argument is not what it should be
        self.cores: list[Any] = []
        self.sizes: dict[int, tuple[int, int, int, int]] = {}
        self.held: list[tuple[Any, Any]] = []  # operators with the core they are of
        self.sites: list[tuple[Any, Any]] = []
        self.on_sites = rng.random() < 0.6  # most calls are of sites
        self.shared: dict[int, int] = {}
        self.half = 5
        while not self.cores:
            self.attempt(self.new_core)

    def attempt(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except REFUSED as error:
            result(error)
            return None

    def step(self) -> None:
        if self.on_sites and self.rng.random() < 0.8:
            self.step_of_sites()
            return
        if not self.held or self.rng.random() < 0.4:
            made = (self.new_core, self.rows, self.factoriser, *[self.of_core] * 9)
            self.attempt(self.rng.choice(made))
            return
        held, core = self.rng.choice(self.held)
        kinds = {_core.Schur: self.of_schur, _core.EStep: self.of_e_step}
        call = kinds.get(type(held), self.of_operator)
        self.attempt(lambda: call(held, core))
        if self.rng.random() < 0.05:  # operators may outlive each other in any order
            del self.held[self.rng.randrange(len(self.held))]

    def step_of_sites(self) -> None:
        if not self.sites:
            core = self.rng.choice(self.cores)
            if self.flag():
                self.attempt(lambda: self.of_shards(core, self.sizes[id(core)][0]))
            self.attempt(lambda: self.new_sites(core))
            return
        held, core = self.rng.choice(self.sites)
        self.attempt(lambda: self.of_sites(held, core))

    # --- arguments

    def count(self, right: int) -> int:
        if self.rng.random() < self.wrong:
            return max(0, self.rng.choice((0, 1, right - 1, right + 1, 2 * right, 7)))
        return right

    def floats(self, *shape: int, low: float = -2.0, high: float = 2.0, kind: Any = float) -> Any:
        values = self.numbers.uniform(low, high, [self.count(n) for n in shape]).astype(kind)
        if values.size and self.rng.random() < self.wrong:
            with np.errstate(over="ignore"):
                values.flat[self.rng.randrange(values.size)] = self.rng.choice(STRANGE)
        return self.spoilt(values)

    def codes(self, count: int, below: int, kind: Any = np.uint32) -> Any:
        values = self.numbers.integers(max(below, 1), size=self.count(count)).astype(kind)
        if values.size and self.rng.random() < self.wrong:
            values[self.rng.randrange(values.size)] = self.rng.choice((below, np.iinfo(kind).max))
        return self.spoilt(values)

    def spoilt(self, values: Any) -> Any:
        if self.rng.random() > 0.1 * self.wrong:
            return values
        return self.rng.choice((None, 1.0, "x", np.zeros(3, np.int16), values[::2], values[None], []))

    def number(self, low: float, high: float) -> float:
        return self.rng.choice(STRANGE) if self.rng.random() < self.wrong else self.rng.uniform(low, high)

    def whole(self, right: int) -> int:
        if self.rng.random() > self.wrong:
            return right
        return self.rng.choice((0, 1, max(right - 1, 0), right + 1, -1, 2**31, 2**62, 2**64 - 1, 2**70))

    def size(self, right: int) -> int:
        """A number of things that memory is taken for: near, or beyond every machine."""
        value = self.whole(right)
        return right if value == 2**31 else value

    def flag(self) -> bool:
        return self.rng.random() < 0.5

    # --- calls

    def new_core(self) -> None:
        rows, items = self.rng.choice(((1, 2), (40, 5), (60, 30), (300, 4), (5000, 40)))
        workers = self.rng.choice((1, 3, 12, rows))
        offsets = np.sort(self.numbers.integers(rows + 1, size=workers + 1)).astype(np.int64)
        offsets[0], offsets[-1] = 0, rows
        if self.rng.random() < self.wrong:
            offsets[self.rng.randrange(workers + 1)] = self.rng.choice((-1, rows + 1, 2**62))
        first = self.codes(rows, items)
        second = (first + 1 + self.codes(rows, items - 1)) % items if first is not None else first
        outcome = self.numbers.choice(self.rng.choice(([0, 1], [0, 0.5, 1], [0.2, 0.7, 1])), rows)
        weight = self.floats(rows, low=0.5, high=3.0, kind=np.float32)
        features = self.rng.choice((None, None, self.floats(rows, self.rng.randrange(1, 9), kind=np.float32)))
        n_items = self.size(items)
        core = _core.Core(
            first,
            np.asarray(second).astype(np.uint32),
            outcome.astype(np.float32),
            weight,
            offsets,
            features,
            n_items,
            self.rng.choice((0, 1, 2, 3, 40)),
        )
        self.cores.append(core)
        self.sizes[id(core)] = (n_items, workers, rows, 0 if features is None else features.shape[1])

    def keep(self, core: Any, *made: Any) -> None:
        for value in made:
            held = self.sites if isinstance(value, _core.GridSites) else self.held
            held.append((value, core))
            del held[:-8]

    def of_core(self) -> None:
        core = self.rng.choice(self.cores)
        items, workers, _, features = self.sizes[id(core)]
        scores, slopes = self.floats(items), self.floats(workers, low=0.1)
        kind = self.rng.randrange(11)
        if kind == 0:
            assert [len(x) for x in core.tally(scores)] == [workers] * 5 + [items] * 2
        elif kind == 1:
            assert len(core.margin_flow(scores, self.number(0, 1))) == items
        elif kind == 2:
            core.log_likelihood(scores, slopes)
        elif kind == 3:
            self.keep(core, core.common_slope(scores, self.number(0.5, 2), self.number(0, 1e-3))[-1])
        elif kind == 4:
            prior = (self.number(-1, 1), self.number(0.1, 2), self.number(0, 1))
            self.keep(core, core.own_slopes(scores, slopes, *prior, self.number(0, 1e-3))[-1])
        elif kind == 5:
            self.keep(core, core.curvature(scores, slopes)[-1])
        elif kind == 6:
            found = core.e_step(scores, slopes)
            self.keep(core, found[0], found[3])
        elif kind in (7, 8):
            name = self.rng.choice(LIKELIHOODS)
            p = {"shifted-logit": features, "led-logit": features + 1}.get(name, 1)
            p = self.rng.choice((p, p, p, features, features + 1))
            theta = self.floats(workers, p)
            if kind == 7:
                self.keep(core, core.derivatives(name, scores, theta)[-1])
            else:
                low, high = self.number(-9, -1), self.number(1, 9)
                core.fit_workers(
                    name, scores, theta, self.floats(p), self.number(0, 1), low, high, self.number(0, 1e-3)
                )
        elif kind == 9:
            self.of_shards(core, items)
        else:
            self.new_sites(core)

    def of_shards(self, core: Any, items: int) -> None:
        core.correlate(self.flag(), self.floats(items))
        core.correlation_degrees(self.flag())
        if self.flag():
            low, high, _ = core.curvature(np.zeros(items), np.ones(self.sizes[id(core)][1]))[-1].pairs()
            some = self.numbers.random(len(low)) < self.rng.choice((0.0, 0.3, 1.0))
            owner = self.numbers.random(some.sum()) < 0.5
            core.set_shared(low[some], high[some], owner)
            self.shared[id(core)] = int(some.sum())

    def new_sites(self, core: Any) -> None:
        widths = self.rng.choice(([0.0], [0.3], [0.1, 0.5], [], [-1.0, 2.0], [np.nan], [0.0, 0.4]))
        only = self.rng.choice(([], [2.0], [-3.0, 3.0]))
        gold = self.rng.choice((0, 0, 0, 1, self.whole(2)))
        made = core.sites(
            widths, only, [self.number(0, 1)] * self.count(len(only)), self.flag(), gold, self.number(0.5, 3)
        )
        self.keep(core, made)

    def of_operator(self, held: Any, core: Any) -> None:
        items = self.sizes[id(core)][0]
        kind = self.rng.randrange(4)
        if kind == 0:
            assert len(held.multiply(self.floats(items))) == items
        elif kind == 1:
            assert len(held.diagonal()) == items
        elif kind == 2 and isinstance(held, _core.Laplacian):
            held.pairs()
        else:
            tolerance, most = self.number(0, 1e-3), self.rng.choice((0, 1, 50, 1000))
            held.solve(self.floats(items), self.floats(items), self.number(0, 2), tolerance, most)

    def of_e_step(self, held: Any, core: Any) -> None:
        self.keep(core, held.regress(self.floats(self.sizes[id(core)][0]), self.number(0, 1))[1])

    def of_schur(self, held: Any, core: Any) -> None:
        workers = self.sizes[id(core)][1]
        if self.flag():
            self.keep(core, held.laplacian())
        else:
            p = self.rng.randrange(1, 4)
            self.keep(core, held.reduced(self.floats(workers, p, p)))

    def of_sites(self, held: Any, core: Any) -> None:
        items, workers, _, _ = self.sizes[id(core)]
        shared, pairs = self.shared.get(id(core), 0), held.pairs_held
        if self.rng.random() < 0.05:
            self.half = self.rng.choice((2, 3, 5, 8, 17, self.size(40)))
        kind = self.rng.randrange(15)
        if kind < 3:
            self.update(held, items, workers)
        elif kind == 3:
            held.type_counts(self.prior(held))
        elif kind == 4:
            begin = self.whole(0)
            held.posteriors(self.prior(held), begin, self.whole(workers), self.own(held, workers))
        elif kind == 5:
            held.refine()
        elif kind == 6:
            held.pair_sums()
        elif kind == 7:
            made = held.system(self.floats(shared, 2), self.rng.choice((0.0, 0.3, self.number(0, 1))))
            self.keep(core, made[0])
        elif kind == 8:
            held.pair_posteriors(self.floats(items))
        elif kind == 9:
            held.set_pair_variances(
                self.rng.choice((None, self.floats(pairs, low=0.1))),
                self.rng.choice((None, self.floats(shared, low=0.1))),
            )
        elif kind == 10:
            precision, settled = (self.floats(items, low=0.5, high=9), self.floats(items, low=0, high=1))
            held.propagate(precision, settled, self.flag(), self.flag())
        elif kind == 11:
            held.transform(self.number(0.5, 2), self.flag(), self.flag(), self.flag())
        elif kind == 12:
            self.keep(core, held.copy())
        elif kind == 13:
            self.rng.choice((held.suspend, lambda: self.put_sites(held, workers)))()
        else:
            points = [self.floats(workers, 3, low=0.0) for _ in range(4)]
            held.pair_likelihood(self.floats(pairs), self.floats(pairs, low=0.1), *points)

    def types(self, held: Any) -> int:
        """The number of types, from the message that refuses another."""
        try:
            held.type_counts(np.zeros(10**6))
        except ValueError as error:
            words = str(error).split()
            if words[-1].isdigit():
                return int(words[-1])
        return 2 * self.half + 1

    def prior(self, held: Any) -> Any:
        return self.floats(self.types(held), low=0.0, high=0.1)

    def own(self, held: Any, workers: int) -> Any:
        if self.rng.random() < 0.7:
            return None
        types = self.types(held)
        masses = self.floats(workers, types, low=0.0, high=0.1)
        return (masses, self.floats(workers), self.floats(workers, low=0.0))

    def update(self, held: Any, items: int, workers: int) -> None:
        levels = np.sort(self.floats(min(self.half, 2000), low=0.01, high=6))
        types = self.needed(held, levels, items)
        prior = self.floats(types, low=0.0, high=0.1)
        own = None
        if self.rng.random() < 0.2:
            own = (self.floats(workers, types, low=0.0, high=0.1), self.floats(workers), self.floats(workers, low=0.0))
        marked = self.rng.choice((None, None, self.codes(workers, 2, np.uint8)))
        held.update(
            levels,
            prior,
            self.floats(items),
            self.number(0.1, 1),
            self.flag(),
            self.number(-1, 1),
            self.number(0, 1),
            own,
            marked,
        )

    def needed(self, held: Any, levels: Any, items: int) -> int:
        """The number of types for so many levels, from the message that refuses another."""
        try:
            held.update(levels, np.zeros(10**6), np.zeros(items), 1.0, True, 0.0, 1.0)
        except ValueError as error:
            words = str(error).split()
            if words[-1].isdigit():
                return int(words[-1])
        return 2 * len(levels) + 1

    def put_sites(self, held: Any, workers: int) -> None:
        votes = held.n_votes
        tau, nu, side_tau, side_nu = (self.floats(votes, kind=np.float32) for _ in range(4))
        low = np.where(self.numbers.random(workers) < 0.5, np.nan, 0.1)
        held.set_vote_sites(tau, nu, side_tau, side_nu, low, self.floats(workers, low=0.5), self.size(self.half))
        sites = held.vote_sites()
        assert len(sites[1]) == len(sites[4]) == votes

    def rows(self) -> None:
        rows, items, workers = self.rng.choice((0, 1, 50, 6000)), 7, 4
        first, second = self.codes(rows, items), self.codes(rows, items)
        if self.rng.random() < 0.7 and rows and first is not None:
            second = ((np.asarray(first, np.int64) + 1) % items).astype(np.uint32)
        worker = self.rng.choice((None, self.codes(rows, workers)))
        context = self.rng.choice((None, self.codes(rows, 3)))
        outcome = self.rng.choice((None, self.floats(rows, low=0, high=1, kind=np.float32)))
        weight = self.rng.choice((None, self.floats(rows, low=0, high=2, kind=np.float32)))
        n_items, n_workers = self.size(items), self.size(workers)
        kind = self.rng.randrange(5)
        if kind == 0:
            _core.find_fault(first, second, worker, outcome, weight, n_items, n_workers)
        elif kind == 1:
            _core.collapse(
                first,
                second,
                worker,
                outcome,
                weight,
                context,
                n_items,
                n_workers,
                self.flag(),
                self.rng.choice((0, 1, 3)),
            )
        elif kind == 2:
            _core.pool_pairs(first, second, outcome, weight, n_items)
        elif kind == 3:
            _core.components(first, second, n_items)
        else:
            offsets = np.array([0, rows // 2, self.whole(rows) % 2**63], np.int64)
            _core.tally(first, second, outcome, weight, offsets, self.codes(items, 9), 2)

    def factoriser(self) -> None:
        pairs, items = self.rng.choice((0, 3, 60)), self.rng.choice((2, 20))
        low = self.codes(pairs, items)
        high = (low + 1 + self.codes(pairs, items - 1)) % items
        made = _core.Factoriser(
            low, high.astype(np.uint32), self.size(items), self.rng.choice((0.0, 10.0, 1e9, np.nan))
        )
        assert made.work >= 0
        if made.possible or self.flag():
            made(self.floats(pairs, low=0.0))
