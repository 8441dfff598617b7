"""Features of items from files, frames and texts: what is read, and what is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from saved_folders import forge

import crowdsift
from crowdsift import Comparisons, InputError, RequestError
from crowdsift.io.items import with_item_features
from crowdsift.io.saved import read_safetensors

VOTES = Comparisons.from_arrays(["a", "b", "c"], ["b", "c", "d"], worker=["x", "y", "z"])


def test_columns_of_a_file_are_standardised(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("item,score,size,age\nd,9,4,1\nb,9,2,1\na,9,1,5\nc,9,3,1\n")
    (group,) = with_item_features(VOTES, str(path)).item_features.blocks
    assert group.names == ("size", "age")  # not score, which is where a truth stands
    assert group.values.sum(axis=0) == pytest.approx([0, 0], abs=1e-6)
    assert (group.values**2).sum(axis=1).mean() == pytest.approx(1)
    assert np.argsort(group.values[:, 0]).tolist() == [0, 1, 2, 3]
    (one,) = with_item_features(VOTES, f"{path}:age").item_features.blocks
    assert one.names == ("age",)


def test_lists_in_parquet_and_frames(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    table = pa.table({"item": list("abcd"), "e": [row.tolist() for row in rng.normal(size=(4, 6))]})
    pq.write_table(table, tmp_path / "items.parquet")
    found = [
        with_item_features(VOTES, given).item_features.blocks[0] for given in (str(tmp_path / "items.parquet"), table)
    ]
    assert found[0].kind == "list"
    assert len(found[0].names) == 6
    assert found[0].values == pytest.approx(found[1].values)
    uneven = pa.table({"item": list("abcd"), "e": [[1.0], [2.0], [3.0, 4.0], [5.0]]})
    with pytest.raises(InputError, match=r"row 3, column 'e': a list of 2 numbers where others"):
        with_item_features(VOTES, uneven)


def test_matrices_join_as_lists_do():
    """Rows of a matrix belong to the texts of replies beside it, as lists do."""
    replies = {"prompt": ["q", "q"], "chosen": ["Yes.", "No."], "rejected": ["No.", "Maybe."], "annotator": ["x", "y"]}
    matrix = np.arange(6.0).reshape(3, 2) ** 2
    texts = ["Yes.", "No.", "Maybe."]
    found = [
        with_item_features(crowdsift.read(replies), {"text": texts, "e": each}).item_features.blocks[0].values.tolist()
        for each in (matrix, matrix.tolist())
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"item": list("abc"), "x": [1, 2, 3]}, r"1 of the 4 items lack features: 'd'"),
        ({"item": list("abcd"), "x": [1, 2, float("nan"), 3]}, "1 of the 4 items lack .*'c'"),
        ({"item": list("abcd"), "x": [1, "two", 3, 4]}, r"row 2, column 'x': .*--item-text"),
        ({"item": list("abcd"), "x": [1, float("inf"), 3, 4]}, r"row 2.*not a finite number"),
        ({"item": list("abca"), "x": [1, 2, 3, 4]}, "'a' occurs twice"),
        ({"item": list("abcd")}, "no columns besides item"),
        ({"item": list("abcd"), "m": np.zeros((3, 2))}, "item 4, m 3"),
    ],
)
def test_bad_features_are_refused(columns, message):
    with pytest.raises(InputError, match=message):
        with_item_features(VOTES, columns)


def test_missing_features():
    table = {"item": list("abc"), "x": [1.0, 2.0, 6.0]}
    mean = with_item_features(VOTES, table, missing="mean").item_features
    assert mean.blocks[0].values[3] == pytest.approx(0)
    assert "taken as average" in mean.notes[0]
    drop = with_item_features(VOTES, table, missing="drop")
    assert drop.items.tolist() == ["a", "b", "c"]
    assert len(drop) == 2
    with pytest.raises(RequestError, match="error, mean, drop, not 'guess'"):
        with_item_features(VOTES, table, missing="guess")


def test_constant_and_collinear_columns():
    table = {"item": list("abcd"), "x": [1.0, 2, 3, 4], "y": [2.0, 4, 6, 8], "c": [7.0] * 4}
    found = with_item_features(VOTES, table).item_features
    assert found.notes == ("constant features say nothing and are not used: c",)
    assert found.blocks[0].values[:, 2].tolist() == [0.0] * 4
    assert found.blocks[0].standardise(np.array([[1.0, 2.0, 1e9]]))[0, 2] == 0.0


def test_other_methods_refuse_features():
    with pytest.raises(RequestError, match="does not use item-features"):
        crowdsift.fit(VOTES, "bt", items={"item": list("abcd"), "x": [1, 2, 3, 4]})


def simulated(seed, n=80, features=4, share=0.7, islands=1):
    """Votes on items whose scores are `share` a linear function of features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    w = rng.normal(size=features)
    r = np.sqrt(share) * X @ w / np.linalg.norm(w) + np.sqrt(1 - share) * rng.normal(size=n)
    worker, a, step = rng.integers(0, 20, 1500), rng.integers(0, n, 1500), n // islands
    b = a // step * step + (a % step + rng.integers(1, step, 1500)) % step
    beta = np.where(np.arange(20) < 16, 2.0, 0.0)[worker]
    won = rng.random(1500) < 1 / (1 + np.exp(-beta * (r[a] - r[b])))
    votes = Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=worker)
    return votes, {"item": np.arange(n), "x": X}, r


def test_a_fit_with_features_saved_and_loaded(tmp_path):
    votes, table, r = simulated(1, islands=4)
    fit, plain = crowdsift.fit(votes, items=table), crowdsift.fit(votes)
    assert plain.summary["components"] == 4
    assert fit.summary["components"] == 1
    about = fit.summary["item_features"]
    assert about["used"]
    assert about["evidence_gain"] > 3
    assert about["blocks"][0]["share"] > 0.3
    scores = fit.scores_of(range(80))
    assert scores.mean() == pytest.approx(0, abs=1e-9)
    assert np.corrcoef(scores, r)[0, 1] > 0.85
    fit.save(tmp_path / "fit")
    fit.save_head(tmp_path / "head.safetensors")
    shutil.copytree(tmp_path / "fit", tmp_path / "earlier")
    forge(tmp_path / "earlier", lambda it: it["item_features"].update(groups=it["item_features"].pop("blocks")))
    assert crowdsift.load(tmp_path / "earlier").summary["item_features"]["blocks"] == about["blocks"]
    new = np.random.default_rng(2).normal(size=(5, 4))
    found, again = (each.score(new) for each in (fit, crowdsift.load(tmp_path / "fit")))
    for name in ("score", "lower", "upper"):
        assert again[name] == pytest.approx(found[name], abs=1e-5)
    head, text = read_safetensors((tmp_path / "head.safetensors").read_bytes())
    assert json.loads(text["names"]) == [f"x[{i}]" for i in range(4)]
    linear = ((new - head["mean"]) / head["scale"]) @ head["weight"]
    assert linear == pytest.approx(found["score"], abs=1e-4)
    weights = fit.feature_weights()
    assert weights["weight"] == pytest.approx(head["weight"], rel=1e-5)
    assert (weights["lower"] < weights["weight"]).all()
    with pytest.raises(RequestError, match="cannot be updated"):
        fit.update({"winner": [1], "loser": [2], "worker": [3]})
    loaded = crowdsift.load(tmp_path / "fit")
    assert "a saved fit does not keep" in loaded.report().html
    with pytest.raises(RequestError, match="a saved fit does not keep"):
        loaded.report(refit=True)
    apart = {"winner": [1, 2], "loser": [2, 3], "worker": [3, 3], "topic": ["x", "y"]}
    items = {"topic": ["x", "x", "y", "y"], "item": [1, 2, 2, 3], "size": [1.0, 2.0, 3.0, 5.0]}
    assert crowdsift.fit(apart, items=items, by="topic").parameters["contexts"] is False
    with pytest.raises(InputError, match="occurs twice"):
        crowdsift.fit(apart, items={n: items[n] for n in ("item", "size")}, by="topic")


def test_covariances_about_the_mean_follow():
    """Intervals of differences are those of Σ; the saved form gives them back."""
    votes, table, _ = simulated(3)
    fit = crowdsift.fit(votes, items=table)
    covariance = fit.posterior.covariance
    assert covariance.sum(axis=0) == pytest.approx(0, abs=1e-8)
    assert np.diag(covariance) == pytest.approx(fit.posterior.sd**2, rel=1e-6)


def test_features_that_are_noise_are_not_used():
    votes, table, _ = simulated(4)
    rng = np.random.default_rng(0)
    fit = crowdsift.fit(votes, items={**table, "x": rng.normal(size=(80, 6))})
    assert not fit.summary["item_features"]["used"]
    assert any("not used" in warning for warning in fit.warnings)
    assert fit.items["score"].tolist() == crowdsift.fit(votes).items["score"].tolist()
    with pytest.raises(RequestError, match="no features"):
        fit.score(table["x"])


def test_texts(tmp_path):
    votes, _, r = simulated(5)
    words = ["cat", "dog", "sun"], ["philosophical", "establishment", "nevertheless"]
    rng = np.random.default_rng(0)
    texts = [
        " ".join(words[int(rng.random() < 1 / (1 + np.exp(-2 * x)))][rng.integers(3)] for _ in range(40)) for x in r
    ]
    path = tmp_path / "items.csv"
    path.write_text("item,text\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts)))
    fit = crowdsift.fit(votes, item_text=f"{path}:text")
    assert fit.summary["item_features"]["used"]
    found = fit.score({"item": ["hard", "easy"], "text": ["philosophical " * 9, "cat " * 9]})
    assert found["score"][0] > found["score"][1]


@pytest.mark.parametrize("name", ["text", "reply", "completion"])
def test_features_join_to_replies_by_their_text(name, tmp_path):
    rng = np.random.default_rng(4)
    texts = [f"A reply that is longer than sixty characters, so that its label is cut: number {k}" for k in range(60)]
    vectors = rng.normal(size=(60, 3))
    rows = []
    for k in range(400):
        one, two = rng.choice(3, 2, replace=False) + 3 * (k % 20)
        one, two = (one, two) if vectors[one, 0] > vectors[two, 0] else (two, one)
        rows.append({"prompt": f"p{k % 20}", "chosen": texts[one], "rejected": texts[two], "annotator": f"a{k % 7}"})
    (tmp_path / "trl.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = [{name: text, "embedding": vector} for text, vector in zip(texts, vectors.tolist(), strict=True)]
    (tmp_path / "vectors.jsonl").write_text("\n".join(map(json.dumps, table)))
    fit = crowdsift.fit(tmp_path / "trl.jsonl", items=f"{tmp_path}/vectors.jsonl:embedding")
    assert np.corrcoef(fit.feature_weights()["weight"], [1, 0, 0])[0, 1] > 0.9
