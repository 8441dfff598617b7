"""The plots for notebooks draw what the tables say."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons, RequestError
from crowdsift.lab.demonstration import crowd_with_spammers
from crowdsift.report import plots
from crowdsift.report.facts import describe_population

matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib: crowdsift[plots]")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def fit():
    return crowdsift.fit(crowd_with_spammers().comparisons())


@pytest.fixture(autouse=True)
def closed():
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def drawn(ax) -> None:
    """Draw for real: a label that is no formula, an axis that has no room, would fail here."""
    ax.figure.canvas.draw()


def test_leaderboard_shows_scores_and_intervals(fit):
    ax = plots.leaderboard(fit, top=7)
    line = ax.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), fit.item_table["score"][:7])
    (bars,) = ax.collections
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends[:, 0], fit.item_table["lower"][:7])
    np.testing.assert_allclose(ends[:, 1], fit.item_table["upper"][:7])
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == fit.item_table["item"][:7].tolist()
    drawn(ax)


def test_leaderboard_of_ranks(fit):
    ax = plots.leaderboard(fit, top=5, ranks=True)
    assert ax.lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5]


def test_workers_are_coloured_by_verdict(fit):
    ax = plots.workers(fit)
    result = [text.get_text() for text in ax.get_legend().get_texts()]
    words, counts = np.unique(fit.worker_table["verdict"].astype(str), return_counts=True)
    assert sorted(result) == sorted(f"{w} ({c})" for w, c in zip(words, counts, strict=True))
    assert sum(len(dots.get_offsets()) for dots in ax.collections) == 80
    drawn(ax)


def test_the_distribution_behind_has_its_peaks_where_workers_were_planted(fit):
    at, height = describe_population(fit, None).density
    assert (0.5 * (height[1:] + height[:-1]) * np.diff(at)).sum() == pytest.approx(1.0, abs=0.01)
    valley = height[(at > -0.7) & (at < -0.4)].min()
    assert height[np.abs(at) < 0.1].max() > 2 * valley  # those who click at random
    assert height[at < -1].max() > valley


def test_calibration_and_the_ranking_without_flagged_workers(fit):
    ax = plots.calibration(fit)
    shown = ax.collections[-1].get_offsets()
    assert len(shown) > 2
    assert ((shown >= 0.0) & (shown <= 100.0)).all()
    drawn(ax)
    ax = plots.without_flagged(fit, top=6)
    assert len(ax.lines) == 6
    drawn(ax)


def test_convergence_is_the_trace(fit):
    np.testing.assert_array_equal(plots.convergence(fit).lines[0].get_ydata(), fit.trace)


def test_axes_that_are_given_are_used(fit):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert plots.leaderboard(fit, ax=ax) is ax
    assert plots.workers(fit, ax=ax) is ax


def test_names_are_plain_text():
    names = ["$x^2", "a_b$c$", "<b>", "x" * 500]
    votes = Comparisons.from_arrays(names, names[1:] + names[:1], worker=["w"] * 4)
    ax = plots.leaderboard(crowdsift.fit(votes))
    drawn(ax)
    result = ax.get_yticklabels()
    assert {each.get_text() for each in result} > set(names[:3])
    assert not any(each.get_parse_math() for each in result)  # dollars are no mathematics


def test_what_cannot_be_drawn_is_refused(fit, monkeypatch):
    votes = Comparisons.from_arrays(["a"], ["b"], worker=["x"])
    with pytest.raises(RequestError, match="estimates no reliabilities"):
        plots.workers(crowdsift.fit(votes, "bt"))
    with pytest.raises(RequestError, match="too few to leave a part out"):
        plots.calibration(crowdsift.fit(votes))
    with pytest.raises(RequestError, match="No worker is flagged"):
        plots.without_flagged(crowdsift.fit(votes))
    with pytest.raises(RequestError, match="votes are missing"):
        plots.calibration(replace(fit, votes=None))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RequestError, match="need matplotlib"):
        plots.leaderboard(fit)
