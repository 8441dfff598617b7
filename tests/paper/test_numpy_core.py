"""Benchmarks on a machine without the compiled core: NumPy gives the same arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import numpy_core

from crowdsift import _core

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
def test_collapse_in_numpy_is_that_of_the_core(seed: int, oriented: bool, left_out: tuple[str, ...]) -> None:
    votes = {**drawn(seed), **dict.fromkeys(left_out)}
    workers = 7 if votes["worker"] is not None else 1  # the last has no votes
    ours, theirs = (
        collapse(*votes.values(), 9, workers, oriented, THREADS) for collapse in (numpy_core.collapse, _core.collapse)
    )
    for one, two in zip(ours, theirs, strict=True):
        assert one.dtype == two.dtype
        assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("seed", range(20))
def test_what_is_counted_in_numpy_is_what_the_core_counts(seed: int) -> None:
    votes = drawn(seed)
    one, two, outcome, weight, _, _, offsets = _core.collapse(*votes.values(), 9, 6, False, THREADS)
    for ours, theirs in zip(
        numpy_core.pool_pairs(one, two, outcome, weight, 9), _core.pool_pairs(one, two, outcome, weight, 9), strict=True
    ):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    rank = np.random.default_rng(seed).permutation(9).astype(np.uint32) // 2
    for ours, theirs in zip(
        numpy_core.tally(one, two, outcome, weight, offsets, rank, THREADS),
        _core.tally(one, two, outcome, weight, offsets, rank, THREADS),
        strict=True,
    ):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    few = np.arange(6) * (len(one) // 6)  # else every item has votes of several workers
    ends = np.searchsorted(few, offsets)
    ours = numpy_core.judged_by_one(one[few], two[few], ends, 9)
    assert ours.any()
    assert (ours == _core.judged_by_one(one[few], two[few], ends, 9)).all()
    sparse = slice(0, 6)
    ours = numpy_core.components(one[sparse], two[sparse], 9)
    assert (ours == _core.components(one[sparse], two[sparse], 9)).all()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("first", 9),
        ("second", 77),
        ("worker", 6),
        ("outcome", 1.5),
        ("outcome", np.nan),
        ("weight", -1),
        ("weight", np.inf),
        ("weight", 2e9),
    ],
)
def test_faults_found_in_numpy_are_those_of_the_core(column: str, value: float) -> None:
    for row in (0, 17, 399):
        votes = drawn(row)
        votes.pop("context")
        votes[column][row] = value
        if row == 17:
            votes["second"][300] = votes["first"][300]
        ours = numpy_core.find_fault(*votes.values(), 9, 6)
        assert ours == _core.find_fault(*votes.values(), 9, 6)
        assert ours[1] == row


def test_an_item_compared_with_itself_is_found() -> None:
    votes = drawn(3)
    votes.pop("context")
    votes["second"][5] = votes["first"][5]
    assert numpy_core.find_fault(*votes.values(), 9, 6) == (3, 5)


def test_components_of_a_path_its_worst_case() -> None:
    path = np.random.default_rng(1).permutation(400)
    assert not numpy_core.components(path[1:], path[:-1], 400).any()


PROGRAM = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names} or name == "crowdsift._core":
            raise ImportError(name)

sys.meta_path.insert(0, Hidden())
from benchmarks.gpu_bench import Bench, large
from crowdsift.models import model
bench = Bench("cpu", 100.0)
votes = large(bench, 300)
for method in ("bt", "bora-map"):
    print(method, len(bench.fit(model(method), votes)[1].scores))
print(sys.modules["crowdsift._core"].__name__)
"""


def test_benchmarks_of_a_gpu_need_pytorch_and_numpy_alone() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    names = {"duckdb", "narwhals", "typer", "rich", "jinja2", "threadpoolctl", "pandas", "pyarrow"}
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join(map(str, (root / "src", root)))
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM.replace("{names}", repr(names))],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"PYTHONPATH": paths, "PATH": "", "TRITON_INTERPRET": "1"},
    )
    assert run.stdout.split() == ["bt", "50", "bora-map", "50", "benchmarks.numpy_core"], run.stderr
