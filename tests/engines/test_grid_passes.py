"""The grid passes against brute force, and at their edges.

That engines agree with the specification, pass by pass, is in `test_contract`.
"""

from __future__ import annotations

import numpy as np
import pytest
from grid_cases import SHAPES, SIDE
from hypothesis import given
from hypothesis import strategies as st
from reference_engine import ReferenceEngine
from strategies import comparisons, vectors

from crowdsift import Comparisons, simulate
from crowdsift.engines import choose_engine
from crowdsift.engines.dense import interpolated_prior, refined_levels
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, SitePass, mirrored
from crowdsift.numeric.distributions import deposit
from crowdsift.solvers.ep.items import Factorisation, loopy_bp
from crowdsift.solvers.ep.summaries import quantiles
from crowdsift.solvers.ep.workers import WorkerPrior, gaussian_on, power_grid, worker_types


def started(engine, levels, prior, means, *, clip=True, types=RELIABILITY_ONLY, side=SIDE):
    """Sites after one full update."""
    sites = engine.grid.sites(types, 2.0)
    sites.update(SitePass(levels, prior, means, damping=1.0, clip=clip, side=side))
    return sites


def test_the_slope_is_the_derivative_of_the_evidence_in_the_pair_effect():
    """At fixed sites, by differences; and the closed form against an integral over the effects."""
    votes = simulate(6, 10, 80, seed=4).comparisons()
    engine = ReferenceEngine(votes)
    levels = power_grid(17)
    prior = WorkerPrior.start(levels, 1.0, 0.5).masses
    rng = np.random.default_rng(1)
    sites = started(engine, levels, prior, rng.normal(size=6))
    exact = Factorisation(engine)
    found = sites.vote_sites()
    tau, nu, n = found.tau.astype(float), found.nu.astype(float), sites._n
    sites.set_vote_sites(found, len(levels))  # what single precision holds of them
    pair, sign = sites._pairs.pair, sites._pairs.sign

    def evidence(s):
        """What of the evidence depends on s, and its slope."""
        system = sites.system(sites.pair_sums(), s)
        means = system.laplacian.solve(system.rhs, np.zeros(6), shift=1.0, tolerance=0.0).x
        determinant = exact.variances(sites, system.laplacian, exact=True).log_determinant
        found = sites.pair_posteriors(means)
        a = np.bincount(pair, n * tau)
        left = a / (1.0 + a * found.variance / (1.0 - a * found.variance))
        assert found.information == pytest.approx(0.5 * np.sum(left**2), rel=1e-6)
        return system.log_pairs - 0.5 * determinant + 0.5 * system.rhs @ means, found.slope

    for s in (0.0, 0.2, 1.0):
        up, down = evidence(s + 1e-4)[0], evidence(max(s - 1e-4, 0.0))[0]
        slope = (up - down) / (1e-4 if s == 0 else 2e-4)
        assert evidence(s)[1] == pytest.approx(slope, rel=2e-3)
        # scores and effects together are Gaussian, of precision P about P⁻¹ b
        k, p = 6, int(pair.max()) + 1
        design = np.zeros((len(n), k + p))
        rows = np.arange(len(n))
        design[rows, found.winner], design[rows, found.loser] = 1.0, -1.0
        design[rows, k + pair] = np.sqrt(s) * sign
        P = np.eye(k + p) + design.T @ (design * (n * tau)[:, None])
        b = design.T @ (n * nu)
        whole = 0.5 * b @ np.linalg.solve(P, b) - 0.5 * np.linalg.slogdet(P)[1]
        assert evidence(s)[0] == pytest.approx(whole, abs=1e-9)
        posterior = sites.pair_posteriors(np.linalg.solve(P, b)[:k])
        order = design * sign[:, None]
        means, cov = order @ np.linalg.solve(P, b), order @ np.linalg.inv(P) @ order.T
        np.testing.assert_allclose(posterior.mean[pair], means, atol=1e-9)
        np.testing.assert_allclose(posterior.variance[pair], np.diag(cov), atol=1e-9)


@pytest.mark.parametrize("name", ["cpu", "reference"])
@pytest.mark.parametrize("factor", [0.5, 1.25])
@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_a_held_scale_is_in_the_system(name, factor, effect):
    """Scores divided by a factor: precisions times its square, precision-means times it."""
    votes = simulate(8, 5, 120, seed=3).comparisons()
    engine = choose_engine(name, votes, 1)
    levels = power_grid(17)
    rng = np.random.default_rng(2)
    sites = started(engine, levels, WorkerPrior.start(levels, 1.0, 0.5).masses, rng.normal(size=8))
    before = sites.system(sites.pair_sums(), effect)
    rhs, v = before.rhs.copy(), rng.normal(size=8)
    product = before.laplacian.multiply(v)
    pairs = sites.pair_posteriors(v)
    sites.transform(scale=factor)
    held = sites.pair_posteriors(v / factor)  # the effect takes up the scale at once
    np.testing.assert_allclose(held.mean, pairs.mean / factor, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(held.variance, pairs.variance / factor**2, rtol=1e-5)
    after = sites.system(sites.pair_sums(), effect / factor**2)
    np.testing.assert_allclose(after.rhs, factor * rhs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(after.laplacian.multiply(v), factor**2 * product, rtol=1e-5, atol=1e-5)


@given(comparisons(), vectors(6))
def test_correlations_are_the_products_of_different_votes(votes, x):
    """Against the matrix built vote by vote; a vote of weight n is n votes."""
    x = x[: votes.n_items]
    expected, degrees = np.zeros(votes.n_items), np.zeros(votes.n_items)
    for s in range(votes.n_workers):
        rows = range(votes.offsets[s], votes.offsets[s + 1])
        answers = 2.0 * votes.outcome[list(rows)].astype(float) - 1.0
        n = votes.weight[list(rows)].astype(float)
        if votes.sides_known and n.sum() > 0:
            answers = answers - n @ answers / n.sum()
        direction = np.zeros((len(rows), votes.n_items))
        direction[np.arange(len(rows)), votes.first[list(rows)]] += 1
        direction[np.arange(len(rows)), votes.second[list(rows)]] -= 1
        summed = (n * answers) @ direction
        expected += summed * (summed @ x) - direction.T @ (n * answers**2 * (direction @ x))
        degrees += direction.T**2 @ (n * answers**2)
    found = ReferenceEngine(votes).grid.correlations()
    np.testing.assert_allclose(found.multiply(x), expected, atol=1e-6)
    np.testing.assert_allclose(found.diagonal(), degrees, atol=1e-6)


# --- adaptive grids ------------------------------------------------------------------------------


def test_refinement_reaches_the_width_of_the_likelihood():
    """A Gaussian likelihood of sd 0.01 on a coarse grid, and its mean and sd on its own grid."""
    common = power_grid(49)
    own, mean, sd = None, 1.234, 0.01
    for _ in range(12):
        points = mirrored(common if own is None else own)
        own = refined_levels(common, own, np.exp(-0.5 * ((points - mean) / sd) ** 2) + 1e-300)
    points = mirrored(own)
    mass = np.exp(-0.5 * ((points - mean) / sd) ** 2)
    mass /= mass.sum()
    assert points @ mass == pytest.approx(mean, abs=1e-6)
    assert np.sqrt((points - mean) ** 2 @ mass) == pytest.approx(sd, rel=1e-3)
    broad = np.exp(-0.5 * ((mirrored(common) - 1.0) / 0.8) ** 2)
    assert refined_levels(common, None, broad) is None


def test_a_prior_on_an_adaptive_grid_keeps_its_density():
    common = power_grid(49)
    prior = gaussian_on(mirrored(common), 1.0, 0.8)
    own = np.linspace(0.8, 1.2, 24)
    masses = interpolated_prior(common, prior, own)
    exact = np.exp(-0.5 * ((own - 1.0) / 0.8) ** 2) / (0.8 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(masses[25:] / np.gradient(own), exact, rtol=0.03)


def test_masses_shared_by_neighbours_keep_sum_and_mean():
    common = mirrored(power_grid(17))
    points = np.linspace(-1.3, 2.1, 12)
    mass = np.random.default_rng(3).dirichlet(np.ones(12))
    shared = deposit(common, points, mass)
    assert shared.sum() == pytest.approx(1.0)
    assert shared @ common == pytest.approx(mass @ points)


# --- variances -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_belief_propagation_is_exact_on_a_tree_and_close_on_a_random_graph(name):
    chain = Comparisons.from_arrays(np.arange(60), np.arange(1, 61), worker=np.arange(60) % 7, outcome=np.ones(60))
    random = simulate(300, 50, 1500, seed=3).comparisons()
    for votes, slack in ((chain, 1e-4), (random, 0.02)):
        engine = choose_engine(name, votes, 1)
        levels = power_grid(17)
        prior = WorkerPrior.start(levels, 1.0, 0.5).masses
        sites = started(engine, levels, prior, np.zeros(votes.n_items))
        laplacian = sites.system(sites.pair_sums()).laplacian
        messages = None
        for _ in range(7):  # at most 30 sweeps each: messages cross the whole chain
            near, messages = loopy_bp(sites, laplacian, messages)
        pairs = sites.pair_posteriors(np.zeros(votes.n_items)).variance.copy()
        exact = Factorisation(engine).variances(sites, laplacian, exact=True)
        assert near.definite
        assert exact.definite
        np.testing.assert_allclose(near.items, exact.items, rtol=slack)
        of_pairs = sites.pair_posteriors(np.zeros(votes.n_items)).variance
        np.testing.assert_allclose(pairs, of_pairs, rtol=slack)
        assert near.log_determinant == pytest.approx(exact.log_determinant, rel=0.01)


@given(comparisons(), st.integers(0, 2**32 - 1))
def test_variances_of_pairs_are_those_of_the_inverse(votes, seed):
    """Takahashi's recursion against the inverse, with weights of both signs."""
    engine = choose_engine("cpu", votes, 1)
    rng = np.random.default_rng(seed)
    levels, k = power_grid(9), votes.n_items
    sites = started(engine, levels, rng.dirichlet(np.ones(9)), rng.normal(size=k), clip=False)
    laplacian = sites.system(sites.pair_sums()).laplacian
    low, high, weight = laplacian.pairs()
    dense = np.diag(laplacian.diagonal() + 1.0)
    dense[low, high] = dense[high, low] = -weight
    found = Factorisation(engine).variances(sites, laplacian, exact=True)
    assert found.definite == (np.linalg.eigvalsh(dense).min() > 0)
    if found.definite:
        S = np.linalg.inv(dense)
        np.testing.assert_allclose(found.items, np.diag(S), rtol=1e-6)
        result = sites.pair_posteriors(np.zeros(k))
        expected = np.diag(S)[result.first] + np.diag(S)[result.second] - 2 * S[result.first, result.second]
        np.testing.assert_allclose(result.variance, expected, rtol=1e-5)
        assert found.log_determinant == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-8)


# --- edges ---------------------------------------------------------------------------------------


def test_quantiles_of_a_fine_gaussian():
    points = np.linspace(-4, 4, 801)[None]
    masses = np.exp(-0.5 * points**2)
    found = quantiles(points, masses, np.array([0.05, 0.5, 0.95]))
    np.testing.assert_allclose(found[0], [-1.6449, 0.0, 1.6449], atol=1e-3)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_workers_without_votes_keep_the_prior(name):
    votes = Comparisons.from_codes(
        np.array([0], np.uint32),
        np.array([1], np.uint32),
        worker=np.array([1], np.uint32),
        items=np.array(["a", "b"], object),
        workers=np.array(["none", "one", "too"], object),
    )
    levels = power_grid(9)
    prior = np.arange(1.0, 10.0) / 45.0
    sites = started(choose_engine(name, votes, 1), levels, prior, np.zeros(2))
    masses = sites.posteriors(prior, slice(3)).masses
    np.testing.assert_allclose(masses[[0, 2]], np.tile(prior, (2, 1)), rtol=1e-6)


def test_bad_calls_are_refused():
    votes = Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    sites = choose_engine("cpu", votes, 1).grid.sites(RELIABILITY_ONLY, 2.0)
    how = {"damping": 1.0, "clip": True, "side": SidePrior()}
    with pytest.raises(ValueError, match="no update yet"):
        sites.type_counts(np.ones(5))
    with pytest.raises(ValueError, match="at least two levels"):
        sites.update(SitePass(np.ones(1), np.ones(3), np.zeros(2), **how))
    with pytest.raises(ValueError, match="prior has 4 entries, expected 5"):
        sites.update(SitePass(np.array([1.0, 2.0]), np.ones(4), np.zeros(2), **how))


@pytest.mark.parametrize("types", SHAPES[:2])
def test_suspended_sites_go_on_where_they_were(types):
    """Another run may use the engine meanwhile; only the variances are computed once more."""
    votes = simulate(12, 8, 300, seed=4).comparisons()
    engine = choose_engine("cpu", votes, 1)
    levels = power_grid(11)
    prior = np.full(types.n_types(levels), 1.0 / types.n_types(levels))
    means = np.linspace(-1.0, 1.0, 12)
    exact = Factorisation(engine)

    def with_variances(sites):
        system = sites.system(sites.pair_sums())
        assert exact.variances(sites, system.laplacian, exact=True).definite

    def begin():
        sites = started(engine, levels, prior, means, types=types)
        with_variances(sites)
        return sites

    def resume(sites):
        update = sites.update(SitePass(levels, prior, means, damping=0.5, clip=True, side=SIDE))
        return update, sites.system(sites.pair_sums())

    expected = resume(begin())
    sites = begin()
    sites.suspend()
    begin()
    with pytest.raises(ValueError, match="suspended"):
        resume(sites)
    with_variances(sites)
    found = resume(sites)
    np.testing.assert_array_equal(found[1].rhs, expected[1].rhs)
    assert found[0].log_messages == expected[0].log_messages


@pytest.mark.parametrize("threads", [1, 2])
def test_counts_under_many_priors_after_one_pass(threads):
    """Counts from copies of the types that matter, and from all where a prior lifts the others."""
    rng = np.random.default_rng(8)
    n, m = 6_000, 400
    worker, one = rng.integers(m, size=n), rng.integers(8, size=n)
    two = (one + rng.integers(1, 8, n)) % 8
    outcome = rng.choice([0.0, 0.5, 1.0], n)
    worker[:900] = 0  # one of many votes, with a grid of its own
    votes = Comparisons.from_arrays(one, two, worker=worker, outcome=outcome, sides_known=True)
    levels, types = power_grid(49), worker_types(ties=True, sides=True)
    means = np.linspace(-1.0, 1.0, 8)
    prior = WorkerPrior.start(levels, 1.0, 0.05, types)
    narrow = prior.masses.copy()
    narrow[: 14 * 49].reshape(14, 49)[np.r_[:5, 7:14]] *= 1e-9
    narrow /= narrow.sum()
    core, plain = (
        started(choose_engine(name, votes, threads), levels, narrow, means, types=types)
        for name in ("cpu", "reference")
    )
    x = narrow
    for step in range(6):
        ours, theirs = core.type_counts(x), plain.type_counts(x)
        np.testing.assert_allclose(ours, theirs, atol=2e-3)
        assert ours.sum() == pytest.approx(theirs.sum(), rel=1e-5)
        x = theirs / theirs.sum() if step != 3 else rng.dirichlet(np.ones(len(x)))
