"""sift: the prototype's answers, brute force on tiny votes, invariances and odd votes."""

from __future__ import annotations

import csv
import json
import warnings

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons, RequestError
from crowdsift.engines import choose_engine
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, SitePass, mirrored
from crowdsift.models import Sift
from crowdsift.solvers.ep.items import Factorisation, spectral_scores
from crowdsift.solvers.ep.search import propagate
from crowdsift.solvers.ep.state import Settings
from crowdsift.solvers.ep.workers import WorkerPrior, power_grid


def by_item(fit):
    return dict(zip(fit.items["item"], fit.items["score"], strict=True))


def standardised(values):
    values = values - np.mean(values)
    return values / np.sqrt(np.mean(values**2))


@pytest.fixture(scope="module")
def reference_dir(data_dir):
    folder = data_dir.parent / "reference"
    if not (folder / "sift_prototype.json").exists():
        pytest.skip(f"no reference answers at {folder}")
    return folder


def test_agrees_with_the_prototype(data_dir, reference_dir):
    """Same grid, start, damping and tolerance; a scale step instead of a held scale."""
    votes = crowdsift.read(data_dir / "passage.csv")
    engine = choose_engine("cpu", votes, 1)
    settings = Settings(tolerance=1e-6, starts=("flat",), refine=False)
    run = propagate(engine, power_grid(41), settings)
    assert run.rule.converged
    expected = json.loads((reference_dir / "sift_prototype.json").read_text())["passage"]
    assert run.evidence[-1] == pytest.approx(expected["evidence"], abs=5e-3)
    with (reference_dir / "sift_passage_items.csv").open() as file:
        rows = {row["item"]: row for row in csv.DictReader(file)}
    score = np.array([float(rows[str(item)]["score"]) for item in votes.items])
    sd = np.array([float(rows[str(item)]["sd"]) for item in votes.items])
    ours, theirs = standardised(run.means), standardised(score)
    assert np.mean(ours * theirs) > 1 - 1e-8
    np.testing.assert_allclose(np.sqrt(run.variances), sd, rtol=1e-3)
    with (reference_dir / "sift_passage_workers.csv").open() as file:
        rows = {row["worker"]: float(row["reliability"]) for row in csv.DictReader(file)}
    result = run.sites.posteriors(run.prior.masses, slice(votes.n_workers))
    reliability = np.sum(result.points * result.masses, axis=1)
    np.testing.assert_allclose(reliability, [rows[str(w)] for w in votes.workers], atol=1e-3)
    margin = np.mean(np.sum(result.masses * np.sign(result.points), axis=1))
    assert margin == pytest.approx(expected["sign_margin"], abs=1e-3)


def test_figures_on_passage(data_dir):
    (record,) = crowdsift.evaluate(data_dir / "passage.csv", data_dir / "passage_items.csv", "sift")
    assert record["accuracy"] >= 0.699
    assert record["weighted_accuracy"] >= 0.764
    assert record["kendall_tau"] >= 0.376


def test_reference_engine_reaches_the_same_answer():
    votes = crowdsift.simulate(15, 24, 400, reliability=(-0.3, 1.2), seed=4).comparisons()
    for model in (Sift(tolerance=1e-7), Sift(refine=False, tolerance=1e-7)):
        ours = crowdsift.fit(votes, model, engine="cpu", threads=1)
        theirs = crowdsift.fit(votes, model, engine="reference")
        one, two = by_item(ours), by_item(theirs)
        for item in one:
            assert one[item] == pytest.approx(two[item], abs=2e-5)
        assert ours.summary["evidence"] == pytest.approx(theirs.summary["evidence"], abs=2e-3)
        np.testing.assert_allclose(ours.workers["reliability"], theirs.workers["reliability"], atol=1e-4)


def exact_evidence(votes, points, prior, nodes=61):
    """log of the integral over three scores, N(0, 1) each, of the mixture over types."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    r = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3)
    weight = (w[:, None, None] * w[None, :, None] * w[None, None, :]).ravel()
    total, moments = np.ones(len(r)), []
    for s in range(votes.n_workers):
        likelihood = np.ones((len(r), len(points)))
        for i in range(votes.offsets[s], votes.offsets[s + 1]):
            d = r[:, votes.first[i]] - r[:, votes.second[i]]
            sign = 1.0 if votes.outcome[i] > 0.5 else -1.0
            p = 1.0 / (1.0 + np.exp(-sign * d[:, None] * points))
            likelihood *= p ** votes.weight[i]
        total *= likelihood @ prior
    evidence = weight @ total
    moments = (weight * total) @ r / evidence
    return float(np.log(evidence)), moments


def test_evidence_and_means_against_integration():
    """Three items, three workers of few votes: EP is close to the integral over everything."""
    votes = Comparisons.from_arrays(
        ["a", "a", "b", "b", "a", "c", "a"],
        ["b", "c", "c", "c", "b", "b", "c"],
        worker=["u", "u", "u", "v", "v", "w", "w"],
    )
    levels = power_grid(17)
    prior = WorkerPrior.start(levels, 1.0, 0.5)
    engine = choose_engine("reference", votes)
    sites, factorisation = engine.grid.sites(RELIABILITY_ONLY, 2.0), Factorisation(engine)
    means, rhs, determinant, evidence = np.zeros(3), np.zeros(3), 0.0, 0.0
    for step in range(200):  # the prior is held fixed
        damping = 1.0 if step == 0 else 0.5
        update = sites.update(SitePass(levels, prior.masses, means, damping=damping, clip=False, side=SidePrior()))
        evidence = update.log_messages - update.log_sites - determinant / 2 + rhs @ means / 2
        laplacian, rhs, _ = sites.system(sites.pair_sums())
        means = laplacian.solve(rhs, means, shift=1.0, tolerance=0.0).x
        determinant = factorisation.variances(sites, laplacian, exact=True).log_determinant
    exact, moments = exact_evidence(votes, mirrored(levels), prior.masses)
    assert evidence == pytest.approx(exact, abs=0.03)
    np.testing.assert_allclose(means, moments, atol=0.03)


def test_spectral_start_finds_a_crowd_of_both_signs():
    drawn = crowdsift.simulate(60, 40, 8000, reliability=(-1, 1), seed=2)
    for engine in ("cpu", "reference"):
        found = spectral_scores(choose_engine(engine, drawn.comparisons(), 1).grid.correlations(), 60)
        assert abs(np.corrcoef(found, drawn.scores)[0, 1]) > 0.8
        assert np.sqrt(np.mean(found**2)) == pytest.approx(1.0)


def test_finds_scores_in_a_sparse_crowd_of_both_signs():
    """K 100, M 500, N 2,000, β in [-1, 1]: the best published method is near chance."""
    accuracy = []
    for seed in (201, 202, 203, 204):
        drawn = crowdsift.simulate(100, 500, 2000, reliability=(-1, 1), seed=seed)
        scores = by_item(crowdsift.fit(drawn.comparisons(), "sift"))
        found = [scores[item] for item in drawn.items]
        accuracy.append(crowdsift.metrics.measure_up_to_sign(found, drawn.scores).accuracy)
    assert np.mean(accuracy) > 0.78


def test_intervals_cover(data_dir):
    """90 % intervals of scores and reliabilities over four simulated crowds."""
    inside_scores, inside_workers = [], []
    for seed in (301, 302, 303, 304):
        drawn = crowdsift.simulate(100, 500, 5000, reliability=(0, 1), seed=seed)
        votes = drawn.comparisons()
        estimate = Sift().estimate(choose_engine("cpu", votes, 1))
        truth = dict(zip(drawn.items, drawn.scores / np.sqrt(3.0), strict=True))
        r = np.array([truth[item] for item in votes.items])
        half = 1.6449 * estimate.score_sd
        inside_scores.append(np.abs(estimate.scores - (r - r.mean())) <= half)
        known = dict(zip(drawn.workers, drawn.reliability * np.sqrt(3.0), strict=True))
        beta = np.array([known[worker] for worker in votes.workers])
        result = estimate.workers
        inside_workers.append((beta >= result.reliability_lower) & (beta <= result.reliability_upper))
    assert 0.85 < np.mean(inside_scores) < 0.95
    assert 0.85 < np.mean(inside_workers) < 0.96


@pytest.mark.parametrize("name", ["llmfao_llmjudges.csv", "mtbench.csv", "passage.csv"])
def test_the_default_grid_is_fine_enough(name, data_dir):
    """Within 0.02 sd of a grid four times finer, workers of thousands of votes included."""
    votes = crowdsift.read(data_dir / name)
    coarse, fine = (by_item(crowdsift.fit(votes, Sift(grid_points=n))) for n in (49, 193))
    ours = standardised(np.array([coarse[item] for item in votes.items]))
    theirs = standardised(np.array([fine[item] for item in votes.items]))
    assert np.abs(ours - theirs).max() < 0.02


def test_rows_in_any_order_give_the_same_bytes():
    drawn = crowdsift.simulate(40, 60, 1500, reliability=(-0.5, 1), seed=9)
    order = np.random.default_rng(0).permutation(1500)
    one = drawn.comparisons()
    two = Comparisons.from_arrays(
        drawn.items[drawn.first[order]],
        drawn.items[drawn.second[order]],
        worker=drawn.workers[drawn.worker[order]],
        outcome=drawn.outcome[order],
        sides_known=True,
    )
    fits = [crowdsift.fit(votes, "sift", threads=1) for votes in (one, two)]
    assert fits[0].item_table.to_csv() == fits[1].item_table.to_csv()
    assert fits[0].worker_table.to_csv() == fits[1].worker_table.to_csv()


def test_a_crowd_of_coins_is_said_to_hold_no_information():
    rng = np.random.default_rng(5)
    first = rng.integers(0, 30, 1500)
    votes = Comparisons.from_arrays(
        first,
        (first + rng.integers(1, 30, 1500)) % 30,
        worker=rng.integers(0, 60, 1500),
        outcome=rng.integers(0, 2, 1500),
        sides_known=True,
    )
    fit = crowdsift.fit(votes, "sift")
    assert any("no information" in note for note in fit.warnings)
    half = 0.5 * (fit.items["upper"] - fit.items["lower"])
    assert (half > np.abs(fit.items["score"])).mean() > 0.8


@pytest.mark.parametrize(
    "votes",
    [
        {"first": ["a"], "second": ["b"], "worker": ["w"]},
        {"first": ["a"], "second": ["b"], "worker": ["w"], "weight": [1e6]},
        {"first": ["a"], "second": ["b"], "worker": ["w"], "weight": [1e-3]},
        {
            "first": ["a"] * 50,
            "second": ["b", "c"] * 25,
            "worker": ["w"] * 50,
            "outcome": [1] * 50,
            "sides_known": True,
        },
        {"first": ["a", "b"] * 20, "second": ["b", "a"] * 20, "worker": ["v", "w"] * 20},
        {"first": ["a", "c", "e"], "second": ["b", "d", "f"], "worker": ["w", "v", "w"]},
        {"first": ["a", "b"], "second": ["b", "c"], "worker": ["w", "w"], "outcome": [0.3, 0.9]},
    ],
    ids=["one vote", "heavy vote", "light vote", "always left", "contradiction", "islands", "soft"],
)
def test_odd_votes_have_a_defined_answer(votes):
    for engine in ("cpu", "reference"):
        fit = crowdsift.fit(Comparisons.from_arrays(**votes), "sift", engine=engine)
        assert fit.converged
        for column in ("score", "lower", "upper"):
            assert np.isfinite(fit.items[column]).all()
        assert (fit.items["upper"] > fit.items["lower"]).all()
        assert np.isfinite(fit.workers["reliability"]).all()
        assert np.isfinite(fit.summary["evidence"])


def test_one_vote_leaves_all_open():
    estimate = Sift().estimate(choose_engine("cpu", Comparisons.from_arrays(["a"], ["b"], worker=["w"]), 1))
    assert (estimate.score_sd > 0.5).all()
    assert estimate.workers.reliability_lower[0] < 0.2
    assert estimate.workers.reliability_upper[0] > 1.0


def test_soft_outcomes_are_fractions_of_votes():
    soft = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["w", "w"], outcome=[0.75, 0.75], weight=[4, 4])
    hard = Comparisons.from_arrays(
        ["a"] * 4 + ["b"] * 4, ["b"] * 4 + ["c"] * 4, worker=["w"] * 8, outcome=[1, 1, 1, 0] * 2
    )
    one, two = (by_item(crowdsift.fit(votes, "sift", threads=1)) for votes in (soft, hard))
    for item in one:
        assert one[item] == pytest.approx(two[item], abs=1e-6)


def test_left_out_votes_prefer_the_model_of_workers():
    drawn = crowdsift.simulate(40, 200, 2500, reliability=(-0.5, 1.5), seed=12)
    mask = np.random.default_rng(1).random(2500) < 0.8

    def part(keep):
        return Comparisons.from_codes(
            drawn.first[keep],
            drawn.second[keep],
            worker=drawn.worker[keep],
            outcome=drawn.outcome[keep],
            items=drawn.items,
            workers=drawn.workers,
            sides_known=True,
        )

    train, test = (choose_engine("cpu", part(keep), 1) for keep in (mask, ~mask))
    losses = {}
    for method in ("sift", "bora-em", "bt"):
        model = crowdsift.model(method)
        losses[method] = -model.left_out(test, model.estimate(train)) / test.facts.total_weight
    assert losses["sift"] < min(losses["bora-em"], losses["bt"], np.log(2.0))


def test_the_evidence_trace_and_the_sign_margin(data_dir):
    votes = crowdsift.simulate(30, 50, 1500, reliability=(0, 1), seed=3).comparisons()
    estimate = Sift().estimate(choose_engine("cpu", votes, 1))
    assert estimate.evidence == estimate.trace[-1]
    assert len(estimate.trace) == estimate.rule.iterations + 1
    assert 0.5 < estimate.sign.margin <= 1.0
    result = estimate.workers
    np.testing.assert_array_less(result.reliability_lower, result.reliability_upper)
    assert (np.diff(result.quantiles, axis=1) >= 0).all()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"grid_points": 48}, "odd"),
        ({"grid_points": 3}, "at least 5"),
        ({"starts": ("guess",)}, "flat"),
        ({"starts": ()}, "flat"),
        ({"tolerance": -1.0}, "tolerance"),
    ],
)
def test_impossible_parameters_are_refused(values, message):
    with pytest.raises(RequestError, match=message):
        Sift(**values)


def test_votes_without_a_spectral_start_start_from_nothing():
    votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["x"])
    scores = [crowdsift.fit(votes, crowdsift.Sift(starts=(start,))).items["score"] for start in ("spectral", "flat")]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("each", [(60, 20), (20, 60)])
def test_votes_settle_the_sign_where_heads_are_tied(each):
    """20 honest workers and 20 adversaries; one worker with most votes is no majority."""
    rng = np.random.default_rng(8)
    r, beta = rng.normal(size=30), np.repeat([1.5, -1.5], 20)
    who = np.repeat(np.arange(40), np.repeat(each, 20))
    a = rng.integers(0, 30, len(who))
    b = (a + rng.integers(1, 30, len(who))) % 30
    won = rng.random(len(who)) < 1 / (1 + np.exp(-beta[who] * (r[a] - r[b])))
    fit = crowdsift.fit(Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=who))
    tau = np.corrcoef(fit.scores_of(np.arange(30)), r)[0, 1]
    assert tau * (each[0] - each[1]) > 0
    few = np.repeat(np.arange(4), [40, 40, 40, 900])
    a = rng.integers(0, 30, len(few))
    b = (a + rng.integers(1, 30, len(few))) % 30
    won = rng.random(len(few)) < 1 / (1 + np.exp(-np.where(few < 3, 2, -2) * (r[a] - r[b])))
    fit = crowdsift.fit(Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=few))
    assert np.corrcoef(fit.scores_of(np.arange(30)), r)[0, 1] > 0


def test_coherence_does_not_settle_the_sign():
    """44 % of the workers answer the opposite of the truth, always; the others often err.

    Most votes agree with the liars, who are fewer, and cast fewer votes.
    """
    rng = np.random.default_rng(3)
    r, liar = rng.normal(size=60), np.arange(180) >= 100
    who = np.repeat(np.arange(180), np.where(liar, 11, 13))
    a = rng.integers(0, 60, len(who))
    b = (a + rng.integers(1, 60, len(who))) % 60
    sees = rng.random(len(who)) < 1 / (1 + np.exp(-0.8 * (r[a] - r[b])))
    won = np.where(liar[who], r[a] < r[b], sees)
    votes = Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=who)
    scores = crowdsift.fit(votes).scores_of(np.arange(60))
    assert np.mean((scores[a] > scores[b]) == won) < 0.5
    assert np.corrcoef(scores, r)[0, 1] > 0.9


@pytest.mark.parametrize("starts", [("flat", "spectral"), ("flat",)])
def test_a_start_that_breaks_on_huge_weights_is_not_the_end(starts):
    """The first step of the flat start leaves variances that no precision holds."""
    votes = Comparisons.from_arrays(
        ["a", "c"], ["b", "d"], outcome=[0.0, 0.5], weight=[130538985.34, 195177641.9], worker=["w", "w"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", crowdsift.ConvergenceWarning)
        fit = crowdsift.fit(votes, Sift(starts=starts), threads=1)
    score = dict(zip(fit.items["item"], fit.items["score"], strict=True))
    assert score["b"] > 0.0 > score["a"]
    assert fit.converged == (len(starts) > 1)
    assert fit.summary["evidence"] < 0.0


def test_votes_that_say_next_to_nothing_come_to_rest():
    for seed in (24, 29, 40, 69, 71, 83, 94):
        rng = np.random.default_rng([99, seed])
        items, workers, count = (
            int(rng.choice([8, 20])),
            int(rng.choice([1, 3, 10])),
            int(rng.choice([30, 100, 300, 1000])),
        )
        score, beta = rng.normal(size=items), rng.uniform(0.0, 0.4, workers)
        worker, first = rng.integers(workers, size=count), rng.integers(items, size=count)
        second = (first + rng.integers(1, items, count)) % items
        won = rng.random(count) < 1.0 / (1.0 + np.exp(-beta[worker] * (score[first] - score[second])))
        votes = {"first": first, "second": second, "outcome": won.astype(float), "worker": worker}
        assert crowdsift.fit(votes, threads=1, sides=True).converged
