"""Joint statements against closed forms and plain draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import crowdsift
from crowdsift.checks import joint
from crowdsift.results import predict


@pytest.fixture(scope="module")
def fit() -> crowdsift.Fit:
    votes = crowdsift.simulate(items=6, workers=9, comparisons=260, seed=2).comparisons()
    return crowdsift.fit(votes, "bt")


def covariance(fit: crowdsift.Fit) -> np.ndarray:
    """That of the scores in the order of the table, from the votes alone."""
    votes, score = fit.votes, fit.items["score"]
    place = {item: row for row, item in enumerate(fit.items["item"])}
    assert votes is not None
    code = np.array([place[item] for item in votes.items])
    one, two = code[votes.first], code[votes.second]
    p = 1 / (1 + np.exp(score[two] - score[one]))
    matrix = 0.01 * np.eye(6)
    for i, j, weight in zip(one, two, votes.weight * p * (1 - p), strict=True):
        matrix[i, i] += weight
        matrix[j, j] += weight
        matrix[i, j] -= weight
        matrix[j, i] -= weight
    centre = np.eye(6) - 1 / 6
    return np.asarray(centre @ np.linalg.inv(matrix) @ centre)


def test_two_items_have_one_difference() -> None:
    votes = crowdsift.Comparisons.from_arrays(["a"] * 13 + ["b"] * 7, ["b"] * 13 + ["a"] * 7)
    fit = crowdsift.fit(votes, "bt")
    found = fit.joint(level=0.9)
    # Both scores have the same error up to its sign, so one by one is jointly, too. 10,000 draws give the factor 1.645
    # with a standard error of 0.9 %.
    widths = [table["upper"] - table["lower"] for table in (found, fit.items)]
    assert widths[0] == pytest.approx(widths[1], rel=0.03)
    assert fit.better("a", "a") == 0.5  # no difference, and no error of it
    chance = fit.better("a", "b")
    assert found["p_best"] == pytest.approx([chance, 1 - chance], abs=0.01)
    gap = fit.difference("a", "b")
    z = gap["difference"][0] / ((gap["upper"][0] - gap["difference"][0]) / norm.ppf(0.95))
    for level in (0.55, 0.7, 0.8, 0.85, 0.95):
        both = fit.first_place(level) == [["a", "b"]]
        assert both == (z <= norm.ppf(level)), level  # one-sided
        assert fit.joint(level)["above_next"][0] == (z > norm.ppf(0.5 + level / 2)), level


def test_simultaneous_intervals_hold_together(fit: crowdsift.Fit) -> None:
    found, matrix = fit.joint(level=0.9), covariance(fit)
    sd = np.sqrt(np.diag(matrix))
    half = (found["upper"] - found["lower"]) / 2
    assert half / sd == pytest.approx(np.full(6, (half / sd)[0]), rel=1e-6)  # one factor for all
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(6), matrix, 200_000)
    inside = (np.abs(draws) <= half).all(axis=1).mean()
    assert inside == pytest.approx(0.9, abs=0.006)  # 20,000 draws: 3 standard errors
    alone = (np.abs(draws) <= norm.ppf(0.95) * sd).all(axis=1).mean()
    assert alone < 0.75


def test_probability_of_being_best_is_that_of_the_normal(fit: crowdsift.Fit) -> None:
    found, matrix, score = fit.joint(), covariance(fit), fit.items["score"]
    for item in range(6):
        others = [j for j in range(6) if j != item]
        contrast = np.zeros((5, 6))
        contrast[:, item] = -1.0
        contrast[np.arange(5), others] = 1.0
        exact = multivariate_normal(cov=contrast @ matrix @ contrast.T).cdf(-(contrast @ score))
        assert found["p_best"][item] == pytest.approx(exact, abs=0.012)
    assert fit.joint(top=6)["p_top_6"].tolist() == [1.0] * 6
    assert fit.joint(top=2)["p_top_2"].sum() == pytest.approx(2.0)


def test_groups_and_separations_by_plain_draws(fit: crowdsift.Fit) -> None:
    matrix, score = covariance(fit), fit.items["score"]
    draws = np.random.default_rng(1).multivariate_normal(np.zeros(6), matrix, 100_000)
    sd = np.sqrt(np.add.outer(np.diag(matrix), np.diag(matrix)) - 2 * matrix)
    np.fill_diagonal(sd, 1.0)
    for level in (0.7, 0.9, 0.99):
        shares = []
        for i in range(6):
            ratio = (draws - draws[:, [i]]) / sd[i]
            critical = np.quantile(ratio.max(axis=1), level)
            shares.append(((score - score[i]) / sd[i]).max() <= critical)
        pairs = np.abs(draws[:, :, None] - draws[:, None, :]) / sd
        critical = np.quantile(pairs.max(axis=(1, 2)), level)
        apart = [(score[i] - score[i + 1]) / sd[i, i + 1] > critical for i in range(5)]
        found = fit.joint(level)
        assert found["shares_first"].tolist() == shares
        assert found["above_next"].tolist() == [*apart, False]
        assert fit.first_place(level) == [fit.items["item"][found["shares_first"]].tolist()]


def test_the_matrix_is_what_predict_says() -> None:
    votes = crowdsift.simulate(items=7, workers=6, comparisons=500, seed=5).comparisons()
    for method in ("bt", "sift", "crowd-bt"):
        fit = crowdsift.fit(votes, method)
        matrix, labels = fit.win_matrix(), fit.labels
        for i in range(7):
            for j in range(7):
                if i != j:
                    assert matrix[i, j] == pytest.approx(fit.predict(labels[i], labels[j]), abs=1e-12)
        assert matrix + matrix.T == pytest.approx(np.ones((7, 7)))


def test_components_are_apart() -> None:
    votes = crowdsift.Comparisons.from_arrays(["a", "c", "d", "a"], ["b", "d", "c", "b"])
    fit = crowdsift.fit(votes, "bt")
    assert [len(group) for group in fit.first_place()] == [2, 2]
    assert np.isnan(fit.win_matrix()).sum() == 8
    found = fit.joint()
    assert found["p_best"].sum() == pytest.approx(2.0)


def test_many_items_count_as_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "MOST_ITEMS", 100)
    votes = crowdsift.simulate(items=110, workers=9, comparisons=900, seed=2).comparisons()
    fit = crowdsift.fit(votes, "sift")
    found = fit.joint()
    assert (found["upper"] - found["lower"] > fit.items["upper"] - fit.items["lower"]).all()
    assert 1 < found["shares_first"].sum() < 110
    many = crowdsift.simulate(items=1100, workers=9, comparisons=9000, seed=2).comparisons()
    with pytest.raises(crowdsift.RequestError, match="gives no intervals"):
        crowdsift.fit(many, "bt").joint()


def test_limits_are_on_the_scale_of_the_fit(fit: crowdsift.Fit) -> None:
    elo = fit.on_scale("elo", {"i1": 1500})
    factor = elo.summary["scale_factor"]
    plain, scaled = fit.joint(), elo.joint()
    assert scaled["upper"] - scaled["lower"] == pytest.approx(factor * (plain["upper"] - plain["lower"]))
    rate = fit.on_scale("winrate").joint()
    assert (rate["lower"] > 0).all()
    assert (rate["upper"] < 1).all()


def test_what_makes_no_sense_is_refused(fit: crowdsift.Fit) -> None:
    with pytest.raises(crowdsift.RequestError, match="top must be"):
        fit.joint(top=0)
    with pytest.raises(crowdsift.RequestError, match="level must be"):
        fit.joint(level=0.4)
    votes = crowdsift.Comparisons.from_arrays(["a", "b"], ["b", "a"])
    with pytest.raises(crowdsift.RequestError, match="gives no intervals"):
        crowdsift.fit(votes, "rank-centrality").joint()


@pytest.mark.parametrize("steep", [1.0, 400.0])
def test_a_matrix_of_many_items_has_the_probabilities_of_predict(monkeypatch: pytest.MonkeyPatch, steep: float) -> None:
    """Many distances are interpolated, also where a worker's curve is almost a step."""
    votes = crowdsift.simulate(items=16, workers=5, comparisons=900, seed=2).comparisons()
    fit = crowdsift.fit(votes, "sift")
    draws = predict.worker_draws

    def steeper(*given: Any) -> Any:
        points = draws(*given)
        return points._replace(reliability=steep * points.reliability)

    monkeypatch.setattr(predict, "worker_draws", steeper)
    calls: list[int] = []
    outcomes = predict.outcomes

    def counted(fit: Any, query: Any, **options: Any) -> Any:
        calls.append(len(query.difference))
        return outcomes(fit, query, **options)

    monkeypatch.setattr(predict, "outcomes", counted)
    matrix, labels = fit.win_matrix(), fit.labels
    assert (sum(calls) < 20) == (steep == 1.0)
    for i, j in [(0, 15), (3, 4), (8, 2)]:
        assert matrix[i, j] == pytest.approx(fit.predict(labels[i], labels[j]), abs=1e-7)
