"""A small file of preferences with its truth: replies of known quality, annotators of all kinds."""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import crowdsift

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
                    row = {
                        "prompt": f"Question {prompt}",
                        "chosen": replies[chosen],
                        "rejected": replies[rejected],
                        "annotator": f"person-{who}",
                    }
                    file.write(json.dumps(row) + "\n")


def reply(draw: random.Random, prompt: int, place: int) -> str:
    """Return some words, of which a few make a reply good or bad."""
    words = draw.choices(OTHER, k=8) + draw.choices(GOOD + BAD, k=4)
    draw.shuffle(words)
    return f"[{prompt}.{place}] " + " ".join(words)


def quality(text: str) -> int:
    """Return the truth: how many good words, less the bad ones."""
    words = text.split()
    return sum(word in GOOD for word in words) - sum(word in BAD for word in words)


def exported(votes: Path, **options: Any) -> tuple[Any, list[dict]]:
    """Return what `export_votes` says, and its rows for TRL."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "train.jsonl")
        done = crowdsift.export_votes(votes, target, to="trl", **options)
        return done, [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]


def texts_and_words(rows: list[dict]) -> tuple[list[str], list[str]]:
    """All replies, and the words in them."""
    texts = [row[side] for row in rows for side in ("chosen", "rejected")]
    words = {word for text in texts for word in text.split() if not word.startswith("[")}
    return texts, sorted(words)


def run(main: Callable[[Path], Any]) -> None:
    """Run an example with the file of the command line, or with one that is made for it."""
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as place:
        made = Path(place, "votes.jsonl")
        write_preferences(made)
        main(made)
