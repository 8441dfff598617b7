"""Votes with covariates: the pieces of the sites against closed forms and quadrature."""

from __future__ import annotations

import numpy as np
from reference_engine.covariates import NumpyPasses

from crowdsift.engines.covariates import CovariatePasses, CovariateVotes, TypeValues
from crowdsift.numeric.likelihoods import LOGISTIC_SMOOTHING, sigmoid
from crowdsift.solvers.ep.terms.covariates import (
    cavities,
    eliminate,
    positive,
    sites_of_moments,
    start,
    worker_messages,
)


def square(rows):
    return np.array([[[a, b], [b, c]] for a, b, c in rows])


def planes(rng, count, size):
    root = rng.normal(size=(count, 2, 2)) * size
    found = root @ root.transpose(0, 2, 1)
    return np.stack([found[:, 0, 0], found[:, 0, 1], found[:, 1, 1]], axis=1)


def test_cavities_and_sites_undo_each_other():
    """A cavity times its site is the posterior; sites of a Gaussian factor are the factor."""
    rng = np.random.default_rng(1)
    V, A = planes(rng, 50, 0.5), planes(rng, 50, 0.4)
    E, h = rng.normal(size=(2, 50, 2))
    m, C = cavities(E, V, A, h)
    precision = np.linalg.inv(square(C)) + square(A)
    proper = np.linalg.eigvals(square(V) @ square(A)).real.max(axis=1) < 0.9
    assert proper.sum() > 25
    np.testing.assert_allclose(precision[proper], np.linalg.inv(square(V))[proper], rtol=1e-8)
    back = np.linalg.solve(square(C), m[..., None])[..., 0] + h
    np.testing.assert_allclose(back[proper], np.linalg.solve(square(V), E[..., None])[proper][..., 0], rtol=1e-7)
    # log ∫ N(x; m, V) exp(-xᵀAx/2 + hᵀx): gradient α and Hessian -κ in m, in closed form
    W = np.linalg.inv(np.eye(2) + square(A) @ square(V))
    kappa = W @ square(A)
    alpha = (W @ (h - (square(A) @ E[..., None])[..., 0])[..., None])[..., 0]
    rows = np.stack([kappa[:, 0, 0], kappa[:, 0, 1], kappa[:, 1, 1]], axis=1)
    tau, nu = sites_of_moments(alpha, rows, E, V)
    near = np.linalg.eigvals(square(V) @ kappa).real.max(axis=1) < 0.9
    np.testing.assert_allclose(tau[near], A[near], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(nu[near], h[near], rtol=1e-7, atol=1e-9)


def test_positive_is_the_nearest_positive_matrix():
    rows = np.random.default_rng(2).normal(size=(40, 3))
    values, vectors = np.linalg.eigh(square(rows))
    wanted = (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.transpose(0, 2, 1)
    np.testing.assert_allclose(square(positive(rows)), wanted, atol=1e-12)


def test_elimination_is_the_dense_joint_gaussian():
    """Means and covariances of scores, g and γ equal those of the whole precision matrix."""
    rng = np.random.default_rng(3)
    K, S, P, N = 5, 3, 2, 60
    worker = np.sort(rng.integers(0, S, N))
    winner = rng.integers(0, K, N)
    loser = (winner + rng.integers(1, K, N)) % K
    A, h, n = planes(rng, N, 0.5), rng.normal(size=(N, 2)), rng.uniform(0.5, 2.0, N)
    C, T = rng.normal(size=(N, P)), np.array([0.3, 0.05])
    for free in (np.array([True, True]), np.array([True, False])):
        size = K + P + S * P
        precision, rhs = np.eye(size), np.zeros(size)
        for i in range(N):
            D = np.zeros((2, size))
            D[0, winner[i]], D[0, loser[i]] = 1.0, -1.0
            D[1, K : K + P] = C[i] * free
            u = K + P + worker[i] * P
            D[1, u : u + P] = C[i] * np.sqrt(T)
            precision += n[i] * D.T @ square(A[i : i + 1])[0] @ D
            rhs += n[i] * D.T @ h[i]
        covariance = np.linalg.inv(precision)
        mean = covariance @ rhs
        starts = np.searchsorted(worker, np.arange(S + 1))
        votes = CovariateVotes(worker, starts, C, n, np.zeros(N, bool), np.zeros(N), winner, loser)
        found = eliminate(A, h, votes, K, T, free)
        operator, right, logs = found.items()
        scores = operator.solve(right, np.zeros(K), shift=1.0, tolerance=1e-9).x
        np.testing.assert_allclose(scores, mean[:K], rtol=1e-9)
        g, gamma = found.coefficients(scores)
        to_gamma = np.zeros((S * P, size))
        for s in range(S):
            for p in range(P):
                to_gamma[s * P + p, K + p] = float(free[p])
                to_gamma[s * P + p, K + P + s * P + p] = np.sqrt(T[p])
        np.testing.assert_allclose(g[free], mean[K : K + P][free], rtol=1e-9)
        np.testing.assert_allclose(gamma.ravel(), to_gamma @ mean, rtol=1e-8)
        joint = found.posterior()
        assert joint is not None
        together = covariance @ to_gamma.T
        for s in range(S):
            columns = slice(s * P, s * P + P)
            np.testing.assert_allclose(joint.with_coefficients[s, :K], together[:K, columns], atol=1e-10)
            np.testing.assert_allclose(joint.coefficients[s], (to_gamma @ together)[columns, columns], atol=1e-10)
        matrix = operator.multiply(np.eye(K)) + np.eye(K)
        evidence = logs + 0.5 * right @ scores - 0.5 * np.linalg.slogdet(matrix)[1]
        whole = 0.5 * rhs @ mean - 0.5 * np.linalg.slogdet(precision)[1]
        np.testing.assert_allclose(evidence, whole, rtol=1e-9)


def test_messages_are_the_integral_over_coefficients():
    """Laplace's approximation of a worker's likelihood given a type, against quadrature."""
    rng = np.random.default_rng(4)
    N, g, T = 40, 0.3, 0.5
    C, m, v = rng.normal(size=(N, 1)), rng.normal(size=N), rng.uniform(0.05, 0.3, N)
    n, beta = np.ones(N), np.array([[-0.5, 0.0, 1.2]])
    none = np.zeros(N, np.int64)
    votes = CovariateVotes(none, np.array([0, N]), C, n, none > 0, np.zeros(N), none, none)
    types = TypeValues(beta, np.zeros(3), np.zeros(3), np.ones(3))
    found, root = start(1, 3, np.array([g])), np.array([np.sqrt(T)])
    for _ in range(6):
        found = worker_messages(NumpyPasses(votes), types, m, v, np.array([g]), root, found, np.ones((1, 3), bool))
    x = np.linspace(g - 6 * np.sqrt(T), g + 6 * np.sqrt(T), 4001)
    prior = np.exp(-0.5 * (x - g) ** 2 / T) / np.sqrt(2 * np.pi * T)
    for t in range(3):
        k = 1.0 / np.sqrt(1.0 + LOGISTIC_SMOOTHING * beta[0, t] ** 2 * v)
        z = k[:, None] * (beta[0, t] * m[:, None] + C * x)
        density = np.exp(np.log(sigmoid(z)).sum(axis=0)) * prior
        step = x[1] - x[0]
        total = density.sum() * step
        mean = (x * density).sum() * step / total
        variance = ((x - mean) ** 2 * density).sum() * step / total
        np.testing.assert_allclose(found.messages[0, t], np.log(total), atol=0.02)
        np.testing.assert_allclose(found.mean[0, t, 0], mean, atol=0.03)
        np.testing.assert_allclose(found.covariance[0, t, 0, 0], variance, rtol=0.1)


def test_the_core_passes_as_the_specification_does():
    """Wins and ties, side-only types, types that are not wanted, a worker without votes."""
    rng = np.random.default_rng(5)
    N, S, T, P = 80, 5, 6, 3
    worker = np.sort(rng.choice([0, 1, 2, 4], N))
    starts = np.searchsorted(worker, np.arange(S + 1))
    votes = CovariateVotes(
        worker,
        starts,
        rng.normal(size=(N, P)),
        rng.uniform(0.5, 3.0, N),
        rng.random(N) < 0.3,
        rng.choice([-1.0, 1.0], N),
        worker,
        worker,
    )
    regular = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    beta = rng.normal(size=(S, T)) * regular
    width, only = rng.uniform(0.1, 2.0, T), np.array([0, 0, 0, 0, 1.0, -2.0])
    types = TypeValues(beta, width, only, regular)
    m, gamma, q = rng.normal(size=(N, 2)), rng.normal(size=(S, T, P)), rng.random((S, T))
    V, wanted = planes(rng, N, 0.6), rng.random((S, T)) < 0.7
    q[1] = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    for threads in (1, 3):
        one, two = NumpyPasses(votes), CovariatePasses(votes, threads)
        for a, b in zip(
            one.messages(types, m[:, 0], V[:, 0], gamma, wanted),
            two.messages(types, m[:, 0], V[:, 0], gamma, wanted),
            strict=True,
        ):
            np.testing.assert_allclose(a[wanted], b[wanted], rtol=1e-10, atol=1e-10)
        for a, b in zip(one.moments(types, m, V, gamma, q), two.moments(types, m, V, gamma, q), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
