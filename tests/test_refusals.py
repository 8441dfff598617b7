"""What cannot be done is refused in words that say what is wrong; one row a refusal."""

from __future__ import annotations

import json

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons
from crowdsift.errors import CrowdsiftError

VOTES = {"winner": ["a", "b", "a", "c"], "loser": ["b", "c", "c", "a"], "worker": list("xyxy")}
CONTEXTS = {**VOTES, "topic": ["s", "s", "t", "t"]}


@pytest.fixture(scope="module")
def fit():
    drawn = crowdsift.simulate(items=5, workers=4, comparisons=200, seed=1)
    return crowdsift.fit(drawn.comparisons())


@pytest.fixture(scope="module")
def loaded(fit, tmp_path_factory):
    """The same without its votes."""
    folder = tmp_path_factory.mktemp("fit")
    fit.save(folder)
    (folder / "votes.parquet").unlink()
    return crowdsift.load(folder)


def export(**options):
    """An export of votes in a file."""
    return lambda file, folder: crowdsift.export_votes(file, folder / "x.jsonl", **options)


EXPORTS = {
    "to": (export(to="parquet"), "to must be 'plain' or 'trl', not 'parquet'"),
    "flip": (export(flip="often"), "flip must be one of"),
    "keep": (export(keep=1.5), "keep must be a probability from 0 to 1, such as 0.8, not 1.5"),
    "texts": (export(texts="items.csv:text"), "texts are for the columns chosen and rejected"),
    "no column": (export(texts="items.csv", to="trl"), "texts are given as ITEMS.csv:COLUMN"),
    "a folder": (lambda file, folder: crowdsift.export_votes(file, folder), "give a file that ends in"),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_that_are_refused(name, tmp_path):
    call, message = EXPORTS[name]
    file = tmp_path / "votes.csv"
    file.write_text("winner,loser,worker\na,b,x\nb,c,y\n")
    with pytest.raises(CrowdsiftError, match=message):
        call(file, tmp_path)
    assert list(tmp_path.iterdir()) == [file]


REFUSED = {
    "next, pairs": (lambda *_: crowdsift.next_pairs(VOTES, 0), "pairs must be a whole number above 0"),
    "next, workers": (
        lambda *_: crowdsift.next_pairs(VOTES, 1, workers="some"),
        "workers are labels or 'all', not 'some'",
    ),
    "next, no votes": (lambda fit, loaded, _: crowdsift.Selector(loaded), "were not kept"),
    "islands": (
        lambda *_: crowdsift.Selector(VOTES, islands="drop"),
        "islands must be 'connect' or 'keep', not 'drop'",
    ),
    "refit": (lambda *_: crowdsift.Selector(VOTES, refit=-1), "refit must be at least 0"),
    "one item": (lambda *_: crowdsift.Selector(items=["a"]), "at least two items are needed"),
    "nothing to fit": (lambda *_: crowdsift.Selector(items=["a", "b"]).refit(), "no votes to fit"),
    "among": (
        lambda *_: crowdsift.Selector(VOTES).choose(among=(["a"], ["b", "c"])),
        "as many first items as second ones",
    ),
    "no pair": (
        lambda *_: crowdsift.Selector(items=["a", "b"], islands="keep").choose(),
        "no two of the items are in one component",
    ),
    "method": (lambda *_: crowdsift.fit(VOTES, 7), "method must be a name or a model, not 7"),
    "tune": (lambda *_: crowdsift.tune(crowdsift.read(VOTES), "bt"), "give a model such as"),
    "nothing to tune": (lambda *_: crowdsift.tune(crowdsift.read(VOTES), crowdsift.Sift()), "no penalty to choose"),
    "reliabilities": (
        lambda *_: crowdsift.simulate(5, 3, 9, reliabilities=[1.0]),
        "either a range of reliability or one reliability per worker",
    ),
    "classes": (lambda *_: crowdsift.read(VOTES).with_classes(["fruit"]), "1 classes for 3 items; give one each"),
    "together, contexts": (
        lambda *_: crowdsift.read(VOTES).extended(crowdsift.read(CONTEXTS, by="topic")),
        "of other contexts cannot be combined",
    ),
    "together, workers": (
        lambda *_: crowdsift.read(VOTES).extended(Comparisons.from_arrays(["a"], ["b"])),
        "votes with workers and votes without cannot be combined",
    ),
    "no features": (lambda fit, *_: fit.score({"item": ["n"], "size": [1.0]}), "no features"),
    "no head": (lambda fit, _, folder: fit.save_head(folder / "h"), "no features of items"),
    "no weights": (lambda fit, *_: fit.feature_weights(), "no features of items"),
    "copying, no votes": (lambda fit, loaded, _: loaded.copying(), "does not hold its votes"),
    "robustness, no votes": (lambda fit, loaded, _: loaded.robustness(), "votes"),
    "unknown": (lambda fit, *_: fit.predict("i0", "i1", unknown="guess"), "must be 'error' or 'prior'"),
    "start by another context": (lambda fit, *_: crowdsift.fit(CONTEXTS, by="topic", start=fit), "fitted by"),
    "items without labels": (lambda *_: crowdsift.fit(VOTES, items={"size": [1.0, 2.0, 3.0]}), "no column 'item'"),
    "texts of items": (
        lambda *_: crowdsift.fit(VOTES, item_text="items.csv"),
        "texts of items are given as FILE:COLUMN",
    ),
    "engine": (lambda *_: crowdsift.fit(VOTES, engine=7), "unknown engine 7"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, fit, loaded, tmp_path):
    call, message = REFUSED[name]
    with pytest.raises(CrowdsiftError, match=message):
        call(fit, loaded, tmp_path)
    assert list(tmp_path.iterdir()) == []


LABEL_STUDIO = {
    "no object": ([{"data": 1, "annotations": []}], "an object 'data'"),
    "no annotation": (
        [{"data": {"left": "a", "right": "b"}, "annotations": [3]}],
        "an annotation that is not an object",
    ),
    "nobody answered": ([{"data": {"left": "a", "right": "b"}, "annotations": []}], "no annotations"),
}


@pytest.mark.parametrize("name", LABEL_STUDIO)
def test_tasks_of_label_studio_that_are_none(name, tmp_path):
    tasks, message = LABEL_STUDIO[name]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    with pytest.raises(CrowdsiftError, match=message):
        crowdsift.read(tmp_path / "export.json", format="label-studio")


def test_conjugate_gradients_at_their_ends():
    from crowdsift.numeric.conjugate_gradient import conjugate_gradient, solve

    matrix, ones = np.diag([1.0, 2.0, 3.0, 4.0]), np.ones(4)
    few = conjugate_gradient(lambda v: matrix @ v, ones, ones, tolerance=1e-12, most=2)
    assert (few.iterations, few.at_boundary) == (2, False)
    x, steps, residual, good = solve(lambda v: matrix @ v, ones, 0 * ones, ones, 0.0, 1e-9, 9)
    assert (x.tolist(), steps, residual, good) == ([0.0] * 4, 0, 0.0, True)
    down = solve(lambda v: -v, ones, ones, 0 * ones, 0.0, 1e-9, 9)
    assert down[1] == 0
    assert not down[3]  # no step along a direction that is not positive
