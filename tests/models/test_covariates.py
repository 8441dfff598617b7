"""sift with covariates of votes: coefficients of judges, what is kept, what is said and refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import crowdsift
from crowdsift.errors import InputError, RequestError
from crowdsift.fitting.estimate import Resources
from crowdsift.fitting.holdout import left_out_log_likelihood
from crowdsift.lab.evaluation import cross_validate
from crowdsift.report.terminal import show_fit


def judged(seed=0, rho=0.6, items=20, workers=10, each=100, side=0.0, width=0.0, extra=False):
    """Judges whose coefficients of length are N(.5, .3²); length goes with quality by rho."""
    rng = np.random.default_rng(seed)
    r = rng.normal(size=items)
    r = (r - r.mean()) / r.std()
    who = np.repeat(np.arange(workers), each)
    a = rng.integers(0, items, len(who))
    b = (a + rng.integers(1, items, len(who))) % items
    length = [rho * r[x] + np.sqrt(1 - rho**2) * rng.normal(size=len(who)) for x in (a, b)]
    gamma = rng.normal(0.5, 0.3, workers)
    z = 1.5 * (r[a] - r[b]) + gamma[who] * (length[0] - length[1]) + side
    at = rng.random(len(who))
    left, right = at < 1 / (1 + np.exp(width - z)), at > 1 / (1 + np.exp(-width - z))
    table = {
        "left": a,
        "right": b,
        "worker": who,
        "winner": np.where(left, "left", np.where(right, "right", "tie")),
        "left_chars": np.exp(length[0]),
        "right_chars": np.exp(length[1]),
    }
    if extra:
        table["noise"] = rng.normal(size=len(who))
    return table, r, gamma


def test_planted_coefficients_are_found_and_noise_is_left_out():
    """Length goes with quality; the true scores are those with length held equal."""
    table, r, gamma = judged(extra=True, each=200)
    fit = crowdsift.fit(table, covariates=["chars", "noise"])
    chars, noise = fit.summary["covariates"]
    assert (chars["name"], chars["used"], noise["used"]) == ("chars", True, False)
    assert chars["lower"] < 0.5 < chars["upper"]
    assert chars["evidence_gain"] > 3 > noise["evidence_gain"]
    assert any("does not support the covariate noise" in each for each in fit.warnings)
    found = fit.coefficients
    assert found["covariate"].tolist() == ["chars"] * 10
    inside = (found["lower"] < gamma) & (gamma < found["upper"])
    assert inside.sum() >= 7
    order = fit.item_table["item"].astype(int)
    held, as_is = fit.item_table["score"], fit.item_table["score_as_is"]
    assert np.corrcoef(held, r[order])[0, 1] > 0.97
    assert np.std(as_is) > np.std(held)  # the crowd likes length, and the good are long


def test_coefficients_do_not_depend_on_the_order_of_items(tmp_path, capsys):
    """A vote told the other way round is the same vote; a saved fit has the same coefficients."""
    table, _, _ = judged(seed=1, each=60)
    votes = crowdsift.read(table, covariates="chars", sides=False)
    turned = {
        **table,
        "left": table["right"],
        "right": table["left"],
        "winner": np.where(table["winner"] == "left", "right", "left"),
        "left_chars": table["right_chars"],
        "right_chars": table["left_chars"],
    }
    other = crowdsift.read(turned, covariates="chars", sides=False)
    one, two = crowdsift.fit(votes), crowdsift.fit(other)
    np.testing.assert_allclose(one.coefficients["coefficient"], two.coefficients["coefficient"], atol=1e-3)
    one.save(tmp_path)
    again = crowdsift.load(tmp_path)
    show_fit(again)
    shown = capsys.readouterr().out
    crowd = again.summary["covariates"][0]["crowd"]
    assert re.search(rf"chars +│ +{re.escape(f'{crowd:+.3f}')}", shown)
    assert "as is" in shown
    np.testing.assert_allclose(again.coefficients["upper"], one.coefficients["upper"], rtol=1e-6)
    with pytest.raises((InputError, RequestError)):
        one.update(table)


def test_side_ties_gold_and_left_out_votes():
    """The side is the first covariate; ties have their width; gold has no coefficient."""
    table, r, _ = judged(seed=2, side=0.8, width=0.4)
    best, worst = int(np.argmax(r)), int(np.argmin(r))
    gold = {"winner": [best], "loser": [worst]}
    fit = crowdsift.fit(table, covariates="chars", gold=gold)
    side, chars = fit.summary["covariates"]
    assert side["name"] == "side"
    assert side["lower"] < 0.8 < side["upper"]
    assert chars["used"]
    assert fit.coefficients.height == 20
    assert (fit.worker_table["tie_width"] > 0).all()


def test_covariates_foretell_left_out_votes():
    table, _, _ = judged(seed=1)
    votes = crowdsift.read(table, covariates="chars")
    without = votes.with_features(None)
    found, plain = (
        cross_validate(each, [crowdsift.Sift()], schemes=["votes"], count=2)[0]["log_loss"] for each in (votes, without)
    )
    assert found < plain
    assert left_out_log_likelihood(votes, crowdsift.Sift(), Resources(), count=2) > left_out_log_likelihood(
        without, crowdsift.Sift(), Resources(), count=2
    )


def test_a_covariate_that_items_have_is_only_a_difference_between_judges():
    table, _, _ = judged(seed=3, each=150)
    values = np.random.default_rng(6).normal(size=20)
    rng = np.random.default_rng(7)
    a, b, who = table["left"], table["right"], table["worker"]
    z = 1.5 * values[a] - 1.5 * values[b]
    z += np.where(who < 5, 1.5, -1.5) * (np.arange(20)[a] % 2 - np.arange(20)[b] % 2)
    table["winner"] = np.where(rng.random(len(a)) < 1 / (1 + np.exp(-z)), "left", "right")
    table["left_odd"], table["right_odd"] = (np.where(x % 2, "yes", "no") for x in (a, b))
    fit = crowdsift.fit(table, covariates="odd")
    (odd,) = [each for each in fit.summary["covariates"] if each["name"] == "odd"]
    assert odd["constant_for_items"]
    assert odd["crowd"] is None
    assert odd["spread"] > 0.5
    assert any("constant for an item" in each for each in fit.warnings)
    found = fit.coefficients["coefficient"][fit.coefficients["covariate"] == "odd"]
    assert found[:5].min() > 0.5 > -0.5 > found[5:].max()


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"left_chars": [2.0, 1.0], "right_chars": [1.0, 4.0]}, [np.log(2), -np.log(4)]),
        ({"left_chars": [0, 1], "right_chars": [1, 3]}, [-np.log(2), -np.log(2)]),
        ({"left_chars": [-1.0, 1.0], "right_chars": [1.0, 3.0]}, [-2.0, -2.0]),
        ({"chars_left": ["yes", "no"], "chars_right": ["no", "no"]}, [1.0, 0.0]),
        ({"chars": [0.5, -2.0]}, [0.5, -2.0]),
    ],
)
def test_columns_of_covariates(columns, wanted):
    table = {"left": ["a", "c"], "right": ["b", "d"], "winner": ["left", "right"], "worker": [1, 2], **columns}
    votes = crowdsift.read(table, covariates=["chars"])
    np.testing.assert_allclose(votes.features[:, 0], wanted, rtol=1e-6)


def test_bad_covariates_are_refused_with_their_place():
    table = {"left": ["a", "b"], "right": ["b", "c"], "winner": ["left", "right"], "worker": [1, 2]}
    with pytest.raises(InputError, match=r"no column 'chars' .* left_chars and right_chars"):
        crowdsift.fit(table, covariates="chars")
    with pytest.raises(InputError, match="has the column 'left_chars' but no 'right_chars'"):
        crowdsift.fit({**table, "left_chars": [1, 2]}, covariates="chars")
    with pytest.raises(InputError, match=r"row 2, column 'chars': .*'long' is not a number"):
        crowdsift.fit({**table, "chars": [1, "long"]}, covariates="chars")
    with pytest.raises(InputError, match=r"row 1, column 'chars'"):
        crowdsift.fit({**table, "chars": [float("nan"), 1.0]}, covariates="chars")
    with pytest.raises(RequestError, match="unknown option features"):
        crowdsift.fit(table, features="chars")
    same = {**table, "chars": [0.0, 0.0]}
    assert any("0 for every vote" in each for each in crowdsift.fit(same, covariates="chars").warnings)
    with pytest.raises(RequestError, match="not both at once"):
        crowdsift.fit(
            {**table, "chars": [1.0, 2.0]}, covariates="chars", items={"item": ["a", "b", "c"], "x": [1.0, 2.0, 4.0]}
        )
    with pytest.raises(RequestError, match="differ by context"):
        crowdsift.fit({**table, "topic": ["x", "x"], "chars": [1.0, 2.0]}, covariates="chars", by="topic")
