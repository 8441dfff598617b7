"""Engines at their edges, and the specification against finite differences and by hand.

That engines agree with the specification, pass by pass, is in `test_contract`.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_engine import ReferenceEngine
from reference_engine.links import LIKELIHOODS, probit
from strategies import comparisons, vectors

from crowdsift import Comparisons, RequestError, simulate
from crowdsift.engines import choose_engine
from crowdsift.results.ranking import ranks


def one_vote():
    return Comparisons.from_arrays(["a"], ["b"], worker=["w"])


@given(comparisons(), st.data())
def test_a_solve_from_its_answer_takes_no_step(votes, data):
    scores, slopes = data.draw(vectors(votes.n_items)), data.draw(vectors(votes.n_workers))
    laplacian = choose_engine("cpu", votes).slopes.curvature(scores, slopes).laplacian
    rhs = scores - scores.mean()
    found = laplacian.solve(rhs, np.zeros_like(rhs), shift=0.01, tolerance=1e-12)
    assert found.converged
    assert laplacian.solve(rhs, found.x, shift=0.01, tolerance=1e-6).iterations == 0


@pytest.mark.parametrize("eta", [0.0, 1e-300, 1e-9, 1e-4, 0.2499, 0.2501, 1.0, 36.0, 700.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extreme_margins(eta, sign):
    """Stable at 0 and at 700, and no seam where the series takes over."""
    cpu, reference = choose_engine("cpu", one_vote(), 1), ReferenceEngine(one_vote())
    scores, slopes = np.array([sign * eta, 0.0]), np.ones(1)
    ours, theirs = (
        (step.log_likelihood, step.precision)
        for step in (engine.em.e_step(scores, slopes) for engine in (cpu, reference))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-14)
    found, expected = (engine.slopes.curvature(scores, slopes) for engine in (cpu, reference))
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-14)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-13)
    assert np.isfinite([*ours, found.value]).all()


def test_threads_agree_on_larger_votes():
    """Above the sizes where threads start to pay, one and three threads give the same."""
    drawn = simulate(items=300, workers=400, comparisons=60_000, seed=5)
    votes = drawn.comparisons()
    one, three = choose_engine("cpu", votes, 1), choose_engine("cpu", votes, 3)
    scores, slopes = drawn.scores, drawn.reliability
    steps = [engine.em.e_step(scores, slopes) for engine in (one, three)]
    for name in ("log_likelihood", "precision"):
        assert getattr(steps[0], name) == pytest.approx(getattr(steps[1], name), rel=1e-12)
    regressed = [step.regress(scores, 1.0) for step in steps]
    for ours, theirs in zip(*((slopes, system.rhs) for slopes, system in regressed), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
    found, other = (engine.slopes.curvature(scores, slopes) for engine in (one, three))
    np.testing.assert_allclose(found.value, other.value, rtol=1e-12)
    np.testing.assert_allclose(found.gradient, other.gradient, rtol=1e-9, atol=1e-10)
    again = choose_engine("cpu", votes, 3).slopes.curvature(scores, slopes)
    assert again.gradient.tobytes() == other.gradient.tobytes()


def test_bad_vectors_are_refused():
    engine = choose_engine("cpu", one_vote(), 1)
    with pytest.raises(ValueError, match="scores has 3 entries, expected 2"):
        engine.em.e_step(np.zeros(3), np.ones(1))
    with pytest.raises(ValueError, match="slopes has 2 entries, expected 1"):
        engine.em.e_step(np.zeros(2), np.ones(2))


@pytest.mark.parametrize("name", ["abacus", "slide rule"])
def test_engines_that_do_not_exist(name):
    with pytest.raises(RequestError, match=name):
        choose_engine(name, one_vote())
    with pytest.raises(RequestError, match="threads must be at least 1"):
        choose_engine("cpu", one_vote(), 0)


@st.composite
def likelihood_point(draw):
    """A likelihood, votes with features, and a point inside its bounds."""
    votes = draw(comparisons())
    name = draw(st.sampled_from(sorted(LIKELIHOODS)))
    features = draw(st.integers(1, 3)) if name in ("led-logit", "shifted-logit") else 0
    p = {"led-logit": 1 + features, "shifted-logit": features}.get(name, 1)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.choice([-1.0, 0.0, 1.0], (len(votes), features)).astype(np.float32)
    votes = dataclasses.replace(votes, features=x)
    theta = rng.uniform(0.05, 0.95, (votes.n_workers, p)) * (1 if name == "flipped-logit" else 2)
    return votes, name, draw(vectors(votes.n_items)), theta, rng


@given(likelihood_point())
def test_gradients_and_second_derivatives_by_finite_differences(case):
    votes, name, scores, theta, rng = case
    passes = ReferenceEngine(votes).likelihood
    v, u = rng.normal(size=votes.n_items), rng.normal(size=theta.shape)
    step = 1e-6
    at = passes.derivatives(name, scores, theta)
    up = passes.derivatives(name, scores + step * v, theta + step * u)
    down = passes.derivatives(name, scores - step * v, theta - step * u)
    diagonal = at.hessian.reduced(None).diagonal()
    size = 1 + np.abs(diagonal).max() + np.abs(at.blocks).max()
    along = at.items @ v + np.sum(at.workers * u)
    np.testing.assert_allclose(along, (up.value - down.value) / (2 * step), atol=1e-6 * size)
    # along the scores alone: A v; along the parameters alone: the blocks
    for move, product, field in (
        ((v, 0.0), at.hessian.reduced(None).multiply(v), "items"),
        ((0.0, u), np.einsum("sjk,sk->sj", at.blocks, u), "workers"),
    ):
        ahead, back = (
            getattr(passes.derivatives(name, scores + s * move[0], theta + s * move[1]), field) for s in (step, -step)
        )
        np.testing.assert_allclose(product, -(ahead - back) / (2 * step), atol=1e-5 * size)


@given(likelihood_point())
def test_mixed_second_derivatives_by_finite_differences(case):
    """A - B·inverse·B' with B from differences of the workers' gradient."""
    votes, name, scores, theta, rng = case
    passes = ReferenceEngine(votes).likelihood
    hessian = passes.derivatives(name, scores, theta).hessian
    step, k = 1e-6, votes.n_items
    B = np.stack(
        [
            (
                passes.derivatives(name, scores - step * unit, theta).workers
                - passes.derivatives(name, scores + step * unit, theta).workers
            )
            / (2 * step)
            for unit in np.eye(k)
        ]
    )
    inverse = rng.normal(size=(*theta.shape, theta.shape[1]))
    inverse = inverse @ inverse.transpose(0, 2, 1)
    reduced = hessian.reduced(inverse)
    matrix = np.stack([reduced.multiply(unit) for unit in np.eye(k)])
    A = np.stack([hessian.reduced(None).multiply(unit) for unit in np.eye(k)])
    expected = A - np.einsum("jsp,spq,ksq->jk", B, inverse, B)
    size = 1 + np.abs(B).max() * np.abs(B).sum() * np.abs(inverse).max()
    np.testing.assert_allclose(matrix, expected, atol=1e-5 * size)


@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
@pytest.mark.parametrize("d", [0.0, 1e-300, 50.0, 700.0, -700.0])
def test_likelihoods_far_out(name, d):
    """Finite values and gradients at 0 and 700, in the core as in the specification."""
    votes = dataclasses.replace(one_vote(), features=np.ones((1, 1), np.float32))
    theta = np.full((1, 2 if name == "led-logit" else 1), 0.9)
    ours, theirs = (
        engine.likelihood.derivatives(name, np.array([d, 0.0]), theta)
        for engine in (choose_engine("cpu", votes, 1), ReferenceEngine(votes))
    )
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
    """Against counts by hand."""
    scores = data.draw(vectors(votes.n_items))
    engine = choose_engine("cpu", votes, threads)
    rank = ranks(scores, engine.facts.component).astype(np.float64)
    found = engine.counts.tally(rank)
    worker, n = votes.worker_codes(), votes.weight.astype(float)
    lean = 2.0 * votes.outcome.astype(float) - 1.0
    above = np.sign(rank[votes.second] - rank[votes.first])
    for s in range(votes.n_workers):
        mine = worker == s
        decided = mine & (lean != 0.0)
        assert found.agreed[s] == pytest.approx(n[decided & (lean * above > 0)].sum())
        assert found.ranked[s] == pytest.approx(n[decided & (above != 0)].sum())
        assert found.decided[s] == pytest.approx(n[decided].sum())
        assert found.leaning[s] == pytest.approx(n[decided] @ lean[decided])
        assert found.loads[s] == pytest.approx(n[mine].sum())
    for j in range(votes.n_items):
        first, second = votes.first == j, votes.second == j
        assert found.appearances[j] == pytest.approx(n[first | second].sum())
        won = n[first] @ votes.outcome[first] + n[second] @ (1.0 - votes.outcome[second])
        assert found.wins[j] == pytest.approx(won)
        assert found.losses[j] == pytest.approx(n[first | second].sum() - won)


def test_without_dask_its_engine_says_what_to_install():
    code = (
        "import sys; sys.modules['distributed'] = None; import crowdsift\n"
        "try: crowdsift.fit({'winner': ['a'], 'loser': ['b'], 'worker': ['w']}, engine='dask')\n"
        "except crowdsift.RequestError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'crowdsift[dask]'" in done.stdout, done.stderr
