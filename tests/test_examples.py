"""The examples train what they promise: models learn the planted truth from exported votes."""

from __future__ import annotations

import random
import sys
from importlib import import_module
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def example(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    preferences = import_module("preferences")
    votes = tmp_path / "votes.jsonl"
    preferences.write_preferences(votes, prompts=100)
    torch.set_num_threads(1)
    yield lambda name: (import_module(name), votes, preferences)
    for name in ("preferences", "reward_model", "reward_workers", "dpo"):
        sys.modules.pop(name, None)


def test_the_reward_model_puts_new_replies_in_order(example, capsys):
    module, votes, preferences = example("reward_model")
    model = module.main(votes)
    draw = random.Random(7)
    fresh = [preferences.reply(draw, 9999, place) for place in range(40)]
    assert module.agreement(model, fresh) > 0.9
    best, worst = capsys.readouterr().out.splitlines()[1:]
    assert set(best.partition(":")[2].strip().split(", ")) == set(preferences.GOOD)
    assert set(worst.partition(":")[2].strip().split(", ")) == set(preferences.BAD)


def test_preference_optimisation_moves_probability_to_good_words(example, capsys):
    module, votes, preferences = example("dpo")
    before, after = module.main(votes)
    with torch.no_grad():
        gain = {
            word: (after.log_probability([word]) - before.log_probability([word])).item()
            for word in (*preferences.GOOD, *preferences.BAD)
        }
    assert min(gain[word] for word in preferences.GOOD) > max(gain[word] for word in preferences.BAD)


def test_a_reward_model_finds_workers_who_answer_the_opposite(example):
    module, _, _ = example("reward_workers")
    raw, with_workers, reliability = module.main()
    assert with_workers > raw + 0.05
    assert (reliability[:12] < -0.5).all()
    assert (reliability[12:36] > 0.5).all()
