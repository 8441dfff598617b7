"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says nothing of what it shows; CI tries the same ones every time.
settings.register_profile("crowdsift", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("crowdsift")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the real data sets; tests that need it are skipped where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CROWDSIFT_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set CROWDSIFT_DATA to their folder")
    return folder
