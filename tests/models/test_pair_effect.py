"""sift's effect of a pair: its evidence by integration, and where it is found."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons
from crowdsift.engines import choose_engine
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, SitePass, mirrored
from crowdsift.fitting.estimate import Resources
from crowdsift.fitting.holdout import left_out_log_likelihood
from crowdsift.models import Sift
from crowdsift.solvers.ep.items import Factorisation
from crowdsift.solvers.ep.workers import WorkerPrior, power_grid


@pytest.mark.parametrize("effect", [0.2, 1.0])
def test_evidence_of_a_pair_effect_against_integration(effect):
    """The same votes, an effect of every pair: the three differences are Gaussian together."""
    votes = Comparisons.from_arrays(
        ["a", "a", "b", "b", "a", "c", "a"],
        ["b", "c", "c", "c", "b", "b", "c"],
        worker=["u", "u", "u", "v", "v", "w", "w"],
    )
    levels = power_grid(17)
    prior = WorkerPrior.start(levels, 1.0, 0.5)
    engine = choose_engine("reference", votes)
    sites, factorisation = engine.grid.sites(RELIABILITY_ONLY, 2.0), Factorisation(engine)
    system = sites.system(sites.pair_sums(), effect)
    means, determinant, evidence = np.zeros(3), 0.0, 0.0
    for step in range(200):
        damping = 1.0 if step == 0 else 0.5
        update = sites.update(SitePass(levels, prior.masses, means, damping=damping, clip=False, side=SidePrior()))
        evidence = update.log_messages - update.log_sites + system.log_pairs
        evidence += -determinant / 2 + system.rhs @ means / 2
        system = sites.system(sites.pair_sums(), effect)
        means = system.laplacian.solve(system.rhs, means, shift=1.0, tolerance=0.0).x
        found = factorisation.variances(sites, system.laplacian, exact=True)
        determinant = found.log_determinant
    result = sites.pair_posteriors(means)
    design = np.eye(3)[result.first] - np.eye(3)[result.second]
    factor = np.linalg.cholesky(design @ design.T + effect * np.eye(3))
    x, w = np.polynomial.hermite_e.hermegauss(41)
    d = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3) @ factor.T
    weight = np.einsum("i,j,k->ijk", w, w, w).ravel() / w.sum() ** 3
    place = {(int(a), int(b)): p for p, (a, b) in enumerate(zip(*result[:2], strict=True))}
    for s in range(votes.n_workers):
        likelihood = np.ones((len(d), 17))
        for i in range(votes.offsets[s], votes.offsets[s + 1]):
            low, high = sorted((int(votes.first[i]), int(votes.second[i])))
            lower_wins = (votes.outcome[i] > 0.5) == (votes.first[i] == low)
            difference = (1.0 if lower_wins else -1.0) * d[:, place[low, high]]
            likelihood *= 1.0 / (1.0 + np.exp(-difference[:, None] * mirrored(levels)))
        weight = weight * (likelihood @ prior.masses)
    assert evidence == pytest.approx(np.log(weight.sum()), abs=0.03)
    np.testing.assert_allclose(result.mean, weight @ d / weight.sum(), atol=0.04)
    second = weight @ d**2 / weight.sum() - (weight @ d / weight.sum()) ** 2
    # what EP itself is off by: .052 for an effect of 0
    np.testing.assert_allclose(result.variance, second, rtol=0.06)


def votes_on_pairs(seed, effect, pairs=200, each=10):
    """30 items, 60 workers of both signs; `each` workers judge every pair, which has an effect."""
    rng = np.random.default_rng(seed)
    r, beta = rng.normal(size=30), rng.uniform(-1, 2, size=60)
    low, high = np.triu_indices(30, 1)
    chosen = rng.permutation(len(low))[:pairs]
    u = rng.normal(size=pairs) * np.sqrt(effect)
    first, second = (np.repeat(x[chosen], each) for x in (low, high))
    worker = np.concatenate([rng.permutation(60)[:each] for _ in range(pairs)])
    eta = beta[worker] * (r[first] - r[second] + np.repeat(u, each))
    outcome = rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))
    return Comparisons.from_arrays(first, second, worker=worker, outcome=outcome.astype(float), sides_known=True)


@pytest.mark.parametrize("effect", [0.0, 0.5, 1.0])
def test_a_pair_effect_is_found_where_there_is_one(effect):
    found = []
    for seed in (0, 1, 2):
        votes = votes_on_pairs(seed, effect)
        plain, fit = (crowdsift.fit(votes, Sift(pair_effect=tried), threads=1) for tried in (False, True))
        assert fit.converged
        assert plain.summary["pair_effect"] == 0.0
        found.append(fit.summary["pair_effect"])
        gain = fit.summary["evidence"] - plain.summary["evidence"]
        assert gain > 3.0 if effect else gain == 0.0
        if not effect:
            assert fit.item_table.to_csv() == plain.item_table.to_csv()
            assert fit.worker_table.to_csv() == plain.worker_table.to_csv()
    if effect:
        assert effect / 2 < np.exp(np.mean(np.log(found))) < 2 * effect
    else:
        assert found == [0.0, 0.0, 0.0]


def test_the_pair_effect_is_the_same_on_the_reference_engine():
    votes = votes_on_pairs(3, 1.0, pairs=200)
    ours = crowdsift.fit(votes, Sift(tolerance=1e-6), engine="cpu", threads=1)
    theirs = crowdsift.fit(votes, Sift(tolerance=1e-6), engine="reference")
    assert ours.summary["pair_effect"] > 0.0
    assert ours.summary["pair_effect"] == pytest.approx(theirs.summary["pair_effect"], rel=1e-2)
    assert ours.summary["evidence"] == pytest.approx(theirs.summary["evidence"], abs=0.02)


def test_a_pair_effect_predicts_votes_left_out():
    votes = votes_on_pairs(1, 1.0)
    plain, effect = (
        left_out_log_likelihood(votes, Sift(pair_effect=tried), Resources(threads=1)) for tried in (False, True)
    )
    assert effect > plain + 0.005
