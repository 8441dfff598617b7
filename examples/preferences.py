"""A small file of preferences with its truth: replies of known quality, annotators of all kinds."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

GOOD, BAD = ["clear", "correct", "kind", "short"], ["vague", "wrong", "rude", "endless"]
OTHER = ["the", "reply", "about", "cats", "and", "dogs", "is", "here", "today", "maybe"]


def write_preferences(path: Path, prompts: int = 250, annotators: int = 20, seed: int = 1) -> None:
    """Write TRL rows: three replies a prompt, every pair judged twice, a third clicks at random."""
    draw = random.Random(seed)
    kinds = ["random"] * (annotators // 3) + ["careful"] * (annotators - annotators // 3)
    with path.open("w", encoding="utf-8") as file:
        for prompt in range(prompts):
            replies = [reply(draw, prompt, place) for place in range(3)]
            for one, two in ((0, 1), (0, 2), (1, 2)):
                for who in draw.sample(range(annotators), 2):
                    slope = 0.0 if kinds[who] == "random" else 1.5
                    gap = slope * (quality(replies[one]) - quality(replies[two]))
                    won = draw.random() < 1.0 / (1.0 + math.exp(-gap))
                    chosen, rejected = (one, two) if won else (two, one)
                    row = {"prompt": f"Question {prompt}", "chosen": replies[chosen],
                           "rejected": replies[rejected], "annotator": f"person-{who}"}  # fmt: skip
                    file.write(json.dumps(row) + "\n")


def reply(draw: random.Random, prompt: int, place: int) -> str:
    """Some words, of which a few make a reply good or bad."""
    words = draw.choices(OTHER, k=8) + draw.choices(GOOD + BAD, k=4)
    draw.shuffle(words)
    return f"[{prompt}.{place}] " + " ".join(words)


def quality(text: str) -> int:
    """The truth: how many good words, less the bad ones."""
    words = text.split()
    return sum(word in GOOD for word in words) - sum(word in BAD for word in words)
