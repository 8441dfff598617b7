"""Direct preference optimisation with soft labels on a tiny language model, in plain PyTorch.

    python examples/dpo.py [VOTES.jsonl]

Without a file a small one is made whose truth is known. The model is a GRU of some thousand
parameters, so that this takes seconds. The loss is that of DPO with the label of every row:

    -weight * [s log σ(β h) + (1 - s) log σ(-β h)],
    h = log π(chosen)/π₀(chosen) - log π(rejected)/π₀(rejected)

with s = soft_label. With s = 1 it is the loss of the paper (Rafailov et al., 2023).
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from preferences import exported, run, texts_and_words

BETA = 0.5


class LanguageModel(torch.nn.Module):
    """The next word from the words before it."""

    def __init__(self, vocabulary: dict[str, int], width: int = 24) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.words = torch.nn.Embedding(len(vocabulary) + 2, width)  # 0: padding, 1: the beginning
        self.memory = torch.nn.GRU(width, width, batch_first=True)
        self.next_word = torch.nn.Linear(width, len(vocabulary) + 2)

    def log_probability(self, texts: list[str]) -> torch.Tensor:
        """Log π of every text."""
        codes = [[self.vocabulary[word] for word in text.split() if word in self.vocabulary] for text in texts]
        longest = max(map(len, codes))
        target = torch.tensor([each + [0] * (longest - len(each)) for each in codes])
        given = torch.cat([torch.ones(len(texts), 1, dtype=torch.long), target[:, :-1]], dim=1)
        score = torch.log_softmax(self.next_word(self.memory(self.words(given))[0]), dim=-1)
        found = score.gather(2, target[:, :, None])[:, :, 0]
        return (found * (target != 0)).sum(dim=1)


def pretrained(rows: list[dict], epochs: int = 40) -> LanguageModel:
    """Return a model of all replies, good and bad, where preference optimisation begins."""
    torch.manual_seed(0)
    texts, words = texts_and_words(rows)
    model = LanguageModel({word: code for code, word in enumerate(words, start=2)})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        optimizer.zero_grad()
        (-model.log_probability(texts).mean() / 10).backward()
        optimizer.step()
    return model


def optimised(model: LanguageModel, rows: list[dict], epochs: int = 60) -> LanguageModel:
    """Return the model after preference optimisation, trained against its earlier state."""
    policy, sides = copy.deepcopy(model), ("chosen", "rejected")
    texts = {side: [row[side] for row in rows] for side in sides}
    with torch.no_grad():
        before = {side: model.log_probability(texts[side]) for side in sides}
    soft = torch.tensor([row["soft_label"] for row in rows])
    weight = torch.tensor([row["weight"] for row in rows])
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    for _ in range(epochs):
        optimizer.zero_grad()
        ratio = {side: policy.log_probability(texts[side]) - before[side] for side in sides}
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            BETA * (ratio["chosen"] - ratio["rejected"]), soft, reduction="none"
        )
        ((weight * loss).sum() / weight.sum()).backward()
        optimizer.step()
    return policy


def main(votes: Path) -> tuple[LanguageModel, LanguageModel]:
    """Export the votes, train, and say which words became more probable."""
    done, rows = exported(votes, keep=0.6)
    print(f"{done.rows} rows kept, {done.dropped} dropped, {done.flipped} turned round")
    model = pretrained(rows)
    policy = optimised(model, rows)
    words = list(model.vocabulary)
    with torch.no_grad():
        gain = (policy.log_probability(words) - model.log_probability(words)).tolist()
    order = sorted(zip(gain, words, strict=True), reverse=True)
    print("more probable:", ", ".join(word for _, word in order[:4]))
    print("less probable:", ", ".join(word for _, word in order[-4:]))
    return model, policy


if __name__ == "__main__":
    run(main)
