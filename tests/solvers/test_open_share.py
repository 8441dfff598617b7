"""Classes of workers averaged over shares of features, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift import Comparisons
from crowdsift.engines import choose_engine
from crowdsift.engines.grid import mirrored
from crowdsift.solvers.ep.search import propagate
from crowdsift.solvers.ep.state import Settings
from crowdsift.solvers.ep.summaries import class_evidence, typical_reliability
from crowdsift.solvers.ep.terms.features import classes_of, share_trials
from crowdsift.solvers.ep.workers import power_grid
from crowdsift.votes.item_features import standardised_block

WORKERS, PAIRS = 8, 200


def run_on(votes, X):
    group = standardised_block("g", "columns", ("c",), ("c",) * X.shape[1], X).values
    engine = choose_engine("cpu", votes, 1)
    run = propagate(engine, power_grid(49), Settings(item_features=(group,)))
    assert run.item_prior is not None
    return run, engine, votes


@pytest.fixture(scope="module")
def rows():
    """Preference rows: every item is in one vote."""
    rng = np.random.default_rng(4)
    X, who = rng.normal(size=(2 * PAIRS, 3)), np.arange(PAIRS) % WORKERS
    r = np.sqrt(0.6) * X @ [0.8, 0.6, 0.0] + np.sqrt(0.4) * rng.normal(size=2 * PAIRS)
    beta = np.where(np.arange(WORKERS) < 2, [0.0, -2.0] * (WORKERS // 2), 2.5)
    won = rng.random(PAIRS) < 1 / (1 + np.exp(-beta[who] * (r[:PAIRS] - r[PAIRS:])))
    a, b = np.arange(PAIRS), np.arange(PAIRS, 2 * PAIRS)
    votes = Comparisons.from_arrays(np.where(won, a, b), np.where(won, b, a), worker=who)
    return run_on(votes, X[votes.items.astype(int)])


def by_hand(run, votes, share):
    """Evidence and probabilities of classes for weights as they are and another share."""
    prior, points = run.item_prior, mirrored(run.prior.levels)
    Z, weights = prior.design(), prior.weights(run)
    d = (Z @ weights.mean)[votes.first] - (Z @ weights.mean)[votes.second]
    own = prior.shares.sum() * (1 - share) / share
    variance = 2 * own + 2 * weights.variances() @ np.mean(Z**2, axis=0)
    k = points / np.sqrt(1 + np.pi / 8 * points**2 * variance)
    log_p = -np.logaddexp(0.0, -np.where(votes.outcome > 0.5, d, -d)[:, None] * k)
    L = np.stack([log_p[votes.worker_codes() == s].sum(axis=0) for s in range(WORKERS)])

    def counts(masses):
        q = np.exp(L) * masses
        return (q / q.sum(axis=1, keepdims=True)).sum(axis=0)

    learned = run.prior.learned(counts, 60, 1e-4, extrapolate=True)
    zone = typical_reliability(learned) / 4
    inside = [points < -zone, abs(points) <= zone, points > zone]
    likelihood = [np.exp(L) @ (learned.masses * own) / learned.masses[own].sum() for own in inside]
    evidence = np.log(np.exp(L) @ learned.masses).sum()
    return evidence, np.stack(likelihood, axis=1) / np.sum(likelihood, axis=0)[:, None]


def test_trials_are_the_evidence_and_classes_of_their_shares(rows):
    run, _, votes = rows
    trials = list(share_trials(run, run.item_prior))
    assert len(trials) > 8  # the votes leave the share open
    assert trials[0].share == run.item_prior.shares.sum()
    for trial in trials:
        evidence, classes = by_hand(run, votes, trial.share)
        assert trial.evidence == pytest.approx(evidence, abs=1e-5)
        assert np.exp(trial.classes) == pytest.approx(classes, abs=1e-5)


def test_classes_are_averaged_by_evidence(rows):
    run, engine, votes = rows
    trials = sorted(share_trials(run, run.item_prior))
    shares = np.array([trial.share for trial in trials])
    found = [by_hand(run, votes, share) for share in shares]
    weights = np.exp([evidence for evidence, _ in found]) * np.gradient(shares)
    wanted = sum(w * classes for w, (_, classes) in zip(weights / weights.sum(), found, strict=True))
    averaged = np.exp(classes_of(run, engine, typical_reliability(run.prior)))
    assert averaged == pytest.approx(wanted, abs=1e-5)
    assert averaged.sum(axis=1) == pytest.approx(1.0)


def test_votes_that_close_loops_settle_the_share():
    drawn = crowdsift.simulate(items=20, workers=9, comparisons=600, seed=2)
    votes = drawn.comparisons()
    place = dict(zip(drawn.items, drawn.scores, strict=True))
    X = np.array([[place[item]] for item in votes.items])
    run, engine, _ = run_on(votes, X + 0.1 * np.random.default_rng(1).normal(size=X.shape))
    typical = typical_reliability(run.prior)
    plain = class_evidence(run.sites, run.prior, typical, votes.n_workers)
    assert (classes_of(run, engine, typical) == plain).all()
