"""The metrics against brute force over all pairs, against scipy, and against themselves."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from crowdsift.errors import InputError
from crowdsift.numeric.metrics import Metrics, accuracy, kendall_tau, measure, measure_up_to_sign, weighted_accuracy

# Few distinct values, so that most examples have ties in scores, in truth and in both.
few = st.integers(-3, 3)
tied_pairs = st.lists(st.tuples(few, few), max_size=40)
any_pairs = st.lists(st.tuples(st.floats(allow_nan=False, width=32), st.floats(-1e6, 1e6, width=32)), max_size=20)


def columns(pairs):
    table = np.array(pairs, dtype=float).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def brute_force(scores, truth):
    """The definitions of methods.md, pair by pair."""
    right = pairs = right_weight = weight = 0
    for i in range(len(truth)):
        for j in range(len(truth)):
            if truth[i] < truth[j]:
                good = scores[i] < scores[j]
                pairs, right = pairs + 1, right + good
                gap = float(truth[j]) - float(truth[i])
                weight, right_weight = weight + gap, right_weight + gap * good
    return (right / pairs, right_weight / weight) if pairs else (math.nan, math.nan)


@given(st.one_of(tied_pairs, any_pairs))
def test_accuracies_are_those_of_all_pairs(pairs):
    scores, truth = columns(pairs)
    right, weighted = brute_force(scores, truth)
    assert accuracy(scores, truth) == pytest.approx(right, rel=0, abs=0, nan_ok=True)
    assert weighted_accuracy(scores, truth) == pytest.approx(weighted, rel=1e-13, nan_ok=True)


@given(st.lists(st.tuples(few, few), min_size=2, max_size=40))
def test_tau_is_that_of_scipy(pairs):
    scores, truth = columns(pairs)
    expected = stats.kendalltau(scores, truth).statistic
    assert kendall_tau(scores, truth) == pytest.approx(expected, rel=1e-13, abs=1e-15, nan_ok=True)


@pytest.mark.parametrize("items", [2, 3, 1023, 1024, 1025, 3000])
def test_sizes_about_powers_of_two_agree_with_scipy(items):
    rng = np.random.default_rng(items)
    truth = rng.integers(0, items // 2 + 2, items)
    scores = truth + rng.normal(0, items, items).round()
    expected = stats.kendalltau(scores, truth).statistic
    assert kendall_tau(scores, truth) == pytest.approx(expected, rel=1e-12, nan_ok=True)


@given(tied_pairs)
def test_measure_is_the_three_functions(pairs):
    scores, truth = columns(pairs)
    found = measure(scores, truth)
    assert found.accuracy == pytest.approx(accuracy(scores, truth), abs=0, rel=0, nan_ok=True)
    assert found.weighted_accuracy == pytest.approx(weighted_accuracy(scores, truth), abs=0, rel=0, nan_ok=True)
    assert found.kendall_tau == pytest.approx(kendall_tau(scores, truth), abs=0, rel=0, nan_ok=True)


@given(st.lists(st.tuples(few, few), min_size=2, max_size=40), st.randoms(use_true_random=False))
def test_only_the_order_of_scores_matters_and_not_that_of_items(pairs, random):
    scores, truth = columns(pairs)
    before = measure(scores, truth)
    assert repr(measure(np.exp(scores) * 7 - 3, truth)) == repr(before)  # repr: NaN equals NaN
    shuffled = list(pairs)
    random.shuffle(shuffled)
    assert repr(measure(*columns(shuffled))) == repr(before)


@given(st.permutations(range(12)), st.lists(few, min_size=12, max_size=12))
def test_without_tied_scores_the_opposite_order_is_right_where_this_is_wrong(scores, truth):
    if len(set(truth)) == 1:
        truth[0] += 1
    scores = np.array(scores)
    one, other = measure(scores, truth), measure(-scores, truth)
    assert one.accuracy + other.accuracy == pytest.approx(1, abs=1e-15)
    assert one.weighted_accuracy + other.weighted_accuracy == pytest.approx(1, abs=1e-15)
    assert one.kendall_tau == -other.kendall_tau


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30, unique=True))
def test_a_perfect_order_is_exactly_one_and_its_reverse_exactly_zero(truth):
    truth = np.array([*truth, truth[0]])  # one tie in truth, its scores apart
    scores = np.argsort(np.argsort(truth, kind="stable"))
    found = measure(scores, truth)
    assert (found.accuracy, found.weighted_accuracy) == (1.0, 1.0)
    found = measure(-scores, truth)
    assert (found.accuracy, found.weighted_accuracy) == (0.0, 0.0)
    assert kendall_tau(truth, truth) == 1.0


@given(st.lists(st.tuples(few, few), min_size=2, max_size=40))
def test_up_to_sign_is_one_of_the_two_and_the_better(pairs):
    scores, truth = columns(pairs)
    both = [measure(scores, truth), measure(-scores, truth)]
    found = measure_up_to_sign(scores, truth)
    assert repr(found) in map(repr, both)
    if not math.isnan(found.kendall_tau):
        assert found.kendall_tau == max(m.kendall_tau for m in both)
        assert found.accuracy == max(m.accuracy for m in both)


def test_figures_cannot_be_changed():
    with pytest.raises(AttributeError):
        measure([1, 2], [1, 2]).accuracy = 0.0


def test_signed_zeros_are_equal_and_infinite_scores_have_an_order():
    assert accuracy([0.0, -0.0], [1, 2]) == 0.0
    assert accuracy([-0.0, 0.0], [1, 2]) == 0.0
    assert accuracy([-np.inf, 0.0, np.inf], [1, 2, 3]) == 1.0


@pytest.mark.parametrize(("scores", "truth"), [([], []), ([1], [1]), ([1, 2, 3], [5, 5, 5])])
def test_without_two_different_truths_every_figure_is_nan(scores, truth):
    assert repr(measure(scores, truth)) == repr(Metrics(math.nan, math.nan, math.nan))
    assert repr(measure_up_to_sign(scores, truth)) == repr(measure(scores, truth))


def test_equal_scores_are_all_wrong_and_have_no_tau():
    found = measure([1, 1, 1], [1, 2, 3])
    assert (found.accuracy, found.weighted_accuracy) == (0.0, 0.0)
    assert math.isnan(found.kendall_tau)


@pytest.mark.parametrize(
    ("scores", "truth", "message"),
    [
        ([1.0, math.nan], [1, 2], "row 2: a score that is not a number"),
        ([1.0, 2.0], [math.nan, 2], "row 1: a true score that is not a finite number"),
        ([1.0, 2.0], [1, math.inf], "row 2: a true score that is not a finite number"),
        ([1.0, 2.0, 3.0], [1, 2], "3 scores but 2 true scores"),
        ([[1.0, 2.0]], [1, 2], "scores need one entry per item"),
        (["good", "bad"], [1, 2], "scores are not all numbers"),
    ],
)
@pytest.mark.parametrize("metric", [accuracy, weighted_accuracy, kendall_tau, measure, measure_up_to_sign])
def test_what_cannot_be_measured_is_refused(metric, scores, truth, message):
    with pytest.raises(InputError, match=message):
        metric(scores, truth)


def test_many_items_take_little_memory():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=200_000)
    scores = truth + rng.normal(size=200_000)
    tracemalloc.start()
    found = measure(scores, truth)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500 * 200_000  # a K x K pass would take 40 GB, and minutes
    # Two normals of correlation 1/sqrt(2): tau is 2 asin(rho) / pi = 1/2.
    assert found.kendall_tau == pytest.approx(0.5, abs=0.005)
    assert found.accuracy == pytest.approx((1 + found.kendall_tau) / 2, abs=1e-12)
