"""A state machine over votes, fits and folders, against a plain count of every vote.

Steps come in any order: votes are made, joined, cut, written and read again; fitted by any method; fits are saved over
each other, loaded, extended and asked. After each step what is held has exactly the votes that the count has, and what
comes out of a folder is what went in.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np

import crowdsift
from crowdsift import Comparisons, Fit, RequestError
from crowdsift.models import MODELS

Vote = tuple[str, str, str, float]  # first, second, worker, outcome
Count = Counter[Vote]
METHODS = sorted(MODELS)


def case(seed: int, folder: Path) -> None:
    """Twenty steps."""
    machine = Machine(random.Random(seed), folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdsift.ConvergenceWarning)
        warnings.simplefilter("ignore", crowdsift.SignWarning)
        for _ in range(20):
            machine.step()


class Machine:
    """Votes with their counts, fits with theirs, and what each folder should hold."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng, self.folder = rng, folder
        self.votes: list[tuple[Comparisons, Count]] = []
        self.fits: list[tuple[Fit, Count]] = []
        self.saved: dict[Path, tuple[Fit, Count]] = {}
        self.make()
        self.fit()

    def step(self) -> None:
        steps = (
            self.make,
            self.join,
            self.cut,
            self.file,
            self.fit,
            self.save,
            self.load,
            self.update,
            self.ask,
            self.start,
        )
        self.rng.choice(steps)()
        del self.votes[:-4], self.fits[:-4]

    # --- votes

    def keep(self, votes: Comparisons, count: Count) -> None:
        assert counted(votes) == count
        assert votes.total_weight == sum(count.values())
        self.votes.append((votes, count))

    def make(self) -> None:
        items = [f"i{k}" for k in range(self.rng.choice((3, 8)))]
        kinds = self.rng.choice(((1.0,), (0.0, 1.0), (0.0, 0.5, 1.0)))
        rows = [
            (*self.rng.sample(items, 2), f"w{self.rng.randrange(4)}", self.rng.choice(kinds))
            for _ in range(self.rng.choice((3, 40, 150)))
        ]
        first, second, worker, outcome = (list(column) for column in zip(*rows, strict=True))
        made = Comparisons.from_arrays(first, second, worker=worker, outcome=outcome, sides_known=True)
        self.keep(made, Counter(rows))

    def join(self) -> None:
        (one, ones), (two, twos) = self.rng.choice(self.votes), self.rng.choice(self.votes)
        self.keep(one.extended(two), ones + twos)

    def cut(self) -> None:
        votes, _ = self.rng.choice(self.votes)
        chosen = np.array([self.rng.random() < 0.7 for _ in range(len(votes))])
        chosen[self.rng.randrange(len(votes))] = True
        kept = votes.select(chosen)
        self.keep(kept, Counter(dict(entry for entry, c in zip(rows(votes), chosen, strict=True) if c)))

    def file(self) -> None:
        _, count = self.rng.choice(self.votes)
        path = self.folder / "votes.csv"
        lines = [f"{a},{b},{worker},{y}" for a, b, worker, y in count.elements()]
        self.rng.shuffle(lines)
        path.write_text("first,second,worker,outcome\n" + "\n".join(lines) + "\n")
        self.keep(crowdsift.read(path, sides=True), count)

    # --- fits

    def hold(self, fit: Fit, count: Count) -> None:
        assert fit.summary["votes"] == sum(count.values())
        assert set(fit.items["item"]) >= {name for a, b, *_ in count for name in (a, b)}
        self.fits.append((fit, count))

    def fit(self) -> None:
        votes, count = self.rng.choice(self.votes)
        model = crowdsift.model(self.rng.choice(METHODS)).relax(votes)[0]
        self.hold(crowdsift.fit(votes, model, threads=1), count)

    def update(self) -> None:
        fit, count = self.rng.choice(self.fits)
        votes, more = self.rng.choice(self.votes)
        self.hold(fit.update(votes, threads=1, again=True), count + more)

    def start(self) -> None:
        earlier, _ = self.rng.choice(self.fits)
        votes, count = self.rng.choice(self.votes)
        if earlier.method != "sift":
            return
        with suppress(RequestError):  # too few of its items are among these
            self.hold(crowdsift.fit(votes, start=earlier, threads=1), count)

    def save(self) -> None:
        fit, count = self.rng.choice(self.fits)
        path = self.folder / self.rng.choice("ab")
        fit.save(path)
        self.saved[path] = (fit, count)

    def load(self) -> None:
        if not self.saved:
            return
        path = self.rng.choice(sorted(self.saved))
        fit, count = self.saved[path]
        loaded = crowdsift.load(path)
        same(loaded, fit)
        self.hold(loaded, count)

    def ask(self) -> None:
        """Questions to a fit leave it as it is."""
        fit, count = self.rng.choice(self.fits)
        before = fit.item_table.to_csv(), fit.worker_table.to_csv()
        a, b, worker, _ = self.rng.choice(sorted(count))
        chance = fit.predict([a, b], [b, a])
        assert np.isfinite(chance).all()
        assert ((chance >= 0) & (chance <= 1)).all()
        assert 0 <= float(fit.predict(a, b, worker)) <= 1
        with suppress(RequestError):  # not every method gives intervals
            np.testing.assert_allclose(fit.better(a, b) + fit.better(b, a), 1.0, atol=1e-9)
        repr(fit), fit.to_json(), fit.decisions()
        assert (fit.item_table.to_csv(), fit.worker_table.to_csv()) == before


def rows(votes: Comparisons) -> list[tuple[Vote, int]]:
    """Every vote with how often it is there."""
    items, workers = votes.items, votes.workers[votes.worker_codes()]
    named = zip(
        items[votes.first], items[votes.second], workers, votes.outcome.tolist(), votes.weight.tolist(), strict=True
    )
    return [((a, b, worker, y), int(weight)) for a, b, worker, y, weight in named]


def counted(votes: Comparisons) -> Count:
    return Counter(dict(rows(votes)))


def same(one: Fit, two: Fit) -> None:
    assert one.method == two.method
    assert one.item_table.to_csv() == two.item_table.to_csv()
    assert one.worker_table.to_csv() == two.worker_table.to_csv()
    assert one.summary["votes"] == two.summary["votes"]
