"""The grid passes of the core against their specification, and against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from crowdsift.engines.own_levels import interpolated_prior, refined_levels
from grid_cases import CLOSE, SHAPES, SIDE, passes
from hypothesis import given
from hypothesis import strategies as st
from strategies import comparisons, vectors

from crowdsift import Comparisons, simulate
from crowdsift.engines.cpu import CpuEngine
from crowdsift.engines.grid import WorkerPoints, mirrored
from crowdsift.engines.reference import ReferenceEngine
from crowdsift.solvers.type_summary import quantiles
from crowdsift.solvers.worker_prior import WorkerPrior, gaussian_on, power_grid


@given(passes())
def test_updates(case):
    """Two updates with exact variances between them, then everything that a pass tells."""
    makers, levels, prior, means, clip = case
    found = []
    for make in makers:
        engine, sites = make()
        sites.reset(1.5)
        first = sites.update(levels, prior, means[0], damping=1.0, clip=True, side=SIDE)
        variances = sites.pair_variances(exact=True)
        assert variances.definite
        second = sites.update(levels, prior, means[1], damping=0.5, clip=clip, side=SIDE)
        found.append(
            [
                first.counts,
                first.log_messages,
                first.log_sites,
                first.rhs,
                variances.items,
                variances.log_determinant,
                second.counts,
                second.log_messages,
                second.log_sites,
                second.rhs,
                second.known_margin,
                second.sides,
                *(sites.sides() if second.sides.weight else ()),
                engine.laplacian.multiply(means[0]),
                sites.type_counts(prior[::-1].copy()),
                sites.posteriors(prior, 0, engine.n_workers).masses,
            ]
        )
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)


@given(passes(), st.sampled_from([0.01, 0.3, 4.0]))
def test_updates_with_a_pair_effect(case, effect):
    """The same with an effect of every pair, and what is told of pairs."""
    makers, levels, prior, means, clip = case
    found = []
    for make in makers:
        engine, sites = make()
        sites.reset(1.5)
        sites.update(levels, prior, means[0], damping=1.0, clip=True)
        plain = sites.pair_posteriors(means[0])
        twin = sites.copy()
        rhs = twin.set_pair_effect(effect)
        variances = twin.pair_variances(exact=True)
        first = twin.pair_posteriors(means[1])
        update = twin.update(levels, prior, means[1], damping=0.5, clip=clip)
        twin.rescale(1.25)
        rescaled = twin.refresh()
        product = engine.laplacian.multiply(means[0])
        twin.set_pair_effect(0.0)
        unchanged = sites.refresh()
        votes = 1.0 + engine.total_weight  # each adds its error to a sum
        found.append(
            [
                *plain[:4],
                rhs,
                variances.items,
                variances.log_determinant,
                *first[:4],
                update.log_messages / votes,
                update.log_sites / votes,
                update.log_pairs / votes,
                update.rhs,
                rescaled,
                product,
                unchanged,
                sites.update(levels, prior, means[1], damping=0.5, clip=clip).log_pairs,
            ]
        )
        found[-1].append(first.slope / (1.0 + engine.total_weight**2))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)
    assert found[0][-2] == 0.0


def test_the_slope_is_the_derivative_of_the_evidence_in_the_pair_effect():
    """At fixed sites, by differences; and the closed form against an integral over the effects."""
    votes = simulate(6, 10, 80, seed=4).comparisons()
    engine = ReferenceEngine(votes)
    sites = engine.grid_sites()
    levels = power_grid(17)
    prior = WorkerPrior.start(levels, 1.0, 0.5).masses
    rng = np.random.default_rng(1)
    sites.update(levels, prior, rng.normal(size=6), damping=1.0, clip=True)
    A, h, n = sites._A, sites._h, sites._n

    def evidence(s):
        """What of the evidence depends on s, and its slope."""
        rhs = sites.set_pair_effect(s)
        means = np.linalg.solve(engine.laplacian.matrix + np.eye(6), rhs)
        determinant = sites.pair_variances(exact=True).log_determinant
        slope = sites.pair_posteriors(means).slope
        return sites._log_pairs - 0.5 * determinant + 0.5 * rhs @ means, slope

    for s in (0.0, 0.2, 1.0):
        up, down = evidence(s + 1e-4)[0], evidence(max(s - 1e-4, 0.0))[0]
        slope = (up - down) / (1e-4 if s == 0 else 2e-4)
        assert evidence(s)[1] == pytest.approx(slope, rel=2e-3)
        # scores and effects together are Gaussian, of precision P about P⁻¹ b
        k, p = 6, len(sites._pairs)
        design = np.zeros((len(n), k + p))
        rows = np.arange(len(n))
        design[rows, sites._winner], design[rows, sites._loser] = 1.0, -1.0
        design[rows, k + sites._pair] = np.sqrt(s) * sites._sign
        P = np.eye(k + p) + design.T @ (design * (n * A)[:, None])
        b = design.T @ (n * h)
        whole = 0.5 * b @ np.linalg.solve(P, b) - 0.5 * np.linalg.slogdet(P)[1]
        assert evidence(s)[0] == pytest.approx(whole, abs=1e-9)
        told = sites.pair_posteriors(np.linalg.solve(P, b)[:k])
        order = design * sites._sign[:, None]
        means, cov = order @ np.linalg.solve(P, b), order @ np.linalg.inv(P) @ order.T
        np.testing.assert_allclose(told.mean[sites._pair], means, atol=1e-9)
        np.testing.assert_allclose(told.variance[sites._pair], np.diag(cov), atol=1e-9)


@given(passes(), st.sampled_from([0.5, 1.25]), st.sampled_from([0.0, 0.3]))
def test_a_held_scale_is_in_the_system(case, factor, effect):
    makers, levels, prior, means, _ = case
    found = []
    for make in makers:
        engine, sites = make()
        sites.update(levels, prior, means[0], damping=1.0, clip=True)
        rhs = sites.set_pair_effect(effect)
        held = sites.hold_scale(factor, rhs)
        product = engine.laplacian.multiply(means[1])
        found.append([held, product])
        np.testing.assert_allclose(sites.refresh(), held, **CLOSE)
        np.testing.assert_allclose(engine.laplacian.multiply(means[1]), product, **CLOSE)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)


@given(passes(), st.sampled_from([0.5, 1.25]))
def test_refresh_rescale_and_guard(case, factor):
    makers, levels, prior, means, _ = case
    found = []
    for make in makers:
        engine, sites = make()
        sites.update(levels, prior, means[0], damping=1.0, clip=False)
        sites.rescale(factor)
        rhs = sites.refresh()
        product = engine.laplacian.multiply(means[1])
        dropped = sites.drop_negative()
        found.append([rhs, product, dropped, engine.laplacian.multiply(means[1])])
        assert (engine.laplacian.diagonal() >= 0).all()
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)


@given(comparisons(), vectors(6), st.integers(1, 3))
def test_correlations_are_the_products_of_different_votes(votes, x, threads):
    """Against the matrix built vote by vote; a vote of weight n is n votes."""
    x = x[: votes.n_items]
    cpu, reference = CpuEngine(votes, threads).grid_sites(), ReferenceEngine(votes).grid_sites()
    np.testing.assert_allclose(cpu.correlate(x), reference.correlate(x), atol=1e-6)
    np.testing.assert_allclose(
        cpu.correlation_degrees(), reference.correlation_degrees(), atol=1e-6
    )
    expected = np.zeros(votes.n_items)
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
    np.testing.assert_allclose(reference.correlate(x), expected, atol=1e-6)


@given(comparisons(), vectors(6), st.integers(1, 3), st.sampled_from(SHAPES))
def test_pair_likelihood(votes, scores, threads, habits):
    rng = np.random.default_rng(len(votes))
    points = WorkerPoints(
        rng.normal(size=(votes.n_workers, 7)),
        rng.choice(habits.widths, (votes.n_workers, 7)),
        rng.normal(size=(votes.n_workers, 7)) * habits.sides,
        rng.uniform(0, 1, (votes.n_workers, 7)) * habits.sides,
    )
    told = []
    for engine in (CpuEngine(votes, threads), ReferenceEngine(votes)):
        sites = engine.grid_sites(habits)
        first, second = sites.pair_posteriors(np.zeros(votes.n_items))[:2]
        variances = 0.1 + 0.2 * ((first + second) % 5)
        told.append(sites.pair_likelihood(scores[first] - scores[second], variances, points))
    assert told[0] == pytest.approx(told[1], rel=1e-6, abs=1e-6)


def test_refined_workers_agree_with_the_specification():
    """Few workers with many votes: their likelihoods are narrower than a cell."""
    votes = simulate(12, 4, 6000, reliability=(0.3, 1.5), seed=2).comparisons()
    levels = power_grid(25)
    prior = WorkerPrior.start(levels, 1.0, 0.5).masses
    means = np.linspace(-1, 1, 12)
    found = []
    for engine in (CpuEngine(votes, 1), ReferenceEngine(votes)):
        sites = engine.grid_sites()
        for _ in range(3):
            update = sites.update(levels, prior, means, damping=0.5, clip=True)
            moved = sites.refine()
        told = sites.posteriors(prior, 0, 4)
        found.append([update.counts, update.log_messages, told.points, told.masses, moved,
                      sites.type_counts(prior)])  # fmt: skip
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=5e-3, atol=2e-3)
    spread = np.ptp(found[0][2][:, 13:], axis=1)
    assert (spread < 2.0).all()  # every worker has levels of its own
    assert found[0][0].sum() == pytest.approx(4.0)


def test_refinement_reaches_the_width_of_the_likelihood():
    """A Gaussian likelihood of sd 0.01 on a coarse grid, and its mean and sd on its own levels."""
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


def test_a_prior_on_own_levels_keeps_its_density():
    common = power_grid(49)
    prior = gaussian_on(mirrored(common), 1.0, 0.8)
    own = np.linspace(0.8, 1.2, 24)
    masses = interpolated_prior(common, prior, own)
    exact = np.exp(-0.5 * ((own - 1.0) / 0.8) ** 2) / (0.8 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(masses[25:] / np.gradient(own), exact, rtol=0.03)


def test_belief_propagation_is_exact_on_a_tree_and_close_on_a_random_graph():
    chain = Comparisons.from_arrays(
        np.arange(60), np.arange(1, 61), worker=np.arange(60) % 7, outcome=np.ones(60)
    )
    random = simulate(300, 50, 1500, seed=3).comparisons()
    for votes, slack in ((chain, 1e-4), (random, 0.02)):
        engine = CpuEngine(votes, 1)
        sites = engine.grid_sites()
        levels = power_grid(17)
        prior = WorkerPrior.start(levels, 1.0, 0.5).masses
        sites.update(levels, prior, np.zeros(votes.n_items), damping=1.0, clip=True)
        diagonal, log_determinant, definite = sites._sites.believe(1e-7, 200)
        pairs = sites._sites.pair_variances()
        exact = sites.pair_variances(exact=True)
        assert definite
        assert exact.definite
        np.testing.assert_allclose(diagonal, exact.items, rtol=slack)
        np.testing.assert_allclose(pairs, sites._sites.pair_variances(), rtol=slack)
        assert log_determinant == pytest.approx(exact.log_determinant, rel=0.01)


@given(comparisons(), st.integers(0, 2**32 - 1))
def test_sparse_and_dense_variances_agree(votes, seed):
    """Takahashi's recursion against the inverse, with weights of both signs."""
    engine = CpuEngine(votes, 1)
    rng = np.random.default_rng(seed)
    sites = engine.grid_sites()
    levels = power_grid(9)
    prior = rng.dirichlet(np.ones(9))
    sites.update(levels, prior, rng.normal(size=votes.n_items), damping=1.0, clip=False)
    low, high, weight = engine._core.weighted_pairs()
    dense = np.diag(engine.laplacian.diagonal() + 1.0)
    dense[low, high] = dense[high, low] = -weight
    found = sites.pair_variances(exact=True)
    assert found.definite == (np.linalg.eigvalsh(dense).min() > 0)
    if found.definite:
        S = np.linalg.inv(dense)
        np.testing.assert_allclose(found.items, np.diag(S), rtol=1e-6)
        expected = S[low, low] + S[high, high] - 2 * S[low, high]
        np.testing.assert_allclose(sites._sites.pair_variances(), expected, rtol=1e-5)
        assert found.log_determinant == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-8)


def test_quantiles_of_a_fine_gaussian():
    points = np.linspace(-4, 4, 801)[None]
    masses = np.exp(-0.5 * points**2)
    found = quantiles(points, masses, np.array([0.05, 0.5, 0.95]))
    np.testing.assert_allclose(found[0], [-1.6449, 0.0, 1.6449], atol=1e-3)


def test_workers_without_votes_keep_the_prior():
    votes = Comparisons.from_codes(
        np.array([0], np.uint32), np.array([1], np.uint32), worker=np.array([1], np.uint32),
        items=np.array(["a", "b"], object), workers=np.array(["none", "one", "too"], object),
    )  # fmt: skip
    levels = power_grid(9)
    prior = np.arange(1.0, 10.0) / 45.0
    for engine in (CpuEngine(votes, 1), ReferenceEngine(votes)):
        sites = engine.grid_sites()
        sites.update(levels, prior, np.zeros(2), damping=1.0, clip=True)
        masses = sites.posteriors(prior, 0, 3).masses
        np.testing.assert_allclose(masses[[0, 2]], np.tile(prior, (2, 1)), rtol=1e-6)


def test_bad_calls_are_refused():
    sites = CpuEngine(Comparisons.from_arrays(["a"], ["b"], worker=["w"]), 1).grid_sites()
    with pytest.raises(ValueError, match="no update yet"):
        sites.type_counts(np.ones(5))
    with pytest.raises(ValueError, match="at least two levels"):
        sites.update(np.ones(1), np.ones(3), np.zeros(2), damping=1.0, clip=True)
    with pytest.raises(ValueError, match="prior has 4 entries, expected 5"):
        sites.update(np.array([1.0, 2.0]), np.ones(4), np.zeros(2), damping=1.0, clip=True)


@pytest.mark.parametrize("habits", SHAPES[:2])
def test_suspended_sites_go_on_where_they_were(habits):
    """Another run may use the engine meanwhile; only the variances are computed once more."""
    votes = simulate(12, 8, 300, seed=4).comparisons()
    engine = CpuEngine(votes, 1)
    levels = power_grid(11)
    prior = np.full(habits.n_types(levels), 1.0 / habits.n_types(levels))
    means = np.linspace(-1.0, 1.0, 12)

    def begin():
        sites = engine.grid_sites(habits)
        sites.reset(2.0)
        sites.update(levels, prior, means, damping=1.0, clip=True, side=SIDE)
        sites.pair_variances(exact=True)
        return sites

    def go_on(sites):
        return sites.update(levels, prior, means, damping=0.5, clip=True, side=SIDE)

    expected = go_on(begin())
    sites = begin()
    sites.suspend()
    begin()
    with pytest.raises(ValueError, match="suspended"):
        go_on(sites)
    sites.refresh()
    sites.pair_variances(exact=True)
    found = go_on(sites)
    np.testing.assert_array_equal(found.rhs, expected.rhs)
    assert found.log_messages == expected.log_messages
