"""Some torture with fixed seeds; `make torture` goes on with fresh ones.

What `make torture` finds is pasted below as a test of its own, and stays.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference_engine.likelihood import ReferenceLikelihood

import crowdsift
from torture import AREAS, lives, sentences
from torture.shapes import SHAPES, made

# Some fifteen seconds in all.
CASES = {
    "files": 12,
    "shapes": 20,
    "lives": 6,
    "folders": 40,
    "kills": 3,
    "labels": 20,
    "arguments": 200,
    "core": 40,
    "states": 5,
    "signals": 2,
    "disks": 2,
    "pages": 1,
    "sentences": 36,
    "properties": 1,
}
BATCH = 10


def test_every_area_has_its_cases():
    assert set(CASES) == set(AREAS)


@pytest.mark.parametrize(
    ("area", "batch"), [(area, batch) for area, count in CASES.items() for batch in range(-(-count // BATCH))]
)
def test_torture(area, batch, tmp_path):
    for seed in range(BATCH * batch, min(BATCH * (batch + 1), CASES[area])):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            AREAS[area](seed, folder)
        except Exception as error:
            error.add_note(f"torture: AREAS[{area!r}]({seed}, folder)")
            raise


@pytest.mark.parametrize("seed", [329370523, 7016, 7064])
def test_lives(seed, tmp_path):
    """A fit that went on kept to what the earlier votes showed: no effect of pairs, no sides, sides that the new votes
    speak against."""
    lives.sift_life(seed, tmp_path)


def test_sentences_of_three_dimensions(tmp_path):
    """Weights of workers with 1,000 votes each on six items grew without end by the expected curvature."""
    sentences.case(345828304, tmp_path)


def test_two_dimensions_of_votes_that_ignore_the_items(tmp_path):
    """All answers are left: the common direction of exactly 0 made a singular matrix."""
    sentences.case(701094, tmp_path)


@pytest.mark.parametrize("seed", [700532, 701263])
def test_the_bias_of_a_panel_lies_in_its_interval(seed, tmp_path):
    """With few votes its posterior is skewed: the mean was outside an interval of 55 %."""
    sentences.case(seed, tmp_path)


def test_a_message_of_the_reader_that_is_no_utf8(tmp_path):
    """DuckDB quotes a row in its message, and Python cannot read the message."""
    AREAS["files"](1503248110, tmp_path)


@pytest.mark.filterwarnings("ignore::crowdsift.ConvergenceWarning")
def test_newton_ends_where_rounding_keeps_the_gradient_above_the_tolerance():
    """Votes all for the left with weights of 1e6: 500 iterations, 119 s of the area `shapes` (1185812099)."""
    arrays = SHAPES["all_left"](np.random.default_rng(1185812099))
    votes = made(arrays, np.full(60, 1e6, np.float32))
    assert crowdsift.fit(votes, "htcv", threads=1).summary["iterations"] < 150


@pytest.mark.filterwarnings("ignore::crowdsift.ConvergenceWarning")
def test_the_specification_settles_workers_where_rounding_begins(monkeypatch):
    """The rest of that time: the reference engine took all 200 steps in 126 of 692 searches for parameters of
    workers."""
    steps = []
    search, problems = ReferenceLikelihood.fit_workers, ReferenceLikelihood._problems

    def begun(self, *given, **options):
        steps.append(0)
        return search(self, *given, **options)

    def counted(self, *given):
        steps[-1] += 1
        return problems(self, *given)

    monkeypatch.setattr(ReferenceLikelihood, "fit_workers", begun)
    monkeypatch.setattr(ReferenceLikelihood, "_problems", counted)
    arrays = SHAPES["all_left"](np.random.default_rng(1185812099))
    crowdsift.fit(made(arrays, np.full(60, 1e6)), "htcv", engine="reference", threads=1)
    assert len(steps) > 100
    assert max(steps) < 50


def test_a_whole_number_beyond_64_bits_is_a_number(tmp_path):
    """The core takes no whole number of that size in place of a number, and no array of them."""
    for seed in (1318027133, 495124682):
        AREAS["arguments"](seed, tmp_path)
    assert crowdsift.model("bora-map", reliability_mean=2**70).parameters()["reliability_mean"] == 2.0**70
    with pytest.raises(crowdsift.CrowdsiftError, match="above 0"):
        crowdsift.model("bora-map", reliability_mean=10**400)
