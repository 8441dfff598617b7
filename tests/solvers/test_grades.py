"""Graded answers: cut points and weights against their definitions and planted crowds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import crowdsift
from crowdsift.solvers import grades
from crowdsift.solvers.grades import Graded, fit_cuts, grade_weights, log_probabilities


def drawn(rng, eta, cuts):
    """Grades of votes with these η: of the winner, with 0 for a tie."""
    edges = np.concatenate([-cuts[::-1], cuts]) if cuts[0] else np.append(-cuts[:0:-1], cuts)
    place = (rng.random(len(eta))[:, None] < 1 / (1 + np.exp(edges - eta[:, None]))).sum(axis=1)
    if cuts[0]:
        return place - len(cuts)
    return np.where(place >= len(cuts), place - len(cuts) + 1, place - len(cuts))


@pytest.mark.parametrize("cuts", [(0.5, 2.0), (0.0, 1.5), (0.4, 1.2, 2.5)])
def test_cut_points_are_covered_and_agree_with_a_plain_likelihood(cuts):
    cuts = np.array(cuts)
    inside = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        eta = rng.normal(size=700) * 1.8
        grade = drawn(rng, eta, cuts)
        sign = np.where(grade < 0, -1, 1)
        votes = Graded(sign * eta, np.abs(grade), np.ones(700), np.zeros(700), np.arange(700) % 7)
        found, error, *_ = fit_cuts(votes, 7)
        free = error > 0
        assert free.tolist() == (cuts > 0).tolist()
        inside.append(np.abs(found - cuts)[free] <= 1.645 * error[free])
    assert 0.85 <= np.mean(inside) <= 0.95


def test_scales_of_workers_are_learned_and_are_none_where_all_are_alike():
    for spread in (0.0, 0.4):
        rng = np.random.default_rng(5)
        log_scale, worker = spread * rng.normal(size=40), np.arange(8000) % 40
        eta = rng.normal(size=8000) * 1.8
        cuts = np.exp(log_scale[worker])[:, None] * np.array([0.5, 2.0])
        grade = np.array([drawn(rng, eta[i : i + 1], cuts[i])[0] for i in range(8000)])
        votes = Graded(np.where(grade < 0, -eta, eta), np.abs(grade), np.ones(8000), np.zeros(8000), worker)
        found = fit_cuts(votes, 40)
        if spread:
            assert 0.25 < found.variance**0.5 < 0.55
            assert np.corrcoef(found.log_scale, log_scale)[0, 1] > 0.9
        else:
            assert found.variance < 0.01


def test_cut_points_do_not_depend_on_where_the_search_starts():
    """A start without ties, or with fewer grades, is none for votes with them."""
    rng = np.random.default_rng(8)
    eta = 1.8 * rng.normal(size=3000)
    grade = drawn(rng, eta, np.array([0.4, 1.2, 2.5]))
    votes = Graded(np.where(grade < 0, -eta, eta), np.abs(grade), np.ones(3000), np.zeros(3000), np.arange(3000) % 7)
    found = fit_cuts(votes, 7)
    for other in ([0.0, 1.1, 2.0], [0.0, 1.1], [0.3, 1.1]):
        start = found._replace(points=np.array(other))
        np.testing.assert_allclose(fit_cuts(votes, 7, start).points, found.points, atol=1e-4)


def test_derivatives_are_those_of_the_expected_likelihood():
    rng = np.random.default_rng(0)
    votes = Graded(
        1.5 * rng.normal(size=400), rng.integers(0, 4, 400), rng.random(400), rng.random(400), rng.integers(0, 7, 400)
    )
    point, log_scale, h = np.array([0.4, 1.3, 2.2]), 0.2 * rng.normal(size=7), 1e-5
    factor = 0.1 * rng.normal(size=7)
    for place in range(5):
        move = h * (np.arange(5) == place)
        up, down = (
            grades._derivatives(votes, point + side * move[:3], factor + side * move[3], log_scale + side * move[4])[0]
            for side in (1, -1)
        )
        slope = grades._derivatives(votes, point, factor, log_scale)[1][:, place].sum()
        assert slope == pytest.approx((up - down) / (2 * h))


def test_probabilities_are_those_of_cumulative_logits():
    eta, cuts = np.linspace(-700, 700, 29), np.array([0.3, 1.0, 2.5])
    rows = np.tile(cuts, (29, 1))
    total = sum(np.exp(log_probabilities(side * eta, np.full(29, k), rows)) for k in (1, 2, 3) for side in (1, -1))
    total += np.exp(log_probabilities(eta, np.zeros(29, int), rows))
    assert total == pytest.approx(1, abs=1e-9)
    eta = np.linspace(-6, 6, 25)
    better = 1 / (1 + np.exp(1.0 - eta)) - 1 / (1 + np.exp(2.5 - eta))
    found = np.exp(log_probabilities(eta, np.full(25, 2), rows[:25]))
    assert found == pytest.approx(better, abs=1e-12)


def pseudo(eta, half, level, weights):
    """Log-likelihood of every vote's wins, losses and ties of a width; of ties the item ahead wins."""
    ahead = np.where(level == 0, np.abs(eta), eta)
    win, loss = -np.log1p(np.exp(half - ahead)), -np.log1p(np.exp(ahead + half))
    tie = np.log(-np.expm1(-2 * half)) - np.log1p(np.exp(-ahead - half)) - np.log1p(np.exp(ahead - half))
    return weights[0] * win + weights[1] * loss + weights[2] * tie


@pytest.mark.parametrize("half", [0.2, 0.4, 0.7])
def test_weights_have_the_gradient_of_the_grades_up_to_their_common_factor(half):
    rng = np.random.default_rng(1)
    cuts, eta, h = np.array([0.4, 1.2, 2.5]), np.repeat(np.linspace(-5, 5, 21), 60), 1e-6
    level = np.abs(drawn(rng, eta, cuts))
    level = np.append(level, np.arange(4))  # every grade, also where it is hardly given
    eta = np.append(eta, np.full(4, 4.5))
    rows, n = np.tile(cuts, (len(eta), 1)), len(eta)
    weights = grade_weights(eta, level, rows, np.full(n, half), np.ones(n), np.zeros(n, int))
    assert (weights >= 0).all()
    own = (pseudo(eta + h, half, level, weights) - pseudo(eta - h, half, level, weights)) / (2 * h)
    up, down = (log_probabilities(eta + step, level, rows) for step in (h, -h))
    true = (up - down) / (2 * h)
    factor = (own @ true) / (true @ true)
    assert own == pytest.approx(factor * true, abs=1e-6)


def test_ties_of_the_weights_are_as_wide_as_the_first_cut_point():
    rng = np.random.default_rng(2)
    cuts, eta, h = np.array([0.5, 2.0]), rng.normal(size=4000) * 1.8, 1e-6
    grade = drawn(rng, eta, cuts)
    level, eta = np.abs(grade), np.where(grade < 0, -eta, eta)
    weights = grade_weights(
        eta, level, np.tile(cuts, (4000, 1)), np.full(4000, 0.5), np.ones(4000), np.zeros(4000, int)
    )
    slope = (pseudo(eta, 0.5 + h, level, weights) - pseudo(eta, 0.5 - h, level, weights)).sum() / (2 * h)
    assert abs(slope) < 1e-3 * weights.sum()
    assert weights[2, level == 0].max() < 1.5 * weights[2, level == 0].min()  # no huge ones that cancel


def crowd(seed):
    rng = np.random.default_rng(seed)
    truth, slope = rng.normal(size=15), rng.uniform(0.8, 2.5, 25)
    slope[:3] = 0
    who, left = rng.integers(0, 25, 3000), rng.integers(0, 15, 3000)
    right = (left + rng.integers(1, 15, 3000)) % 15
    grade = drawn(rng, slope[who] * (truth[left] - truth[right]), np.array([0.5, 2.0]))
    return truth, {"left": left, "right": right, "rating": 3 - grade, "worker": who}


def test_sift_learns_cut_points_and_predicts_better_than_binary_votes():
    inside, losses = [], []
    for seed in range(5):
        _, rows = crowd(seed)
        out = np.arange(3000) % 5 == 0
        votes = crowdsift.read({name: column[~out] for name, column in rows.items()})
        fit, binary = (crowdsift.fit(x, threads=1, dimensions=1) for x in (votes, replace(votes, grades=None)))
        s = fit.summary
        for k, cut in ((1, 0.5), (2, 2.0)):
            inside.append(s[f"cut_point_{k}_lower"] <= cut <= s[f"cut_point_{k}_upper"])
        kept = out & (rows["rating"] != 3)
        p = [each.predict(*(rows[name][kept] for name in ("left", "right", "worker"))) for each in (fit, binary)]
        won = rows["rating"][kept] < 3
        losses.append([-np.log(np.where(won, each, 1 - each)).mean() for each in p])
        assert "cut_point_2" not in binary.summary
    assert np.sum(inside) >= 7
    assert np.mean(losses, axis=0)[0] < np.mean(losses, axis=0)[1]


def test_words_and_ratings_mean_the_same_and_other_methods_collapse():
    _, rows = crowd(9)
    words = np.array(["a>>b", "a>b", "a=b", "b>a", "b>>a"])[rows["rating"] - 1]
    same = {**{name: rows[name] for name in ("left", "right", "worker")}, "winner": words}
    one, two = crowdsift.read(rows), crowdsift.read(same)
    assert all((a == b).all() for a, b in zip(one.grades, two.grades, strict=True))
    centred = crowdsift.read({**rows, "rating": rows["rating"] - 3})
    assert (centred.grades.level == one.grades.level).all()
    assert any("other methods count them as votes" in note for note in one.intake.notes)
    sides = {"A>>B": "left", "B>>A": "right"}
    assert crowdsift.read(same, values=sides).grades is None
    plain = crowdsift.fit(replace(one, grades=None), "bt")
    assert (crowdsift.fit(one, "bt").items["score"] == plain.items["score"]).all()


@pytest.mark.parametrize(
    ("ratings", "message"),
    [
        ([1, 9], "row 2, column 'rating': the rating 9 is none of the whole numbers from 1 to 7,"),
        ([1, 2.5], "row 2, column 'rating': the rating 2.5 is none of the whole numbers from 1 to 5,"),
        ([-2, 4], "row 2, column 'rating': the rating 4 is none of the whole numbers from -3 to 3,"),
        ([1, "x"], "row 2, column 'rating': 'x' is not a number"),
    ],
)
def test_ratings_outside_the_scale_are_refused(ratings, message):
    rows = {"left": ["a", "b"], "right": ["b", "c"], "rating": ratings, "worker": ["w", "w"]}
    with pytest.raises(crowdsift.InputError, match=message):
        crowdsift.read(rows)


@pytest.mark.parametrize(
    ("ratings", "scale"),
    [
        ([1, 2, 3], "of 1 to 5: 1 says that left is much better than right and 3 is a tie (given are 1 to 3"),
        ([1, 4, 4], "of 1 to 5: 1 says that left is much better than right and 3 is a tie (given are 1 to 4"),
        ([6, 1, 2], "of 1 to 7: 1 says that left is much better than right and 4 is a tie (given are 1 to 6"),
        ([0, 1, 2], "of -2 to 2: -2 says that left is much better than right and 0 is a tie (given are 0 to 2"),
        ([1, 5, 2], ""),
        ([-1, 0, 2], ""),
    ],
)
def test_a_note_states_the_scale_of_ratings_that_may_have_another_one(ratings, scale):
    rows = {"left": list("abc"), "right": list("bca"), "rating": ratings, "worker": ["w"] * 3}
    notes = [note for note in crowdsift.read(rows).intake.notes if "recode" in note]
    assert len(notes) == bool(scale)
    assert all(scale in note for note in notes)
