"""The prior of scores by features: posterior, evidence and its derivative against dense algebra."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from reference_engine.building_blocks import laplacian

import crowdsift
from crowdsift import Comparisons
from crowdsift.engines import choose_engine
from crowdsift.engines.fused import pair_distances, solve_rows
from crowdsift.engines.grid import RELIABILITY_ONLY, SiteSystem, mirrored
from crowdsift.solvers.ep.items import Factorisation
from crowdsift.solvers.ep.state import Propagation, Settings
from crowdsift.solvers.ep.terms import features as low_rank_features
from crowdsift.solvers.ep.terms.features import DensePrior, LowRankPrior
from crowdsift.solvers.ep.workers import WorkerPrior, power_grid
from crowdsift.votes.item_features import standardised_block

KINDS = [DensePrior, LowRankPrior]
SHARES = np.array([0.3, 0.2])


def groups_of(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    raw = rng.normal(size=(n, 3)), rng.normal(size=(n, 2)) * [1.0, 9.0]
    return [standardised_block("g", "columns", ("c",), ("c",) * each.shape[1], each).values for each in raw]


def run_of(kind: type, engine_name: str = "cpu") -> Propagation:
    """A run of some iterations with fixed shares."""
    votes = crowdsift.simulate(items=12, workers=9, comparisons=300, seed=2).comparisons()
    engine = choose_engine(engine_name, votes, 1)
    run = Propagation.begin(
        "flat", engine, power_grid(17), Settings(solve_tolerance=1e-12), RELIABILITY_ONLY, None, Factorisation(engine)
    )
    assert run is not None
    run.item_prior = kind(groups_of(12), SHARES.copy())
    run.item_prior.learn = lambda run: None
    for _ in range(6):
        run.iterate()
    run.exact = True
    run.find_items()
    return run


def dense(run: Propagation, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Means, covariance and evidence of items at the run's sites, by plain NumPy."""
    n, (low, high, weight) = 12, run.system.laplacian.pairs()
    L = np.zeros((n, n))
    for a, b, w in zip(low, high, weight, strict=True):
        L[a, a] += w
        L[b, b] += w
        L[a, b] -= w
        L[b, a] -= w
    C = (1.0 - shares.sum()) * np.eye(n)
    for share, X in zip(shares, groups_of(n), strict=True):
        C += share * X.astype(float) @ X.T.astype(float)
    sigma = np.linalg.inv(L + np.linalg.inv(C))
    means = sigma @ run.system.rhs
    log_determinant = np.linalg.slogdet(np.eye(n) + L @ C)[1]
    return means, sigma, 0.5 * (run.system.rhs @ means - log_determinant)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_posterior_and_evidence_are_those_of_dense_algebra(kind, engine):
    run = run_of(kind, engine)
    means, sigma, evidence = dense(run, SHARES)
    assert abs(run.means - means).max() < 1e-5
    found = run.item_prior.pair_variances(run)
    assert found.definite
    assert found.items == pytest.approx(np.diag(sigma), rel=1e-3)
    first, second, _, variance = run.sites.pair_posteriors(run.means)[:4]
    wanted = np.array([sigma[a, a] + sigma[b, b] - 2 * sigma[a, b] for a, b in zip(first, second, strict=True)])
    assert variance == pytest.approx(wanted, rel=1e-3)
    assert 0.5 * (run.system.rhs @ run.means - found.log_determinant) == pytest.approx(evidence, abs=5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_shares_follow_the_derivative_of_the_evidence(kind):
    """½(αᵀGα - tr QG) is the derivative in the variance of a group, here by finite differences."""
    run = run_of(kind)
    squares, determined = run.item_prior._squares(run)
    own = 0.5 * (squares[-1] - determined[-1])  # a share more is as much less of an item's own
    for group in range(2):
        step = np.zeros(2)
        step[group] = 1e-4
        slope = (dense(run, SHARES + step)[2] - dense(run, SHARES - step)[2]) / 2e-4
        found = 0.5 * (squares[group] - determined[group]) - own
        assert found == pytest.approx(slope, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_regression(kind):
    """w = ZᵀC⁻¹r has the mean ZᵀC⁻¹m and the covariance I - ZᵀC⁻¹(C - Σ)C⁻¹Z."""
    run = run_of(kind)
    means, sigma, _ = dense(run, SHARES)
    Z = run.item_prior.design().astype(float)
    inverse = np.linalg.inv(0.5 * np.eye(12) + Z @ Z.T)
    C = np.linalg.inv(inverse)
    covariance = np.eye(5) - Z.T @ inverse @ (C - sigma) @ inverse @ Z
    found = run.item_prior.weights(run)
    assert found.mean == pytest.approx(Z.T @ inverse @ means, abs=1e-4)
    rows = np.random.default_rng(1).normal(size=(4, 5))
    assert found.variance(rows) == pytest.approx(np.einsum("ij,jk,ik->i", rows, covariance, rows), rel=2e-3)
    assert found.variances() == pytest.approx(np.diag(covariance), rel=2e-3)


def two_items(monkeypatch, levels, prior):
    """EP's evidence of a few votes on two items, the distribution of workers being N(1, ½²)."""
    monkeypatch.setattr(WorkerPrior, "learned", lambda self, *given, **named: self)
    votes = Comparisons.from_arrays(list("aaba"), list("bbab"), worker=list("uvwu"))
    engine = choose_engine("cpu", votes, 1)
    settings = Settings(tolerance=1e-9, refine=False, solve_tolerance=1e-12)
    run = Propagation.begin("flat", engine, levels, settings, RELIABILITY_ONLY, None, Factorisation(engine))
    assert run is not None
    run.prior = WorkerPrior.start(power_grid(17), 1.0, 0.5)
    run.prior = replace(run.prior, levels=levels)
    run.item_prior, run.scale_steps = prior, 99  # on the grid as it is
    while not run.done:
        run.iterate()
    run.finish()
    return run


def test_evidence_of_two_items_against_integration(monkeypatch):
    """With x = ±1 the difference of two items has the prior variance 2(1 + ρ).

    EP is the same as without features on a grid √(1 + ρ) times as wide. What the evidence gains or loses by ρ, on which
    shares and the gate depend, is that of the integrals.
    """
    prior, levels = DensePrior([np.array([[1.0], [-1.0]])], np.array([0.3])), power_grid(17)
    prior.learn = lambda run: None
    run = two_items(monkeypatch, levels, prior)
    wide = two_items(monkeypatch, levels * np.sqrt(1.3), None)
    assert run.evidence[-1] == pytest.approx(wide.evidence[-1], abs=1e-3)  # float32
    plain = two_items(monkeypatch, levels, None)
    d, exact = np.linspace(-14.0, 14.0, 4001), []
    p = 1.0 / (1.0 + np.exp(-np.outer(mirrored(levels), d)))
    for variance in (2.6, 2.0):
        total = np.exp(-(d**2) / (2.0 * variance)) / np.sqrt(variance)
        for likelihood in (p * p, p, 1.0 - p):  # of u, v and w
            total = total * (run.prior.masses @ likelihood)
        exact.append(np.log(total.sum()))
    assert run.evidence[-1] - plain.evidence[-1] == pytest.approx(exact[0] - exact[1], abs=0.005)


def test_many_solves_at_once():
    votes = crowdsift.simulate(items=40, workers=9, comparisons=300, seed=3).comparisons()
    rng, found = np.random.default_rng(0), []
    rhs = rng.normal(size=(19, 40)).astype(np.float32)
    for name in ("cpu", "reference"):
        engine = choose_engine(name, votes, 2)
        laplacian = engine.slopes.curvature(np.linspace(-1, 1, 40), np.ones(9)).laplacian
        x = solve_rows(laplacian, rhs, np.zeros_like(rhs), shift=0.7, tolerance=1e-6)
        residual = np.array([laplacian.multiply(row.astype(float)) for row in x]) + 0.7 * x - rhs
        assert np.abs(residual).max() < 1e-4
        found.append(x)
        low, high, _ = laplacian.pairs()
        apart = ((rhs.T[low].astype(np.float64) - rhs.T[high]) ** 2).sum(axis=1)
        assert pair_distances(laplacian, rhs.T) == pytest.approx(apart, rel=1e-5)
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_shares_at_rest_stay_until_one_has_far_to_go():
    """Steps of a share below .002 are none; at rest, so are those below three times that."""
    prior = DensePrior([np.array([[1.0], [-1.0]])], np.array([0.3]))

    def stepped(step):
        prior._squares = lambda run: (np.array([np.exp(step), 1.0]), np.ones(2))
        before = prior.shares[0]
        prior.learn(None)
        return prior.shares[0] > before, prior.at_rest

    assert stepped(0.004) == (True, False)
    assert stepped(0.0015) == (False, True)
    assert stepped(0.004) == (False, True)
    assert stepped(0.02) == (True, False)


def test_variances_by_messages_are_those_of_a_factorisation_on_a_chain():
    """Where there are no loops belief propagation is exact, features or not."""
    votes = Comparisons.from_arrays(np.tile(np.arange(11), 4), np.tile(np.arange(1, 12), 4), worker=np.arange(44) % 5)
    engine = choose_engine("reference", votes, 1)
    run = Propagation.begin(
        "flat", engine, power_grid(17), Settings(solve_tolerance=1e-12), RELIABILITY_ONLY, None, Factorisation(engine)
    )
    run.item_prior = LowRankPrior(groups_of(12), SHARES.copy())
    run.item_prior.learn = lambda run: None
    for _ in range(3):
        run.iterate()
    run.exact, found, pairs = True, [], []
    for exact in (run.factorisation, SimpleNamespace(variances=lambda *given, **named: None)):
        run.factorisation, run.messages = exact, None
        found.append(run.item_prior.pair_variances(run))
        pairs.append(run.sites.pair_posteriors(run.means).variance.copy())
    assert found[1].definite
    assert found[1].items == pytest.approx(found[0].items, rel=1e-3)
    assert pairs[1] == pytest.approx(pairs[0], rel=1e-3)
    assert found[1].log_determinant == pytest.approx(found[0].log_determinant, abs=1e-2)


def test_sites_without_a_proper_gaussian_are_said_to_be_improper():
    """A pair of so negative a precision that none is left; a proper one after it is solved."""
    prior, start = DensePrior([np.array([[1.0], [-1.0]])], np.array([0.3])), np.array([0.4, -0.1])
    low, high, rhs = np.array([0]), np.array([1]), np.array([1.0, -1.0])
    for weight, definite in ((-9.0, False), (2.0, True)):
        system = SiteSystem(laplacian(2, low, high, np.array([weight])), rhs, 0.0)
        sites = SimpleNamespace(set_pair_variances=lambda pairs: None)
        found = prior.pair_variances(SimpleNamespace(system=system, pair_sites=sites))
        assert found.definite is definite
        C = 0.7 * np.eye(2) + 0.3 * np.array([[1.0, -1.0], [-1.0, 1.0]])
        L = weight * np.array([[1.0, -1.0], [-1.0, 1.0]])
        wanted = np.linalg.solve(L + np.linalg.inv(C), rhs) if definite else start
        assert prior.solve(system, start, 0.0) == pytest.approx(wanted)


def test_many_features_of_many_pairs_are_expensive(monkeypatch):
    monkeypatch.setattr(low_rank_features, "_EXPENSIVE", 50)
    prior = LowRankPrior(groups_of(12))  # five features
    assert not prior.is_expensive(10)
    assert prior.is_expensive(11)


def test_shares_of_many_features_wait_for_what_they_are_learned_from():
    """T and S are made anew where sites or shares have moved; in between shares stay."""
    run = run_of(LowRankPrior)
    prior = run.item_prior
    del prior.learn  # that of its class again
    before = prior.shares.copy()
    prior.learn(run)
    moved = prior.shares.copy()
    assert np.abs(moved - before).max() > 1e-3
    prior.learn(run)
    np.testing.assert_array_equal(prior.shares, moved)
    prior.solve(run.system, run.means, 1e-9)
    prior.learn(run)
    assert np.abs(prior.shares - moved).max() > 1e-4


def test_shares_rest_where_items_have_nothing_of_their_own():
    """With s at its least, steps that all groups share are undone by the sum, and are none."""
    prior = DensePrior([np.array([[1.0], [-1.0]])] * 2, np.array([0.5, 0.48]))
    prior._squares = lambda run: (np.exp([-0.01, -0.01, -0.02]), np.ones(3))
    prior.learn(None)
    assert prior.at_rest
    assert prior.shares == pytest.approx([0.5, 0.48])
    prior._squares = lambda run: (np.exp([-0.05, -0.05, 0.3]), np.ones(3))
    grown = DensePrior([np.array([[1.0], [-1.0]])] * 2, np.array([0.5, 0.48]))
    grown._squares = prior._squares
    grown.learn(None)
    assert grown.own > 0.021  # the least is no trap
    prior._squares = lambda run: (np.exp([0.01, -0.03, -0.02]), np.ones(3))
    prior.learn(None)
    assert not prior.at_rest
    assert prior.shares[0] > 0.5
    assert prior.own == pytest.approx(0.02)


@pytest.mark.parametrize("own", [0.05, 0.03, 0.021])
def test_what_items_have_of_their_own_falls_to_its_least_where_votes_say_so(own):
    prior = DensePrior([np.array([[1.0], [-1.0]])] * 2, (1.0 - own) * np.array([0.5, 0.5]))
    prior._squares = lambda run: (np.exp([0.0, 0.0, -0.5]), np.ones(3))
    for _ in range(10):
        prior.learn(None)
    assert prior.own == pytest.approx(0.02)
    assert prior.at_rest


def test_votes_that_cancel_leave_all_scores_at_zero():
    """A right side of exactly 0, at first and after another one."""
    run = run_of(LowRankPrior)
    nothing = run.system._replace(rhs=np.zeros(12))
    fresh = LowRankPrior(groups_of(12), SHARES.copy())
    for prior in (fresh, run.item_prior):
        assert prior.solve(nothing, np.zeros(12), 1e-9) == pytest.approx(np.zeros(12), abs=1e-6)
    assert np.abs(run.means).max() > 0.1


def test_the_last_evidence_of_runs_is_compared():
    """A run that only had more evidence before is not better; side biases and features cost 3 nats."""

    def run(*evidence, sides=False, features=True):
        types = SimpleNamespace(types=SimpleNamespace(sides=sides))
        return SimpleNamespace(prior=types, evidence=evidence, item_prior=object() if features else None)

    better = low_rank_features._better
    assert better(run(0.0, 10.0), run(20.0, 5.0))
    assert not better(run(20.0, 5.0), run(0.0, 10.0))
    for wider, best in ((run(12.0, sides=True), run(10.0)), (run(12.0), run(10.0, features=False))):
        assert not better(wider, best)
        assert better(SimpleNamespace(**{**vars(wider), "evidence": (13.5,)}), best)
