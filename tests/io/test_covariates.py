"""Columns of covariates: what a name means, and where one is equal to another."""

from __future__ import annotations

import pytest

import crowdsift
from crowdsift.errors import InputError

VOTES = {
    "left": ["a", "a", "b", "c"],
    "right": ["b", "c", "c", "d"],
    "winner": ["left", "right", "tie", "left"],
    "worker": ["ann", "gpt", "gpt", "claude"],
    "left_org": ["OpenAI", "OpenAI", "Meta", None],
    "right_org": ["Meta", "Anthropic", "openai", "Anthropic"],
    "judge_org": [None, "OpenAI", "OpenAI ", "Anthropic"],
}


def found(name):
    """The covariate by item pair and worker."""
    votes = crowdsift.read(VOTES, covariates=[name])
    assert votes.feature_names == (name,)
    who = votes.workers[votes.worker_codes()]
    first, second = votes.items[votes.first], votes.items[votes.second]
    return {(str(w), f"{a}{b}"): float(x) for w, a, b, x in zip(who, first, second, votes.features[:, 0], strict=True)}


def test_own_maker_is_where_both_columns_are_equal():
    """1 for the left item, -1 for the right; 0 where either is empty."""
    assert found("org=judge_org") == {
        ("ann", "ab"): 0.0,
        ("gpt", "ac"): 1.0,
        ("gpt", "bc"): -1.0,
        ("claude", "cd"): -1.0,
    }


def test_a_value_is_one_maker_for_all():
    assert found("org = OpenAI") == {("ann", "ab"): 1.0, ("gpt", "ac"): 1.0, ("gpt", "bc"): -1.0, ("claude", "cd"): 0.0}
    assert found("worker=gpt")["gpt", "ac"] == 1.0  # one column, in favour of the first item


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("org=Open AI", "no row does; they have anthropic, meta, openai"),
        ("org=", "write NAME=VALUE or NAME=COLUMN"),
        ("maker=OpenAI", "maker"),
    ],
)
def test_what_is_equal_nowhere_is_said(name, says):
    with pytest.raises(InputError, match=says):
        crowdsift.read(VOTES, covariates=[name])
