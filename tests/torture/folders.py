"""Saved fits that somebody tampered with: the same fit, or an error of ours; never another."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import crowdsift
from crowdsift import CrowdsiftError
from torture.files import damaged
from torture.words import result

JUNK: tuple[Any, ...] = (None, True, -1, 0, 1e308, "", "x", "../../etc/passwd", [], {}, [[]], [1])


@cache
def fitted(method: str) -> crowdsift.Fit:
    return crowdsift.fit(crowdsift.simulate(6, 5, 120, seed=1).comparisons(), method, threads=1)


def case(seed: int, folder: Path) -> None:
    """Damage a file, or change a value of the summary; what loads must be usable and the same."""
    rng = random.Random(seed)
    fit = fitted(rng.choice(("sift", "bt", "factor-bt")))
    saved = folder / "fit"
    fit.save(saved)
    path = rng.choice(sorted(entry for entry in saved.rglob("*") if entry.is_file()))
    kind = rng.random()
    if path.suffix == ".json" and kind < 0.6:
        path.write_text(json.dumps(changed(rng, json.loads(path.read_text()))))
    elif kind < 0.85:
        path.write_bytes(damaged(rng, path.read_bytes()))
    else:
        path.unlink()
    try:
        loaded = crowdsift.load(saved)
    except CrowdsiftError as error:
        result(error)
        return
    repr(loaded)
    assert loaded.item_table.to_csv() == fit.item_table.to_csv(), path.name
    assert loaded.worker_table.to_csv() == fit.worker_table.to_csv(), path.name


def changed(rng: random.Random, value: Any) -> Any:
    """The value with one place in it removed or replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        kind = rng.random()
        if kind < 0.2:
            return {name: entry for name, entry in value.items() if name != key}
        return {**value, key: changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.6:
        place = rng.randrange(len(value))
        return [*value[:place], changed(rng, value[place]), *value[place + 1 :]]
    return rng.choice(JUNK)
