"""Left-out votes against plain computations, and whether the better method wins."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdsift
from crowdsift.cli import app
from crowdsift.lab.evaluation import SCHEMES, cross_validate, parts_of
from crowdsift.lab.spam import add_spammers


@pytest.fixture(scope="module")
def votes() -> crowdsift.Comparisons:
    return crowdsift.simulate(items=8, workers=12, comparisons=700, seed=4).comparisons()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_parts_leave_everything_out_once(votes: crowdsift.Comparisons, scheme: str) -> None:
    left = 0.0
    for kept, out in parts_of(votes, scheme, 4, seed=3):
        left += out.total_weight
        assert kept.total_weight + out.total_weight == votes.total_weight
        pairs = [
            set(zip(np.minimum(v.first, v.second), np.maximum(v.first, v.second), strict=True)) for v in (kept, out)
        ]
        workers = [set(v.worker_codes().tolist()) for v in (kept, out)]
        assert scheme != "pairs" or not pairs[0] & pairs[1]
        assert scheme != "workers" or not workers[0] & workers[1]
    assert left == votes.total_weight


@pytest.mark.parametrize("scheme", SCHEMES)
def test_figures_are_those_of_plain_fits(votes: crowdsift.Comparisons, scheme: str) -> None:
    (found,) = cross_validate(votes, [crowdsift.BradleyTerry()], schemes=[scheme], seed=3)
    p, y = [], []
    for kept, out in parts_of(votes, scheme, 5, seed=3):
        score = np.nan_to_num(crowdsift.fit(kept, "bt").scores_of(votes.items))
        for i in range(len(out)):
            gap = score[out.first[i]] - score[out.second[i]]
            p += [1 / (1 + np.exp(-gap))] * int(out.weight[i])
            y += [float(out.outcome[i])] * int(out.weight[i])
    q, voted = np.array(p), np.array(y)
    losses = -np.log(np.where(voted == 1, q, 1 - q))
    assert found["log_loss"] == pytest.approx(losses.mean(), abs=1e-6)
    assert found["log_loss_se"] == pytest.approx(losses.std() / np.sqrt(len(q)), abs=1e-6)
    assert found["brier"] == pytest.approx(((voted - q) ** 2).mean(), abs=1e-6)
    assert found["accuracy"] == pytest.approx(((q > 0.5) == voted).mean(), abs=1e-6)
    surer, right = np.maximum(q, 1 - q), (q > 0.5) == voted
    bins = np.minimum(np.floor((surer - 0.5) * 20), 9)
    gap = sum(abs((surer - right)[bins == b].sum()) for b in range(10)) / len(q)
    assert found["calibration"] == pytest.approx(gap, abs=1e-6)
    assert found["behind"] == 0.0


def test_a_probability_of_one_half_is_half_right() -> None:
    """Left-out pairs of two items that nothing else connects: every prediction is one half."""
    first, second = ([f"{name}{n}" for n in range(40) for _ in range(3)] for name in "ab")
    votes = crowdsift.Comparisons.from_arrays(first, second, worker=["w"] * 120)
    (found,) = cross_validate(votes, [crowdsift.BradleyTerry()], schemes=["pairs"])
    assert (found["accuracy"], found["calibration"]) == (0.5, 0.0)


def test_the_method_that_sees_spammers_wins() -> None:
    clean = crowdsift.simulate(12, 20, 2500, reliability=(1.5, 1.5), seed=1).comparisons()
    spammed = add_spammers(clean, "adversarial", 40, seed=1)
    found = crowdsift.evaluate(spammed, methods="bt,bora-map,sift")
    by_votes = {row["method"]: row for row in found if row["left_out"] == "votes"}
    assert by_votes["sift"]["log_loss"] < by_votes["bt"]["log_loss"]
    assert by_votes["bt"]["behind"] > 4 * by_votes["bt"]["behind_se"]


def test_what_cannot_run_says_why() -> None:
    board = crowdsift.Comparisons.from_arrays(["a", "b", "a"] * 9, ["b", "c", "c"] * 9)
    found = crowdsift.evaluate(board, methods="bt,sift")
    assert {row["left_out"] for row in found} == set(SCHEMES)
    notes = [row["note"] for row in found if row["log_loss"] is None]
    assert any("needs workers" in note for note in notes)
    assert any("no workers to leave out" in note for note in notes)
    with pytest.raises(crowdsift.RequestError, match="must be one of"):
        cross_validate(board, [crowdsift.BradleyTerry()], schemes=["items"])


def test_the_command_needs_no_truth(tmp_path: object) -> None:
    crowdsift.simulate(items=6, workers=8, comparisons=300, seed=4).write(str(tmp_path))
    run = CliRunner().invoke(app, ["evaluate", f"{tmp_path}/votes.csv", "--methods", "bt"])
    assert run.exit_code == 0
    assert "log loss" in run.stdout
