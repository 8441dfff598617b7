"""What is refused and seldom met: files, folders and calls, one row a refusal."""

from __future__ import annotations

import json

import numpy as np
import pytest

import crowdsift
from crowdsift.errors import CrowdsiftError, InputError
from crowdsift.io.saved import parquet_bytes
from crowdsift.results.store import read_sites, sites_bytes


def frame(**columns):
    """Votes with columns of their own."""
    return {"winner": list("abac"), "loser": list("bcca"), "worker": list("xyxy"), **columns}


def featured(**options):
    """A fit with a feature of two columns of its items."""
    rng = np.random.default_rng(3)
    drawn = crowdsift.simulate(items=12, workers=6, comparisons=300, seed=2)
    X = np.stack([drawn.scores, rng.normal(size=12)], axis=1)
    return crowdsift.fit(drawn.comparisons(), items={"item": drawn.items, "x": X}, **options)


CALLS = {
    "second opinions": (
        lambda: crowdsift.second_opinions(frame(), 0.5),
        "pairs must be a whole number above 0, not 0.5",
    ),
    "groups and covariates": (
        lambda: crowdsift.fit(
            frame(size=[1.0, 0.0, 1.0, 0.5], prompt=list("ppqq")), covariates=["size"], dependent_by="prompt"
        ),
        "not both at once yet: coefficients would be learned from votes that share an effect",
    ),
    "a start and covariates": (
        lambda: crowdsift.fit(frame(size=[1.0, 0.0, 1.0, 0.5]), covariates=["size"], start=crowdsift.fit(frame())),
        "a fit with covariates cannot start from an earlier one",
    ),
    "contexts and covariates": (
        lambda: crowdsift.fit(frame(size=[1.0, 0.0, 1.0, 0.5], topic=list("sstt")), covariates=["size"], by="topic"),
        "not both at once yet: coefficients of a worker are the same in all contexts; omit one",
    ),
    "contexts and features of items": (
        lambda: crowdsift.fit(
            {**{k: 2 * v for k, v in frame().items()}, "topic": list("sssstttt")},
            by="topic",
            items={"item": list("abc"), "size": [1.0, 2.0, 3.0]},
        ),
        "not both at once yet: the prior by features is tried over whole workers only; omit one",
    ),
    "lists of other things": (
        lambda: crowdsift.fit(frame(), items={"item": list("abc"), "x": [[1.0], [None], ["b"]]}),
        "items, column 'x': the lists have entries that are not numbers",
    ),
    "features that a fit does not know": (lambda: featured().score(np.zeros((2, 3))), "3 features where the fit has 2"),
    "a feature that is not there": (
        lambda: featured().score({"item": ["n"], "y": [[1.0, 2.0]]}),
        "items: no column 'x' for the feature 'x'; the columns are item, y",
    ),
    "too few numbers": (
        lambda: featured().score({"item": ["n"], "x": [[1.0, 2.0, 3.0]]}),
        "3 features where the fit has 2",
    ),
    "a truth in words": (
        lambda: crowdsift.evaluate(crowdsift.read(frame()), {"a": "good", "b": "bad"}, "bt"),
        "the scores of the truth are not numbers",
    ),
    "robustness with features": (
        lambda: crowdsift.fit(frame(size=[1.0, 0.0, 1.0, 0.5]), "factor-bt", covariates=["size"]).robustness(),
        "depends on features, classes or panels of the votes",
    ),
    "a date finer than dates are": (
        lambda: crowdsift.fit(frame(), "bt").predict(np.datetime64("2024-01-01", "ns") + 1, "b"),
        "2024-01-01T00:00:00.000000001",
    ),
    "intervals that are not there": (
        lambda: crowdsift.fit(frame(prompt=list("ppqq")), "rank-centrality", dependent_by="prompt"),
        "gives no intervals, so none can allow for dependent votes",
    ),
    "a matrix of no feature": (
        lambda: featured().score({"item": ["n"], "y": np.zeros((1, 2))}),
        "no column 'x' for the feature 'x'",
    ),
    "a truth of nothing": (
        lambda: crowdsift.evaluate(crowdsift.read(frame()), {"item": ["a"], "score": [None]}, "bt"),
        "items, row 1, column 'score'",
    ),
    "workers of sklearn": (
        lambda: (
            pytest.importorskip("crowdsift.sklearn")
            .PairwiseRanker(unknown="guess")
            .fit(np.array([["a", "b"], ["b", "c"]]), [1, 0])
        ),
        "unknown must be 'error' or 'prior', not 'guess'",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_are_refused(name):
    call, message = CALLS[name]
    with pytest.raises(CrowdsiftError, match=message):
        call()


def ranking(name):
    """A record of Argilla whose ranking names a field."""
    fields = {"prompt": "p", "reply-1": "a", "reply-2": "b"}
    ranked = [{"value": "reply-1", "rank": 1}, {"value": name, "rank": 2}]
    answers = [{"user_id": "u", "value": ranked, "status": "submitted"}]
    return json.dumps({"fields": fields, "responses": {"question": answers}})


def task(**data):
    """A task of Label Studio with an answer."""
    note = {"completed_by": 1, "result": [{"value": {"selected": "left"}}]}
    return json.dumps([{"data": data, "annotations": [note]}])


FILES = {
    "types that differ": (
        {
            f"votes{kind}.parquet": parquet_bytes(
                {"winner": np.array([1]), "loser": np.array([2]), "worker": np.array([3], kind)}
            )
            for kind in ("f8", "i8")
        },
        "votesi8.*column 'worker'.*write both files with the same types",
        None,
    ),
    "a reply that is not there": (
        {"votes.jsonl": ranking("reply-7")},
        "row 1.*the ranking names the field 'reply-7'; the fields are prompt, reply-1, reply-2",
        "argilla",
    ),
    "which two": (
        {"votes.json": task(red="1", green="2", blue="3")},
        "row 1, column 'data'.*which two of red, green, blue were compared",
        "label-studio",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_refused(name, tmp_path):
    files, message, form = FILES[name]
    for each, content in files.items():
        (tmp_path / each).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CrowdsiftError, match=message) as caught:
        crowdsift.read(str(tmp_path / "votes*"), **({"format": form} if form else {}))
    assert str(tmp_path) in str(caught.value)


def test_two_fields_of_a_task_are_the_sides(tmp_path):
    (tmp_path / "votes.json").write_text(task(one="a", two="b"))
    votes = crowdsift.read(tmp_path / "votes.json", format="label-studio")
    assert votes.items[votes.first[0]] == "a"
    assert sorted(votes.items) == ["a", "b"]


@pytest.fixture(scope="module")
def sites():
    """What a fit keeps of its votes, and how many items and workers it has."""
    fit = crowdsift.fit(crowdsift.simulate(items=6, workers=4, comparisons=90, seed=1).comparisons())
    return fit.sites, 6, len(fit.sites.low)


def test_sites_come_back_from_their_file(sites):
    given, *counts = sites
    for one, two in zip(read_sites(sites_bytes(given), "s", *counts), given, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-9], ""),
        (lambda content: b"", "too small to be a Parquet file"),
        (lambda content: parquet_bytes({"worker": np.zeros(2, "u4")}), "its columns are worker"),
    ],
)
def test_files_of_sites_that_are_damaged(sites, change, message):
    given, *counts = sites
    with pytest.raises(InputError, match=rf"there: damaged: .*{message}.*Delete the file"):
        read_sites(change(sites_bytes(given)), "there", *counts)
    for fewer in ((5, counts[1]), (6, 3)):
        with pytest.raises(InputError, match="items or workers that the fit does not have"):
            read_sites(sites_bytes(given), "there", *fewer)


def test_progress_of_an_experiment_is_shown_on_a_terminal(monkeypatch, capsys):
    from crowdsift.paper.runner import shown

    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with shown("synthetic") as report:
        report(2.0, 8.0, 3, 17)
    result = capsys.readouterr()
    assert "synthetic" in result.err
    assert "3 of 17 settings" in result.err
    assert result.out == ""
