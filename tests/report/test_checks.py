"""The part of the report about the top: sentences that follow the figures, and the matrix."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import crowdsift
from crowdsift.report.checks import BADGES, first_badges, run_checks, top_sentences
from crowdsift.report.facts import gather
from crowdsift.report.figures import Drawing, matrix_figure


def board(wins: int, losses: int) -> crowdsift.Comparisons:
    """Three items; the first beats the second in `wins` of both, the third in nearly all."""
    counts = {("a", "b"): wins, ("b", "a"): losses, ("a", "c"): 60, ("c", "a"): 3}
    counts |= {("b", "c"): 60, ("c", "b"): 3}
    first, second = zip(*counts, strict=True)
    return crowdsift.Comparisons.from_arrays(first, second, weight=list(counts.values()))


def test_a_clear_leader_and_a_shared_first_place() -> None:
    clear = gather(crowdsift.fit(board(80, 10), "bt"), refit=False)
    assert top_sentences(clear) == ["“a” is clearly the best (over 99\u00a0%)."]
    check = {check.key: check for check in run_checks(clear)}["first"]
    assert check.state == "good"
    apart = int(clear.fit.joint()["above_next"][1:].sum())
    rest = f"of 1 other neighbouring pair {apart} are clearly apart, all at once."
    assert check.finding == f"One item is clearly the best (90 %); {rest}"
    shared = gather(crowdsift.fit(board(11, 10), "bt", level=0.95), refit=False)
    assert "between “a” and “b”: one of them is the best with probability " in top_sentences(shared)[0]
    apart = int(shared.fit.joint()["above_next"].sum())
    check = {check.key: check for check in run_checks(shared)}["first"]
    assert (check.state, check.finding) == (
        "care",
        f"2 items may be the best (95 %); of 2 neighbouring pairs {apart} are clearly apart, all at once.",
    )


@pytest.mark.parametrize("level", [0.8, 0.9, 0.99])
def test_no_leader_is_clear_whose_ranks_or_lead_are_not(level) -> None:
    """Fault 3: "clearly first" beside ranks 1 to 2, ranks 1 to 1 beside others that may be."""
    seen = set()
    for wins in range(10, 40):
        facts = gather(crowdsift.fit(board(wins, 10), "bt", level=level), refit=False)
        table, badges = facts.fit.item_table, first_badges(facts.fit, facts.evidence.joint)
        (sentence,) = top_sentences(facts)
        word = BADGES[badges[0]]
        seen.add(word)
        assert ("clearly" in sentence) == (word == "clearly first")
        alone = table["rank_upper"][0] == 1
        assert (word == "may be first") == (2 in badges[1:]) == (table["rank_lower"][1] == 1)
        assert alone or word != "clearly first"
        assert not (alone and word == "may be first")
    assert {"clearly first", "may be first"} <= seen


def test_what_was_asked_for_is_a_check() -> None:
    votes = crowdsift.simulate(items=6, workers=9, comparisons=500, seed=2).comparisons()
    plain = crowdsift.fit(votes, "bt")
    asked = plain.with_robustness().with_statistics(halves=2)
    found = {check.key: check for check in run_checks(gather(asked, refit=False))}
    robust = asked.summary["robustness"]
    assert found["leader"].finding == robust["text"] + "."
    fragile = robust["votes"] <= 2 or robust["votes"] < 0.01 * 500
    assert found["leader"].state == ("care" if fragile else "good")
    assert "Two halves of the workers" in found["separation"].finding
    triads = asked.statistics().triads
    assert triads is not None
    assert found["circles"].finding.startswith(f"{triads.intransitive} of {triads.triads} triads")
    assert "leader" not in {check.key for check in run_checks(gather(plain, refit=False))}
    page = asked.report(refit=False).html
    assert page.count(robust["text"]) == 1  # no sentence twice


def test_planted_misfit_copies_and_drift_are_checks() -> None:
    drawn = crowdsift.simulate(40, 12, 3000, reliability=(1.5, 1.5), seed=1).comparisons()
    rng = np.random.default_rng(0)
    worker = drawn.worker_codes()
    outcome = np.where(worker == 3, rng.random(len(drawn)) < 0.5, drawn.outcome)
    table = {
        "first": drawn.items[drawn.first],
        "second": drawn.items[drawn.second],
        "outcome": outcome.astype(float),
        "worker": drawn.workers[worker],
    }
    copied = {name: np.concatenate([column, column[worker == 5]]) for name, column in table.items()}
    copied["worker"][len(drawn) :] = "copycat"
    fit = crowdsift.fit(copied, "bora-map")
    facts = gather(fit, refit=False)
    found = {check.key: check for check in run_checks(facts)}
    assert found["misfit"].state == "good"  # who clicks at random is flagged already
    noise = {check.key: check for check in run_checks(gather(crowdsift.fit(copied, "bt")))}
    assert noise["misfit"].state == "care"
    assert str(drawn.workers[3]) in noise["misfit"].finding
    assert found["copies"].state == "care"
    assert "copycat" in found["copies"].finding
    late = replace(fit, summary={**fit.summary, "drift": {"workers": ["w7"]}})
    drift = {check.key: check for check in run_checks(replace(facts, fit=late))}["drift"]
    assert (drift.state, "w7" in drift.finding) == ("care", True)


def test_the_matrix_holds_the_probabilities() -> None:
    fit = crowdsift.fit(board(30, 10), "bt")
    picture = matrix_figure(gather(fit, refit=False))(980)
    result = sorted(int(text) for text in re.findall(r'class="tick (?:share )?middle">(\d+)<', picture))
    matrix = fit.win_matrix()
    wanted = [round(100 * matrix[i, j]) for i in range(3) for j in range(3) if i != j]
    assert result == sorted([*wanted, 1, 2, 3])


@pytest.mark.parametrize("method", ["rank-centrality", "bt"])
def test_islands_and_methods_without_intervals_have_no_joint_words(method: str) -> None:
    votes = crowdsift.Comparisons.from_arrays(["a", "c", "b"], ["b", "d", "a"])
    fit = crowdsift.fit(votes, method)
    facts = gather(fit, refit=False)
    assert top_sentences(facts) == []
    assert "first" not in {check.key for check in run_checks(facts)}
    assert matrix_figure(facts) is None
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
    chain = crowdsift.Comparisons.from_arrays(items[:-1], items[1:], worker=[f"w{i} {text}" for i in range(count - 1)])
    page = crowdsift.fit(chain, "bt").report(refit=False).html
    assert len(page.encode()) < 5_000_000
    assert "The table holds the first" in page


def test_a_page_of_marks_that_grow_when_escaped_stays_below_5_mb() -> None:
    count = 9_000
    items = [f"{i}{'<&>' * 60}" for i in range(count)]
    chain = crowdsift.Comparisons.from_arrays(items[:-1], items[1:], worker=items[:-1])
    assert len(crowdsift.fit(chain, "bt").report(refit=False).html.encode()) < 5_000_000


def test_dots_of_very_many_workers_are_few() -> None:
    rng = np.random.default_rng(0)
    picture = Drawing(970, 400, "dots")
    picture.dots(rng.uniform(0, 970, 100_000), rng.uniform(0, 400, 100_000), "dots")
    assert 100_000 < len(picture.text()) < 1_000_000  # one in two by two points at most
