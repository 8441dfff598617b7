"""Workers who differ by context: the messages against closed forms, the gate, what is told."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from context_votes import draw_votes
from reference_engine import ReferenceEngine

import crowdsift
from crowdsift import Sift
from crowdsift.engines import choose_engine
from crowdsift.engines.dense import interpolated_prior
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, SitePass, WorkerTypes, mirrored
from crowdsift.fitting.estimate import Resources
from crowdsift.fitting.holdout import left_out_log_likelihood
from crowdsift.io.items import read_gold
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.solvers.ep.terms.contexts import ContextSites, TypeTree, likelihoods, spread_kernel
from crowdsift.solvers.ep.workers import power_grid
from crowdsift.votes.graph import folds

# --- messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [RELIABILITY_ONLY, WorkerTypes(np.array([0.1, 1.0]), np.array([-1.0, 2.0]), np.array([0.1, 0.1]), sides=True)],
)
def test_types_by_enumeration(shape):
    """All types of a worker and of it in two contexts, one by one."""
    rng = np.random.default_rng(4)
    levels = np.array([0.7, 1.5])
    points, widths = mirrored(levels), len(shape.widths)
    types, regular = shape.n_types(levels), widths * 5
    likelihood = rng.uniform(0.01, 1.0, (3, types))
    prior, bonus = rng.dirichlet(np.ones(types)), np.array([0.4, -0.2])
    tree = TypeTree(np.array([0, 0, 1]), 2, shape)
    tree.spread = 0.5
    tree.gather(likelihood, levels, bonus)
    q, log_messages = tree.posterior(prior)
    K = np.eye(types)
    for d in range(widths):
        K[5 * d : 5 * d + 5, 5 * d : 5 * d + 5] = spread_kernel(points, 0.5)
    lift = np.exp(np.where(np.arange(types) < regular, bonus[0], 0.0))
    joint = np.einsum("t,tu,tv,u,v->tuv", prior * lift, K, K, likelihood[0], likelihood[1])
    single = prior * np.exp(np.where(np.arange(types) < regular, bonus[1], 0.0)) * (K @ likelihood[2])
    np.testing.assert_allclose(q[0], joint.sum(axis=(1, 2)) / joint.sum(), rtol=1e-10)
    np.testing.assert_allclose(q[1], single / single.sum(), rtol=1e-10)
    assert log_messages == pytest.approx(np.log(joint.sum()) + np.log(single.sum()), rel=1e-10)
    priors = tree.context_priors(prior)
    for g, sums in ((0, (0, 2)), (1, (0, 1))):
        mine = priors[g] * likelihood[g]
        np.testing.assert_allclose(mine / mine.sum(), joint.sum(axis=sums) / joint.sum(), rtol=1e-9)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_workers_of_one_context_need_no_tree(engine):
    """Counts and posteriors are those of a tree in which every worker in a context is."""
    votes = draw_votes(0.3, 0.8, seed=21, each=6, workers=8, contexts=4, items=5)
    context = votes.item_contexts[votes.first]
    votes = votes.select((votes.worker_codes() % 3 > 0) | (context == 1))  # one of each third
    shape = WorkerTypes(np.zeros(1), np.array([-1.0, 2.0]), np.zeros(2), sides=True)
    apart = choose_engine(engine, votes, 1).by_context()
    levels, rng = power_grid(13), np.random.default_rng(2)
    prior = rng.dirichlet(np.ones(shape.n_types(levels)))
    means, side = rng.normal(size=votes.n_items), SidePrior(0.1, 0.2)
    sites = ContextSites(apart.engine.grid.sites(shape, 2.0), apart.worker, apart.context, votes.n_workers, shape)
    for _ in range(2):
        sites.types.spread = 0.3
        found = sites.update(SitePass(levels, prior, means, damping=0.0, clip=True, side=side))
    whole = TypeTree(apart.worker, votes.n_workers, shape)
    likelihood = likelihoods(sites.by_context, levels, shape, np.arange(len(apart.worker)))
    whole.gather(likelihood, levels, sites.side.bonus)
    q = whole.posterior(prior)[0]
    np.testing.assert_allclose(found.counts, q.sum(axis=0), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(found.regular, q[:, : 2 * len(levels) + 1].sum(axis=1), rtol=1e-5)
    priors = sites.context_priors().masses
    np.testing.assert_allclose(priors, whole.context_priors(prior), rtol=1e-5, atol=1e-9)
    for rows in (slice(0, 3), slice(2, votes.n_workers)):
        masses = sites.posteriors(prior, rows).masses
        np.testing.assert_allclose(masses, q[rows], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("workers", [30, 2])  # of two the prior says as much as the votes
def test_the_spread_is_where_the_evidence_is_largest(workers):
    """EM from both sides ends at the maximum of evidence and prior over a fine range of κ."""
    rng = np.random.default_rng(5)
    levels = power_grid(49)
    points = mirrored(levels)
    whole = np.repeat(np.arange(workers), 5 if workers == 30 else 2)
    centre = rng.uniform(1.0, 3.0, workers)[whole] * (1.0 + 0.3 * rng.normal(size=len(whole)))
    likelihood = np.exp(-0.5 * ((points - centre[:, None]) / 0.25) ** 2)
    prior = np.where(points > 0, np.gradient(points), 1e-9)
    prior /= prior.sum()

    def value(spread):
        tree = TypeTree(whole, workers, RELIABILITY_ONLY)
        tree.spread = spread
        tree.gather(likelihood, levels, np.zeros(workers))
        return tree.posterior(prior)[1] - np.log(spread) - 0.5 * (0.1 / spread) ** 2

    tried = np.exp(np.linspace(np.log(0.04), np.log(0.8), 400))
    best = tried[np.argmax([value(x) for x in tried])]
    for start in (0.1, 0.8):
        tree = TypeTree(whole, workers, RELIABILITY_ONLY)
        tree.spread = start
        for _ in range(60):
            tree.gather(likelihood, levels, np.zeros(workers))
            tree.learn(prior)
        assert tree.spread == pytest.approx(best, rel=0.01)
    if workers == 30:
        assert best == pytest.approx(0.3, abs=0.08)


@pytest.mark.parametrize("start", [0.03, 1.5])
def test_votes_that_say_nothing_leave_the_spread_at_its_prior(start):
    """Where the evidence is flat, -log κ - ½(.1/κ)² is largest at κ = .1."""
    levels = power_grid(9)
    tree = TypeTree(np.array([0, 0, 1, 1, 1]), 2, RELIABILITY_ONLY)
    tree.spread = start
    prior = np.full(9, 1 / 9)
    for _ in range(40):
        tree.gather(np.ones((5, 9)), levels, np.zeros(2))
        tree.learn(prior)
    assert tree.spread == pytest.approx(0.1, rel=1e-3)


def test_contexts_that_contradict_each_other_leave_no_type_without_a_prior():
    levels = power_grid(9)
    tree = TypeTree(np.array([0, 0]), 1, RELIABILITY_ONLY)
    tree.spread = 0.02
    tree.gather(np.eye(9)[[0, 8]], levels, np.zeros(1))
    found = tree.context_priors(np.full(9, 1 / 9))
    assert (found > 0.0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found.argmax(axis=1).tolist() == [8, 0]  # each what the other one says


def test_likelihoods_on_the_common_grid_keep_products_with_a_prior():
    """Σ prior·L on own levels is that of the likelihood shared by common levels."""
    votes = draw_votes(0.2, 0.0, seed=6, each=300, workers=2, contexts=1)
    sites = ReferenceEngine(votes).grid.sites(RELIABILITY_ONLY, 2.0)
    levels = power_grid(25)
    points = mirrored(levels)
    prior = np.gradient(points) * np.exp(-0.5 * (points - 2.0) ** 2)
    prior[len(levels)] = 0.3  # random workers are an atom
    prior /= prior.sum()
    grids = {0: np.linspace(0.8, 2.0, 12), 1: np.linspace(0.0, 0.6, 13)[1:]}
    low, high = (np.array([grids[s][end] for s in (0, 1)]) for end in (0, -1))
    sites.set_vote_sites(sites.vote_sites()._replace(low=low, high=high), 12)
    means = crowdsift.fit(votes, "bt").scores_of(votes.items)
    for sign in (1.0, -1.0):  # the workers are right, or all of them adversaries
        sites.update(SitePass(levels, prior, sign * means, damping=0.0, clip=True, side=SidePrior()))
        messages = sites._types.messages
        found = likelihoods(sites, levels, RELIABILITY_ONLY, np.arange(2))
        ratios = []
        for other in (prior, prior[::-1] + prior):
            fine = [
                float(interpolated_prior(levels, other, grids[s]) @ np.exp(messages[s] - messages[s].max()))
                for s in (0, 1)
            ]
            ratios.append(found @ other / fine)
        np.testing.assert_allclose(ratios[0], ratios[1], rtol=1e-6)


# --- fits -------------------------------------------------------------------------------------


def test_workers_who_differ_by_context_are_found_and_predicted_better():
    votes = draw_votes(0.3, 0.8, seed=7)
    fit = crowdsift.fit(votes, Sift(), threads=1)
    same = crowdsift.fit(votes, Sift(contexts=False), threads=1)
    assert fit.converged
    assert fit.summary["evidence"] > same.summary["evidence"] + 3.0
    assert fit.summary["context_spread"] == pytest.approx(0.3, abs=0.12)
    assert fit.summary["context_side_sd"] == pytest.approx(0.8, abs=0.2)
    assert same.summary["context_spread"] == same.summary["context_side_sd"] == 0.0
    losses = [left_out_log_likelihood(votes, Sift(contexts=x), Resources(threads=1)) for x in (True, False)]
    assert losses[0] > losses[1] + 0.005
    assert fit.workers.height == votes.n_workers


def test_workers_who_do_not_differ_are_fitted_as_before():
    votes = draw_votes(0.0, 0.0, seed=8)
    fits = [crowdsift.fit(votes, Sift(contexts=x), threads=1) for x in (True, False)]
    assert fits[0].summary["context_spread"] == 0.0
    for name in ("score", "lower", "upper"):
        np.testing.assert_array_equal(fits[0].items[name], fits[1].items[name])
    for name in ("reliability", "lower", "upper"):
        np.testing.assert_array_equal(fits[0].workers[name], fits[1].workers[name])


@pytest.mark.parametrize("sides", [True, False])
def test_the_engines_agree(sides):
    votes = draw_votes(0.4, 1.0 if sides else 0.0, seed=9, each=80, workers=10, contexts=4, items=5)
    model = Sift(grid_points=25, sides=sides, starts=("flat",), pair_effect=False)
    kept, left = next(folds(votes, 5, 0))
    ours, theirs = (model.estimate(choose_engine(name, model.prepare(kept), 1)) for name in ("cpu", "reference"))
    assert ours.details["context_spread"] > 0.0
    assert ours.evidence == pytest.approx(theirs.evidence, abs=0.05)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=2e-3)
    np.testing.assert_allclose(ours.workers.reliability, theirs.workers.reliability, rtol=5e-3, atol=2e-3)
    result = [
        model.left_out(choose_engine(name, model.prepare(left), 1), estimate)
        for name, estimate in (("cpu", ours), ("reference", theirs))
    ]
    assert result[0] == pytest.approx(result[1], rel=1e-3)


def test_predictions_know_the_context():
    """A worker who leans left in one context only; in a context of no votes it is as on average."""
    votes = draw_votes(0.3, 1.5, seed=10)
    fit = crowdsift.fit(votes, Sift(), threads=1)
    apart = fit.posterior.in_context
    assert apart is not None
    labels = sorted(fit.labels)
    pairs = [(a, b) for a, b in itertools.pairwise(labels) if a[0] == b[0]]
    result = [fit.predict(*pair, "w00") for pair in pairs]
    by_hand = []
    for a, b in pairs:
        context = int(votes.item_contexts[votes.items.tolist().index(a)])
        row = int(np.flatnonzero((apart.worker == 0) & (apart.context == context))[0])
        points = [column[row] for column in apart.points]
        d = float(fit.scores_of([a])[0] - fit.scores_of([b])[0])
        by_hand.append(Sift().outcome_probabilities(np.array(d), *points).win.mean())
    np.testing.assert_allclose(result, by_hand, rtol=1e-9)
    assert 0.0 < fit.predict(*pairs[0]) < 1.0


def test_a_worker_not_seen_in_a_context_is_less_certain():
    votes = draw_votes(0.3, 0.8, seed=11)
    context = votes.item_contexts[votes.first]
    here = (votes.worker_codes() == 0) & (context == 2)
    model = Sift()
    estimate = model.estimate(choose_engine("cpu", votes.select(~here), 1))
    known = estimate.in_context
    assert known is not None
    row = known.rows(np.array([0, 0]), np.array([2, 1]), votes.n_workers)
    assert row[0] == 0
    assert row[1] >= votes.n_workers
    points = known.below(estimate.points)
    assert points.side_variance[row[0]].mean() > points.side_variance[row[1]].mean() + 0.2
    assert points.reliability[row[0]].std() > points.reliability[row[1]].std()
    engine = choose_engine("cpu", votes.select(here), 1)
    assert np.isfinite(model.left_out(engine, estimate))


def test_gold_is_one_worker_in_all_contexts(tmp_path):
    votes = draw_votes(0.3, 0.8, seed=12)
    items = sorted(votes.items.tolist())
    fit = crowdsift.fit(votes, Sift(), threads=1)
    best = {
        scene: max((x for x in items if x[0] == scene), key=lambda x: fit.scores_of([x])[0]) for scene in ("c0", "c1")
    }
    worst = {
        scene: min((x for x in items if x[0] == scene), key=lambda x: fit.scores_of([x])[0]) for scene in ("c0", "c1")
    }
    gold = {"scene": list(best), "winner": [x[1] for x in best.values()], "loser": [x[1] for x in worst.values()]}
    result = crowdsift.fit(votes, Sift(), gold=gold, threads=1)
    assert result.summary["context_spread"] > 0.0
    assert result.summary["gold_agree"] == 2
    assert result.workers.height == votes.n_workers


def test_a_fit_by_context_starts_cold(tmp_path):
    """What workers are in contexts is not carried over: the answer is that of a cold start."""
    votes = draw_votes(0.3, 0.8, seed=13)
    earlier = crowdsift.fit(votes.select(votes.first != 0), Sift(), threads=1)
    assert earlier.summary["context_spread"] > 0.0
    earlier.save(tmp_path / "fit")
    warm = crowdsift.fit(votes, Sift(), start=tmp_path / "fit", threads=1)
    cold = crowdsift.fit(votes, Sift(), threads=1)
    np.testing.assert_array_equal(warm.items["score"], cold.items["score"])


def test_memory_is_foreseen_for_votes_by_context():
    """What is allocated in Python, the types of workers in contexts above all, is within it."""
    votes = draw_votes(0.3, 0.8, seed=14, each=4, workers=150)
    engine = choose_engine("cpu", votes, 1)
    Sift(most_iterations=2).estimate(choose_engine("cpu", votes, 1))  # loads what is loaded once
    tracemalloc.start()
    Sift(most_iterations=5).estimate(engine)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.2 * Sift().memory(votes) < peak < Sift().memory(votes)
    plain = crowdsift.simulate(9, 5, 100, seed=1).comparisons()
    assert Sift().memory(plain) == Sift(contexts=False).memory(plain) > 0


def test_gold_stays_of_known_reliability():
    votes = draw_votes(0.3, 0.8, seed=7)
    top = crowdsift.fit(votes, Sift(), threads=1).items
    inside = [(c, x) for c, x in zip(top["scene"], top["item"], strict=True) if c == "c0"]
    rows = {"scene": ["c0"], "winner": [inside[0][1]], "loser": [inside[-1][1]]}
    known = read_gold(rows, votes)
    pairs = votes.with_gold(known.winner, known.loser)
    estimate = Sift().estimate(choose_engine("cpu", pairs, 1))
    assert estimate.details["context_spread"] > 0.0
    crowd, gold = estimate.workers.reliability[:-1], estimate.workers.reliability[-1]
    assert gold > 1.5 * crowd.max()


def test_a_worker_of_two_kinds_breaks_nothing():
    """One who is excellent here and reversed there, with most of the votes: all stays finite."""
    rng = np.random.default_rng(3)
    score = rng.normal(size=(2, 10))
    beta = np.tile(rng.uniform(0.8, 2.5, 40)[:, None], 2)
    beta[0] = 6.0, -3.0
    s = np.repeat(np.arange(40), [4000] + [60] * 39)
    c = rng.integers(2, size=len(s))
    a = rng.integers(10, size=len(s))
    b = (a + rng.integers(1, 10, len(s))) % 10
    won = rng.random(len(s)) < sigmoid(beta[s, c] * (score[c, a] - score[c, b]))
    rows = {"first": a, "second": b, "outcome": won.astype(float), "worker": s, "topic": c}
    votes = crowdsift.read(rows, by="topic")
    engine = choose_engine("cpu", votes, 1)
    estimate = Sift(most_iterations=60).estimate(engine)
    assert np.isfinite(estimate.trace).all()
    assert np.isfinite(estimate.scores).all()


def test_passes_of_a_trial_that_is_dropped_are_counted():
    votes = draw_votes(0.0, 0.0, seed=8)
    tried, same = (crowdsift.fit(votes, Sift(contexts=x), threads=1).summary for x in (True, False))
    assert tried["context_spread"] == 0.0
    assert tried["passes"] > same["passes"]
    assert tried["iterations"] == same["iterations"]


def test_contexts_are_told_apart_as_labels_are():
    rows = {"winner": ["a", "a", "a"], "loser": ["b", "b", "b"], "worker": ["x", "y", "z"]}
    votes = crowdsift.read({**rows, "topic": [True, 1, "1"]}, by="topic")
    assert sorted(set(votes.item_contexts.tolist())) == [0, 1, 2]
