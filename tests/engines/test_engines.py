"""The compiled engine is held equal to the plain NumPy specification, pass by pass."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import comparisons, vectors

from crowdsift import Comparisons, RequestError, simulate
from crowdsift.engines import choose_engine
from crowdsift.engines.cpu import CpuEngine
from crowdsift.engines.reference import ReferenceEngine
from crowdsift.numeric.likelihoods import LIKELIHOODS, probit
from crowdsift.results.ranking import ranks
from crowdsift.votes.graph import components
from crowdsift.votes.tally import tally

# The compiled engine keeps one float32 a comparison, hence a few 1e-7 relative.
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def assert_same_laplacian(cpu, reference, x, shift=0.0):
    """Equal products up to rounding of the entries, which differences of x may cancel."""
    weight = reference.laplacian.diagonal()
    np.testing.assert_allclose(cpu.laplacian.diagonal(), weight, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(
        cpu.laplacian.multiply(x, shift),
        reference.laplacian.multiply(x, shift),
        rtol=0,
        atol=1e-12 + 1e-6 * weight.max() * np.abs(x).max(),
    )


@st.composite
def engines_and_point(draw):
    votes = draw(comparisons())
    scores = draw(vectors(votes.n_items))
    slopes = draw(vectors(votes.n_workers))
    threads = draw(st.integers(1, 3))
    return CpuEngine(votes, threads), ReferenceEngine(votes), scores, slopes


@given(engines_and_point())
def test_expect(case):
    cpu, reference, scores, slopes = case
    np.testing.assert_allclose(
        cpu.expect(scores, slopes), reference.expect(scores, slopes), rtol=1e-12, atol=1e-12
    )


@given(engines_and_point())
def test_item_system(case):
    cpu, reference, scores, slopes = case
    for engine in (cpu, reference):
        engine.expect(scores, slopes)
    np.testing.assert_allclose(cpu.item_system(slopes), reference.item_system(slopes), **CLOSE)
    assert_same_laplacian(cpu, reference, scores, 0.3)


@given(engines_and_point(), st.sampled_from([1.0, 0.1]))
def test_regress_workers(case, ridge):
    cpu, reference, scores, slopes = case
    for engine in (cpu, reference):
        engine.expect(scores, slopes)
    for ours, theirs in zip(
        cpu.regress_workers(scores, ridge), reference.regress_workers(scores, ridge), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert_same_laplacian(cpu, reference, scores)


@given(engines_and_point())
def test_score_derivatives(case):
    cpu, reference, scores, slopes = case
    value, gradient = cpu.score_derivatives(scores, slopes)
    expected_value, expected_gradient = reference.score_derivatives(scores, slopes)
    np.testing.assert_allclose(value, expected_value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-11, atol=1e-11)
    assert_same_laplacian(cpu, reference, scores)


@given(engines_and_point())
def test_slope_information(case):
    cpu, reference, scores, slopes = case
    np.testing.assert_allclose(
        cpu.slope_information(scores, slopes),
        reference.slope_information(scores, slopes),
        rtol=1e-11,
        atol=1e-12,
    )


@given(engines_and_point(), st.sampled_from([1.0, 0.01]))
def test_solve_and_inverse(case, shift):
    cpu, reference, scores, slopes = case
    for engine in (cpu, reference):
        engine.score_derivatives(scores, slopes)
    rhs = scores - scores.mean()
    ours = cpu.laplacian.solve(rhs, np.zeros_like(rhs), shift=shift, tolerance=1e-12)
    theirs = reference.laplacian.solve(rhs, np.zeros_like(rhs), shift=shift, tolerance=1e-12)
    assert ours.converged
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        cpu.laplacian.dense(), reference.laplacian.dense(), rtol=1e-6, atol=1e-9
    )
    warm = cpu.laplacian.solve(rhs, ours.x, shift=shift, tolerance=1e-6)
    assert warm.iterations == 0


@given(comparisons())
def test_component_sizes(votes):
    cpu, reference = CpuEngine(votes, 1), ReferenceEngine(votes)
    np.testing.assert_array_equal(cpu.component, reference.component)
    np.testing.assert_array_equal(cpu.component_sizes, reference.component_sizes)


@pytest.mark.parametrize("eta", [0.0, 1e-300, 1e-9, 1e-4, 0.2499, 0.2501, 1.0, 36.0, 700.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extreme_margins(eta, sign):
    """Stable at 0 and at 700, and no seam where the series takes over."""
    votes = Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    cpu, reference = CpuEngine(votes, 1), ReferenceEngine(votes)
    scores, slopes = np.array([sign * eta, 0.0]), np.ones(1)
    ours, theirs = cpu.expect(scores, slopes), reference.expect(scores, slopes)
    np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    value, gradient = cpu.score_derivatives(scores, slopes)
    expected = reference.score_derivatives(scores, slopes)
    np.testing.assert_allclose(value, expected[0], rtol=1e-14)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-13)
    assert np.isfinite([*ours, value]).all()


def test_threads_agree_on_larger_votes():
    """Above the sizes where threads start to pay, one and three threads tell the same."""
    drawn = simulate(items=300, workers=400, comparisons=60_000, seed=5)
    votes = drawn.comparisons()
    one, three = CpuEngine(votes, 1), CpuEngine(votes, 3)
    scores, slopes = drawn.scores, drawn.reliability
    np.testing.assert_allclose(one.expect(scores, slopes), three.expect(scores, slopes), rtol=1e-12)
    for ours, theirs in zip(
        one.regress_workers(scores, 1.0), three.regress_workers(scores, 1.0), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    value, gradient = one.score_derivatives(scores, slopes)
    other_value, other_gradient = three.score_derivatives(scores, slopes)
    np.testing.assert_allclose(value, other_value, rtol=1e-12)
    np.testing.assert_allclose(gradient, other_gradient, rtol=1e-9, atol=1e-10)
    again = CpuEngine(votes, 3)
    assert again.score_derivatives(scores, slopes)[1].tobytes() == other_gradient.tobytes()


def test_bad_vectors_are_refused():
    engine = CpuEngine(Comparisons.from_arrays(["a"], ["b"], worker=["w"]), 1)
    with pytest.raises(ValueError, match="scores has 3 entries, expected 2"):
        engine.expect(np.zeros(3), np.ones(1))
    with pytest.raises(ValueError, match="slopes has 2 entries, expected 1"):
        engine.item_system(np.ones(2))


@pytest.mark.parametrize("name", ["torch", "dask", "abacus"])
def test_engines_that_do_not_exist(name):
    votes = Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    with pytest.raises(RequestError, match=name):
        choose_engine(name, votes)
    with pytest.raises(RequestError, match="threads must be at least 1"):
        choose_engine("cpu", votes, 0)


@st.composite
def likelihood_point(draw):
    """A likelihood, engines over votes with features, and a point inside its bounds."""
    votes = draw(comparisons())
    name = draw(st.sampled_from(sorted(LIKELIHOODS)))
    features = draw(st.integers(1, 3)) if name in ("led-logit", "shifted-logit") else 0
    p = {"led-logit": 1 + features, "shifted-logit": features}.get(name, 1)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.choice([-1.0, 0.0, 1.0], (len(votes), features)).astype(np.float32)
    votes = dataclasses.replace(votes, features=x)
    theta = rng.uniform(0.05, 0.95, (votes.n_workers, p)) * (1 if name == "flipped-logit" else 2)
    return votes, name, draw(vectors(votes.n_items)), theta, rng


@given(likelihood_point(), st.integers(1, 3))
def test_derivatives_and_products(case, threads):
    votes, name, scores, theta, rng = case
    cpu, reference = CpuEngine(votes, threads), ReferenceEngine(votes)
    ours = cpu.derivatives(name, scores, theta)
    theirs = reference.derivatives(name, scores, theta)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)
    v = rng.normal(size=votes.n_items)
    u = rng.normal(size=theta.shape)
    inverse = rng.normal(size=theirs.blocks.shape)
    scale = 1e-5 * (1 + np.abs(theirs.diagonal).max())
    np.testing.assert_allclose(cpu.couple(v), reference.couple(v), rtol=1e-5, atol=scale)
    np.testing.assert_allclose(cpu.spread(u), reference.spread(u), rtol=1e-5, atol=scale)
    size = 1 + np.abs(reference.couple(v)).max() ** 2 * theta.shape[1] * np.abs(inverse).max()
    np.testing.assert_allclose(
        cpu.reduced(v, inverse), reference.reduced(v, inverse), rtol=1e-5, atol=scale * size
    )
    for engine in (cpu, reference):
        engine.item_curvature()
    np.testing.assert_allclose(
        cpu.laplacian.multiply(v), reference.laplacian.multiply(v), atol=scale * np.abs(v).max()
    )


@given(likelihood_point())
def test_gradients_and_hessian_products_by_finite_differences(case):
    votes, name, scores, theta, rng = case
    engine = ReferenceEngine(votes)
    v, u = rng.normal(size=votes.n_items), rng.normal(size=theta.shape)
    step = 1e-6
    at = engine.derivatives(name, scores, theta)
    along = at.items @ v + np.sum(at.workers * u)
    # -H (v, u) from the kept second derivatives
    nothing = np.zeros_like(at.blocks)
    items = engine.reduced(v, nothing) + engine.spread(u)
    workers = engine.couple(v) + np.einsum("sjk,sk->sj", at.blocks, u)
    up = engine.derivatives(name, scores + step * v, theta + step * u)
    down = engine.derivatives(name, scores - step * v, theta - step * u)
    size = 1 + np.abs(at.diagonal).max() + np.abs(at.blocks).max()
    np.testing.assert_allclose(along, (up.value - down.value) / (2 * step), atol=1e-6 * size)
    for product, after, before in (
        (items, up.items, down.items),
        (workers, up.workers, down.workers),
    ):
        np.testing.assert_allclose(product, -(after - before) / (2 * step), atol=1e-5 * size)


@given(engines_and_point(), st.sampled_from([0.5, 1.0]))
def test_margin_flow(case, prior):
    cpu, reference, scores, _ = case
    np.testing.assert_allclose(
        cpu.margin_flow(scores, prior), reference.margin_flow(scores, prior), atol=1e-12
    )


@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
@pytest.mark.parametrize("d", [0.0, 1e-300, 50.0, 700.0, -700.0])
def test_likelihoods_far_out(name, d):
    """Finite values and gradients at 0 and 700, in the core as in the specification."""
    features = np.ones((1, 1), np.float32)
    votes = dataclasses.replace(
        Comparisons.from_arrays(["a"], ["b"], worker=["w"]), features=features
    )
    p = 2 if name == "led-logit" else 1
    theta = np.full((1, p), 0.9)
    scores = np.array([d, 0.0])
    ours = CpuEngine(votes, 1).derivatives(name, scores, theta)
    theirs = ReferenceEngine(votes).derivatives(name, scores, theta)
    assert np.isfinite(ours.value)
    assert np.isfinite(ours.items).all()
    np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(ours.items, theirs.items, rtol=1e-7, atol=1e-300)


@given(vectors(6, 45.0))
def test_probit_against_scipy(z):
    from scipy.special import log_ndtr

    value, _, _ = probit(z, np.ones(6))
    np.testing.assert_allclose(value, log_ndtr(z), rtol=1e-9, atol=1e-300)


@given(comparisons(), st.integers(1, 3), st.data())
def test_tally(votes, threads, data):
    scores = data.draw(vectors(votes.n_items))
    lean = (votes.outcome - 0.5) * (scores[votes.first] - scores[votes.second])
    worker = votes.worker_codes()
    ranked = ranks(scores, components(votes))
    counted = tally(votes, ranked, threads)
    found = counted.agreement
    for s in range(votes.n_workers):
        mine = (worker == s) & (votes.outcome != 0.5)
        if mine.any():
            share = votes.weight[mine & (lean > 0)].sum() / votes.weight[mine].sum()
            assert found[s] == pytest.approx(share)
        else:
            assert np.isnan(found[s])
    shown = np.zeros(votes.n_items)
    for items in (votes.first, votes.second):
        np.add.at(shown, items, votes.weight.astype(float))
    np.testing.assert_allclose(counted.appearances, shown)
