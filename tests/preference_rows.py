"""Files of votes and preferences for tests of what is exported."""

from __future__ import annotations

import json

import numpy as np

import crowdsift


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def mixed_votes(crowd, folder):
    """A file of votes with a column of its own, in a mixed order."""
    crowd.write(folder)
    lines = (folder / "votes.csv").read_text().splitlines()
    rows = np.random.default_rng(1).permutation(lines[1:])
    path = folder / "mixed.csv"
    noted = [f'{row},"note, {i} ""é"""' for i, row in enumerate(rows)]
    path.write_text("\n".join([lines[0] + ",note", *noted]) + "\n", encoding="utf-8")
    return path


def preferences(path, chat=False):
    """Preferences with columns chosen and rejected of their own; every seventh vote is wrong."""
    drawn = crowdsift.simulate(items=8, workers=6, comparisons=700, reliability=(1, 3), seed=2)
    votes = drawn.comparisons()
    won = votes.outcome > 0.5
    one = np.repeat(np.where(won, votes.first, votes.second), votes.weight.astype(int))
    two = np.repeat(np.where(won, votes.second, votes.first), votes.weight.astype(int))
    who = np.repeat(votes.worker_codes(), votes.weight.astype(int))

    def reply(code):
        text = f"reply {code} " + "word " * 5
        return [{"role": "assistant", "content": text}] if chat else text

    rows = [
        {"prompt": f"p{a % 2}", "chosen": reply(a), "rejected": reply(b), "annotator_id": int(s)}
        for a, b, s in zip(one, two, who, strict=True)
        if a % 2 == b % 2
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows
