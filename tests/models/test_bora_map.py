"""bora-map: the passes with slopes eliminated, and the optimum that the method must reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_engine import ReferenceEngine
from scipy.optimize import minimize
from strategies import comparisons, vectors

import crowdsift
from crowdsift import BoraMAP, Comparisons
from crowdsift.engines import choose_engine
from crowdsift.engines.base import SlopePrior
from crowdsift.solvers.slopes import WorkerSlopes


def by_item(fit, votes):
    return fit.scores_of(votes.items)


def test_a_short_last_step_is_exact_to_second_order():
    """What the slope's last step leaves is of the order of its length squared."""
    drawn = crowdsift.simulate(12, 9, 3000, seed=2)
    passes = choose_engine("cpu", drawn.comparisons(), 1).slopes
    exact = passes.profile(drawn.scores, np.ones(9), SlopePrior(1.0, 1.0, 1e-12))
    for step in (1e-2, 1e-3):
        near = passes.profile(drawn.scores, exact.slopes + step, SlopePrior(1.0, 1.0, 10 * step))
        assert np.abs(near.slopes - exact.slopes).max() < 10 * step**2
        assert np.abs(near.gradient - exact.gradient).max() < 1000 * step**2
        assert abs(near.value - exact.value) < 2 * 3000 * step**2


@pytest.mark.parametrize("scale", [2.0**-12, 2.0**12])
def test_slopes_know_no_scale_of_the_scores(scale):
    """Scores and prior in other units: the same steps, to the last bit but of the sums."""
    drawn = crowdsift.simulate(12, 9, 3000, seed=2)
    passes = choose_engine("cpu", drawn.comparisons(), 1).slopes
    plain = passes.profile(drawn.scores, np.ones(9), SlopePrior(1.0, 1.0, 1e-2))
    other = passes.profile(scale * drawn.scores, np.ones(9) / scale, SlopePrior(1.0 / scale, scale**2, 1e-2))
    np.testing.assert_allclose(scale * other.slopes, plain.slopes, rtol=1e-12)
    assert other.value == pytest.approx(plain.value, rel=1e-12)


def test_slopes_on_which_newton_goes_to_and_fro():
    """From here plain Newton steps jump between -2 and 1.8 without end."""
    votes = Comparisons.from_codes(
        np.array([0, 0, 1, 1, 2, 2], np.uint32),
        np.array([2, 5, 3, 5, 3, 4], np.uint32),
        worker=np.array([0, 1, 1, 1, 1, 1], np.uint32),
        weight=np.array([5, 0.5, 1, 0.5, 1.5, 0.5]),
        items=np.arange(6).astype(object),
        workers=np.arange(2).astype(object),
    )
    scores = np.array([2.310280, 2.623752, -0.883019, 2.177693, -1.016709, -1.005411])
    prior = SlopePrior(0.8, 2.0, 1e-9)
    rng = np.random.default_rng(0)
    for start in ([2.493, -2.0247], *rng.uniform(-3, 3, (50, 2))):
        ours, theirs = (
            choose_engine(name, votes, 1).slopes.profile(scores, np.array(start), prior)
            for name in ("cpu", "reference")
        )
        np.testing.assert_allclose(ours.slopes, theirs.slopes, atol=1e-8)
        assert ours.value == pytest.approx(theirs.value, abs=1e-8)


def test_long_and_empty_runs_of_workers():
    """Workers beyond a block, many in a block, and without votes, on several threads."""
    rng = np.random.default_rng(0)
    n = 30_000
    first = rng.integers(50, size=n)
    second = (first + rng.integers(1, 50, size=n)) % 50
    worker = np.where(rng.random(n) < 0.5, 3, rng.integers(4, 400, size=n))
    votes = Comparisons.from_codes(
        first.astype(np.uint32),
        second.astype(np.uint32),
        worker=worker.astype(np.uint32),
        outcome=rng.choice([0.0, 0.5, 1.0], n),
        items=np.arange(50).astype(object),
        workers=np.arange(400).astype(object),
    )
    scores, v = rng.normal(size=(2, 50))
    prior = SlopePrior(0.5, 1.0, 1e-10)

    def profile(name, threads):
        return choose_engine(name, votes, threads).slopes.profile(scores, np.zeros(400), prior)

    theirs = profile("reference", 1)
    for threads in (1, 2, 3):
        ours = profile("cpu", threads)
        for mine, other in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-6)
        product = ours.hessian.multiply(v)
        np.testing.assert_allclose(product, theirs.hessian.multiply(v), rtol=1e-5, atol=1e-2)
        again = profile("cpu", threads).hessian.multiply(v)
        assert product.tobytes() == again.tobytes()


@given(comparisons(), st.data())
def test_gradient_and_hessian_by_finite_differences(votes, data):
    scores, v = data.draw(vectors(votes.n_items)), data.draw(vectors(votes.n_items))
    objective = WorkerSlopes(ReferenceEngine(votes), 0.5, 0.9, 0.7)
    step = 1e-5

    def at(x):
        value, gradient = objective.evaluate(x)
        return value, gradient.copy()

    up, down = at(scores + step * v), at(scores - step * v)
    _, gradient = at(scores)
    hessian = objective.at.hessian
    product = hessian.multiply(v) + 0.5 * v
    size = (1 + hessian.diagonal().max()) * (1 + np.abs(v).max() ** 2)
    assert gradient @ v == pytest.approx((up[0] - down[0]) / (2 * step), abs=1e-5 * size)
    np.testing.assert_allclose(product, (up[1] - down[1]) / (2 * step), atol=1e-4 * size)


def dense_objective(votes, mean, sd):
    """The stated objective of scores and reliabilities and its gradient, straight from the text."""
    first, second = votes.first.astype(int), votes.second.astype(int)
    worker = votes.worker_codes().astype(int)
    y, n, k = votes.outcome.astype(float), votes.weight.astype(float), votes.n_items

    def objective(x):
        r, beta = x[:k], x[k:]
        d = r[first] - r[second]
        eta = beta[worker] * d
        value = np.sum(n * (np.logaddexp(0, eta) - y * eta))
        value += 0.5 * r @ r + 0.5 * np.sum((beta - mean) ** 2) / sd**2
        push = n * (1 / (1 + np.exp(-eta)) - y)
        gradient = np.concatenate([r, (beta - mean) / sd**2])
        np.add.at(gradient, first, push * beta[worker])
        np.add.at(gradient, second, -push * beta[worker])
        np.add.at(gradient, k + worker, push * d)
        return value, gradient

    return objective


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize(("mean", "sd"), [(1.0, 1.0), (1.5, 0.5), (0.6, 2.0)])
def test_is_the_optimum_of_a_general_optimiser(engine, mean, sd):
    drawn = crowdsift.simulate(15, 10, 800, reliability=(-0.5, 1.5), seed=4)
    votes = drawn.comparisons()
    objective = dense_objective(votes, mean, sd)
    chosen = BoraMAP(reliability_mean=mean, reliability_sd=sd, tolerance=1e-9)
    fit = crowdsift.fit(votes, chosen, engine=engine)
    assert fit.converged
    start = np.concatenate([by_item(fit, votes), np.full(votes.n_workers, mean)])
    best = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-8})
    r, beta = best.x[: votes.n_items], best.x[votes.n_items :]
    size = np.sqrt(np.mean((r - r.mean()) ** 2))
    np.testing.assert_allclose(by_item(fit, votes), (r - r.mean()) / size, atol=1e-6)
    np.testing.assert_allclose(fit.workers["reliability"], beta * size, atol=1e-6)


def test_default_tolerance_is_enough():
    drawn = crowdsift.simulate(200, 100, 20_000, seed=3)
    votes = drawn.comparisons()
    rough = by_item(crowdsift.fit(votes, "bora-map"), votes)
    exact = by_item(crowdsift.fit(votes, BoraMAP(tolerance=1e-9)), votes)
    np.testing.assert_allclose(rough, exact, atol=1e-5)


def test_scores_have_unit_size_and_intervals_scale_with_them():
    votes = crowdsift.simulate(25, 12, 1500, reliability=(0.3, 1.2), seed=6).comparisons()
    fit = crowdsift.fit(votes, "bora-map")
    score = fit.items["score"]
    assert np.sqrt(np.mean(score**2)) == pytest.approx(1.0, abs=1e-12)
    # the curvature at the scaled point, by hand
    reliability = np.asarray(fit.workers["reliability"], float)
    at = ReferenceEngine(votes).slopes.curvature(by_item(fit, votes), reliability)
    information = at.laplacian.diagonal().mean()
    half = (fit.items["upper"] - score) / 1.6448536
    assert half.mean() == pytest.approx(1 / np.sqrt(information), rel=0.2)


def test_needs_no_pairs():
    """The fast path keeps 8 bytes a comparison and never groups them by pairs."""
    votes = crowdsift.simulate(1500, 40, 20_000, seed=1).comparisons()
    assert not choose_engine("cpu", votes, 1).facts.component.any()  # one large component

    class NoPairs:
        """The passes of an engine but for the one with a Laplacian."""

        def __init__(self, passes):
            self.log_likelihood, self.profile = passes.log_likelihood, passes.profile

        def curvature(self, scores, slopes):
            raise AssertionError("the Laplacian was built")

    engine = choose_engine("cpu", votes, 1)
    engine.slopes = NoPairs(engine.slopes)
    BoraMAP().estimate(engine)


def test_heavy_weights_converge_to_the_same_order():
    """A measure that knows no weights: a million times the votes is no harder."""
    drawn = crowdsift.simulate(40, 10, 5000, seed=3)
    weight = np.full(5000, 1e6)
    votes = Comparisons.from_arrays(
        drawn.first, drawn.second, worker=drawn.worker, outcome=drawn.outcome, weight=weight
    )
    fit = crowdsift.fit(votes, "bora-map")
    assert fit.converged
    light = crowdsift.fit(drawn.comparisons(), BoraMAP(reliability_sd=1e3, reliability_mean=1.0))
    found = np.corrcoef(fit.scores_of(votes.items), light.scores_of(drawn.items))[0, 1]
    assert found > 0.99
