"""A saved fit answers as the one in memory: it goes on, reports, chooses, decides."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from context_votes import draw_votes
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import comparisons
from tied_votes import CROWDS, drawn, votes_of

import crowdsift
from crowdsift import RequestError
from crowdsift.models import MODELS
from crowdsift.results import store as kept


def rows(seed: int = 1, count: int = 900) -> dict[str, list]:
    drawn = crowdsift.simulate(items=30, workers=12, comparisons=count, seed=seed)
    votes = drawn.comparisons()
    order = np.random.default_rng(0).permutation(len(votes))
    won = votes.outcome > 0.5
    one, two = np.where(won, votes.first, votes.second), np.where(won, votes.second, votes.first)
    repeated = np.repeat(order, votes.weight[order].astype(int))
    return {
        "winner": votes.items[one[repeated]].tolist(),
        "loser": votes.items[two[repeated]].tolist(),
        "worker": votes.workers[votes.worker_codes()[repeated]].tolist(),
    }


def part(votes: dict[str, list], begin: int, end: int) -> dict[str, list]:
    return {name: column[begin:end] for name, column in votes.items()}


@pytest.mark.parametrize("method", ["sift", "bt", "bora-em"])
def test_a_loaded_fit_answers_as_the_one_in_memory(tmp_path, method):
    fit = crowdsift.fit(rows(), method)
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    one, two = fit.labels[:10], fit.labels[10:20]
    np.testing.assert_allclose(back.better(one, two), fit.better(one, two), rtol=1e-9)
    again, before = back.predict(one, two, "w01"), fit.predict(one, two, "w01")
    np.testing.assert_allclose(again, before, rtol=1e-6)
    for name in ("first", "second", "outcome", "weight", "offsets"):
        np.testing.assert_array_equal(getattr(back.votes, name), getattr(fit.votes, name))
    assert back.votes.items.tolist() == fit.votes.items.tolist()
    assert back.report(refit=False).html.count("<svg") == fit.report(refit=False).html.count("<svg")
    back.save(tmp_path / "again")
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def predictions(fit) -> dict[str, np.ndarray]:
    """Everything that a fit predicts: of each worker, of the crowd, of somebody unknown."""
    labels, workers = fit.labels, fit.worker_table["worker"].tolist()
    pairs = [(a, b) for a in labels[:6] for b in labels[-6:]]
    found = {}
    for worker in (None, "nobody", *workers[:6]):
        one, two = map(list, zip(*pairs, strict=True))
        for name in ("predict", "predict_outcomes"):
            result = getattr(fit, name)(one, two, worker, unknown="prior")
            columns = result.items() if name == "predict_outcomes" else [("", result)]
            found |= {f"{name} {column} by {worker}": values for column, values in columns}
    return found


def assert_predicts_the_same(fit, folder):
    fit.save(folder)
    back = crowdsift.load(folder)
    expected, found = predictions(fit), predictions(back)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-9, err_msg=name)


@given(votes=comparisons(), method=st.sampled_from(sorted(set(MODELS) - {"barp"})))
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore::crowdsift.SignWarning", "ignore::crowdsift.ConvergenceWarning")
def test_loaded_fits_of_random_votes_predict_the_same(tmp_path_factory, votes, method):
    model = crowdsift.model(method).relax(votes)[0]
    assert_predicts_the_same(crowdsift.fit(votes, model), tmp_path_factory.mktemp("fit"))


@pytest.mark.parametrize("method", sorted(set(MODELS) - {"barp"}))
@pytest.mark.parametrize("crowd", CROWDS)
def test_loaded_fits_with_ties_and_sides_predict_the_same(tmp_path, crowd, method):
    votes = votes_of(*drawn(3, **CROWDS[crowd])[:4])
    assert_predicts_the_same(crowdsift.fit(votes, method), tmp_path)


@pytest.mark.parametrize("spread", [0.0, 0.6])
def test_loaded_fits_by_context_predict_the_same(tmp_path, spread):
    fit = crowdsift.fit(draw_votes(spread, spread, 1))
    assert (fit.posterior.in_context is not None) == bool(spread)
    assert_predicts_the_same(fit, tmp_path)


def test_votes_in_contexts_come_back(tmp_path):
    votes = {**rows(count=300)}
    votes["topic"] = [["b", 10, 9, "a"][i % 4] for i in range(len(votes["winner"]))]
    fit = crowdsift.fit(votes, by="topic")
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.votes.items.tolist() == fit.votes.items.tolist()
    np.testing.assert_array_equal(back.votes.first, fit.votes.first)
    np.testing.assert_array_equal(back.votes.item_contexts, fit.votes.item_contexts)


def test_votes_without_workers_come_back(tmp_path):
    fit = crowdsift.fit(rows(), "bt", workers=False)
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert not back.votes.has_workers
    later = back.update(part(rows(seed=2), 0, 50))
    assert later.summary["votes"] == fit.summary["votes"] + 50


@pytest.mark.parametrize("method", ["sift", "bt"])
def test_two_updates_are_one_fit_of_everything(tmp_path, method):
    votes = rows(count=3000)
    whole = crowdsift.fit(votes, method)
    crowdsift.fit(part(votes, 0, 2000), method).save(tmp_path)
    for begin in (2000, 2500):
        crowdsift.load(tmp_path).update(part(votes, begin, begin + 500)).save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.summary["votes"] == whole.summary["votes"] == 3000
    np.testing.assert_allclose(back.scores_of(whole.labels), whole.item_table["score"], atol=1e-3)


def test_votes_that_come_again_are_noticed(tmp_path):
    votes = rows(count=3000)
    crowdsift.fit(part(votes, 0, 2000)).save(tmp_path)
    new = part(votes, 2000, 2500)
    with pytest.raises(RequestError, match=r"2,000 votes were taken already"):
        crowdsift.load(tmp_path).update(part(votes, 0, 2000))
    crowdsift.load(tmp_path).update(new).save(tmp_path)
    with pytest.raises(RequestError, match="500 votes were taken already"):
        crowdsift.load(tmp_path).update(new)
    with pytest.raises(RequestError, match=r"rows are equal to earlier rows"):
        crowdsift.load(tmp_path).update(votes)
    twice = crowdsift.load(tmp_path).update(new, again=True)
    assert twice.summary["votes"] == 3000


@pytest.mark.parametrize("later", [200, 2_000])
def test_new_votes_of_few_judges_are_not_taken_for_old_ones(later):
    def votes(count: int, seed: int) -> dict[str, list[str]]:
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 5, count)
        second = (first + rng.integers(1, 5, count)) % 5
        better = rng.random(count) < 1 / (1 + np.exp((second - first) / 2))
        return {
            "winner": [f"m{i}" for i in np.where(better, first, second)],
            "loser": [f"m{i}" for i in np.where(better, second, first)],
            "worker": [f"judge{i}" for i in rng.integers(0, 2, count)],
        }

    fit = crowdsift.fit(votes(2_000, 1))
    assert fit.update(votes(later, 2)).summary["votes"] == 2_000 + later
    with pytest.raises(RequestError, match="were taken already"):
        fit.update(votes(2_000, 1))


def test_a_start_that_lacks_most_votes_is_refused_with_the_figures(tmp_path):
    votes = rows(count=3000)
    crowdsift.fit(votes).save(tmp_path)
    with pytest.raises(RequestError, match=r"made of 3,000 votes.*missing: here are 500"):
        crowdsift.fit(part(votes, 0, 500), start=tmp_path)


def test_many_votes_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "MOST_VOTES", 100)
    crowdsift.fit(rows()).save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.votes is None
    with pytest.raises(RequestError, match="were not kept"):
        back.update(part(rows(seed=2), 0, 50))


# --- decisions -----------------------------------------------------------------------------------


def test_decisions_block_nobody_who_is_undecided(tmp_path):
    votes = rows(count=2000)
    n = len(votes["winner"])
    rng = np.random.default_rng(3)
    for worker, share in (("coin", 0.5), ("against", 1.0)):
        for i in range(0, n, 8):
            one, two = votes["winner"][i], votes["loser"][i]
            one, two = (two, one) if rng.random() < share else (one, two)
            for name, value in zip(votes, (one, two, worker), strict=True):
                votes[name].append(value)
    for name, value in zip(votes, ("i1", "i2", "new"), strict=True):
        votes[name].append(value)
    fit = crowdsift.fit(votes)
    result = {row["worker"]: row for row in fit.with_seconds({"coin": 1.5}).decisions().records()}
    assert result["new"]["verdict"] == "undecided"
    assert result["new"]["suggestion"] == "pay"
    assert result["against"]["verdict"] == "adversarial"
    assert result["against"]["suggestion"] == "block"
    assert result["coin"]["suggestion"] in ("review", "block")
    assert result["coin"]["median_seconds"] == 1.5
    useful = [row for row in result.values() if row["verdict"] in ("reliable", "weak")]
    assert len(useful) > 5
    assert {row["suggestion"] for row in useful} == {"pay"}
    assert all(row["reason"] for row in result.values())
    fit.save(tmp_path)
    text = (tmp_path / "decisions.csv").read_text()
    assert text.startswith("worker,verdict,reason,votes,median_seconds,suggestion\n")
    header = (tmp_path / "workers.csv").read_text().splitlines()[0].split(",")
    assert header[header.index("verdict") + 1] == "reason"
    assert list(crowdsift.load(tmp_path).worker_table) == list(fit.worker_table)


def test_a_method_that_judges_nobody_writes_no_decisions(tmp_path):
    crowdsift.fit(rows(), "bt").save(tmp_path)
    assert "decisions.csv" not in json.loads((tmp_path / "summary.json").read_text())["files"]
    assert not (tmp_path / "decisions.csv").exists()


# --- tables --------------------------------------------------------------------------------------


def test_tables_print_as_tables():
    lines = repr(crowdsift.fit(rows(), "bt").item_table).splitlines()
    assert lines[0].split()[:3] == ["item", "score", "lower"]
    assert len(lines) == 12
    assert lines[-1] == "... 30 rows"
    assert len({len(line) for line in lines[1:-1]}) <= 2


def test_fits_become_frames():
    fit = crowdsift.fit(rows(), "bt")
    for frames, kind in ((fit.to_pandas(), pd.DataFrame), (fit.to_polars(), pl.DataFrame), (fit.to_arrow(), pa.Table)):
        assert isinstance(frames.items, kind)
        assert isinstance(frames.workers, kind)
    assert fit.to_pandas().items["item"].tolist() == fit.labels


def test_votes_whose_sums_exceed_a_row_are_kept(tmp_path):
    votes = {"winner": list("aabc"), "loser": list("bbca"), "worker": list("wwxx")}
    fit = crowdsift.fit({**votes, "weight": [6e8, 6e8, 5.0, 3.0]}, "bora-map")
    fit.save(tmp_path / "fit")
    loaded = crowdsift.load(tmp_path / "fit")
    np.testing.assert_array_equal(loaded.votes.weight, fit.votes.weight)
    more = loaded.update({"winner": ["a"], "loser": ["c"], "worker": ["x"]})
    assert more.summary["votes"] == fit.summary["votes"] + 1
