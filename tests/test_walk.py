"""A reader can follow a fit: it enters few files, and control rarely passes between them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        ((), {"files": 70, "switches": 1_300, "modules": 140}),
        (("--report",), {"files": 95, "switches": 4_000, "modules": 160}),
    ],
)
def test_a_fit_stays_within_its_budget(words, budget):
    done = subprocess.run(
        [sys.executable, "-m", "tools.walk", *words], capture_output=True, text=True, cwd=ROOT, env=PLAIN, check=True
    )
    found = done.stdout.split()
    counts = dict(zip(found[::2], map(int, found[1::2]), strict=True))
    assert counts.keys() == budget.keys()
    assert {name: count for name, count in counts.items() if count > budget[name]} == {}
