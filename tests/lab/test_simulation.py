"""Simulated votes follow their model, are the same for the same seed, and survive a file."""

import csv
import os
import sys

import numpy as np
import pytest
from scipy.special import expit, ndtr

import crowdsift
from crowdsift.errors import RequestError
from crowdsift.lab.simulation import MODELS, simulate

MODULE = sys.modules["crowdsift.lab.simulation"]


def chances(drawn):
    """P(first wins) of every vote, written down from methods.md and apart from the simulator."""
    d = drawn.scores[drawn.first] - drawn.scores[drawn.second]
    p = {name: values[drawn.worker] for name, values in drawn.worker_parameters.items()}
    beta = p["reliability"]
    match drawn.model:
        case "bt" | "rank-centrality":
            return expit(d)
        case "bora-em" | "hbtl":
            return expit(beta * d)
        case "htcv":
            return ndtr(beta * d / np.sqrt(2))
        case "crowd-bt":
            return beta * expit(d) + (1 - beta) * expit(-d)
        case "factor-bt":
            return expit(beta) * expit(d) + (1 - expit(beta)) * expit(p["side_bias"])
        case "barp":
            kind = drawn.item_parameters["class"]
            return expit(d + p["class_bias"] * (kind[drawn.first] - kind[drawn.second]))
    raise AssertionError(f"no probability stated for {drawn.model}")


@pytest.mark.parametrize("model", MODELS)
def test_votes_win_as_often_as_the_model_says(model):
    drawn = simulate(6, 4, 400_000, model=model, seed=3)
    chance = chances(drawn)
    cell = (drawn.worker.astype(int) * 6 + drawn.first) * 6 + drawn.second
    wins, expected = np.bincount(cell, drawn.outcome), np.bincount(cell, chance)
    variance = np.bincount(cell, chance * (1 - chance))
    used = variance > 0
    assert used.sum() == 4 * 6 * 5
    # Chi-square with 120 degrees of freedom: mean 120, deviation 15.5; 5 deviations either side.
    statistic = ((wins - expected)[used] ** 2 / variance[used]).sum()
    assert abs(statistic - 120) < 5 * np.sqrt(240)


@pytest.mark.parametrize(
    ("model", "name", "mean", "deviation"),
    [
        ("bora-em", "reliability", 0.5, 1 / np.sqrt(12)),
        ("hbtl", "reliability", 0.5, 1 / np.sqrt(12)),
        ("htcv", "reliability", 0.5, 1 / np.sqrt(12)),
        ("crowd-bt", "reliability", 0.75, 0.5 / np.sqrt(12)),
        ("factor-bt", "reliability", 1.0, 1.0),
        ("factor-bt", "side_bias", 0.0, 1.0),
        ("barp", "class_bias", 0.0, 0.5),
        ("bt", "reliability", 1.0, 0.0),
    ],
)
def test_workers_are_drawn_as_documented(model, name, mean, deviation):
    values = simulate(5, 100_000, 1, model=model, seed=1).worker_parameters[name]
    assert values.mean() == pytest.approx(mean, abs=5 * deviation / np.sqrt(100_000))
    assert values.std() == pytest.approx(deviation, abs=5 * deviation / np.sqrt(100_000))


def test_reliability_can_be_chosen():
    values = simulate(5, 10_000, 1, reliability=(-1, -0.5), seed=1).reliability
    assert -1 <= values.min() < -0.999
    assert -0.501 < values.max() <= -0.5


def test_scores_and_pairs_are_uniform():
    drawn = simulate(20_000, 3, 200_000, seed=2)
    assert drawn.scores.mean() == pytest.approx(0, abs=1e-12)
    assert np.ptp(drawn.scores) == pytest.approx(6, abs=0.01)
    assert drawn.scores.std() == pytest.approx(6 / np.sqrt(12), abs=0.02)
    few = simulate(4, 3, 120_000, seed=2)
    counts = np.bincount(few.first * 4 + few.second, minlength=16)
    ordered = ~np.eye(4, dtype=bool).ravel()
    assert (counts[~ordered] == 0).all()
    assert np.abs(counts[ordered] - 10_000).max() < 5 * np.sqrt(10_000)
    assert np.abs(np.bincount(few.worker) - 40_000).max() < 5 * np.sqrt(40_000)


def test_the_seed_decides_and_more_votes_keep_the_truth():
    one, same, other = (simulate(30, 9, 500, seed=s) for s in (4, 4, 5))
    for name in ("scores", "reliability", "first", "second", "outcome", "worker"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
    assert (one.scores != other.scores).any()
    assert (one.first != other.first).any()
    longer = simulate(30, 9, 5000, seed=4)
    np.testing.assert_array_equal(longer.scores, one.scores)
    np.testing.assert_array_equal(longer.reliability, one.reliability)


def test_loads_are_kept_scaled_or_drawn():
    loads = np.array([1, 0, 6, 3])
    kept = simulate(5, 4, 10, loads=loads)
    np.testing.assert_array_equal(np.bincount(kept.worker, minlength=4), loads)
    scaled = np.bincount(simulate(5, 4, 1003, loads=loads).worker, minlength=4)
    assert scaled.sum() == 1003
    assert np.all(np.abs(scaled - 100.3 * loads) < 3)  # at most the 1 to 2 left over
    assert scaled[1] == 0
    more = np.bincount(simulate(5, 1000, 100_000, loads=[1, 9], seed=1).worker)
    assert len(more) == 1000
    assert set(np.round(more / more.min())) == {1, 9}


def test_no_worker_is_left_out_when_loads_grow():
    drawn = simulate(50, 2000, 9_001, loads=np.ones(2000, dtype=int), seed=1)
    assert np.bincount(drawn.worker, minlength=2000).min() == 4


def test_comparisons_keep_every_code_and_every_vote():
    drawn = simulate(1001, 12, 300, seed=6)
    votes = drawn.comparisons()
    assert votes.sides_known
    assert votes.items[0] == "i0000"
    assert votes.items[1000] == "i1000"
    assert votes.workers[11] == "w11"
    assert list(votes.items) == sorted(votes.items)
    assert (votes.n_items, votes.n_workers, votes.total_weight) == (1001, 12, 300)
    given = sorted(zip(drawn.worker, drawn.first, drawn.second, drawn.outcome, strict=True))
    kept = zip(votes.worker_codes(), votes.first, votes.second, votes.outcome, strict=True)
    assert sorted(kept) == given  # 300 votes on 1001 items: none is repeated


def rows(path):
    with open(path, newline="", encoding="ascii") as file:
        header, *lines = csv.reader(file)
    return header, lines


@pytest.mark.parametrize("model", ["bora-em", "factor-bt", "barp"])
def test_written_files_read_back_equal(tmp_path, model):
    drawn = simulate(11, 3, 1000, model=model, seed=8)
    drawn.write(tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    assert sorted(os.listdir(folder)) == ["items.csv", "votes.csv", "workers.csv"]

    header, lines = rows(folder / "votes.csv")
    assert header == ["left", "right", "winner", "worker"]
    items, workers = drawn.items, drawn.workers
    winner = np.where(drawn.outcome == 1, "left", "right")
    expected = zip(items[drawn.first], items[drawn.second], winner, workers[drawn.worker], strict=True)
    assert lines == [list(line) for line in expected]

    for name, labels, wanted in (
        ("item", items, {"score": drawn.scores, **drawn.item_parameters}),
        ("worker", workers, drawn.worker_parameters),
    ):
        header, lines = rows(folder / f"{name}s.csv")
        assert header == [name, *wanted]
        assert [line[0] for line in lines] == list(labels)
        numbers = np.array([line[1:] for line in lines], dtype=float)
        np.testing.assert_array_equal(numbers, np.column_stack(list(wanted.values())))


def test_votes_of_several_blocks_are_written_in_order(tmp_path, monkeypatch):
    drawn = simulate(11, 3, 1000, seed=8)
    drawn.write(tmp_path / "whole")
    monkeypatch.setattr(MODULE, "_BLOCK", 64)
    drawn.write(tmp_path / "blocks")
    whole, blocks = ((tmp_path / name / "votes.csv").read_bytes() for name in ("whole", "blocks"))
    assert whole == blocks
    np.testing.assert_array_equal(simulate(11, 3, 1000, seed=8).outcome, drawn.outcome)


def test_writing_replaces_all_files_or_none(tmp_path, monkeypatch):
    simulate(5, 2, 20, seed=1).write(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def broken(*_):
        raise OSError(28, "No space left on device")
        yield b""

    monkeypatch.setattr(MODULE, "_table", broken)
    for folder in (tmp_path, tmp_path / "not" / "yet"):
        with pytest.raises(RequestError, match="No space left on device"):
            simulate(5, 2, 20, seed=2).write(folder)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    monkeypatch.undo()
    simulate(5, 2, 20, seed=2).write(tmp_path)
    assert all(path.read_bytes() != before[path.name] for path in tmp_path.iterdir())


def test_a_target_that_cannot_be_written_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(RequestError, match="cannot write to"):
        simulate(5, 2, 20).write(file)
    assert file.read_text() == "mine"
    (tmp_path / "taken" / "workers.csv").mkdir(parents=True)
    with pytest.raises(RequestError, match=r"workers\.csv is a folder"):
        simulate(5, 2, 20).write(tmp_path / "taken")
    assert os.listdir(tmp_path / "taken") == ["workers.csv"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"items": 1}, "items must be at least 2, not 1"),
        ({"workers": 0}, "workers must be at least 1, not 0"),
        ({"comparisons": 0}, "comparisons must be at least 1, not 0"),
        ({"seed": -1}, "seed must be at least 0, not -1"),
        ({"items": 2.5}, "items must be a whole number, not 2.5"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"reliability": 3}, "give two numbers"),
        ({"reliability": ("a", "b")}, "reliability must be a finite number"),
        ({"reliabilities": ["x"]}, "reliabilities must be finite numbers"),
        ({"model": "elo"}, "no simulator for 'elo'; the models are bt, "),
        ({"reliability": (1.0, 0.0)}, "two finite numbers, the lower first"),
        ({"reliability": (0.0, np.inf)}, "reliability must be a finite number"),
        ({"reliability": (np.nan, 1.0)}, "reliability must be a finite number"),
        ({"reliability": (-2.0, 1.0), "model": "hbtl"}, r"in hbtl it lies in \[-1, 1\]"),
        ({"reliability": (-0.1, 1.0), "model": "htcv"}, r"in htcv it lies in \[0, inf\]"),
        ({"reliability": (0.0, 1.1), "model": "crowd-bt"}, r"in crowd-bt it lies in \[0, 1\]"),
        ({"reliability": (0.0, 1.0), "model": "bt"}, "all workers are alike"),
        ({"loads": [0, 0]}, "loads must be numbers of comparisons"),
        ({"loads": [-1, 2]}, "loads must be numbers of comparisons"),
        ({"loads": [0.5, 2]}, "loads must be numbers of comparisons"),
        ({"loads": []}, "loads must be numbers of comparisons"),
    ],
)
def test_what_cannot_be_simulated_is_refused(asked, message):
    with pytest.raises(RequestError, match=message):
        simulate(**{"items": 5, "workers": 2, "comparisons": 10, **asked})


def test_rankings_follow_plackett_and_luce(tmp_path):
    drawn = simulate(4, 3, 60_000, reliability=(0.3, 1.5), seed=9, set_size=3)
    beta = drawn.reliability
    for worker in range(3):
        for order in ((0, 1, 2), (2, 0, 3), (3, 1, 0)):
            mine = drawn.rankings[drawn.worker == worker]
            same = mine[(np.sort(mine, axis=1) == np.sort(order)).all(axis=1)]
            x = np.exp(beta[worker] * drawn.scores[list(order)])
            p = x[0] / x.sum() * x[1] / (x[1] + x[2])
            share, n = (same == order).all(axis=1).mean(), len(same)
            assert abs(share - p) < 4 * np.sqrt(p * (1 - p) / n)
    votes = drawn.comparisons()
    assert votes.total_weight == pytest.approx(2 * 60_000)
    assert votes.choices.weight.sum() == 2 * 60_000
    few = simulate(6, 5, 40, seed=1, set_size=4)
    few.write(tmp_path)
    back = crowdsift.read(tmp_path / "votes.csv")
    assert back.choices.weight.sum() == 40 * 3
    one, two = (
        dict(zip(f.items["item"], f.items["score"], strict=True)) for f in map(crowdsift.fit, (back, few.comparisons()))
    )
    assert one == pytest.approx(two)


@pytest.mark.parametrize(("items", "model"), [(3, "bora-em"), (9, "barp"), (9, "htcv")])
def test_sets_that_cannot_be_ranked(items, model):
    with pytest.raises(RequestError, match="sets of 4 need as many items and a logistic model"):
        simulate(items, 3, 10, model=model, set_size=4)
