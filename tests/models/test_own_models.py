"""Votes drawn from a method's own model: what it recovers, and the objective it states."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from reference_engine import ReferenceEngine

import crowdsift
from crowdsift import Comparisons
from crowdsift.models import MODELS
from crowdsift.numeric.metrics import measure_up_to_sign


@pytest.fixture(scope="module")
def crowd():
    return crowdsift.simulate(25, 12, 1500, reliability=(0.3, 1.2), seed=6)


def by_item(fit):
    return dict(zip(fit.items["item"], fit.items["score"], strict=True))


OWN_MODEL = {
    "bt": {},
    "rank-centrality": {},
    "bora-em": {"reliability": (-1, 1)},
    "crowd-bt": {},
    "factor-bt": {},
    "barp": {},
    "htcv": {},
    "hbtl": {},
}


def test_every_method_is_drawn_from():
    assert set(OWN_MODEL) <= set(MODELS)


@pytest.mark.parametrize("method", OWN_MODEL)
def test_recovers_its_own_model(method):
    """On many votes drawn from its own model a method finds the order and the workers."""
    drawn = crowdsift.simulate(50, 200, 100_000, model=method, seed=11, **OWN_MODEL[method])
    votes = drawn.comparisons()
    if method == "barp":
        votes = votes.with_classes(drawn.item_parameters["class"])
    fit = crowdsift.fit(votes, method)
    assert fit.converged
    found = measure_up_to_sign(fit.scores_of(drawn.items), drawn.scores)
    assert found.kendall_tau >= 0.97
    reliability = fit.workers["reliability"].astype(float)
    if np.isfinite(reliability).all():
        assert abs(np.corrcoef(reliability, drawn.reliability)[0, 1]) > 0.9
    if method == "factor-bt":
        assert np.corrcoef(fit.workers["side_bias"], drawn.worker_parameters["side_bias"])[0, 1] > 0.8
    if method == "barp":
        bias = drawn.worker_parameters["class_bias"]
        assert np.corrcoef(fit.workers["class_bias_1"], bias)[0, 1] > 0.9


@pytest.mark.parametrize("method", ["crowd-bt", "factor-bt", "barp", "htcv", "hbtl"])
def test_error_falls_as_votes_grow(method):
    """Standardised scores approach the truth."""
    errors = []
    for n in (4_000, 64_000):
        drawn = crowdsift.simulate(20, 40, n, model=method, seed=5)
        votes = drawn.comparisons()
        if method == "barp":
            votes = votes.with_classes(drawn.item_parameters["class"])
        found = crowdsift.fit(votes, method).scores_of(drawn.items)
        errors.append(np.std(found / found.std() - drawn.scores / drawn.scores.std()))
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("method", ["crowd-bt", "factor-bt", "htcv", "hbtl"])
def test_is_a_minimum_of_the_stated_objective(method, crowd):
    """No direction from the estimate goes down, within the bounds, on the plain specification."""
    votes = crowd.comparisons()
    chosen = crowdsift.model(method, penalty=0.1)
    engine = ReferenceEngine(chosen.prepare(votes))
    estimate = chosen.estimate(engine)
    start = chosen.start(engine.facts.n_features)
    low, high = chosen.bounds

    def objective(r, theta):
        value = engine.likelihood.derivatives(chosen.likelihood, r, theta).value
        return 0.05 * (r @ r + np.sum((theta - start) ** 2)) - value

    best = objective(estimate.scores, estimate.theta)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            r = estimate.scores + size * rng.normal(size=votes.n_items)
            theta = estimate.theta + size * rng.normal(size=estimate.theta.shape)
            assert objective(r, np.clip(theta, low, high)) > best
    assert ((estimate.theta >= low) & (estimate.theta <= high)).all()


def test_barp_of_one_class_is_bradley_terry(crowd):
    votes = crowd.comparisons()
    reduced = by_item(crowdsift.fit(votes, crowdsift.BARP(reduced=True)))
    plain = by_item(crowdsift.fit(votes, "bt"))
    for item in plain:
        assert reduced[item] == pytest.approx(plain[item], abs=1e-6)


def test_barp_takes_more_than_two_classes():
    drawn = crowdsift.simulate(30, 20, 6000, model="barp", seed=2)
    votes = drawn.comparisons().with_classes([f"c{j % 3}" for j in range(30)])
    fit = crowdsift.fit(votes, "barp")
    assert fit.converged
    assert "class_bias_2" in fit.worker_table
    assert "class_bias_3" not in fit.worker_table


def test_factor_bt_finds_the_side():
    """Workers who only press left follow the side, not the scores."""
    honest = crowdsift.simulate(20, 30, 6000, reliability=(0.8, 1.2), seed=4).comparisons()
    votes = crowdsift.add_spammers(honest, "left", 20, seed=1)
    fit = crowdsift.fit(votes, "factor-bt")
    spammers = np.array([str(worker).startswith("spam") for worker in fit.workers["worker"]])
    reliability, side = fit.workers["reliability"], fit.workers["side_bias"]
    assert reliability[spammers].max() < 0.3 < reliability[~spammers].min()
    assert (side[spammers] > 1.0).all()


def test_what_methods_need_is_said():
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["w", "v"])
    with pytest.raises(crowdsift.RequestError, match="--covariates"):
        crowdsift.fit(votes, "factor-bt")
    with pytest.raises(crowdsift.RequestError, match="--classes"):
        crowdsift.fit(votes, "barp")
    rows = crowdsift.evaluate(votes, {"a": 1, "b": 2, "c": 3})
    notes = {row["method"]: row["note"] for row in rows}
    assert "one half" in notes["factor-bt"]
    assert "the same as bt" in notes["barp"]


def test_paper_figures_on_passage(data_dir):
    """Within .005 in accuracy and .01 in tau of the published figures."""
    reference = data_dir.parent / "reference" / "paper_real.csv"
    if not reference.exists():
        pytest.skip(f"no published figures at {reference}")
    names = {
        "BT": "bt",
        "RC": "rank-centrality",
        "BARP": "barp",
        "CrowdBT": "crowd-bt",
        "HTCV": "htcv",
        "HBTL": "hbtl",
        "BoRaEM": "bora-em",
    }
    with reference.open() as file:
        published = {
            names[row["method"]]: row
            for row in csv.DictReader(file)
            if row["dataset"] == "passage" and row["method"] in names
        }
    rows = crowdsift.evaluate(data_dir / "passage.csv", data_dir / "passage_items.csv", list(published))
    for row in rows:
        paper = published[row["method"]]
        assert row["accuracy"] == pytest.approx(float(paper["acc"]), abs=0.005), row["method"]
        assert row["kendall_tau"] == pytest.approx(float(paper["tau"]), abs=0.01), row["method"]
