"""Votes that were uploaded twice, and files that pool the votes of several judges."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdsift
from crowdsift.errors import InputError
from crowdsift.io.ingest import read
from crowdsift.io.rows import find_repeats

HEADER = ["winner", "loser", "worker"]


def drawn(items: int, workers: int, count: int, seed: int) -> list[list[str]]:
    """Rows of a crowd of different reliabilities, pairs drawn with replacement."""
    random = np.random.default_rng(seed)
    score, slope = random.normal(size=items), random.exponential(1.5, workers)
    who, one = random.integers(0, workers, count), random.integers(0, items, count)
    two = (one + random.integers(1, items, count)) % items
    won = random.random(count) < 1.0 / (1.0 + np.exp(-slope[who] * (score[one] - score[two])))
    return [
        [f"i{a if up else b}", f"i{b if up else a}", f"w{w}"] for a, b, w, up in zip(one, two, who, won, strict=True)
    ]


def csv_file(path: Path, rows: list[list[str]], header: list[str] = HEADER) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.mark.parametrize("order", ["in order", "shuffled"])
def test_rows_uploaded_twice_are_warned_about(tmp_path: Path, order: str) -> None:
    rows = drawn(40, 30, 2000, seed=3)
    twice = [*rows, *rows[500:800]]
    if order == "shuffled":
        twice = [twice[place] for place in np.random.default_rng(1).permutation(len(twice))]
    votes = read(csv_file(tmp_path / "votes.csv", twice))
    assert votes.intake is not None
    assert 300 <= votes.intake.repeated <= 400  # those that chance repeats are among them
    (note,) = votes.intake.notes
    assert "--unique winner,loser,worker" in note
    assert "count twice" in note
    once = read(tmp_path / "votes.csv", unique=HEADER)
    assert once.intake is not None
    assert once.intake.repeated == 0
    assert once.intake.duplicates >= 300


@pytest.mark.parametrize(
    ("items", "workers", "count"),
    [(40, 30, 2000), (5, 4, 300), (20, 1, 4000), (60, 600, 9000), (2, 50, 900), (10, 10, 3000)],
)
def test_rows_that_repeat_by_chance_are_no_warning(tmp_path: Path, items: int, workers: int, count: int) -> None:
    for seed in range(5):
        rows = drawn(items, workers, count, seed)
        for name, each in (("drawn", rows), ("sorted", sorted(rows))):
            votes = read(csv_file(tmp_path / f"{name}.csv", each))
            assert votes.intake is not None
            assert votes.intake.repeated == 0, (seed, name)
        block = rows[: max(60, count // 10)]
        found = read(csv_file(tmp_path / "twice.csv", [*rows, *block])).intake
        assert found is not None
        assert found.repeated >= len(block)


def test_further_columns_tell_votes_apart(tmp_path: Path) -> None:
    """One judge, few pairs: only a time says whether a row is a vote of its own."""
    rows = drawn(6, 1, 2000, seed=1)
    timed = [[*row, f"2026-01-{1 + n % 28:02d} 10:{n // 60:02d}:{n % 60:02d}"] for n, row in enumerate(rows)]
    header = [*HEADER, "time"]
    alone = read(csv_file(tmp_path / "alone.csv", timed, header)).intake
    assert alone is not None
    assert alone.repeated == 0
    chosen = [timed[place] for place in np.random.default_rng(2).choice(2000, 37, replace=False)]
    for name in ("twice.csv", "twice.jsonl"):
        path = csv_file(tmp_path / "twice.csv", [*timed, *chosen], header)
        if name.endswith("jsonl"):
            pandas = pytest.importorskip("pandas")
            pandas.read_csv(path).to_json(tmp_path / name, orient="records", lines=True)
        found = read(tmp_path / name).intake
        assert found is not None
        assert found.repeated == 37
        assert "equal earlier ones in every column" in found.notes[0]
        assert f"row 2,001 of {tmp_path / name}" in found.notes[0]


def test_the_report_does_not_call_repeated_rows_good(tmp_path: Path) -> None:
    rows = drawn(12, 15, 1500, seed=2)
    for repeated, state in ((0, "good"), (100, "care"), (300, "bad")):
        path = csv_file(tmp_path / "votes.csv", [*rows, *rows[:repeated]])
        fit = crowdsift.fit(path)
        fit.save(tmp_path / "fit")
        page = tmp_path / "report.html"
        crowdsift.load(tmp_path / "fit").report(page)
        assert f'data-check="repeats" data-state="{state}"' in page.read_text()


def test_a_file_that_is_matched_twice_is_read_once(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "votes-1.csv", drawn(10, 5, 50, seed=1))
    os.symlink(path, tmp_path / "votes-2.csv")
    votes = read(tmp_path / "votes-*.csv")
    assert votes.total_weight == 50
    assert votes.intake is not None
    assert "votes-2.csv is the same file as" in votes.intake.notes[0]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_of_the_same_content_are_refused(tmp_path: Path, kind: str) -> None:
    rows = drawn(10, 5, 50, seed=1)
    for name in ("votes-1", "votes-2"):
        path = csv_file(tmp_path / f"{name}.csv", rows)
        if kind == "parquet":
            pytest.importorskip("duckdb").read_csv(str(path)).write_parquet(str(tmp_path / f"{name}.parquet"))
    with pytest.raises(InputError, match=rf"votes-2\.{kind}: the same content as .*votes-1"):
        read(tmp_path / f"votes-*.{kind}")


def test_small_files_may_be_equal_and_folders_tell_files_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        csv_file(tmp_path / f"few-{name}.csv", [["x", "y", "w"]])
        (tmp_path / f"worker={name}").mkdir()
        rows = [row[:2] for row in drawn(10, 1, 40, seed=1)]
        csv_file(tmp_path / f"worker={name}" / "votes.csv", rows, ["winner", "loser"])
    assert read(tmp_path / "few-*.csv").total_weight == 2
    votes = read(tmp_path / "worker=*" / "votes.csv", partitions=True)
    assert votes.workers.tolist() == ["a", "b"]


@pytest.mark.parametrize("header", [["winner", "loser"], ["left", "right", "winner"]])
def test_files_without_a_worker_are_not_pooled_in_silence(tmp_path: Path, header: list[str]) -> None:
    """The second layout is that of evalica, which never has workers."""
    for seed, judge in enumerate(("gpt", "claude")):
        rows = drawn(8, 1, 60, seed)
        shown = [[a, b, "left"] if n % 2 else [b, a, "right"] for n, (a, b, _) in enumerate(rows)]
        content = shown if "left" in header else [row[:2] for row in rows]
        csv_file(tmp_path / f"{judge}.csv", content, header)
    options: dict[str, Any] = {"workers": False} if len(header) == 2 else {}
    several = read(tmp_path / "*.csv", **options).intake
    assert several is not None
    (note,) = [note for note in several.notes if "pooled" in note]
    for part in ("2 files", "gpt.csv", "one unknown voter", "--worker-from-path"):
        assert part in note
    one = read(tmp_path / "gpt.csv", **options).intake
    assert one is not None
    assert not any("pooled" in note for note in one.notes)


def test_no_rows_and_one_row_are_no_repeats() -> None:
    for count in (0, 1, 2):
        codes = np.zeros(count, np.uint32)
        assert find_repeats((codes, codes + 1, codes), lambda: None) is None
