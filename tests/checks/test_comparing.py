"""Comparisons of two fits against a plain computation and planted correlations."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

import crowdsift
from crowdsift.cli import app

ROLES = {"worker": "judge", "winner": "candidate_chosen", "loser": "candidate_not_chosen"}


def session(scores: np.ndarray, seed: int, votes: int = 1500) -> crowdsift.Comparisons:
    rng = np.random.default_rng(seed)
    one = rng.integers(0, len(scores), votes)
    two = (one + rng.integers(1, len(scores), votes)) % len(scores)
    won = rng.random(votes) < 1 / (1 + np.exp(scores[two] - scores[one]))
    winner, loser = np.where(won, one, two), np.where(won, two, one)
    return crowdsift.Comparisons.from_arrays(winner, loser, worker=rng.integers(0, 9, votes))


@pytest.mark.parametrize("method", ["bt", "sift"])
def test_the_sessions_of_mcmahon_by_a_plain_computation(data_dir, tmp_path, method):
    folders = []
    for panel in ("peer", "teachers"):
        path = data_dir / f"cj_mcmahon2014_{panel}.csv"
        folders.append(str(tmp_path / panel))
        crowdsift.fit(path, method, columns=ROLES).save(folders[-1])
    tables = []
    for folder in folders:
        with (Path(folder) / "items.csv").open() as file:
            rows = {row["item"]: (float(row["score"]), float(row["se"])) for row in csv.DictReader(file)}
        tables.append(np.array([rows[item] for item in sorted(rows)]))
    r = np.corrcoef(tables[0][:, 0], tables[1][:, 0])[0, 1]
    share = []
    for score, se in (table.T for table in tables):
        spread, error = score.var(ddof=1), (se**2).mean()
        share.append(1 - error / spread if method == "bt" else spread / (spread + error))
    half = norm.ppf(0.95) / np.sqrt(154 - 3)
    wanted = np.array([r, np.tanh(np.arctanh(r) - half), np.tanh(np.arctanh(r) + half)])
    answer = CliRunner().invoke(app, ["compare", *folders, "--json", "--plot", str(tmp_path / "a.svg")])
    assert answer.exit_code == 0
    found = json.loads(answer.output)
    names = ("{}", "{}_lower", "{}_upper")
    assert [found[n.format("correlation")] for n in names] == pytest.approx(wanted, abs=1e-9)
    corrected = wanted / np.sqrt(share[0] * share[1])
    assert [found[n.format("corrected_correlation")] for n in names] == pytest.approx(corrected, abs=1e-9)
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_intervals_of_the_corrected_correlation_cover_the_planted_one():
    covered = biased = 0.0
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        common, own = rng.normal(size=(2, 60))
        true = [2 * common, 2 * (0.8 * common + 0.6 * own)]  # of a correlation of 0.8
        fits = [crowdsift.fit(session(x, 7 * seed + i), "bt") for i, x in enumerate(true)]
        corrected = crowdsift.compare(*fits).corrected
        covered += corrected[1] <= 0.8 <= corrected[2]
        biased += (corrected[0] - 0.8) / 60
    assert 48 <= covered <= 59  # 90 % of 60, within two standard errors
    assert abs(biased) < 0.03


@pytest.mark.parametrize("method", ["bt", "sift"])
def test_items_that_differ_are_named_and_others_are_not(method):
    wrong = 0
    for seed in range(6):
        scores = 1.5 * np.random.default_rng(seed).normal(size=30)
        moved = scores.copy()
        moved[4] -= 3.0 * np.sign(moved[4])  # not beyond all others, where errors are large
        fits = [crowdsift.fit(session(x, 50 + 2 * seed + i, 3000), method) for i, x in enumerate((scores, moved))]
        found = crowdsift.compare(*fits)
        assert 4 in found.differing
        wrong += bool(set(found.differing) - {4})
    assert wrong <= 1


def test_what_cannot_be_compared_is_refused(tmp_path):
    scores = np.arange(6.0)
    fit = crowdsift.fit(session(scores, 1), "bt")
    few = crowdsift.fit({"winner": ["0", "1"], "loser": ["1", "2"], "worker": ["x", "y"]}, "bt")
    with pytest.raises(crowdsift.RequestError, match="the fits share 0 items"):
        crowdsift.compare(fit, few)
    with pytest.raises(crowdsift.RequestError, match="has no intervals"):
        crowdsift.compare(fit, crowdsift.fit(session(scores, 1), "rank-centrality"))
    fit.save(tmp_path / "one")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    for words, message in (
        ([one, two], "no summary.json"),
        ([one, one, "--plot", str(tmp_path / "a.gif")], ".pdf, .svg or .png"),
    ):
        error = CliRunner().invoke(app, ["compare", *words]).exception
        assert isinstance(error, crowdsift.CrowdsiftError)
        assert message in str(error)
    answer = CliRunner().invoke(app, ["report", str(tmp_path / "one"), "--plots", str(tmp_path / "f")])
    assert answer.exit_code == 0
    assert (tmp_path / "f" / "leaderboard.pdf").read_bytes().startswith(b"%PDF")
    assert not (tmp_path / "f" / "workers.pdf").exists()


def test_two_fits_of_the_same_votes_are_not_tested(tmp_path):
    votes = session(np.linspace(-2, 2, 12), 3)
    crowdsift.fit(votes, "bt").save(tmp_path / "bt")
    for other in (tmp_path / "bt", crowdsift.fit(votes, "sift")):
        found = crowdsift.compare(tmp_path / "bt", other)
        assert found.correlation[0] > 0.98
        assert found.corrected is None
        assert found.same_votes
        assert not found.differing
        assert "the same votes" in str(found)
    assert not crowdsift.compare(tmp_path / "bt", crowdsift.fit(session(np.linspace(-2, 2, 12), 4), "sift")).same_votes
