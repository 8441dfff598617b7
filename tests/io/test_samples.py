"""Whole files of the tools of the field: every line of the intake equals what was planted."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import crowdsift

SEEDS = (1, 7)


@pytest.fixture(scope="module", params=SEEDS)
def samples(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    """The files that the generator beside the data writes, drawn from a known truth."""
    make = data_dir.parent / "samples" / "make.py"
    if not make.is_file():
        pytest.skip(f"the generator of samples is not at {make}")
    folder = tmp_path_factory.mktemp("samples")
    subprocess.run([sys.executable, make, folder, "--seed", str(request.param)], check=True)
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_mturk(samples: Path) -> None:
    rows = rows_of(samples / "mturk.csv")
    first = {row["AssignmentId"]: row for row in rows}
    empty = sum(not row["Answer.choice"] for row in first.values())
    votes = crowdsift.read(samples / "mturk.csv")
    assert str(votes.intake) == (
        f"mturk: {len(rows):,} rows read, {len(first) - empty:,} used, {empty} empty, "
        f"{len(rows) - len(first)} duplicates, 0 set aside"
    )
    assert votes.n_workers == len({row["WorkerId"] for row in rows})
    ties = sum(row["Answer.choice"] == "tie" for row in first.values())
    assert votes.weight[votes.outcome == 0.5].sum() == ties


def test_arena(samples: Path) -> None:
    rows = [json.loads(line) for line in (samples / "arena.jsonl").read_text().splitlines()]
    bad = sum(row["winner"] == "tie (bothbad)" for row in rows)
    votes = crowdsift.read(samples / "arena.jsonl")
    assert str(votes.intake) == (
        f"arena: {len(rows):,} rows read, {len(rows):,} used, 0 empty, 0 duplicates, 0 set aside; "
        f"{bad:,} both bad, counted as ties"
    )
    won = sum(row["winner"] == "model_a" for row in rows)
    assert votes.weight[votes.outcome == 1].sum() == won
    truth = {row["item"]: float(row["score"]) for row in rows_of(samples / "arena_models.csv")}
    scipy = pytest.importorskip("scipy.stats")
    fit = crowdsift.fit(votes, "bt")
    scores = fit.scores_of(list(truth))
    assert scipy.kendalltau(scores, list(truth.values())).statistic >= 0.9


@pytest.mark.parametrize("name", ["trl.jsonl", "trl_chat.jsonl", "pairs_only.jsonl"])
def test_preferences(samples: Path, name: str) -> None:
    rows = [json.loads(line) for line in (samples / name).read_text().splitlines()]
    votes = crowdsift.read(samples / name)
    assert str(votes.intake) == (
        f"trl: {len(rows):,} rows read, {len(rows):,} used, 0 empty, 0 duplicates, 0 set aside"
    )
    text = (lambda side: side[-1]["content"]) if "chat" in name else (lambda side: side)
    replies = {(row["prompt"], text(row[side])) for row in rows for side in ("chosen", "rejected")}
    assert votes.n_items == len(replies)  # equal texts under two prompts are two items
    assert np.unique(votes.item_contexts).size == len({row["prompt"] for row in rows})


def test_label_studio(samples: Path) -> None:
    tasks = json.loads((samples / "label_studio.json").read_text())
    notes = [note for task in tasks for note in task["annotations"]]
    void = sum(note["was_cancelled"] for note in notes)
    votes = crowdsift.read(samples / "label_studio.json")
    assert str(votes.intake) == (
        f"label-studio: {len(notes):,} rows read, {len(notes) - void:,} used, 0 empty, "
        f"0 duplicates, {void} set aside ({void} cancelled)"
    )
    assert votes.n_workers == len({note["completed_by"] for note in notes})
