"""Every table of a fit has the frame type of the votes that went in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdsift

DRAWN = crowdsift.simulate(items=8, workers=12, comparisons=900, seed=4)


def rows() -> dict[str, list[Any]]:
    votes = DRAWN.comparisons()
    won = votes.outcome > 0.5
    first, second = votes.items[votes.first], votes.items[votes.second]
    return {
        "winner": np.where(won, first, second).tolist(),
        "loser": np.where(won, second, first).tolist(),
        "worker": votes.workers[votes.worker_codes()].tolist(),
    }


def made(backend: str) -> tuple[Any, type]:
    if backend == "datasets":
        datasets = pytest.importorskip("datasets")
        return datasets.Dataset.from_dict(rows()), datasets.Dataset
    if backend == "pyarrow":
        pyarrow = pytest.importorskip("pyarrow")
        return pyarrow.table(rows()), pyarrow.Table
    library = pytest.importorskip(backend)
    return library.DataFrame(rows()), library.DataFrame


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", "datasets"])
def test_tables_are_frames_of_the_library_that_went_in(backend: str) -> None:
    votes, kind = made(backend)
    features = {"item": DRAWN.items, "x": DRAWN.scores}
    fit = crowdsift.fit(votes, items=features)
    best, worst = fit.labels[0], fit.labels[-1]
    statistics = fit.statistics()
    tables = {
        "items": fit.items,
        "workers": fit.workers,
        "decisions": fit.decisions(),
        "joint": fit.joint(),
        "difference": fit.difference(best, worst),
        "outcomes": fit.predict_outcomes(best, worst),
        "weights": fit.feature_weights(),
        "score": fit.score({"item": ["new"], "x": [1.0]}),
        "win_matrix": fit.win_matrix(),
        "statistics of items": statistics.items,
        "statistics of workers": statistics.workers,
        "next_pairs": crowdsift.next_pairs(votes, 3),
        "second_opinions": crowdsift.second_opinions(votes, 2),
    }
    assert {name: type(table) for name, table in tables.items()} == dict.fromkeys(tables, kind)
    assert statistics.misfitting == crowdsift.fit(rows(), items=features).statistics().misfitting
    names = getattr(fit.workers, "column_names", None) or list(fit.workers.columns)
    assert "reason" in names
    assert fit.with_statistics().summary["statistics"] == statistics.to_json()


def test_coefficients_and_updates_are_frames_too(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    length = np.random.default_rng(0).normal(size=len(rows()["winner"]))
    fit = crowdsift.fit(pandas.DataFrame({**rows(), "length": length}), covariates="length")
    assert isinstance(fit.coefficients, pandas.DataFrame)
    assert "coefficient" in fit.coefficients.columns
    crowdsift.fit(rows()).save(tmp_path)
    new = pandas.DataFrame({"winner": ["a", "a"], "loser": ["b", "c"], "worker": ["new", "new"]})
    assert isinstance(crowdsift.load(tmp_path).update(new).items, pandas.DataFrame)


def test_win_matrix_has_labels() -> None:
    pandas = pytest.importorskip("pandas")
    fit = crowdsift.fit(pandas.DataFrame(rows()))
    plain = crowdsift.fit(rows()).win_matrix()
    matrix = fit.win_matrix()
    np.testing.assert_allclose(matrix.to_numpy(float), plain)
    best, worst = fit.labels[0], fit.labels[-1]
    assert matrix.loc[best, worst] == pytest.approx(fit.predict(best, worst))


def test_plots_can_be_imported() -> None:
    code = "import crowdsift.plots as p; import crowdsift; assert p is crowdsift.plots; p.workers"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_texts_as_a_mapping_of_columns() -> None:
    texts = {label: f"text {label} " * 3 for label in DRAWN.items.tolist()}
    columns = {"item": list(texts), "text": list(texts.values())}
    by_item = crowdsift.fit(rows(), item_text=texts)
    for each in (columns, {"id": columns["item"], "body": columns["text"]}):
        np.testing.assert_array_equal(by_item.items["score"], crowdsift.fit(rows(), item_text=each).items["score"])
    pandas = pytest.importorskip("pandas")
    frame = crowdsift.fit(rows(), item_text=pandas.DataFrame(columns))
    np.testing.assert_array_equal(by_item.items["score"], frame.items["score"])
    with pytest.raises(crowdsift.RequestError, match="need a column text"):
        crowdsift.fit(rows(), item_text={"item": list(texts), "a": [1] * 8, "b": [2] * 8})


def test_embeddings_join_to_replies_by_their_whole_text() -> None:
    """Equal texts under two prompts have one embedding, or one for each prompt."""
    rng = np.random.default_rng(1)
    replies = [[f"reply {p}.{r} " + "long " * 30 for r in range(3)] for p in range(40)]
    for each in replies[::5]:
        each[2] = "I am sorry, but I cannot help with that. " * 3
    quality = {text: rng.normal() for each in replies for text in each}
    trl: dict[str, list[str]] = {"prompt": [], "chosen": [], "rejected": [], "annotator": []}
    for _ in range(1500):
        p = int(rng.integers(40))
        one, two = rng.choice(3, 2, replace=False)
        good = rng.random() < 1 / (1 + np.exp(-2 * (quality[replies[p][one]] - quality[replies[p][two]])))
        pair = (replies[p][one], replies[p][two])[:: 1 if good else -1]
        row = (f"prompt {p}", *pair, f"ann {rng.integers(9)}")
        for name, entry in zip(trl, row, strict=True):
            trl[name].append(entry)
    texts = list(quality)
    whole = {"item": texts, "x": [quality[text] for text in texts]}
    pairs = [(f"prompt {p}", text) for p, each in enumerate(replies) for text in each]
    by_prompt = {"prompt": [p for p, _ in pairs], "item": [t for _, t in pairs], "x": [quality[t] for _, t in pairs]}
    fits = [crowdsift.fit(trl, items=each) for each in (whole, by_prompt)]
    for fit in fits:
        assert fit.feature_weights()["feature"].tolist() == ["x"]
        assert float(fit.feature_weights()["lower"][0]) > 0
    np.testing.assert_allclose(fits[0].items["score"], fits[1].items["score"])
    with pytest.raises(crowdsift.InputError, match="occurs twice"):
        crowdsift.fit(trl, items={"item": [*texts, texts[0]], "x": [*whole["x"], 9.0]})


def test_errors_name_the_arguments_of_the_interface_that_is_used(tmp_path: Path, run: Any) -> None:
    bad = {"left": ["x"], "right": ["y"], "winner": ["?"], "worker": ["w"]}
    with pytest.raises(crowdsift.InputError, match=r"\(in Python: values=, skip_bad=\)$"):
        crowdsift.read(bad)
    (tmp_path / "v.csv").write_text("left,right,winner,worker\nx,y,?,w\n")
    status, _, text = run("fit", tmp_path / "v.csv")
    assert status == 1
    assert "--values" in text
    assert "in Python" not in text
