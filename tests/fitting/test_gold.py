"""Gold: read and refused, the sign it settles, and the warning where it is missing."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln
from strategies import comparisons

import crowdsift
from crowdsift import Comparisons, InputError, cli
from crowdsift.fitting.estimate import without_gold
from crowdsift.io.items import read_gold
from crowdsift.models import MODELS, Sift, model
from crowdsift.models.base import mirror, sign_log_odds
from crowdsift.results.sign import Agreement, gold_needed, order_probability, signed_without_each

FREE = [name for name, kind in MODELS.items() if kind.free_sign]


def crowd(low: float, high: float, seed: int = 4):
    return crowdsift.simulate(items=20, workers=30, comparisons=3000, reliability=(low, high), seed=seed)


def true_pairs(drawn, count: int = 5):
    """The best items over the worst ones."""
    order = np.argsort(-drawn.scores)
    return {"winner": drawn.items[order[:count]], "loser": drawn.items[order[-count:]]}


def votes() -> Comparisons:
    return Comparisons.from_arrays(["a", "b", "c"], ["b", "c", "d"], worker=["x", "y", "y"])


def test_the_methods_of_free_sign_are_those_with_a_mirror_image():
    drawn = crowd(0.5, 1.0)
    data = drawn.comparisons().with_classes([0, 1] * 10)
    for name, kind in MODELS.items():
        if name == "rank-centrality":
            continue
        chosen = model(name)
        engine = crowdsift.engines.choose_engine("cpu", chosen.prepare(data))
        estimate = chosen.estimate(engine)
        turned = mirror(chosen, estimate)
        allowed = np.clip(turned.theta, *getattr(chosen, "bounds", (-np.inf, np.inf)))
        other = chosen.left_out(engine, replace(turned, theta=allowed))
        same = chosen.left_out(engine, estimate)
        if kind.free_sign:
            assert other == pytest.approx(same, rel=1e-6), name
        else:
            assert other < same - 1.0, name


@pytest.mark.parametrize("name", FREE)
def test_gold_turns_a_crowd_of_liars(name):
    drawn = crowd(-1.0, -0.4)
    result = crowdsift.fit(drawn.comparisons(), name, gold=true_pairs(drawn))
    truth = dict(zip(drawn.items, drawn.scores, strict=True))
    scores = result.items["score"]
    assert np.corrcoef(scores, [truth[label] for label in result.labels])[0, 1] > 0.9
    assert (result.workers["verdict"] == "adversarial").mean() > 0.8
    assert result.summary["gold_agree"] == 5
    assert result.summary["gold_disagree"] == 0
    assert not result.summary["sign_unsettled"]
    level = 0.5 if name == "crowd-bt" else 0.0
    assert np.median(result.workers["reliability"]) < level
    assert (result.workers["lower"] <= result.workers["upper"]).all()
    assert result.workers["agreement"].mean() < 0.5


@pytest.mark.parametrize("name", [name for name in FREE if not MODELS[name].takes_gold])
def test_turned_by_gold_is_the_mirror_image(name):
    drawn = crowd(0.4, 1.0)
    plain = crowdsift.fit(drawn.comparisons(), name)
    right = true_pairs(drawn)
    wrong = {"winner": right["loser"], "loser": right["winner"]}
    kept = crowdsift.fit(drawn.comparisons(), name, gold=right)
    turned = crowdsift.fit(drawn.comparisons(), name, gold=wrong)
    np.testing.assert_array_equal(kept.scores_of(drawn.items), plain.scores_of(drawn.items))
    np.testing.assert_array_equal(turned.scores_of(drawn.items), -plain.scores_of(drawn.items))
    level = 0.5 if name == "crowd-bt" else 0.0
    for one, other in (("reliability", "reliability"), ("lower", "upper"), ("upper", "lower")):
        np.testing.assert_allclose(turned.workers[one], 2 * level - plain.workers[other], atol=1e-12)
    first, second = drawn.items[:2]
    worker = plain.workers["worker"][3]
    assert turned.predict(first, second, worker) == pytest.approx(plain.predict(first, second, worker))
    assert turned.better(first, second) == pytest.approx(1 - plain.better(first, second))


def test_a_method_without_a_free_sign_says_that_it_is_contradicted():
    drawn = crowd(-1.0, -0.4)
    result = crowdsift.fit(drawn.comparisons(), "bt", gold=true_pairs(drawn))
    plain = crowdsift.fit(drawn.comparisons(), "bt")
    np.testing.assert_array_equal(result.scores_of(drawn.items), plain.scores_of(drawn.items))
    assert any("5 of 5 gold pairs contradict" in note for note in result.warnings)


def sparse_votes(seed: int):
    """True scores, few votes on many items, and gold on half of the items, each in one pair."""
    rng = np.random.default_rng(seed)
    scores, who = rng.normal(size=40), np.repeat(np.arange(10), 16)
    one = rng.integers(0, 40, len(who))
    two = (one + rng.integers(1, 40, len(who))) % 40
    won = rng.random(len(who)) < 1 / (1 + np.exp(-0.7 * (scores[one] - scores[two])))
    data = Comparisons.from_arrays(np.where(won, one, two), np.where(won, two, one), worker=who)
    pairs = rng.permutation(data.items)[: data.n_items // 2 * 2].astype(int).reshape(-1, 2)
    turned = (scores[pairs[:, 0]] < scores[pairs[:, 1]])[:, None]
    pairs = np.where(turned, pairs[:, ::-1], pairs)
    return data, {"winner": pairs[:, 0], "loser": pairs[:, 1]}


def agreeing(fit, gold) -> int:
    return int((fit.scores_of(gold["winner"]) > fit.scores_of(gold["loser"])).sum())


def test_gold_is_compared_with_scores_that_were_found_without_it():
    """Scores that were fitted to gold agree with it whether the votes do or not."""
    inside = left_out = really = total = 0
    for seed in range(6):
        data, gold = sparse_votes(seed)
        fit = crowdsift.fit(data, gold=gold, threads=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", crowdsift.SignWarning)
            without = agreeing(crowdsift.fit(data, threads=1), gold)
        count = len(gold["winner"])
        assert fit.summary["gold_pairs"] == count
        inside += agreeing(fit, gold)
        left_out += fit.summary["gold_agree"]
        really += max(without, count - without)
        total += fit.summary["gold_agree"] + fit.summary["gold_disagree"]
    assert inside > 0.95 * total
    assert abs(left_out - really) < 0.08 * total
    assert left_out < 0.85 * total


def test_gold_that_only_settles_the_sign_is_left_out_pair_by_pair():
    """A single pair that turns the scores of a crowd of liars has nothing to agree with."""
    drawn = crowd(-1.0, -0.4)
    found = {}
    for count in (1, 2):
        fit = crowdsift.fit(drawn.comparisons(), "bora-em", gold=true_pairs(drawn, count))
        found[count] = fit.summary["gold_agree"], fit.summary["gold_disagree"]
        truth = dict(zip(drawn.items, drawn.scores, strict=True))
        assert np.corrcoef(fit.items["score"], [truth[x] for x in fit.labels])[0, 1] > 0.9
    assert found == {1: (0, 1), 2: (2, 0)}


@given(st.lists(st.floats(-2, 2).map(lambda x: round(x, 1)) | st.just(np.nan), min_size=1))
def test_each_pair_has_the_sign_that_the_others_give(values):
    difference = np.array(values)
    found = signed_without_each(difference)
    for i, own in enumerate(difference):
        others = Agreement.of(np.delete(difference, i))
        close = np.isclose(others.margin, 0.0) and others.agree == others.disagree
        if not np.isnan(own) and not close:
            assert found[i] == (-own if others.opposed else own)


def test_votes_of_every_worker_on_gold_pairs_are_counted():
    data = Comparisons.from_arrays(
        ["a", "b", "a", "c", "a"],
        ["b", "a", "b", "a", "d"],
        outcome=[1.0, 1.0, 0.5, 1.0, 1.0],
        weight=[3, 1, 2, 1, 1],
        worker=["x", "x", "y", "z", "z"],
    )
    fit = crowdsift.fit(data, "bora-map", gold={"winner": ["a", "c"], "loser": ["b", "a"]})
    assert fit.workers["gold_votes"].tolist() == [4, 2, 1]
    np.testing.assert_allclose(fit.workers["gold_agreement"], [0.75, 0.5, 1.0])
    assert "gold_votes" not in crowdsift.fit(data, "bora-map").workers


def test_the_check_of_gold_can_be_left_out():
    data, gold = sparse_votes(1)
    fit = crowdsift.fit(data, gold=gold, check_gold=False)
    assert fit.summary["gold_pairs"] == len(gold["winner"])
    assert fit.summary["gold_agree"] is None
    assert "was not checked" in fit.report(refit=False).html


@pytest.mark.parametrize("limit", [299, 300])
def test_gold_is_not_checked_by_more_fits_of_many_votes(monkeypatch, limit):
    data = {"winner": [], "loser": [], "worker": []}
    for number in range(300):
        data["winner"].append(number % 7)
        data["loser"].append(7 + number % 11)
        data["worker"].append(number)
    for module in ("fitting", "results.summary"):
        monkeypatch.setattr(sys.modules[f"crowdsift.{module}"], "MAX_CHECKED_VOTES", limit)
    fit = crowdsift.fit(data, gold={"winner": [1, 2], "loser": [8, 9]})
    assert fit.summary["gold_pairs"] == 2
    assert fit.summary["gold_agree"] == (2 if limit == 300 else None)
    assert fit.summary["gold_disagree"] == (0 if limit == 300 else None)
    assert any("not checked for more than 299" in text for text in fit.warnings) == (limit == 299)
    assert not fit.summary["sign_unsettled"]


def test_gold_leaves_no_trace_in_tables_and_counts():
    drawn = crowd(0.4, 1.0)
    plain = crowdsift.fit(drawn.comparisons(), "bora-em")
    result = crowdsift.fit(drawn.comparisons(), "bora-em", gold=true_pairs(drawn))
    assert result.workers["worker"].tolist() == plain.workers["worker"].tolist()
    for key in ("workers", "votes", "comparisons", "items"):
        assert result.summary[key] == plain.summary[key]
    np.testing.assert_array_equal(result.workers["agreement"], plain.workers["agreement"])
    np.testing.assert_array_equal(result.items["comparisons"], plain.items["comparisons"])


@given(comparisons())
def test_gold_is_one_more_worker_the_last(data):
    winner, loser = np.array([0, 1], np.uint32), np.array([1, 0], np.uint32)
    result = data.with_gold(winner, loser)
    assert result.n_gold == 1
    assert result.n_workers == data.n_workers + 1
    assert len(result) == len(data) + 2
    last = slice(int(result.offsets[-2]), int(result.offsets[-1]))
    np.testing.assert_array_equal(result.first[last], winner)
    np.testing.assert_array_equal(result.second[last], loser)
    assert (result.outcome[last] == 1).all()
    np.testing.assert_array_equal(result.first[: len(data)], data.first)
    np.testing.assert_array_equal(result.offsets[:-1], data.offsets)
    for name in ("cpu", "reference"):
        assert crowdsift.engines.choose_engine(name, result).facts.n_gold == 1
        assert crowdsift.engines.choose_engine(name, data).facts.n_gold == 0
    with pytest.raises(InputError, match="already"):
        result.with_gold(winner, loser)


def test_the_row_of_gold_is_taken_off_the_estimate():
    drawn = crowd(0.4, 1.0)
    data = drawn.comparisons()
    gold = read_gold(true_pairs(drawn), data)
    engine = crowdsift.engines.choose_engine("cpu", data.with_gold(gold.winner, gold.loser))
    estimate = without_gold(Sift().estimate(engine), data.n_workers)
    for values in (
        estimate.theta,
        estimate.workers.reliability,
        estimate.workers.reliability_sd,
        estimate.workers.quantiles,
    ):
        assert len(values) == data.n_workers


@pytest.mark.parametrize(
    ("winner", "loser", "message"),
    [
        (["a", "z"], ["b", "c"], "gold, row 2, column 'winner': the item 'z' is not among"),
        (["a", "b"], ["b", "q"], "gold, row 2, column 'loser': the item 'q' is not among"),
        (["a", "b"], ["b", "b"], "gold, row 2: the item 'b' is compared with itself"),
        (["a", "c", "b"], ["b", "d", "a"], "row 3: the gold contradicts row 1: 'a' and 'b'"),
        (["a", "b", "c", "a"], ["b", "c", "a", "d"], r"cycle \(rows 1, 2, 3\)"),
        ([], [], "no gold pairs"),
        (["a", ""], ["b", "c"], "row 2, column 'winner': empty item label"),
    ],
)
def test_bad_gold_is_refused(winner, loser, message):
    with pytest.raises(InputError, match=message):
        read_gold({"winner": winner, "loser": loser}, votes())


def test_gold_without_its_columns_is_refused():
    with pytest.raises(InputError, match="no column 'loser' for the loser of the gold"):
        read_gold({"winner": ["a"], "worse": ["b"]}, votes())


def test_a_cycle_is_told_in_its_direction():
    gold = {"winner": ["c", "a", "b"], "loser": ["a", "b", "c"]}
    with pytest.raises(InputError) as error:
        read_gold(gold, votes())
    result = str(error.value).split("itself: ")[1].split(" is a cycle")[0]
    around = [part.strip("'") for part in result.split(" over ")]
    assert around[0] == around[-1]
    pairs = set(zip(gold["winner"], gold["loser"], strict=True))
    assert set(pairwise(around)) == pairs


@given(st.permutations(range(6)), st.data())
def test_gold_of_any_order_is_accepted(order, data):
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] < p[1]), min_size=1)
    )
    chain = Comparisons.from_arrays(list(range(5)), list(range(1, 6)))
    gold = read_gold({"winner": [order[a] for a, _ in pairs], "loser": [order[b] for _, b in pairs]}, chain)
    assert len(gold) == len(set(pairs))
    position = np.argsort(order)
    assert (position[gold.winner] < position[gold.loser]).all()


def test_gold_from_a_file_matches_numbers_as_text(tmp_path):
    path = tmp_path / "gold.csv"
    path.write_text("winner,loser\n1,3\n")
    data = Comparisons.from_arrays([1, 2], [2, 3], worker=["x", "y"])
    gold = read_gold(path, data)
    assert (data.items[gold.winner[0]], data.items[gold.loser[0]]) == (1, 3)


def test_sign_log_odds_are_those_of_the_beta_prior():
    assert sign_log_odds(7.3, 2.1) == pytest.approx(betaln(10.8, 2.6) - betaln(5.6, 7.8))
    assert sign_log_odds(6e6, 2e6) == pytest.approx(3 * np.log(3), rel=1e-5)
    assert sign_log_odds(3.0, 8.0) == pytest.approx(-sign_log_odds(8.0, 3.0))


@given(st.floats(0.59, 1.0))
def test_so_many_gold_pairs_are_enough_and_two_fewer_are_not(q):
    def right(n):
        return sum(comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n // 2 + 1, n + 1))

    n = gold_needed(q)
    assert n % 2 == 1
    assert right(n) >= 0.95
    assert n == 1 or right(n - 2) < 0.95


def test_order_probability_is_that_of_samples():
    rng = np.random.default_rng(5)
    k = 12
    root = rng.normal(size=(k, k)) * 0.3
    covariance = root @ root.T
    scores = rng.normal(size=k)
    component = np.repeat([0, 1], [7, 5]).astype(np.uint32)
    drawn = rng.multivariate_normal(scores, covariance, size=20_000)
    right, pairs = 0.0, 0
    for a in range(k):
        for b in range(a):
            if component[a] == component[b]:
                same = np.sign(drawn[:, a] - drawn[:, b]) == np.sign(scores[a] - scores[b])
                right, pairs = right + same.mean(), pairs + 1
    own = np.diag(covariance)
    q = order_probability(scores, lambda i, j: own[i] + own[j] - 2.0 * covariance[i, j], component)
    assert q == pytest.approx(right / pairs, abs=0.006)


@pytest.mark.parametrize("name", ["sift", "bora-em"])
def test_a_thin_margin_is_a_loud_warning_that_names_the_gold_it_takes(name):
    drawn = crowd(-1.0, 1.0, seed=9)
    with pytest.warns(crowdsift.SignWarning, match=r"\d+ gold pairs? of known order"):
        result = crowdsift.fit(drawn.comparisons(), name)
    assert result.summary["sign_unsettled"]
    assert result.summary["gold_needed"] % 2 == 1
    assert f"{result.summary['gold_needed']} gold pair" in result.warnings[0]


def test_a_clear_majority_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = crowdsift.fit(crowd(0.3, 1.0).comparisons())
    assert result.summary["gold_needed"] is None


def test_the_number_of_gold_pairs_named_settles_the_sign():
    """Random pairs of known order, as many as asked for, turn the scores right in 95 % of draws."""
    drawn = crowdsift.simulate(items=15, workers=40, comparisons=400, reliability=(-1.0, 1.0), seed=3)
    with pytest.warns(crowdsift.SignWarning):
        result = crowdsift.fit(drawn.comparisons(), "sift")
    n = result.summary["gold_needed"]
    scores, truth = result.scores_of(drawn.items), drawn.scores
    if np.corrcoef(scores, truth)[0, 1] < 0:
        scores = -scores
    rng = np.random.default_rng(1)
    right = 0
    for _ in range(2000):
        one = rng.integers(0, 15, n)
        two = (one + rng.integers(1, 15, n)) % 15
        right += np.sum(np.sign(scores[one] - scores[two]) * np.sign(truth[one] - truth[two])) > 0
    assert right / 2000 > 0.9


def test_the_command_takes_gold(tmp_path, monkeypatch, capsys):
    drawn = crowd(-1.0, -0.4)
    drawn.write(tmp_path / "crowd")
    pairs = true_pairs(drawn)
    rows = [",".join(pair) for pair in zip(pairs["winner"], pairs["loser"], strict=True)]
    gold = tmp_path / "gold.csv"
    gold.write_text("\n".join(["winner,loser", *rows]))
    out = tmp_path / "out"
    monkeypatch.setattr(
        sys, "argv", ["crowdsift", "fit", str(tmp_path / "crowd" / "votes.csv"), "--gold", str(gold), "--out", str(out)]
    )
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code
    fit = crowdsift.load(out)
    assert fit.summary["gold_agree"] == 5
    assert fit.labels.index(pairs["winner"][0]) < 5
    gold.write_text("winner,loser\nnobody,none\n")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert "gold.csv, row 1, column 'winner': the item 'nobody' is not" in capsys.readouterr().err


@pytest.mark.parametrize("q", [0.0, 0.5, 0.55, 0.6, 0.7, 0.85, 0.99, 1.0])
def test_gold_needed_is_the_first_number_whose_majority_is_right(q):
    def right(n):
        return sum(comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n // 2 + 1, n + 1))

    found = gold_needed(q)
    if found is None:
        assert right(99) < 0.95
    else:
        assert right(found) >= 0.95
        assert found == 1 or right(found - 2) < 0.95
