"""Hostile labels from the votes to every output: as they were given, and nowhere as code."""

from __future__ import annotations

import json
import random
from html.parser import HTMLParser
from pathlib import Path

import crowdsift
from crowdsift import Comparisons
from torture.words import labels


class Tags(HTMLParser):
    """The tags of a page, and attributes that run something."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.handlers += [v for _, v in attrs if (v or "").strip().lower().startswith("javascript")]


def case(seed: int, folder: Path) -> None:
    """Fit, save, load, write as JSON and as a report."""
    rng = random.Random(seed)
    items, workers = labels(rng, rng.randrange(2, 9)), labels(rng, rng.randrange(2, 6))
    votes = [(*rng.sample(items, 2), rng.choice(workers)) for _ in range(60)]
    winner, loser, worker = (list(column) for column in zip(*votes, strict=True))
    fit = crowdsift.fit(Comparisons.from_arrays(winner, loser, worker=worker), "bt", threads=1)
    assert set(fit.items["item"]) == {*winner, *loser}
    assert set(fit.workers["worker"]) == set(worker)
    fit.save(folder / "fit")
    loaded = crowdsift.load(folder / "fit")
    assert list(loaded.items["item"]) == list(fit.items["item"])
    assert list(loaded.workers["worker"]) == list(fit.workers["worker"])
    json.loads((folder / "fit" / "summary.json").read_text(encoding="utf-8"))
    fit.report(folder / "report.html", refit=False, threads=1)
    page = Tags()
    page.feed((folder / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 2
    assert not page.handlers
