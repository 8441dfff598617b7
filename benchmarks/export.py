"""A reward model trained on exported votes, against one trained on the votes as they are.

Run with ``python -m benchmarks.export [--seeds N] [--kinds random,left,...]``.

Passage: 472 texts, votes on which is harder to read, 40 % spammers added to the workers. A third of the texts is left
out; only votes between the others are seen, by the fit too. A linear model on features of the text (TF-IDF of words,
and length of words and sentences) is trained by the logistic loss with a ridge penalty: on every vote as it is
(``raw``), or with the soft label and weight of the export (``export``); ``soft`` and ``weights`` use only one of the
two. The penalty is chosen the same way for all: the best agreement with left-out votes, spam included, in three folds
by text, soft labels made anew without the fold. The figure is the share of pairs of left-out texts that are ordered as
their grades.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import crowdsift
from benchmarks.data import data_folder
from crowdsift.io.items import match_items, read_item_values
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.numeric.metrics import measure

ARMS = ("raw", "export", "soft", "weights")
RIDGES = 10.0 ** np.arange(0.0, 3.5, 0.5)
Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


class Votes(NamedTuple):
    """One entry per vote: winner, loser and worker by code."""

    winner: Rows
    loser: Rows
    worker: Rows

    def where(self, keep: NDArray[np.bool_]) -> Votes:
        """Return some of the votes."""
        return Votes(self.winner[keep], self.loser[keep], self.worker[keep])


def features(texts: list[str]) -> Floats:
    """TF-IDF of words, and how long words and sentences are; all items alike, no votes used."""
    words = [re.findall(r"[a-z]+", text.lower()) for text in texts]
    found = Counter(word for text in words for word in set(text))
    vocabulary = sorted(word for word, count in found.items() if count >= 3)
    place = {word: i for i, word in enumerate(vocabulary)}
    table = np.zeros((len(texts), len(vocabulary)))
    for row, text in enumerate(words):
        for word in text:
            if word in place:
                table[row, place[word]] += 1.0
    rarity = np.log(len(texts) / np.array([found[word] for word in vocabulary]))
    table = np.log1p(table) * rarity
    table /= np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    sizes = np.array(
        [
            [
                np.mean([float(len(word)) for word in text] or [0.0]),
                np.mean([float(len(word) > 6) for word in text] or [0.0]),
                np.log1p(len(text)),
                np.log1p(len(text) / (1 + len(re.findall(r"[.!?]", whole)))),
            ]
            for text, whole in zip(words, texts, strict=True)
        ]
    )
    sizes = (sizes - sizes.mean(axis=0)) / sizes.std(axis=0)
    return np.hstack([table - table.mean(axis=0), 0.1 * sizes])


def labels(votes: Votes, arm: str) -> tuple[Floats, Floats]:
    """Target and weight of every vote."""
    target, weight = np.ones(len(votes.winner)), np.ones(len(votes.winner))
    if arm == "raw":
        return target, weight
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unsettled sign shows in the figures
        exported = crowdsift.soft_labels(
            {"winner": votes.winner, "loser": votes.loser, "worker": votes.worker}, threads=1
        )
    target = target if arm == "weights" else exported["soft_label"]
    weight = weight if arm == "soft" else exported["weight"]
    return target, weight / weight.mean()


def train(x: Floats, votes: Votes, target: Floats, weight: Floats, ridge: float, start: Floats | None) -> Floats:
    """Coefficients that minimise the weighted logistic loss with ½ ridge ‖θ‖², by Newton.

    The curvature is XᵀLX with L the Laplacian of the votes' curvatures, a matrix of the texts.
    """
    seen, code = np.unique(np.concatenate([votes.winner, votes.loser]), return_inverse=True)
    x, k = x[seen], len(seen)
    winner, loser = code[: len(votes.winner)], code[len(votes.winner) :]
    theta = np.zeros(x.shape[1]) if start is None else start.copy()
    pair = winner * k + loser
    for _ in range(30):
        reward = x @ theta
        chance = sigmoid(reward[winner] - reward[loser])
        left = weight * (target - chance)
        gradient = np.bincount(winner, left, k) - np.bincount(loser, left, k)
        curved = np.bincount(pair, weight * chance * (1 - chance), k * k).reshape(k, k)
        curved += curved.T
        laplacian = np.diag(curved.sum(axis=1)) - curved
        matrix = x.T @ laplacian @ x + ridge * np.eye(len(theta))
        step = np.linalg.solve(matrix, x.T @ gradient - ridge * theta)
        theta += step
        if np.abs(step).max() < 1e-4:
            break
    return theta


def folds(items: NDArray[np.int64], seed: int) -> Iterator[NDArray[np.bool_]]:
    """Three times: which of all items are left out."""
    mixed = np.random.default_rng([seed, 2]).permutation(items)
    for part in range(3):
        left_out = np.zeros(items.max() + 1, bool)
        left_out[mixed[part::3]] = True
        yield left_out


def chosen_ridge(x: Floats, votes: Votes, items: NDArray[np.int64], arm: str, seed: int) -> float:
    """Return the ridge whose models agree best with left-out votes."""
    agreed = np.zeros(len(RIDGES))
    for left_out in folds(items, seed):
        touched = left_out[votes.winner] | left_out[votes.loser]
        kept, rest = votes.where(~touched), votes.where(touched)
        target, weight = labels(kept, arm)
        theta = None
        for place in range(len(RIDGES) - 1, -1, -1):  # from the stiffest, each a start of the next
            theta = train(x, kept, target, weight, RIDGES[place], theta)
            reward = x @ theta
            agreed[place] += (reward[rest.winner] > reward[rest.loser]).sum()
    return float(RIDGES[agreed.argmax()])


def measured(kind: str, seed: int) -> dict[str, float]:
    """Share of pairs of left-out texts in the right order, for every arm."""
    clean = crowdsift.read(data_folder() / "passage.csv")
    source = data_folder() / "passage_items.csv"
    named, grades = read_item_values(source, "score")
    same, texts = read_item_values(source, "text", numeric=False)
    assert named.tolist() == same.tolist()
    place = match_items(clean, named)
    grade, text = grades[place], [str(t) for t in texts[place]]
    spammed = clean if kind == "none" else crowdsift.add_spammers(clean, kind, 40, seed)
    count = spammed.weight.astype(int)
    first, second = (np.repeat(c.astype(np.int64), count) for c in (spammed.first, spammed.second))
    won = np.repeat(spammed.outcome > 0.5, count)
    who = np.repeat(spammed.worker_codes().astype(np.int64), count)
    votes = Votes(np.where(won, first, second), np.where(won, second, first), who)
    items = np.random.default_rng([seed, 1]).permutation(clean.n_items)
    test, known = np.sort(items[: len(items) // 3]), np.sort(items[len(items) // 3 :])
    inside = np.zeros(clean.n_items, bool)
    inside[known] = True
    votes = votes.where(inside[votes.winner] & inside[votes.loser])
    # Coordinates along the training texts: the same ridge solutions, in fewer numbers.
    table = features(text)
    axes = np.linalg.svd(table[known], full_matrices=False)[2]
    x = table @ axes.T
    found = {}
    for arm in ARMS:
        ridge = chosen_ridge(x, votes, known, arm, seed)
        theta = train(x, votes, *labels(votes, arm), ridge, None)
        found[arm] = measure((x @ theta)[test], grade[test]).accuracy
    return found


def main() -> None:
    """One row a kind of spam: mean accuracy and standard error of every arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kinds", default="random,adversarial")
    options = parser.parse_args()
    print(f"{'spammers':14s}" + "".join(f"{arm:>18s}" for arm in ARMS) + f"{'export - raw':>20s}")
    for kind in options.kinds.split(","):
        records = [measured(kind, seed) for seed in range(options.seeds)]
        table = np.array([[record[arm] for arm in ARMS] for record in records])
        gain = table[:, 1] - table[:, 0]
        root = np.sqrt(options.seeds)
        columns = "".join(f"{column.mean():10.4f} ± {column.std(ddof=1) / root:.4f}" for column in table.T)
        print(f"{kind:14s}{columns}{gain.mean():+12.4f} ± {gain.std(ddof=1) / root:.4f}", flush=True)


if __name__ == "__main__":
    main()
