"""What to ask next from a saved fit, and second opinions."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import crowdsift
from crowdsift import RequestError, cli


@pytest.fixture(scope="module")
def fit():
    drawn = crowdsift.simulate(items=15, workers=9, comparisons=400, seed=2)
    return crowdsift.fit(drawn.comparisons())


def test_a_saved_fit_chooses_as_its_votes_do(fit, tmp_path, monkeypatch):
    fresh = crowdsift.next_pairs(fit.votes, 5)
    fit.save(tmp_path)
    monkeypatch.setattr("crowdsift.active.select.fit", None)
    saved = crowdsift.next_pairs(crowdsift.load(tmp_path), 5)
    assert saved["first"].tolist() == fresh["first"].tolist()
    assert saved["second"].tolist() == fresh["second"].tolist()
    np.testing.assert_allclose(saved["gain"], fresh["gain"], rtol=1e-3)


def test_second_opinions_are_of_judged_pairs_and_uncertain_workers():
    drawn = crowdsift.simulate(items=15, workers=9, comparisons=600, seed=2)
    votes = drawn.comparisons()
    won = votes.outcome > 0.5
    rows = {
        "winner": votes.items[np.where(won, votes.first, votes.second)].tolist(),
        "loser": votes.items[np.where(won, votes.second, votes.first)].tolist(),
        "worker": votes.workers[votes.worker_codes()].tolist(),
    }
    for pair in (("i00", "i01"), ("i00", "i02")):
        for name, value in zip(rows, (*pair, "new"), strict=True):
            rows[name].append(value)
    fit = crowdsift.fit(rows)
    asked = crowdsift.second_opinions(fit, 8)
    judged = {frozenset(pair) for pair in zip(rows["winner"], rows["loser"], strict=True)}
    pairs = [frozenset(pair) for pair in zip(asked["first"], asked["second"], strict=True)]
    assert set(pairs) <= judged
    assert len(set(pairs)) == 8
    assert "new" in asked["worker"].tolist()
    assert (np.diff(asked["worth"]) <= 1e-12).all()
    np.testing.assert_allclose(asked["probability"], fit.better(asked["first"], asked["second"]), atol=1e-9)


def test_second_opinions_spread_over_workers_of_whom_nothing_is_known():
    n = 60
    rows = {
        "winner": [f"a{i}" for i in range(n)],
        "loser": [f"b{i}" for i in range(n)],
        "worker": [i % 6 for i in range(n)],
    }
    asked = crowdsift.second_opinions(rows, 12)
    assert sorted(asked["worker"].tolist()) == sorted([*range(6)] * 2)


def test_second_opinions_need_workers(tmp_path):
    votes = crowdsift.Comparisons.from_arrays(["a"], ["b"])
    with pytest.raises(RequestError, match="need votes with workers"):
        crowdsift.second_opinions(crowdsift.fit(votes, "bt"))


def test_pseudonyms_are_the_same_everywhere(fit, tmp_path):
    hidden = fit.hide_workers()
    labels = fit.workers["worker"].tolist()
    names = dict(zip(labels, hidden.workers["worker"].tolist(), strict=True))
    assert len(set(names.values())) == len(labels)
    html = hidden.report(refit=False).html
    hidden.save(tmp_path)
    texts = [path.read_bytes() for path in tmp_path.iterdir()]
    for label in labels:
        assert f'"{label}"' not in html
        assert not any(f"\n{label},".encode() in text for text in texts)
    assert crowdsift.load(tmp_path).workers["worker"].tolist() == list(names.values())
    some = crowdsift.fit(fit.votes.select(fit.votes.worker_codes() < 4), "bora-em").hide_workers()
    found = dict(zip(labels, some.workers["worker"].tolist(), strict=False))
    assert all(names[label] == name for label, name in found.items())


def test_commands(fit, tmp_path, monkeypatch, capsys):
    fit.save(tmp_path / "fit")
    page = tmp_path / "page.html"
    commands = (
        ["next", str(tmp_path / "fit"), "--pairs", "3"],
        ["next", str(tmp_path / "fit"), "--reask", "--pairs", "4"],
        ["report", str(tmp_path / "fit"), "--out", str(page), "--hide-workers"],
    )
    outputs = []
    for command in commands:
        monkeypatch.setattr(sys, "argv", ["crowdsift", *command])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0].startswith("first,second,gain")
    assert outputs[1].startswith("first,second,worker,votes,probability,worth")
    assert len(outputs[1].splitlines()) == 5
    assert "Can you trust this?" in page.read_text()


def test_contexts_are_asked_apart_and_stand_in_their_own_column():
    """Replies of one prompt are never asked against those of another."""
    votes = {
        "winner": ["a1", "a1", "b1", "b2"],
        "loser": ["a2", "a2", "b2", "b1"],
        "worker": ["x", "y", "x", "y"],
        "prompt": ["a", "a", "b", "b"],
    }
    found = crowdsift.fit(votes, by="prompt")
    for asked in (crowdsift.next_pairs(found, 6), crowdsift.second_opinions(found, 2)):
        for prompt, *pair in zip(asked["prompt"], asked["first"], asked["second"], strict=True):
            assert sorted(pair) == [f"{prompt}1", f"{prompt}2"]
    assert "(" not in str(found.robustness()).replace(" (a)", "").replace(" (b)", "")


def test_sets_of_several_items_are_asked_for_rankings():
    rng = np.random.default_rng(1)
    texts = [">".join(f"i{item}" for item in rng.permutation(8)[:4]) for _ in range(30)]
    votes = crowdsift.read({"worker": [f"w{k % 3}" for k in range(30)], "ranking": texts})
    asked = crowdsift.next_pairs(votes, 5, set_size=4, items=["new"], workers="all")
    rows = [tuple(row[f"item_{place}"] for place in range(1, 5)) for row in asked.records()]
    assert all(len(set(row)) == 4 for row in rows)
    assert len(set(rows)) == 5
    assert sum("new" in row for row in rows) >= 2  # of which nothing is known
    assert set(asked["worker"].tolist()) <= {"w0", "w1", "w2"}
    for size in (1, 10):
        with pytest.raises(crowdsift.RequestError, match="set_size"):
            crowdsift.next_pairs(votes, 2, set_size=size, items=["new"])
