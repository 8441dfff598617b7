"""What is collected, and what a collector of garbage need not look at."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# Triton's interpreter runs the kernels of the torch engine on the CPU. Kernels read the variable
# when they are defined.
os.environ.setdefault("TRITON_INTERPRET", "1")
# Modules of optional libraries only where those are installed.
collect_ignore_glob = []
if find_spec("torch") is None or find_spec("triton") is None:
    collect_ignore_glob.append("src/crowdsift/engines/torch/*.py")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
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
    if "triton" in sys.modules:
        _prepare_interpreter_once()
    gc.collect()
    gc.freeze()


def _prepare_interpreter_once() -> None:
    """Replace the functions of Triton's language once, not at every call of a kernel.

    The interpreter spends a third of its time on it, and no test runs compiled kernels.
    """
    from triton.runtime import interpreter

    replace, replaced = interpreter._patch_lang, set()

    class Replaced:
        def restore(self) -> None:
            """Keep the functions for the next call."""

    def once(function: Any) -> Replaced:
        if id(function.__globals__) not in replaced:
            replace(function)
            replaced.add(id(function.__globals__))
        return Replaced()

    interpreter._patch_lang = once


def pytest_unconfigure() -> None:
    """Everything goes at the end, so that what is left then is a leak."""
    gc.unfreeze()
