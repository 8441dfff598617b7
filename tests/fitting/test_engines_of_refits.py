"""Fits that follow from a fit run on its engine; votes without workers are fitted by bt."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import crowdsift
from crowdsift.fitting import estimate

VOTES = crowdsift.simulate(items=6, workers=8, comparisons=400, seed=3).comparisons()
NEW = {"left": ["i1"], "right": ["i2"], "winner": ["left"], "worker": ["w1"]}
WITHOUT_WORKERS = {"winner": ["a", "b", "a"], "loser": ["b", "c", "c"]}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The name and the options of every engine that is opened."""
    found: list[tuple[str, Any]] = []
    whole = estimate.opened_engine

    @contextlib.contextmanager
    def noted(name: str, votes: Any, threads: Any, needs: str, options: Any) -> Iterator[Any]:
        found.append((name, options))
        with whole(name, votes, threads, needs, options) as engine:
            yield engine

    monkeypatch.setattr(estimate, "opened_engine", noted)
    return found


REFITS: dict[str, Callable[[crowdsift.Fit], Any]] = {
    "robustness": lambda fit: fit.robustness(threads=1),
    "statistics": lambda fit: fit.statistics(halves=1, threads=1),
    "report": lambda fit: fit.report(refit=True, threads=1),
    "update": lambda fit: fit.update(NEW, threads=1),
}


@pytest.mark.parametrize("name", REFITS)
@pytest.mark.parametrize("method", ["sift", "bt"])
def test_fits_that_check_a_fit_run_on_its_engine(opened, method: str, name: str) -> None:
    made = crowdsift.fit(VOTES, method, engine="sharded", memory="4GB", threads=1)
    opened.clear()
    REFITS[name](made)
    assert opened
    assert {engine for engine, _ in opened} == {"sharded"}
    assert all(options["memory"] == "4GB" for _, options in opened)


def test_tuning_runs_on_the_engine_with_its_options(opened) -> None:
    crowdsift.fit(VOTES, "bt", tune=True, engine="sharded", memory="4GB", threads=1)
    assert len(opened) > 5
    assert {(engine, options["memory"]) for engine, options in opened} == {("sharded", "4GB")}


def test_a_loaded_fit_chooses_its_engine(opened, tmp_path) -> None:
    crowdsift.fit(VOTES, "bt", engine="sharded", threads=1).save(tmp_path / "fit")
    opened.clear()
    crowdsift.load(tmp_path / "fit").robustness(threads=1)
    assert {engine for engine, _ in opened} == {"auto"}


def test_votes_without_workers_are_fitted_by_bt_and_the_fit_says_so(tmp_path) -> None:
    found = crowdsift.fit(WITHOUT_WORKERS, workers=False)
    assert found.method == "bt"
    assert any("the votes have no workers" in note for note in found.warnings)
    found.save(tmp_path / "fit")
    assert crowdsift.load(tmp_path / "fit").diagnostics[-1].kind == "method"
    named = crowdsift.fit(WITHOUT_WORKERS, "bt", workers=False)
    assert not any("no workers" in note for note in named.warnings)
    assert crowdsift.fit(VOTES).method == "sift"


def test_a_method_of_workers_is_still_refused_by_name() -> None:
    with pytest.raises(crowdsift.RequestError, match="needs a worker for every vote"):
        crowdsift.fit(WITHOUT_WORKERS, "sift", workers=False)
