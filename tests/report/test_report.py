"""What a report tells: its facts against the truth, its words, its checks."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons
from crowdsift.checks.leftout import Calibration, calibrate, fit_without
from crowdsift.fitting.estimate import Resources
from crowdsift.report.checks import Check, overall, run_checks
from crowdsift.report.facts import describe_population, disputed_pairs, gather
from crowdsift.results.reasons import SHORT, TEMPLATES, reasons
from crowdsift.results.tables import Table
from crowdsift.results.words import many

# Facts

ONE_THREAD = Resources(threads=1)


def test_ranking_without_flagged_workers_is_that_of_the_remaining_votes(crowd, facts):
    flagged = facts.population.flagged
    assert flagged.sum() == 30
    worker = np.repeat(np.arange(crowd.n_workers), np.diff(crowd.offsets))
    keep = ~flagged[worker]
    left = Comparisons.from_arrays(
        crowd.items[crowd.first[keep]],
        crowd.items[crowd.second[keep]],
        worker=crowd.workers[worker[keep]],
        outcome=crowd.outcome[keep],
        weight=crowd.weight[keep],
        sides_known=True,
    )
    direct = crowdsift.fit(left, threads=1).item_table
    rank = dict(zip(direct["item"], direct["rank"], strict=True))
    assert facts.without.rank.tolist() == [rank[item] for item in crowd.items]
    whole = facts.fit.item_table
    before = dict(zip(whole["item"], whole["rank"], strict=True))
    assert facts.without.before.tolist() == [before[item] for item in crowd.items]


def test_items_that_lose_all_votes_have_no_rank():
    votes = Comparisons.from_arrays(["a", "b", "a", "c"], ["b", "c", "c", "d"], worker=["x", "x", "x", "y"])
    found = fit_without(votes, crowdsift.Sift(), np.array([False, True]), np.array([2.0, 1.0, 0.0, -1.0]))
    assert found.lost == 1
    assert found.rank[3] == 0
    assert sorted(found.rank[:3]) == [1, 2, 3]


def test_calibration_of_the_true_model_has_no_gap_and_that_of_a_wrong_one_has():
    drawn = crowdsift.simulate(30, 40, 20_000, reliability=(0.5, 2.5), seed=4)
    right = calibrate(drawn.comparisons(), crowdsift.Sift(), resources=ONE_THREAD)
    assert right.votes.sum() == pytest.approx(4000, rel=0.05)
    assert right.gap < 0.01
    assert right.log_loss < 0.6
    coin = crowdsift.simulate(100, 9, 600, reliability=(0.0, 1e-9), seed=4).comparisons()
    sure = calibrate(coin, crowdsift.BradleyTerry(penalty=1e-6), resources=ONE_THREAD)
    assert sure.gap > 0.1
    assert sure.log_loss > np.log(2)


def test_gap_is_zero_within_chance_and_the_distance_beyond_it():
    p, votes = np.array([0.6, 0.9]), np.array([1e12, 1e12])
    exact = Calibration(p, p, votes, 0.5, 0.75)
    assert exact.gap == 0.0
    assert replace(exact, observed=p - 0.1).gap == pytest.approx(0.1, abs=1e-5)
    few = Calibration(np.array([0.5]), np.array([0.55]), np.array([50.0]), 0.5, 0.5)
    assert few.gap == 0.0  # √(2 · ¼ / 50π) = .056


def test_predictions_are_those_of_fit_predict(crowd):
    from crowdsift.checks.leftout import predicted_probability
    from crowdsift.engines import choose_engine

    rule = crowdsift.BoraEM()  # without a posterior both are exactly σ(β d)
    estimate = rule.estimate(choose_engine("cpu", crowd, 1))
    p = predicted_probability(crowd, rule, estimate)
    fit = crowdsift.fit(crowd, rule, threads=1)
    worker = np.repeat(crowd.workers, np.diff(crowd.offsets))
    some = slice(0, 60)
    direct = fit.predict(crowd.items[crowd.first[some]], crowd.items[crowd.second[some]], worker[some])
    np.testing.assert_allclose(p[some], direct, atol=1e-9)


def test_predictions_have_the_likelihood_that_sift_gives_to_left_out_votes():
    from crowdsift.checks.leftout import predicted_probability
    from crowdsift.engines import choose_engine
    from crowdsift.votes.graph import folds

    votes = crowdsift.simulate(12, 10, 3000, reliability=(-1.0, 2.0), seed=5).comparisons()
    kept, left_out = next(folds(votes, 5, 0))
    rule = crowdsift.Sift()
    estimate = rule.estimate(choose_engine("cpu", kept, 1))
    estimate = replace(estimate, precision=None)  # sift takes errors of scores as independent
    p = predicted_probability(left_out, rule, estimate)
    result = np.where(left_out.outcome > 0.5, p, 1.0 - p)
    direct = rule.left_out(choose_engine("cpu", left_out, 1), estimate)
    assert (left_out.weight * np.log(result)).sum() == pytest.approx(direct, rel=1e-4)


def test_disputes_are_the_most_divided_pairs_by_brute_force(crowd, facts):
    counts: dict[tuple[int, int], list[float]] = {}
    worker = np.repeat(np.arange(crowd.n_workers), np.diff(crowd.offsets))
    for a, b, y, w, s in zip(crowd.first, crowd.second, crowd.outcome, crowd.weight, worker, strict=True):
        if facts.population.flagged[s]:
            continue
        low, high, won = (a, b, y) if a < b else (b, a, 1 - y)
        pair = counts.setdefault((int(low), int(high)), [0.0, 0.0])
        pair[0] += w * won
        pair[1] += w * (1 - won)
    for dispute in facts.disputes:
        found = counts[min(dispute[:2]), max(dispute[:2])]
        assert sorted(found) == sorted(dispute[2:])
    evenest = max(min(pair) for pair in counts.values() if pair[0] == pair[1])
    assert min(facts.disputes[0][2:]) == evenest


def test_pairs_without_votes_on_both_sides_are_no_dispute():
    votes = Comparisons.from_arrays(["a"] * 9, ["b"] * 9, worker=list(range(9)))
    assert disputed_pairs(votes, np.zeros(9, bool)) == []


def test_left_shares_count_decided_votes():
    votes = Comparisons.from_arrays(
        ["a", "b", "c", "a"],
        ["b", "c", "a", "c"],
        worker=["x", "x", "x", "y"],
        outcome=[1, 0, 0.5, 1],
        sides_known=True,
    )
    crowd = describe_population(crowdsift.fit(votes), votes)
    assert crowd.left_share.tolist() == [0.5, 1.0]
    assert crowd.decided.tolist() == [2.0, 1.0]


def test_a_crowd_that_prefers_the_left_is_told_from_one_that_does_not(crowd, facts):
    assert abs(facts.side_excess[0]) < 2.5 * facts.side_excess[1]
    rng = np.random.default_rng(1)
    left = (crowd.outcome > 0.5) | (rng.random(len(crowd)) < 0.3)
    leaning = replace(crowd, outcome=left.astype(np.float32))
    biased = gather(crowdsift.fit(leaning, "bora-em", threads=1), refit=False)
    assert biased.side_excess[0] > 5 * biased.side_excess[1]
    assert _state(biased, "sides") == "bad"


# Reasons and checks


def _table(verdict: str, **figures: float) -> Table:
    usual = {"reliability": 1.0, "comparisons": 30.0, "agreement": 0.7, "left_share": 0.5, "lower": -0.1, "upper": 2.0}
    columns = {name: np.array([1.0, value]) for name, value in (usual | figures).items()}
    columns["verdict"] = np.array(["reliable", verdict], dtype=object)
    return Table(columns)


@pytest.mark.parametrize(
    ("verdict", "figures", "words"),
    [
        ("reliable", {}, "The answers follow the quality of the items. 30 votes, 70 % agreement"),
        ("weak", {"agreement": 0.61}, "less closely than those of a typical worker. 30 votes, 61 %"),
        ("random", {"agreement": 0.48}, "do not differ clearly from guessing. 30 votes, 48 %"),
        ("adversarial", {"agreement": 0.2}, "perhaps the question was understood the other way"),
        ("one-sided", {"left_share": 0.97}, "Most answers chose the item on the left, whichever"),
        ("one-sided", {"left_share": 0.03}, "Most answers chose the item on the right, whichever"),
        ("one-sided", {"left_share": 0.97}, "97 % of the decided answers chose the left item."),
        ("undecided", {}, "not enough to judge this worker; they count like all others. 30 votes,"),
        ("undecided", {"agreement": np.nan}, "they count like all others. 30 votes."),
        ("reliable", {}, "70 % agreement with the order that the other workers' votes imply"),
    ],
)
def test_every_verdict_has_its_reasons(verdict, figures, words):
    text = " ".join(map(str, reasons(_table(verdict, **figures))[1])).replace("\u00a0", " ")
    assert words in text
    assert not re.search("sure|probab|nats|interval", text)  # it may be sent to the worker


def test_numbers_of_votes_are_whole_but_for_rounding():
    """Pairs of a ranking of three weigh 2/3 in single precision: three of them were "2.0 votes"."""
    pair = float(np.float32(2.0 / 3.0))
    assert many(1.5 * pair, "vote") == "1 vote"
    assert many(3000 * pair, "vote") == "2,000 votes"
    assert many(4.3, "vote") == "4.3 votes"


def test_a_side_is_mentioned_only_where_it_matters():
    quiet = [{"left_share": 0.6}, {"left_share": 1.0, "comparisons": 3.0}, {"left_share": np.nan}]
    for figures in quiet:
        result = reasons(_table("reliable", **figures))[1]
        assert not any("left" in str(reason) for reason in result)


def test_no_reason_is_given_where_a_method_judges_nobody(crowd):
    fit = crowdsift.fit(crowd, "bt")
    assert describe_population(fit, crowd).reasons == [[]] * crowd.n_workers


def test_templates_are_filled_by_their_figures(facts):
    for worker in facts.population.reasons:
        assert worker
        for reason in worker:
            for template in (TEMPLATES[reason.code], SHORT[reason.code]):
                used = {int(place) for place in re.findall(r"\{(\d)\}", template)}
                assert used <= set(range(len(reason.figures)))


ISLANDS = Comparisons.from_arrays(["a", "c"], ["b", "d"], worker=["x", "x"])
ONE_VOTE = Comparisons.from_arrays(["a"], ["b"], worker=["x"])


def _state(facts, key: str) -> str:
    return next(check.state for check in run_checks(facts) if check.key == key)


def test_every_check_is_stated_either_way(facts):
    checks = run_checks(facts)
    assert [check.key for check in checks] == [
        "first",
        "separation",
        "misfit",
        "circles",
        "copies",
        "item-votes",
        "worker-votes",
        "connected",
        "sign",
        "converged",
        "flagged",
        "one-worker",
        "sides",
        "calibration",
    ]
    assert all(check.finding for check in checks)
    assert all(check.advice for check in checks if check.state in ("care", "bad"))
    assert _state(facts, "flagged") == "care"  # 37 % of the votes


@pytest.mark.parametrize(
    ("key", "votes", "method", "state"),
    [
        ("connected", ISLANDS, "sift", "care"),
        ("item-votes", ISLANDS, "sift", "bad"),
        ("worker-votes", ONE_VOTE, "sift", "bad"),
        ("one-worker", ONE_VOTE, "sift", "bad"),
        ("worker-votes", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
        ("sign", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
        ("flagged", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
        ("sides", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
        ("calibration", Comparisons.from_arrays(["a"], ["b"]), "bt", "none"),
    ],
)
def test_checks_see_what_is_wrong(key, votes, method, state):
    assert _state(gather(crowdsift.fit(votes, method)), key) == state


def test_an_unfinished_calculation_fails_its_check(crowd):
    with pytest.warns(crowdsift.ConvergenceWarning):
        fit = crowdsift.fit(crowd, crowdsift.Sift(most_iterations=2))
    assert _state(gather(fit, refit=False), "converged") == "bad"


def test_a_crowd_half_of_which_votes_the_other_way_has_no_clear_sign():
    drawn = crowdsift.simulate(20, 20, 4000, reliabilities=np.array([1.0, -1.0] * 10), seed=2)
    assert _state(gather(crowdsift.fit(drawn.comparisons()), refit=False), "sign") == "bad"


def test_the_answer_follows_the_worst_check():
    good, care, bad, none = (Check(s, s, s, "") for s in ("good", "care", "bad", "none"))
    assert overall([good, good])[:2] == ("good", "Yes")
    assert overall([good, care])[0] == "care"
    assert overall([care, bad])[0] == "bad"
    assert "1 could not be made" in overall([good, none])[2]


def test_gold_settles_which_end_is_up_and_the_refit_follows_it():
    kinds = np.array([1.0] * 8 + [-1.0] * 12)
    drawn = crowdsift.simulate(15, 20, 4000, reliabilities=kinds, seed=2)
    order = np.argsort(-drawn.scores)
    gold = {"winner": drawn.items[order[:4]], "loser": drawn.items[order[-4:]]}
    facts = gather(crowdsift.fit(drawn.comparisons(), gold=gold))
    assert _state(facts, "sign") == "good"  # although most workers answer the opposite
    assert facts.without.tau > 0.8
    check = next(check for check in run_checks(facts) if check.key == "sign")
    assert check.finding == ("4 of 4 pairs with a known answer agree with the ranking made without them.")


def test_the_refit_follows_the_direction_of_gold():
    rng = np.random.default_rng(3)
    x, a = rng.normal(size=(20, 2)), rng.normal((1.0, 0.0), size=(60, 2))
    a[:6] = 0.0  # random workers, to be flagged
    who, one = np.repeat(np.arange(60), 150), rng.integers(20, size=9000)
    two = (one + rng.integers(1, 20, 9000)) % 20
    z = (a[who] * (x[one] - x[two])).sum(axis=1)
    outcome = (rng.random(9000) < 1 / (1 + np.exp(-z))).astype(float)
    votes = Comparisons.from_arrays(one, two, worker=who, outcome=outcome)
    order = np.argsort(-x[:, 1])  # not what the crowd has in common
    gold = {"winner": order[:5], "loser": order[-5:]}
    fit = crowdsift.fit(votes, crowdsift.Sift(dimensions=2), gold=gold, threads=1)
    assert fit.summary["direction"] == "gold"
    assert gather(fit).without.tau > 0.9
    page = fit.report(refit=False).html  # the many who follow something else are not called the opposite of others
    assert "how well a worker's answers follow the scores of this report: 0 means not at all" in page


def test_what_the_page_names_makes_the_same_fit_again(tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    pairs = [rng.choice(5, 2, replace=False) for _ in range(400)]
    rows = [f"i{min(p)},i{max(p)},w{k % 9},{k % 40}" for k, p in enumerate(pairs)]
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser,worker,prompt\n" + "\n".join(rows))
    fit = crowdsift.fit(path, "bt", dependent_by="prompt", scale="elo", anchor={"i2": 1200.0}, level=0.8)
    page = fit.report(refit=False).html
    command = unescape(re.search(r"Make it again</h3>\s*<pre><code>(.*?)</code>", page, re.DOTALL)[1])
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(compile(command, "report", "exec"), found)
    for name in ("score", "lower", "upper"):
        assert found["fit"].items[name] == pytest.approx(fit.items[name], abs=1e-12)
    assert (tmp_path / "report.html").is_file()
