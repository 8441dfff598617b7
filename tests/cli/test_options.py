"""Options of commands against what the same request gives in Python."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

import crowdsift


@pytest.fixture
def votes(tmp_path):
    drawn = crowdsift.simulate(items=8, workers=6, comparisons=300, seed=3)
    drawn.write(tmp_path / "crowd")
    return tmp_path / "crowd" / "votes.csv"


def test_statistics_and_hidden_workers_are_those_of_the_fit(run, votes):
    words = ("--method", "bora-map", "--statistics", "--hide-workers", "--json", "--quiet")
    status, out, _ = run("fit", votes, *words)
    assert status == 0
    found = json.loads(out)
    fit = crowdsift.fit(votes, "bora-map", hide_workers=True)
    wanted = fit.with_statistics(halves=5).summary["statistics"]
    assert found["summary"]["statistics"] == json.loads(json.dumps(wanted))
    names = {row["worker"] for row in found["workers"]}
    assert names == set(fit.workers["worker"])
    assert not names & set(crowdsift.read(votes).workers)
    assert len(names) == 6
    shown = sorted(row["reliability"] for row in found["workers"])
    assert shown == pytest.approx(sorted(fit.workers["reliability"]))


def test_progress_is_for_terminals_and_not_for_the_quiet(run, votes, tmp_path, monkeypatch):
    words = ("fit", votes, "--method", "bora-map", "--out", tmp_path / "fit")
    assert "Fitting" not in run(*words)[2]
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    result = run(*words)[2]
    assert "Fitting bora-map" in result
    assert "Reading the votes" in result
    assert run(*words, "--quiet")[2] == ""


def test_next_stays_on_its_islands_if_told_and_says_where_there_is_no_more(run, tmp_path):
    path = tmp_path / "votes.csv"
    rows = [f"{a},{b},w{s}" for s in range(4) for a, b in ("ab", "bc", "xy")]
    path.write_text("winner,loser,worker\n" + "\n".join(rows) + "\n")
    crossing = {}
    for words in ((), ("--keep-islands",)):
        status, out, err = run("next", path, "--pairs", "40", "--quiet", *words)
        assert (status, err) == (0, "")
        asked = list(csv.DictReader(io.StringIO(out)))
        assert len(asked) == 40
        pairs = {frozenset((row["first"], row["second"])) for row in asked}
        crossing[words] = {pair for pair in pairs if len(pair & {"x", "y"}) == 1}
        assert pairs - crossing[words] <= {frozenset(pair) for pair in ("ab", "bc", "ac", "xy")}
    assert crossing[()]
    assert not crossing["--keep-islands",]
    status, out, err = run("next", path, "--pairs", "40", "--quiet", "--reask")
    asked = list(csv.DictReader(io.StringIO(out)))
    assert {frozenset((row["first"], row["second"])) for row in asked} <= set(map(frozenset, ("ab", "bc", "xy")))
    assert (status, err) == (0, f"crowdsift: only {len(asked)} of 40: there is no more to ask\n")


def test_the_robustness_of_rankings_is_refused_before_the_fit(run, tmp_path):
    path = tmp_path / "rankings.csv"
    path.write_text("worker,ranking\nx,a>b>c\ny,b>a>c\n")
    status, out, err = run("fit", path, "--robustness", "--out", tmp_path / "o", "--quiet")
    assert (status, out) == (1, "")
    assert err.startswith("crowdsift: error: --robustness removes votes on single pairs")
