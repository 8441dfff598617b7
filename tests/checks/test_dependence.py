"""Dependent votes: the sandwich against plain sums, copies, and coverage with planted groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdsift
from crowdsift.checks.dependence import sandwich
from crowdsift.checks.influence import ScoreModel
from crowdsift.cli import app


def planted(seed: int, groups: int = 200, size: int = 4, copied: float = 0.8) -> dict[str, object]:
    """Votes of groups on one pair each; all but the first copy it with a probability."""
    rng = np.random.default_rng(seed)
    truth = np.linspace(1.0, -1.0, 6)
    rows: dict[str, list[object]] = {name: [] for name in ("winner", "loser", "worker", "prompt")}
    for group in range(groups):
        a, b = rng.choice(6, 2, replace=False)
        p = 1 / (1 + np.exp(truth[b] - truth[a]))
        wins = rng.random(size) < p
        wins = np.where(rng.random(size) < copied, wins[0], wins)
        for won in wins:
            rows["winner"].append(f"i{a if won else b}")
            rows["loser"].append(f"i{b if won else a}")
            rows["worker"].append(f"w{rng.integers(12)}")
            rows["prompt"].append(f"p{group}")
    return dict(rows)


def test_the_sandwich_by_plain_sums() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 3, 300), rng.integers(3, 6, 300)
    slope, weight = rng.uniform(0.5, 2, 300), rng.uniform(0.5, 2, 300)
    y, group = rng.integers(0, 2, 300).astype(float), rng.integers(0, 40, 300) * 7
    model = ScoreModel(first, second, y, slope, 6, 0.3)
    r = model.scores(weight, np.zeros(6))
    hessian, middle = 0.3 * np.eye(6), np.zeros((6, 6))
    sums = {g: np.zeros(6) for g in np.unique(group)}
    for i in range(300):
        x = np.eye(6)[first[i]] - np.eye(6)[second[i]]
        p = 1 / (1 + np.exp(-slope[i] * (x @ r)))
        hessian += weight[i] * slope[i] ** 2 * p * (1 - p) * np.outer(x, x)
        sums[group[i]] += weight[i] * slope[i] * (y[i] - p) * x
    for s in sums.values():
        middle += np.outer(s, s)
    inverse = np.linalg.inv(hessian)
    exact = inverse @ middle @ inverse * 40 / 39
    assert sandwich(model, weight, group, r) == pytest.approx(exact, abs=1e-8)


def test_votes_copied_four_times_are_worth_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdsift.checks.dependence._NUMBERS", 60)  # in parts
    rows = planted(3, groups=400, size=1)
    four = {name: [value for value in column for _ in range(4)] for name, column in rows.items()}
    model = crowdsift.BradleyTerry(penalty=1e-6)
    one = crowdsift.fit(rows, model, dependent_by="prompt")
    copies = crowdsift.fit(four, model, dependent_by="prompt")
    assert copies.items["score"] == pytest.approx(one.items["score"], abs=1e-4)
    widths = [fit.items["upper"] - fit.items["lower"] for fit in (one, copies)]
    assert widths[1] == pytest.approx(widths[0], rel=1e-4)
    naive = crowdsift.fit(four, model)
    assert copies.summary["design_effect"] == pytest.approx(4.0, rel=0.15)
    assert ((naive.items["upper"] - naive.items["lower"]) < 0.6 * widths[1]).all()


@pytest.mark.parametrize("method", ["bt", "bora-map", "crowd-bt", "sift"])
def test_intervals_hold_with_planted_groups(method: str) -> None:
    """90 % intervals of scores: too narrow by half without groups, right with them."""
    truth = {f"i{i}": value for i, value in enumerate(np.linspace(1.0, -1.0, 6))}
    held: dict[str | None, list[bool]] = {None: [], "prompt": []}
    for seed in range(10 if method == "sift" else 40):
        rows = planted(seed)
        for column, found in held.items():
            fit = crowdsift.fit(rows, method, dependent_by=column, threads=1)
            true = np.array([truth[item] for item in fit.items["item"]])
            if method != "bt":  # whose scale is its own
                true = true * (fit.items["score"] @ true) / (true @ true)
            inside = (fit.items["lower"] <= true) & (true <= fit.items["upper"])
            found.extend(inside.tolist())
    assert np.mean(held[None]) < 0.8
    assert 0.83 < np.mean(held["prompt"]) <= 1.0
    assert np.mean(held["prompt"]) > np.mean(held[None]) + 0.1


def test_everything_follows(tmp_path: Path) -> None:
    rows = planted(5)
    naive = crowdsift.fit(rows, "bt")
    fit = crowdsift.fit(rows, "bt", dependent_by="prompt", scale="elo")
    assert fit.summary["dependent_by"] == "prompt"
    assert fit.summary["dependent_groups"] == 200
    ratio = [f.on_scale("standard").difference("i0", "i1") for f in (naive, fit)]
    widths = [gap["upper"][0] - gap["lower"][0] for gap in ratio]
    assert widths[1] > 1.3 * widths[0]
    joint = [f.on_scale("standard").joint() for f in (naive, fit)]
    spans = [table["upper"] - table["lower"] for table in joint]
    assert (spans[1] > 1.2 * spans[0]).all()
    assert (fit.items["rank_upper"] >= naive.items["rank_upper"]).all()
    lines = ["winner,loser,worker,prompt"]
    lines += [",".join(map(str, row)) for row in zip(*rows.values(), strict=True)]
    (tmp_path / "votes.csv").write_text("\n".join(lines) + "\n")
    call = ["fit", str(tmp_path / "votes.csv"), "--method", "bt", "--dependent-by", "prompt"]
    run = CliRunner().invoke(app, [*call, "--out", str(tmp_path / "out")])
    assert run.exit_code == 0
    saved = crowdsift.load(tmp_path / "out")
    assert saved.items["lower"] == pytest.approx(fit.item_table["lower"])


def test_what_makes_no_sense_is_refused() -> None:
    rows = planted(1, groups=60)
    with pytest.raises(crowdsift.InputError, match="votes: no column 'task' for the group of votes"):
        crowdsift.fit(rows, "bt", dependent_by="task")
    with pytest.raises(crowdsift.RequestError, match="at least 20"):
        crowdsift.fit(rows, "bt", dependent_by="worker")
    with pytest.raises(crowdsift.RequestError, match="read already"):
        crowdsift.fit(crowdsift.read(rows), "bt", dependent_by="prompt")
    with pytest.raises(crowdsift.RequestError, match="gives no intervals"):
        crowdsift.fit(rows, "rank-centrality", dependent_by="prompt")


def test_a_fit_with_groups_is_not_updated_without_them(tmp_path: Path) -> None:
    crowdsift.fit(planted(1), "bt", dependent_by="prompt").save(tmp_path)
    new = {"winner": ["i0", "i1"], "loser": ["i1", "i2"], "worker": ["w1", "w2"]}
    with pytest.raises(crowdsift.RequestError, match=r"depend on each other by prompt.*fit all votes"):
        crowdsift.load(tmp_path).update(new)
