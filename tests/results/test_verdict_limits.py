"""The rule of verdicts at its limits, with evidence and intervals given by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import crowdsift
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.results import verdicts
from crowdsift.results.verdicts import shares, side_information, words_of

TYPICAL = 2.0
FAR = -9.0
INFORMATIVE = (FAR, -3.0, 0.0)
RANDOM = (FAR, 0.0, -3.0)
ADVERSARIAL = (0.0, -1.0, -3.0)


def word(evidence, interval, *, usual=None, useful=0.0, votes=60.0, agreement=np.nan, left=np.nan, one_sided=False):
    """The verdict on one worker; `usual` is the interval of 90 % beside another level."""
    intervals = [tuple(np.array([each]) for each in ends) for ends in (interval, usual or interval)]
    found = words_of(
        np.array([evidence], float),
        np.array([useful]),
        TYPICAL,
        intervals,
        np.array([votes]),
        np.array([agreement]),
        np.array([left]),
        np.array([one_sided]),
    )
    return found[0]


@pytest.mark.parametrize(
    ("evidence", "interval", "expected"),
    [
        (INFORMATIVE, (0.5, 2.0), "reliable"),
        ((FAR, -2.99, 0.0), (0.5, 2.0), "undecided"),
        ((-2.99, FAR, 0.0), (0.5, 2.0), "undecided"),
        (INFORMATIVE, (0.0, 2.0), "undecided"),  # the interval holds 0
        # Above 0 and below half the typical, by the evidence of the votes or not.
        (INFORMATIVE, (0.2, 0.99), "weak"),
        ((FAR, -1.0, 0.0), (0.2, 0.99), "weak"),
        (RANDOM, (0.01, 0.99), "weak"),
        (RANDOM, (0.01, 1.5), "weak"),
        # Around 0, and within half the typical on both sides.
        (RANDOM, (0.0, 0.99), "random"),
        (RANDOM, (-0.99, 0.3), "random"),
        (RANDOM, (-0.1, 1.0), "undecided"),
        (RANDOM, (-1.0, 0.3), "undecided"),
        ((FAR, 0.0, -2.99), (-0.1, 0.3), "undecided"),
        # Below 0.
        (ADVERSARIAL, (-2.0, -0.1), "adversarial"),
        (ADVERSARIAL, (-2.79, 0.99), "undecided"),
        ((0.0, -1.0, -2.99), (-2.0, -0.1), "undecided"),
        (RANDOM, (-0.4, -0.01), "undecided"),  # neither word would be true
    ],
)
def test_limits(evidence, interval, expected):
    assert word(evidence, interval) == expected


@pytest.mark.parametrize(
    ("evidence", "interval"), [(RANDOM, (-0.2, 0.3)), (ADVERSARIAL, (-2.0, -0.1)), ((FAR, -5, -4, 0.0), (-0.1, 0.1))]
)
def test_nobody_is_accused_who_may_be_useful_or_has_few_votes(evidence, interval):
    accused = word(evidence, interval, useful=0.1, left=0.9, votes=5.0)
    assert accused in ("random", "adversarial", "one-sided")
    assert word(evidence, interval, useful=0.11, left=0.9) == "undecided"
    assert word(evidence, interval, left=0.9, votes=4.9) == "undecided"
    assert word(INFORMATIVE, (0.5, 2.0), votes=4.9) == "undecided"


def test_no_verdict_contradicts_the_agreement_beside_it():
    assert word(INFORMATIVE, (0.5, 2.0), agreement=0.51) == "reliable"
    assert word(INFORMATIVE, (0.5, 2.0), agreement=0.5) == "undecided"
    assert word(INFORMATIVE, (0.2, 0.9), agreement=0.5) == "undecided"
    assert word(ADVERSARIAL, (-2.0, -0.1), agreement=0.49) == "adversarial"
    assert word(ADVERSARIAL, (-2.0, -0.1), agreement=0.5) == "undecided"


def test_no_verdict_contradicts_the_interval_of_another_level():
    """Both intervals, that of the table and that of 90 %, must be where the word says."""
    assert word(RANDOM, (0.05, 0.2), usual=(-0.1, 0.4)) == "undecided"
    assert word(ADVERSARIAL, (-3.0, 0.1), usual=(-2.0, -0.1)) == "undecided"
    assert word(ADVERSARIAL, (-1.2, -0.5), usual=(-2.0, 0.1)) == "undecided"
    assert word(INFORMATIVE, (-0.1, 2.0), usual=(0.5, 1.8)) == "undecided"


def test_one_sided_is_checked_first_and_needs_a_lean():
    side = (FAR, -4.0, -3.0, 0.0)
    assert word(side, (-0.1, 0.3), left=0.9) == "one-sided"
    assert word(side, (-0.1, 0.3), left=0.25) == "one-sided"
    assert word(side, (-0.1, 0.3), left=0.26) == "undecided"
    assert word((FAR, -4.0, -2.99, 0.0), (-0.1, 0.3), left=0.9) == "undecided"
    # By the information that a side bias leaves, however well informed the rest is.
    assert word(INFORMATIVE, (1.0, 2.0), useful=1.0, left=0.93, one_sided=True) == "one-sided"
    assert word(INFORMATIVE, (1.0, 2.0), useful=1.0, left=0.7, one_sided=True) == "reliable"


def test_information_given_a_side_bias_is_that_of_its_integral():
    d = np.random.default_rng(1).normal(0.0, np.sqrt(2.0), 200_000)

    def held(beta, gamma):
        p = 1.0 / (1.0 + np.exp(-beta * d - gamma))
        return float(np.mean(p * (1.0 - p)))

    for beta, gamma in ((0.5, 1.0), (1.0, 2.0), (1.3, 3.7), (2.0, 3.0)):
        found = side_information(np.array([beta]), np.array([gamma]), 2.0)[0]
        assert found == pytest.approx(held(beta, gamma) / held(beta, 0.0), abs=0.06)


def test_shares_add_up_and_are_those_of_a_quarter():
    at = TYPICAL * np.array([-1.5, -0.5, -0.25, 0.0, 0.25, 0.5, 1.5])

    def distribution(values):
        return lambda x: np.array([np.interp(x, at, values)])

    below = distribution((0.0, 0.1, 0.2, 0.5, 0.7, 0.8, 1.0))
    adversarial, random, reliable = shares(below, TYPICAL)
    np.testing.assert_allclose([adversarial[0], random[0], reliable[0]], [0.2, 0.5, 0.3])
    crossing = distribution((0.0, 0.5, 0.9, 0.5, 0.2, 0.1, 1.0))  # not a distribution: no share < 0
    assert shares(crossing, TYPICAL)[1][0] == 0.0


def test_judges_that_are_models_are_used_or_left_out():
    rng = np.random.default_rng(1)
    first = rng.integers(12, size=1600)
    second = (first + rng.integers(1, 12, size=1600)) % 12
    who = rng.integers(8, size=1600)
    wins = rng.random(1600) < 1 / (1 + np.exp((second - first) / 2.0 * (who > 0)))
    for name, allowed in (("w{}", ("pay", "review", "block")), ("gpt-4-{}", ("use", "review", "leave out"))):
        rows = {
            "first": first,
            "second": second,
            "outcome": wins.astype(float),
            "worker": [name.format(i) for i in who],
        }
        found = crowdsift.fit(rows).worker_table["suggestion"].tolist()
        assert found[1:] == [allowed[0]] * 7
        assert found[0] in allowed[1:]


@pytest.mark.parametrize(("method", "sides"), [("bora-map", True), ("bora-map", False), ("htcv", True)])
def test_planted_workers_have_the_verdict_of_their_kind(method, sides):
    """Also where a method gives some workers a reliability of exactly 0, which says nothing of the usual one."""
    rng = np.random.default_rng(5)
    slope = np.repeat([2.0, 0.0, -2.0], (20, 8, 2)) if method == "bora-map" else np.repeat([2.0, 0.0], (12, 18))
    worker = np.repeat(np.arange(30), 80)
    left, right = rng.integers(0, 20, (2, 2400))
    scores = rng.permutation(np.linspace(-1.5, 1.5, 20))
    wins = rng.random(2400) < 1 / (1 + np.exp(-slope[worker] * (scores[left] - scores[right])))
    keep = left != right
    votes = {"first": left[keep], "second": right[keep], "outcome": wins[keep].astype(float), "worker": worker[keep]}
    fit = crowdsift.fit(votes, method, sides=sides)
    expected = np.array([{2.0: "reliable", 0.0: "random", -2.0: "adversarial"}[each] for each in slope])
    verdict = fit.worker_table["verdict"]
    assert (verdict == expected)[slope != 0.0].all()
    assert (verdict == expected)[slope == 0.0].mean() > 0.7


def test_types_of_workers_treat_both_sides_alike():
    np.testing.assert_array_equal(verdicts._LEANS, -verdicts._LEANS[::-1])
    np.testing.assert_allclose(np.sort(verdicts._SIDES), np.sort(1.0 - verdicts._SIDES))


@pytest.mark.parametrize("sides", [False, True])
def test_votes_without_information_leave_the_classes_their_prior_shares(sides):
    """Of types of a class, those with a usual lean have more of its share; a random type has no strong lean."""
    levels = 1.5 * np.concatenate([-verdicts._STEPS[::-1], [0.0], verdicts._STEPS])
    leans = verdicts._LEANS if sides else np.zeros(1)
    level, lean = np.repeat(levels, len(leans)), np.tile(leans, len(levels))
    more = len(verdicts._SIDES) * sides
    weights = verdicts._learned(np.zeros((7, len(level) + more)), level, lean, 1.5)
    of_class = np.append(verdicts._classes(level, 1.5), np.full(more, 3))
    shares = np.array(verdicts._SHARES[: 4 if sides else 3])
    np.testing.assert_allclose(np.bincount(of_class, weights), shares / shares.sum(), rtol=1e-9)
    if sides:
        good = weights[: len(level)][level == levels[-1]]
        np.testing.assert_allclose(good / good[2], np.exp(-2.0 * leans**2), rtol=1e-9)
        assert (weights[: len(level)][(level == 0.0) & (np.abs(lean) > 1.0)] == 0.0).all()


def stand_in(votes, scores, sd=None):
    """What the evidence of votes reads of a fit."""
    workers = SimpleNamespace(random_level=0.0)
    estimate = SimpleNamespace(scores=scores, workers=workers)
    return SimpleNamespace(votes=votes, estimate=estimate, model=crowdsift.BoraMAP(), score_sd=sd)


def test_log_likelihoods_of_types_are_those_of_the_votes_one_by_one():
    """Differences lie on the bins, so that only single precision rounds."""
    rng = np.random.default_rng(3)
    scores, n = np.array([0.0, 0.5, 1.5, 2.5, 4.0]), 300
    left = rng.integers(0, 5, n)
    right = (left + rng.integers(1, 5, n)) % 5
    votes = crowdsift.Comparisons.from_arrays(
        left, right, outcome=rng.choice([0.0, 0.5, 1.0], n), worker=rng.integers(0, 4, n), sides_known=True
    )
    levels, leans = np.array([-1.2, 0.0, 0.4, 2.0]), np.array([-0.7, 0.0, 1.1])
    found = verdicts._log_likelihoods(stand_in(votes, scores), levels, leans)
    z = (scores[votes.first] - scores[votes.second])[:, None, None] * levels[:, None] + leans
    chosen = np.where(votes.outcome[:, None, None] > 0.5, sigmoid(z), sigmoid(-z)).reshape(len(votes), -1)
    slips = np.log((1.0 - verdicts._SLIPS) * chosen + 0.5 * verdicts._SLIPS)
    sides = np.where(votes.outcome[:, None] > 0.5, np.log(verdicts._SIDES), np.log(1.0 - verdicts._SIDES))
    each = np.hstack([slips, sides]) * (votes.weight * (votes.outcome != 0.5))[:, None]
    exact = np.stack([each[votes.worker_codes() == worker].sum(axis=0) for worker in range(4)])
    np.testing.assert_allclose(found, exact - exact.max(axis=1, keepdims=True), rtol=1e-5, atol=1e-4)


def test_differences_are_shrunk_by_their_errors():
    """E[σ(bd)] for a normal d is close to σ of the shrunk difference times b."""
    votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    scores, sd, slope = np.array([1.5, -0.5]), np.array([0.6, np.nan]), 1.7
    shrunk = verdicts._differences(stand_in(votes, scores, sd), slope)(np.array([0]), np.array([1]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    mean = sigmoid(slope * (2.0 + 0.6 * nodes)) @ weights / weights.sum()
    assert sigmoid(slope * shrunk)[0] == pytest.approx(mean, abs=0.005)
    plain = verdicts._differences(stand_in(votes, scores), slope)(np.array([0]), np.array([1]))
    assert plain.tolist() == [2.0]


def test_shares_of_classes_depend_on_differences_of_evidence_alone():
    rng = np.random.default_rng(4)
    evidence = rng.normal(0.0, 3.0, (40, 4))
    found = verdicts.class_shares(evidence)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(verdicts.class_shares(evidence + rng.normal(0.0, 50.0, (40, 1))), found, atol=1e-9)
    sure = verdicts.class_shares(np.where(np.eye(4)[rng.integers(0, 4, 40)] > 0, 0.0, -60.0))
    assert (sure.max(axis=1) > 1.0 - 1e-9).all()


@pytest.mark.parametrize("sides", [False, True])
def test_evidence_of_the_other_sign_exchanges_adversaries_and_informative_workers(sides):
    """Scores and reliabilities of both signs explain the votes alike; the typical reliability stays positive."""
    rng = np.random.default_rng(8)
    scores, slope, n = np.linspace(-1.5, 1.5, 9), np.repeat([1.6, 0.0, -1.6], (60, 8, 12)), 80 * 120
    left = rng.integers(0, 9, n)
    right, worker = (left + rng.integers(1, 9, n)) % 9, np.repeat(np.arange(80), 120)
    wins = rng.random(n) < sigmoid(slope[worker] * (scores[left] - scores[right]))
    votes = crowdsift.Comparisons.from_arrays(left, right, outcome=wins.astype(float), worker=worker, sides_known=sides)
    found = []
    for sign in (1.0, -1.0):
        fitted = stand_in(votes, sign * scores)
        fitted.estimate.workers.reliability = sign * slope
        found.append(verdicts.vote_evidence(fitted))
    one, other = found
    assert one.typical == pytest.approx(1.6, rel=0.15)
    assert other.typical == pytest.approx(one.typical, rel=0.05)
    column = np.sign(slope) + 1  # adversarial, random, informative
    np.testing.assert_array_equal(np.argmax(one.evidence, axis=1), column)
    np.testing.assert_array_equal(np.argmax(other.evidence, axis=1), 2 - column)
