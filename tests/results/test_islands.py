"""Components of the comparison graph: ranks, centres, refusals; items that only won or lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from strategies import comparisons

import crowdsift
from crowdsift import Comparisons, RequestError
from crowdsift.models import MODELS
from crowdsift.votes.comparisons import tally
from crowdsift.votes.graph import components


def islands() -> Comparisons:
    return Comparisons.from_arrays(
        ["a", "b", "a", "x", "y", "x", "x"],
        ["b", "c", "c", "y", "z", "z", "y"],
        worker=["v", "w", "w", "v", "w", "v", "w"],
        sides_known=True,
    )


@pytest.mark.parametrize("method", MODELS)
def test_scores_are_centred_and_ranked_in_every_component(method):
    votes = islands().with_classes([0, 1, 0, 1, 0, 1])
    fit = crowdsift.fit(votes, method)
    assert fit.summary["components"] == 2
    assert fit.labels == ["a", "b", "c", "x", "y", "z"]
    assert fit.items["rank"].tolist() == [1, 2, 3, 1, 2, 3]
    assert fit.items["component"].tolist() == [1, 1, 1, 2, 2, 2]
    for part in (slice(0, 3), slice(3, 6)):
        assert fit.items["score"][part].mean() == pytest.approx(0.0, abs=1e-6)


def test_nothing_is_said_across_components():
    fit = crowdsift.fit(islands(), "sift")
    result = "'a' is in component 1 and 'x' in component 2"
    for ask in (fit.better, fit.predict, fit.difference):
        with pytest.raises(RequestError, match=result):
            ask("a", "x")
        with pytest.raises(RequestError, match="'b' is in component 1 and 'z' in component 2"):
            ask(["a", "b", "x"], ["c", "z", "c"])
    assert 0.5 < fit.predict("a", "c") < 1
    with pytest.raises(RequestError, match="'never seen' has no votes"):
        fit.predict("a", "never seen")
    assert 0 < fit.predict("a", "never seen", unknown="prior") < 1  # the prior's score


def test_differences_have_the_intervals_of_the_posterior():
    drawn = crowdsift.simulate(items=10, workers=8, comparisons=400, seed=3)
    fit = crowdsift.fit(drawn.comparisons(), "sift")
    result = fit.difference(fit.labels[:3], fit.labels[5:8])
    scores = fit.items["score"]
    np.testing.assert_allclose(result["difference"], scores[:3] - scores[5:8])
    codes = [fit.posterior.items.tolist().index(label) for label in fit.labels]
    covariance = fit.posterior.covariance[np.ix_(codes, codes)]
    for i in range(3):
        j = i + 5
        sd = np.sqrt(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
        assert result["upper"][i] - result["lower"][i] == pytest.approx(2 * 1.6448536 * sd, rel=1e-6)


@given(comparisons())
def test_items_that_only_won_or_lost(votes):
    flags = tally(votes, np.zeros(votes.n_items, np.int64)).flags
    for code in range(votes.n_items):
        points = [*votes.outcome[votes.first == code], *(1 - votes.outcome[votes.second == code])]
        expected = ""
        if points and min(points) == 1:
            expected = "only won"
        if points and max(points) == 0:
            expected = "only lost"
        assert flags[code] == expected


def test_items_that_only_won_are_named_and_flagged(tmp_path):
    fit = crowdsift.fit(islands(), "bt")
    assert fit.items["flag"].tolist() == ["only won", "", "only lost"] * 2
    assert any(note.startswith("2 items only won: a, x;") for note in fit.warnings)
    assert any(note.startswith("2 items only lost: c, z;") for note in fit.warnings)
    fit.save(tmp_path)
    assert crowdsift.load(tmp_path).items["flag"].tolist() == fit.items["flag"].tolist()


def test_many_such_items_are_summarised():
    names = [f"i{n:03d}" for n in range(50)]
    votes = Comparisons.from_arrays(names, ["loser"] * 50, worker=["w"] * 50)
    notes = crowdsift.fit(votes, "bt").warnings
    assert any("50 items only won: i000, i001, i002, i003, i004 and 45 more" in n for n in notes)
    winners, losers = ([f"{name}{n}" for n in range(60)] for name in "wl")
    (note,) = crowdsift.fit(Comparisons.from_arrays(winners, losers, worker=["w"] * 60), "bt").warnings[-1:]
    assert note.startswith("120 of 120 items won, or lost, all of their votes (column flag)")


@pytest.mark.parametrize(("name", "count"), [("lightfield", 14), ("musicsim", 11)])
def test_components_of_real_votes(data_dir, name, count):
    votes = crowdsift.read(data_dir / f"{name}.csv")
    assert components(votes).max() + 1 == count
    fit = crowdsift.fit(votes, "bora-em")
    assert fit.summary["components"] == count
    assert any(f"{count} components" in note for note in fit.warnings)
    # one rank 1 in every component, of items that share the context before the mark
    best = [label for label, rank in zip(fit.labels, fit.items["rank"], strict=True) if rank == 1]
    mark = "/" if name == "lightfield" else "|"
    assert len({label.split(mark)[0] for label in best}) == count
