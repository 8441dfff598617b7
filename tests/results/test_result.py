"""The record of a fit: tables, prediction, saving and loading."""

from __future__ import annotations

import csv
import io
import json
import os
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crowdsift
from crowdsift import Comparisons, InputError, RequestError
from crowdsift.io.files import replace_file, write_folder
from crowdsift.results.tables import Table


@pytest.fixture
def fit():
    drawn = crowdsift.simulate(items=8, workers=5, comparisons=300, seed=2)
    return crowdsift.fit(drawn.comparisons(), "bora-em")


def test_saved_fit_comes_back(fit, tmp_path):
    fit.save(tmp_path / "deep" / "folder")
    back = crowdsift.load(tmp_path / "deep" / "folder")
    assert back.summary == fit.summary
    assert back.parameters == fit.parameters
    assert back.trace == fit.trace
    assert back.item_table.to_csv() == fit.item_table.to_csv()
    assert back.worker_table.to_csv() == fit.worker_table.to_csv()
    assert back.predict("i0", "i1", "w2") == fit.predict("i0", "i1", "w2")


def test_labels_of_any_type_come_back(tmp_path):
    labels = [7, "7", "007", 'a "b",\nc', "a\rb", "Ünïcødé ☃", " padded ", date(2026, 1, 2), 2.5]
    workers = [1, "1", 2, 3, 4, 5, 6, 7, 8]
    votes = Comparisons.from_arrays(labels, labels[1:] + labels[:1], worker=workers)
    fit = crowdsift.fit(votes, "bora-em")
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.items["item"].tolist() == fit.items["item"].tolist()
    assert set(back.items["item"]) == set(labels)
    assert back.workers["worker"].tolist() == fit.workers["worker"].tolist()


def test_predict(fit):
    reliability = dict(zip(fit.workers["worker"], fit.workers["reliability"], strict=True))
    score = dict(zip(fit.items["item"], fit.items["score"], strict=True))
    d = score["i3"] - score["i5"]

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    assert fit.predict("i3", "i5", "w1") == pytest.approx(sigmoid(reliability["w1"] * d))
    crowd = np.mean([sigmoid(beta * d) for beta in reliability.values()])
    assert fit.predict("i3", "i5") == pytest.approx(crowd)
    assert fit.predict("i3", "i5", "nobody", unknown="prior") == pytest.approx(crowd)
    assert fit.predict("i3", "i5", "w1") + fit.predict("i5", "i3", "w1") == pytest.approx(1.0)
    assert fit.predict("new", "newer", "w1", unknown="prior") == 0.5
    with pytest.raises(RequestError, match=r"the items 'new', 'newer' have no votes .*'prior'"):
        fit.predict(["i3", "new"], ["newer", "i3"], "w1")
    with pytest.raises(RequestError, match="the worker 'nobody' has no votes in this fit"):
        fit.predict_outcomes("i3", "i5", ["nobody", "w1"])
    with pytest.raises(RequestError, match="unknown must be 'error' or 'prior', not 'guess'"):
        fit.predict("i3", "i5", unknown="guess")
    many = fit.predict(["i3", "i5"], ["i5", "i3"], ["w1", "w1"])
    assert many.sum() == pytest.approx(1.0)
    assert fit.predict(["i3", "i5"], "i5").tolist() == [fit.predict("i3", "i5"), 0.5]
    series = pd.Series(["i3", "i5"])
    assert fit.predict(series, ["i5", "i3"], "w1").sum() == pytest.approx(1.0)
    with pytest.raises(RequestError, match="3 first items, 2 second ones and 1 workers do not fit"):
        fit.predict(["i3", "i5", "i4"], ["i5", "i3"])


def test_numbers_and_texts_are_told_apart():
    votes = Comparisons.from_arrays([7, 7, "7"], [1, "7", 1], worker=["w"] * 3)
    fit = crowdsift.fit(votes, "bt")
    assert fit.predict(7, 1) > fit.predict("7", 1) > 0.5
    assert fit.predict(7.0, 1) == fit.predict(7, 1)


@pytest.mark.parametrize(
    ("make", "kind"), [(pd.DataFrame, pd.DataFrame), (pl.DataFrame, pl.DataFrame), (pa.table, pa.Table)]
)
def test_frames_come_back_as_they_came(make, kind):
    frame = make({"winner": ["a", "b"], "loser": ["b", "c"], "worker": [1, 2]})
    fit = crowdsift.fit(frame, "bt")
    assert isinstance(fit.items, kind)
    assert isinstance(fit.workers, kind)
    assert crowdsift.fit(frame, "bora-em").item_table["item"].tolist() == ["a", "b", "c"]


def test_json_has_no_nan(fit):
    votes = Comparisons.from_arrays(["a"], ["b"], outcome=[0.5], worker=["w"])
    text = json.dumps(crowdsift.fit(votes, "bt").to_json(), allow_nan=False)
    worker = json.loads(text)["workers"][0]
    assert worker["reliability"] is None
    assert worker["agreement"] is None


def test_result_is_frozen(fit):
    with pytest.raises(AttributeError):
        fit.summary = {}
    with pytest.raises(ValueError, match="read-only"):
        fit.items["score"][0] = 3.0


def test_loading_what_is_no_fit(tmp_path, fit):
    with pytest.raises(InputError, match=r"no summary\.json here"):
        crowdsift.load(tmp_path)
    fit.save(tmp_path)
    (tmp_path / "workers.csv").unlink()
    with pytest.raises(InputError, match="incomplete"):
        crowdsift.load(tmp_path)
    record = json.loads((tmp_path / "summary.json").read_text())
    record["format"] = 99
    (tmp_path / "summary.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="format 99"):
        crowdsift.load(tmp_path)
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(InputError, match="not a saved fit"):
        crowdsift.load(tmp_path)


def test_interrupted_writing_leaves_the_old_files(tmp_path):
    (tmp_path / "a.txt").write_text("old")

    def broken():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path, {"a.txt": "new", "b.txt": broken()})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a.txt": "old"}
    with pytest.raises(KeyboardInterrupt):
        write_folder(tmp_path / "x" / "y", {"b.txt": broken()})
    assert not (tmp_path / "x").exists()


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(RequestError, match="cannot write to"):
        write_folder(tmp_path / "file" / "folder", {"a.txt": "x"})
    with pytest.raises(RequestError, match="cannot be written"), replace_file(tmp_path / "missing" / "a.txt"):
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_better_against_samples_of_the_posterior():
    drawn = crowdsift.simulate(items=12, workers=8, comparisons=200, seed=5)
    fit = crowdsift.fit(drawn.comparisons(), "sift")
    posterior = fit.posterior
    rng = np.random.default_rng(0)
    mean = fit.scores_of(posterior.items)
    samples = rng.multivariate_normal(mean, posterior.covariance, size=40_000, method="eigh")
    one, two = posterior.items[[0, 3, 7]], posterior.items[[5, 4, 2]]
    chance = fit.better(list(one), list(two))
    share = np.mean(samples[:, [0, 3, 7]] > samples[:, [5, 4, 2]], axis=0)
    np.testing.assert_allclose(chance, share, atol=0.012)
    assert fit.better(one[0], two[0]) + fit.better(two[0], one[0]) == pytest.approx(1.0)


def test_better_after_loading_is_the_same(tmp_path):
    drawn = crowdsift.simulate(items=30, workers=8, comparisons=900, seed=5)
    fit = crowdsift.fit(drawn.comparisons(), "sift")
    fit.save(tmp_path)
    back = crowdsift.load(tmp_path)
    assert back.parameters == fit.parameters
    best, other = fit.items["item"][[0, 8]]
    assert back.better(best, other) == pytest.approx(fit.better(best, other), rel=1e-9)


def test_better_refuses_what_cannot_be_compared():
    votes = Comparisons.from_arrays(["a", "c"], ["b", "d"], worker=["w", "w"])
    fit = crowdsift.fit(votes, "sift")
    with pytest.raises(RequestError, match="component 1 and 'c' in component 2"):
        fit.better("a", "c")
    with pytest.raises(RequestError, match="'z' is not among the items"):
        fit.better("a", "z")
    with pytest.raises(RequestError, match="as many"):
        fit.better(["a", "b"], ["b", "a", "b"])
    with pytest.raises(RequestError, match="no intervals"):
        crowdsift.fit(votes, "rank-centrality").better("a", "b")


def test_rank_intervals_hold_the_rank_and_shrink():
    few, many = (crowdsift.fit(crowdsift.simulate(20, 30, n, seed=3).comparisons(), "sift") for n in (400, 20_000))
    for fit in (few, many):
        assert (fit.items["rank_lower"] <= fit.items["rank"]).all()
        assert (fit.items["rank_upper"] >= fit.items["rank"]).all()
    width = [np.mean(fit.items["rank_upper"] - fit.items["rank_lower"]) for fit in (few, many)]
    assert width[1] < 0.4 * width[0]


def test_prediction_averages_over_the_posterior():
    drawn = crowdsift.simulate(items=10, workers=6, comparisons=300, seed=4)
    fit = crowdsift.fit(drawn.comparisons(), "sift")
    d = np.subtract(*fit.scores_of(["i1", "i2"]))
    beta = fit.posterior.quantiles[3]
    assert fit.predict("i1", "i2", "w3") == pytest.approx(np.mean(1 / (1 + np.exp(-beta * d))))


def test_csv_is_what_its_reader_reads():
    """Numbers as Python writes them, nothing for what is missing, text quoted where it must be."""
    table = Table(
        {
            "text": np.array(["a", "b, c", 'say "x"', "two\nlines", None, "\r"], object),
            "number": np.array([1.5, np.nan, np.inf, -0.0, 1e-300, 0.1]),
            "count": np.arange(6),
            "flag": np.arange(6) > 2,
        }
    )
    head, *rows = csv.reader(io.StringIO(table.to_csv(), newline=""))
    assert head == ["text", "number", "count", "flag"]
    for name, found in zip(head, zip(*rows, strict=True), strict=True):
        given = table[name].tolist()
        assert list(found) == ["" if v is None or v != v else str(v) for v in given]
