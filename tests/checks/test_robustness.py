"""Robustness against exhaustive search, finite differences and refits."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdsift
from crowdsift.checks.influence import ScoreModel
from crowdsift.cli import app
from crowdsift.fitting.refit import Nearby

PENALTY = 0.01
PAIRS = list(combinations(range(5), 2))
CELLS = [(a, b) for a, b in PAIRS] + [(b, a) for a, b in PAIRS]  # winner, loser


def board(seed: int) -> np.ndarray:
    """Counts by winner and loser: 5 items, between 30 and 60 votes."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=5)
    counts = np.zeros((5, 5), int)
    for _ in range(int(rng.integers(30, 61))):
        a, b = rng.choice(5, 2, replace=False)
        wins = rng.random() < 1 / (1 + np.exp(scores[b] - scores[a]))
        counts[(a, b) if wins else (b, a)] += 1
    return counts


def fit_of(counts: np.ndarray) -> crowdsift.Fit:
    first, second = np.nonzero(counts)
    votes = crowdsift.Comparisons.from_arrays(first, second, weight=counts[first, second])
    return crowdsift.fit(votes, crowdsift.BradleyTerry(penalty=PENALTY))


def scores_of(counts: np.ndarray) -> np.ndarray:
    """Penalised maximum likelihood of many boards at once, by Newton's method."""
    both = counts + counts.transpose(0, 2, 1)
    r = np.zeros((len(counts), 5))
    for _ in range(60):
        p = 1 / (1 + np.exp(r[:, None, :] - r[:, :, None]))
        gradient = (counts - both * p).sum(2) - PENALTY * r
        weight = both * p * (1 - p)
        hessian = -weight
        diagonal = weight.sum(2) + PENALTY
        hessian[:, np.arange(5), np.arange(5)] += diagonal
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        r = r + step * np.minimum(1.0, 2.0 / np.abs(step).max(1))[:, None]
        if np.abs(step).max() < 1e-10:
            break
    return r


def turns(counts: np.ndarray, leader: int) -> np.ndarray:
    """Whether an item that is still compared with the leader, by a chain, is above it."""
    r = scores_of(counts)
    joined = ((counts + counts.transpose(0, 2, 1)) > 0) | np.eye(5, dtype=bool)
    for _ in range(3):
        joined = (joined.astype(int) @ joined.astype(int)) > 0
    margin = 1e-7  # equal scores do not turn an order
    return np.asarray(((r > r[:, [leader]] + margin) & joined[:, leader]).any(1))


def turned_by(counts: np.ndarray, leader: int, size: int) -> bool:
    """Whether any removal of so many votes, by pair and outcome, turns the leader."""
    cells = [cell for cell in CELLS if counts[cell]]
    chosen = [
        taken
        for taken in combinations_with_replacement(range(len(cells)), size)
        if all(taken.count(i) <= counts[cells[i]] for i in set(taken))
    ]
    for begin in range(0, len(chosen), 20_000):
        part = np.array(chosen[begin : begin + 20_000])
        left = np.repeat(counts[None], len(part), axis=0)
        for column in part.T:
            winner, loser = np.array(cells)[column].T
            left[np.arange(len(part)), winner, loser] -= 1
        if turns(left, leader).any():
            return True
    return False


@pytest.mark.parametrize("seed", range(20))
def test_never_more_than_one_vote_above_the_smallest_set(seed: int) -> None:
    counts = board(seed)
    fit = fit_of(counts)
    found = fit.robustness()
    leader = int(fit.items["item"][0])
    number = int(found.leader.votes or 0)
    assert number >= 1
    removed = found.leader.removed
    assert removed is not None
    assert removed["votes"].sum() == number
    left = counts.copy()
    for first, second, outcome, count in zip(
        removed["first"], removed["second"], removed["outcome"], removed["votes"], strict=True
    ):
        left[(first, second) if outcome == 1 else (second, first)] -= int(count)
    assert turns(left[None], leader).all()  # verified
    for size in range(1, min(number - 1, 6)):  # sets of up to 5 votes; more are too many to try
        assert not turned_by(counts, leader, size), size


def test_influence_is_that_of_refitting() -> None:
    counts = board(3) * 20
    fit = fit_of(counts)
    assert fit.votes is not None
    model = ScoreModel.of(fit, fit.votes)
    weight = fit.votes.weight.astype(np.float64)
    scores = scores_of(_counts(fit.votes, weight)[None])[0]
    assert model.scores(weight, np.zeros(5)) == pytest.approx(scores, abs=1e-7)
    exact, plain, _ = model.effects(scores, weight, 0, 3)
    for row in range(len(weight)):
        small = weight.copy()
        small[row] -= 1e-4
        new = scores_of(_counts(fit.votes, small)[None])[0]
        change = ((new[0] - new[3]) - (scores[0] - scores[3])) / 1e-4
        assert plain[row] == pytest.approx(change, rel=2e-3, abs=1e-7)
        small[row] = weight[row] - 1.0
        gradient, hessian = model.derivatives(scores, small)  # one Newton step without the vote
        step = np.linalg.solve(hessian, gradient)
        assert exact[row] == pytest.approx(step[0] - step[3], rel=1e-6, abs=1e-9)
        rows, one = np.array([row]), np.where(np.arange(len(weight)) == row, 1.0, 0.0)
        _, whole = model.derivatives(scores, weight)
        moved = model.without(scores, one, rows, whole)
        assert moved - scores == pytest.approx(step, rel=1e-6, abs=1e-7)


def _counts(votes: crowdsift.Comparisons, weight: np.ndarray) -> np.ndarray:
    counts = np.zeros((5, 5))
    np.add.at(counts, (votes.first, votes.second), weight * votes.outcome)
    np.add.at(counts, (votes.second, votes.first), weight * (1 - votes.outcome))
    return counts


@pytest.mark.parametrize("method", ["bt", "sift", "bora-map", "crowd-bt"])
def test_every_number_is_verified(method: str) -> None:
    votes = crowdsift.simulate(items=7, workers=9, comparisons=400, seed=6).comparisons()
    fit = crowdsift.fit(votes, method)
    found = fit.robustness(neighbours=True)
    for turned in (found.leader, *found.neighbours):
        assert turned.votes is not None
        assert turned.removed is not None
        keys = {}
        for row in turned.removed.records():
            keys[row["worker"], row["first"], row["second"], row["outcome"]] = row["votes"]
        weight = votes.weight.astype(float)
        workers = votes.workers[votes.worker_codes()]
        for i in range(len(votes)):
            key = (workers[i], votes.items[votes.first[i]], votes.items[votes.second[i]], float(votes.outcome[i]))
            weight[i] -= keys.pop(key, 0.0)
        assert not keys
        left = replace(votes, weight=weight.astype(np.float32)).select(weight > 0)
        start = fit if method == "sift" else None
        score = crowdsift.fit(left, method, start=start).scores_of([turned.above, turned.below])
        assert score[0] < score[1]
        if turned.workers is not None:
            keep = ~np.isin(workers.astype(str), [str(w) for w in turned.workers])
            again = crowdsift.fit(votes.select(keep), method, start=start)
            # The leader's workers may turn it and another challenger.
            best = again.scores_of([turned.above])[0]
            others = [i for i in votes.items if i != turned.above]
            assert again.scores_of(others).max() > best
    assert len(found.neighbours) == 6
    assert found.to_json()["total_votes"] == 400.0
    assert "Without at most" in str(found)


def test_equal_scores_hang_on_nothing() -> None:
    votes = crowdsift.Comparisons.from_arrays(["a", "b"], ["b", "a"])
    assert crowdsift.fit(votes, "bt").robustness().leader.votes == 0.0


def test_a_removal_that_leaves_nothing_is_none() -> None:
    votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["x"])
    found = crowdsift.fit(votes, "bt").robustness()
    assert found.leader.votes is None
    assert found.leader.workers is None
    assert str(found) == "There is one vote only: without it nothing would be left"
    assert found.note
    assert found.refits == 0


def test_without_the_only_worker_nothing_is_left() -> None:
    winners, losers = ["a", "a", "b", "a", "c"], ["b", "b", "c", "c", "a"]
    votes = crowdsift.Comparisons.from_arrays(winners, losers, worker=["x"] * 5)
    found = crowdsift.fit(votes, "bt").robustness(neighbours=True)
    assert found.leader.votes == 2.0
    assert found.leader.workers is None
    assert all(each.workers is None for each in found.neighbours)
    assert "without the only worker nothing would be left" in str(found)
    nothing = crowdsift.fit(votes).robustness()  # where sift has learned nothing
    assert nothing.leader.votes is None
    assert str(nothing).startswith("Nothing was learned from these votes")


def test_what_no_removal_turns() -> None:
    votes = crowdsift.Comparisons.from_arrays(["a"] * 3, ["b"] * 3, worker=["x", "y", "z"])
    found = crowdsift.fit(votes, "bt").robustness()
    assert (found.leader.votes, found.leader.workers, found.note) == (None, None, "")
    assert "No set of votes" in str(found)


def test_a_fit_without_votes_is_refused(tmp_path: object) -> None:
    votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["x"])
    crowdsift.fit(votes, "bt").save(str(tmp_path))
    (Path(str(tmp_path)) / "votes.parquet").unlink()
    with pytest.raises(crowdsift.RequestError, match="does not hold its votes"):
        crowdsift.load(str(tmp_path)).robustness()


def test_the_command_tells_it(tmp_path: object) -> None:
    folder = Path(str(tmp_path))
    crowdsift.simulate(items=5, workers=7, comparisons=300, seed=4).write(folder)
    call = ["fit", str(folder / "votes.csv"), "--method", "bt", "--robustness"]
    run = CliRunner().invoke(app, [*call, "--out", str(folder / "out")])
    assert run.exit_code == 0
    assert "Without at most" in run.stdout
    saved = crowdsift.load(folder / "out").summary["robustness"]
    assert saved["votes"] >= 1
    assert saved["total_workers"] == 7


def test_scores_from_nearby_are_those_of_a_fit_of_what_is_left() -> None:
    votes = crowdsift.simulate(items=9, workers=30, comparisons=1500, seed=2).comparisons()
    fit = crowdsift.fit(votes)
    near = Nearby(fit, None, 1)
    assert near.possible
    for fewer in (12, 9, 10):  # the second and third go on from the first
        weight = votes.weight.copy()
        weight[np.flatnonzero(votes.first == 0)[:fewer]] = 0.0
        left = replace(votes, weight=weight).select(weight > 0.0)
        cold = crowdsift.fit(left)
        row = dict(zip(cold.items["item"], cold.items["score"], strict=True))
        expected = np.array([row[item] for item in votes.items])
        for found in (near.quick(left), near.whole(left)):
            assert found is not None
            scores = found.scores - found.scores.mean()
            assert scores == pytest.approx(expected, abs=3e-3)  # 100 tolerances, and 3 of them
    assert not Nearby(crowdsift.fit(votes, "bt"), None, 1).possible
