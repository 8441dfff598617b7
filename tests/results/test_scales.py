"""Scales and levels against closed forms; tables, files and updates follow."""

from __future__ import annotations

from math import log
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

import crowdsift
from crowdsift.cli import app
from crowdsift.numeric.distributions import limits_at
from crowdsift.results.scales import slope_of, typical_reliability
from crowdsift.results.tables import Table


@pytest.fixture(scope="module")
def votes() -> crowdsift.Comparisons:
    return crowdsift.simulate(items=8, workers=7, comparisons=900, seed=4).comparisons()


def test_two_items_have_the_elo_difference_of_their_odds() -> None:
    # 10 wins to 1: the maximum likelihood difference is ln 10, which is 400 points; the penalty of 1e-9 moves it by
    # less than 1e-6.
    board = crowdsift.Comparisons.from_arrays(["a"] * 10 + ["b"], ["b"] * 10 + ["a"])
    chosen = crowdsift.BradleyTerry(penalty=1e-9, tolerance=1e-12)
    fit = crowdsift.fit(board, chosen, scale="elo", anchor={"b": 1000})
    assert fit.items["score"] == pytest.approx([1400.0, 1000.0], abs=1e-4)
    sd = np.sqrt(1 / 10 + 1 / 1) / 2 * 400 / log(10)  # of a score about the mean of both
    assert fit.items["upper"][0] - fit.items["score"][0] == pytest.approx(norm.ppf(0.95) * sd, rel=1e-6)
    assert fit.difference("a", "b")["difference"][0] == pytest.approx(400.0, abs=1e-4)
    assert fit.on_scale("logit").items["score"] == pytest.approx([log(10) / 2, -log(10) / 2])


@pytest.mark.parametrize("method", ["bt", "sift", "crowd-bt", "htcv", "bora-map", "factor-bt"])
def test_elo_is_linear_and_keeps_intervals_and_predictions(votes: crowdsift.Comparisons, method: str) -> None:
    fit = crowdsift.fit(votes, crowdsift.model(method).relax(votes)[0])
    elo = fit.on_scale("elo")
    factor = 400 / log(10) * slope_of(fit)
    for name in ("score", "lower", "upper"):
        assert elo.items[name] == pytest.approx(1000 + factor * fit.items[name], rel=1e-12)
    assert elo.summary["scale_factor"] == pytest.approx(factor)
    assert elo.predict("i1", "i2") == fit.predict("i1", "i2")
    assert elo.items["rank"].tolist() == fit.items["rank"].tolist()
    assert elo.on_scale("standard").items["score"].tolist() == fit.items["score"].tolist()


def test_the_slope_is_that_of_each_likelihood(votes: crowdsift.Comparisons) -> None:
    b = {
        name: crowdsift.fit(votes, crowdsift.model(name).relax(votes)[0]) for name in ("bt", "sift", "htcv", "crowd-bt")
    }
    typical = {name: typical_reliability(fit) for name, fit in b.items()}
    assert slope_of(b["bt"]) == pytest.approx(1.0)
    assert slope_of(b["sift"]) == pytest.approx(typical["sift"])
    assert slope_of(b["htcv"]) == pytest.approx(4 * norm.pdf(0) * typical["htcv"] / np.sqrt(2))
    assert slope_of(b["crowd-bt"]) == pytest.approx(2 * typical["crowd-bt"] - 1)


def test_typical_reliability_is_the_median_over_votes() -> None:
    board = crowdsift.simulate(items=5, workers=3, comparisons=300, seed=1).comparisons()
    fit = crowdsift.fit(board, "bora-map")
    table = fit.worker_table
    plain = np.sort(np.repeat(table["reliability"], table["comparisons"]))
    assert typical_reliability(fit) == plain[(len(plain) - 1) // 2]


def test_win_rate_against_the_field(votes: crowdsift.Comparisons) -> None:
    fit = crowdsift.fit(votes, "bt")
    rate = fit.on_scale("winrate").items
    score = fit.items["score"]
    p = 1 / (1 + np.exp(score[None, :] - score[:, None]))
    assert rate["score"] == pytest.approx((p.sum(1) - 0.5) / 7)
    assert rate["score"].mean() == pytest.approx(0.5)
    assert (rate["lower"] < rate["score"]).all()
    assert (rate["score"] < rate["upper"]).all()


def test_win_rates_of_many_items_are_read_off_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    board = crowdsift.simulate(items=60, workers=7, comparisons=900, seed=4).comparisons()
    fit = crowdsift.fit(board, "bt")
    exact = fit.on_scale("winrate").items["score"]
    monkeypatch.setattr("crowdsift.results.scales._MOST_PAIRS", 10)
    assert fit.on_scale("winrate").items["score"] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("method", ["bt", "sift"])
def test_a_level_widens_every_interval(votes: crowdsift.Comparisons, method: str) -> None:
    usual, wide = (crowdsift.fit(votes, method, level=level) for level in (0.9, 0.99))
    ratio = (wide.items["upper"] - wide.items["lower"]) / (usual.items["upper"] - usual.items["lower"])
    assert ratio == pytest.approx(np.full(8, norm.ppf(0.995) / norm.ppf(0.95)))
    assert (wide.items["rank_upper"] >= usual.items["rank_upper"]).all()
    assert (wide.items["rank_lower"] <= usual.items["rank_lower"]).all()
    assert wide.summary["level"] == 0.99
    first, last = usual.labels[0], usual.labels[-1]
    one, two = (fit.difference(first, last) for fit in (usual, wide))
    assert two["upper"][0] - two["difference"][0] == pytest.approx(
        (one["upper"][0] - one["difference"][0]) * norm.ppf(0.995) / norm.ppf(0.95)
    )
    if method == "sift":
        assert (wide.workers["lower"] < usual.workers["lower"]).all()
        assert (wide.workers["upper"] > usual.workers["upper"]).all()
        assert wide.workers["verdict"].tolist() == usual.workers["verdict"].tolist()


@pytest.mark.parametrize("level", [0.6, 0.8, 0.9, 0.95, 0.99])
def test_limits_from_quantiles(level: float) -> None:
    share = (np.arange(16) + 0.5) / 16
    tails = np.array([0.5 - level / 2, 0.5 + level / 2])
    normal = 3.0 + 2.0 * norm.ppf(share)
    skewed = np.exp(norm.ppf(share))
    low, high = limits_at(level, np.stack([normal, skewed]))
    assert [low[0], high[0]] == pytest.approx(3.0 + 2.0 * norm.ppf(tails))  # exact for a normal
    if level <= 0.9:  # between the quantiles about it
        for limit, tail in zip((low[1], high[1]), tails, strict=True):
            right = np.searchsorted(share, tail)
            assert skewed[right - 1] <= limit <= skewed[right]


def test_scale_and_level_are_saved_and_an_update_keeps_them(votes: crowdsift.Comparisons, tmp_path: Path) -> None:
    fit = crowdsift.fit(votes, scale="elo", anchor={"i3": 1500}, level=0.95)
    fit.save(tmp_path / "saved")
    loaded = crowdsift.load(tmp_path / "saved")
    assert loaded.items["score"].tolist() == fit.items["score"].tolist()
    assert loaded.item_table["score"].tolist() == fit.item_table["score"].tolist()
    assert loaded.level == 0.95
    assert loaded.predict("i1", "i2") == pytest.approx(fit.predict("i1", "i2"), abs=0.02)
    assert crowdsift.fit(votes, start=tmp_path / "saved").converged
    one = {"left": ["i1"], "right": ["i2"], "winner": ["left"], "worker": ["w1"]}
    new = fit.update(one)
    assert new.summary["scale"] == "elo"
    assert new.level == 0.95
    assert new.scores_of(["i3"]) == pytest.approx([1500.0])


def test_an_anchor_holds_in_every_context() -> None:
    left, right = ["a", "b", "a", "b"], ["b", "a", "b", "c"]
    given = {"winner": left, "loser": right, "topic": ["x", "x", "y", "y"]}
    fit = crowdsift.fit(given, "bt", by="topic", workers=False, scale="elo", anchor={"b": 900})
    at = [score for item, score in zip(fit.items["item"], fit.items["score"], strict=True) if item == "b"]
    assert at == pytest.approx([900.0, 900.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "elo", "anchor": {"nobody": 1}}, "'nobody' is not among the items"),
        ({"scale": "elo", "anchor": {"i1": 1, "i2": 2}}, "one of them settles the level"),
        ({"scale": "elo", "anchor": {"i1": float("nan")}}, "needs a finite number"),
        ({"scale": "winrate", "anchor": {"i1": 1}}, "leave the anchor out"),
        ({"scale": "points"}, "one of standard, elo, logit, winrate"),
        ({"level": 0.5}, "above 0.5 and below 1"),
        ({"level": 1}, "above 0.5 and below 1"),
        ({"level": "95"}, "above 0.5 and below 1"),
    ],
)
def test_what_makes_no_sense_is_refused(votes: crowdsift.Comparisons, options: dict[str, object], message: str) -> None:
    with pytest.raises(crowdsift.RequestError, match=message):
        crowdsift.fit(votes, "bt", **options)  # type: ignore[arg-type]


def test_a_crowd_that_goes_against_the_scores_has_no_elo(votes: crowdsift.Comparisons) -> None:
    fit = crowdsift.fit(votes, "bora-map")
    table = {**fit.worker_table, "reliability": -fit.worker_table["reliability"]}
    turned = crowdsift.Fit(**{**vars(fit), "worker_table": Table(table)})
    with pytest.raises(crowdsift.RequestError, match="no elo scale"):
        turned.on_scale("elo")
    with pytest.raises(crowdsift.RequestError, match="no winrate scale"):
        turned.on_scale("winrate")


@pytest.mark.parametrize("scale", ["winrate", "elo", "logit"])
def test_a_fit_without_the_scale_is_kept_and_says_so(scale: str, tmp_path: Path) -> None:
    """Three judges see; one with most of the votes is an adversary, and so is the typical vote."""
    rng = np.random.default_rng(0)
    r, who = rng.normal(size=8), np.repeat(np.arange(4), [60, 60, 60, 900])
    a = rng.integers(0, 8, len(who))
    b = (a + rng.integers(1, 8, len(who))) % 8
    slope = np.array([2.0, 2.0, 2.0, -1.5])[who]
    won = rng.random(len(who)) < 1 / (1 + np.exp(-slope * (r[a] - r[b])))
    rows = zip(np.where(won, a, b), np.where(won, b, a), who, strict=True)
    path, out = tmp_path / "votes.csv", tmp_path / "out"
    path.write_text("winner,loser,worker\n" + "".join(f"i{w},i{x},w{s}\n" for w, x, s in rows))
    run = CliRunner().invoke(app, ["fit", str(path), "--scale", scale, "--out", str(out)])
    assert run.exit_code == 0
    fit = crowdsift.load(out)
    assert any(f"no {scale} scale" in note for note in fit.warnings)
    assert fit.summary["scale"] == "standard"
    items = fit.items
    assert (items["lower"] <= items["score"]).all()
    assert (items["score"] <= items["upper"]).all()
    assert items["score"].argmax() == 0


def test_the_command_shows_the_scale(tmp_path: Path, votes: crowdsift.Comparisons) -> None:
    crowdsift.simulate(items=8, workers=7, comparisons=900, seed=4).write(tmp_path)
    call = ["fit", str(tmp_path / "votes.csv"), "--method", "bt", "--scale", "elo"]
    run = CliRunner().invoke(app, [*call, "--anchor", "i3=1500", "--level", "0.95"])
    assert run.exit_code == 0
    assert "95 % interval" in run.stdout
    assert "Elo" in run.stdout
    assert " 1500 " in run.stdout
    wrong = CliRunner().invoke(app, [*call, "--anchor", "i3"])
    assert "--anchor takes ITEM=VALUE" in str(wrong.exception)


def test_report_and_plots_follow(votes: crowdsift.Comparisons) -> None:
    fit = crowdsift.fit(votes, "bt", scale="elo", level=0.95)
    page = fit.report(refit=False).html
    assert "95 % interval" in page
    assert "90 %" not in page
    assert f"{fit.items['score'][0]:.6g}" in page
