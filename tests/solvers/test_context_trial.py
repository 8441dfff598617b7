"""Whether workers may differ by context is asked cheaply first."""

from __future__ import annotations

import numpy as np
import pytest
from context_votes import draw_votes

import crowdsift
from crowdsift import Sift
from crowdsift.engines import choose_engine
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, mirrored
from crowdsift.solvers.ep.terms import contexts
from crowdsift.solvers.ep.terms.contexts import SideTree, TypeTree, spread_kernel
from crowdsift.solvers.ep.workers import power_grid


def fitted(votes, **values):
    """Fit without the terms that would count passes of their own: pooling and dimensions."""
    model = Sift(starts=("flat",), pooling="none", dimensions=1, **values)
    return crowdsift.fit(votes, model, threads=1).summary


def test_leaves_that_can_tell_anything():
    """Two contexts of three votes and more; neither single votes nor a single context do."""
    rows = {"winner": [], "loser": [], "worker": [], "topic": []}
    for worker, topic, votes in (
        ("a", "x", 3),
        ("a", "y", 4),
        ("a", "z", 1),
        ("b", "x", 9),
        ("b", "y", 2),
        ("c", "x", 1),
        ("c", "y", 1),
    ):
        for k in range(votes):
            rows["winner"].append(f"i{k}")
            rows["loser"].append(f"i{k + 1}")
            rows["worker"].append(worker)
            rows["topic"].append(topic)
    votes = crowdsift.read(rows, by="topic")
    apart = choose_engine("cpu", votes, 1).by_context(3.0)
    found = contexts._informative(apart, votes.n_workers)
    names = [str(votes.workers[apart.worker[k]]) for k in found]
    assert names == ["a", "a"]
    leaves = [(str(votes.workers[w]), c) for w, c in zip(apart.worker, apart.context, strict=True)]
    assert leaves == [("a", -1), ("a", 0), ("a", 1), ("b", -1), ("c", -1)]
    loads = apart.engine.counts.tally(np.zeros(votes.n_items)).loads
    assert loads.tolist() == [1.0, 3.0, 4.0, 11.0, 2.0]


def test_nothing_is_tried_on_a_vote_or_two_in_a_context():
    votes = draw_votes(0.5, 1.0, seed=1, each=2)
    same = fitted(votes, contexts=False)["passes"]
    assert fitted(votes)["passes"] <= same + 1.0  # which counts them


def test_workers_who_do_not_differ_cost_a_pass():
    votes = draw_votes(0.0, 0.0, seed=8)
    tried, same = fitted(votes), fitted(votes, contexts=False)
    assert tried["context_spread"] == 0.0
    assert tried["passes"] <= same["passes"] + 2.0


@pytest.mark.parametrize(("spread", "side_sd"), [(0.3, 0.0), (0.0, 0.5), (0.3, 0.8)])
def test_workers_who_differ_pass_the_screening(spread, side_sd, monkeypatch):
    votes = draw_votes(spread, side_sd, seed=7)
    screened = fitted(votes)
    monkeypatch.setattr(contexts, "_MIN_GAIN", -np.inf)
    monkeypatch.setattr(contexts.Contexts, "patience", 10**6)
    assert screened["evidence"] == fitted(votes)["evidence"]
    assert screened["context_spread"] > 0.0


def test_gains_are_differences_of_evidence():
    rng = np.random.default_rng(3)
    whole, levels = np.repeat(np.arange(40), 4), power_grid(25)
    points = mirrored(levels)
    centre = rng.uniform(1.0, 3.0, 40)[whole] * (1.0 + 0.4 * rng.normal(size=160))
    leaf = np.exp(-0.5 * ((points - centre[:, None]) / 0.3) ** 2)
    prior = np.where(points > 0, np.gradient(points), 1e-9)
    prior /= prior.sum()
    tree = TypeTree(whole, 40, RELIABILITY_ONLY)
    tree.gather(leaf, levels, np.zeros(40))

    def evidence(spread):
        through = np.log(leaf @ spread_kernel(points, spread).T)
        joint = np.exp(np.stack([through[whole == s].sum(axis=0) for s in range(40)]))
        return np.log(joint @ prior).sum()

    best = max(evidence(x) for x in (0.05, 0.1, 0.2, 0.4, 0.8)) - evidence(0.02)
    assert tree.gain(prior) == pytest.approx(best, rel=1e-9)
    assert best > 10.0
    alike = np.exp(-0.5 * ((points - 2.0) / 0.3) ** 2) * np.ones((160, 1))
    tree.gather(alike, levels, np.zeros(40))
    assert tree.gain(prior) == pytest.approx(0.0, abs=0.2)


def test_gains_of_sides_are_differences_of_evidence():
    rng = np.random.default_rng(4)
    whole, a = np.repeat(np.arange(50), 3), rng.gamma(2.0, 4.0, 150)
    h = a * rng.normal(0.1, 0.6, 150)
    side = SideTree(whole, 50)
    side.gather(a, h, SidePrior(0.1, 0.0))
    regular = rng.uniform(0.5, 1.0, 50)
    tried = [side.evidence(regular, w) for w in np.linspace(0.0, 2.0, 2001)]
    assert side.gain(regular) == pytest.approx(max(tried) - tried[0], abs=1e-3)
    side.gather(a, 0.1 * a, SidePrior(0.1, 0.0))
    assert side.gain(regular) == 0.0
