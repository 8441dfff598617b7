"""Files, folders and commands that are refused: what users meet most, one row a refusal."""

from __future__ import annotations

import json

import numpy as np
import pytest

import crowdsift
from crowdsift.errors import CrowdsiftError

HEADER = "winner,loser,worker\n"
VOTES = f"{HEADER}a,b,x\nb,c,y\na,c,x\nc,a,y\n"


FILES = {
    "a column twice": (
        {"votes.csv": "winner,loser,worker,winner\na,b,x,a\n"},
        "the header names the column 'winner' twice",
    ),
    "a list that is cut off": (
        {"votes.json": '[{"winner": "a", "loser": "b", "worker": "x"}, {"winner": "b", "lo'},
        "does not end with ']'; the file may be cut off",
    ),
    "another column in the second file": (
        {"votes1.csv": VOTES, "votes2.csv": "winner,loser,who\na,b,x\n"},
        "no column 'worker', which .*votes1.csv has; the columns here are winner, loser, who",
    ),
    "nobody ranked": (
        {"votes.jsonl": json.dumps({"fields": {"prompt": "p", "reply-1": "a", "reply-2": "b"}, "responses": {}})},
        "no ranking of two items or more in any record",
        "argilla",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_refused(name, tmp_path):
    files, message, *form = FILES[name]
    for each, content in files.items():
        (tmp_path / each).write_text(content)
    with pytest.raises(CrowdsiftError, match=message) as caught:
        crowdsift.read(str(tmp_path / "votes*"), **({"format": form[0]} if form else {}))
    assert str(tmp_path) in str(caught.value)  # it says which file


def frame(**columns):
    """Votes with columns of their own."""
    return {"winner": list("abac"), "loser": list("bcca"), "worker": list("xyxy"), **columns}


CALLS = {
    "engine options": (
        lambda: crowdsift.fit(frame(), engine_options="cuda"),
        "engine_options are values by name, not 'cuda'",
    ),
    "an option of another engine": (
        lambda: crowdsift.fit(frame(), engine="cpu", engine_options={"shards": 2}),
        "shards: options of the engine dask, not of 'cpu'",
    ),
    "an option of none": (
        lambda: crowdsift.fit(frame(), engine="disk", engine_options={"colour": 2}),
        "the engine disk has no option colour",
    ),
    "spam without workers": (
        lambda: crowdsift.add_spammers(crowdsift.Comparisons.from_arrays(["a", "b"], ["b", "c"]), "left", 50),
        "spammers are added to workers, and these votes have none",
    ),
    "a parameter of another method": (
        lambda: crowdsift.model("bt", alternations=2),
        "bt has no parameter 'alternations'; it has penalty",
    ),
    "a penalty in words": (lambda: crowdsift.model("hbtl", penalty="small"), "hbtl: penalty must be .*, not 'small'"),
    "no penalty": (lambda: crowdsift.model("bt", penalty=0.0), "bt: penalty must be above 0"),
    "starts": (lambda: crowdsift.Sift(starts=("best",)), "starts must be of 'flat' and 'spectral'"),
    "tune in words": (lambda: crowdsift.fit(frame(), tune="yes"), "tune must be True or False"),
    "threads in words": (lambda: crowdsift.fit(frame(), threads="two"), "must be a whole number"),
    "features that are missing": (
        lambda: crowdsift.fit(
            frame(), items={"item": list("abc"), "size": [1.0, 2.0, 3.0]}, item_features_missing="ignore"
        ),
        "item_features_missing is one of .*, not 'ignore'",
    ),
    "an item without features": (
        lambda: crowdsift.fit(frame(), items={"item": list("ab"), "size": [1.0, 2.0]}),
        "1 of the 3 items lack features: 'c'; fill them, or choose --item-features-missing",
    ),
    "anchors": (
        lambda: crowdsift.fit(frame(), scale="elo", anchor=1200),
        r"anchors are values by item, such as {'a': 1200}, not 1200",
    ),
    "groups of votes that are read": (
        lambda: crowdsift.fit(crowdsift.read(frame()), dependent_by="prompt"),
        "'prompt' is a column, and these votes are read already",
    ),
    "gold twice": (
        lambda: (
            crowdsift.read(frame())
            .with_gold(np.array([0], np.uint32), np.array([1], np.uint32))
            .with_gold(np.array([0], np.uint32), np.array([1], np.uint32))
        ),
        "these comparisons hold gold already",
    ),
    "no posterior": (
        lambda: crowdsift.Selector(crowdsift.fit(frame(), "rank-centrality")),
        "has no posterior to choose by; use sift or bt",
    ),
    "labels": (
        lambda: crowdsift.fit(frame(), "bt").predict([["a"], ["b"]], ["b", "c"]),
        "labels are texts, numbers or dates",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_are_refused(name):
    call, message = CALLS[name]
    with pytest.raises(CrowdsiftError, match=message):
        call()


def edited(folder, name, change):
    """A file of a folder, changed."""
    (folder / name).write_text(change((folder / name).read_text()))


FOLDERS = {
    "of a later version": (
        lambda folder: edited(folder, "summary.json", lambda t: json.dumps({**json.loads(t), "format": 99})),
        "saved in format 99, this version reads formats 3 and 4; fit the votes again",
    ),
    "no summary": (lambda folder: (folder / "summary.json").unlink(), "summary.json"),
    "no items": (lambda folder: (folder / "items.csv").unlink(), "items.csv"),
    "changed by hand": (lambda folder: edited(folder, "items.csv", lambda t: t.replace("1", "2")), "items.csv"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_that_are_refused(name, tmp_path):
    change, message = FOLDERS[name]
    crowdsift.fit(frame(), "bt").save(tmp_path / "fit")
    change(tmp_path / "fit")
    with pytest.raises(CrowdsiftError, match=message) as caught:
        crowdsift.load(tmp_path / "fit")
    assert str(tmp_path / "fit") in str(caught.value)
