"""One contract for every model on every engine, and the answers that each must give."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import crowdsift
from crowdsift import BoraEM, BradleyTerry, Comparisons
from crowdsift.engines import ENGINES
from crowdsift.models import MODELS

METHODS = sorted(MODELS)
# The methods whose reliabilities tell an adversary from a coin.
SIGNED_METHODS = ["bora-em", "bora-map", "crowd-bt", "hbtl"]


@pytest.fixture(scope="module")
def crowd():
    return crowdsift.simulate(25, 12, 1500, reliability=(0.3, 1.2), seed=6)


def relaxed(method, votes):
    """The method in the form that these votes allow (barp without classes, and so on)."""
    return crowdsift.model(method).relax(votes)[0]


def by_item(fit):
    return dict(zip(fit.items["item"], fit.items["score"], strict=True))


# Fits by torch are compared with these, on fewer votes, in engines/test_torch.py.
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "torch"])
@pytest.mark.parametrize("method", METHODS)
def test_contract(method, engine, crowd):
    votes = crowd.comparisons()
    chosen = relaxed(method, votes)
    fit = crowdsift.fit(votes, chosen, engine=engine)
    assert fit.converged
    assert len(fit.trace) in (0, fit.summary["iterations"] + 1)
    again = crowdsift.fit(votes, chosen, engine=engine)
    assert fit.item_table.to_csv() == again.item_table.to_csv()
    score = fit.items["score"]
    assert np.isfinite(score).all()
    assert abs(score.mean()) < 1e-9
    assert (np.diff(score) <= 0).all()  # the best first
    assert fit.items["rank"].tolist() == list(range(1, 26))
    if method != "rank-centrality":  # which has no likelihood, hence no curvature
        assert (fit.items["lower"] < score).all()
        assert (fit.items["upper"] > score).all()
        assert (fit.items["rank_lower"] <= fit.items["rank"]).all()
        assert (fit.items["rank_upper"] >= fit.items["rank"]).all()
    assert fit.items["comparisons"].sum() == 2 * 1500
    assert fit.workers["comparisons"].sum() == 1500
    truth = dict(zip(crowd.items, crowd.scores, strict=True))
    order = [truth[item] for item in fit.items["item"]]
    assert crowdsift.metrics.kendall_tau(score, order) > 0.75


@pytest.mark.parametrize("method", METHODS)
def test_engines_give_the_same_fit(method, crowd):
    votes = crowd.comparisons()
    chosen = relaxed(method, votes)
    ours = by_item(crowdsift.fit(votes, chosen, engine="cpu"))
    theirs = by_item(crowdsift.fit(votes, chosen, engine="reference"))
    for item in ours:
        assert ours[item] == pytest.approx(theirs[item], abs=2e-5)


@pytest.mark.parametrize("method", METHODS)
def test_relabelling_and_threads_do_not_matter(method):
    drawn = crowdsift.simulate(items=80, workers=60, comparisons=30_000, seed=8)
    names = np.random.default_rng(1).permutation(80)
    renamed = Comparisons.from_arrays(
        names[drawn.first], names[drawn.second], worker=drawn.worker, outcome=drawn.outcome, sides_known=True
    )
    chosen = relaxed(method, renamed)
    one = by_item(crowdsift.fit(drawn.comparisons(), chosen, threads=1))
    two = by_item(crowdsift.fit(renamed, chosen, threads=2))
    for code, label in enumerate(drawn.items):
        assert one[label] == pytest.approx(two[names[code]], abs=1e-4)


@pytest.mark.parametrize("method", SIGNED_METHODS)
def test_finds_the_spammers(method):
    reliability = np.concatenate([np.full(30, 1.0), np.zeros(6), np.full(4, -1.0)])
    drawn = crowdsift.simulate(30, 40, 8000, reliabilities=reliability, seed=3)
    fit = crowdsift.fit(drawn.comparisons(), method)
    verdict = fit.workers["verdict"]
    assert (verdict[:30] == "reliable").all()
    assert (verdict[36:] == "adversarial").all()
    # 90 % intervals: one of six coin flippers may look weak.
    assert np.isin(verdict[30:36], ["random", "undecided", "weak"]).all()
    assert (verdict[30:36] == "weak").sum() <= 1


def test_bora_em_on_passage(data_dir):
    """The reference run of the method's definition."""
    votes = crowdsift.read(data_dir / "passage.csv")
    plain = crowdsift.fit(votes, BoraEM(accelerate=False))
    assert 55 <= plain.summary["iterations"] <= 65
    fit = crowdsift.fit(votes, "bora-em")
    assert 3 * fit.summary["iterations"] < plain.summary["iterations"]
    for each in (plain, fit):
        assert each.converged
        assert each.summary["mean_log_likelihood"] == pytest.approx(-0.418060, abs=1e-4)
    truth = data_dir / "passage_items.csv"
    bora, bt = crowdsift.evaluate(votes, truth, "bora-em,bt")
    for record, figures, slack in ((bora, (0.695882, 0.755587, 0.369829), 5e-4), (bt, (0.6805, 0.7434, 0.3408), 2e-3)):
        found = record["accuracy"], record["weighted_accuracy"], record["kendall_tau"]
        assert found == pytest.approx(figures, abs=slack)


def test_bora_em_fixed_point_depends_on_alternations(data_dir):
    votes = crowdsift.read(data_dir / "passage.csv")
    reached = {n: crowdsift.fit(votes, BoraEM(alternations=n)).summary["mean_log_likelihood"] for n in (1, 2)}
    assert reached[1] == pytest.approx(-0.4330, abs=1e-3)
    assert reached[2] == pytest.approx(-0.4300, abs=1e-3)


def test_bora_em_scores_have_unit_size(crowd):
    score = crowdsift.fit(crowd.comparisons(), "bora-em").items["score"]
    assert np.sqrt(np.mean(score**2)) == pytest.approx(1.0, abs=1e-12)


def test_bradley_terry_of_two_items_is_the_closed_form():
    """3 wins and 1 loss with penalty λ: d solves 3 - 4σ(d) = λd/2."""
    votes = Comparisons.from_arrays(["a", "a", "a", "b"], ["b", "b", "b", "a"])
    fit = crowdsift.fit(votes, BradleyTerry(penalty=1e-6, tolerance=1e-10))
    d = fit.items["score"][0] - fit.items["score"][1]
    assert d == pytest.approx(np.log(3.0), abs=1e-5)
    information = 4 * 0.75 * 0.25
    half = fit.items["upper"][0] - fit.items["score"][0]
    # a score is half the difference; its variance a quarter of 1/information
    assert half == pytest.approx(1.6448536 * 0.5 / np.sqrt(information), rel=1e-4)


def test_bradley_terry_is_the_penalised_maximum(crowd):
    """Against a general-purpose optimiser on the plain votes."""
    votes = crowd.comparisons()
    d_first, d_second = votes.first.astype(int), votes.second.astype(int)
    y, n = votes.outcome.astype(float), votes.weight.astype(float)

    def objective(r):
        d = r[d_first] - r[d_second]
        return np.sum(n * (np.logaddexp(0, d) - y * d)) + 0.005 * r @ r

    def gradient(r):
        slope = n * (1.0 / (1.0 + np.exp(r[d_second] - r[d_first])) - y)
        return np.bincount(d_first, slope, 25) - np.bincount(d_second, slope, 25) + 0.01 * r

    # Finite differences would leave the common level of all scores, which only the penalty determines, undetermined at
    # the last digits.
    best = minimize(objective, np.zeros(25), method="BFGS", jac=gradient, options={"gtol": 1e-7, "maxiter": 2000})
    found = by_item(crowdsift.fit(votes, BradleyTerry(penalty=0.01)))
    ours = np.array([found[item] for item in votes.items])
    assert objective(ours) <= best.fun + 1e-9
    np.testing.assert_allclose(ours, best.x, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "votes",
    [
        {"first": ["a"], "second": ["b"], "worker": ["w"]},
        {"first": ["a", "c"], "second": ["b", "d"], "worker": ["w", "v"]},
        {"first": ["a"] * 5, "second": ["b", "c", "d", "e", "f"], "worker": list("vwxyz")},
        {"first": ["a", "b", "c"], "second": ["b", "c", "a"], "worker": ["w"] * 3},
    ],
    ids=["one vote", "two islands", "never lost", "cycle of one worker"],
)
def test_small_and_odd_votes_have_an_answer(method, votes):
    comparisons = Comparisons.from_arrays(**votes)
    chosen = relaxed(method, comparisons)
    fit = crowdsift.fit(comparisons, chosen)
    assert fit.converged
    assert np.isfinite(fit.items["score"]).all()
    again = crowdsift.fit(comparisons, chosen)
    assert fit.item_table.to_csv() == again.item_table.to_csv()


@pytest.mark.parametrize("method", METHODS)
def test_islands_are_ranked_apart(method):
    votes = Comparisons.from_arrays(["a", "a", "y"], ["b", "c", "x"], worker=["w", "w", "w"])
    fit = crowdsift.fit(votes, relaxed(method, votes))
    assert fit.summary["components"] == 2
    assert any("2 components" in note for note in fit.warnings)
    place = {row["item"]: (row["component"], row["rank"]) for row in fit.item_table.records()}
    assert place == {"a": (1, 1), "b": (1, 2), "c": (1, 2), "x": (2, 2), "y": (2, 1)}


@pytest.mark.parametrize("method", METHODS)
def test_all_ties_hold_no_order(method):
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["w", "v"], outcome=[0.5, 0.5])
    fit = crowdsift.fit(votes, relaxed(method, votes))
    assert fit.converged
    np.testing.assert_array_equal(fit.items["score"], 0.0)
    assert fit.items["rank"].tolist() == [1, 1, 1]
    assert np.isnan(fit.workers["agreement"]).all()


def test_no_information_is_said():
    votes = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["w", "v"])
    fit = crowdsift.fit(votes, BoraEM(start_reliability=0.0))
    assert any("no information" in note for note in fit.warnings)
    assert not fit.items["score"].any()
    assert not fit.workers["reliability"].any()
    assert fit.summary["mean_log_likelihood"] == pytest.approx(np.log(0.5))


def test_huge_margins_stay_finite():
    """Many votes for one order: margins far beyond what exp can hold."""
    votes = Comparisons.from_arrays(["a", "b", "c"], ["b", "c", "d"], worker=["w"] * 3, weight=[1e6] * 3)
    for chosen in (BoraEM(reliability_sd=1e3), BradleyTerry(penalty=1e-8)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", crowdsift.ConvergenceWarning)
            fit = crowdsift.fit(votes, chosen)
        assert fit.items["item"].tolist() == ["a", "b", "c", "d"]
        assert np.isfinite(fit.items["score"]).all()
        assert np.isfinite(fit.summary["log_likelihood"])


@pytest.mark.parametrize("chosen", [BoraEM(most_iterations=2), BradleyTerry(most_iterations=1)])
def test_failing_to_converge_is_said(chosen, crowd):
    with pytest.warns(crowdsift.ConvergenceWarning, match="did not converge"):
        fit = crowdsift.fit(crowd.comparisons(), chosen)
    assert not fit.converged
    assert any("did not converge" in note for note in fit.warnings)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (BoraEM, {"alternations": 0}, "alternations must be above 0"),
        (BoraEM, {"alternations": 2.5}, "alternations must be a whole number, not 2.5"),
        (BoraEM, {"alternations": True}, "alternations must be a whole number"),
        (BoraEM, {"tolerance": "x"}, "tolerance must be a number"),
        (BoraEM, {"start_reliability": float("inf")}, "start_reliability must be finite"),
        (BoraEM, {"reliability_sd": -1.0}, "reliability_sd"),
        (BoraEM, {"item_ridge": float("nan")}, "item_ridge"),
        (BradleyTerry, {"penalty": 0.0}, "penalty must be above 0"),
        (BradleyTerry, {"tolerance": -1.0}, "tolerance must be at least 0"),
    ],
)
def test_impossible_parameters_are_refused(kind, values, message):
    with pytest.raises(crowdsift.RequestError, match=message):
        kind(**values)


def test_unknown_methods_and_parameters():
    with pytest.raises(crowdsift.RequestError, match="did you mean 'bora-em'"):
        crowdsift.model("boraem")
    with pytest.raises(crowdsift.RequestError, match="no parameter 'sigma'; it has alternations"):
        crowdsift.model("bora-em", sigma=2)


def test_methods_of_workers_need_workers():
    votes = Comparisons.from_arrays(["a"], ["b"])
    with pytest.raises(crowdsift.RequestError, match="use method 'bt'"):
        crowdsift.fit(votes, "bora-em")
    fit = crowdsift.fit(votes, "bt")
    assert fit.summary["workers"] == 0
    assert fit.worker_table.height == 0


def test_progress_is_told_every_iteration(crowd):
    seen = []
    fit = crowdsift.fit(crowd.comparisons(), "bora-em", progress=lambda *report: seen.append(report))
    assert [iteration for iteration, _ in seen] == list(range(1, fit.summary["iterations"] + 1))
    assert seen[-1][1] <= 1e-6


def test_soft_outcomes_are_fractions_of_votes():
    """An outcome of 0.75 with weight 4 is three wins and one loss."""
    soft = Comparisons.from_arrays(["a", "b"], ["b", "c"], worker=["w", "w"], outcome=[0.75, 0.75], weight=[4, 4])
    hard = Comparisons.from_arrays(
        ["a"] * 4 + ["b"] * 4, ["b"] * 4 + ["c"] * 4, worker=["w"] * 8, outcome=[1, 1, 1, 0] * 2
    )
    for method in ("bt", "bora-em"):
        one, two = by_item(crowdsift.fit(soft, method)), by_item(crowdsift.fit(hard, method))
        for item in one:
            assert one[item] == pytest.approx(two[item], abs=1e-9)


def test_bora_em_of_balanced_votes_knows_no_names_of_workers():
    """Three of six workers vote against the other three: from equal slopes all votes cancel."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(20):
        names = rng.permutation(np.arange(6))
        who = np.repeat(names, 6)
        first = np.array((["a"] * 5 + ["b"]) * 3 + (["b"] * 5 + ["a"]) * 3)
        second = np.where(first == "a", "b", "a")
        votes = Comparisons.from_arrays(first.tolist(), second.tolist(), worker=who)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", crowdsift.SignWarning)
            fit = crowdsift.fit(votes, "bora-em", threads=1)
        assert fit.converged
        found.append([*fit.scores_of(["a", "b"]), *fit.workers["reliability"][np.sort(names[:3])]])
    np.testing.assert_allclose(np.abs(found[0]), [1.0, 1.0, 0.758, 0.758, 0.758], atol=1e-3)
    np.testing.assert_allclose(found, [found[0]] * len(found), atol=1e-9)


def test_bora_em_of_votes_that_hold_no_information_stays_at_zero():
    votes = Comparisons.from_arrays(list("abab"), list("baba"), worker=list("xxyy"))
    fit = crowdsift.fit(votes, "bora-em")
    assert not fit.items["score"].any()
    assert any("hold no information" in note for note in fit.warnings)
