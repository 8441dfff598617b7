"""Votes without the compiled core: NumPy gives the same arrays, and nothing else needs it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from crowdsift import _core
from crowdsift.votes import numpy_kernels

THREADS = 2


def drawn(seed: int, rows: int = 400) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    first = random.integers(0, 9, rows).astype(np.uint32)
    second = ((first + random.integers(1, 9, rows)) % 9).astype(np.uint32)
    return {
        "first": first,
        "second": second,
        "worker": random.integers(0, 6, rows).astype(np.uint32),
        "outcome": random.choice([0, -0.0, 0.25, 0.5, 1], rows).astype(np.float32),
        "weight": random.choice([0, 1, 1, 0.1, 3e8], rows).astype(np.float32),
        "context": random.integers(0, 3, rows).astype(np.uint32),
    }


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("oriented", [True, False])
@pytest.mark.parametrize("left_out", [(), ("context",), ("worker", "outcome", "weight")])
def test_collapse_in_numpy_is_that_of_the_core(
    seed: int, oriented: bool, left_out: tuple[str, ...]
) -> None:
    votes = {**drawn(seed), **dict.fromkeys(left_out)}
    workers = 7 if votes["worker"] is not None else 1  # the last has no votes
    ours, theirs = (
        collapse(*votes.values(), 9, workers, oriented, THREADS)
        for collapse in (numpy_kernels.collapse, _core.collapse)
    )
    for one, two in zip(ours, theirs, strict=True):
        assert one.dtype == two.dtype
        assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("seed", range(20))
def test_what_is_counted_in_numpy_is_what_the_core_counts(seed: int) -> None:
    votes = drawn(seed)
    one, two, outcome, weight, _, _, offsets = _core.collapse(*votes.values(), 9, 6, False, THREADS)
    for ours, theirs in zip(
        numpy_kernels.pool_pairs(one, two, outcome, weight, 9),
        _core.pool_pairs(one, two, outcome, weight, 9),
        strict=True,
    ):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    rank = np.random.default_rng(seed).permutation(9).astype(np.uint32) // 2
    for ours, theirs in zip(
        numpy_kernels.tally(one, two, outcome, weight, offsets, rank, THREADS),
        _core.tally(one, two, outcome, weight, offsets, rank, THREADS),
        strict=True,
    ):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    few = np.arange(6) * (len(one) // 6)  # else every item has votes of several workers
    ends = np.searchsorted(few, offsets)
    ours = numpy_kernels.judged_by_one(one[few], two[few], ends, 9)
    assert ours.any()
    assert (ours == _core.judged_by_one(one[few], two[few], ends, 9)).all()
    sparse = slice(0, 6)
    ours = numpy_kernels.components(one[sparse], two[sparse], 9)
    assert (ours == _core.components(one[sparse], two[sparse], 9)).all()


@pytest.mark.parametrize(
    ("column", "value"),
    [("first", 9), ("second", 77), ("worker", 6), ("outcome", 1.5), ("outcome", np.nan),
     ("weight", -1), ("weight", np.inf), ("weight", 2e9)],
)  # fmt: skip
def test_faults_found_in_numpy_are_those_of_the_core(column: str, value: float) -> None:
    for row in (0, 17, 399):
        votes = drawn(row)
        votes.pop("context")
        votes[column][row] = value
        if row == 17:
            votes["second"][300] = votes["first"][300]
        ours = numpy_kernels.find_fault(*votes.values(), 9, 6)
        assert ours == _core.find_fault(*votes.values(), 9, 6)
        assert ours[1] == row


def test_an_item_compared_with_itself_is_found() -> None:
    votes = drawn(3)
    votes.pop("context")
    votes["second"][5] = votes["first"][5]
    assert numpy_kernels.find_fault(*votes.values(), 9, 6) == (3, 5)


def test_votes_are_read_without_the_compiled_core(tmp_path: Any) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner,worker\na,b,left,x\nb,c,tie,y\na,c,right,x\na,b,left,x\n")
    program = f"""
import sys
sys.modules["crowdsift._core"] = None  # importing it now fails
import numpy as np
import crowdsift
from crowdsift.votes.kernels import COMPILED
from crowdsift.votes.graph import components
from crowdsift.votes.tally import tally
assert not COMPILED
votes = crowdsift.read({str(path)!r})
print(votes)
print(votes.weight.tolist(), votes.offsets.tolist(), components(votes).tolist())
print(tally(votes, np.array([1, 2, 3])).appearances.tolist(), len(votes.pooled()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Comparisons(4 votes in 3 distinct rows, 3 items, 2 workers, sides known)",
        "[2.0, 1.0, 1.0] [0, 2, 3] [0, 0, 0]",
        "[3.0, 3.0, 2.0] 3",
    ]
