"""Left-out votes and what is chosen by them."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift import BradleyTerry, Comparisons, RequestError
from crowdsift.engines import choose_engine
from crowdsift.fitting.estimate import Resources
from crowdsift.fitting.holdout import left_out_log_likelihood
from crowdsift.votes.graph import folds


def rows_of(votes):
    """Votes as a multiset."""
    keys = zip(
        votes.worker_codes().tolist(), votes.first.tolist(), votes.second.tolist(), votes.outcome.tolist(), strict=True
    )
    return dict(zip(keys, votes.weight.tolist(), strict=True))


def test_folds_part_the_votes():
    drawn = crowdsift.simulate(items=4, workers=3, comparisons=300, seed=1)
    votes = drawn.comparisons()
    assert votes.weight.max() > 5  # collapsed votes are dealt out one by one
    total: dict = {}
    for kept, left_out in folds(votes, 4, seed=2):
        assert kept.total_weight + left_out.total_weight == 300
        assert 40 < left_out.total_weight < 110
        assert kept.n_items == votes.n_items
        for key, weight in rows_of(left_out).items():
            total[key] = total.get(key, 0.0) + weight
        for key, weight in rows_of(votes).items():
            got = rows_of(kept).get(key, 0.0) + rows_of(left_out).get(key, 0.0)
            assert got == weight
    assert total == rows_of(votes)


def test_fractional_weights_stay_whole():
    votes = Comparisons.from_arrays(["a", "b", "c"], ["b", "c", "a"], worker=["w"] * 3, weight=[2.5, 1.5, 3.0])
    left_out = [part for _, part in folds(votes, 2, seed=0)]
    weights = sorted(w for part in left_out for w in part.weight.tolist() if w != int(w))
    assert weights == [1.5, 2.5]


def test_too_many_folds():
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["w", "w"])
    with pytest.raises(RequestError, match="5 parts of 2 votes"):
        list(folds(votes, 5))


def test_left_out_likelihood_is_that_of_the_votes():
    drawn = crowdsift.simulate(items=10, workers=4, comparisons=400, seed=3)
    votes = drawn.comparisons()
    model = BradleyTerry(penalty=0.5)
    total = 0.0
    for kept, left_out in folds(votes, 5, seed=0):
        score = crowdsift.fit(kept, model).scores_of(votes.items)
        d = score[left_out.first] - score[left_out.second]
        y = left_out.outcome.astype(float)
        total += np.sum(left_out.weight * (y * d - np.logaddexp(0.0, d)))
    assert left_out_log_likelihood(votes, model, Resources()) == pytest.approx(total / 400, abs=1e-6)


@pytest.mark.parametrize("method", ["bt", "rank-centrality", "bora-em", "crowd-bt", "htcv"])
def test_tuning_takes_the_best_it_tried(method):
    votes = crowdsift.simulate(items=12, workers=6, comparisons=240, seed=4).comparisons()
    model = crowdsift.model(method)
    tuning = crowdsift.tune(votes, model, count=3)
    best = max(tuning.tried, key=lambda pair: pair[1])
    assert tuning.value == best[0] == getattr(tuning.model, model.tuned)
    assert len(tuning.tried) >= 3
    again = crowdsift.tune(votes, model, count=3)
    assert again == tuning


def test_sparse_votes_want_more_penalty():
    """Few votes on many items: the default penalty of 0.01 trusts them too much."""
    votes = crowdsift.simulate(60, 20, 150, reliability=(0.5, 0.6), seed=5).comparisons()
    assert crowdsift.tune(votes, BradleyTerry()).value > 0.05


def test_fit_with_tuning_says_what_it_chose():
    votes = crowdsift.simulate(items=12, workers=6, comparisons=240, seed=4).comparisons()
    fit = crowdsift.fit(votes, "bt", tune=True)
    assert fit.parameters["penalty"] == crowdsift.tune(votes, BradleyTerry()).value
    engine = choose_engine("cpu", votes.pooled(), 1)
    assert fit.summary["converged"]
    assert engine.facts.n_items == 12
