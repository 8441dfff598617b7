"""What the mathematics of BoRaEM promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_engine import ReferenceEngine
from reference_engine.links import logistic, polya_gamma_mean
from strategies import comparisons, vectors

import crowdsift
from crowdsift.engines import choose_engine
from crowdsift.solvers.em import EMState, alternate


@st.composite
def votes_and_point(draw, **options):
    votes = draw(comparisons(**options))
    return votes, draw(vectors(votes.n_items)), draw(vectors(votes.n_workers))


def differences(votes, scores):
    return scores[votes.first] - scores[votes.second]


def expected_complete(votes, precision, scores, slopes, shift, ridge):
    """Q = Σ n[(y - ½)η - ½E[ω]η²] minus the penalties."""
    eta = slopes[votes.worker_codes()] * differences(votes, scores)
    n, y = votes.weight.astype(float), votes.outcome.astype(float)
    return (
        np.sum(n * (y - 0.5) * eta - 0.5 * precision * eta**2)
        - 0.5 * shift * scores @ scores
        - 0.5 * ridge * slopes @ slopes
    )


@given(votes_and_point(), st.sampled_from([0.01, 1.0]))
def test_q_never_falls_in_an_alternation(case, shift):
    votes, scores, slopes = case
    e_step = ReferenceEngine(votes).em.e_step(scores, slopes)
    precision = votes.weight * polya_gamma_mean(slopes[votes.worker_codes()] * differences(votes, scores))
    value = expected_complete(votes, precision, scores, slopes, shift, 1.0)
    for alternations in range(1, 5):  # each begins with those of the one before
        *moved, _ = alternate(EMState(scores, slopes, e_step), alternations, shift=shift, ridge=1.0, tolerance=1e-12)
        new = expected_complete(votes, precision, *moved, shift, 1.0)
        assert new >= value - 1e-9 * max(1.0, abs(value))
        value = new


@given(votes_and_point(decided=True, weighted=False), st.integers(0, 2**32 - 1))
def test_m_step_is_matrix_sensing_least_squares(case, seed):
    """‖A(βrᵀ) - u‖² with A_i = 2c_iα e_s(e_w - e_l)ᵀ, c² = κ, α = √(MK/2N), u = α/c."""
    votes, scores, slopes = case
    votes = replace(votes, weight=np.ones_like(votes.weight))  # equal rows are one
    worker = votes.worker_codes()
    eta = slopes[worker] * differences(votes, scores)
    kappa = polya_gamma_mean(eta)
    sign = np.where(votes.outcome > 0.5, 1.0, -1.0)  # winner over loser
    alpha = np.sqrt(votes.n_workers * votes.n_items / (2 * len(votes)))
    c = np.sqrt(kappa)

    def sensing(r, beta):
        product = np.outer(beta, r)
        measured = 2 * c * alpha * sign * (product[worker, votes.first] - product[worker, votes.second])
        return np.sum((measured - alpha / c) ** 2)

    def minus_q(r, beta):
        return -expected_complete(votes, kappa, r, beta, 0.0, 0.0)

    rng = np.random.default_rng(seed)
    points = [(rng.normal(size=votes.n_items), rng.normal(size=votes.n_workers)) for _ in range(3)]
    # ‖·‖² = 8α²·(-Q) + constant
    constants = [sensing(*p) - 8 * alpha**2 * minus_q(*p) for p in points]
    np.testing.assert_allclose(constants, constants[0], rtol=1e-8)


@given(votes_and_point())
def test_opposite_signs_have_the_same_likelihood(case):
    votes, scores, slopes = case
    em = choose_engine("cpu", votes, 1).em
    one, other = em.e_step(scores, slopes), em.e_step(-scores, -slopes)
    assert one.log_likelihood == other.log_likelihood


@given(votes_and_point(connected=True))
def test_laplacian_is_positive_semidefinite_with_null_vector_one(case):
    votes, scores, _ = case
    step = choose_engine("cpu", votes, 1).em.e_step(scores, np.ones(votes.n_workers))
    matrix = np.stack([step.system.laplacian.multiply(e) for e in np.eye(votes.n_items)])
    np.testing.assert_array_equal(matrix, matrix.T)
    eigenvalues = np.linalg.eigvalsh(matrix)
    scale = eigenvalues[-1]
    assert abs(eigenvalues[0]) < 1e-12 * scale
    assert eigenvalues[1] > 1e-4 * scale  # connected: the null space is one-dimensional
    np.testing.assert_allclose(matrix.sum(axis=1), 0.0, atol=1e-12 * scale)


@pytest.mark.parametrize("method", ["bt", "bora-em"])
def test_weight_three_is_three_rows(method):
    drawn = crowdsift.simulate(items=12, workers=6, comparisons=150, seed=2)
    labels = drawn.items[drawn.first], drawn.items[drawn.second]
    worker = drawn.workers[drawn.worker]
    once = crowdsift.Comparisons.from_arrays(*labels, worker=worker, outcome=drawn.outcome, weight=np.full(150, 3.0))
    thrice = crowdsift.Comparisons.from_arrays(
        *(np.repeat(side, 3) for side in labels), worker=np.repeat(worker, 3), outcome=np.repeat(drawn.outcome, 3)
    )
    one, three = crowdsift.fit(once, method), crowdsift.fit(thrice, method)
    assert one.items["score"].tobytes() == three.items["score"].tobytes()
    assert one.workers["agreement"].tobytes() == three.workers["agreement"].tobytes()


@pytest.mark.parametrize("method", ["bt", "bora-em"])
def test_order_of_rows_does_not_matter(method):
    drawn = crowdsift.simulate(items=15, workers=8, comparisons=300, seed=4)
    shuffle = np.random.default_rng(0).permutation(300)
    fits = []
    for order in (np.arange(300), shuffle):
        votes = crowdsift.Comparisons.from_arrays(
            drawn.items[drawn.first[order]],
            drawn.items[drawn.second[order]],
            worker=drawn.workers[drawn.worker[order]],
            outcome=drawn.outcome[order],
        )
        fits.append(crowdsift.fit(votes, method, threads=1))
    assert fits[0].item_table.to_csv() == fits[1].item_table.to_csv()
    assert fits[0].worker_table.to_csv() == fits[1].worker_table.to_csv()


@given(vectors(8, 20.0), st.sampled_from([0.0, 0.25, 1.0]))
def test_logistic_derivatives_by_finite_differences(eta, y):
    outcome = np.full(8, y)
    step = 1e-5
    _, slope, curvature = logistic(eta, outcome)
    up, down = logistic(eta + step, outcome), logistic(eta - step, outcome)
    np.testing.assert_allclose(slope, (up[0] - down[0]) / (2 * step), atol=1e-8)
    np.testing.assert_allclose(curvature, (up[1] - down[1]) / (2 * step), atol=1e-8)


@given(votes_and_point())
def test_score_gradient_and_hessian_by_finite_differences(case):
    votes, scores, slopes = case
    passes = ReferenceEngine(votes).slopes
    at = passes.curvature(scores, slopes)
    step = 1e-5
    for j, unit in enumerate(np.eye(votes.n_items)):
        up, down = (passes.curvature(scores + s * step * unit, slopes) for s in (1, -1))
        slope = (up.value - down.value) / (2 * step)
        np.testing.assert_allclose(at.gradient[j], slope, atol=1e-6)
        bend = (down.gradient - up.gradient) / (2 * step)
        np.testing.assert_allclose(at.laplacian.multiply(unit), bend, atol=1e-5)
