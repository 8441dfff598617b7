"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

import crowdsift
from crowdsift import Comparisons, cli
from crowdsift.engines import ENGINES
from crowdsift.lab.demonstration import crowd_with_spammers
from crowdsift.report.facts import Facts, gather

# The same examples wherever and whenever the tests run: none from a clock, a machine or what an
# earlier run left. How long an example takes says nothing of what it shows.
settings.register_profile("crowdsift", deadline=None, derandomize=True, database=None, max_examples=50)
# Fresh examples, for `make torture`: four times as many, and failures are printed to be kept.
settings.register_profile("fresh", deadline=None, derandomize=False, database=None, max_examples=200, print_blob=True)
settings.load_profile("crowdsift")
# The specification is no choice of users; tests hold every engine against it by this name.
ENGINES["reference"] = "reference_engine"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the real data sets; tests that need it are skipped where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CROWDSIFT_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set CROWDSIFT_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def crowd() -> Comparisons:
    """The crowd with spammers of the demonstration."""
    return crowd_with_spammers().comparisons()


@pytest.fixture(scope="session")
def facts(crowd: Comparisons) -> Facts:
    """What a report tells of that crowd."""
    return gather(crowdsift.fit(crowd), threads=1)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process: exit status, output, errors."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["crowdsift", *map(str, arguments)])
        try:
            cli.main()
            status = 0
        except SystemExit as stop:
            status = stop.code or 0
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call
