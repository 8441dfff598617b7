"""What the compiled engine promises beyond the contract: operators of their own, inputs refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from crowdsift import Comparisons, _core
from crowdsift.engines.base import SlopePrior
from crowdsift.engines.cpu import CpuEngine, engine
from crowdsift.engines.cpu.engine import Factorisers
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, SitePass
from crowdsift.engines.shards import SharedPairs

ITEMS, WORKERS = 12, 9


def made(threads: int = 2, rows: int = 600) -> CpuEngine:
    """An engine over votes of all outcomes."""
    rng = np.random.default_rng(4)
    first = rng.integers(0, ITEMS, rows)
    second = (first + rng.integers(1, ITEMS, rows)) % ITEMS
    votes = Comparisons.from_arrays(
        first, second, outcome=rng.integers(0, 3, rows) / 2, worker=rng.integers(0, WORKERS, rows)
    )
    return engine(votes, threads)


def test_an_operator_keeps_what_it_was_when_passes_follow():
    core, rng = made(), np.random.default_rng(1)
    v, scores, slopes = rng.normal(size=ITEMS), rng.normal(size=ITEMS), np.ones(WORKERS)
    prior = SlopePrior(1.0, 1.0, 1e-6)
    theta = np.full((WORKERS, 1), 0.7)
    held = [
        core.slopes.profile(scores, slopes, prior).hessian,
        core.slopes.profile(scores, slopes).hessian,
        core.slopes.curvature(scores, slopes).laplacian,
        core.em.e_step(scores, slopes).system.laplacian,
        core.likelihood.derivatives("scaled-logit", scores, theta).hessian.reduced(None),
    ]
    before = [operator.multiply(v) for operator in held]
    for other in (2.0 * scores, -scores):
        core.slopes.profile(other, slopes, prior)
        core.em.e_step(other, slopes).regress(other, 0.3)
        core.likelihood.derivatives("scaled-logit", other, theta)
        core.slopes.curvature(other, slopes)
    for operator, product in zip(held, before, strict=True):
        np.testing.assert_array_equal(operator.multiply(v), product)


def test_an_operator_outlives_its_engine():
    scores = np.random.default_rng(2).normal(size=ITEMS)
    kept = made()
    hessian = kept.slopes.profile(scores, np.ones(WORKERS)).hessian
    product = hessian.multiply(scores)
    del kept
    np.testing.assert_array_equal(hessian.multiply(scores), product)


def test_two_python_threads_may_share_an_engine():
    core, rng = made(rows=9_000), np.random.default_rng(3)
    points = rng.normal(size=(24, ITEMS))
    slopes = np.ones(WORKERS)
    alone = [core.slopes.profile(x, slopes).gradient for x in points]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda x: core.slopes.profile(x, slopes).gradient, points))
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_fit_workers_refuses_what_is_not_finite(bad: float):
    scores = np.zeros(ITEMS)
    scores[3] = bad
    with pytest.raises(ValueError, match="scores has an entry that is not finite"):
        made().likelihood.fit_workers(
            "scaled-logit", scores, np.ones((WORKERS, 1)), centre=np.ones(1), penalty=1.0, bounds=(-3.0, 3.0)
        )


@pytest.mark.parametrize("bad", [-np.inf, np.nan, -1.0])
def test_fit_workers_refuses_a_penalty_for_which_no_step_is_short_enough(bad: float):
    with pytest.raises(ValueError, match="a penalty and a tolerance of at least 0"):
        made().likelihood.fit_workers(
            "scaled-probit", np.zeros(ITEMS), np.ones((WORKERS, 1)), centre=np.ones(1), penalty=bad, bounds=(-3.0, 3.0)
        )


def test_pairs_given_twice_add_up_in_a_factorisation():
    low, high = np.array([0, 0, 1, 0], np.uint32), np.array([1, 1, 2, 2], np.uint32)
    weight = np.array([0.5, 1.5, 1.0, 0.7])
    for most in (4e6, 5e7):
        factorise = made().grid.factoriser(low, high, 3, most)
        assert factorise is not None
        items, pairs, log_determinant, definite = factorise(weight)
        L = np.array([[2.7, -2.0, -0.7], [-2.0, 3.0, -1.0], [-0.7, -1.0, 1.7]]) + np.eye(3)
        S = np.linalg.inv(L)
        assert definite
        np.testing.assert_allclose(items, np.diag(S))
        np.testing.assert_allclose(pairs, items[low] + items[high] - 2 * S[low, high])
        assert log_determinant == pytest.approx(np.linalg.slogdet(L)[1])


def test_many_pairs_of_many_items_are_factorised_as_one_matrix():
    """Where a sparse factor would cost too much; also to say that sites are improper."""
    n = 600
    low, high = (part.astype(np.uint32) for part in np.triu_indices(n, 1))
    rng = np.random.default_rng(2)
    weight = rng.uniform(-0.01, 0.05, len(low))
    factorise = made().grid.factoriser(high, low, n, 5e7)  # whichever end is told first
    assert not isinstance(factorise, _core.Factoriser)
    items, pairs, log_determinant, definite = factorise(weight)
    W = np.zeros((n, n))
    W[low, high] = weight
    W += W.T
    L = np.diag(W.sum(axis=1)) - W + np.eye(n)
    S = np.linalg.inv(L)
    assert definite
    np.testing.assert_allclose(items, np.diag(S), rtol=1e-9)
    np.testing.assert_allclose(pairs, items[low] + items[high] - 2 * S[low, high], rtol=1e-9)
    assert log_determinant == pytest.approx(np.linalg.slogdet(L)[1])
    assert not factorise(weight - 0.1)[3]


def test_a_large_dense_factorisation_is_refused_where_work_is_limited():
    low, high = (part.astype(np.uint32) for part in np.triu_indices(400, 1))
    grid = made().grid
    assert grid.factoriser(low, high, 400, 4e6) is None
    assert grid.factoriser(low, high, 400, 5e7) is not None
    assert grid.factoriser(low, high, 400, 4e6) is None  # the analysis before does not matter


def test_what_is_refused_up_to_is_refused_and_not_analysed_again(monkeypatch):
    rng = np.random.default_rng(3)
    low, high = np.divmod(np.unique(rng.integers(0, 4_000 * 4_000, 24_000)), 4_000)
    apart = low != high
    pairs = low[apart].astype(np.uint32), high[apart].astype(np.uint32), 4_000
    refused = _core.Factoriser(*pairs, 4e6)
    assert not refused.possible
    assert refused.refused > 5e7
    assert not _core.Factoriser(*pairs, 0.99 * refused.refused).possible
    calls, analysed = [], _core.Factoriser
    monkeypatch.setattr(_core, "Factoriser", lambda *a: calls.append(a) or analysed(*a))
    finder = Factorisers()
    assert [finder.find(*pairs, most) for most in (4e6, 5e7, 4e6)] == [None, None, None]
    assert len(calls) == 1


def test_calls_out_of_order_are_refused_and_not_undefined():
    sites = made().grid.sites(RELIABILITY_ONLY, 1.0)
    prior, precision = np.full(5, 0.2), np.ones(ITEMS)
    for call in (
        lambda: sites.type_counts(prior),
        lambda: sites.posteriors(prior, slice(0, 2)),
        sites.refine,
        lambda: sites.propagate(precision, precision),
        lambda: sites.set_pair_variances(np.ones(3)),
        lambda: sites.system(np.zeros((1, 2))),
    ):
        with pytest.raises(ValueError, match=r"no update yet|no system yet|expected"):
            call()
    sites.suspend()
    levels = np.array([0.5, 1.0])
    with pytest.raises(ValueError, match="suspended"):
        sites.update(SitePass(levels, prior, precision, damping=1.0, clip=True, side=SidePrior()))


def test_shared_pairs_must_be_pairs_of_these_votes():
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
    with pytest.raises(ValueError, match="not compared"):
        engine(votes, 1, SharedPairs(np.array([0], np.uint32), np.array([2], np.uint32), np.array([True])))
