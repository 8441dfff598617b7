"""The side term of bora-em: passes against the specification, gradients, and what it recovers."""

from __future__ import annotations

import numpy as np
import pytest
from crowdsift.solvers.side_term import SideTerm
from hypothesis import given
from hypothesis import strategies as st
from strategies import comparisons, vectors

import crowdsift
from crowdsift import BoraEM, Comparisons, RequestError
from crowdsift.engines import choose_engine
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.solvers.em import EMState, alternate


def sided(items=15, workers=12, votes=3000, seed=0, ties=False):
    """Votes of workers with slopes and side habits; and these."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=items)
    slopes, habits = rng.uniform(0.5, 2.0, workers), rng.normal(size=workers)
    left = rng.integers(0, items, votes)
    right = (left + rng.integers(1, items, votes)) % items
    who = rng.integers(0, workers, votes)
    p = sigmoid(slopes[who] * (scores[left] - scores[right]) + habits[who])
    outcome = (rng.random(votes) < p).astype(float)
    if ties:
        outcome[rng.random(votes) < 0.2] = 0.5
    data = Comparisons.from_codes(
        left.astype(np.uint32),
        right.astype(np.uint32),
        worker=who.astype(np.uint32),
        outcome=outcome,
        items=np.array([f"i{j:02d}" for j in range(items)], object),
        workers=np.array([f"w{s:02d}" for s in range(workers)], object),
        sides_known=True,
    )
    return data, scores, slopes, habits


@given(st.data(), comparisons())
def test_passes_agree_with_the_specification(data, votes):
    scores = data.draw(vectors(votes.n_items))
    slopes, habits = (data.draw(vectors(votes.n_workers)) for _ in range(2))
    fast, plain = (choose_engine(name, votes) for name in ("cpu", "reference"))
    one, two = fast.side_passes(), plain.side_passes()
    for engine, passes, out in ((fast, one, []), (plain, two, [])):
        out.append(passes.expect(scores, slopes, habits))
        out.append(passes.item_system(slopes, habits))
        out.append(engine.laplacian.dense())
        out.extend(passes.regress_workers(scores, 0.7, 1.3))
        out.append(engine.laplacian.dense())
        out.extend(passes.derivatives(scores, slopes, habits))
        out.append(engine.laplacian.dense())
        assert engine.passes == 4
        if engine is fast:
            first = out
    for mine, spec in zip(first, out, strict=True):
        np.testing.assert_allclose(mine, spec, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_derivatives_are_those_of_the_log_likelihood(name):
    votes, scores, slopes, habits = sided(items=5, workers=3, votes=60, ties=True)
    passes = choose_engine(name, votes).side_passes()
    at = passes.derivatives(scores, slopes, habits)
    assert at.value == pytest.approx(passes.expect(scores, slopes, habits)[0], rel=1e-12)
    step = 1e-5

    def slope_of(vector, place, read):
        up, down = vector.copy(), vector.copy()
        up[place] += step
        down[place] -= step
        return (read(up) - read(down)) / (2 * step)

    for j in range(votes.n_items):
        found = slope_of(scores, j, lambda r: passes.derivatives(r, slopes, habits).value)
        assert at.items[j] == pytest.approx(found, abs=1e-6)
    for s in range(votes.n_workers):
        for column, vary in (
            (0, lambda v: passes.derivatives(scores, v, habits)),
            (1, lambda v: passes.derivatives(scores, slopes, v)),
        ):
            vector = (slopes, habits)[column]
            value = slope_of(vector, s, lambda v, vary=vary: vary(v).value)
            assert at.workers[s, column] == pytest.approx(value, abs=1e-6)
            hessian = -slope_of(vector, s, lambda v, vary=vary, s=s: vary(v).workers[s])
            expected = at.blocks[s, :2] if column == 0 else at.blocks[s, 1:]
            np.testing.assert_allclose(hessian, expected, atol=1e-5)


def test_every_half_step_maximises_the_expected_log_likelihood():
    """Q never falls in a half step, and its gradient in slopes and sides is 0 after one."""
    votes, scores, slopes, habits = sided(votes=400, ties=True)
    engine = choose_engine("reference", votes)
    term = SideTerm(engine, 2.0)
    term.sides = habits
    value, precision = term.expect(scores, slopes)
    d = votes.outcome.astype(float) - 0.5
    who = votes.worker_codes()
    omega = engine.side_passes()
    omega.expect(scores, slopes, habits)
    kept = omega._precision

    def expected(r, beta, gamma):
        eta = beta[who] * (r[votes.first] - r[votes.second]) + gamma[who]
        return float(
            np.sum(votes.weight * d * eta - 0.5 * kept * eta**2)
            - 0.5 * 0.3 * r @ r - 0.5 * beta @ beta - 0.5 * 2.0 * gamma @ gamma
        )  # fmt: skip

    before = expected(scores, slopes, habits)
    state = EMState(scores, slopes, value, precision)
    r, beta, _ = alternate(term, state, 1, shift=0.3, ridge=1.0, tolerance=1e-12)
    after = expected(r, beta, term.sides)
    assert after > before
    for vector, place in ((beta, 0), (term.sides, 1)):
        for s in range(votes.n_workers):
            for step in (1e-4, -1e-4):
                moved = [beta.copy(), term.sides.copy()]
                moved[place][s] = vector[s] + step
                assert expected(r, *moved) < after


def test_em_ends_where_the_gradient_in_the_workers_is_that_of_their_prior():
    """Exactly so in the sides; in the slopes up to the square of the last scaling of the scores."""
    votes, *_ = sided()
    model = BoraEM(side_bias=True, tolerance=0.0, most_iterations=400)
    engine = choose_engine("cpu", votes)
    estimate = model.estimate(engine)
    slopes, habits = np.ascontiguousarray(estimate.theta.T)
    at = engine.side_passes().derivatives(estimate.scores, slopes, habits)
    np.testing.assert_allclose(at.workers[:, 1], habits, atol=1e-5)
    ratio = at.workers[:, 0] / slopes
    np.testing.assert_allclose(ratio, np.full(len(ratio), ratio.mean()), rtol=1e-4)
    trace = np.array(estimate.trace)
    assert abs(trace[-1] - trace[-2]) < 1e-9


def test_habits_are_recovered_with_their_intervals():
    covered, total = 0, 0
    for seed in range(4):
        votes, scores, _, habits = sided(votes=4000, seed=seed)
        fit = crowdsift.fit(votes, BoraEM(side_bias=True))
        table = fit.workers
        assert np.corrcoef(table["side_bias"], habits)[0, 1] > 0.95
        assert np.corrcoef(fit.scores_of(votes.items), scores)[0, 1] > 0.98
        inside = (table["side_lower"] <= habits) & (habits <= table["side_upper"])
        covered, total = covered + int(inside.sum()), total + len(habits)
    assert 0.75 < covered / total <= 1.0


def test_without_habits_the_term_changes_little_and_off_it_changes_nothing():
    drawn = crowdsift.simulate(items=20, workers=10, comparisons=2000, seed=1).comparisons()
    assert drawn.sides_known
    plain = crowdsift.fit(drawn, "bora-em")
    off = crowdsift.fit(drawn, BoraEM(side_bias=False, side_sd=0.3))
    np.testing.assert_array_equal(plain.items["score"], off.items["score"])
    assert np.isnan(plain.workers["side_bias"]).all()
    on = crowdsift.fit(drawn, BoraEM(side_bias=True))
    inside = (on.workers["side_lower"] < 0) & (on.workers["side_upper"] > 0)
    assert inside.mean() >= 0.7
    np.testing.assert_allclose(on.scores_of(drawn.items), plain.scores_of(drawn.items), atol=0.1)


def test_a_tiny_prior_on_habits_is_no_habit():
    votes, *_ = sided(votes=800)
    plain = crowdsift.fit(votes, BoraEM(accelerate=False))  # the same steps
    tight = crowdsift.fit(votes, BoraEM(side_bias=True, side_sd=1e-6))
    np.testing.assert_allclose(
        tight.scores_of(votes.items), plain.scores_of(votes.items), atol=1e-6
    )


def test_sides_must_be_known():
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["x", "y"])
    with pytest.raises(RequestError, match="what was shown on the left"):
        crowdsift.fit(votes, BoraEM(side_bias=True))
    relaxed, note = BoraEM(side_bias=True).relax(votes)
    assert not relaxed.side_bias
    assert "sides unknown" in note


def test_gold_turns_reliabilities_and_leaves_habits():
    votes, scores, *_ = sided()
    order = np.argsort(scores)
    wrong = {"winner": votes.items[order[:3]], "loser": votes.items[order[-3:]]}
    plain = crowdsift.fit(votes, BoraEM(side_bias=True))
    turned = crowdsift.fit(votes, BoraEM(side_bias=True), gold=wrong)
    np.testing.assert_allclose(turned.workers["reliability"], -plain.workers["reliability"])
    np.testing.assert_allclose(turned.workers["side_bias"], plain.workers["side_bias"])


def test_side_bias_of_language_models_that_judge(data_dir):
    votes = crowdsift.read(data_dir / "llmfao_llmjudges.csv")
    fit = crowdsift.fit(votes, BoraEM(side_bias=True))
    row = fit.workers["worker"].tolist().index("gpt3")
    left = votes.outcome[votes.offsets[row] : votes.offsets[row + 1]]
    assert left.mean() > 0.6  # it votes left
    assert fit.workers["side_lower"][row] > 0
