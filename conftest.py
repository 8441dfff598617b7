"""What is collected, and what a collector of garbage need not look at."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

# Without a GPU Triton's kernels run in its interpreter; it asks when they are defined.
os.environ.setdefault("TRITON_INTERPRET", "1")
# Modules of optional libraries only where those are installed.
collect_ignore_glob = []
if find_spec("torch") is None:
    collect_ignore_glob.append("src/crowdsift/engines/torch/[!_]*.py")
if find_spec("triton") is None:
    collect_ignore_glob.append("src/crowdsift/engines/torch/triton_*.py")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Without an example a file is no doctest: four of five need not be imported as one."""
    found = yield
    if not found or ">>>" in file_path.read_text(encoding="utf-8"):
        return found
    return [each for each in found if type(each).__name__ != "DoctestModule"]


def pytest_collection_finish() -> None:
    """Thousands of tests and their libraries stay to the end: collections leave them out.

    With them a collection takes .4 s, and some tests ask for many. What a test leaves is found.
    Hypothesis takes hold of random generators at its first example, and asks the collector who else
    holds them: that has to be before.
    """
    from hypothesis import given, strategies

    given(strategies.none())(lambda _: None)()
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Everything goes at the end, so that what is left then is a leak."""
    gc.unfreeze()
