"""Drift over time: planted and absent, and what is no time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest
from typer.testing import CliRunner

import crowdsift
from crowdsift.checks.dependence import drift
from crowdsift.cli import app
from crowdsift.fitting.rows import read_rows, times_of
from crowdsift.io.options import ReadOptions


def timed(seed: int, tired: int = -1, fading: float = 0.0) -> dict[str, list[object]]:
    """Ten workers on eight items for 3,000 votes; one tires, or all fade, with time."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=8)
    rows: dict[str, list[object]] = {name: [] for name in ("winner", "loser", "worker", "when")}
    for i in range(3000):
        tau = 2 * i / 2999 - 1
        worker = int(rng.integers(10))
        slope = 1.5 * (1 + fading * tau)
        slope = 1.5 * (1 - tau) if worker == tired else slope
        a, b = rng.choice(8, 2, replace=False)
        won = rng.random() < 1 / (1 + np.exp(-slope * (score[a] - score[b])))
        for name, value in (
            ("winner", a if won else b),
            ("loser", b if won else a),
            ("worker", f"w{worker}"),
            ("when", 1.7e9 + 60 * i),
        ):
            rows[name].append(value)
    return rows


def found(seed: int, method: str = "bora-map", **planted: float):  # type: ignore[no-untyped-def]
    votes, rows = read_rows(timed(seed, **planted), ReadOptions(), time="when")  # type: ignore[arg-type]
    return drift(crowdsift.fit(votes, method, threads=1), rows)


def test_without_drift_scores_are_standard_normal() -> None:
    z, crowd, named = [], [], 0
    for seed in range(30):
        result = found(seed)
        z += result.workers["z"].tolist()
        crowd.append(result.crowd_z)
        named += bool(result.drifting)
    assert kstest(z, "norm").pvalue > 0.01
    assert kstest(crowd, "norm").pvalue > 0.01
    assert named <= 5  # of 30 crowds, 1.5 are expected


@pytest.mark.parametrize("seed", range(5))
def test_a_worker_who_tires_is_named(seed: int) -> None:
    result = found(seed, tired=3)
    assert result.drifting == ["w3"]
    assert result.workers["early"][3] > result.workers["late"][3]


@pytest.mark.parametrize("method", ["bora-map", "bt"])
def test_a_crowd_that_fades(method: str) -> None:
    changes = [found(seed, method, fading=-0.4) for seed in range(4)]
    assert all(result.crowd_z < -4 for result in changes)
    # From 1.4 to 0.6 of the middle, and one step from no drift finds most of it.
    assert np.mean([result.crowd_change for result in changes]) == pytest.approx(-0.8, abs=0.2)


def test_times_are_numbers_dates_and_their_texts() -> None:
    day = 86400.0
    result = times_of(["2024-05-01", "2024-05-02 00:00:00", "2024-05-03T00:00:00"], "day")
    assert np.diff(result).tolist() == [day, day]
    assert times_of([3, "4.5"], "tstamp").tolist() == [3.0, 4.5]


@pytest.mark.parametrize("value", ["soon", "nan", True, None])
def test_what_is_no_time_is_refused(value: object) -> None:
    rows = {"winner": ["a", "b"], "loser": ["b", "a"], "when": ["2024-05-01", value]}
    with pytest.raises(crowdsift.CrowdsiftError, match="time"):
        crowdsift.fit(rows, "bt", workers=False, time_column="when")
    with pytest.raises(crowdsift.InputError, match="no column 'hour' for the time of votes"):
        crowdsift.fit(rows, "bt", workers=False, time_column="hour")


def test_the_command_takes_time_and_groups(tmp_path: Path) -> None:
    rows = timed(1, tired=3)
    lines = ["winner,loser,worker,when,prompt"]
    for i, row in enumerate(zip(*rows.values(), strict=True)):
        lines.append(",".join(map(str, (*row, i // 3))))
    (tmp_path / "votes.csv").write_text("\n".join(lines) + "\n")
    call = ["fit", str(tmp_path / "votes.csv"), "--method", "bora-map", "--time", "when"]
    run = CliRunner().invoke(app, [*call, "--dependent-by", "prompt", "--out", str(tmp_path / "out")])
    assert run.exit_code == 0
    summary = crowdsift.load(tmp_path / "out").summary
    assert summary["drift"]["workers"] == ["w3"]
    assert summary["dependent_groups"] == 1000
