"""Experiments without what is slow in them, for tests of something else."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from crowdsift.paper.figures import Figure


class Here(ThreadPoolExecutor):
    """A pool of processes that does all in this one: what is stored does not depend on where."""

    def __init__(self, jobs, mp_context=None, initializer=None):
        super().__init__(1)


@pytest.fixture
def in_process(monkeypatch):
    """No processes where a test is of what they leave behind: a start takes longer than fits."""
    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", Here)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as processes do
        yield


@pytest.fixture
def sketched(monkeypatch):
    """Figures that are not drawn."""
    monkeypatch.setattr(Figure, "files", lambda self: {f"{self.name}.png": [b"a sketch"]})
