"""Votes as files and tables, shared by the tests of reading."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crowdsift import Comparisons

VOTES = {"winner": ["a", "b", "a", "c"], "loser": ["b", "c", "b", "a"], "worker": ["x", "x", "x", "y"]}
CSV = "winner,loser,worker\na,b,x\nb,c,x\na,b,x\nc,a,y\n"


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def assert_same(one: Comparisons, two: Comparisons) -> None:
    for name in ("first", "second", "outcome", "weight", "offsets"):
        left, right = getattr(one, name), getattr(two, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right, err_msg=name)
    assert one.items.tolist() == two.items.tolist()
    assert one.workers.tolist() == two.workers.tolist()
    assert (one.sides_known, one.has_workers, one.rows) == (two.sides_known, two.has_workers, two.rows)
