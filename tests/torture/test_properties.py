"""Property tests are the same everywhere; failures with fresh examples can be pasted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import crowdsift
from torture.properties import fixed_example, property_tests, run

HERE = Path(__file__).resolve().parents[1]
# What whoever runs these tests adds to pytest is not for the runs within them.
PLAIN = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
BROKEN = """
from hypothesis import given, strategies as st
from strategies import comparisons

@given(st.integers(), st.text())
def test_small(number, text):
    assert number < 70

@given(comparisons())
def test_votes(votes):
    assert votes.n_items < 3

@given(st.data())
def test_data(data):
    assert data.draw(st.integers()) < 70
"""


def test_examples_do_not_depend_on_the_machine_or_on_earlier_runs(monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    assert settings.default.derandomize
    assert settings.default.database is None
    assert settings.default.deadline is None


def test_a_failure_is_printed_as_an_example(tmp_path):
    """Pasted above its test, every line that is printed makes the test fail again."""
    path = tmp_path / "test_broken.py"
    path.write_text(BROKEN)
    shutil.copy(HERE / "conftest.py", tmp_path)
    tests = property_tests(tmp_path)
    assert len(tests) == 3
    printed = {}
    for test in tests:
        with pytest.raises(AssertionError) as failure:
            run(test, 1)
        printed[test.split("::test_")[1]] = str(failure.value)
    kept = BROKEN.replace("import given", "import example, given, reproduce_failure")
    for name in ("small", "votes", "data"):
        after = printed[name].split("paste above ")[1]
        found = re.search(r"^@(example\(.*?^\)|reproduce_failure\([^\n]*)$", after, re.M | re.S)
        assert found
        assert found[0].startswith("@reproduce" if name == "data" else "@example")
        kept = kept.replace(f"def test_{name}", f"{found[0]}\ndef test_{name}")
    # No examples but those pasted.
    path.write_text(
        "from numpy import array, float32, uint32\nfrom strategies import coded_votes\n"
        "from hypothesis import Phase, settings\n"
        "settings.register_profile('kept', phases=[Phase.explicit])\n"
        "settings.load_profile('kept')\n" + kept
    )
    again = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", HERE.parent / "pyproject.toml", str(path)],
        capture_output=True,
        text=True,
        cwd=HERE,
        env=PLAIN,
    )
    assert again.stdout.count("\nFAILED ") == 3, again.stdout


@pytest.mark.parametrize(
    ("output", "example"),
    [
        ("E   Falsifying example: test_a(\nE       x=1,\nE   )", "@example(\n    x=1,\n)"),
        (
            "Falsifying example: test_a(\n    x=<object at 0x1>,\n)\n@reproduce_failure('6', b'A')",
            "@reproduce_failure('6', b'A')",
        ),
        ("AssertionError", "(no example was given: see above)"),
    ],
)
def test_lines_to_paste(output, example):
    assert fixed_example(output) == example


def test_the_package_is_that_of_this_tree():
    """Tests of one tree against the package of another would prove nothing."""
    installed = Path(crowdsift.__file__).resolve()
    assert installed.is_relative_to(HERE.parent / "src") or "site-packages" in installed.parts
