"""Measures of how well scores order items with known truth, in O(K log K).

All three figures are about pairs of items with different truth. Items are sorted by truth (equal truth: best score
first), and ranked by score (equal scores: last place first). With ties broken in this way, a pair is ordered correctly
if and only if both the place and the rank rise: equal scores count as wrong, and pairs of equal truth never count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crowdsift.errors import InputError
from crowdsift.numeric import Indices, Mask, Vector

__all__ = ["Metrics", "accuracy", "kendall_tau", "measure", "measure_up_to_sign", "weighted_accuracy"]


@dataclass(frozen=True)
class Metrics:
    """The three figures of one list of scores; see the functions of these names.

    Examples
    --------
    >>> from crowdsift.numeric.metrics import Metrics
    >>> Metrics(accuracy=1.0, weighted_accuracy=1.0, kendall_tau=1.0).kendall_tau
    1.0
    """

    accuracy: float
    weighted_accuracy: float
    kendall_tau: float


def accuracy(scores: ArrayLike, truth: ArrayLike) -> float:
    """Return the share of pairs with different truth that the scores order correctly.

    Parameters
    ----------
    scores
        One score an item, larger is better; infinite scores are allowed, NaN is not.
    truth
        The true score of each item, finite.

    Returns
    -------
    float
        In [0, 1], equal scores counting as wrong; NaN where no two items differ in truth.

    Examples
    --------
    >>> from crowdsift.numeric.metrics import accuracy
    >>> accuracy([0.1, 0.4, 0.4], [1, 2, 3])
    0.6666666666666666
    """
    return _Layout.of(scores, truth).accuracy()


def weighted_accuracy(scores: ArrayLike, truth: ArrayLike) -> float:
    """Return the accuracy with each pair weighted by its difference in truth.

    Examples
    --------
    >>> from crowdsift.numeric.metrics import weighted_accuracy
    >>> weighted_accuracy([0.1, 0.4, 0.4], [1, 2, 3])
    0.75
    """
    return _Layout.of(scores, truth).weighted_accuracy()


def kendall_tau(scores: ArrayLike, truth: ArrayLike) -> float:
    """Return Kendall's tau-b between scores and truth; NaN where no two items differ in truth, or no two in score.

    Examples
    --------
    >>> from crowdsift.numeric.metrics import kendall_tau
    >>> kendall_tau([1, 3, 2, 4], [1, 2, 3, 4])
    0.6666666666666666
    """
    return _Layout.of(scores, truth).kendall_tau()


def measure(scores: ArrayLike, truth: ArrayLike) -> Metrics:
    """Return all three figures of the scores, with their given sign.

    Examples
    --------
    >>> from crowdsift.numeric.metrics import measure
    >>> measure([0.1, 0.4, 0.9], [1, 2, 3])
    Metrics(accuracy=1.0, weighted_accuracy=1.0, kendall_tau=1.0)
    """
    layout = _Layout.of(scores, truth)
    return Metrics(layout.accuracy(), layout.weighted_accuracy(), layout.kendall_tau())


def measure_up_to_sign(scores: ArrayLike, truth: ArrayLike) -> Metrics:
    """Return the figures of `scores` or of ``-scores``, whichever has the larger Kendall tau.

    One sign is chosen for all three figures, so they describe one order of the items. It also has the larger accuracy,
    since both compare right pairs with wrong ones. A tau of 0 or NaN keeps the sign.

    Examples
    --------
    >>> from crowdsift.numeric.metrics import measure_up_to_sign
    >>> measure_up_to_sign([0.9, 0.4, 0.1], [1, 2, 3])
    Metrics(accuracy=1.0, weighted_accuracy=1.0, kendall_tau=1.0)
    """
    found = measure(scores, truth)
    return measure(-_numbers(scores, "scores"), truth) if found.kendall_tau < 0 else found


@dataclass(frozen=True, eq=False)
class _Layout:
    """Items in order of truth with their ranks by score, and the numbers of pairs.

    `truth`: ascending; `ranks`: the rank by score of the item at each place, a permutation of 0..K-1; `right`, `wrong`:
    pairs with different truth and different scores, ordered correctly or not; `truth_pairs`, `score_pairs`: pairs with
    different truth; pairs with different scores.
    """

    truth: Vector
    ranks: Indices
    right: int
    wrong: int
    truth_pairs: int
    score_pairs: int

    @classmethod
    def of(cls, scores: ArrayLike, truth: ArrayLike) -> _Layout:
        score, true = _checked(scores, truth)
        order = np.lexsort((-score, true))
        score, true = score[order], true[order]
        from_worst = len(score) - 1 - np.argsort(score[::-1], kind="stable")
        ranks = np.empty(len(score), dtype=np.int64)
        ranks[from_worst] = np.arange(len(score))
        pairs = len(score) * (len(score) - 1) // 2
        new_truth, new_score = true[1:] != true[:-1], score[1:] != score[:-1]
        ranked = score[from_worst]
        truth_pairs = pairs - _pairs_within(new_truth)
        score_pairs = pairs - _pairs_within(ranked[1:] != ranked[:-1])
        either = pairs - _pairs_within(new_truth | new_score)
        right = _rising_pairs(ranks)
        # Pairs that differ in both = differ in truth + differ in score - differ in either.
        wrong = truth_pairs + score_pairs - either - right
        return cls(true, ranks, right, wrong, truth_pairs, score_pairs)

    def accuracy(self) -> float:
        return self.right / self.truth_pairs if self.truth_pairs else math.nan

    def weighted_accuracy(self) -> float:
        """Return the sum over the gaps in truth: a pair counts for all gaps between its two places."""
        # The right pairs that span the gap after place k are the sum over the places j > k of `risen_j - falling_j`,
        # where `risen_j` counts the lower ranks before j and `falling_j` the higher ranks after it. Because the ranks
        # are a permutation, this difference is `j + rank_j - (K - 1)`, without counting inversions. Every term is
        # nonnegative, so nothing cancels, and a perfect order gives exactly 1.
        if not self.truth_pairs:
            return math.nan
        place = np.arange(len(self.ranks))
        surplus = place + self.ranks - (len(place) - 1)
        right = np.cumsum(surplus[:0:-1])[::-1].astype(np.float64)
        spanning = (place[1:] * place[:0:-1]).astype(np.float64)
        gaps = np.diff(self.truth)
        return float((gaps * right).sum() / (gaps * spanning).sum())

    def kendall_tau(self) -> float:
        if not (self.truth_pairs and self.score_pairs):
            return math.nan
        return (self.right - self.wrong) / math.sqrt(self.truth_pairs * self.score_pairs)


def _rising_pairs(ranks: Indices) -> int:
    """Return the number of places i < j of a permutation with ``ranks[i] < ranks[j]``."""
    # Two ranks differ first in one bit. For every bit from the highest: among ranks that agree in all higher bits,
    # count how often a rank with the bit unset stands before one with the bit set. Then move the former before the
    # latter. With padding to a power of two every block is full; padding counts as larger than everything before it.
    size = 1 << max(len(ranks) - 1, 0).bit_length()
    fillers = np.arange(len(ranks), size)
    count = -int(fillers.sum())
    ranks = np.concatenate([ranks, fillers])
    half = size // 2
    while half:
        upper = (ranks & half) != 0
        places = np.flatnonzero(upper)
        blocks = size // (2 * half)
        count += int((places & (2 * half - 1)).sum()) - blocks * (half * (half - 1) // 2)
        parts = [ranks[~upper].reshape(blocks, half), ranks[places].reshape(blocks, half)]
        ranks = np.stack(parts, axis=1).reshape(size)
        half //= 2
    return count


def _pairs_within(boundaries: Mask) -> int:
    """Return the number of pairs inside the runs of a list, given where new runs begin."""
    ends = np.concatenate([[0], np.flatnonzero(boundaries) + 1, [len(boundaries) + 1]])
    sizes = np.diff(ends)
    return int((sizes * (sizes - 1) // 2).sum())


def _checked(scores: ArrayLike, truth: ArrayLike) -> tuple[Vector, Vector]:
    score, true = _numbers(scores, "scores"), _numbers(truth, "true scores")
    if len(score) != len(true):
        raise InputError(f"{len(score)} scores but {len(true)} true scores; give one of each for every item")
    for what, bad in (
        ("a score that is not a number", np.isnan(score)),
        ("a true score that is not a finite number", ~np.isfinite(true)),
    ):
        if bad.any():
            raise InputError(f"{what}; leave the item out", row=int(np.argmax(bad)) + 1)
    return score, true


def _numbers(values: ArrayLike, name: str) -> Vector:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the {name} are not all numbers") from None
    if array.ndim != 1:
        raise InputError(f"the {name} need one entry per item, not shape {array.shape}")
    return array
