"""Samples of the common shapes of votes, in columns that every version of the project reads."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data import OUTPUT, data_folder

__all__ = ["arena", "arena_plain", "preferences"]


def _sample(seed: int, scale: float) -> Path:
    """Return the folder that the maker of samples beside the real data wrote."""
    maker = data_folder().parent / "samples" / "make.py"
    if not maker.exists():
        sys.exit(f"no maker of samples at {maker}")
    folder = OUTPUT / "samples" / f"{seed}-{scale:g}"
    if not (folder / ".ready").exists():
        words = (maker, folder, "--seed", seed, "--scale", scale)
        subprocess.run([sys.executable, *map(str, words)], check=True)
        (folder / ".ready").touch()
    return folder


def _converted(target: Path, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Path:
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
    return target.absolute()


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def arena(seed: int = 1) -> Path:
    """Return a leaderboard: 30,000 votes with ties, sides and a language."""
    folder = _sample(seed, 1.0)
    words = {"model_a": "left", "model_b": "right"}
    rows = [
        (row["model_a"], row["model_b"], words.get(row["winner"], "tie"), row["judge"], row["language"])
        for row in _lines(folder / "arena.jsonl")
    ]
    header = ("left", "right", "winner", "worker", "language")
    return _converted(folder / "arena.csv", header, rows)


def arena_plain(seed: int = 1) -> Path:
    """Return the same votes as winner and loser: no sides; a tie is given to the left item."""
    with arena(seed).open(newline="", encoding="utf-8") as file:
        rows = [
            (v["right"], v["left"], v["worker"]) if v["winner"] == "right" else (v["left"], v["right"], v["worker"])
            for v in csv.DictReader(file)
        ]
    folder = _sample(seed, 1.0)
    return _converted(folder / "arena-plain.csv", ("winner", "loser", "worker"), rows)


def preferences(seed: int = 1, scale: float = 30.0) -> Path:
    """Preferences for reward models: islands of two to four replies, about 200,000 rows."""
    folder = _sample(seed, scale)
    rows = [
        (row["chosen"], row["rejected"], row["annotator_id"], row["prompt"]) for row in _lines(folder / "trl.jsonl")
    ]
    header = ("winner", "loser", "worker", "prompt")
    return _converted(folder / "trl.csv", header, rows)
