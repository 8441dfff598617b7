"""An update reads new votes as the fit did, whatever the options, and equals the fit of all rows."""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any

import pytest

import crowdsift


def drawn(rng: random.Random, folder: Path) -> tuple[list[list[str]], dict[str, Any], str]:
    """Return rows with a header, the options that read them, and how files are named."""
    names = {"left": "left", "right": "right", "winner": "winner", "worker": "worker"}
    words, options = {"left": "left", "right": "right"}, {}
    if rng.random() < 0.5:
        names |= {"left": "url1", "right": "url2", "winner": "réponse"}
        options["columns"] = {role: names[role] for role in ("left", "right", "winner")}
    if rng.random() < 0.5:
        words = {"left": "I", "right": "II"}
        options["values"] = {"I": "left", "II": "right", "?": "empty"}
    if rng.random() < 0.5:
        options["where"] = "keep = 'yes'"
    if rng.random() < 0.5:
        options["unique"] = "id"
    if rng.random() < 0.5:
        options["sides"] = False
    if rng.random() < 0.5:
        options["encoding"] = "latin-1"
    if rng.random() < 0.5 and "columns" not in options:
        options["format"] = "plain"
    kind = rng.choice(("column", "path", "wide"))
    rows = []
    for number in range(240):
        one, two = rng.sample(range(6), 2)
        answers = [words["left" if (one > two) == (rng.random() < 0.85) else "right"] for _ in range(4)]
        given = ["", "", ""] if kind == "wide" else [answers[0], f"w{number % 4}"]
        cells = [f"é{one}", f"é{two}", rng.choice(("yes", "yes", "no")), str(number)]
        rows.append([*cells, *(answers if kind == "wide" else given)])
    header = [names["left"], names["right"], "keep", "id"]
    if kind == "wide":
        options.pop("columns", None)
        header[:2] = ["left", "right"]
        options["worker_columns"] = "r_"
        return [[*header, *(f"r_{k}" for k in range(4))], *rows], options, kind
    if kind == "path":
        options["worker_from_path"] = rng.choice((True, "{worker}/votes.csv"))
        return [[*header, names["winner"]], *(row[:5] + row[5:] for row in rows)], options, kind
    if "columns" in options:
        options["columns"]["worker"] = "who"
        return [[*header, names["winner"], "who"], *rows], options, kind
    return [[*header, names["winner"], "worker"], *rows], options, kind


def written(folder: Path, table: list[list[str]], kind: str, encoding: str) -> Path:
    """Write a file, or a folder with a file of every worker."""
    header, *rows = table
    parts = {"": rows}
    if kind == "path":
        parts = {who: [row[:5] for row in rows if row[5] == who] for who in sorted({row[5] for row in rows})}
    for who, own in parts.items():
        path = folder / who / "votes.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding=encoding) as file:
            csv.writer(file).writerows([header, *own])
    return folder if kind == "path" else folder / "votes.csv"


@pytest.mark.parametrize("seed", range(20))
def test_an_update_reads_as_the_fit_did(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    table, options, kind = drawn(rng, tmp_path)
    encoding = options.get("encoding", "utf-8")
    header, rows = table[0], table[1:]
    overlap = 40 if "unique" in options else 0  # rows that have an id count once
    early, late = [header, *rows[:160]], [header, *rows[160 - overlap :]]
    paths = [written(tmp_path / name, part, kind, encoding) for name, part in (("a", early), ("b", late), ("c", table))]
    crowdsift.fit(paths[0], **options).save(tmp_path / "fit")
    found = crowdsift.load(tmp_path / "fit").update(paths[1])
    whole = crowdsift.fit(paths[2], **options)
    assert found.labels == whole.labels
    assert found.item_table["score"].tolist() == whole.item_table["score"].tolist()
    assert found.worker_table["worker"].tolist() == whole.worker_table["worker"].tolist()
    assert found.worker_table["reliability"].tolist() == whole.worker_table["reliability"].tolist()
    assert found.votes is not None
    assert whole.votes is not None
    assert found.votes.total_weight == whole.votes.total_weight
