"""The ranker of scikit-learn: its contract where it applies, and the answers of `crowdsift.fit`."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install crowdsift[sklearn]")

from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import crowdsift
from crowdsift.sklearn import PairwiseRanker

PAIRS = "draws numbers that are no pairs of items: other numbers of columns, or an item with itself"
CLASSES = "gives classes by other names, and y is the share of the first item"
# Checks of scikit-learn that do not apply, and why.
NOT_OURS = {
    **dict.fromkeys(
        """check_fit_score_takes_y check_estimators_overwrite_params check_dont_overwrite_parameters
        check_estimators_fit_returns_self check_readonly_memmap_input check_estimators_dtypes
        check_n_features_in_after_fitting check_positive_only_tag_during_fit
        check_sample_weights_pandas_series check_sample_weights_list check_dtype_object
        check_all_zero_sample_weights_error check_sample_weight_equivalence_on_dense_data
        check_pipeline_consistency check_estimators_nan_inf check_estimators_pickle
        check_f_contiguous_array_estimator check_classifiers_train check_supervised_y_2d
        check_methods_sample_order_invariance check_methods_subset_invariance check_fit2d_1sample
        check_dict_unchanged check_fit_idempotent check_fit_check_is_fitted check_n_features_in
        check_fit2d_predict1d check_classifiers_one_label
        check_classifiers_one_label_sample_weights""".split(),  # noqa: SIM905
        PAIRS,
    ),
    **dict.fromkeys(
        """check_sample_weights_not_an_array check_sample_weights_shape
        check_sample_weights_not_overwritten check_classifier_data_not_an_array
        check_classifiers_classes check_classifier_not_supporting_multiclass""".split(),  # noqa: SIM905
        CLASSES,
    ),
    "check_classifiers_regression_target": "a tie is 0.5: shares between 0 and 1 are allowed",
}


@pytest.fixture(scope="module")
def votes():
    drawn = crowdsift.simulate(10, 8, 1200, reliability=(0.5, 2.5), seed=2).comparisons()
    first, second = drawn.items[drawn.first], drawn.items[drawn.second]
    who = drawn.workers[drawn.worker_codes()]
    X = np.column_stack([first, second, who]).astype(object)
    times = drawn.weight.astype(int)
    return np.repeat(X, times, axis=0), np.repeat(drawn.outcome.astype(int), times), drawn


@pytest.mark.filterwarnings("ignore")
def test_the_contract_of_scikit_learn():
    done = check_estimator(PairwiseRanker(threads=1), expected_failed_checks=NOT_OURS, on_skip=None, on_fail=None)
    failed = [each["check_name"] for each in done if each["status"] == "failed"]
    assert not failed
    passed = {each["check_name"] for each in done if each["status"] == "passed"}
    assert len(passed) >= 15
    excused = {each["check_name"] for each in done if each["status"] == "xfail"}
    assert excused == set(NOT_OURS), "a check that passes is no longer excused"


def test_answers_are_those_of_the_fit(votes):
    X, y, drawn = votes
    ranker = PairwiseRanker(sides=drawn.sides_known, threads=1)
    before = vars(ranker).copy()
    assert ranker.fit(X, y) is ranker
    assert {name: getattr(ranker, name) for name in before} == before
    assert is_classifier(ranker)
    fit = crowdsift.fit(drawn, threads=1)
    p = ranker.predict_proba(X[:50])
    direct = fit.predict(X[:50, 0], X[:50, 1], X[:50, 2])
    np.testing.assert_allclose(p[:, 1], direct, rtol=1e-9)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(ranker.predict(X[:50]), (direct > 0.5).astype(int))
    assert ranker.items_.tolist() == fit.labels
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_allclose(ranker.predict_proba(X[:50][order]), p[order])
    state = vars(ranker).copy()
    ranker.predict_proba(X[:5])
    assert vars(ranker) == state
    again = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(again.predict_proba(X[:50]), p)
    np.testing.assert_array_equal(clone(ranker).fit(X, y).predict_proba(X[:50]), p)
    frame = pd.DataFrame(X, columns=["first", "second", "worker"])
    named = clone(ranker).fit(frame, y)
    np.testing.assert_array_equal(named.predict_proba(frame[:50]), p)
    assert named.feature_names_in_.tolist() == ["first", "second", "worker"]


def test_parameters_and_weights(votes):
    X, y, _ = votes
    ranker = PairwiseRanker("bora-em", {"tolerance": 1e-9}, threads=1)
    assert ranker.get_params()["parameters"] == {"tolerance": 1e-9}
    ranker.set_params(method="bt", parameters=None)
    whole = clone(ranker).fit(X, y)
    _, place, times = np.unique(np.column_stack([X, y]).astype(str), axis=0, return_index=True, return_counts=True)
    counted = clone(ranker).fit(X[place], y[place], sample_weight=times)
    np.testing.assert_allclose(counted.scores_, whole.scores_, atol=1e-6)
    assert PairwiseRanker().fit(X[:, :2], y).fit_.method == "bt"
    with pytest.raises(crowdsift.RequestError, match="unknown method"):
        PairwiseRanker("elo").fit(X, y)


def test_cross_validation_by_vote_and_by_worker(votes):
    X, y, _ = votes
    ranker = PairwiseRanker(threads=1)
    for cv, groups in ((KFold(3, shuffle=True, random_state=0), None), (GroupKFold(3), X[:, 2])):
        share = cross_val_score(ranker, X, y, cv=cv, groups=groups)
        loss = cross_val_score(ranker, X, y, cv=cv, groups=groups, scoring="neg_log_loss")
        assert share.mean() > 0.6
        assert (loss > -np.log(2)).all()  # better than a coin
    cv = GroupKFold(3)
    train, test = next(cv.split(X, y, groups=X[:, 2]))
    strict = PairwiseRanker(unknown="error").fit(X[train], y[train])
    with pytest.raises(crowdsift.RequestError, match="have no votes in this fit"):
        strict.predict(X[test])
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), PairwiseRanker(threads=1)),
        {"pairwiseranker__method": ["bt", "bora-em"]},
        cv=2,
    )
    assert search.fit(X, y).best_score_ > 0.6


def test_ties_count_neither_way():
    X = [["a", "b", 1], ["b", "c", 1], ["a", "c", 2], ["a", "b", 2]]
    ranker = PairwiseRanker("bora-em").fit(X, [1, 0.5, 1, 1])
    assert ranker.score(X, [1, 0.5, 1, 0]) == pytest.approx(2 / 3)
    for y, what in (([1, 2, 0, 1], "y must be 1"), ([1, 0], "4 votes and y has 2")):
        with pytest.raises(ValueError, match=what):
            ranker.fit(X, y)
