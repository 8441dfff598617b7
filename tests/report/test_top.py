"""The part of the report about the top: sentences that follow the figures, and the matrix."""

from __future__ import annotations

import re

import pytest

import crowdsift
from crowdsift.report.facts import gather
from crowdsift.report.top import matrix_figure, top_sentences


def board(wins: int, losses: int) -> crowdsift.Comparisons:
    """Three items; the first beats the second in `wins` of both, the third in nearly all."""
    counts = {("a", "b"): wins, ("b", "a"): losses, ("a", "c"): 60, ("c", "a"): 3}
    counts |= {("b", "c"): 60, ("c", "b"): 3}
    first, second = zip(*counts, strict=True)
    return crowdsift.Comparisons.from_arrays(first, second, weight=list(counts.values()))


def test_a_clear_leader_and_a_shared_first_place() -> None:
    clear = crowdsift.fit(board(80, 10), "bt")
    assert top_sentences(clear)[0] == "a is clearly the best (90 % sure)."
    shared = crowdsift.fit(board(11, 10), "bt", level=0.95)
    told = top_sentences(shared)[0]
    assert told.startswith("2 items share first place: “a”, “b”")
    assert "95 % sure" in told
    apart = int(shared.joint()["above_next"].sum())
    assert top_sentences(shared)[1].startswith(f"{apart} of 2 neighbouring pairs")


def test_what_was_asked_for_is_told() -> None:
    votes = crowdsift.simulate(items=6, workers=9, comparisons=500, seed=2).comparisons()
    plain = crowdsift.fit(votes, "bt")
    asked = plain.with_robustness().with_statistics(halves=2)
    told = " ".join(top_sentences(asked))
    assert asked.summary["robustness"]["text"] in told
    assert "Two halves of the workers" in told
    assert "Krippendorff" in told
    assert "Krippendorff" not in " ".join(top_sentences(plain))
    page = asked.report(refit=False).html
    assert "How sure is the top?" in page
    assert asked.summary["robustness"]["text"] in page


def test_the_matrix_holds_the_probabilities() -> None:
    fit = crowdsift.fit(board(30, 10), "bt")
    picture = matrix_figure(gather(fit, refit=False), 980)
    told = sorted(int(text) for text in re.findall(r'class="tick middle">(\d+)<', picture))
    matrix = fit.win_matrix()
    wanted = [round(100 * matrix[i, j]) for i in range(3) for j in range(3) if i != j]
    assert told == sorted([*wanted, 1, 2, 3])


@pytest.mark.parametrize("method", ["rank-centrality", "bt"])
def test_islands_and_methods_without_intervals_have_no_joint_words(method: str) -> None:
    votes = crowdsift.Comparisons.from_arrays(["a", "c", "b"], ["b", "d", "a"])
    fit = crowdsift.fit(votes, method)
    assert not any("first place" in sentence for sentence in top_sentences(fit))
    assert matrix_figure(gather(fit, refit=False), 980) == ""
    assert fit.report(refit=False).html


def test_hidden_workers_are_hidden_in_the_summary() -> None:
    votes = crowdsift.simulate(items=6, workers=9, comparisons=500, seed=2).comparisons()
    fit = crowdsift.fit(votes, "bt").with_robustness().hide_workers()
    named = fit.summary["robustness"]["workers"]
    assert named
    assert set(named) <= set(fit.workers["worker"].tolist())
    assert not set(named) & set(votes.workers.tolist())


def test_a_page_stays_below_5_mb_whatever_the_labels() -> None:
    count = 20_000
    text = "A prompt that goes on and on, with details. " * 20
    items = [f"{i}: {text}" for i in range(count)]
    chain = crowdsift.Comparisons.from_arrays(
        items[:-1], items[1:], worker=[f"w{i} {text}" for i in range(count - 1)]
    )
    page = crowdsift.fit(chain, "bt").report(refit=False).html
    assert len(page.encode()) < 5_000_000
    assert "The table holds the first" in page
