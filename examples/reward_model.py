"""Train a reward model on votes with row weights and soft labels, in plain PyTorch.

    python examples/reward_model.py [VOTES.jsonl]

Without a file a small one is made whose truth is known. The model is a bag of words, so that this
takes seconds; the loss is the one to use with a language model, too.
"""

from __future__ import annotations

from pathlib import Path

import torch
from preferences import exported, quality, run, texts_and_words


class RewardModel(torch.nn.Module):
    """The reward of a text: a sum over its words."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.words = torch.nn.EmbeddingBag(len(vocabulary) + 1, 1, mode="sum")
        torch.nn.init.zeros_(self.words.weight)

    def forward(self, texts: list[str]) -> torch.Tensor:
        """Return the reward of every text."""
        codes = [[self.vocabulary.get(word, 0) for word in text.split()] or [0] for text in texts]
        starts = torch.tensor([0, *(len(each) for each in codes[:-1])]).cumsum(0)
        return self.words(torch.tensor([code for each in codes for code in each]), starts)[:, 0]


def loss_of(reward: torch.Tensor, other: torch.Tensor, rows: list[dict]) -> torch.Tensor:
    """-weight * [s log σ(Δ) + (1 - s) log σ(-Δ)], the mean over rows."""
    soft = torch.tensor([row["soft_label"] for row in rows])
    weight = torch.tensor([row["weight"] for row in rows])
    loss = torch.nn.functional.binary_cross_entropy_with_logits(reward - other, soft, reduction="none")
    return (weight * loss).sum() / weight.sum()


def train(rows: list[dict], epochs: int = 30) -> RewardModel:
    """Fit the model to exported rows."""
    torch.manual_seed(0)
    _, words = texts_and_words(rows)
    model = RewardModel({word: code for code, word in enumerate(words, start=1)})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(epochs):
        optimizer.zero_grad()
        chosen, rejected = (model([row[side] for row in rows]) for side in ("chosen", "rejected"))
        loss_of(chosen, rejected, rows).backward()
        optimizer.step()
    return model


def main(votes: Path) -> RewardModel:
    """Export the votes, train, and say what the model prefers."""
    done, rows = exported(votes)
    print(f"{done.rows} rows, {done.flipped} of them turned round")
    model = train(rows)
    rewards = model(list(model.vocabulary)).tolist()
    best = sorted(zip(rewards, model.vocabulary, strict=True), reverse=True)
    print("best words: ", ", ".join(word for _, word in best[:4]))
    print("worst words:", ", ".join(word for _, word in best[-4:]))
    return model


def agreement(model: RewardModel, texts: list[str]) -> float:
    """Return the share of pairs of texts of different quality that the model puts in order."""
    reward = model(texts).tolist()
    pairs = [(i, j) for i in range(len(texts)) for j in range(i) if quality(texts[i]) != quality(texts[j])]
    right = [(reward[i] > reward[j]) == (quality(texts[i]) > quality(texts[j])) for i, j in pairs]
    return sum(right) / len(right)


if __name__ == "__main__":
    run(main)
