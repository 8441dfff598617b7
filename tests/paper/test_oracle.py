"""Who knows every reliability: the scores are where the stated objective is largest."""

from __future__ import annotations

import numpy as np

import crowdsift
from crowdsift.paper import Options, experiment
from crowdsift.paper.synthetic import ORACLE, oracle_scores


def objective(drawn, scores):
    """Σ log σ(±β d) - Σ r²/6, written out."""
    d = scores[drawn.first] - scores[drawn.second]
    signed = (2.0 * drawn.outcome - 1.0) * drawn.reliability[drawn.worker] * d
    return -np.logaddexp(0.0, -signed).sum() - (scores**2).sum() / 6.0


def test_no_neighbour_is_more_probable():
    drawn = crowdsift.simulate(12, 6, 400, reliability=(-1, 1), seed=3)
    scores = oracle_scores(drawn)
    h = 1e-4
    for item in range(12):
        step = h * (np.arange(12) == item)
        up, down = objective(drawn, scores + step), objective(drawn, scores - step)
        assert abs(up - down) / (2 * h) < 1e-5
        assert up + down < 2 * objective(drawn, scores)


def test_it_is_the_limit_beside_the_methods_and_knows_the_sign():
    """Few votes of workers of either sign: sift cannot tell the sign, the oracle can."""
    setting = {"beta": "[-1,1]", "sweep": "comparisons", "items": 30, "workers": 100}
    records = []
    for seed in range(3):
        chosen = experiment("synthetic", Options(seeds=3))
        records += chosen.run({**setting, "comparisons": 900, "seed": seed}, ("sift", ORACLE))
    means = {
        name: np.mean([r["figures"]["accuracy_up_to_sign"] for r in records if r["method"] == name])
        for name in ("sift", ORACLE)
    }
    assert means[ORACLE] > means["sift"]
    known = [r["figures"] for r in records if r["method"] == ORACLE]
    assert all(figures["accuracy"] == figures["accuracy_up_to_sign"] for figures in known)
