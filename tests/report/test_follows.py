"""The section of a report on covariates of votes and features of items."""

from __future__ import annotations

import re

import numpy as np

import crowdsift
from crowdsift.report.page import what_is_followed


def drawn():
    """Judges whom length sways; the first item's number is a feature of its score."""
    rng, r = np.random.default_rng(4), np.linspace(-1.5, 1.5, 12)
    a, who = rng.integers(0, 12, 1200), rng.integers(0, 6, 1200)
    b = (a + rng.integers(1, 12, 1200)) % 12
    length = rng.normal(size=1200)
    won = rng.random(1200) < 1 / (1 + np.exp(-1.5 * (r[a] - r[b]) - length))
    return {"left": a, "right": b, "worker": who, "winner": np.where(won, "left", "right"), "length": length}


def test_covariates_and_both_scores_are_shown():
    table = drawn()
    fit = crowdsift.fit(table, covariates="length")
    found = what_is_followed(fit)
    crowd = fit.summary["covariates"][0]["crowd"]
    assert [row["name"] for row in found["covariates"]] == ["length"]
    most = fit.worker_table["worker"][np.argmax(fit.worker_table["comparisons"])]
    assert found["judges"][0]["worker"] == str(most)
    held = dict(zip(fit.item_table["item"], fit.item_table["score_as_is"], strict=True))
    assert found["scores"][0]["as_is"] == held[fit.item_table["item"][0]]
    votes = crowdsift.read(table, covariates="length")
    html = fit.report(votes=votes, refit=False).html
    assert "What votes and scores follow" in html
    assert f"{crowd:+.3f}" in re.search(r'id="followed".*?</section>', html, re.DOTALL).group()


def test_features_are_shown_with_their_shares():
    table = drawn()
    items = {"item": np.arange(12), "number": np.arange(12.0)}
    fit = crowdsift.fit({k: v for k, v in table.items() if k != "length"}, items=items)
    found = what_is_followed(fit)
    assert not found["covariates"]
    assert found["features"]["blocks"][0]["share"] + found["features"]["own_share"] == 1.0
    section = re.search(r'id="followed".*?</section>', fit.report(refit=False).html, re.DOTALL)
    assert "not explained by features" in section.group()
