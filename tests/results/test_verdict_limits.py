"""The rules of verdicts at their limits, with distributions that are given by hand."""

from __future__ import annotations

import numpy as np
import pytest

from crowdsift.numeric.distributions import normal_distribution
from crowdsift.results.verdicts import shares, verdicts, words_of

TYPICAL = 2.0
AT = TYPICAL * np.array([-1.5, -0.5, -0.25, 0.0, 0.25, 0.5, 1.5])
CERTAIN = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)  # of the three workers who are the typical ones


def distribution(*workers):
    """P(β ≤ at) of workers whose values are given at AT, straight between them."""
    return lambda at: np.array([np.interp(at, AT, values) for values in workers])


def word(reliability, values, *, sign_known=False):
    """The verdict on a worker beside three typical ones, by whom its reliability is measured."""
    all_reliabilities = TYPICAL * np.array([1.0, 1.0, 1.0, reliability])
    below = distribution(CERTAIN, CERTAIN, CERTAIN, values)
    found = verdicts(all_reliabilities, below, sign_known)
    assert found.words[:3].tolist() == ["reliable"] * 3
    return found.words[3]


@pytest.mark.parametrize(
    ("reliability", "values", "expected"),
    [
        # 90 % above a quarter of the typical: reliable from half of it on, else weak.
        (0.5, (0, 0, 0, 0.0, 0.1, 0.2, 1), "reliable"),
        (0.49, (0, 0, 0, 0.0, 0.1, 0.2, 1), "weak"),
        (0.49, (0, 0, 0, 0.07, 0.1, 0.2, 1), "weak"),  # though 93 % are above 0
        # 89 %: weak if 95 % are above 0, undecided otherwise.
        (0.9, (0, 0, 0, 0.05, 0.11, 0.2, 1), "weak"),
        (0.9, (0, 0, 0, 0.06, 0.11, 0.2, 1), "undecided"),
        # 90 % within a quarter on both sides, though not 95 % within a half.
        (0.0, (0, 0.03, 0.04, 0.5, 0.945, 0.96, 1), "random"),
        (0.0, (0, 0.03, 0.06, 0.5, 0.945, 0.96, 1), "undecided"),
        # 95 % within a half, though not 90 % within a quarter.
        (0.0, (0, 0.02, 0.1, 0.5, 0.9, 0.98, 1), "random"),
        (0.0, (0, 0.02, 0.1, 0.5, 0.9, 0.96, 1), "undecided"),
        (0.0, (0.03, 0.04, 0.1, 0.5, 0.9, 0.98, 1), "undecided"),
        # The same within a half, but surely above 0: weak, not random.
        (0.2, (0, 0.0, 0.01, 0.04, 0.5, 0.99, 1), "weak"),
        (0.2, (0, 0.0, 0.01, 0.06, 0.5, 0.99, 1), "random"),
        # 90 % below minus a quarter.
        (-0.6, (0.2, 0.8, 0.9, 0.95, 0.97, 0.99, 1), "adversarial"),
        (-0.6, (0.2, 0.8, 0.89, 0.95, 0.97, 0.99, 1), "undecided"),
    ],
)
def test_limits(reliability, values, expected):
    assert word(reliability, values) == expected


def test_the_sign_by_gold_matters_only_where_nobody_is_above_zero():
    down = (1, 1, 1, 1, 1, 1, 1)  # certainly below everything asked
    beta = TYPICAL * np.array([-1.0, -1.0, -1.0, -0.1])
    within = (0, 0, 0.02, 0.96, 0.98, 1, 1)  # of the last: within a quarter of the typical
    below = distribution(down, down, down, within)
    assert verdicts(beta, below).words.tolist() == ["undecided"] * 4
    result = verdicts(beta, below, sign_known=True).words
    assert result.tolist() == ["adversarial"] * 3 + ["random"]
    # With workers above 0 the yardstick is theirs: 0.6 is more than half of 1, not of 4.
    values = (0, 0, 0, 0.0, 0.05, 0.2, 1)
    assert word(0.6, values, sign_known=True) == "reliable"
    mixed = TYPICAL * np.array([1.0, 1.0, 0.6, -4.0])
    result = verdicts(mixed, distribution(CERTAIN, CERTAIN, values, down), sign_known=True).words
    assert result.tolist() == ["reliable", "reliable", "reliable", "adversarial"]


def test_a_worker_counts_as_trusted_from_95_percent_on():
    """Two with .95 above 0 and reliability 3 make 3 typical; with .94 they do not count."""
    one = TYPICAL * np.array([1.0, 3.0, 3.0])
    for above, expected in ((0.95, "weak"), (0.94, "reliable")):
        values = (0, 0, 0, 1 - above, 1 - above, 1 - above, 1)
        found = verdicts(one, distribution(CERTAIN, values, values)).words[0]
        assert found == expected
    # By gold, those with at most .05 above 0: without them the others' 3 would be typical.
    turned = TYPICAL * np.array([-3.0, -1.0, -1.0, -1.0])
    edge = (0.9, 0.9, 0.9, 0.95, 1, 1, 1)
    below = distribution((1,) * 7, edge, edge, edge)
    assert verdicts(turned, below, sign_known=True).words.tolist() == ["adversarial"] * 4


def test_shares_add_up_and_are_those_of_a_quarter():
    below = distribution((0.0, 0.1, 0.2, 0.5, 0.7, 0.8, 1.0))
    adversarial, random, reliable = shares(below, TYPICAL)
    np.testing.assert_allclose([adversarial[0], random[0], reliable[0]], [0.2, 0.5, 0.3])
    crossing = distribution((0.0, 0.5, 0.9, 0.5, 0.2, 0.1, 1.0))  # not a distribution: no share < 0
    assert shares(crossing, TYPICAL)[1][0] == 0.0


def test_words_by_evidence_at_three_nats_and_half_the_typical():
    evidence = np.array([[-9.0, -3.0, 0.0], [-9.0, -2.99, 0.0], [0.0, -3.0, -9.0], [-4, -5, -9.0]])
    assert words_of(evidence, np.full(4, 1.0), 2.0, np.zeros(4)).tolist() == [
        "reliable", "undecided", "adversarial", "undecided",
    ]  # fmt: skip
    one_sided = np.array([[-9.0, -9.0, -4.0, 0.0], [-9.0, 0.0, -3.0, -1.0]])
    assert words_of(one_sided, np.zeros(2), 1.0, np.full(2, 0.5)).tolist() == [
        "one-sided",
        "random",
    ]
    assert words_of(evidence[:1], np.array([0.99]), 2.0, np.ones(1)).tolist() == ["weak"]


def test_nobody_is_accused_who_is_more_probably_useful_than_not():
    evidence = np.array([[0.0, -9, -9, -9], [-9, 0, -9, -9], [-9, -9, 0, -9], [-9, -9, -9, 0]])
    upper = np.full(4, 3.0)
    accused = ["adversarial", "random", "reliable", "one-sided"]
    assert words_of(evidence, upper, 1.0, np.full(4, 0.5)).tolist() == accused
    expected = ["undecided", "undecided", "reliable", "undecided"]
    assert words_of(evidence, upper, 1.0, np.full(4, 0.51)).tolist() == expected


@pytest.mark.parametrize("unit", [0.01, 0.3, 3.0, 100.0])
def test_words_are_the_same_in_any_unit_of_reliability(unit):
    """Just above and just below half the typical one as well."""
    beta = np.array([2.0, 2.0, 2.0, 1.01, 0.99, 0.0, -2.0])
    sd = np.array([0.1, 0.1, 0.1, 0.2, 0.2, 0.1, 0.3])
    expected = ["reliable"] * 4 + ["weak", "random", "adversarial"]
    found = verdicts(unit * beta, normal_distribution(unit * beta, unit * sd)).words
    assert found.tolist() == expected
