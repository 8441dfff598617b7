"""Copied and repeated answers: chances against plain counting, planted cases, false alarms."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import crowdsift
from crowdsift.results.copying import _between, _Cells, _within


def crowd(seed: int, copiers: int = 0, repeats: int = 1) -> crowdsift.Fit:
    """Twelve workers on ten items; the first ones copy worker 0, the last one repeats itself."""
    rng = np.random.default_rng(seed)
    score, slope = rng.normal(size=10), rng.uniform(0.5, 2.0, 12)
    answers: dict[tuple[int, int], bool] = {}
    repeated: dict[tuple[int, int], bool] = {}
    rows = []
    for worker in range(12):
        for _ in range(120 * (repeats if worker == 11 else 1)):
            a, b = sorted(rng.choice(10, 2, replace=False).tolist())
            first = bool(rng.random() < 1 / (1 + np.exp(-slope[worker] * (score[a] - score[b]))))
            if 0 < worker <= copiers:
                first = answers.get((a, b), first)
            if worker == 0:
                answers[a, b] = first
            if worker == 11 and repeats > 1:
                first = repeated.setdefault((a, b), first)
            rows.append((a if first else b, b if first else a, f"w{worker:02d}"))
    first_, second_, who = zip(*rows, strict=True)
    votes = crowdsift.Comparisons.from_arrays(first_, second_, worker=who)
    return crowdsift.fit(votes, "bora-map", threads=1)


def test_chances_are_those_of_all_outcomes() -> None:
    p, q = 0.8, 0.35
    cells = _Cells(np.zeros(2, np.int64), np.arange(2), np.array([3.0, 2.0]), np.array([2.0, 1.0]),
                   np.array([p, q]))  # fmt: skip
    between, within = [], []
    for votes in product((0, 1), repeat=5):
        chance = np.prod([p if v else 1 - p for v in votes[:3]])
        chance *= np.prod([q if v else 1 - q for v in votes[3:]])
        between.append((chance, sum(a == b for a in votes[:3] for b in votes[3:])))
        within.append((chance, sum(a == b for a, b in combinations(votes[:3], 2))))
    for sums, exact, size in ((_between(cells), between, 6.0), (_within(cells), within, 3.0)):
        chance, count = np.array(exact).T
        mean = chance @ count
        assert sums[2][0] == size
        assert sums[4][0] == pytest.approx(mean)
        assert sums[5][0] == pytest.approx(chance @ (count - mean) ** 2)
    assert _between(cells)[3][0] == 3.0  # of 2 and 1, 1 and 1: 2·1 + 1·1 agree
    assert _within(cells)[3][0] == 1.0


@pytest.mark.parametrize("seed", range(6))
def test_copies_are_noticed(seed: int) -> None:
    found = crowd(seed, copiers=2).copying()
    assert found.groups
    assert set(found.groups[0]) <= {"w00", "w01", "w02"}
    assert (found.pairs["agreement"] > found.pairs["expected"]).all()


@pytest.mark.parametrize("seed", range(6))
def test_a_judge_that_repeats_itself_is_noticed(seed: int) -> None:
    found = crowd(seed, repeats=4).copying()
    assert found.repeats["worker"].tolist() == ["w11"]
    assert found.groups == ()


@pytest.mark.parametrize("seed", range(10))
def test_independent_workers_are_not_named(seed: int) -> None:
    found = crowd(seed).copying()
    assert found.groups == ()
    assert found.repeats.height == 0


def test_what_cannot_be_compared_is_refused() -> None:
    board = crowdsift.Comparisons.from_arrays(["a"], ["b"])
    with pytest.raises(crowdsift.RequestError, match="no workers"):
        crowdsift.fit(board, "bt").copying()
    fit = crowdsift.fit(crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["x"]), "bt")
    with pytest.raises(crowdsift.RequestError, match="estimates no reliabilities"):
        fit.copying()
